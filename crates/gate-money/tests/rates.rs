//! Tables of rates: what a currency is worth, where the rate comes from, and which are refused.

#![allow(clippy::unwrap_used, reason = "tests unwrap freely")]

use gate_money::{
    Amount, Currency, Decimal, Feed, MicroUsd, MoneyError, NumberFault, PinFaultKind, Rate,
    RateFigures, RateTable, TableFault, parse_figure, parse_pins, quote,
};

fn figure(text: &str) -> Decimal {
    parse_figure(text).unwrap()
}

fn currency(code: &str) -> Currency {
    Currency::parse(code).unwrap()
}

/// A day's table, from rows such as `USD=1.1172 JPY=175.68`.
fn table_of(date: &str, rows: &str) -> Result<RateTable, TableFault> {
    let rows = rows.split_whitespace().map(|row| {
        let (code, text) = row.split_once('=').unwrap();
        (currency(code), figure(text))
    });
    RateTable::new(date, rows)
}

#[test]
fn amounts_in_micro_dollars() {
    const MOST: i64 = Amount::MINOR_MAX;
    let table = [
        //minor currency   units and dollars for a euro          micro-dollars
        (1250, "eur", "1", "1.1172", Some(13_965_000)),
        (500, "jpy", "175.68", "1.1172", Some(3_179_645)), // … 644.8
        (1, "eur", "1", "1.1172", Some(11_172)),
        (1, "idr", "20275.17", "1.1172", Some(1)),   // 0.55
        (500, "isk", "136", "1.1172", Some(41_074)), // … 073.5
        (300, "gbp", "0.8338", "1.1172", Some(4_019_669)), // … 668.98
        (0, "jpy", "175.68", "1.1172", Some(0)),
        // The most that may be refunded: exact, or said not to fit.
        (MOST, "krw", "1491.76", "1.1172", Some(6_745_617_932_775_134_838)),
        (MOST, "jpy", "175.68", "1.1172", None),
        (MOST, "eur", "1", "1.1172", None),
        // Figures that decimal arithmetic would shorten.
        (10_000, "gbp", "1000000000000000.001", "9000000000000000.003", Some(900_000_000)),
        (100, "gbp", "1000000000000000.001", "9000000000000000.0091", Some(9_000_001)),
        (100, "gbp", "1.000000000000001", "9000000.000000009", Some(9_000_000_000_000)),
        (100, "gbp", "1.000000000000001", "9000000.0000000091", Some(9_000_000_000_001)),
        // Figures as long as they get.
        (
            100,
            "gbp",
            "79228162514264337593543950334",
            "79228162514264337593543950335",
            Some(1_000_001),
        ),
        (
            100,
            "gbp",
            "0.0000000000000000000000000001",
            "0.0000000000000000000000000001",
            Some(1_000_000),
        ),
        (1, "gbp", "79228162514264337593543950335", "0.0000000000000000000000000001", Some(1)),
        (i64::MAX, "jpy", "0.0000000000000000000000000001", "79228162514264337593543950335", None),
    ];
    for (minor, code, units, dollars, micros) in table {
        let amount = Amount::from_stripe(minor, currency(code)).unwrap();
        let rate = Rate::from_feed(currency(code), figure(units), figure(dollars)).unwrap();
        let expected = micros.map(MicroUsd::new).unwrap_or(Err(MoneyError::Overflow));
        assert_eq!(rate.to_micro_usd(amount), expected, "{amount} at {units} {dollars}");
    }
}

#[test]
fn amounts_in_micro_dollars_by_pins_and_in_dollars() {
    let table = [
        (1250, "eur", Some("1.10"), Some(13_750_000)),
        (1500, "kwd", Some("3.26"), Some(4_890_000)),
        (500, "ugx", Some("0.00027"), Some(1_350)),
        (1, "jpy", Some("0.0000001"), Some(1)),
        (100, "gbp", Some("0.3333333333333333333333333333"), Some(333_334)),
        (Amount::MINOR_MAX, "jpy", Some("0.0002"), Some(1_801_439_850_948_198_200)),
        (Amount::MINOR_MAX, "eur", Some("0.3333333333333333333333333333"), None),
        (1250, "usd", None, Some(12_500_000)),
        (1, "usd", None, Some(10_000)),
        (922_337_203_685_477, "usd", None, Some(9_223_372_036_854_770_000)),
        (922_337_203_685_478, "usd", None, None),
    ];
    for (minor, code, pin, micros) in table {
        let amount = Amount::new(minor, currency(code)).unwrap();
        let rate =
            pin.map_or(Rate::usd(), |pin| Rate::pinned(currency(code), figure(pin)).unwrap());
        let expected = micros.map(MicroUsd::new).unwrap_or(Err(MoneyError::Overflow));
        assert_eq!(rate.to_micro_usd(amount), expected, "{amount} at {pin:?}");
    }
}

#[test]
fn a_rate_is_for_its_own_currency_only() {
    let euro = Amount::new(1250, Currency::EUR).unwrap();
    let mismatch = MoneyError::CurrencyMismatch { left: Currency::EUR, right: Currency::USD };
    assert_eq!(Rate::usd().to_micro_usd(euro), Err(mismatch));
}

#[test]
fn rates_that_will_not_do() {
    let feed = |units: &str, dollars: &str| RateFigures::Feed {
        units_per_eur: units.parse().unwrap(),
        usd_per_eur: dollars.parse().unwrap(),
    };
    let pin = |dollars: &str| RateFigures::Pinned { usd_per_unit: dollars.parse().unwrap() };
    let table = [
        ("jpy", feed("175.68", "1.1172"), true),
        ("jpy", feed("0", "1.1172"), false),
        ("jpy", feed("175.68", "0.0"), false),
        ("jpy", feed("-175.68", "1.1172"), false),
        ("jpy", feed("175.68", "-1.1172"), false),
        ("jpy", feed("-175.68", "-1.1172"), false),
        ("eur", feed("1", "1.1172"), true),
        ("eur", feed("1.000", "1.1172"), true),
        ("eur", feed("1.0001", "1.1172"), false),
        ("usd", feed("1.1172", "1.1172"), false),
        ("kwd", pin("3.26"), true),
        ("kwd", pin("0"), false),
        ("kwd", pin("-3.26"), false),
        ("usd", pin("1"), false),
        ("usd", RateFigures::Usd, true),
        ("eur", RateFigures::Usd, false),
    ];
    for (code, figures, valid) in table {
        let rate = Rate::from_figures(currency(code), figures);
        match rate {
            Ok(rate) => {
                assert!(valid, "{code} {figures:?}");
                assert_eq!((rate.currency(), rate.figures()), (currency(code), figures));
            }
            Err(error) => {
                assert!(!valid, "{code} {figures:?}");
                assert_eq!(error, MoneyError::InvalidRate { currency: currency(code) });
            }
        }
    }
}

#[test]
fn figures_are_read_without_rounding() {
    let table = [
        ("175.68", Ok("175.68")),
        ("1.10", Ok("1.10")),
        ("136", Ok("136")),
        ("79228162514264337593543950335", Ok("79228162514264337593543950335")),
        ("79228162514264337593543950336", Err(NumberFault::TooLarge)),
        ("0.0000000000000000000000000001", Ok("0.0000000000000000000000000001")),
        ("0.00000000000000000000000000001", Err(NumberFault::TooLarge)),
        ("1.11720000000000000000000000001", Err(NumberFault::TooLarge)),
        ("1e2", Err(NumberFault::NotPlain)),
        ("-1", Err(NumberFault::NotPlain)),
        ("1_000", Err(NumberFault::NotPlain)),
        ("N/A", Err(NumberFault::NotPlain)),
        ("", Err(NumberFault::NotPlain)),
    ];
    for (text, expected) in table {
        let figure = parse_figure(text).map(|figure| figure.to_string());
        assert_eq!(figure, expected.map(str::to_owned), "{text}");
    }
}

#[test]
fn pins_are_read() {
    let table: [(&str, &[(&str, &str)]); 5] = [
        ("", &[]),
        ("  ", &[]),
        ("KWD=3.26,EUR=1.10", &[("KWD", "3.26"), ("EUR", "1.10")]),
        ("kwd=3.26", &[("KWD", "3.26")]),
        (" KWD = 3.26 , JPY=0.0067 ", &[("KWD", "3.26"), ("JPY", "0.0067")]),
    ];
    for (text, pins) in table {
        let expected: Vec<Rate> = pins
            .iter()
            .map(|(code, dollars)| Rate::pinned(currency(code), figure(dollars)).unwrap())
            .collect();
        assert_eq!(parse_pins(text), Ok(expected), "{text:?}");
    }
}

#[test]
fn all_that_is_wrong_with_pins_is_said_at_once() {
    use PinFaultKind::{
        BadFigure, Duplicate, NotAPair, NotAboveZero, UnknownCurrency, UsdNeedsNone,
    };
    let table: [(&str, &[PinFaultKind]); 14] = [
        ("KWD", &[NotAPair]),
        ("KWD=3.26,", &[NotAPair]),
        (",", &[NotAPair, NotAPair]),
        ("KWD:3.26;EUR:1.10", &[NotAPair]),
        ("=3.26", &[UnknownCurrency]),
        ("XYZ=1", &[UnknownCurrency]),
        ("USD=1", &[UsdNeedsNone]),
        ("KWD=0.00", &[NotAboveZero]),
        ("KWD=-3.26", &[BadFigure(NumberFault::NotPlain)]),
        ("KWD=", &[BadFigure(NumberFault::NotPlain)]),
        ("KWD=3=26", &[BadFigure(NumberFault::NotPlain)]),
        // A comma is no separator of thousands nor of decimals.
        ("JPY=1,000", &[NotAPair]),
        ("KWD=3.26,kwd=3.27", &[Duplicate]),
        (
            "XYZ=1,EUR=1.10,USD=1,EUR=1.11,KWD=1e2",
            &[UnknownCurrency, UsdNeedsNone, Duplicate, BadFigure(NumberFault::NotPlain)],
        ),
    ];
    for (text, kinds) in table {
        let faults = parse_pins(text).unwrap_err();
        let found: Vec<PinFaultKind> = faults.iter().map(|fault| fault.kind()).collect();
        assert_eq!(found, kinds, "{text:?}");
    }
    let faults = parse_pins("EUR=1.10,KWD=0").unwrap_err();
    assert_eq!(
        faults[0].to_string(),
        "\"KWD=0\": no currency is worth nothing: use a figure above zero",
    );
}

#[test]
fn a_days_table_is_whole_or_refused() {
    let good = "USD=1.1172 JPY=175.68 ISK=136";
    let table = table_of("2026-10-30", good).unwrap();
    assert_eq!(table.date(), "2026-10-30");
    let rows: Vec<String> = table.rows().map(|(c, figure)| format!("{c} {figure}")).collect();
    assert_eq!(rows, ["ISK 136", "JPY 175.68", "USD 1.1172"]);
    assert_eq!(RateTable::new(table.date(), table.rows()), Ok(table.clone()));

    let yen = Rate::from_feed(Currency::JPY, figure("175.68"), figure("1.1172")).unwrap();
    let euro = Rate::from_feed(Currency::EUR, Decimal::ONE, figure("1.1172")).unwrap();
    assert_eq!(table.rate(Currency::JPY), Some(yen));
    assert_eq!(table.rate(Currency::EUR), Some(euro));
    assert_eq!(table.rate(Currency::USD), Some(Rate::usd()));
    assert_eq!(table.rate(Currency::KWD), None);

    let (usd, jpy) = (Currency::USD, Currency::JPY);
    let bad = |currency, text: &str| {
        let figure = text.parse().unwrap();
        (currency, figure, TableFault::BadFigure { currency, figure })
    };
    for (currency, figure, fault) in
        [bad(usd, "0"), bad(usd, "-1.1"), bad(jpy, "0.00"), bad(Currency::EUR, "1.01")]
    {
        let rows = [(Currency::GBP, Decimal::ONE), (currency, figure)];
        assert_eq!(RateTable::new("2026-10-30", rows), Err(fault));
    }
    assert_eq!(table_of("2026-10-30", ""), Err(TableFault::NoDollar));
    assert_eq!(table_of("2026-10-30", "JPY=175.68"), Err(TableFault::NoDollar));
    let twice = "USD=1.1172 JPY=175.68 JPY=175.68";
    assert_eq!(table_of("2026-10-30", twice), Err(TableFault::Duplicate { currency: jpy }));
}

#[test]
fn a_day_is_a_day_of_the_calendar() {
    let table = [
        ("2026-10-30", true),
        ("2028-02-29", true),
        ("2000-02-29", true),
        ("2026-12-31", true),
        ("2026-02-29", false),
        ("2100-02-29", false),
        ("2026-04-31", false),
        ("2026-13-01", false),
        ("2026-00-10", false),
        ("2026-10-00", false),
        ("2026-10-32", false),
        ("2026-1-30", false),
        ("26-10-30", false),
        ("2026-10-30T00:00", false),
        ("2026-10-30-", false),
        ("2026/10/30", false),
        ("30.10.2026", false),
        ("+026-10-30", false),
        (" 2026-10-30", false),
        ("２026-10-30", false),
        ("", false),
    ];
    for (date, valid) in table {
        assert_eq!(table_of(date, "USD=1.1172").is_ok(), valid, "{date:?}");
    }
}

#[test]
fn a_table_that_jumps_or_is_older_does_not_follow() {
    let yesterday = "USD=1.1 JPY=175.00 ISK=100 BGN=1.9558";
    let before = table_of("2026-10-29", yesterday).unwrap();
    let table = [
        ("2026-10-30", "USD=1.1172 JPY=175.68", ""),
        ("2026-10-29", yesterday, ""),
        ("2026-10-28", yesterday, "older"),
        ("2025-12-31", yesterday, "older"),
        // A fifth is not more than a fifth.
        ("2026-10-30", "USD=1.1 ISK=120", ""),
        ("2026-10-30", "USD=1.1 ISK=120.0000000000000000001", "ISK"),
        ("2026-10-30", "USD=1.1 ISK=80.000", ""),
        ("2026-10-30", "USD=1.1 ISK=79.9999999999999999999", "ISK"),
        ("2026-10-30", "USD=1.32", ""),
        ("2026-10-30", "USD=1.3201", "USD"),
        ("2026-10-30", "USD=11.172", "USD"),
        ("2026-10-30", "USD=0.0000000000000000000000000001", "USD"),
        ("2026-10-30", "USD=1.1 JPY=79228162514264337593543950335", "JPY"),
        // What only one of them has is not compared.
        ("2026-10-30", "USD=1.1 TRY=55.8015", ""),
    ];
    for (date, rows, outcome) in table {
        let found = match table_of(date, rows).unwrap().follows(&before) {
            Ok(()) => String::new(),
            Err(TableFault::Older { .. }) => "older".to_owned(),
            Err(TableFault::Jump { currency, .. }) => currency.to_string(),
            Err(fault) => format!("{fault:?}"),
        };
        assert_eq!(found, outcome, "{date} {rows:?}");
    }
    let jumped = table_of("2026-10-30", "USD=1.1 ISK=136").unwrap();
    assert_eq!(
        jumped.follows(&before).unwrap_err().to_string(),
        "the figure for ISK went from 100 to 136, more than 20 % off: the old rates stay; \
         check GATEWAY_FX_URL, or pin rates with FIAT_USD_RATES",
    );
}

#[test]
fn a_pin_wins_over_the_feed_and_the_dollar_needs_neither() {
    let table = table_of("2026-10-30", "USD=1.1172 JPY=175.68").unwrap();
    let pins = parse_pins("KWD=3.26,JPY=0.0067").unwrap();
    let (current, stale) = (Feed::Current(&table), Feed::Stale(&table));
    let cases = [
        //currency pins  feed          outcome
        ("usd", false, Feed::Missing, "usd"),
        ("usd", true, stale, "usd"),
        ("kwd", true, Feed::Missing, "pin"),
        ("kwd", false, current, "currency_not_supported"),
        ("kwd", false, stale, "currency_not_supported"),
        ("jpy", true, current, "pin"),
        ("jpy", true, stale, "pin"),
        ("jpy", false, current, "feed 2026-10-30"),
        ("jpy", false, stale, "rates_stale"),
        ("jpy", false, Feed::Missing, "currency_not_supported"),
        ("eur", true, current, "feed 2026-10-30"),
        ("eur", true, stale, "rates_stale"),
        ("eur", true, Feed::Missing, "currency_not_supported"),
    ];
    for (code, pinned, feed, outcome) in cases {
        let pins = if pinned { pins.as_slice() } else { &[] };
        let found = match quote(currency(code), pins, feed) {
            Ok(quote) => {
                assert_eq!(quote.rate.currency(), currency(code));
                match (quote.rate.figures(), quote.date) {
                    (RateFigures::Feed { .. }, Some(date)) => format!("feed {date}"),
                    (RateFigures::Pinned { .. }, None) => "pin".to_owned(),
                    (RateFigures::Usd, None) => "usd".to_owned(),
                    other => format!("{other:?}"),
                }
            }
            Err(error) => error.code().to_owned(),
        };
        assert_eq!(found, outcome, "{code} {pinned} {feed:?}");
    }
}
