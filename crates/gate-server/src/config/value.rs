//! The values that settings take, and how they are read from text.
//!
//! Every reader answers with the value, or with the end of the sentence "GATEWAY_PORT holds "x", …"
//! that says what is wrong and what to do.

use std::{fmt, net::IpAddr, num::NonZeroU32, path::PathBuf, time::Duration};

use gate_core::AccountId;
use gate_store::PostgresAddress;
use hyper::Uri;

use super::Database;
use super::settings::{Setting, Shape};
use crate::logging;

/// A whole `http` or `https` address without user, password or fragment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WebUrl {
    host: String,
    https: bool,
    path_and_query: String,
    port: u16,
}

impl WebUrl {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || "which is not a URL: write it like https://example.com".to_owned();
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) | None => return Err(wrong()),
        };
        let authority = uri.authority().ok_or_else(wrong)?;
        if authority.as_str().contains('@') {
            return Err("which has a user or password in it: remove them".to_owned());
        }
        let host = authority.host();
        // A port that is none is passed over by the parser.
        if host.is_empty() || (authority.port().is_none() && authority.as_str() != host) {
            return Err(wrong());
        }
        if text.contains('#') {
            return Err("which has a fragment in it: remove the # and what follows".to_owned());
        }
        Ok(Self {
            host: host.to_ascii_lowercase(),
            https,
            path_and_query: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            port: authority.port_u16().unwrap_or(default_port(https)),
        })
    }

    /// An address that paths are put behind: of `https`, or of `http` on this machine.
    pub(super) fn parse_base(text: &str) -> Result<Self, String> {
        let url = Self::parse_guarded(text)?;
        url.bare().then_some(url).ok_or_else(path_fault)
    }

    /// An address whose answer counts: of `https`, or of `http` on this machine.
    pub(super) fn parse_guarded(text: &str) -> Result<Self, String> {
        let url = Self::parse(text)?;
        if url.https || url.loopback() {
            Ok(url)
        } else {
            Err("which others on the way can read and change: write https://".to_owned())
        }
    }

    /// Where people reach the console; a proxy on the way may be the one that speaks TLS.
    pub(super) fn parse_origin(text: &str) -> Result<Self, String> {
        let url = Self::parse(text)?;
        url.bare().then_some(url).ok_or_else(path_fault)
    }

    /// The host in lower case; an IPv6 address stands in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Whether it is reached over TLS.
    #[must_use]
    pub const fn https(&self) -> bool {
        self.https
    }

    /// Whether it is on this machine.
    #[must_use]
    pub fn loopback(&self) -> bool {
        let address = self.host.trim_start_matches('[').trim_end_matches(']');
        self.host == "localhost"
            || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// The path, starting with `/`, and the query.
    #[must_use]
    pub fn path_and_query(&self) -> &str {
        &self.path_and_query
    }

    /// The port, the scheme's own when none was given.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    fn bare(&self) -> bool {
        self.path_and_query == "/"
    }
}

/// Without the port that goes without saying, and without a path that is only `/`.
impl fmt::Display for WebUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port != default_port(self.https) {
            write!(f, ":{}", self.port)?;
        }
        if self.bare() { Ok(()) } else { f.write_str(&self.path_and_query) }
    }
}

const fn default_port(https: bool) -> u16 {
    if https { 443 } else { 80 }
}

fn path_fault() -> String {
    "which has a path: give the address without one, like https://example.com".to_owned()
}

/// How many requests one agent may make.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AgentRate {
    /// At once, after a pause; at least one.
    pub burst: NonZeroU32,
    /// In a second, for as long as it likes; at least one.
    pub per_second: NonZeroU32,
}

/// The most requests in a second or at once that an agent can be given.
const RATE_MAX: u32 = 100_000;

pub(super) fn agent_rate(text: &str) -> Result<AgentRate, String> {
    let number = |text: &str| {
        let number: NonZeroU32 = text.parse().ok()?;
        (number.get() <= RATE_MAX).then_some(number)
    };
    let parts: Vec<&str> = text.split_whitespace().collect();
    let parsed = match parts.as_slice() {
        [rate, "burst", burst] => rate.strip_suffix("/s").map(number).zip(Some(number(burst))),
        _ => None,
    };
    match parsed {
        Some((Some(per_second), Some(burst))) => Ok(AgentRate { burst, per_second }),
        _ => Err(format!(
            "which is not a rate: write it like \"100/s burst 400\", with numbers from 1 to \
             {RATE_MAX}"
        )),
    }
}

pub(super) fn account(text: &str) -> Result<AccountId, String> {
    AccountId::parse(text).map_err(|fault| format!("which is {fault}"))
}

/// An address to listen on.
pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    match bare {
        "localhost" => Ok(IpAddr::from([127, 0, 0, 1])),
        _ => bare.parse().map_err(|_| {
            "which is not an IP address: use 127.0.0.1, or 0.0.0.0 for every interface".to_owned()
        }),
    }
}

pub(super) fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| {
        if text.starts_with("tcp://") {
            "which is not a port: Kubernetes sets this variable for a Service named \"gateway\"; \
             rename the Service, or give the Pod enableServiceLinks: false"
                .to_owned()
        } else {
            "which is not a port: use a number from 0 to 65535".to_owned()
        }
    })
}

/// A whole number within the setting's bounds.
pub(super) fn number(setting: &Setting, text: &str) -> Result<u32, String> {
    let (least, most) = match setting.shape {
        Shape::Number { least, most } => (least, most),
        Shape::ConfigFile
        | Shape::Hosts
        | Shape::Path
        | Shape::Secret
        | Shape::Span { .. }
        | Shape::Switch
        | Shape::Text(_)
        | Shape::Words(_) => (0, u32::MAX),
    };
    match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        Ok(_) => Err(format!("which is out of bounds: use a number from {least} to {most}")),
        Err(_) => Err(format!("which is no whole number: use one from {least} to {most}")),
    }
}

/// Host names in lower case, without repeats; IPv6 addresses in brackets.
pub(super) fn hosts(text: &str) -> Result<Vec<String>, String> {
    let mut hosts = Vec::new();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let host = host(item)?;
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    Ok(hosts)
}

fn host(item: &str) -> Result<String, String> {
    let bare = item.trim_start_matches('[').trim_end_matches(']');
    if let Ok(IpAddr::V6(address)) = bare.parse() {
        return Ok(format!("[{address}]"));
    }
    let name = item.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if name {
        Ok(item.to_ascii_lowercase())
    } else {
        Err("where a host name is not one: write names alone, without https://, port, path or *, \
             and commas between them"
            .to_owned())
    }
}

pub(super) fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err("which is no path: give one, or unset it".to_owned());
    }
    Ok(PathBuf::from(text))
}

/// The path of a database file, or the address of a PostgreSQL database.
pub(super) fn database(text: &str) -> Result<Database, String> {
    let lower = text.to_ascii_lowercase();
    if lower.starts_with("postgres:") || lower.starts_with("postgresql:") {
        return PostgresAddress::parse(text)
            .map(|address| Database::Postgres(Box::new(address)))
            .map_err(|problem| format!("which cannot be used: {problem}"));
    }
    if lower.starts_with(":memory:") {
        return Err("which is lost with the process: give the path of an SQLite file".into());
    }
    if lower.contains("://") || lower.starts_with("file:") || lower.starts_with("sqlite:") {
        return Err("which is neither the path of an SQLite file, without file:, nor an address \
                    such as postgres://USER@HOST/DATABASE"
            .into());
    }
    path(text).map(Database::File)
}

/// `2025-09-30.clover`, or the day alone for the versions of before the names.
pub(super) fn version(text: &str) -> Result<String, String> {
    let (day, name) = text.split_once('.').map_or((text, None), |(day, name)| (day, Some(name)));
    let form = day.bytes().map(|byte| match byte {
        b'0'..=b'9' => b'0',
        _ => byte,
    });
    let named = name.is_none_or(|name| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
    });
    if form.eq(*b"0000-00-00") && named {
        Ok(text.to_owned())
    } else {
        Err("which is not a version of Stripe's interface: write it like 2025-09-30.clover".into())
    }
}

pub(super) fn switch(text: &str) -> Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("which is neither 0 nor 1: use 1 for yes and 0 for no".to_owned()),
    }
}

/// What the log lets through, as text that [`logging`] takes.
pub(super) fn log_filter(text: &str) -> Result<String, String> {
    const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];
    let levels = text
        .split(',')
        .map(|part| part.rsplit('=').next().unwrap_or(part).trim())
        .all(|level| LEVELS.contains(&level.to_ascii_lowercase().as_str()));
    if levels && logging::filter(text).is_ok() {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "which is not a filter: use one of {}, or MODULE=LEVEL, with commas between them",
            LEVELS.join(", ")
        ))
    }
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LogFormat {
    /// One JSON object a line, for programs.
    Json,
    /// For people.
    Text,
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "json" => Ok(LogFormat::Json),
        "text" => Ok(LogFormat::Text),
        _ => Err("which is no format: use text or json".to_owned()),
    }
}

/// The units of a span, in milliseconds, longest first.
const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// A span of time within the setting's bounds.
pub(super) fn span(setting: &Setting, text: &str) -> Result<Duration, String> {
    let (least, most) = match setting.shape {
        Shape::Span { least, most } => (least, most),
        Shape::ConfigFile
        | Shape::Hosts
        | Shape::Number { .. }
        | Shape::Path
        | Shape::Secret
        | Shape::Switch
        | Shape::Text(_)
        | Shape::Words(_) => (Duration::ZERO, Duration::MAX),
    };
    let bounds = format!("from {} to {}", span_text(least), span_text(most));
    let span = parse_span(text).ok_or_else(|| {
        format!("which is not a span of time: write it like 500ms, 20s, 1m, 2h or 7d, {bounds}")
    })?;
    if span < least || span > most {
        return Err(format!("which is out of bounds: use a span {bounds}"));
    }
    Ok(span)
}

/// A span of time, such as `500ms`, `20s`, `1m`, `2h` or `7d`.
pub(crate) fn parse_span(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).unwrap_or((text, ""));
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*millis).map(Duration::from_millis)
}

/// A span in the longest unit that has it whole.
pub(super) fn span_text(span: Duration) -> String {
    let millis = span.as_millis();
    UNITS
        .iter()
        .find(|(_, unit)| millis.is_multiple_of(u128::from(*unit)))
        .map(|(name, unit)| {
            let count = millis.checked_div(u128::from(*unit)).unwrap_or_default();
            format!("{count}{name}")
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{super::settings, *};

    #[test]
    fn spans_have_a_unit_and_bounds() {
        let table = [
            // text      milliseconds, or a part of the fault
            ("1s", Ok(1_000)),
            ("20s", Ok(20_000)),
            ("1500ms", Ok(1_500)),
            ("1m", Ok(60_000)),
            ("999ms", Err("from 1s to 1m")),
            ("61s", Err("from 1s to 1m")),
            ("0s", Err("out of bounds")),
            ("2h", Err("out of bounds")),
            ("20", Err("not a span")),
            ("s", Err("not a span")),
            ("", Err("not a span")),
            ("-1s", Err("not a span")),
            ("1.5s", Err("not a span")),
            ("20 s", Err("not a span")),
            ("20S", Err("not a span")),
            ("99999999999999999999s", Err("not a span")),
            ("18446744073709551615d", Err("not a span")),
        ];
        for (text, expected) in table {
            match (span(&settings::STRIPE_TIMEOUT, text), expected) {
                (Ok(span), Ok(millis)) => assert_eq!(span.as_millis(), millis, "{text}"),
                (Err(fault), Err(part)) => assert!(fault.contains(part), "{text}: {fault}"),
                (found, _) => panic!("{text} gave {found:?}"),
            }
        }
    }

    #[test]
    fn urls_are_whole_and_guarded() {
        let table = [
            // text                        shown as                    or a part of the fault
            ("https://api.stripe.com", "https://api.stripe.com", ""),
            ("https://API.stripe.com:443/", "https://api.stripe.com", ""),
            ("http://127.0.0.1:12111", "http://127.0.0.1:12111", ""),
            ("http://localhost", "http://localhost", ""),
            ("http://[::1]:8080/", "http://[::1]:8080", ""),
            ("http://api.stripe.com", "", "https://"),
            ("http://127.0.0.1.example.com", "", "https://"),
            ("http://10.0.0.1", "", "https://"),
            ("https://a:b@c.com", "", "user or password"),
            ("http://localhost@evil.com", "", "user or password"),
            ("https://c.com/v1", "", "a path"),
            ("https://c.com/?a", "", "a path"),
            ("https://c.com/#a", "", "fragment"),
            ("https://c.com:99999", "", "not a URL"),
            ("https://c.com:", "", "not a URL"),
            ("https://", "", "not a URL"),
            ("ftp://c.com", "", "not a URL"),
            ("api.stripe.com", "", "not a URL"),
            ("", "", "not a URL"),
        ];
        for (text, shown, part) in table {
            match WebUrl::parse_base(text) {
                Ok(url) => assert_eq!(url.to_string(), shown, "{text}"),
                Err(fault) => assert!(shown.is_empty() && fault.contains(part), "{text}: {fault}"),
            }
        }
        let feed = WebUrl::parse_guarded("https://c.com/a.xml?b=1").unwrap();
        assert_eq!(feed.path_and_query(), "/a.xml?b=1");
    }

    #[test]
    fn hosts_are_names_alone() {
        let table = [
            // text                     hosts
            ("", Some(&[][..])),
            ("Pay.example.com", Some(&["pay.example.com"])),
            ("a, b ,,a", Some(&["a", "b"])),
            ("10.0.0.1,::1,[fe80::2]", Some(&["10.0.0.1", "[::1]", "[fe80::2]"])),
            ("https://a", None),
            ("a:8787", None),
            ("*.example.com", None),
            ("a b", None),
        ];
        for (text, expected) in table {
            let hosts = hosts(text).ok();
            let hosts: Option<Vec<&str>> =
                hosts.as_ref().map(|hosts| hosts.iter().map(String::as_str).collect());
            assert_eq!(hosts.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn small_values_take_one_form() {
        /// Kind, whether a text is taken, texts that are, texts that are not.
        type Row<'a> = (&'a str, fn(&str) -> bool, &'a [&'a str], &'a [&'a str]);
        let table: [Row<'_>; 8] = [
            ("port", |t| port(t).is_ok(), &["0", "8787", "65535"], &["", "-1", "65536", "http"]),
            ("switch", |t| switch(t).is_ok(), &["0", "1"], &["", "true", "yes", "01"]),
            (
                "address",
                |t| address(t).is_ok(),
                &["127.0.0.1", "::", "[::1]", "localhost", "0.0.0.0"],
                &["", "example.com", "127.0.0.1:80", "127.1", "[::1"],
            ),
            (
                "rate",
                |t| agent_rate(t).is_ok(),
                &["100/s burst 400", "1/s  burst 1", "100000/s burst 100000"],
                &[
                    "",
                    "100",
                    "100/s",
                    "0/s burst 1",
                    "1/s burst 0",
                    "1/m burst 1",
                    "1/s burst 100001",
                ],
            ),
            (
                "version",
                |t| version(t).is_ok(),
                &["2025-09-30.clover", "2024-06-20"],
                &["", "latest", "2025-09-30.", "2025-9-30", "2025-09-30.a b"],
            ),
            (
                "database",
                |t| database(t).is_ok(),
                &["/data/gateway.db", "gateway.db", "postgres://h/d", "postgresql://u:p@h:1/d"],
                &[
                    "",
                    "PostgreSQL://h/d",
                    "postgres://h",
                    "postgres:h/d",
                    ":memory:",
                    "sqlite://x",
                    "file:x",
                ],
            ),
            (
                "filter",
                |t| log_filter(t).is_ok(),
                &["info", "WARN", "warn,gate_core=debug", "off"],
                &["", "infoo", "loud", "gate_core", "info,", "gate_core=loud"],
            ),
            ("format", |t| log_format(t).is_ok(), &["text", "json"], &["", "JSON", "xml"]),
        ];
        for (kind, read, taken, refused) in table {
            for text in taken {
                assert!(read(text), "{kind} {text:?}");
            }
            for text in refused {
                assert!(!read(text), "{kind} {text:?}");
            }
        }
    }
}
