//! An HTTP client of a node.

use std::io::{BufRead as _, BufReader};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;
use ureq::http::{Response, Uri};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use suffrage_cli::Error;

/// The timeout of a request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Parses the address of a node.
pub(crate) fn address(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match host.filter(|host| !host.is_empty() && !host.contains(' ')) {
        Some(_) => Ok(text.trim_end_matches('/').to_string()),
        None => {
            Err(format!("`{text}` is not the address of a node; an address is like http://127.0.0.1:7480"))
        }
    }
}

/// Whether requests to this address leave the machine without encryption.
pub(crate) fn is_exposed(address: &str) -> bool {
    let uri = address.parse::<Uri>().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let stays =
        bare.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    !address.starts_with("https://") && !stays
}

/// Reads the certificates of trusted authorities.
pub(crate) fn authorities(path: &str) -> Result<Authorities, String> {
    let text = std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let mut found: Vec<Certificate<'static>> = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| format!("{path}: {error}"))? {
            found.push(certificate);
        }
    }
    if found.is_empty() {
        Err(format!("{path} contains no certificate in PEM"))
    } else {
        Ok(Authorities(found))
    }
}

/// The certificates of trusted authorities.
#[derive(Clone, Debug, Default)]
pub(crate) struct Authorities(Vec<Certificate<'static>>);

/// Reads a token file.
pub(crate) fn token(path: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let token = text.trim();
    let fits = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { Ok(token.to_string()) } else { Err(format!("{path} contains no token")) }
}

/// A name, percent-encoded for a path.
pub(crate) fn encoded(name: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(encode).collect()
}

/// The address of a node, and the credentials for it.
pub(crate) struct Node {
    address: String,
    bearer: Option<String>,
    tls: TlsConfig,
}

/// A response of a node.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Answer {
    /// The body of a successful response, or the error of any other.
    pub(crate) fn good(self) -> Result<Value, Error> {
        let sentence = || self.body["error"].as_str().unwrap_or("without a reason").to_string();
        match self.status {
            200..=299 => Ok(self.body),
            400 => Err(refused(sentence())),
            401 => Err(Error::flag("token-file", sentence())),
            status => {
                Err(Error::Unreachable(format!("the node answered with status {status}: {}", sentence())))
            }
        }
    }
}

/// The error for status 400, attributed to the flag or argument that its sentence names.
fn refused(sentence: String) -> Error {
    if let Some(reason) = sentence.strip_prefix("to: ") {
        return Error::flag("to", reason);
    }
    if sentence.starts_with("the name of an election ") {
        return Error::Flag { flag: "NAME".to_string(), reason: sentence };
    }
    Error::Usage(sentence)
}

impl Node {
    /// Without authorities, no TLS connection succeeds.
    pub(crate) fn new(address: &str, token: Option<&str>, authorities: &Authorities) -> Node {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&authorities.0))
            .unversioned_rustls_crypto_provider(provider)
            .build();
        Node { address: address.to_string(), bearer: token.map(|token| format!("Bearer {token}")), tls }
    }

    fn agent(&self, timeout: Option<Duration>) -> Agent {
        let config = Agent::config_builder().http_status_as_error(false).proxy(None);
        let config = config.tls_config(self.tls.clone()).max_redirects(0);
        config.timeout_connect(Some(TIMEOUT)).timeout_global(timeout).build().into()
    }

    fn unreachable(&self, error: &ureq::Error) -> Error {
        let text = error.to_string();
        let hint = match text.contains("UnknownIssuer") {
            true => " (no authority in the file of --ca has signed the certificate of the node)",
            false => "",
        };
        Error::Unreachable(format!("cannot reach the node at {}: {text}{hint}", self.address))
    }

    fn call(&self, path: &str, timeout: Option<Duration>) -> Result<Response<ureq::Body>, Error> {
        let mut request = self.agent(timeout).get(format!("{}{path}", self.address));
        if let Some(bearer) = &self.bearer {
            request = request.header("Authorization", bearer);
        }
        request.call().map_err(|error| self.unreachable(&error))
    }

    fn read(&self, mut response: Response<ureq::Body>) -> Result<Answer, Error> {
        let text = response.body_mut().read_to_string().map_err(|error| self.unreachable(&error))?;
        let body = serde_json::from_str(&text);
        let body = body.map_err(|_| {
            Error::Unreachable(format!("the server at {} is not a suffrage node", self.address))
        })?;
        Ok(Answer { status: response.status().as_u16(), body })
    }

    pub(crate) fn get(&self, path: &str) -> Result<Answer, Error> {
        self.read(self.call(path, Some(TIMEOUT))?)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Answer, Error> {
        self.post_within(TIMEOUT, path, body)
    }

    pub(crate) fn post_within(&self, timeout: Duration, path: &str, body: &Value) -> Result<Answer, Error> {
        let mut request = self.agent(Some(timeout)).post(format!("{}{path}", self.address));
        if let Some(bearer) = &self.bearer {
            request = request.header("Authorization", bearer);
        }
        let sent = request.header("Content-Type", "application/json").send(body.to_string());
        self.read(sent.map_err(|error| self.unreachable(&error))?)
    }

    /// The data of server-sent events, as they arrive.
    pub(crate) fn events(
        &self,
        path: &str,
    ) -> Result<impl Iterator<Item = Result<Value, Error>> + use<>, Error> {
        let response = self.call(path, None)?;
        if response.status() != 200 {
            self.read(response)?.good()?;
            return Err(Error::Unreachable(format!("the server at {} is not a suffrage node", self.address)));
        }
        let address = self.address.clone();
        let lines = BufReader::new(response.into_body().into_reader()).lines();
        Ok(lines.filter_map(move |line| match line {
            Ok(line) => serde_json::from_str(line.strip_prefix("data:")?.trim()).ok().map(Ok),
            Err(error) => {
                Some(Err(Error::Unreachable(format!("the connection to {address} was lost: {error}"))))
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_checked_and_names_are_encoded() {
        assert_eq!(address("http://127.0.0.1:7480/").unwrap(), "http://127.0.0.1:7480");
        assert_eq!(address("https://node-1:7480").unwrap(), "https://node-1:7480");
        for bad in ["127.0.0.1:7480", "ftp://x", "http://", "https://", "http://a b"] {
            assert!(address(bad).unwrap_err().contains("like http://127.0.0.1:7480"), "{bad}");
        }
        for within in
            ["http://127.0.0.1:7480", "http://LOCALHOST:1", "http://[::1]:7480", "https://node-1:7480"]
        {
            assert!(!is_exposed(within), "{within}");
        }
        for exposed in [
            "http://node-1:7480",
            "http://10.0.0.1",
            "http://[2001:db8::1]:7480",
            "http://localhost@10.0.0.1:7480",
            "http://localhost.example",
            "http://10.0.0.1/localhost",
        ] {
            assert!(is_exposed(exposed), "{exposed}");
        }
        assert_eq!(encoded("a/b c?é-1"), "a%2Fb%20c%3F%C3%A9-1");
    }

    #[test]
    fn an_error_is_attributed_to_the_argument_that_it_names() {
        for (sentence, expected) in [
            ("the name of an election must have", "NAME: the name of an election must have"),
            ("to: 1 is this node itself", "--to: 1 is this node itself"),
            ("this server uses TLS", "this server uses TLS"),
        ] {
            let answer = Answer { status: 400, body: serde_json::json!({ "error": sentence }) };
            let found = match answer.good().unwrap_err() {
                Error::Flag { flag, reason } => format!("{flag}: {reason}"),
                Error::Usage(text) => text,
                other => panic!("{other:?}"),
            };
            assert_eq!(found, expected);
        }
    }
}
