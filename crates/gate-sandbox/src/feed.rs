//! A daily feed in the European Central Bank's form, so that demos need no network.
//!
//! The figures are the reference rates of 30 October 2026 and never move; the date is the
//! sandbox's last working day, so that they never count as old.

use std::fmt::Write;

use crate::clock;

/// Units of each currency for one euro.
const RATES: [(&str, &str); 29] = [
    ("USD", "1.1172"),
    ("JPY", "175.68"),
    ("CZK", "24.353"),
    ("DKK", "7.4735"),
    ("GBP", "0.8338"),
    ("HUF", "366.33"),
    ("PLN", "4.4038"),
    ("RON", "5.3447"),
    ("SEK", "10.978"),
    ("CHF", "0.9194"),
    ("ISK", "136"),
    ("NOK", "10.312"),
    ("TRY", "55.8015"),
    ("AUD", "1.5904"),
    ("BRL", "6.0692"),
    ("CAD", "1.5606"),
    ("CNY", "7.4326"),
    ("HKD", "8.7652"),
    ("IDR", "20275.17"),
    ("ILS", "3.495"),
    ("INR", "106.084"),
    ("KRW", "1491.76"),
    ("MXN", "21.1237"),
    ("MYR", "4.5325"),
    ("NZD", "1.9823"),
    ("PHP", "71.143"),
    ("SGD", "1.4282"),
    ("THB", "37.683"),
    ("ZAR", "18.6455"),
];

/// The feed of the last working day at `secs`.
pub(crate) fn daily(secs: i64) -> String {
    let mut rates = String::new();
    for (currency, rate) in RATES {
        // Writing to a string cannot fail.
        let _ = write!(rates, "\n\t\t\t<Cube currency='{currency}' rate='{rate}'/>");
    }
    let day = clock::last_working_day(secs);
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <gesmes:Envelope xmlns:gesmes=\"http://www.gesmes.org/xml/2002-08-01\" \
         xmlns=\"http://www.ecb.int/vocabulary/2002-08-01/eurofxref\">\n\
         \t<gesmes:subject>Reference rates</gesmes:subject>\n\
         \t<gesmes:Sender>\n\t\t<gesmes:name>European Central Bank</gesmes:name>\n\
         \t</gesmes:Sender>\n\
         \t<Cube>\n\t\t<Cube time='{day}'>{rates}\n\t\t</Cube>\n\t</Cube>\n</gesmes:Envelope>\n"
    )
}
