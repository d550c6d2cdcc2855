//! What can be wrong with money.

use std::fmt;

use crate::{Amount, Currency, NumberFault};

/// Why an amount, a sum of dollars or a rate was refused.
///
/// The text is for people and says what to do; [`code`](Self::code) is for programs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum MoneyError {
    /// Two amounts, or an amount and a rate, in different currencies.
    CurrencyMismatch {
        /// The currency of the first.
        left: Currency,
        /// The currency of the second.
        right: Currency,
    },
    /// There is neither a pin nor a published rate for the currency.
    CurrencyNotSupported {
        /// The currency without a rate.
        currency: Currency,
    },
    /// A number of minor units that will not do.
    InvalidAmount {
        /// The nearest larger number that would do, in minor units, if there is one.
        above: Option<i64>,
        /// The nearest smaller number that would do, in minor units, if there is one.
        below: Option<i64>,
        /// The currency it was meant in.
        currency: Currency,
        /// The number, in minor units.
        minor: i64,
    },
    /// An amount in whole units that will not do: it has more decimals than its currency, or Stripe
    /// would not refund it.
    InvalidMajor {
        /// The nearest larger amount that would do, if there is one.
        above: Option<Amount>,
        /// The nearest smaller amount that would do, if there is one.
        below: Option<Amount>,
        /// The currency it was meant in.
        currency: Currency,
    },
    /// A text that is not the number it should be.
    InvalidNumber(NumberFault),
    /// A rate that is not above zero, a euro that is not one euro, or a rate for the dollar.
    InvalidRate {
        /// The currency it was for.
        currency: Currency,
    },
    /// A text that is not an amount as [`Amount`] prints it.
    InvalidText,
    /// The result is larger than fits.
    Overflow,
    /// Only the published rates cover the currency, and they are too old.
    RatesStale {
        /// The currency without a current rate.
        currency: Currency,
        /// The day of the rates, `YYYY-MM-DD`.
        date: String,
    },
    /// The result is below zero.
    Underflow,
    /// Not a currency that Stripe knows.
    UnknownCurrency {
        /// What was given, shortened.
        code: Shortened,
    },
}

impl MoneyError {
    /// The stable name for programs. Where the HTTP interface has a code for the case, it is that.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::CurrencyMismatch { .. } => "currency_mismatch",
            Self::CurrencyNotSupported { .. } | Self::UnknownCurrency { .. } => {
                "currency_not_supported"
            }
            Self::InvalidAmount { .. }
            | Self::InvalidMajor { .. }
            | Self::InvalidNumber(_)
            | Self::InvalidText
            | Self::Overflow
            | Self::Underflow => "invalid_amount",
            Self::InvalidRate { .. } => "invalid_rate",
            Self::RatesStale { .. } => "rates_stale",
        }
    }
}

impl fmt::Display for MoneyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CurrencyMismatch { left, right } => {
                write!(f, "{left} and {right} do not go together: use one currency")
            }
            Self::CurrencyNotSupported { currency } => write!(
                f,
                "there is no rate for {currency}: pin one with FIAT_USD_RATES={currency}=…, in \
                 dollars for one unit"
            ),
            Self::InvalidAmount { above, below, currency, minor } => {
                write!(f, "{minor} minor units of {currency} will not do; ")?;
                nearest(f, below.as_ref(), above.as_ref())
            }
            Self::InvalidMajor { above, below, currency } => {
                write!(f, "this amount will not do in {currency}; ")?;
                nearest(f, below.as_ref(), above.as_ref())
            }
            Self::InvalidNumber(fault) => fault.fmt(f),
            Self::InvalidRate { currency } => write!(
                f,
                "the rate for {currency} will not do: every figure must be above zero, a euro is \
                 one euro, and the dollar takes no rate"
            ),
            Self::InvalidText => f.write_str(
                "not an amount as it is written here: write it like 12.50 EUR, 500 JPY or 1.500 KWD",
            ),
            Self::Overflow => f.write_str("the amount is larger than fits: use a smaller one"),
            Self::RatesStale { currency, date } => write!(
                f,
                "the rates of {date} are too old for {currency}: restore the feed, or pin a rate \
                 with FIAT_USD_RATES"
            ),
            Self::Underflow => {
                f.write_str("the amount would be below zero: take away no more than there is")
            }
            Self::UnknownCurrency { code } => write!(
                f,
                "{code} is not a currency that Stripe knows: use a code of three letters, such as \
                 eur"
            ),
        }
    }
}

fn nearest<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    below: Option<&T>,
    above: Option<&T>,
) -> fmt::Result {
    match (below, above) {
        (Some(below), Some(above)) => {
            write!(f, "the nearest amounts that would are {below} and {above}")
        }
        (Some(nearest), None) | (None, Some(nearest)) => {
            write!(f, "the nearest amount that would is {nearest}")
        }
        (None, None) => f.write_str("no amount near it would"),
    }
}

impl std::error::Error for MoneyError {}

impl From<NumberFault> for MoneyError {
    fn from(fault: NumberFault) -> Self {
        Self::InvalidNumber(fault)
    }
}

/// The beginning of a foreign text, quoted and escaped, safe to print on one line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Shortened(String);

impl Shortened {
    /// As much of a foreign text as a message repeats, in characters.
    const CHARS_MAX: usize = 24;

    pub(crate) fn new(text: &str) -> Self {
        Self(text.chars().take(Self::CHARS_MAX).collect())
    }
}

impl fmt::Display for Shortened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}
