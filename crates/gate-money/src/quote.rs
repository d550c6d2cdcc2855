//! Which rate holds for a currency: the dollar is exact, a pin wins over the feed, and what has
//! neither has no worth that could be held against a cap.

use crate::{Currency, MoneyError, Rate, RateTable};

/// The published rates at hand. Whether they are too old is for whoever has a clock to say.
#[derive(Clone, Copy, Debug)]
pub enum Feed<'a> {
    /// Young enough to be used.
    Current(&'a RateTable),
    /// None were ever fetched.
    Missing,
    /// Older than the gateway accepts.
    Stale(&'a RateTable),
}

/// A rate and what an auditor needs to look it up again; [`Rate::figures`] says where it is from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Quote<'a> {
    /// The rate.
    pub rate: Rate,
    /// The day it was published, `YYYY-MM-DD`; pins and the dollar have none.
    pub date: Option<&'a str>,
}

/// The rate for `currency`.
///
/// # Errors
///
/// [`MoneyError::RatesStale`] when only a stale feed covers the currency;
/// [`MoneyError::CurrencyNotSupported`] when nothing does.
pub fn quote<'a>(
    currency: Currency,
    pins: &[Rate],
    feed: Feed<'a>,
) -> Result<Quote<'a>, MoneyError> {
    if currency == Currency::USD {
        return Ok(Quote { rate: Rate::usd(), date: None });
    }
    if let Some(pin) = pins.iter().find(|pin| pin.currency() == currency) {
        return Ok(Quote { rate: *pin, date: None });
    }
    let (table, stale) = match feed {
        Feed::Current(table) => (table, false),
        Feed::Missing => return Err(MoneyError::CurrencyNotSupported { currency }),
        Feed::Stale(table) => (table, true),
    };
    match table.rate(currency) {
        None => Err(MoneyError::CurrencyNotSupported { currency }),
        Some(_) if stale => Err(MoneyError::RatesStale { currency, date: table.date().to_owned() }),
        Some(rate) => Ok(Quote { rate, date: Some(table.date()) }),
    }
}
