//! Amounts and dollars as they stand on the wire.

use gate_core::Valuation;
use gate_money::{Amount, MicroUsd};
use schemars::JsonSchema;
use serde::Serialize;

/// An amount of money.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Amount")]
pub struct AmountView {
    /// The amount in the currency's minor unit, as Stripe counts it: 1250 is 12.50 EUR.
    pub minor: i64,
    /// The currency in lower case.
    pub currency: &'static str,
    /// How many decimals the minor unit stands for.
    pub decimals: u8,
    /// The amount for people.
    pub text: String,
    /// What it counts for the caps, in millionths of a US dollar. Left out where no exchange rate
    /// covers the currency.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub usd_micros: Option<i64>,
}

impl AmountView {
    /// `amount`, and what it is worth where that is known.
    #[must_use]
    pub fn new(amount: Amount, worth: Option<&Valuation>) -> Self {
        Self {
            minor: amount.minor(),
            currency: amount.currency().lower(),
            decimals: amount.currency().decimals(),
            text: amount.to_string(),
            usd_micros: worth.map(|worth| worth.usd.micros()),
        }
    }
}

/// Dollars with two to six decimals and without the currency: `500.00`.
#[must_use]
pub fn dollars(usd: MicroUsd) -> String {
    let text = usd.to_string();
    text.strip_suffix(" USD").unwrap_or(&text).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gate_money::Currency;

    #[test]
    fn amounts_follow_stripe() {
        let table = [
            // minor, currency     decimals  text
            (1250, Currency::EUR, 2, "12.50 EUR"),
            (5800, Currency::JPY, 0, "5800 JPY"),
            (1500, Currency::KWD, 3, "1.500 KWD"),
            (500, Currency::ISK, 2, "5 ISK"),
            (500, Currency::UGX, 2, "5 UGX"),
        ];
        for (minor, currency, decimals, text) in table {
            let view = AmountView::new(Amount::new(minor, currency).unwrap(), None);
            assert_eq!((view.minor, view.decimals, view.text.as_str()), (minor, decimals, text));
            assert_eq!(view.currency, currency.code().to_lowercase());
        }
    }

    #[test]
    fn dollars_have_two_to_six_decimals() {
        let table = [
            (0, "0.00"),
            (500_000_000, "500.00"),
            (12_500_000, "12.50"),
            (1, "0.000001"),
            (i64::MAX, "9223372036854.775807"),
        ];
        for (micros, text) in table {
            assert_eq!(dollars(MicroUsd::new(micros).unwrap()), text);
        }
    }
}
