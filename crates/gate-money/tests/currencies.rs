//! Every currency that Stripe knows, to be checked by eye against its documentation.

use gate_money::{Currency, Standing};

#[rustfmt::skip]
const TABLE: [&str; 148] = [
    //code | decimals | shown | granularity | standing
    "AED |    2     |   2   |    1        | current",
    "AFN |    2     |   2   |    1        | current",
    "ALL |    2     |   2   |    1        | current",
    "AMD |    2     |   2   |    1        | current",
    "ANG |    2     |   2   |    1        | current",
    "AOA |    2     |   2   |    1        | current",
    "ARS |    2     |   2   |    1        | current",
    "AUD |    2     |   2   |    1        | current",
    "AWG |    2     |   2   |    1        | current",
    "AZN |    2     |   2   |    1        | current",
    "BAM |    2     |   2   |    1        | current",
    "BBD |    2     |   2   |    1        | current",
    "BDT |    2     |   2   |    1        | current",
    "BGN |    2     |   2   |    1        | current",
    "BHD |    3     |   3   |   10        | current",
    "BIF |    0     |   0   |    1        | current",
    "BMD |    2     |   2   |    1        | current",
    "BND |    2     |   2   |    1        | current",
    "BOB |    2     |   2   |    1        | current",
    "BRL |    2     |   2   |    1        | current",
    "BSD |    2     |   2   |    1        | current",
    "BWP |    2     |   2   |    1        | current",
    "BYN |    2     |   2   |    1        | current",
    "BZD |    2     |   2   |    1        | current",
    "CAD |    2     |   2   |    1        | current",
    "CDF |    2     |   2   |    1        | current",
    "CHF |    2     |   2   |    1        | current",
    "CLP |    0     |   0   |    1        | current",
    "CNY |    2     |   2   |    1        | current",
    "COP |    2     |   2   |    1        | current",
    "CRC |    2     |   2   |    1        | current",
    "CVE |    2     |   2   |    1        | current",
    "CZK |    2     |   2   |    1        | current",
    "DJF |    0     |   0   |    1        | current",
    "DKK |    2     |   2   |    1        | current",
    "DOP |    2     |   2   |    1        | current",
    "DZD |    2     |   2   |    1        | current",
    "EEK |    2     |   2   |    1        | withdrawn",
    "EGP |    2     |   2   |    1        | current",
    "ETB |    2     |   2   |    1        | current",
    "EUR |    2     |   2   |    1        | current",
    "FJD |    2     |   2   |    1        | current",
    "FKP |    2     |   2   |    1        | current",
    "GBP |    2     |   2   |    1        | current",
    "GEL |    2     |   2   |    1        | current",
    "GIP |    2     |   2   |    1        | current",
    "GMD |    2     |   2   |    1        | current",
    "GNF |    0     |   0   |    1        | current",
    "GTQ |    2     |   2   |    1        | current",
    "GYD |    2     |   2   |    1        | current",
    "HKD |    2     |   2   |    1        | current",
    "HNL |    2     |   2   |    1        | current",
    "HRK |    2     |   2   |    1        | withdrawn",
    "HTG |    2     |   2   |    1        | current",
    "HUF |    2     |   2   |    1        | current",
    "IDR |    2     |   2   |    1        | current",
    "ILS |    2     |   2   |    1        | current",
    "INR |    2     |   2   |    1        | current",
    "ISK |    2     |   0   |  100        | current",
    "JMD |    2     |   2   |    1        | current",
    "JOD |    3     |   3   |   10        | current",
    "JPY |    0     |   0   |    1        | current",
    "KES |    2     |   2   |    1        | current",
    "KGS |    2     |   2   |    1        | current",
    "KHR |    2     |   2   |    1        | current",
    "KMF |    0     |   0   |    1        | current",
    "KRW |    0     |   0   |    1        | current",
    "KWD |    3     |   3   |   10        | current",
    "KYD |    2     |   2   |    1        | current",
    "KZT |    2     |   2   |    1        | current",
    "LAK |    2     |   2   |    1        | current",
    "LBP |    2     |   2   |    1        | current",
    "LKR |    2     |   2   |    1        | current",
    "LRD |    2     |   2   |    1        | current",
    "LSL |    2     |   2   |    1        | current",
    "LTL |    2     |   2   |    1        | withdrawn",
    "LVL |    2     |   2   |    1        | withdrawn",
    "MAD |    2     |   2   |    1        | current",
    "MDL |    2     |   2   |    1        | current",
    "MGA |    0     |   0   |    1        | current",
    "MKD |    2     |   2   |    1        | current",
    "MMK |    2     |   2   |    1        | current",
    "MNT |    2     |   2   |    1        | current",
    "MOP |    2     |   2   |    1        | current",
    "MRO |    2     |   2   |    1        | withdrawn",
    "MUR |    2     |   2   |    1        | current",
    "MVR |    2     |   2   |    1        | current",
    "MWK |    2     |   2   |    1        | current",
    "MXN |    2     |   2   |    1        | current",
    "MYR |    2     |   2   |    1        | current",
    "MZN |    2     |   2   |    1        | current",
    "NAD |    2     |   2   |    1        | current",
    "NGN |    2     |   2   |    1        | current",
    "NIO |    2     |   2   |    1        | current",
    "NOK |    2     |   2   |    1        | current",
    "NPR |    2     |   2   |    1        | current",
    "NZD |    2     |   2   |    1        | current",
    "OMR |    3     |   3   |   10        | current",
    "PAB |    2     |   2   |    1        | current",
    "PEN |    2     |   2   |    1        | current",
    "PGK |    2     |   2   |    1        | current",
    "PHP |    2     |   2   |    1        | current",
    "PKR |    2     |   2   |    1        | current",
    "PLN |    2     |   2   |    1        | current",
    "PYG |    0     |   0   |    1        | current",
    "QAR |    2     |   2   |    1        | current",
    "RON |    2     |   2   |    1        | current",
    "RSD |    2     |   2   |    1        | current",
    "RUB |    2     |   2   |    1        | current",
    "RWF |    0     |   0   |    1        | current",
    "SAR |    2     |   2   |    1        | current",
    "SBD |    2     |   2   |    1        | current",
    "SCR |    2     |   2   |    1        | current",
    "SEK |    2     |   2   |    1        | current",
    "SGD |    2     |   2   |    1        | current",
    "SHP |    2     |   2   |    1        | current",
    "SLE |    2     |   2   |    1        | current",
    "SLL |    2     |   2   |    1        | withdrawn",
    "SOS |    2     |   2   |    1        | current",
    "SRD |    2     |   2   |    1        | current",
    "STD |    2     |   2   |    1        | current",
    "SVC |    2     |   2   |    1        | withdrawn",
    "SZL |    2     |   2   |    1        | current",
    "THB |    2     |   2   |    1        | current",
    "TJS |    2     |   2   |    1        | current",
    "TND |    3     |   3   |   10        | current",
    "TOP |    2     |   2   |    1        | current",
    "TRY |    2     |   2   |    1        | current",
    "TTD |    2     |   2   |    1        | current",
    "TWD |    2     |   2   |    1        | current",
    "TZS |    2     |   2   |    1        | current",
    "UAH |    2     |   2   |    1        | current",
    "UGX |    2     |   0   |  100        | current",
    "USD |    2     |   2   |    1        | current",
    "UYU |    2     |   2   |    1        | current",
    "UZS |    2     |   2   |    1        | current",
    "VEF |    2     |   2   |    1        | withdrawn",
    "VND |    0     |   0   |    1        | current",
    "VUV |    0     |   0   |    1        | current",
    "WST |    2     |   2   |    1        | current",
    "XAF |    0     |   0   |    1        | current",
    "XCD |    2     |   2   |    1        | current",
    "XCG |    2     |   2   |    1        | current",
    "XOF |    0     |   0   |    1        | current",
    "XPF |    0     |   0   |    1        | current",
    "YER |    2     |   2   |    1        | current",
    "ZAR |    2     |   2   |    1        | current",
    "ZMW |    2     |   2   |    1        | current",
];

#[test]
fn every_currency_is_counted_as_stripe_counts_it() {
    let described: Vec<[String; 5]> = Currency::all()
        .map(|currency| {
            [
                currency.code().to_owned(),
                currency.decimals().to_string(),
                currency.shown_decimals().to_string(),
                currency.granularity().to_string(),
                match currency.standing() {
                    Standing::Current => "current".to_owned(),
                    Standing::Withdrawn => "withdrawn".to_owned(),
                },
            ]
        })
        .collect();
    for (line, described) in TABLE.iter().zip(&described) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        assert_eq!(described.as_slice(), cells, "row {line}");
    }
    assert_eq!(described.len(), TABLE.len());
}

#[test]
fn a_code_is_read_in_any_case_and_printed_in_one() {
    for line in TABLE {
        let (code, _) = line.split_once(' ').unwrap();
        let lower = code.to_ascii_lowercase();
        for text in [code, &lower, &format!("{}{}", &code[..1], &lower[1..])] {
            let currency = Currency::parse(text).unwrap();
            assert_eq!(currency.code(), code, "{text}");
            assert_eq!(currency.lower(), lower, "{text}");
            assert_eq!(currency.to_string(), code, "{text}");
            assert_eq!(format!("{currency:?}"), code, "{text}");
        }
    }
}

#[test]
fn currencies_sort_by_code() {
    assert!(Currency::all().is_sorted());
    assert!(Currency::AED < Currency::USD && Currency::USD < Currency::ZMW);
}

#[test]
fn an_unknown_code_is_refused_and_never_given_two_decimals() {
    // IQD and LYD have three decimals in ISO 4217, but Stripe does not take them.
    let table = [
        "xyz", "XXX", "IQD", "LYD", "", " ", "E", "EU", "EURO", " EUR", "EUR ", "eur\n", "ЕUR",
        "€", "EUR\0", "978", "usdc",
    ];
    for code in table {
        let error = Currency::parse(code).unwrap_err();
        assert_eq!(error.code(), "currency_not_supported", "{code:?}");
    }
}

#[test]
fn a_foreign_code_cannot_break_a_message() {
    let error = Currency::parse(&"x\n\u{1b}[2J".repeat(1000)).unwrap_err();
    let message = error.to_string();
    assert!(!message.contains(char::is_control), "{message}");
    assert!(message.len() < 250, "{message}");
}
