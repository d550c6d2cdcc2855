//! Rates that the operator pins in `FIAT_USD_RATES`, such as `KWD=3.26,EUR=1.10`: dollars for one
//! unit. The setting is read whole and all that is wrong with it is said at once.

use std::fmt;

use crate::{Currency, NumberFault, Rate, error::Shortened, number::parse_figure};

/// One thing that is wrong with the setting.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PinFault {
    item: Shortened,
    kind: PinFaultKind,
}

/// What is wrong with one item of the setting.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum PinFaultKind {
    /// The figure is not a number.
    BadFigure(NumberFault),
    /// The currency has a pin already.
    Duplicate,
    /// The figure is zero.
    NotAboveZero,
    /// Not of the form `KWD=3.26`.
    NotAPair,
    /// Not a currency that Stripe knows.
    UnknownCurrency,
    /// A dollar is a dollar.
    UsdNeedsNone,
}

impl PinFault {
    /// The item, shortened.
    #[must_use]
    pub const fn item(&self) -> &Shortened {
        &self.item
    }

    /// What is wrong with it.
    #[must_use]
    pub const fn kind(&self) -> PinFaultKind {
        self.kind
    }
}

impl fmt::Display for PinFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.item)?;
        match self.kind {
            PinFaultKind::BadFigure(fault) => fault.fmt(f),
            PinFaultKind::Duplicate => f.write_str("the currency has a pin already: keep one"),
            PinFaultKind::NotAboveZero => {
                f.write_str("no currency is worth nothing: use a figure above zero")
            }
            PinFaultKind::NotAPair => {
                f.write_str("not a pin: write it like KWD=3.26, with commas between pins only")
            }
            PinFaultKind::UnknownCurrency => f.write_str(
                "not a currency that Stripe knows: use a code of three letters, such as KWD",
            ),
            PinFaultKind::UsdNeedsNone => f.write_str("a dollar is a dollar: remove the pin"),
        }
    }
}

impl std::error::Error for PinFault {}

/// Reads the setting. Blanks around pins and around `=` are fine; an empty text has no pins.
///
/// # Errors
///
/// One [`PinFault`] for each item that will not do, in their order.
pub fn parse_pins(text: &str) -> Result<Vec<Rate>, Vec<PinFault>> {
    let (mut pins, mut faults) = (Vec::<Rate>::new(), Vec::new());
    if text.trim().is_empty() {
        return Ok(pins);
    }
    for item in text.split(',').map(str::trim) {
        match parse_pin(item, &pins) {
            Ok(pin) => pins.push(pin),
            Err(kind) => faults.push(PinFault { item: Shortened::new(item), kind }),
        }
    }
    if faults.is_empty() { Ok(pins) } else { Err(faults) }
}

fn parse_pin(item: &str, before: &[Rate]) -> Result<Rate, PinFaultKind> {
    let (code, figure) = item.split_once('=').ok_or(PinFaultKind::NotAPair)?;
    let currency = Currency::parse(code.trim_end()).map_err(|_| PinFaultKind::UnknownCurrency)?;
    if currency == Currency::USD {
        return Err(PinFaultKind::UsdNeedsNone);
    }
    if before.iter().any(|pin| pin.currency() == currency) {
        return Err(PinFaultKind::Duplicate);
    }
    let figure = parse_figure(figure.trim_start()).map_err(PinFaultKind::BadFigure)?;
    Rate::pinned(currency, figure).map_err(|_| PinFaultKind::NotAboveZero)
}
