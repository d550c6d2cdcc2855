//! An amount of money in one currency, counted in Stripe's minor units.
//!
//! Amounts of different currencies cannot be mixed: there are no operators, and the methods answer
//! with an error. A result that does not fit is an error, never wrapped or cut off.

use std::{cmp::Ordering, fmt};

use crate::{
    Currency, MoneyError,
    number::{Number, NumberFault, with_point},
};

/// A number of minor units, zero or more, of one currency.
///
/// Prints like `12.50 EUR`, `500 JPY`, `1.500 KWD` and `5 ISK`; [`Amount::parse`] reads it back.
///
/// ```compile_fail,E0369
/// use gate_money::{Amount, Currency};
/// # fn main() -> Result<(), gate_money::MoneyError> {
/// let euro = Amount::new(1250, Currency::EUR)?;
/// let yen = Amount::new(500, Currency::JPY)?;
/// let nonsense = euro + yen;
/// # Ok(()) }
/// ```
///
/// ```compile_fail,E0369
/// use gate_money::{Amount, Currency};
/// # fn main() -> Result<(), gate_money::MoneyError> {
/// let euro = Amount::new(1250, Currency::EUR)?;
/// let yen = Amount::new(500, Currency::JPY)?;
/// let nonsense = euro < yen;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Amount {
    minor: i64,
    currency: Currency,
}

impl Amount {
    /// The largest amount that may be refunded, in minor units: the largest integer that every
    /// reader of JSON keeps exactly, 2^53 − 1.
    pub const MINOR_MAX: i64 = (1 << 53) - 1;

    /// An amount that may be refunded: from 1 to [`MINOR_MAX`](Self::MINOR_MAX) minor units, and a
    /// multiple of the currency's granularity.
    ///
    /// # Errors
    ///
    /// [`MoneyError::InvalidAmount`], naming the nearest amounts that would do.
    pub const fn new(minor: i64, currency: Currency) -> Result<Self, MoneyError> {
        let step = currency.granularity();
        let (below, above) = (multiple_at_most(minor, step), multiple_at_least(minor, step));
        match (below, above) {
            (Some(below), Some(above)) if below == above => Ok(Self { minor, currency }),
            (below, above) => Err(MoneyError::InvalidAmount { above, below, currency, minor }),
        }
    }

    /// An amount that Stripe reports: zero or more minor units, whatever the granularity. It may
    /// be printed, compared and valued, and goes through [`Amount::new`] before it is refunded.
    ///
    /// # Errors
    ///
    /// [`MoneyError::InvalidAmount`] when it is negative.
    pub const fn from_stripe(minor: i64, currency: Currency) -> Result<Self, MoneyError> {
        if minor < 0 {
            return Err(MoneyError::InvalidAmount { above: Some(0), below: None, currency, minor });
        }
        Ok(Self { minor, currency })
    }

    /// How many minor units it is.
    #[must_use]
    pub const fn minor(self) -> i64 {
        self.minor
    }

    /// The currency it is in.
    #[must_use]
    pub const fn currency(self) -> Currency {
        self.currency
    }

    /// Both together.
    ///
    /// # Errors
    ///
    /// [`MoneyError::CurrencyMismatch`]; [`MoneyError::Overflow`] when the sum does not fit.
    pub fn checked_add(self, other: Self) -> Result<Self, MoneyError> {
        self.same_currency(other)?;
        let minor = self.minor.checked_add(other.minor).ok_or(MoneyError::Overflow)?;
        Ok(Self { minor, ..self })
    }

    /// What is left without `other`, down to nothing.
    ///
    /// # Errors
    ///
    /// [`MoneyError::CurrencyMismatch`]; [`MoneyError::Underflow`] when `other` is the larger.
    pub fn checked_sub(self, other: Self) -> Result<Self, MoneyError> {
        self.same_currency(other)?;
        match self.minor.checked_sub(other.minor) {
            Some(minor) if minor >= 0 => Ok(Self { minor, ..self }),
            Some(_) | None => Err(MoneyError::Underflow),
        }
    }

    /// Which of both is the larger.
    ///
    /// # Errors
    ///
    /// [`MoneyError::CurrencyMismatch`].
    pub fn compare(self, other: Self) -> Result<Ordering, MoneyError> {
        self.same_currency(other)?;
        Ok(self.minor.cmp(&other.minor))
    }

    /// Reads what an amount prints, and nothing else: each amount has one text.
    ///
    /// # Errors
    ///
    /// [`MoneyError::InvalidText`], [`MoneyError::InvalidNumber`] or
    /// [`MoneyError::UnknownCurrency`].
    pub fn parse(text: &str) -> Result<Self, MoneyError> {
        let (number, code) = text.split_once(' ').ok_or(MoneyError::InvalidText)?;
        let currency = Currency::parse(code)?;
        let minor = Number::parse_plain(number)?.in_units(currency.decimals())?;
        let amount = Self::from_stripe(minor, currency)?;
        if amount.to_string() == text { Ok(amount) } else { Err(MoneyError::InvalidText) }
    }

    /// Reads an amount that may be refunded from a number of whole units, such as `20`, `20.5` or
    /// `2e1`: a JSON number's text, or what stands in a JSON string.
    ///
    /// Stricter than arithmetic needs: more decimals than the currency has are refused even when
    /// they are zeros, because `20.000` means twenty thousand to half of Europe.
    ///
    /// # Errors
    ///
    /// [`MoneyError::InvalidNumber`] when the text is not a plain number that fits;
    /// [`MoneyError::InvalidAmount`] when [`Amount::new`] refuses the amount. Both have the code
    /// `invalid_amount`.
    pub fn parse_major(number: &str, currency: Currency) -> Result<Self, MoneyError> {
        Self::new(Number::parse(number)?.in_units(currency.decimals())?, currency)
    }

    /// [`Amount::parse_major`] for whoever asked in whole units: what will not do is refused with
    /// the nearest amounts in whole units too, so that nobody takes a count of minor units for one
    /// of major units.
    ///
    /// # Errors
    ///
    /// [`MoneyError::InvalidMajor`], where [`Amount::parse_major`] finds too many decimals or an
    /// amount that may not be refunded; else its errors.
    pub fn parse_asked(number: &str, currency: Currency) -> Result<Self, MoneyError> {
        Self::parse_major(number, currency).map_err(|error| {
            let at_most = if let MoneyError::InvalidAmount { minor, .. } = error {
                minor
            } else if let MoneyError::InvalidNumber(NumberFault::TooManyDecimals { .. }) = error
                && let Some(cut) =
                    Number::parse(number).ok().and_then(|it| it.in_units_cut(currency.decimals()))
            {
                cut
            } else {
                return error;
            };
            let step = currency.granularity();
            let amount = |minor| Self { minor, currency };
            MoneyError::InvalidMajor {
                above: multiple_at_least(at_most.saturating_add(1), step).map(amount),
                below: multiple_at_most(at_most, step).map(amount),
                currency,
            }
        })
    }

    /// The number in whole units, with the decimals that the currency shows: `12.50`.
    ///
    /// An amount of ISK or UGX that is no whole number, which only Stripe could report, shows its
    /// hundredths all the same: a text never hides a part of an amount.
    #[must_use]
    pub fn text_major(self) -> String {
        let (step, decimals) = (self.currency.granularity(), self.currency.decimals());
        let shown = self.currency.shown_decimals();
        match (self.minor.checked_div(step), self.minor.checked_rem(step)) {
            (Some(whole), Some(0)) if shown < decimals => with_point(whole, shown),
            _ => with_point(self.minor, decimals),
        }
    }

    fn same_currency(self, other: Self) -> Result<(), MoneyError> {
        if self.currency == other.currency {
            return Ok(());
        }
        Err(MoneyError::CurrencyMismatch { left: self.currency, right: other.currency })
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} {}", self.text_major(), self.currency))
    }
}

/// The largest multiple of `step` that may be refunded and is not above `minor`.
const fn multiple_at_most(minor: i64, step: i64) -> Option<i64> {
    let capped = if minor < Amount::MINOR_MAX { minor } else { Amount::MINOR_MAX };
    if capped < step {
        return None;
    }
    match capped.checked_rem(step) {
        Some(rest) => capped.checked_sub(rest),
        None => None,
    }
}

/// The smallest multiple of `step` that may be refunded and is not below `minor`.
const fn multiple_at_least(minor: i64, step: i64) -> Option<i64> {
    if minor <= step {
        return Some(step);
    }
    let next = match minor.checked_rem(step) {
        Some(0) => Some(minor),
        Some(rest) => minor.checked_add(step.saturating_sub(rest)),
        None => None,
    };
    match next {
        Some(next) if next <= Amount::MINOR_MAX => Some(next),
        Some(_) | None => None,
    }
}
