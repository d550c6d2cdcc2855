//! The arguments of the reading tools. They are checked here, whatever a schema promised before.

use std::fmt;

use jiff::civil::{Date, Time};
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Serialize;

use crate::members::Members;
use crate::surface::{SurfaceError, shown};

/// Rows of an answer when nothing is said, and most rows of one.
const LIMIT_DEFAULT: u16 = 20;
const LIMIT_MAX: u16 = 100;
/// Longest keyword, in characters.
const KEYWORD_CHARS_MAX: usize = 200;
/// Longest cursor, in bytes.
const CURSOR_BYTES_MAX: usize = 500;
/// Seconds of a UTC day.
const DAY_SECS: i64 = 24 * 60 * 60;

/// What `finance_payments` takes.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("additionalProperties" = false))]
pub struct PaymentsRequest {
    /// The first UTC day: 2026-10-01.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date"))]
    pub date_from: Option<String>,
    /// The last UTC day; it is included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date"))]
    pub date_to: Option<String>,
    /// How many at most: 20 if left out, never more than 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1))]
    pub limit: Option<u32>,
    /// The `nextCursor` of the answer before, to go on; leave the other arguments as they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub cursor: Option<String>,
}

/// What `finance_balance` takes: nothing.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("additionalProperties" = false))]
pub struct BalanceRequest {}

/// What `customers_search` takes.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("additionalProperties" = false))]
pub struct CustomersRequest {
    /// With an @: the whole e-mail address. Otherwise: a part of the name; with less than three
    /// characters, whole words of it. It is searched for as it stands, quotes and all.
    #[schemars(length(min = 1, max = 200))]
    pub keyword: String,
    /// How many at most: 20 if left out, never more than 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1))]
    pub limit: Option<u32>,
}

/// What `finance_disputes` takes.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("additionalProperties" = false))]
pub struct DisputesRequest {
    /// `open`, which is the default, or `all`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("enum" = ["open", "all"]))]
    pub status: Option<String>,
    /// How many at most: 20 if left out, never more than 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32", range(min = 1))]
    pub limit: Option<u32>,
    /// The `nextCursor` of the answer before, to go on; leave the other arguments as they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub cursor: Option<String>,
}

/// Which payments are asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PaymentsAsk {
    /// None older than this day.
    pub from: Option<Day>,
    /// None younger than this day.
    pub to: Option<Day>,
    /// How many at most: 1 to 100.
    pub limit: u16,
    /// Where to go on; not looked into yet.
    pub cursor: Option<String>,
}

/// Which customers are asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CustomersAsk {
    /// What is searched.
    pub keyword: Keyword,
    /// How many at most: 1 to 100.
    pub limit: u16,
}

/// Which disputes are asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DisputesAsk {
    /// Whether decided ones are left out.
    pub status: DisputeStatus,
    /// How many at most: 1 to 100.
    pub limit: u16,
    /// Where to go on; not looked into yet.
    pub cursor: Option<String>,
}

/// Which disputes, by what is still to be done about them.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DisputeStatus {
    /// All of them.
    All,
    /// Those that are not decided, and those of which nobody knows.
    Open,
}

impl DisputeStatus {
    /// As it stands in a request.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Open => "open",
        }
    }
}

/// A UTC day, from 1970-01-01 to 9999-12-30. Prints as `2026-10-30`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Day {
    date: Date,
    first_secs: i64,
}

impl Day {
    /// Reads `2026-10-30`, and nothing else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let plain = text.len() == 10
            && text.bytes().enumerate().all(|(place, byte)| match place {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        let date: Date = text.parse().ok().filter(|_| plain)?;
        let first_secs =
            TimeZone::UTC.to_timestamp(date.to_datetime(Time::midnight())).ok()?.as_second();
        (first_secs >= 0).then_some(Self { date, first_secs })
    }

    /// Its first second, since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn first_secs(self) -> i64 {
        self.first_secs
    }

    /// Its last second, since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn last_secs(self) -> i64 {
        self.first_secs.saturating_add(DAY_SECS).saturating_sub(1)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.date.fmt(f)
    }
}

/// What customers are searched by: 1 to 200 characters, with nothing around them.
#[derive(Clone, Eq, PartialEq)]
pub struct Keyword(String);

impl Keyword {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Never printed: it is somebody's name or address.
impl fmt::Debug for Keyword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyword([{} characters])", self.0.chars().count())
    }
}

/// Reads the arguments of `finance_payments` from JSON.
///
/// # Errors
///
/// [`SurfaceError::InvalidRequest`] naming the argument.
pub fn parse_payments(body: &[u8]) -> Result<PaymentsAsk, SurfaceError> {
    let members = Members::parse(body, &["date_from", "date_to", "limit", "cursor"])?;
    let (from, to) = (day(&members, "date_from")?, day(&members, "date_to")?);
    if let (Some(from), Some(to)) = (from, to)
        && from > to
    {
        let detail = format!("is {from}, which is after `date_to`, {to}; swap them");
        return Err(SurfaceError::invalid("date_from", &detail));
    }
    Ok(PaymentsAsk { from, to, limit: limit(&members)?, cursor: cursor(&members)? })
}

/// Reads the arguments of `finance_balance` from JSON: an empty object.
///
/// # Errors
///
/// [`SurfaceError::InvalidRequest`] naming the argument that does not exist.
pub fn parse_balance(body: &[u8]) -> Result<(), SurfaceError> {
    Members::parse(body, &[]).map(|_| ())
}

/// Reads the arguments of `customers_search` from JSON.
///
/// # Errors
///
/// [`SurfaceError::InvalidRequest`] naming the argument. It does not repeat the keyword.
pub fn parse_customers(body: &[u8]) -> Result<CustomersAsk, SurfaceError> {
    const KEYWORD: &str = "keyword";
    let members = Members::parse(body, &[KEYWORD, "limit"])?;
    let Some(text) = members.string(KEYWORD)? else {
        let detail = "is missing; give a part of the name, or the whole e-mail address";
        return Err(SurfaceError::invalid(KEYWORD, detail));
    };
    let text = text.trim();
    if text.is_empty() {
        let detail = "is empty; give a part of the name, or the whole e-mail address";
        return Err(SurfaceError::invalid(KEYWORD, detail));
    }
    let chars = text.chars().count();
    if chars > KEYWORD_CHARS_MAX {
        let detail = format!("has {chars} characters and may have {KEYWORD_CHARS_MAX}; shorten it");
        return Err(SurfaceError::invalid(KEYWORD, &detail));
    }
    if text.contains(char::is_control) {
        let detail = "has control characters, such as a line break; leave them out";
        return Err(SurfaceError::invalid(KEYWORD, detail));
    }
    Ok(CustomersAsk { keyword: Keyword(text.to_owned()), limit: limit(&members)? })
}

/// Reads the arguments of `finance_disputes` from JSON.
///
/// # Errors
///
/// [`SurfaceError::InvalidRequest`] naming the argument.
pub fn parse_disputes(body: &[u8]) -> Result<DisputesAsk, SurfaceError> {
    let members = Members::parse(body, &["status", "limit", "cursor"])?;
    let status = match members.string("status")?.as_deref() {
        None | Some("open") => DisputeStatus::Open,
        Some("all") => DisputeStatus::All,
        Some(other) => {
            let detail = format!("must be open or all, and is {}", shown(other));
            return Err(SurfaceError::invalid("status", &detail));
        }
    };
    Ok(DisputesAsk { status, limit: limit(&members)?, cursor: cursor(&members)? })
}

fn day(members: &Members<'_>, name: &'static str) -> Result<Option<Day>, SurfaceError> {
    let Some(text) = members.string(name)? else {
        return Ok(None);
    };
    Day::parse(&text).map(Some).ok_or_else(|| {
        let detail = format!(
            "must be a day since 1970, written like 2026-10-30, and is {}; days are UTC days",
            shown(&text)
        );
        SurfaceError::invalid(name, &detail)
    })
}

/// How many rows, from the digits of a JSON number. More than there may be is no error.
fn limit(members: &Members<'_>) -> Result<u16, SurfaceError> {
    let Some(raw) = members.raw("limit") else {
        return Ok(LIMIT_DEFAULT);
    };
    let digits = raw.bytes().all(|byte| byte.is_ascii_digit());
    match raw.parse::<u16>() {
        Ok(limit @ 1..) => Ok(limit.min(LIMIT_MAX)),
        Err(_) if digits => Ok(LIMIT_MAX),
        Ok(_) | Err(_) => Err(SurfaceError::invalid(
            "limit",
            &format!(
                "must be a whole number of at least 1, written in digits alone, and is {}; more \
                 than {LIMIT_MAX} is answered with {LIMIT_MAX}",
                shown(raw)
            ),
        )),
    }
}

fn cursor(members: &Members<'_>) -> Result<Option<String>, SurfaceError> {
    let cursor = members.string("cursor")?;
    if cursor.as_ref().is_some_and(|it| it.is_empty() || it.len() > CURSOR_BYTES_MAX) {
        let detail = "must be the `nextCursor` of an answer before, unchanged; leave it out to \
                      start with the newest";
        return Err(SurfaceError::invalid("cursor", detail));
    }
    Ok(cursor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Concern, Problem};
    use proptest::prelude::*;

    /// What was refused: the argument, and what is said of it.
    fn refusal<T: fmt::Debug>(found: Result<T, SurfaceError>) -> (String, String) {
        let problem = Problem::new(found.unwrap_err(), Concern::Records, "req_1");
        assert_eq!(problem.code, "invalid_request");
        (problem.field.unwrap_or_default(), problem.detail)
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let none = PaymentsAsk { from: None, to: None, limit: 20, cursor: None };
        assert_eq!(parse_payments(b"{}").unwrap(), none);
        let none = DisputesAsk { status: DisputeStatus::Open, limit: 20, cursor: None };
        assert_eq!(parse_disputes(b"{}").unwrap(), none);
        assert_eq!(parse_customers(br#"{"keyword":" Ann "}"#).unwrap().keyword.as_str(), "Ann");
        parse_balance(b"{}").unwrap();
    }

    #[test]
    fn whole_requests() {
        let ask = parse_payments(
            br#"{"date_from":"2026-02-28","date_to":"2026-03-01","limit":100,"cursor":"c"}"#,
        )
        .unwrap();
        let expected = PaymentsAsk {
            from: Day::parse("2026-02-28"),
            to: Day::parse("2026-03-01"),
            limit: 100,
            cursor: Some("c".to_owned()),
        };
        assert_eq!(ask, expected);
        let ask = parse_disputes(br#"{"status":"all","limit":1,"cursor":"c"}"#).unwrap();
        let cursor = Some("c".to_owned());
        assert_eq!(ask, DisputesAsk { status: DisputeStatus::All, limit: 1, cursor });
    }

    #[test]
    fn limits() {
        let table = [
            ("1", Some(1)),
            ("20", Some(20)),
            ("100", Some(100)),
            ("101", Some(100)),
            ("65536", Some(100)),
            ("99999999999999999999999999", Some(100)),
            ("0", None),
            ("00", None),
            ("-5", None),
            ("1e1", None),
            ("20.0", None),
            ("\"20\"", None),
            ("null", None),
        ];
        for (raw, limit) in table {
            let found = parse_payments(format!(r#"{{"limit":{raw}}}"#).as_bytes());
            assert_eq!(found.as_ref().ok().map(|ask| ask.limit), limit, "{raw}: {found:?}");
        }
    }

    #[test]
    fn days() {
        let table = [
            // text,       first and last second
            ("1970-01-01", Some((0, 86_399))),
            ("2024-02-29", Some((1_709_164_800, 1_709_251_199))),
            ("2026-10-30", Some((1_793_318_400, 1_793_404_799))),
            ("2026-02-29", None),
            ("2026-13-01", None),
            ("1969-12-31", None),
            ("2026-1-1", None),
            ("2026-10-30T00:00:00Z", None),
            ("20261030", None),
            ("30.10.2026", None),
            ("-00001-01-01", None),
            ("today", None),
            ("", None),
        ];
        for (text, secs) in table {
            let day = Day::parse(text);
            assert_eq!(day.map(|day| (day.first_secs(), day.last_secs())), secs, "{text}");
            assert!(day.is_none_or(|day| day.to_string() == text), "{text}");
        }
    }

    #[test]
    fn what_will_not_do_is_named() {
        let payments = |body: &str| refusal(parse_payments(body.as_bytes()));
        let customers = |body: &str| refusal(parse_customers(body.as_bytes()));
        let disputes = |body: &str| refusal(parse_disputes(body.as_bytes()));
        let long = format!(r#"{{"keyword":"{}"}}"#, "x".repeat(201));
        let table = [
            (payments(r#"{"date_from":"yesterday"}"#), "date_from", "like 2026-10-30"),
            (payments(r#"{"date_to":20261030}"#), "date_to", "must be a string"),
            (payments(r#"{"date_to":null}"#), "date_to", "leave it out"),
            (
                payments(r#"{"date_from":"2026-10-02","date_to":"2026-10-01"}"#),
                "date_from",
                "swap them",
            ),
            (payments(r#"{"limit":0}"#), "limit", "at least 1"),
            (payments(r#"{"cursor":""}"#), "cursor", "nextCursor"),
            (payments(r#"{"from":"2026-10-01"}"#), "from", "date_from, date_to, limit, cursor"),
            (customers("{}"), "keyword", "is missing"),
            (customers(r#"{"keyword":" \t"}"#), "keyword", "is empty"),
            (customers(r#"{"keyword":"a\nb"}"#), "keyword", "control characters"),
            (customers(&long), "keyword", "has 201 characters"),
            (customers(r#"{"keyword":"ann","cursor":"c"}"#), "cursor", "keyword, limit"),
            (disputes(r#"{"status":"won"}"#), "status", "open or all"),
            (disputes(r#"{"limit":-1}"#), "limit", "at least 1"),
            (refusal(parse_balance(br#"{"x":1}"#)), "x", "takes no arguments"),
        ];
        for ((field, detail), expected, said) in table {
            assert_eq!(field, expected, "{detail}");
            assert!(detail.contains(said), "{detail}");
        }
    }

    #[test]
    fn the_keyword_is_never_printed() {
        let ask = parse_customers(br#"{"keyword":"canary@example.com"}"#).unwrap();
        assert!(!format!("{ask:?}").contains("canary"), "{ask:?}");
    }

    proptest! {
        #[test]
        fn nothing_panics(body: Vec<u8>, value in "\\PC{0,20}") {
            for name in ["date_from", "status", "keyword", "limit", "cursor"] {
                let body = format!(r#"{{"{name}":{value}}}"#);
                let _ = parse_payments(body.as_bytes());
                let _ = parse_customers(body.as_bytes());
                let _ = parse_disputes(body.as_bytes());
            }
            let _ = parse_payments(&body);
        }
    }
}
