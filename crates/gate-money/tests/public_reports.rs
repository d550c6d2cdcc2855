//! Refunds that went wrong elsewhere because somebody miscounted a currency. Each test is the kind
//! of mistake, over every currency that can have it.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    reason = "tests unwrap and compute freely"
)]

use gate_money::{Amount, Currency, Feed, RateTable, parse_figure, quote};

/// Currencies by how they are counted, as a person knows them and not as the product does.
const WHOLE: [&str; 15] = [
    "BIF", "CLP", "DJF", "GNF", "JPY", "KMF", "KRW", "MGA", "PYG", "RWF", "VND", "VUV", "XAF",
    "XOF", "XPF",
];
const THOUSANDTHS: [&str; 5] = ["BHD", "JOD", "KWD", "OMR", "TND"];
const WHOLE_BUT_COUNTED_IN_HUNDREDTHS: [&str; 2] = ["ISK", "UGX"];

fn major(number: &str, code: &str) -> i64 {
    Amount::parse_major(number, Currency::parse(code).unwrap()).unwrap().minor()
}

fn text(minor: i64, code: &str) -> String {
    Amount::new(minor, Currency::parse(code).unwrap()).unwrap().to_string()
}

fn refused(minor: i64, code: &str) -> bool {
    Amount::new(minor, Currency::parse(code).unwrap())
        .is_err_and(|error| error.code() == "invalid_amount")
}

#[test]
fn yen_are_neither_multiplied_nor_divided_by_a_hundred() {
    for code in WHOLE {
        assert_eq!(text(9899, code), format!("9899 {code}"));
        assert_eq!(major("500", code), 500, "{code}");
        assert_eq!(text(5800, code), format!("5800 {code}"));
    }
}

#[test]
fn dinars_have_thousandths_of_which_the_last_is_zero() {
    for code in THOUSANDTHS {
        assert_eq!(major("18.60", code), 18_600, "{code}");
        assert_eq!(major("35.20", code), 35_200, "{code}");
        assert_eq!(text(1500, code), format!("1.500 {code}"));
        assert_eq!(text(1510, code), format!("1.510 {code}"));
        for last_digit in 1..10 {
            assert!(refused(1500 + last_digit, code), "{code} {last_digit}");
        }
    }
}

#[test]
fn crowns_and_shillings_are_whole_but_sent_a_hundredfold() {
    for code in WHOLE_BUT_COUNTED_IN_HUNDREDTHS {
        let currency = Currency::parse(code).unwrap();
        assert_eq!((currency.decimals(), currency.granularity()), (2, 100), "{code}");
        assert_eq!(major("5", code), 500, "{code}");
        assert_eq!(text(500, code), format!("5 {code}"));
        assert_eq!(text(10_000, code), format!("100 {code}"));
        assert_eq!(text(200_000, code), format!("2000 {code}"));
        assert!(refused(550, code) && refused(5, code), "{code}");
    }
}

#[test]
fn everything_else_has_two_decimals() {
    let others = Currency::all().filter(|currency| {
        let code = currency.code();
        !WHOLE.contains(&code)
            && !THOUSANDTHS.contains(&code)
            && !WHOLE_BUT_COUNTED_IN_HUNDREDTHS.contains(&code)
    });
    let mut count = 0;
    for currency in others {
        assert_eq!(major("20.5", currency.code()), 2050, "{currency}");
        assert_eq!(text(2050, currency.code()), format!("20.50 {currency}"));
        count += 1;
    }
    assert_eq!(count, 148 - 15 - 5 - 2);
}

#[test]
fn nothing_and_less_is_refused_in_every_currency() {
    for currency in Currency::all() {
        for minor in [0, -1, -100, i64::MIN] {
            assert!(refused(minor, currency.code()), "{minor} {currency}");
        }
        for number in ["0", "-1", "0.001", "0.0001", "1e-9"] {
            let result = Amount::parse_major(number, currency);
            assert_eq!(result.unwrap_err().code(), "invalid_amount", "{number} {currency}");
        }
    }
}

#[test]
fn a_text_never_rounds_what_stripe_said() {
    let table = [(123_456, "1234.56 USD"), (123_450, "1234.50 USD"), (123_499, "1234.99 USD")];
    for (minor, text) in table {
        let amount = Amount::from_stripe(minor, Currency::USD).unwrap();
        assert_eq!(amount.to_string(), text);
        assert_eq!(amount.minor(), minor, "{text}");
    }
}

#[test]
fn an_old_charge_in_a_currency_without_a_rate_is_not_supported() {
    let usd = (Currency::USD, parse_figure("1.1172").unwrap());
    let table = RateTable::new("2026-10-30", [usd]).unwrap();
    for code in ["bgn", "hrk", "eek", "ltl", "lvl", "std"] {
        let charge = Amount::from_stripe(1250, Currency::parse(code).unwrap()).unwrap();
        let error = quote(charge.currency(), &[], Feed::Current(&table)).unwrap_err();
        assert_eq!(error.code(), "currency_not_supported", "{code}");
    }
    assert!(Currency::parse("xyz").is_err());
}
