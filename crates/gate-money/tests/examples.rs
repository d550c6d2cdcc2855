//! Tables of amounts: the examples of the money rules, and what went wrong for others.

use std::cmp::Ordering;

use gate_money::{Amount, Currency, MicroUsd, MoneyError, NumberFault};

/// What a parse gave, for a table's cell: the minor amount, or the kind of refusal.
fn cell(result: Result<Amount, MoneyError>) -> String {
    match result {
        Ok(amount) => amount.minor().to_string(),
        Err(MoneyError::InvalidNumber(NumberFault::NotPlain)) => "not plain".to_owned(),
        Err(MoneyError::InvalidNumber(NumberFault::TooLarge)) => "too large".to_owned(),
        Err(MoneyError::InvalidNumber(NumberFault::TooManyDecimals { decimals_max })) => {
            format!("over {decimals_max} decimals")
        }
        Err(MoneyError::InvalidAmount { below, above, .. }) => {
            let near = |nearest: Option<i64>| nearest.map_or("-".to_owned(), |n| n.to_string());
            format!("near {} {}", near(below), near(above))
        }
        Err(error) => error.code().to_owned(),
    }
}

#[test]
fn minor_amounts_as_text() {
    let table = [
        (1250, "eur", "12.50 EUR"),
        (500, "jpy", "500 JPY"),
        (1500, "kwd", "1.500 KWD"),
        (500, "isk", "5 ISK"),
        (500, "ugx", "5 UGX"),
        (1, "usd", "0.01 USD"),
        (10, "usd", "0.10 USD"),
        (100, "usd", "1.00 USD"),
        (123_456, "usd", "1234.56 USD"),
        (10, "bhd", "0.010 BHD"),
        (9899, "jpy", "9899 JPY"),
        (5800, "jpy", "5800 JPY"),
        (200_000, "isk", "2000 ISK"),
        (1_990, "huf", "19.90 HUF"),
        (1_990, "twd", "19.90 TWD"),
        (1_990, "mga", "1990 MGA"),
        (9_007_199_254_740_991, "usd", "90071992547409.91 USD"),
        (9_007_199_254_740_990, "omr", "9007199254740.990 OMR"),
    ];
    for (minor, code, text) in table {
        let amount = Amount::new(minor, Currency::parse(code).unwrap()).unwrap();
        assert_eq!(amount.to_string(), text);
        assert_eq!(format!("{} {}", amount.text_major(), amount.currency()), text);
        assert_eq!(Amount::parse(text), Ok(amount), "{text}");
    }
}

#[test]
fn amounts_that_stripe_reports_as_text() {
    let table = [
        (0, "eur", "0.00 EUR"),
        (0, "jpy", "0 JPY"),
        (0, "kwd", "0.000 KWD"),
        (0, "isk", "0 ISK"),
        (1505, "kwd", "1.505 KWD"),
        // Never "5 ISK": a text hides no part of an amount.
        (550, "isk", "5.50 ISK"),
        (5, "ugx", "0.05 UGX"),
        (i64::MAX, "usd", "92233720368547758.07 USD"),
    ];
    for (minor, code, text) in table {
        let amount = Amount::from_stripe(minor, Currency::parse(code).unwrap()).unwrap();
        assert_eq!(amount.to_string(), text);
        assert_eq!(Amount::parse(text), Ok(amount), "{text}");
    }
    for minor in [-1, i64::MIN] {
        let error = Amount::from_stripe(minor, Currency::EUR).unwrap_err();
        assert_eq!(error.code(), "invalid_amount", "{minor}");
    }
}

#[test]
fn only_the_one_text_of_an_amount_is_read_back() {
    let table = [
        "",
        " ",
        "EUR",
        "12.50",
        "12.50EUR",
        "12.50  EUR",
        " 12.50 EUR",
        "12.50 EUR ",
        "12.50 eur",
        "12.5 EUR",
        "12 EUR",
        "12.500 EUR",
        "012.50 EUR",
        "-12.50 EUR",
        "+12.50 EUR",
        "1,250.00 EUR",
        "1e2 EUR",
        "500.00 JPY",
        "1.50 KWD",
        "5.00 ISK",
        "5.0 ISK",
        "12.50 XYZ",
        "NaN EUR",
        ".50 EUR",
        "12. EUR",
        "EUR 12.50",
        "12.50\tEUR",
        "１２.50 EUR",
        "92233720368547758.08 USD",
    ];
    for text in table {
        assert!(Amount::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn what_may_be_refunded_and_what_is_nearest() {
    let table = [
        //minor                  currency  outcome
        (1, "eur", "1"),
        (0, "eur", "near - 1"),
        (-1, "eur", "near - 1"),
        (i64::MIN, "eur", "near - 1"),
        (9_007_199_254_740_991, "eur", "9007199254740991"),
        (9_007_199_254_740_992, "eur", "near 9007199254740991 -"),
        (i64::MAX, "eur", "near 9007199254740991 -"),
        (1510, "kwd", "1510"),
        (1505, "kwd", "near 1500 1510"),
        (1509, "tnd", "near 1500 1510"),
        (1, "bhd", "near - 10"),
        (9, "jod", "near - 10"),
        (0, "omr", "near - 10"),
        (9_007_199_254_740_991, "kwd", "near 9007199254740990 -"),
        (i64::MAX, "kwd", "near 9007199254740990 -"),
        (500, "isk", "500"),
        (550, "isk", "near 500 600"),
        (99, "isk", "near - 100"),
        (500, "ugx", "500"),
        (5, "ugx", "near - 100"),
        (550, "ugx", "near 500 600"),
        (9_007_199_254_740_950, "ugx", "near 9007199254740900 -"),
        (i64::MIN, "ugx", "near - 100"),
        (1, "jpy", "1"),
        // Whole units only in payouts, which is no concern of refunds.
        (1001, "huf", "1001"),
        (1001, "twd", "1001"),
    ];
    for (minor, code, outcome) in table {
        let result = Amount::new(minor, Currency::parse(code).unwrap());
        assert_eq!(cell(result), outcome, "{minor} {code}");
    }
}

#[test]
fn refusals_say_what_would_do() {
    let table = [
        (
            Amount::new(1505, Currency::KWD),
            "1505 minor units of KWD will not do; the nearest amounts that would are 1500 and 1510",
        ),
        (
            Amount::new(0, Currency::EUR),
            "0 minor units of EUR will not do; the nearest amount that would is 1",
        ),
        (
            Amount::parse_major("20.005", Currency::EUR),
            "the number has too many decimals: use at most 2",
        ),
        (
            Amount::parse_major("20.5", Currency::JPY),
            "the number has decimals where there are none: use a whole number",
        ),
        (
            Amount::parse_major("1,000", Currency::EUR),
            "the number is not written plainly: use digits and at most one decimal point, \
             without sign, blank or separator",
        ),
    ];
    for (result, message) in table {
        let error = result.unwrap_err();
        assert_eq!(error.to_string(), message);
        assert_eq!(error.code(), "invalid_amount", "{message}");
    }
}

#[test]
fn major_units_are_read_digit_by_digit() {
    let table = [
        //text                 currency  minor, or why not
        ("20", "eur", "2000"),
        ("20.00", "eur", "2000"),
        ("20.5", "eur", "2050"),
        ("20.50", "eur", "2050"),
        ("0.01", "eur", "1"),
        ("0.1", "eur", "10"),
        // Floats make 113.999… and 1998.999… of these.
        ("1.14", "eur", "114"),
        ("19.99", "eur", "1999"),
        ("90071992547409.91", "eur", "9007199254740991"),
        ("20.005", "eur", "over 2 decimals"),
        ("20.000", "eur", "over 2 decimals"),
        ("0.001", "eur", "over 2 decimals"),
        // Exponents, as far as no digit is lost.
        ("2e1", "eur", "2000"),
        ("2E1", "eur", "2000"),
        ("2e+1", "eur", "2000"),
        ("2.5e1", "eur", "2500"),
        ("2.555e1", "eur", "2555"),
        ("2000e-2", "eur", "2000"),
        ("1e-2", "eur", "1"),
        ("1e-3", "eur", "over 2 decimals"),
        ("2.5555e1", "eur", "over 2 decimals"),
        ("20005e-3", "eur", "over 2 decimals"),
        ("1e-400", "eur", "over 2 decimals"),
        ("1e400", "eur", "too large"),
        ("1e99999", "eur", "too large"),
        ("1e-99999999999999999999", "eur", "too large"),
        ("1e14", "eur", "near 9007199254740991 -"),
        ("1e17", "eur", "too large"),
        // More digits than fit.
        ("90071992547409.92", "eur", "near 9007199254740991 -"),
        ("100000000000000000", "eur", "too large"),
        ("99999999999999999999999999999999999999999", "eur", "too large"),
        ("340282366920938463463374607431768211456", "eur", "too large"),
        // Nothing, and less.
        ("0", "eur", "near - 1"),
        ("0.00", "eur", "near - 1"),
        ("0e5", "eur", "near - 1"),
        ("-1", "eur", "not plain"),
        ("-0", "eur", "not plain"),
        ("-20.00", "eur", "not plain"),
        ("+20", "eur", "not plain"),
        // Not a number, or not plainly one.
        ("", "eur", "not plain"),
        (" ", "eur", "not plain"),
        ("NaN", "eur", "not plain"),
        ("nan", "eur", "not plain"),
        ("Infinity", "eur", "not plain"),
        ("inf", "eur", "not plain"),
        ("null", "eur", "not plain"),
        ("true", "eur", "not plain"),
        ("twenty", "eur", "not plain"),
        (" 20", "eur", "not plain"),
        ("20 ", "eur", "not plain"),
        ("2 0", "eur", "not plain"),
        ("20\n", "eur", "not plain"),
        ("1,000", "eur", "not plain"),
        ("1,000.00", "eur", "not plain"),
        ("1.000,00", "eur", "not plain"),
        ("20,50", "eur", "not plain"),
        ("1_000", "eur", "not plain"),
        ("1'000", "eur", "not plain"),
        ("1 000", "eur", "not plain"),
        ("1.000.000", "eur", "not plain"),
        (".5", "eur", "not plain"),
        ("5.", "eur", "not plain"),
        (".", "eur", "not plain"),
        ("020", "eur", "not plain"),
        ("00.5", "eur", "not plain"),
        ("0x20", "eur", "not plain"),
        ("20e", "eur", "not plain"),
        ("20e+", "eur", "not plain"),
        ("e5", "eur", "not plain"),
        ("2e1e1", "eur", "not plain"),
        ("2e1.0", "eur", "not plain"),
        ("2e+-1", "eur", "not plain"),
        ("$20", "eur", "not plain"),
        ("20 EUR", "eur", "not plain"),
        ("20€", "eur", "not plain"),
        ("２０", "eur", "not plain"),
        ("٢٠", "eur", "not plain"),
        // Other currencies.
        ("500", "jpy", "500"),
        ("5e2", "jpy", "500"),
        ("500.0", "jpy", "over 0 decimals"),
        ("0.5", "jpy", "over 0 decimals"),
        ("1.5", "kwd", "1500"),
        ("1.500", "kwd", "1500"),
        ("1.505", "kwd", "near 1500 1510"),
        ("0.001", "kwd", "near - 10"),
        ("1.5000", "kwd", "over 3 decimals"),
        ("5", "isk", "500"),
        ("5.00", "isk", "500"),
        ("5.5", "isk", "near 500 600"),
        ("5", "ugx", "500"),
        ("0.05", "ugx", "near - 100"),
    ];
    for (text, code, outcome) in table {
        let result = Amount::parse_major(text, Currency::parse(code).unwrap());
        assert_eq!(cell(result), outcome, "{text:?} {code}");
    }
}

/// Whoever asks in whole units is told the nearest amounts in whole units.
#[test]
fn what_will_not_do_in_whole_units() {
    let table = [
        ("10.505", "eur", "the nearest amounts that would are 10.50 EUR and 10.51 EUR"),
        ("10.500", "eur", "the nearest amounts that would are 10.50 EUR and 10.51 EUR"),
        ("5.5", "jpy", "the nearest amounts that would are 5 JPY and 6 JPY"),
        ("1.505", "kwd", "the nearest amounts that would are 1.500 KWD and 1.510 KWD"),
        ("1.5059", "kwd", "the nearest amounts that would are 1.500 KWD and 1.510 KWD"),
        ("5.5", "isk", "the nearest amounts that would are 5 ISK and 6 ISK"),
        ("0", "eur", "the nearest amount that would is 0.01 EUR"),
        ("0.001", "eur", "the nearest amount that would is 0.01 EUR"),
        ("1e-60", "eur", "the nearest amount that would is 0.01 EUR"),
        ("90071992547409.92", "eur", "the nearest amount that would is 90071992547409.91 EUR"),
        ("1,5", "eur", "the number is not written plainly"),
    ];
    for (text, code, said) in table {
        let error = Amount::parse_asked(text, Currency::parse(code).unwrap()).unwrap_err();
        assert!(error.to_string().contains(said), "{text} {code}: {error}");
        assert_eq!(error.code(), "invalid_amount", "{text} {code}");
    }
    assert_eq!(Amount::parse_asked("10.50", Currency::EUR).map(Amount::minor), Ok(1050));
}

#[test]
fn amounts_add_and_compare_within_one_currency() {
    let eur = |minor| Amount::from_stripe(minor, Currency::EUR).unwrap();
    let jpy = Amount::new(1, Currency::JPY).unwrap();
    let max = i64::MAX;

    assert_eq!(eur(1250).checked_add(eur(50)), Ok(eur(1300)));
    assert_eq!(eur(max).checked_add(eur(0)), Ok(eur(max)));
    assert_eq!(eur(max).checked_add(eur(1)), Err(MoneyError::Overflow));
    assert_eq!(eur(1250).checked_sub(eur(1250)), Ok(eur(0)));
    assert_eq!(eur(1250).checked_sub(eur(1251)), Err(MoneyError::Underflow));
    assert_eq!(eur(0).checked_sub(eur(max)), Err(MoneyError::Underflow));
    assert_eq!(eur(1).compare(eur(2)), Ok(Ordering::Less));
    assert_eq!(eur(2).compare(eur(2)), Ok(Ordering::Equal));
    assert_eq!(eur(3).compare(eur(2)), Ok(Ordering::Greater));

    let mixed = MoneyError::CurrencyMismatch { left: Currency::EUR, right: Currency::JPY };
    assert_eq!(eur(1).checked_add(jpy), Err(mixed.clone()));
    assert_eq!(eur(1).checked_sub(jpy), Err(mixed.clone()));
    assert_eq!(eur(1).compare(jpy), Err(mixed.clone()));
    assert_eq!(mixed.code(), "currency_mismatch");
    assert_ne!(eur(1), Amount::from_stripe(1, Currency::USD).unwrap());
}

#[test]
fn dollars_of_settings() {
    let table = [
        //text             micro-dollars         printed
        ("50", Some(50_000_000), "50.00 USD"),
        ("2000.00", Some(2_000_000_000), "2000.00 USD"),
        ("12.5", Some(12_500_000), "12.50 USD"),
        ("0", Some(0), "0.00 USD"),
        ("0.000001", Some(1), "0.000001 USD"),
        ("0.10", Some(100_000), "0.10 USD"),
        ("0.123", Some(123_000), "0.123 USD"),
        ("0.120000", Some(120_000), "0.12 USD"),
        ("3.179645", Some(3_179_645), "3.179645 USD"),
        ("100.100100", Some(100_100_100), "100.1001 USD"),
        ("9223372036854.775807", Some(i64::MAX), "9223372036854.775807 USD"),
        ("9223372036854.775808", None, ""),
        ("0.0000001", None, ""),
        ("1.0000000", None, ""),
        ("-1", None, ""),
        ("+1", None, ""),
        ("1e3", None, ""),
        ("1,000", None, ""),
        ("1_000", None, ""),
        (" 1", None, ""),
        ("$1", None, ""),
        ("1 USD", None, ""),
        ("", None, ""),
        ("NaN", None, ""),
        (".5", None, ""),
        ("5.", None, ""),
        ("007", None, ""),
    ];
    for (text, micros, printed) in table {
        let dollars = MicroUsd::parse_dollars(text);
        assert_eq!(dollars.clone().ok().map(MicroUsd::micros), micros, "{text:?}");
        if let Ok(dollars) = dollars {
            assert_eq!(dollars.to_string(), printed, "{text:?}");
        }
    }
}

#[test]
fn dollars_add_and_never_wrap() {
    let usd = |micros| MicroUsd::new(micros).unwrap();
    assert_eq!(usd(1).checked_add(usd(2)), Ok(usd(3)));
    assert_eq!(usd(i64::MAX).checked_add(usd(1)), Err(MoneyError::Overflow));
    assert_eq!(usd(3).checked_sub(usd(3)), Ok(MicroUsd::ZERO));
    assert_eq!(usd(3).checked_sub(usd(4)), Err(MoneyError::Underflow));
    assert_eq!(MicroUsd::new(-1), Err(MoneyError::Underflow));
    assert_eq!(MicroUsd::default(), MicroUsd::ZERO);
    assert!(usd(1) < usd(2));
}
