//! Who this client is, for the servers.

use std::path::Path;

use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};
use ring::signature::Ed25519KeyPair;
use serde_json::Value;

use crate::Error;
use crate::url::Secret;

pub(super) enum Credentials {
    User(String, Secret),
    Token(Secret),
    /// A key, and the JWT that it belongs to.
    Key {
        seed: Secret,
        jwt: Option<Secret>,
    },
}

impl Credentials {
    /// Reads a file of credentials (with a JWT and a seed), or one with a seed only.
    pub(super) fn read(path: &Path) -> Result<Credentials, Error> {
        let wrong = |reason: String| Error::InvalidUrl(format!("{}: {reason}", path.display()));
        let text = Secret::new(std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?);
        let line = |what: &str| {
            let mut lines = text.reveal().lines().skip_while(|line| !line.contains(what)).skip(1);
            lines.find(|line| !line.trim().is_empty()).map(|line| Secret::new(line.trim()))
        };
        let jwt = line("BEGIN NATS USER JWT");
        let seed = match jwt.is_some() {
            true => line("BEGIN USER NKEY SEED"),
            false => text.reveal().split_whitespace().find(|word| word.starts_with("SU")).map(Secret::new),
        };
        let seed = seed.ok_or_else(|| wrong("there is no seed of a user".to_string()))?;
        key_pair(&seed).map_err(wrong)?;
        Ok(Credentials::Key { seed, jwt })
    }

    /// Adds the credentials to the options of a connection. The server has sent the nonce.
    pub(super) fn add_to(&self, options: &mut Value, nonce: &str) -> Result<(), String> {
        match self {
            Credentials::User(user, password) => {
                options["user"] = user.as_str().into();
                options["pass"] = password.reveal().into();
            }
            Credentials::Token(token) => options["auth_token"] = token.reveal().into(),
            Credentials::Key { seed, jwt } => {
                let (pair, public) = key_pair(seed)?;
                options["sig"] = BASE64URL_NOPAD.encode(pair.sign(nonce.as_bytes()).as_ref()).into();
                match jwt {
                    Some(jwt) => options["jwt"] = jwt.reveal().into(),
                    None => options["nkey"] = public.into(),
                }
            }
        }
        Ok(())
    }
}

/// The CRC-16 (XMODEM) at the end of a key.
fn crc(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ u16::from(*byte) << 8,
            |crc, _| if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 },
        )
    })
}

/// The key of a seed, and its public key as text.
fn key_pair(seed: &Secret) -> Result<(Ed25519KeyPair, String), String> {
    /// The prefix of the public key of a user: its text begins with `U`.
    const USER: u8 = 20 << 3;
    let wrong = || "the seed of the user is wrong".to_string();
    let bytes = zeroize::Zeroizing::new(BASE32_NOPAD.decode(seed.reveal().as_bytes()).map_err(|_| wrong())?);
    // Two bytes of prefixes, the seed, the checksum.
    let (body, sum) = bytes.split_last_chunk::<2>().ok_or_else(wrong)?;
    if body.len() != 34 || crc(body) != u16::from_le_bytes(*sum) {
        return Err(wrong());
    }
    let pair = Ed25519KeyPair::from_seed_unchecked(&body[2..]).map_err(|_| wrong())?;
    let mut public = vec![USER];
    public.extend(ring::signature::KeyPair::public_key(&pair).as_ref());
    public.extend(crc(&public).to_le_bytes());
    Ok((pair, BASE32_NOPAD.encode(&public)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_a_checksum_and_a_public_key() {
        assert_eq!(crc(b"123456789"), 0x31c3);
        let mut bytes = vec![0x90 | 20 << 3 >> 5, (20 << 3 & 31) << 3];
        bytes.extend([7; 32]);
        bytes.extend(crc(&bytes).to_le_bytes());
        let seed = BASE32_NOPAD.encode(&bytes);
        assert!(seed.starts_with("SU"), "{seed}");
        let (_, public) = key_pair(&Secret::new(&seed)).unwrap();
        assert!(public.starts_with('U') && public.len() == 56, "{public}");
        for wrong in [&seed[..57], "SUAB", "", &format!("{}A", &seed[..57])] {
            assert!(key_pair(&Secret::new(wrong)).is_err());
        }
    }
}
