//! XChaCha20-Poly1305 for many datagrams of one boot.
//!
//! XChaCha20-Poly1305 with a key and a nonce of 24 bytes is ChaCha20-Poly1305 (RFC 8439) with another key and nonce
//! (draft-irtf-cfrg-xchacha, 2.3): the key is `HChaCha20(key, first 16 bytes)`, and the nonce four zero bytes and the last 8.
//! The first 16 bytes of our nonces are the sender's boot. So a [`BootKey`] holds that key, computed once, and the nonce of a
//! datagram is its counter. The datagrams are the same as without a [`BootKey`], byte for byte, and so is every claim of
//! [`seal`](super) about nonces.
//!
//! The stream cipher and the authenticator are those of RustCrypto. Their combination is written here and not taken from
//! `chacha20poly1305`, which calls the stream cipher for each block of 64 bytes. The vector code of the cipher computes four
//! blocks at a time, whether one or all four are used: a datagram of one message costs one such step here, for the key of the
//! authenticator and for the text, and not two. Tests compare the results with those of `chacha20poly1305`.

use chacha20::cipher::{KeyIvInit, StreamCipher};
use chacha20::{ChaCha20, R20, hchacha};
use poly1305::universal_hash::{KeyInit, UniversalHash};
use poly1305::{Block, Poly1305};
use zeroize::{Zeroize, Zeroizing};

use super::Boot;

/// The length of a tag, in bytes.
pub(crate) const TAG: usize = 16;
/// The length of a block of ChaCha20, in bytes. The first one of a datagram is the key of the authenticator.
const BLOCK: usize = 64;
/// The bytes of the key stream that are computed in one step.
const STEP: usize = 4 * BLOCK;

/// The key of the datagrams of one boot, under one key of the cluster.
pub(crate) struct BootKey(Zeroizing<[u8; 32]>);

impl BootKey {
    /// The key for the datagrams of this boot.
    pub(crate) fn new(key: &[u8; 32], boot: Boot) -> BootKey {
        let mut subkey = hchacha::<R20>(key.into(), (&boot.0.to_be_bytes()).into());
        let boot_key = BootKey(Zeroizing::new(subkey.into()));
        subkey.zeroize();
        boot_key
    }

    /// Encrypts the text in place. Returns the tag of the header and the encrypted text.
    pub(crate) fn encrypt(&self, counter: u64, header: &[u8], text: &mut [u8]) -> [u8; TAG] {
        let mut stream = Stream::new(self, counter);
        let mac = stream.start();
        stream.apply(text);
        authenticated(mac, header, text).finalize().into()
    }

    /// Decrypts the text in place if the tag is that of the header and the text. If not, the text stays as it is.
    pub(crate) fn decrypt(&self, counter: u64, header: &[u8], text: &mut [u8], tag: &[u8; TAG]) -> bool {
        let mut stream = Stream::new(self, counter);
        let mac = stream.start();
        // Compares in constant time.
        let authentic = authenticated(mac, header, text).verify(tag.into()).is_ok();
        if authentic {
            stream.apply(text);
        }
        authentic
    }
}

/// The key stream of a datagram.
struct Stream {
    cipher: ChaCha20,
    /// The last part of the key stream that was computed.
    step: [u8; STEP],
}

impl Stream {
    fn new(BootKey(key): &BootKey, counter: u64) -> Stream {
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&counter.to_be_bytes());
        Stream { cipher: ChaCha20::new((&**key).into(), (&nonce).into()), step: [0; STEP] }
    }

    /// Computes the first step. Returns the authenticator, whose key is in the first block.
    fn start(&mut self) -> Poly1305 {
        self.cipher.apply_keystream(&mut self.step);
        let (key, _) = self.step.split_first_chunk_mut::<32>().expect("a step is longer than a key");
        let mac = Poly1305::new((&*key).into());
        key.zeroize();
        mac
    }

    /// Encrypts or decrypts, with the key stream from its second block on.
    fn apply(mut self, text: &mut [u8]) {
        let (first, rest) = text.split_at_mut(text.len().min(STEP - BLOCK));
        xor(first, &self.step[BLOCK..]);
        let (steps, last) = rest.as_chunks_mut::<STEP>();
        for step in steps {
            self.cipher.apply_keystream(step);
        }
        if !last.is_empty() {
            self.step = [0; STEP];
            self.cipher.apply_keystream(&mut self.step);
            xor(last, &self.step);
        }
    }
}

fn xor(text: &mut [u8], stream: &[u8]) {
    text.iter_mut().zip(stream).for_each(|(byte, key)| *byte ^= key);
}

/// The authenticator after the header, the encrypted text and their lengths (RFC 8439, 2.8).
fn authenticated(mut mac: Poly1305, header: &[u8], text: &[u8]) -> Poly1305 {
    mac.update_padded(header);
    mac.update_padded(text);
    let mut lengths = Block::default();
    lengths[..8].copy_from_slice(&(header.len() as u64).to_le_bytes());
    lengths[8..].copy_from_slice(&(text.len() as u64).to_le_bytes());
    mac.update(&[lengths]);
    mac
}

#[cfg(test)]
mod tests {
    use chacha20poly1305::aead::AeadInOut;
    use chacha20poly1305::{Tag, XChaCha20Poly1305, XNonce};

    use super::*;

    fn nonce(boot: Boot, counter: u64) -> XNonce {
        let mut nonce = XNonce::default();
        nonce[..16].copy_from_slice(&boot.0.to_be_bytes());
        nonce[16..].copy_from_slice(&counter.to_be_bytes());
        nonce
    }

    /// Every length up to several steps, and the longest datagram.
    #[test]
    fn datagrams_are_those_of_xchacha20_poly1305() {
        let key: [u8; 32] = std::array::from_fn(|index| index as u8);
        let reference = XChaCha20Poly1305::new(&key.into());
        let boot = Boot::from_parts(0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210);
        let boot_key = BootKey::new(&key, boot);
        for length in (0..1_300).chain([65_507]) {
            let counter = u64::MAX - length as u64;
            let text: Vec<u8> = (0..length).map(|index| (index * 7) as u8).collect();
            let header = &text[..length.min(45)];
            let (mut ours, mut theirs) = (text.clone(), text.clone());
            let nonce = nonce(boot, counter);
            let tag = boot_key.encrypt(counter, header, &mut ours);
            let expected = reference.encrypt_inout_detached(&nonce, header, theirs.as_mut_slice().into());
            assert_eq!((&ours, Tag::from(tag)), (&theirs, expected.unwrap()), "{length} bytes");
            assert!(boot_key.decrypt(counter, header, &mut ours, &tag));
            assert_eq!(ours, text, "{length} bytes");
        }
    }

    /// The example of draft-irtf-cfrg-xchacha, A.3.1.
    #[test]
    fn the_example_of_the_draft_is_encrypted_as_there() {
        let text = "Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
                    sunscreen would be it.";
        let header = [0x50, 0x51, 0x52, 0x53, 0xc0, 0xc1, 0xc2, 0xc3, 0xc4, 0xc5, 0xc6, 0xc7];
        let key: [u8; 32] = std::array::from_fn(|index| 0x80 + index as u8);
        let boot = Boot::from_parts(0x4041_4243_4445_4647, 0x4849_4a4b_4c4d_4e4f);
        let mut encrypted = text.as_bytes().to_vec();
        let tag = BootKey::new(&key, boot).encrypt(0x5051_5253_5455_5657, &header, &mut encrypted);
        assert_eq!(encrypted[..8], [0xbd, 0x6d, 0x17, 0x9d, 0x3e, 0x83, 0xd4, 0x3b]);
        assert_eq!(tag, 0xc087_5924_c1c7_9879_47de_afd8_780a_cf49_u128.to_be_bytes());
    }

    #[test]
    fn a_text_with_another_tag_stays_as_it_is() {
        let boot_key = BootKey::new(&[7; 32], Boot::from_parts(1, 2));
        let mut text = *b"text";
        let mut tag = boot_key.encrypt(3, b"header", &mut text);
        let encrypted = text;
        tag[15] ^= 1;
        assert!(!boot_key.decrypt(3, b"header", &mut text, &tag));
        tag[15] ^= 1;
        for (counter, header) in [(4, &b"header"[..]), (3, b"headr")] {
            assert!(!boot_key.decrypt(counter, header, &mut text, &tag));
        }
        assert_eq!(text, encrypted);
        assert!(boot_key.decrypt(3, b"header", &mut text, &tag));
        assert_eq!(&text, b"text");
    }
}
