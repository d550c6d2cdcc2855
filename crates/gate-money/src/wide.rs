//! Whole numbers of 320 bits, for the products between a rate and its result.
//!
//! The largest product that an amount and a rate can make has 272 bits, so nothing on the way to a
//! result is rounded, and only a result can be too large.

use rust_decimal::Decimal;

/// A whole number; most significant limb first, so that the derived order is the numbers' order.
#[derive(Clone, Copy, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Wide([u64; 5]);

impl Wide {
    /// The digits of a decimal, without its point and sign.
    pub(crate) fn mantissa(figure: Decimal) -> Self {
        let digits = figure.unpack();
        Self([0, 0, 0, digits.hi.into(), u64::from(digits.mid) << 32 | u64::from(digits.lo)])
    }

    /// The product, or `None` when it does not fit.
    pub(crate) fn times(mut self, factor: u64) -> Option<Self> {
        let mut carry = 0;
        for limb in self.0.iter_mut().rev() {
            (*limb, carry) = limb.carrying_mul(factor, carry);
        }
        (carry == 0).then_some(self)
    }

    /// The product with ten to the `exponent`, or `None` when it does not fit.
    pub(crate) fn times_ten_to(self, exponent: u32) -> Option<Self> {
        (0..exponent).try_fold(self, |product, _| product.times(10))
    }
}
