//! Public reports of refunds in the wrong unit: what is sent is Stripe's own integer, whatever the
//! currency, and what cannot be counted is not refunded. Rows are named after the reports' causes.

use serde_json::{Value, json};

use crate::client::Call;
use crate::world::{HOUR, Setup, World, policy};

async fn world() -> World {
    let policy = policy("daily_cap = \"10000.00\"");
    let pins = "KWD=3.26,BHD=2.65,UGX=0.00027";
    Setup { pins, policy, ..Setup::default() }.start().await
}

#[tokio::test]
async fn the_amount_that_is_sent_is_stripes_own() {
    let full = Value::Null;
    #[rustfmt::skip]
    let table: [(&str, i64, &str, Value, i64, &str); 16] = [
        // what went wrong elsewhere         charge   in     asked           sent    in words
        ("yen in full, times a hundred",     9899,    "jpy", full.clone(),   9899,   "9899 JPY"),
        ("yen in part, times a hundred",     100_000, "jpy", json!(500),     500,    "500 JPY"),
        ("yen in part, by a hundred",        58_000,  "jpy", json!(5800),    5800,   "5800 JPY"),
        ("the rest of a won",                5000,    "krw", json!(1),       1,      "1 KRW"),
        ("dinars as cents",                  18_600,  "kwd", full.clone(),   18_600, "18.600 KWD"),
        ("dinars in words",                  18_600,  "kwd", json!(1500),    1500,   "1.500 KWD"),
        ("a tenth of a fils",                18_600,  "kwd", json!(1510),    1510,   "1.510 KWD"),
        ("dinars of Bahrain",                35_200,  "bhd", full.clone(),   35_200, "35.200 BHD"),
        ("shillings without decimals",       5000,    "ugx", json!(500),     500,    "5 UGX"),
        ("shillings in full",                5000,    "ugx", full.clone(),   5000,   "50 UGX"),
        ("crowns without decimals",          200_000, "isk", json!(500),     500,    "5 ISK"),
        ("crowns in full",                   200_000, "isk", full.clone(),   200_000, "2000 ISK"),
        ("rounded to whole dollars",         123_456, "usd", full.clone(),   123_456, "1234.56 USD"),
        ("the smallest",                     123_456, "usd", json!(1),       1,      "0.01 USD"),
        ("through a float",                  1999,    "usd", json!(1999),    1999,   "19.99 USD"),
        ("euros",                            1250,    "eur", json!(1250),    1250,   "12.50 EUR"),
    ];
    for (name, charged, currency, asked, sent, text) in table {
        let world = world().await;
        world.charge(&json!({ "id": "ch_1", "amount": charged, "currency": currency }));
        let mut body = json!({ "target": "ch_1" });
        if !asked.is_null() {
            body["amountMinor"] = asked;
        }
        let answer = world.ask(&body).await;
        assert_eq!(answer.line(), "200 refunded", "{name}: {}", answer.json);
        assert_eq!(answer.json["amount"]["minor"], sent, "{name}");
        assert_eq!(answer.text("/amount/text"), text, "{name}");
        assert_eq!(answer.text("/amount/currency"), currency, "{name}");
        let form = world.wire.last_form();
        assert!(form.starts_with(&format!("charge=ch_1&amount={sent}&")), "{name}: {form}");
        assert_eq!(world.refunds()[0]["amount"], sent, "{name}");
        world.check(name, 1, 1);
    }
}

/// What Stripe would refuse is refused before, with what would do.
#[tokio::test]
async fn an_amount_that_stripe_would_refuse() {
    #[rustfmt::skip]
    let table: [(&str, i64, &str, &[&str]); 6] = [
        // in    asked  what is wrong          what would do
        ("kwd",  1505,  "400 invalid_amount",  &["1500", "1510"]),
        ("kwd",  1,     "400 invalid_amount",  &["10"]),
        ("bhd",  1501,  "400 invalid_amount",  &["1500", "1510"]),
        ("ugx",  550,   "400 invalid_amount",  &["500", "600"]),
        ("isk",  550,   "400 invalid_amount",  &["500", "600"]),
        ("isk",  99,    "400 invalid_amount",  &["100"]),
    ];
    for (currency, minor, told, would_do) in table {
        let world = world().await;
        world.charge(&json!({ "id": "ch_1", "amount": 20_000, "currency": currency }));
        let answer = world.ask(&json!({ "target": "ch_1", "amountMinor": minor })).await;
        assert_eq!(answer.line(), told, "{minor} {currency}");
        let detail = answer.text("/detail");
        for amount in would_do {
            assert!(detail.contains(amount), "{minor} {currency}: {detail}");
        }
        assert!(detail.contains("Nothing was refunded."), "{minor} {currency}: {detail}");
        world.check(currency, 0, 0);
    }
}

/// Without a rate no cap can count a refund, and without a known currency nobody knows its unit.
#[tokio::test]
async fn what_cannot_be_counted_is_not_refunded() {
    #[rustfmt::skip]
    let table = [
        // in    what it is                    told                reasons
        ("bgn",  "withdrawn for the euro",     "200 denied",       "currency_not_supported"),
        ("kwd",  "in no published table",      "200 denied",       "currency_not_supported"),
        ("xyz",  "no currency at all",         "502 stripe_error", ""),
    ];
    for (currency, name, told, reasons) in table {
        let world = World::new().await;
        world.charge(&json!({ "id": "ch_1", "amount": 2000, "currency": currency }));
        let answer = world.ask(&json!({ "target": "ch_1" })).await;
        assert_eq!(answer.line(), told, "{name}");
        assert_eq!(answer.reasons(), reasons, "{name}");
        world.check(name, 0, 0);
    }
}

/// Rates that nobody renewed serve for a week. Then what they alone cover is denied, dollars and pins
/// go on, and whoever watches the gateway is told.
#[tokio::test]
async fn rates_run_out_and_dollars_go_on() {
    // Rates are the authority's: that readiness shows them takes one in the same process.
    let setup = Setup { pins: "KWD=3.26", remote: false, ..Setup::default() };
    let world = setup.start().await;
    for currency in ["eur", "usd", "kwd"] {
        let id = format!("ch_{currency}");
        world.charge(&json!({ "id": id, "amount": 2000, "currency": currency }));
    }
    let rates = async || Call::get("/readyz").send(world.at).await.json["checks"]["rates"].clone();
    let ask = async |currency: &str, n: u8| {
        let key = format!("{currency}-{n}");
        let target = format!("ch_{currency}");
        let ask = json!({ "target": target, "amountMinor": 500, "idempotencyKey": key });
        let answer = world.ask(&ask).await;
        format!("{} {}", answer.line(), answer.reasons())
    };
    assert_eq!(rates().await["status"], "ok");
    assert_eq!(ask("eur", 1).await, "200 refunded ");
    world.clock.advance(9 * 24 * HOUR);
    assert_eq!(ask("eur", 2).await, "200 denied rates_stale");
    assert_eq!(ask("usd", 2).await, "200 refunded ");
    assert_eq!(ask("kwd", 2).await, "200 refunded ");
    let told = rates().await;
    assert_eq!(told["status"], "degraded", "{told}");
    assert!(told["detail"].as_str().unwrap().contains("only US dollars and pins"), "{told}");
    assert_eq!(Call::get("/readyz").send(world.at).await.status, 200, "degraded is ready");
}

/// What a refund counts is its worth at the day's rate, rounded up to a millionth of a dollar.
#[tokio::test]
async fn what_a_refund_counts() {
    #[rustfmt::skip]
    let table = [
        // in    minor    pins         millionths of a dollar
        ("usd",  1000,    "",          10_000_000),
        ("eur",  1000,    "EUR=1.10",  11_000_000),
        ("jpy",  500,     "JPY=0.01",   5_000_000),
        ("kwd",  1510,    "KWD=3.26",   4_922_600),
        ("isk",  500,     "ISK=0.0071",    35_500),
        ("jpy",  1,       "JPY=0.0066666667", 6_667),
    ];
    for (currency, minor, pins, micros) in table {
        let setup = Setup { pins, ..Setup::default() };
        let world = setup.start().await;
        world.charge(&json!({ "id": "ch_1", "amount": 20_000, "currency": currency }));
        let answer = world.ask(&json!({ "target": "ch_1", "amountMinor": minor })).await;
        assert_eq!(answer.line(), "200 refunded", "{minor} {currency}");
        assert_eq!(answer.json["amount"]["usdMicros"], micros, "{minor} {currency}");
        let sent = format!("burnbound_usd_micros%5D={micros}&");
        assert!(world.wire.last_form().contains(&sent), "{minor} {currency}");
    }
}
