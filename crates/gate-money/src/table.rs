//! A day's reference rates, held against nonsense before they replace the ones in use.
//!
//! A table is whole or it is not made: without dollars, with a figure that is not above zero, or
//! with a jump against the table before, none of it counts and the old one stays.

use std::{collections::BTreeMap, fmt};

use rust_decimal::Decimal;

use crate::{Currency, Rate, error::Shortened, wide::Wide};

/// What one euro was worth on a day, as the European Central Bank published it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RateTable {
    date: String,
    usd_per_eur: Decimal,
    rows: BTreeMap<Currency, Decimal>,
}

/// Why a day's rates were refused, all of them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum TableFault {
    /// The day is not a day of the calendar, written `YYYY-MM-DD`.
    BadDate {
        /// What was given, shortened.
        date: Shortened,
    },
    /// A figure that is zero or below, or a euro that is not one euro.
    BadFigure {
        /// Whose figure it is.
        currency: Currency,
        /// The figure, in units for one euro.
        figure: Decimal,
    },
    /// Two figures for one currency.
    Duplicate {
        /// The currency that came twice.
        currency: Currency,
    },
    /// A figure more than a fifth above or below the one before.
    Jump {
        /// Whose figure it is.
        currency: Currency,
        /// The figure that came, in units for one euro.
        figure: Decimal,
        /// The figure before, in units for one euro.
        figure_before: Decimal,
    },
    /// No dollars, without which no figure has a worth.
    NoDollar,
    /// Of an earlier day than the table that it should replace.
    Older {
        /// The day of the table in use.
        date_before: String,
    },
}

impl RateTable {
    /// The figures of `date`, in units of each currency for one euro. The euro's own line, which
    /// the bank does not publish, may be left out.
    ///
    /// # Errors
    ///
    /// Every [`TableFault`] but those of [`follows`](Self::follows).
    pub fn new(
        date: &str,
        rows: impl IntoIterator<Item = (Currency, Decimal)>,
    ) -> Result<Self, TableFault> {
        if !is_day(date) {
            return Err(TableFault::BadDate { date: Shortened::new(date) });
        }
        let mut table = BTreeMap::new();
        for (currency, figure) in rows {
            if figure <= Decimal::ZERO || (currency == Currency::EUR && figure != Decimal::ONE) {
                return Err(TableFault::BadFigure { currency, figure });
            }
            if table.insert(currency, figure).is_some() {
                return Err(TableFault::Duplicate { currency });
            }
        }
        let usd_per_eur = *table.get(&Currency::USD).ok_or(TableFault::NoDollar)?;
        Ok(Self { date: date.to_owned(), usd_per_eur, rows: table })
    }

    /// The day, `YYYY-MM-DD`.
    #[must_use]
    pub fn date(&self) -> &str {
        &self.date
    }

    /// The figures as they were given, in the order of the currencies' codes.
    pub fn rows(&self) -> impl Iterator<Item = (Currency, Decimal)> {
        self.rows.iter().map(|(currency, figure)| (*currency, *figure))
    }

    /// What a unit of `currency` was worth. The dollar and the euro always have a rate.
    #[must_use]
    pub fn rate(&self, currency: Currency) -> Option<Rate> {
        if currency == Currency::USD {
            return Some(Rate::usd());
        }
        let euro = (currency == Currency::EUR).then_some(Decimal::ONE);
        let units_per_eur = euro.or_else(|| self.rows.get(&currency).copied())?;
        Rate::from_feed(currency, units_per_eur, self.usd_per_eur).ok()
    }

    /// Whether this table may replace the one in use: not of an earlier day, and no figure more
    /// than a fifth off. A currency that only one of them has is not compared.
    ///
    /// A jump that really happened is refused as well, day after day, until the table in use is
    /// dropped: how long it may be compared with is for the caller to say, and pins bridge the gap.
    ///
    /// # Errors
    ///
    /// [`TableFault::Older`] or [`TableFault::Jump`], which names the first such currency.
    pub fn follows(&self, yesterday: &Self) -> Result<(), TableFault> {
        // Days of this form sort like the calendar.
        if self.date < yesterday.date {
            return Err(TableFault::Older { date_before: yesterday.date.clone() });
        }
        for (currency, figure) in self.rows() {
            let Some(&figure_before) = yesterday.rows.get(&currency) else {
                continue;
            };
            if jumps(figure, figure_before) {
                return Err(TableFault::Jump { currency, figure, figure_before });
            }
        }
        Ok(())
    }
}

impl fmt::Display for TableFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadDate { date } => {
                write!(f, "the rates' day is {date} where YYYY-MM-DD should be")?;
            }
            Self::BadFigure { currency, figure } => {
                write!(f, "the figure for {currency} is {figure}, which no currency is worth")?;
            }
            Self::Duplicate { currency } => write!(f, "there are two figures for {currency}")?,
            Self::Jump { currency, figure, figure_before } => write!(
                f,
                "the figure for {currency} went from {figure_before} to {figure}, more than 20 % off"
            )?,
            Self::NoDollar => f.write_str("there is no figure for USD")?,
            Self::Older { date_before } => {
                write!(f, "the rates are of an earlier day than those in use, of {date_before}")?;
            }
        }
        f.write_str(": the old rates stay; check GATEWAY_FX_URL, or pin rates with FIAT_USD_RATES")
    }
}

impl std::error::Error for TableFault {}

/// Whether `figure` is more than a fifth above or below `before`; both are above zero.
fn jumps(figure: Decimal, before: Decimal) -> bool {
    // In fifths of a common unit. No product is larger than 192 bits, so none is `None`.
    let fifths = |figure: Decimal, other: Decimal, factor: u64| {
        Wide::mantissa(figure).times_ten_to(other.scale()).and_then(|digits| digits.times(factor))
    };
    let now = fifths(figure, before, 5);
    now > fifths(before, figure, 6) || now < fifths(before, figure, 4)
}

fn is_day(text: &str) -> bool {
    let mut parts = text.split('-');
    let mut part = |digits: usize| {
        let text = parts.next().filter(|part| part.len() == digits)?;
        text.bytes().all(|byte| byte.is_ascii_digit()).then_some(text)?.parse::<u16>().ok()
    };
    let (Some(year), Some(month), Some(day)) = (part(4), part(2), part(2)) else {
        return false;
    };
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 0,
    };
    parts.next().is_none() && (1..=days).contains(&day)
}
