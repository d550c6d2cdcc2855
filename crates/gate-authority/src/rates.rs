//! Exchange rates: the European Central Bank's daily file, read, guarded and kept.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use gate_core::Timestamp;
use gate_money::{Currency, Decimal, RateTable, TableFault, parse_figure};
use jiff::civil::Date;
use quick_xml::events::{BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// Where the published rates come from.
#[async_trait]
pub trait RatesFeed: Send + Sync {
    /// The feed's XML, as it is.
    ///
    /// # Errors
    ///
    /// What went wrong, for the log.
    async fn fetch(&self) -> Result<Vec<u8>, String>;
}

/// A feed that is refused whole; the old table stays.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FeedError {
    /// A day in the future: somebody's clock is wrong.
    Future(String),
    /// Not the feed's XML. What was wrong with it.
    Malformed(String),
    /// It could not be fetched.
    Unavailable(String),
    /// Its figures do not make a table, or do not follow from the last one.
    Untrusted(TableFault),
}

impl fmt::Display for FeedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Future(date) => write!(f, "the exchange rates are of {date}, which is to come"),
            Self::Malformed(what) => write!(f, "the exchange-rate feed is malformed: {what}"),
            Self::Unavailable(what) => write!(f, "the exchange rates cannot be fetched: {what}"),
            Self::Untrusted(fault) => write!(f, "the exchange rates are refused: {fault}"),
        }
    }
}

impl std::error::Error for FeedError {}

/// Reads one day's table out of the feed's XML: a `Cube` with a `time`, and in it one `Cube` with
/// `currency` and `rate` for each currency. Currencies that Stripe does not have are passed over.
///
/// # Errors
///
/// [`FeedError::Malformed`] or [`FeedError::Untrusted`]; a table is taken whole or not at all.
pub fn parse_feed(xml: &[u8]) -> Result<RateTable, FeedError> {
    let malformed = |what: &dyn fmt::Display| FeedError::Malformed(what.to_string());
    let text = std::str::from_utf8(xml).map_err(|error| malformed(&error))?;
    let mut reader = Reader::from_str(text);
    let mut date: Option<String> = None;
    let mut rows: Vec<(Currency, Decimal)> = Vec::new();
    let mut depth = 0_u32;
    loop {
        let event = reader.read_event().map_err(|error| malformed(&error))?;
        match &event {
            Event::Start(_) => depth = depth.saturating_add(1),
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Eof if depth > 0 => return Err(malformed(&"it ends in the middle")),
            Event::Eof => break,
            Event::Empty(_)
            | Event::Text(_)
            | Event::CData(_)
            | Event::Comment(_)
            | Event::Decl(_)
            | Event::PI(_)
            | Event::DocType(_)
            | Event::GeneralRef(_) => {}
        }
        if let Event::Start(element) | Event::Empty(element) = &event
            && element.local_name().as_ref() == "Cube"
        {
            if let Some(time) = attribute(element, "time")? {
                if date.is_some() {
                    return Err(malformed(&"it has more than one day"));
                }
                date = Some(time);
            }
            if let Some(row) = rate(element)? {
                rows.push(row);
            }
        }
    }
    let date = date.ok_or_else(|| malformed(&"it names no day"))?;
    RateTable::new(&date, rows).map_err(FeedError::Untrusted)
}

fn rate(element: &BytesStart<'_>) -> Result<Option<(Currency, Decimal)>, FeedError> {
    let (Some(code), Some(figure)) = (attribute(element, "currency")?, attribute(element, "rate")?)
    else {
        return Ok(None);
    };
    let figure = parse_figure(&figure)
        .map_err(|fault| FeedError::Malformed(format!("the rate of {code}: {fault}")))?;
    Ok(Currency::parse(&code).ok().map(|currency| (currency, figure)))
}

fn attribute(element: &BytesStart<'_>, name: &str) -> Result<Option<String>, FeedError> {
    let malformed = |what: String| FeedError::Malformed(what);
    let found = element.try_get_attribute(name).map_err(|error| malformed(error.to_string()))?;
    found
        .map(|attribute| {
            attribute
                .normalized_value(XmlVersion::Explicit1_0)
                .map(|value| value.into_owned())
                .map_err(|error| malformed(error.to_string()))
        })
        .transpose()
}

/// Whether a table is too old to be used at `now`, counted from the start of its day in UTC.
#[must_use]
pub fn is_stale(table: &RateTable, now: Timestamp, max_age: Duration) -> bool {
    published(table).is_none_or(|published| now.since(published) > max_age)
}

/// The start of a table's day in UTC.
pub(crate) fn published(table: &RateTable) -> Option<Timestamp> {
    let date: Date = table.date().parse().ok()?;
    let start = jiff::tz::TimeZone::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok()?;
    Some(Timestamp::from_millis(start.as_millisecond()))
}
