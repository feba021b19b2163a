//! URLs of engines.

use std::collections::BTreeMap;
use std::fmt;

use percent_encoding::percent_decode_str;
use zeroize::Zeroizing;

use crate::Error;

/// A secret. It is never shown, and its memory is cleared.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Secret(Zeroizing<String>);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Secret {
        Secret(Zeroizing::new(text.into()))
    }

    /// The secret itself, for the engine only.
    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The URL of an engine: `scheme://user:password@host:port,host:port/path?key=value`.
#[derive(Clone, Debug)]
pub(crate) struct Url {
    scheme: String,
    user: Option<String>,
    password: Option<Secret>,
    hosts: Vec<(String, Option<u16>)>,
    path: String,
    query: BTreeMap<String, String>,
}

fn invalid(reason: impl Into<String>) -> Error {
    Error::InvalidUrl(reason.into())
}

fn decode(text: &str) -> Result<String, Error> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(Into::into).map_err(|_| invalid("the URL has a percent sequence that is not UTF-8"))
}

fn parse_host(text: &str) -> Result<(String, Option<u16>), Error> {
    // The text is not shown: it may be a part of a password with a `/` that is not written as %2F.
    let parse_port = |port: &str| {
        port.parse()
            .map_err(|_| invalid("the text after the `:` of a host is no port; a `/` before the `@` is %2F"))
    };
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(|| invalid("an IPv6 address lacks its `]`"))?;
        let port = match rest.strip_prefix(':') {
            Some(port) => Some(parse_port(port)?),
            None if rest.is_empty() => None,
            None => return Err(invalid("the text after an IPv6 address is no port")),
        };
        return Ok((host.to_string(), port));
    }
    match text.split_once(':') {
        Some((host, port)) => Ok((decode(host)?, Some(parse_port(port)?))),
        None => Ok((decode(text)?, None)),
    }
}

impl Url {
    pub(crate) fn parse(text: &str) -> Result<Url, Error> {
        let example = "write it like etcd://host:2379/prefix";
        let (scheme, rest) = text
            .split_once("://")
            .ok_or_else(|| invalid(format!("the URL of an engine has no `://`: {example}")))?;
        let (rest, query_text) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user_info, hosts) = match authority.rsplit_once('@') {
            Some((user_info, hosts)) => (Some(user_info), hosts),
            None => (None, authority),
        };
        let (user, password) = match user_info {
            Some(info) => match info.split_once(':') {
                Some((user, password)) => (Some(decode(user)?), Some(Secret::new(decode(password)?))),
                None => (Some(decode(info)?), None),
            },
            None => (None, None),
        };
        let hosts =
            hosts.split(',').filter(|host| !host.is_empty()).map(parse_host).collect::<Result<_, _>>()?;
        let mut query = BTreeMap::new();
        for pair in query_text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            if query.insert(decode(key)?, decode(value)?).is_some() {
                return Err(invalid(format!("the URL has `{key}` twice")));
            }
        }
        let scheme = scheme.to_ascii_lowercase();
        Ok(Url {
            scheme,
            user: user.filter(|user| !user.is_empty()),
            password,
            hosts,
            path: decode(path)?,
            query,
        })
    }

    pub(crate) fn scheme(&self) -> &str {
        &self.scheme
    }

    pub(crate) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The hosts, with this port where none is given. This default host if none is given at all.
    pub(crate) fn hosts(&self, default_host: &str, default_port: u16) -> Vec<(String, u16)> {
        if self.hosts.is_empty() {
            return vec![(default_host.to_string(), default_port)];
        }
        self.hosts.iter().map(|(host, port)| (host.clone(), port.unwrap_or(default_port))).collect()
    }

    /// The path, without the slash at its start.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Takes a parameter of the query. [`finish`](Url::finish) refuses what nobody has taken.
    pub(crate) fn take(&mut self, key: &str) -> Option<String> {
        self.query.remove(key)
    }

    /// The password: of the URL, of the file in `password-file`, or of an environment variable, the engine's usual one or
    /// that in `password-env`.
    pub(crate) fn take_password(&mut self, usual_variable: &str) -> Result<Option<Secret>, Error> {
        let file = self.take("password-file");
        let variable = self.take("password-env");
        if let Some(path) = file {
            let text = std::fs::read_to_string(&path);
            let text = text.map_err(|error| invalid(format!("password-file: {path}: {error}")))?;
            return Ok(Some(Secret::new(text.trim_end_matches(['\r', '\n']))));
        }
        if let Some(name) = variable {
            let value = std::env::var(&name);
            let value = value.map_err(|_| invalid(format!("password-env: there is no variable `{name}`")))?;
            return Ok(Some(Secret::new(value)));
        }
        Ok(self.password.clone().or_else(|| std::env::var(usual_variable).ok().map(Secret::new)))
    }

    /// Checks that every parameter of the query was taken.
    pub(crate) fn finish(&self, known: &[&str]) -> Result<(), Error> {
        match self.query.keys().next() {
            None => Ok(()),
            Some(key) => Err(invalid(format!(
                "{} knows no parameter `{key}`; parameters: {}",
                self.scheme,
                known.join(", ")
            ))),
        }
    }
}

/// Shows the URL without its password, and without a lone user and parameters, which may be secrets as well.
impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme)?;
        // A user without a password may be a token.
        if let Some(user) = self.user.as_ref().filter(|_| self.password.is_some()) {
            write!(f, "{user}@")?;
        }
        for (index, (host, port)) in self.hosts.iter().enumerate() {
            f.write_str(if index > 0 { "," } else { "" })?;
            match host.contains(':') {
                true => write!(f, "[{host}]")?,
                false => f.write_str(host)?,
            }
            if let Some(port) = port {
                write!(f, ":{port}")?;
            }
        }
        if self.path.is_empty() { Ok(()) } else { write!(f, "/{}", self.path) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_hosts_a_user_a_path_and_parameters() {
        let mut url = Url::parse("etcd://me:p%40ss@a:1,[::1]:2,c/some/prefix?cacert=%2Fca.pem").unwrap();
        assert_eq!((url.scheme(), url.user(), url.path()), ("etcd", Some("me"), "some/prefix"));
        let hosts = [("a".to_string(), 1), ("::1".to_string(), 2), ("c".to_string(), 9)];
        assert_eq!(url.hosts("localhost", 9), hosts);
        assert_eq!(url.to_string(), "etcd://me@a:1,[::1]:2,c/some/prefix");
        assert!(url.finish(&["cacert"]).unwrap_err().to_string().contains("knows no parameter `cacert`"));
        assert_eq!(url.take("cacert").as_deref(), Some("/ca.pem"));
        assert_eq!(url.finish(&[]), Ok(()));
        assert_eq!(url.take_password("SUFFRAGE_NO_SUCH_VARIABLE").unwrap().unwrap().reveal(), "p@ss");
        assert!(!format!("{url:?}").contains("p@ss"), "{url:?}");
        assert_eq!(
            Url::parse("redis://").unwrap().hosts("localhost", 6379),
            [("localhost".to_string(), 6379)]
        );
    }

    #[test]
    fn a_wrong_url_is_refused_with_its_reason() {
        for (text, reason) in [
            ("etcd", "no `://`"),
            ("etcd://a:x", "is no port"),
            ("etcd://me:pass/word@a", "is no port"),
            ("etcd://[::1", "lacks its `]`"),
            ("etcd://a?x=1&x=2", "`x` twice"),
            ("etcd://a/%ff", "not UTF-8"),
        ] {
            let error = Url::parse(text).unwrap_err().to_string();
            assert!(error.contains(reason) && !error.contains("pass"), "{text}: {error}");
        }
    }

    #[test]
    fn a_password_can_be_in_a_file() {
        let folder = suffrage_testbed::Folder::new().unwrap();
        let path = folder.path().join("password");
        std::fs::write(&path, "secret\n").unwrap();
        let mut url = Url::parse(&format!("redis://h?password-file={}", path.display())).unwrap();
        assert_eq!(url.take_password("SUFFRAGE_NO_SUCH_VARIABLE").unwrap().unwrap().reveal(), "secret");
        let mut url = Url::parse("redis://h?password-env=SUFFRAGE_NO_SUCH_VARIABLE").unwrap();
        assert!(url.take_password("X").unwrap_err().to_string().contains("SUFFRAGE_NO_SUCH_VARIABLE"));
    }
}
