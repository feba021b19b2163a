//! The URL of PostgreSQL, with the parameters and the environment of libpq.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_postgres::config::SslMode;

use super::tls::{Tls, Verify};
use crate::Error;
use crate::url::{Secret, Url};

/// The parameters of the URL.
const PARAMETERS: [&str; 23] = [
    "advisory",
    "application_name",
    "channel_binding",
    "connect_timeout",
    "dbname",
    "host",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "passfile",
    "password",
    "password-env",
    "password-file",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "table",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

/// The table of the leases, unless `table` names another.
const DEFAULT_TABLE: &str = "suffrage_election";

/// A server.
pub(super) struct Host {
    /// Its name, its address, or the folder of its socket.
    pub(super) name: String,
    pub(super) port: u16,
    pub(super) password: Option<Secret>,
}

/// The options of TCP.
#[derive(Clone, Copy)]
pub(super) struct TcpOptions {
    pub(super) keepalive: bool,
    pub(super) idle: Duration,
    pub(super) interval: Duration,
    pub(super) count: u32,
    pub(super) user_timeout: Duration,
}

/// An advisory lock that other clients take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Advisory {
    /// `pg_advisory_lock(key)`.
    Key(i64),
    /// `pg_advisory_lock(key, key)`.
    Pair(i32, i32),
    /// `pg_advisory_lock(hashtext(name))`, with the name of the election.
    HashText,
}

/// The settings of connections.
pub(super) struct Settings {
    pub(super) hosts: Vec<Host>,
    pub(super) user: Option<String>,
    pub(super) database: Option<String>,
    pub(super) application_name: String,
    pub(super) ssl_mode: SslMode,
    pub(super) tls: Option<Tls>,
    pub(super) tcp: TcpOptions,
    pub(super) connect_timeout: Option<Duration>,
    /// The table, quoted.
    pub(super) table: String,
    /// The channel of notifications: the name of the table.
    pub(super) channel: String,
    pub(super) advisory: Option<Advisory>,
}

fn invalid(reason: impl Into<String>) -> Error {
    Error::InvalidUrl(reason.into())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Settings {
    pub(super) fn parse(mut url: Url) -> Result<Settings, Error> {
        let user = url.take("user").or_else(|| url.user().map(Into::into)).or_else(|| variable("PGUSER"));
        let path = Some(url.path().to_string()).filter(|path| !path.is_empty());
        let database = url.take("dbname").or(path).or_else(|| variable("PGDATABASE"));
        let written = url.take("password").map(Secret::new);
        let password = url.take_password("PGPASSWORD")?.or(written);
        let pass_file = url.take("passfile").or_else(|| variable("PGPASSFILE")).map(PathBuf::from);
        let pass_file = pass_file.or_else(|| Some(Path::new(&variable("HOME")?).join(".pgpass")));
        let mut hosts = take_hosts(&mut url)?;
        for host in &mut hosts {
            let user = user.clone().or_else(|| variable("USER")).unwrap_or_default();
            let entry =
                [host.name.as_str(), &host.port.to_string(), database.as_deref().unwrap_or(&user), &user];
            let stored = || pass_file.as_deref().and_then(|path| stored_password(path, entry));
            host.password = password.clone().or_else(stored);
        }
        let (ssl_mode, tls) = take_tls(&mut url)?;
        let (table, channel) = quote_table(url.take("table").as_deref().unwrap_or(DEFAULT_TABLE))?;
        let settings = Settings {
            user,
            database,
            application_name: url
                .take("application_name")
                .or_else(|| variable("PGAPPNAME"))
                .unwrap_or_else(|| "suffrage".to_string()),
            ssl_mode,
            tls,
            tcp: take_tcp(&mut url)?,
            connect_timeout: take_number(&mut url, "connect_timeout")?.map(Duration::from_secs),
            table,
            channel,
            advisory: url.take("advisory").as_deref().map(parse_advisory).transpose()?,
            hosts,
        };
        match url.take("target_session_attrs").as_deref() {
            // Elections write: every value finds the server that can be written.
            None | Some("any" | "read-write" | "primary") => {}
            Some(other) => {
                return Err(invalid(format!(
                    "target_session_attrs={other} finds servers that cannot be written; use read-write"
                )));
            }
        }
        match url.take("channel_binding").as_deref() {
            None | Some("disable" | "prefer") => {}
            Some(other) => {
                return Err(invalid(format!(
                    "channel_binding={other} is not supported; use sslmode=verify-full, which also stops a \
                     server that forwards the password"
                )));
            }
        }
        url.finish(&PARAMETERS)?;
        Ok(settings)
    }
}

/// The hosts of the URL, of its parameters, or of the environment.
fn take_hosts(url: &mut Url) -> Result<Vec<Host>, Error> {
    let port = url.take("port").or_else(|| variable("PGPORT"));
    let port =
        port.map_or(Ok(5432), |port| port.parse().map_err(|_| invalid(format!("`{port}` is no port"))))?;
    let host = url.take("host");
    let usual = variable("PGHOST").unwrap_or_else(|| "localhost".to_string());
    let hosts = match host {
        Some(hosts) => hosts.split(',').map(|host| (host.to_string(), port)).collect(),
        None => url.hosts(&usual, port),
    };
    Ok(hosts.into_iter().map(|(name, port)| Host { name, port, password: None }).collect())
}

fn take_tls(url: &mut Url) -> Result<(SslMode, Option<Tls>), Error> {
    let mut take = |key: &str, name: &str| url.take(key).or_else(|| variable(name));
    let mode = take("sslmode", "PGSSLMODE");
    let root = take("sslrootcert", "PGSSLROOTCERT");
    let certificate = take("sslcert", "PGSSLCERT");
    let key = take("sslkey", "PGSSLKEY");
    let certificate = match (&certificate, &key) {
        (None, None) => None,
        (Some(certificate), Some(key)) => Some((Path::new(certificate), Path::new(key))),
        _ => return Err(invalid("sslcert and sslkey need each other")),
    };
    let system = root.as_deref() == Some("system");
    let root_path = root.as_deref().filter(|_| !system).map(Path::new);
    // As libpq: with a file of authorities, the weaker modes mean `verify-ca` wherever TLS is used.
    let weak = if root_path.is_some() { Verify::Authority } else { Verify::Nothing };
    let default = if system { "verify-full" } else { "prefer" };
    let (ssl_mode, verify) = match mode.as_deref().unwrap_or(default) {
        "disable" => return Ok((SslMode::Disable, None)),
        "allow" | "prefer" => (SslMode::Prefer, weak),
        "require" => (SslMode::Require, weak),
        "verify-ca" => (SslMode::Require, Verify::Authority),
        "verify-full" => (SslMode::Require, Verify::Host),
        other => {
            let modes = "disable, allow, prefer, require, verify-ca, verify-full";
            return Err(invalid(format!("there is no sslmode `{other}`; modes: {modes}")));
        }
    };
    if system && verify != Verify::Host {
        return Err(invalid("sslrootcert=system needs sslmode=verify-full"));
    }
    Ok((ssl_mode, Some(Tls::new(verify, root_path, certificate)?)))
}

fn take_number<T: std::str::FromStr>(url: &mut Url, key: &str) -> Result<Option<T>, Error> {
    let Some(text) = url.take(key) else { return Ok(None) };
    text.parse().map(Some).map_err(|_| invalid(format!("{key}: `{text}` is no number")))
}

fn take_tcp(url: &mut Url) -> Result<TcpOptions, Error> {
    let seconds =
        |number: Option<u64>, usual: u64| Duration::from_secs(number.filter(|n| *n > 0).unwrap_or(usual));
    Ok(TcpOptions {
        keepalive: take_number::<u8>(url, "keepalives")? != Some(0),
        idle: seconds(take_number(url, "keepalives_idle")?, 5),
        interval: seconds(take_number(url, "keepalives_interval")?, 2),
        count: take_number(url, "keepalives_count")?.unwrap_or(3),
        user_timeout: Duration::from_millis(take_number(url, "tcp_user_timeout")?.unwrap_or(10_000)),
    })
}

/// The quoted name of a table, and its name as a channel.
fn quote_table(name: &str) -> Result<(String, String), Error> {
    let parts: Vec<&str> = name.split('.').collect();
    let valid = |part: &&str| {
        !part.is_empty() && part.len() <= 63 && part.chars().all(|c| c.is_alphanumeric() || c == '_')
    };
    if parts.len() > 2 || !parts.iter().all(valid) {
        return Err(invalid(format!("table: `{name}` is neither `table` nor `schema.table`")));
    }
    let quoted: Vec<String> = parts.iter().map(|part| format!("\"{part}\"")).collect();
    Ok((quoted.join("."), parts[parts.len() - 1].to_string()))
}

fn parse_advisory(text: &str) -> Result<Advisory, Error> {
    let wrong = || {
        invalid(format!("advisory: `{text}` is neither a key (7), nor a pair of keys (1,2), nor `hashtext`"))
    };
    match text.split_once(',') {
        _ if text == "hashtext" => Ok(Advisory::HashText),
        Some((first, second)) => {
            let pair = (first.trim().parse(), second.trim().parse());
            let (Ok(first), Ok(second)) = pair else { return Err(wrong()) };
            Ok(Advisory::Pair(first, second))
        }
        None => text.parse().map(Advisory::Key).map_err(|_| wrong()),
    }
}

/// The password of a host, a port, a database and a user in a password file, as libpq reads it.
fn stored_password(path: &Path, entry: [&str; 4]) -> Option<Secret> {
    use std::os::unix::fs::PermissionsExt as _;
    // libpq ignores a file that others can read.
    if std::fs::metadata(path).ok()?.permissions().mode() & 0o077 != 0 {
        return None;
    }
    let text = zeroize::Zeroizing::new(std::fs::read_to_string(path).ok()?);
    text.lines().find_map(|line| password_of_line(line, entry))
}

fn password_of_line(line: &str, entry: [&str; 4]) -> Option<Secret> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = vec![String::new()];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        let field = fields.last_mut()?;
        match letter {
            '\\' => field.extend(letters.next()),
            ':' => fields.push(String::new()),
            letter => field.push(letter),
        }
    }
    let (password, fields) = fields.split_last()?;
    let matches =
        fields.len() == 4 && fields.iter().zip(entry).all(|(field, is)| field == "*" || field == is);
    matches.then(|| Secret::new(password.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, Error> {
        Settings::parse(Url::parse(text).unwrap())
    }

    #[test]
    fn a_url_is_read_as_libpq_reads_it() {
        let settings = parse(
            "postgresql://me:secret@a:1,b/orders?target_session_attrs=read-write&sslmode=disable&table=x.leases\
             &application_name=app&connect_timeout=4&keepalives_idle=9&tcp_user_timeout=700&advisory=1,-2",
        )
        .unwrap();
        let hosts: Vec<_> = settings.hosts.iter().map(|host| (host.name.as_str(), host.port)).collect();
        assert_eq!(hosts, [("a", 1), ("b", 5432)]);
        assert_eq!(settings.hosts[1].password.as_ref().unwrap().reveal(), "secret");
        assert_eq!((settings.user.as_deref(), settings.database.as_deref()), (Some("me"), Some("orders")));
        assert_eq!((settings.table.as_str(), settings.channel.as_str()), ("\"x\".\"leases\"", "leases"));
        assert_eq!((settings.application_name.as_str(), settings.ssl_mode), ("app", SslMode::Disable));
        assert_eq!(settings.connect_timeout, Some(Duration::from_secs(4)));
        assert_eq!(settings.tcp.idle, Duration::from_secs(9));
        assert_eq!(settings.tcp.user_timeout, Duration::from_millis(700));
        assert_eq!(settings.advisory, Some(Advisory::Pair(1, -2)));
        let socket = parse("postgres://%2Frun%2Fpostgresql/d?advisory=hashtext").unwrap();
        assert_eq!(socket.hosts[0].name, "/run/postgresql");
        assert_eq!((socket.advisory, socket.ssl_mode), (Some(Advisory::HashText), SslMode::Prefer));
    }

    #[test]
    fn a_wrong_parameter_is_refused_with_its_reason() {
        for (query, reason) in [
            ("sslmode=maybe", "no sslmode `maybe`"),
            ("sslcert=/x", "need each other"),
            ("sslrootcert=system&sslmode=require", "needs sslmode=verify-full"),
            ("sslrootcert=/no/such/file", "/no/such/file"),
            ("table=a;drop", "neither `table`"),
            ("advisory=x", "neither a key"),
            ("target_session_attrs=standby", "cannot be written"),
            ("channel_binding=require", "not supported"),
            ("keepalives_idle=x", "no number"),
            ("nonsense=1", "knows no parameter `nonsense`"),
        ] {
            let error = parse(&format!("postgres://h/d?{query}")).err().expect(query).to_string();
            assert!(error.contains(reason), "{query}: {error}");
        }
    }

    #[test]
    fn a_password_file_is_read_as_libpq_reads_it() {
        let entry = ["h", "5432", "d", "me"];
        let password = |line| password_of_line(line, entry).map(|secret| secret.reveal().to_string());
        assert_eq!(password("h:5432:d:me:p\\:w\\\\x").as_deref(), Some("p:w\\x"));
        assert_eq!(password("*:*:*:me:any").as_deref(), Some("any"));
        for other in ["x:5432:d:me:p", "# h:5432:d:me:p", "h:5432:d:me", ""] {
            assert_eq!(password(other), None, "{other}");
        }
    }

    #[test]
    fn a_password_file_that_others_can_read_is_ignored() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = suffrage_testbed::Folder::new().unwrap();
        let path = folder.path().join("pgpass");
        std::fs::write(&path, "# comment\nh:*:*:*:secret\n").unwrap();
        let url = format!("postgres://me@h/d?passfile={}", path.display());
        for (mode, expected) in [(0o600, Some("secret")), (0o644, None)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let settings = parse(&url).unwrap();
            assert_eq!(settings.hosts[0].password.as_ref().map(Secret::reveal), expected);
        }
    }
}
