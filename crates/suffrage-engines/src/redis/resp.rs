//! The protocol of Redis: requests and replies.

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Nil,
    Int(i64),
    /// A text of the server, or of a client.
    Text(String),
    /// An error, which starts with its code.
    Error(String),
    Array(Vec<Value>),
}

/// The longest text and the longest array that are read.
const LONGEST: usize = 4 << 20;
/// The deepest array in arrays.
const DEEPEST: usize = 8;

/// A reply that is not of this protocol.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// A request: an array of texts.
pub(super) fn request(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The first reply of these bytes and its length, if it is complete.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<(Value, usize)>, Malformed> {
    parse_nested(bytes, 0)
}

fn parse_nested(bytes: &[u8], depth: usize) -> Result<Option<(Value, usize)>, Malformed> {
    let Some(kind) = bytes.first() else { return Ok(None) };
    if !b"+-:$*".contains(kind) {
        return Err(Malformed);
    }
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        return if bytes.len() > LONGEST { Err(Malformed) } else { Ok(None) };
    };
    let line = str::from_utf8(&bytes[1..end]);
    let number = || line.ok().and_then(|line| line.parse::<i64>().ok()).ok_or(Malformed);
    let text = || String::from_utf8_lossy(&bytes[1..end]).into_owned();
    let after = end + 2;
    let value = match kind {
        b'+' => Value::Text(text()),
        b'-' => Value::Error(text()),
        b':' => Value::Int(number()?),
        b'$' | b'*' if number()? < 0 => Value::Nil,
        b'$' => {
            let length =
                usize::try_from(number()?).ok().filter(|length| *length <= LONGEST).ok_or(Malformed)?;
            let Some(body) = bytes.get(after..after + length + 2) else { return Ok(None) };
            let text = String::from_utf8_lossy(&body[..length]).into_owned();
            return Ok(Some((Value::Text(text), after + length + 2)));
        }
        b'*' => {
            let length =
                usize::try_from(number()?).ok().filter(|length| *length <= LONGEST).ok_or(Malformed)?;
            if depth >= DEEPEST {
                return Err(Malformed);
            }
            let (mut values, mut read) = (Vec::new(), after);
            for _ in 0..length {
                let Some((value, length)) = parse_nested(&bytes[read..], depth + 1)? else { return Ok(None) };
                values.push(value);
                read += length;
            }
            return Ok(Some((Value::Array(values), read)));
        }
        _ => return Err(Malformed),
    };
    Ok(Some((value, after)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_when_they_are_complete() {
        let text = |text: &str| Value::Text(text.to_string());
        let array = Value::Array(vec![Value::Int(-3), Value::Nil, text("a\r\nb"), Value::Array(Vec::new())]);
        for (bytes, value) in [
            ("+OK\r\n", text("OK")),
            ("-ERR wrong\r\n", Value::Error("ERR wrong".to_string())),
            ("$0\r\n\r\n", text("")),
            ("*-1\r\n", Value::Nil),
            ("*4\r\n:-3\r\n$-1\r\n$4\r\na\r\nb\r\n*0\r\n", array),
        ] {
            for length in 0..bytes.len() {
                assert_eq!(parse(&bytes.as_bytes()[..length]), Ok(None), "{bytes:?}");
            }
            let more = format!("{bytes}+x\r\n");
            assert_eq!(parse(more.as_bytes()), Ok(Some((value, bytes.len()))));
        }
        assert_eq!(request(&["GET", "ä"]), "*2\r\n$3\r\nGET\r\n$2\r\nä\r\n".as_bytes());
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for bytes in ["HTTP/1.1 400\r\n", "$x\r\n", "$99999999999\r\n", ":\r\n", "\r\n"] {
            assert_eq!(parse(bytes.as_bytes()), Err(Malformed), "{bytes:?}");
        }
        assert_eq!(parse("*1\r\n".repeat(20).as_bytes()), Err(Malformed));
    }
}
