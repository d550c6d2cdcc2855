//! Decimal numbers read from text into integers, digit by digit: never through a float, and never
//! with a digit lost. What is not written plainly is refused instead of being guessed at.

use std::fmt;

use rust_decimal::Decimal;

/// Why a text is not the number that was asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NumberFault {
    /// Signs, blanks, separators, words, a bare point, needless leading zeros, nothing at all.
    NotPlain,
    /// More digits, or a larger exponent, than any amount has.
    TooLarge,
    /// More decimals than the unit has, be they zeros: `20.000` is twenty to some people and
    /// twenty thousand to others.
    TooManyDecimals {
        /// How many there may be.
        decimals_max: u8,
    },
}

impl fmt::Display for NumberFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPlain => f.write_str(
                "the number is not written plainly: use digits and at most one decimal point, \
                 without sign, blank or separator",
            ),
            Self::TooLarge => {
                f.write_str("the number has more digits than fit: use a smaller or shorter one")
            }
            Self::TooManyDecimals { decimals_max: 0 } => {
                f.write_str("the number has decimals where there are none: use a whole number")
            }
            Self::TooManyDecimals { decimals_max } => {
                write!(f, "the number has too many decimals: use at most {decimals_max}")
            }
        }
    }
}

impl std::error::Error for NumberFault {}

/// Reads a published figure, such as `175.68`, without rounding it.
///
/// # Errors
///
/// [`NumberFault`] when it is not written plainly, has an exponent, or has more digits than
/// [`Decimal`] holds.
pub fn parse_figure(text: &str) -> Result<Decimal, NumberFault> {
    let number = Number::parse_plain(text)?;
    let digits = i128::try_from(number.digits).map_err(|_| NumberFault::TooLarge)?;
    let scale = u32::try_from(number.scale).map_err(|_| NumberFault::TooLarge)?;
    Decimal::try_from_i128_with_scale(digits, scale).map_err(|_| NumberFault::TooLarge)
}

/// `minor` written with `places` decimals: 1250 with 2 is `12.50`.
pub(crate) fn with_point(minor: i64, places: u8) -> String {
    let places = usize::from(places);
    let mut text = format!("{minor:0width$}", width = places.saturating_add(1));
    if places > 0 {
        text.insert(text.len().saturating_sub(places), '.');
    }
    text
}

/// `digits` divided by ten to the `scale`; a negative scale comes from an exponent.
#[derive(Clone, Copy)]
pub(crate) struct Number {
    digits: u128,
    scale: i32,
}

impl Number {
    /// Reads what JSON calls a number, without a sign in front: `20`, `20.50`, `2e1`.
    pub(crate) fn parse(text: &str) -> Result<Self, NumberFault> {
        let Some((plain, exponent)) = text.split_once(['e', 'E']) else {
            return Self::parse_plain(text);
        };
        let plain = Self::parse_plain(plain)?;
        if !is_digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)) {
            return Err(NumberFault::NotPlain);
        }
        let exponent: i16 = exponent.parse().map_err(|_| NumberFault::TooLarge)?;
        let scale = plain.scale.checked_sub(i32::from(exponent)).ok_or(NumberFault::TooLarge)?;
        Ok(Self { scale, ..plain })
    }

    /// Reads a number without an exponent: `20`, `20.50`.
    pub(crate) fn parse_plain(text: &str) -> Result<Self, NumberFault> {
        let (whole, decimals) = match text.split_once('.') {
            Some((_, "")) => return Err(NumberFault::NotPlain),
            Some((whole, decimals)) => (whole, decimals),
            None => (text, ""),
        };
        let padded = whole.len() > 1 && whole.starts_with('0');
        if padded || !is_digits(whole) || !(decimals.is_empty() || is_digits(decimals)) {
            return Err(NumberFault::NotPlain);
        }
        Ok(Self {
            digits: format!("{whole}{decimals}").parse().map_err(|_| NumberFault::TooLarge)?,
            scale: i32::try_from(decimals.len()).map_err(|_| NumberFault::TooLarge)?,
        })
    }

    /// The same number as a count of units of which ten to the `decimals` make one.
    pub(crate) fn in_units(self, decimals: u8) -> Result<i64, NumberFault> {
        let places = i32::from(decimals).checked_sub(self.scale).ok_or(NumberFault::TooLarge)?;
        let places = u32::try_from(places)
            .map_err(|_| NumberFault::TooManyDecimals { decimals_max: decimals })?;
        10_u128
            .checked_pow(places)
            .and_then(|factor| self.digits.checked_mul(factor))
            .and_then(|units| i64::try_from(units).ok())
            .ok_or(NumberFault::TooLarge)
    }

    /// A count of units for a number with more decimals than they have, the rest cut off.
    pub(crate) fn in_units_cut(self, decimals: u8) -> Option<i64> {
        let surplus = self.scale.checked_sub(i32::from(decimals))?;
        let units = match 10_u128.checked_pow(u32::try_from(surplus).ok()?) {
            Some(divisor) => self.digits.checked_div(divisor)?,
            None => 0,
        };
        i64::try_from(units).ok()
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
