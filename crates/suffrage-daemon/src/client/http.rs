//! Asking a node over HTTP.

use std::io::{BufRead as _, BufReader};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use ureq::Agent;
use ureq::http::{Response, Uri};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

use suffrage_cli::Error;

/// No node takes as long to answer what it is asked here.
const PATIENCE: Duration = Duration::from_secs(10);

/// The address of a node, as it is to be.
pub(crate) fn address(text: &str) -> Result<String, String> {
    let host = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match host.filter(|host| !host.is_empty() && !host.contains(' ')) {
        Some(_) => Ok(text.trim_end_matches('/').to_string()),
        None => Err(format!("`{text}` is not the address of a node, like http://127.0.0.1:7480")),
    }
}

/// Whether what is sent to this address leaves the machine in the clear.
pub(crate) fn is_exposed(address: &str) -> bool {
    let uri = address.parse::<Uri>().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default();
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let stays =
        bare.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    !address.starts_with("https://") && !stays
}

/// The certificates in this file, whose signature a node is trusted by.
pub(crate) fn authorities(path: &str) -> Result<Authorities, String> {
    let text = std::fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let mut found: Vec<Certificate<'static>> = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| format!("{path}: {error}"))? {
            found.push(certificate);
        }
    }
    if found.is_empty() { Err(format!("{path} holds no certificate in PEM")) } else { Ok(Authorities(found)) }
}

/// Those whose signature a node is trusted by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Authorities(Vec<Certificate<'static>>);

/// The token in this file.
pub(crate) fn token(path: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let token = text.trim();
    let fits = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { Ok(token.to_string()) } else { Err(format!("{path} holds no token")) }
}

/// A name as a part of a path.
pub(crate) fn encoded(name: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(encode).collect()
}

/// A node that can be asked.
pub(crate) struct Node {
    address: String,
    bearer: Option<String>,
    tls: TlsConfig,
}

/// What it answered.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Answer {
    /// What it said, if that is what was asked for.
    pub(crate) fn good(self) -> Result<Value, Error> {
        let sentence = || self.body["error"].as_str().unwrap_or("it does not say why").to_string();
        match self.status {
            200..=299 => Ok(self.body),
            400 => Err(refused(sentence())),
            401 => Err(Error::flag("token-file", sentence())),
            status => Err(Error::Unreachable(format!("the node answers {status}: {}", sentence()))),
        }
    }
}

/// What the node does not take, as it says itself: `to`, the name, or how it was asked.
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
    /// Without authorities, no node is asked over TLS.
    pub(crate) fn new(address: &str, token: Option<&str>, authorities: &Authorities) -> Node {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&authorities.0))
            .unversioned_rustls_crypto_provider(provider)
            .build();
        Node { address: address.to_string(), bearer: token.map(|token| format!("Bearer {token}")), tls }
    }

    fn agent(&self, patience: Option<Duration>) -> Agent {
        let config = Agent::config_builder().http_status_as_error(false).proxy(None);
        let config = config.tls_config(self.tls.clone()).max_redirects(0);
        config.timeout_connect(Some(PATIENCE)).timeout_global(patience).build().into()
    }

    fn unreachable(&self, error: &ureq::Error) -> Error {
        let text = error.to_string();
        let hint = match text.contains("UnknownIssuer") {
            true => " (nobody in the file of --ca has signed its certificate)",
            false => "",
        };
        Error::Unreachable(format!("cannot reach the node at {}: {text}{hint}", self.address))
    }

    fn call(&self, path: &str, patience: Option<Duration>) -> Result<Response<ureq::Body>, Error> {
        let mut request = self.agent(patience).get(format!("{}{path}", self.address));
        if let Some(bearer) = &self.bearer {
            request = request.header("Authorization", bearer);
        }
        request.call().map_err(|error| self.unreachable(&error))
    }

    fn read(&self, mut response: Response<ureq::Body>) -> Result<Answer, Error> {
        let text = response.body_mut().read_to_string().map_err(|error| self.unreachable(&error))?;
        let body = serde_json::from_str(&text);
        let body = body.map_err(|_| {
            Error::Unreachable(format!("what answers at {} is not a node of ours", self.address))
        })?;
        Ok(Answer { status: response.status().as_u16(), body })
    }

    pub(crate) fn get(&self, path: &str) -> Result<Answer, Error> {
        self.read(self.call(path, Some(PATIENCE))?)
    }

    pub(crate) fn post(&self, path: &str, said: &Value) -> Result<Answer, Error> {
        let mut request = self.agent(Some(PATIENCE)).post(format!("{}{path}", self.address));
        if let Some(bearer) = &self.bearer {
            request = request.header("Authorization", bearer);
        }
        let sent = request.header("Content-Type", "application/json").send(said.to_string());
        self.read(sent.map_err(|error| self.unreachable(&error))?)
    }

    /// Server-sent events, as they come: the data of each.
    pub(crate) fn events(
        &self,
        path: &str,
    ) -> Result<impl Iterator<Item = Result<Value, Error>> + use<>, Error> {
        let response = self.call(path, None)?;
        if response.status() != 200 {
            self.read(response)?.good()?;
            return Err(Error::Unreachable(format!("what answers at {} is not a node", self.address)));
        }
        let address = self.address.clone();
        let lines = BufReader::new(response.into_body().into_reader()).lines();
        Ok(lines.filter_map(move |line| match line {
            Ok(line) => serde_json::from_str(line.strip_prefix("data:")?.trim()).ok().map(Ok),
            Err(error) => Some(Err(Error::Unreachable(format!("the node at {address} is gone: {error}")))),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_are_as_http_wants_them() {
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
    fn only_what_is_about_the_name_is_blamed_on_it() {
        for (sentence, told) in [
            ("the name of an election has 255 bytes", "NAME: the name of an election has 255 bytes"),
            ("to: is this node itself", "--to: is this node itself"),
            ("HTTP is served with TLS here", "HTTP is served with TLS here"),
        ] {
            let answer = Answer { status: 400, body: serde_json::json!({ "error": sentence }) };
            let found = match answer.good().unwrap_err() {
                Error::Flag { flag, reason } => format!("{flag}: {reason}"),
                Error::Usage(text) => text,
                other => panic!("{other:?}"),
            };
            assert_eq!(found, told);
        }
    }
}
