//! The currencies of Stripe's API, as the sandbox counts them.
//!
//! The table is the sandbox's own, so that it can contradict the gateway's. Decimals and steps are
//! those of Stripe's currency page: UGX and ISK are counted in hundredths but charged in whole
//! units, and amounts in three-decimal currencies end in 0.

use crate::failure::Failure;

/// The largest amount of a charge, in minor units: twelve digits, as Stripe takes for most cards.
const AMOUNT_MAX: i64 = 999_999_999_999;

const ZERO_DECIMALS: &str = "bif clp djf gnf jpy kmf krw mga pyg rwf vnd vuv xaf xof xpf";
const THREE_DECIMALS: &str = "bhd jod kwd omr tnd";
const WHOLE_UNITS: &str = "isk ugx";
/// Currencies in which a charge can be made now. Charges in withdrawn ones come only from the
/// control API.
const CHARGEABLE: &str = "aed afn all amd ang aoa ars aud awg azn bam bbd bdt bhd bif bmd bnd bob \
    brl bsd bwp byn bzd cad cdf chf clp cny cop crc cve czk djf dkk dop dzd egp etb eur fjd fkp \
    gbp gel gip gmd gnf gtq gyd hkd hnl htg huf idr ils inr isk jmd jod jpy kes kgs khr kmf krw \
    kwd kyd kzt lak lbp lkr lrd lsl mad mdl mga mkd mmk mnt mop mur mvr mwk mxn myr mzn nad ngn \
    nio nok npr nzd omr pab pen pgk php pkr pln pyg qar ron rsd rub rwf sar sbd scr sek sgd shp \
    sle sos srd std szl thb tjs tnd top try ttd twd tzs uah ugx usd uyu uzs vnd vuv wst xaf xcd \
    xcg xof xpf yer zar zmw";

/// Refuses an amount and a currency, in lower case, in which no charge can be made.
pub(crate) fn check_charge(amount: i64, currency: &str) -> Result<(), Failure> {
    if !listed(CHARGEABLE, currency) {
        let known = CHARGEABLE.replace(' ', ", ");
        let text = format!(
            "Invalid currency: {currency}. Stripe currently supports these currencies: {known}"
        );
        return Err(Failure::invalid(text).param("currency"));
    }
    if amount > AMOUNT_MAX {
        let text = format!("Amount must be no more than {}", written(AMOUNT_MAX, currency));
        return Err(Failure::invalid(text).code("amount_too_large").param("amount"));
    }
    check_step(amount, currency)
}

/// Refuses an amount that is finer than the currency allows.
pub(crate) fn check_step(amount: i64, currency: &str) -> Result<(), Failure> {
    let code = currency.to_uppercase();
    let text = if listed(WHOLE_UNITS, currency) && amount % 100 != 0 {
        format!(
            "Invalid amount. Currency {code} has become effectively zero-decimal and charged \
             amounts must be evenly divisible by 100."
        )
    } else if listed(THREE_DECIMALS, currency) && amount % 10 != 0 {
        format!("Invalid amount. Amounts in {code} must be evenly divisible by 10.")
    } else {
        return Ok(());
    };
    Err(Failure::invalid(text).param("amount"))
}

/// An amount in minor units as Stripe writes it for people: `$1,234.56`, `¥9,899`, `1.500 KWD`.
pub(crate) fn written(amount: i64, currency: &str) -> String {
    let decimals = decimals(currency);
    let digits = format!("{amount:0>width$}", width = decimals.saturating_add(1));
    let (units, fraction) =
        digits.split_at_checked(digits.len().saturating_sub(decimals)).unwrap_or((&digits, ""));
    let mut grouped = String::new();
    for (place, digit) in units.chars().enumerate() {
        if place > 0 && units.len().saturating_sub(place) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if !fraction.is_empty() {
        grouped.push('.');
        grouped.push_str(fraction);
    }
    match currency {
        "eur" => format!("€{grouped}"),
        "gbp" => format!("£{grouped}"),
        "jpy" => format!("¥{grouped}"),
        "usd" => format!("${grouped}"),
        _ => format!("{grouped} {}", currency.to_uppercase()),
    }
}

fn decimals(currency: &str) -> usize {
    if listed(ZERO_DECIMALS, currency) {
        0
    } else if listed(THREE_DECIMALS, currency) {
        3
    } else {
        2
    }
}

fn listed(list: &str, currency: &str) -> bool {
    list.split_whitespace().any(|code| code == currency)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_written_as_stripe_does() {
        for (amount, currency, shown) in [
            (3000, "usd", "$30.00"),
            (123_456, "usd", "$1,234.56"),
            (5, "eur", "€0.05"),
            (9899, "jpy", "¥9,899"),
            (500, "ugx", "5.00 UGX"),
            (500, "isk", "5.00 ISK"),
            (1500, "kwd", "1.500 KWD"),
            (1_000_000, "krw", "1,000,000 KRW"),
        ] {
            assert_eq!(written(amount, currency), shown);
        }
    }

    #[test]
    fn charges_are_checked() {
        for (amount, currency, right) in [
            (1, "usd", true),
            (1, "jpy", true),
            (500, "ugx", true),
            (550, "ugx", false),
            (500, "isk", true),
            (550, "isk", false),
            (1510, "kwd", true),
            (1505, "kwd", false),
            (12_345, "huf", true),
            (12_345, "twd", true),
            (1000, "bgn", false),
            (1000, "xyz", false),
            (AMOUNT_MAX, "idr", true),
            (AMOUNT_MAX + 1, "idr", false),
        ] {
            assert_eq!(check_charge(amount, currency).is_ok(), right, "{amount} {currency}");
        }
    }
}
