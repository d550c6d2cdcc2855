//! Where the database is, and whether the way there is encrypted.
//!
//! Invariant *no-quiet-downgrade*: a connection that leaves this machine is encrypted and its
//! server's certificate is verified, unless the address says `sslmode=disable` itself.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// How long making a connection may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// After how long without an answer from the other machine a connection is given up.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// What every session is told: how long one statement, a wait for a lock, and a pause between two
/// statements of a transaction may last, in milliseconds. A gateway that stops in the middle thus
/// never holds the others up for longer.
const SESSION_OPTIONS: &str =
    "-c statement_timeout=30000 -c lock_timeout=15000 -c idle_in_transaction_session_timeout=15000";

/// The address of a PostgreSQL database, checked, with its password.
///
/// `Display` shows user, hosts and database, and neither it nor `Debug` shows the password.
#[derive(Clone)]
pub struct PostgresAddress {
    pub(super) config: Config,
    /// Certificates that vouch for the server, instead of those of the public authorities.
    pub(super) root_cert: Option<PathBuf>,
    /// The file that holds the password, when the address itself does not.
    password_file: Option<PathBuf>,
}

impl PostgresAddress {
    /// Whether `text` means to be such an address.
    #[must_use]
    pub fn is_meant_by(text: &str) -> bool {
        text.starts_with("postgres://") || text.starts_with("postgresql://")
    }

    /// Reads `postgres://USER:PASSWORD@HOST:PORT/DATABASE`. Further hosts follow a comma. Of the
    /// parameters, `sslmode` is `disable` or `require`, `sslrootcert` the path of a file with the
    /// certificates to trust, and `password_file` that of a file with the password; the rest are
    /// those of the client library, such as `application_name`. Without `sslmode`, only loopback addresses and Unix sockets go without
    /// TLS.
    ///
    /// # Errors
    ///
    /// What is wrong and what to write instead; never what stands in `text`.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !Self::is_meant_by(text) {
            return Err("it is no address such as postgres://USER@HOST/DATABASE".to_owned());
        }
        let (front, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut mode, mut root_cert, mut password_file) = (None, None, None);
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => root_cert = Some(PathBuf::from(decoded(value)?)),
                Some(("password_file", value)) => {
                    password_file = Some(PathBuf::from(decoded(value)?));
                }
                _ => rest.push(pair),
            }
        }
        let plain =
            if rest.is_empty() { front.to_owned() } else { format!("{front}?{}", rest.join("&")) };
        let mut config = Config::from_str(&plain).map_err(|error| {
            let cause = std::error::Error::source(&error);
            cause.map_or_else(|| error.to_string(), ToString::to_string)
        })?;
        if config.get_dbname().is_none() || config.get_hosts().is_empty() {
            return Err(
                "it names no host or no database; write postgres://USER@HOST/DATABASE".to_owned()
            );
        }
        config.ssl_mode(match mode {
            None if config.get_hosts().iter().all(is_here) => SslMode::Disable,
            None | Some("require" | "verify-ca" | "verify-full") => SslMode::Require,
            Some("disable") => SslMode::Disable,
            Some(_) => {
                return Err("sslmode may be disable or require (which verifies the server); \
                            anything between would be no protection"
                    .to_owned());
            }
        });
        let options = match config.get_options() {
            Some(given) => format!("{SESSION_OPTIONS} {given}"),
            None => SESSION_OPTIONS.to_owned(),
        };
        config
            .options(options)
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(SILENCE_MAX)
            .keepalives_idle(SILENCE_MAX)
            // Of several hosts the one that may be written to; none that only follows.
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_application_name().is_none() {
            config.application_name("action-gateway");
        }
        if config.get_password().is_some() && password_file.is_some() {
            return Err("it holds a password and names a password_file: give one".to_owned());
        }
        Ok(Self { config, root_cert, password_file })
    }

    /// Whether the password stands in the address itself, for whoever sees it.
    #[must_use]
    pub fn holds_password(&self) -> bool {
        self.config.get_password().is_some()
    }

    /// The file that holds the password.
    #[must_use]
    pub fn password_file(&self) -> Option<&Path> {
        self.password_file.as_deref()
    }

    /// How to connect, with the password as its file holds it now.
    ///
    /// # Errors
    ///
    /// Why the file cannot be read, for a person.
    pub(super) fn with_password(&self) -> Result<Config, String> {
        let mut config = self.config.clone();
        if let Some(path) = &self.password_file {
            let password = std::fs::read_to_string(path)
                .map_err(|error| format!("password_file {}: {error}", path.display()))?;
            config.password(password.trim_end_matches(['\n', '\r']));
        }
        Ok(config)
    }

    /// Whether the way there is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.config.get_ssl_mode() == SslMode::Require
    }
}

impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(f, "{user}@")?;
        }
        let ports = self.config.get_ports();
        for (place, host) in self.config.get_hosts().iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            match host {
                Host::Tcp(name) => write!(f, "{comma}{name}")?,
                Host::Unix(path) => write!(f, "{comma}{}", path.display())?,
            }
            // One port may stand for all hosts.
            if let Some(port) = ports.get(place).or(ports.first()).filter(|port| **port != 5432) {
                write!(f, ":{port}")?;
            }
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or_default())
    }
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresAddress({self})")
    }
}

/// Whether nothing on the way to `host` leaves this machine.
fn is_here(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
        Host::Unix(path) => Path::new(path).is_absolute(),
    }
}

/// A value of the query, its `%` sequences read.
fn decoded(value: &str) -> Result<String, String> {
    let unreadable = || "a % in it is not followed by two hexadecimal digits".to_owned();
    let mut bytes = Vec::with_capacity(value.len());
    let mut parts = value.split('%');
    bytes.extend(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).ok_or_else(unreadable)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| unreadable())?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| unreadable())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_address_comes_to() {
        let table = [
            // address | shown | encrypted, or what is said
            "postgres://a:pw@localhost/gate | postgres://a@localhost/gate | no",
            "postgresql://a:pw@127.0.0.1:5433/gate | postgres://a@127.0.0.1:5433/gate | no",
            "postgres://a@[::1]/gate | postgres://a@::1/gate | no",
            "postgres://a@%2Frun%2Fpostgresql/gate | postgres://a@/run/postgresql/gate | no",
            "postgres://a:pw@db.example/gate | postgres://a@db.example/gate | yes",
            "postgres://a:pw@db.example/gate?sslmode=disable | postgres://a@db.example/gate | no",
            "postgres://a@localhost/gate?sslmode=require | postgres://a@localhost/gate | yes",
            "postgres://a@x/g?sslmode=verify-full&sslrootcert=%2Fca.pem | postgres://a@x/g | yes",
            "postgres://a@x,localhost:1/g?application_name=b | postgres://a@x,localhost:1/g | yes",
            "postgres://a:pw@x/g?password_file=/pw | it holds a password and names",
            "postgres://a:pw@x/g?sslmode=prefer | sslmode may be disable or require",
            "postgres://a:pw@x/g?sslrootcert=%2 | a % in it is not followed",
            "postgres://a:pw@x/g?unheard=of | unknown option",
            "postgres://a:pw@x:port/g | invalid value for option `port`",
            "postgres://a:pw@localhost | it names no host or no database",
            "mysql://a:pw@x/g | it is no address such as",
        ];
        for row in table {
            let mut cells = row.split(" | ");
            let (text, shown) = (cells.next().unwrap(), cells.next().unwrap());
            match (PostgresAddress::parse(text), cells.next()) {
                (Ok(address), Some(encrypted)) => {
                    let found = if address.is_encrypted() { "yes" } else { "no" };
                    assert_eq!((address.to_string().as_str(), found), (shown, encrypted), "{row}");
                    assert_eq!(format!("{address:?}"), format!("PostgresAddress({shown})"));
                }
                (Err(said), None) => {
                    assert!(said.starts_with(shown) && !said.contains("pw"), "{row}: {said}");
                }
                (found, _) => panic!("{row}: {found:?}"),
            }
        }
    }
}
