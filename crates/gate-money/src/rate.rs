//! What a currency is worth in dollars, and the one place where an amount becomes dollars.
//!
//! The value is an exact fraction of whole numbers until the end, and is then rounded once, **up**
//! to the micro-dollar: an amount never looks smaller than it is, and a refund split in two is
//! never cheaper than in one.

use rust_decimal::Decimal;

use crate::{Amount, Currency, MicroUsd, MoneyError, wide::Wide};

/// What a currency is worth in US dollars, kept as the published figures it comes from.
///
/// A quotient would already be rounded, and [`Decimal`] rounds a long product without saying so;
/// either could make a refund look smaller than it is. So nothing is divided before the end.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rate {
    currency: Currency,
    figures: RateFigures,
}

/// The figures of a [`Rate`], for whoever keeps it and builds it again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RateFigures {
    /// Two figures of one day's reference rates of the European Central Bank.
    Feed {
        /// Units of the currency for one euro.
        units_per_eur: Decimal,
        /// US dollars for one euro.
        usd_per_eur: Decimal,
    },
    /// The operator's own figure.
    Pinned {
        /// US dollars for one unit of the currency.
        usd_per_unit: Decimal,
    },
    /// The dollar itself.
    Usd,
}

impl Rate {
    /// The dollar in dollars: exact.
    #[must_use]
    pub const fn usd() -> Self {
        Self { currency: Currency::USD, figures: RateFigures::Usd }
    }

    /// From two published figures: units of `currency` for one euro, and dollars for one euro.
    ///
    /// # Errors
    ///
    /// [`MoneyError::InvalidRate`] as for [`Rate::from_figures`].
    pub fn from_feed(
        currency: Currency,
        units_per_eur: Decimal,
        usd_per_eur: Decimal,
    ) -> Result<Self, MoneyError> {
        Self::from_figures(currency, RateFigures::Feed { units_per_eur, usd_per_eur })
    }

    /// From the operator's figure: dollars for one unit of `currency`.
    ///
    /// # Errors
    ///
    /// [`MoneyError::InvalidRate`] as for [`Rate::from_figures`].
    pub fn pinned(currency: Currency, usd_per_unit: Decimal) -> Result<Self, MoneyError> {
        Self::from_figures(currency, RateFigures::Pinned { usd_per_unit })
    }

    /// From figures that were kept.
    ///
    /// # Errors
    ///
    /// [`MoneyError::InvalidRate`] when a figure is zero or below, when a euro is said to be other
    /// than one euro, and when the dollar has another rate than its own or the only one is missing.
    pub fn from_figures(currency: Currency, figures: RateFigures) -> Result<Self, MoneyError> {
        let foreign = currency != Currency::USD;
        let valid = match figures {
            RateFigures::Feed { units_per_eur, usd_per_eur } => {
                let one_euro = currency != Currency::EUR || units_per_eur == Decimal::ONE;
                foreign && one_euro && units_per_eur > Decimal::ZERO && usd_per_eur > Decimal::ZERO
            }
            RateFigures::Pinned { usd_per_unit } => foreign && usd_per_unit > Decimal::ZERO,
            RateFigures::Usd => !foreign,
        };
        if valid {
            Ok(Self { currency, figures })
        } else {
            Err(MoneyError::InvalidRate { currency })
        }
    }

    /// The currency it is for.
    #[must_use]
    pub const fn currency(self) -> Currency {
        self.currency
    }

    /// The figures it comes from, as they were given.
    #[must_use]
    pub const fn figures(self) -> RateFigures {
        self.figures
    }

    /// Converts `amount` to millionths of a dollar, rounding **up**, once.
    ///
    /// # Errors
    ///
    /// [`MoneyError::CurrencyMismatch`] when the rate is for another currency;
    /// [`MoneyError::Overflow`] when the result does not fit.
    pub fn to_micro_usd(self, amount: Amount) -> Result<MicroUsd, MoneyError> {
        let (left, right) = (amount.currency(), self.currency);
        if left != right {
            return Err(MoneyError::CurrencyMismatch { left, right });
        }
        let minor = u64::try_from(amount.minor()).map_err(|_| MoneyError::Underflow)?;
        let (dollars, units) = self.figures.dollars_for_units();
        // minor / 10^decimals × dollars / units, in millionths, with the powers of ten of both
        // sides set off against each other.
        let up = units.scale().saturating_add(MicroUsd::DECIMALS.into());
        let down = dollars.scale().saturating_add(left.decimals().into());
        let numerator = Wide::mantissa(dollars)
            .times_ten_to(up.saturating_sub(down))
            .and_then(|product| product.times(minor));
        let denominator = Wide::mantissa(units).times_ten_to(down.saturating_sub(up));
        let (Some(numerator), Some(denominator)) = (numerator, denominator) else {
            return Err(MoneyError::Overflow);
        };
        MicroUsd::new(quotient_up(numerator, denominator).ok_or(MoneyError::Overflow)?)
    }
}

impl RateFigures {
    /// So many dollars are worth so many units.
    const fn dollars_for_units(self) -> (Decimal, Decimal) {
        match self {
            Self::Feed { units_per_eur, usd_per_eur } => (usd_per_eur, units_per_eur),
            Self::Pinned { usd_per_unit } => (usd_per_unit, Decimal::ONE),
            Self::Usd => (Decimal::ONE, Decimal::ONE),
        }
    }
}

/// The smallest whole number that is not below `numerator / denominator`, which is what rounding up
/// means; `None` when it is larger than fits. Found by halving, since products need no rounding.
fn quotient_up(numerator: Wide, denominator: Wide) -> Option<i64> {
    // A product that does not fit is larger than any numerator that does.
    let covers = |count: u64| denominator.times(count).is_none_or(|product| product >= numerator);
    let (mut low, mut high) = (0, i64::MAX.unsigned_abs());
    if !covers(high) {
        return None;
    }
    while low < high {
        let middle = u64::midpoint(low, high);
        if covers(middle) {
            high = middle;
        } else {
            low = middle.saturating_add(1);
        }
    }
    i64::try_from(low).ok()
}
