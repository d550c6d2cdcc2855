//! Currencies, amounts, exchange rates and micro-dollars.
//!
//! Everything that the gateway knows about money, without I/O: how Stripe counts each currency,
//! what an [`Amount`] looks like as text, and what it is worth in [`MicroUsd`] for the caps. No
//! floating point, no arithmetic between currencies, no silent rounding, wrapping or defaults: what
//! is not certain is an error that says what to do.
//!
//! ```
//! use gate_money::{Amount, Currency, MoneyError, RateTable, parse_figure};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // What a person or an agent writes, and what Stripe is sent.
//! let amount = Amount::parse_major("12.5", Currency::parse("eur")?)?;
//! assert_eq!(amount.minor(), 1250);
//! assert_eq!(amount.to_string(), "12.50 EUR");
//!
//! // What Stripe would refuse is refused before it is sent.
//! let refused = Amount::new(1505, Currency::KWD).unwrap_err();
//! assert_eq!(refused.code(), "invalid_amount");
//! assert_eq!(
//!     refused.to_string(),
//!     "1505 minor units of KWD will not do; the nearest amounts that would are 1500 and 1510",
//! );
//!
//! // What it counts against the caps, rounded up once.
//! let table = RateTable::new(
//!     "2026-10-30",
//!     [(Currency::USD, parse_figure("1.1172")?), (Currency::JPY, parse_figure("175.68")?)],
//! )?;
//! let yen = Amount::new(500, Currency::JPY)?;
//! let rate = table.rate(Currency::JPY).ok_or(MoneyError::InvalidText)?;
//! assert_eq!(rate.to_micro_usd(yen)?.to_string(), "3.179645 USD");
//! # Ok(()) }
//! ```

mod amount;
mod currency;
mod error;
mod micro_usd;
mod number;
mod pins;
mod quote;
mod rate;
mod table;
mod wide;

pub use amount::Amount;
pub use currency::{Currency, Standing};
pub use error::{MoneyError, Shortened};
pub use micro_usd::MicroUsd;
pub use number::{NumberFault, parse_figure};
pub use pins::{PinFault, PinFaultKind, parse_pins};
pub use quote::{Feed, Quote, quote};
pub use rate::{Rate, RateFigures};
pub use rust_decimal::Decimal;
pub use table::{RateTable, TableFault};
