//! Dollars for caps, budgets and thresholds, counted in millionths.

use std::fmt;

use crate::{
    MoneyError,
    number::{Number, with_point},
};

/// Millionths of a US dollar, from 0 to `i64::MAX` (about nine trillion dollars).
///
/// Prints in dollars with two to six decimals, such as `12.50 USD` or `0.000001 USD`.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct MicroUsd(i64);

impl MicroUsd {
    /// No money.
    pub const ZERO: Self = Self(0);

    /// The decimals of a dollar that are counted.
    pub(crate) const DECIMALS: u8 = 6;

    /// So many millionths of a dollar.
    ///
    /// # Errors
    ///
    /// [`MoneyError::Underflow`] when it is negative.
    pub const fn new(micros: i64) -> Result<Self, MoneyError> {
        if micros < 0 { Err(MoneyError::Underflow) } else { Ok(Self(micros)) }
    }

    /// How many millionths of a dollar it is.
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.0
    }

    /// Reads dollars from a setting, such as `50` or `2000.00`, with up to six decimals.
    ///
    /// # Errors
    ///
    /// [`MoneyError::InvalidNumber`] for everything else, exponents too.
    pub fn parse_dollars(text: &str) -> Result<Self, MoneyError> {
        Ok(Self(Number::parse_plain(text)?.in_units(Self::DECIMALS)?))
    }

    /// Both together.
    ///
    /// # Errors
    ///
    /// [`MoneyError::Overflow`] when the sum does not fit.
    pub const fn checked_add(self, other: Self) -> Result<Self, MoneyError> {
        match self.0.checked_add(other.0) {
            Some(micros) => Ok(Self(micros)),
            None => Err(MoneyError::Overflow),
        }
    }

    /// What is left without `other`, down to nothing.
    ///
    /// # Errors
    ///
    /// [`MoneyError::Underflow`] when `other` is the larger.
    pub const fn checked_sub(self, other: Self) -> Result<Self, MoneyError> {
        match self.0.checked_sub(other.0) {
            Some(micros) if micros >= 0 => Ok(Self(micros)),
            Some(_) | None => Err(MoneyError::Underflow),
        }
    }
}

impl fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dollars = with_point(self.0, Self::DECIMALS);
        let mut shown = dollars.as_str();
        for _ in 2..Self::DECIMALS {
            shown = shown.strip_suffix('0').unwrap_or(shown);
        }
        f.pad(&format!("{shown} USD"))
    }
}
