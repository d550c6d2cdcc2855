//! The control API.

use serde_json::json;

use super::{Rig, text};
use crate::REQUESTS_KEPT_MAX;

#[test]
fn a_charge_takes_any_field() {
    let mut rig = Rig::new();
    let charge = rig.charge(
        r#"{"id":"ch_x","amount":5000,"currency":"EUR","created":1600000000,"captured":true,
            "customer":{"created":1500000000,"email":"old@example.com"},
            "payment_intent":"pi_x","metadata":{"order":"9"},"description":"Lamp",
            "outcome":{"risk_score":91,"risk_level":"highest"},"livemode":true,
            "dispute":{"status":"warning_under_review","id":"dp_x","reason":"general"},
            "application_fee":"fee_1","brand_new_field":{"a":1}}"#,
    );
    for (pointer, there) in [
        ("/id", json!("ch_x")),
        ("/amount_captured", json!(5000)),
        ("/currency", json!("eur")),
        ("/created", json!(1_600_000_000)),
        ("/description", json!("Lamp")),
        ("/outcome/risk_score", json!(91)),
        ("/outcome/type", json!("authorized")),
        ("/livemode", json!(true)),
        ("/disputed", json!(true)),
        ("/brand_new_field/a", json!(1)),
        ("/metadata/order", json!("9")),
    ] {
        assert_eq!(charge.pointer(pointer), Some(&there), "{pointer}");
    }
    assert_eq!(rig.ok("GET /v1/charges/ch_x"), charge);
    let intent = rig.ok("GET /v1/payment_intents/pi_x?expand[]=customer");
    assert_eq!((text(&intent, "status"), text(&intent, "latest_charge")), ("succeeded", "ch_x"));
    assert_eq!(intent["customer"]["created"], 1_500_000_000);
    let dispute = rig.ok("GET /v1/disputes/dp_x");
    assert_eq!(
        (text(&dispute, "reason"), &dispute["is_charge_refundable"]),
        ("general", &json!(true))
    );
    // It has a fee to give back.
    rig.ok("POST /v1/refunds charge=ch_x&refund_application_fee=true");
}

#[test]
fn a_charge_is_checked() {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_1","dispute":{"id":"dp_1"}}"#);
    for (order, part) in [
        (r#"{"id":"ch_1"}"#, "exists already"),
        (r#"{"amount":-1}"#, "at least 0"),
        (r#"{"amount":5,"amount_captured":6}"#, "between 0 and 5"),
        (r#"{"captured":false,"amount_captured":6}"#, "0 and 0"),
        (r#"{"amount":5,"amount_refunded":6}"#, "between 0, which"),
        (r#"{"amount":5,"amount_captured":3,"amount_refunded":1}"#, "between 2, which"),
        (r#"{"disputed":true,"dispute":{"id":"dp_1"}}"#, "dispute dp_1 exists"),
        (r#"{"amount":"5"}"#, "invalid type"),
        (r#"{"status":"odd"}"#, "unknown variant `odd`"),
        (r#"{"source":"tok_nope"}"#, "no test token"),
        ("[]", "not what is expected"),
    ] {
        let answered = rig.order("charges", order);
        assert_eq!(answered.status, 400, "{order}");
        assert!(
            text(&answered.body["error"], "message").contains(part),
            "{order}: {}",
            answered.body
        );
    }
    // A charge in a currency that nobody knows can be had, to see what a client makes of it.
    assert_eq!(rig.charge(r#"{"currency":"xyz"}"#)["currency"], "xyz");
    assert_eq!(rig.charge("{}")["amount"], 1000);
}

#[test]
fn other_accounts_are_reached_by_header() {
    let mut rig = Rig::new();
    rig.ok(r#"POST /_sandbox/charges {"id":"ch_b"} Stripe-Account:acct_b"#);
    let refund = rig.ok("POST /v1/refunds charge=ch_b Stripe-Account:acct_b");
    let order = format!(r#"POST /_sandbox/refunds/{} {{"status":"failed"}}"#, text(&refund, "id"));
    assert_eq!(rig.send(&order).status, 404);
    assert_eq!(rig.ok(&format!("{order} Stripe-Account:acct_b"))["status"], "failed");
}

#[test]
fn unknown_calls_and_bad_orders_say_what_to_do() {
    let mut rig = Rig::new();
    rig.check(&[
        (r#"POST /_sandbox/webhooks {"url":"x"}"#, 404, "-", "POST webhook"),
        (r#"POST /_sandbox/disputes {"charge":"ch_x"}"#, 404, "-", "no charge ch_x"),
        (r#"POST /_sandbox/disputes {"id":"dp_x"}"#, 400, "-", "missing field `charge`"),
        (r#"POST /_sandbox/disputes/dp_x {"status":"won"}"#, 404, "-", "no dispute dp_x"),
        ("GET /_sandbox", 404, "-", "these exist"),
        ("GET /_sandbox/charges", 404, "-", "there is no GET /_sandbox/charges"),
        (r#"POST /_sandbox/clock {"advanceSeconds":-1}"#, 400, "-", "only moves forward"),
        (
            r#"POST /_sandbox/clock {"advanceSeconds":9223372036854775807}"#,
            400,
            "-",
            "only moves forward",
        ),
        (r#"POST /_sandbox/clock {"seconds":1}"#, 400, "-", "advanceSeconds"),
        (r#"POST /_sandbox/keys {"key":"sk_test_a"}"#, 400, "-", "only restricted test keys"),
        (
            r#"POST /_sandbox/keys {"key":"rk_test_a","permissions":{"lamps":"read"}}"#,
            400,
            "-",
            "unknown variant `lamps`",
        ),
        (r#"POST /_sandbox/keys {"key":"rk_test_a","agentTaged":true}"#, 400, "-", "agentTaged"),
        (r#"POST /_sandbox/refunds/re_x {"status":"failed"}"#, 404, "-", "no refund re_x"),
        (r#"POST /_sandbox/refunds/re_x {"status":"odd"}"#, 400, "-", "unknown variant"),
        (r#"POST /_sandbox/settings {}"#, 400, "-", "overRefundCode"),
        (r#"POST /_sandbox/settings {"newRefunds":{"status":"odd"}}"#, 400, "-", "unknown variant"),
        // only below /_sandbox
        ("GET /_sandboxes", 404, "-", "Unrecognized request URL"),
    ]);
}

#[test]
fn requests_are_listed() {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_1"}"#);
    rig.send("POST /v1/refunds charge=ch_1&amount=5&metadata[k]=v&expand[]=charge&expand[]=payment_intent Idempotency-Key:k1");
    rig.send("GET /v1/refunds?charge=ch_1");
    rig.send("GET /v1/nope Authorization:None");
    assert_eq!(
        rig.ok("GET /_sandbox/requests"),
        json!([
            { "method": "POST", "path": "/v1/refunds", "idempotencyKey": "k1", "status": 200,
              "form": { "charge": "ch_1", "amount": "5", "metadata[k]": "v",
                        "expand[]": ["charge", "payment_intent"] } },
            { "method": "GET", "path": "/v1/refunds", "idempotencyKey": null, "status": 200,
              "form": { "charge": "ch_1" } },
            { "method": "GET", "path": "/v1/nope", "idempotencyKey": null, "status": 401,
              "form": {} },
        ])
    );
    for _ in 0..REQUESTS_KEPT_MAX {
        rig.send("GET /v1/x");
    }
    assert_eq!(rig.sandbox.requests().count(), REQUESTS_KEPT_MAX);
    assert_eq!(rig.sandbox.requests().next().unwrap().path, "/v1/x");
}

#[test]
fn the_feed_is_of_the_last_working_day() {
    let mut rig = Rig::new();
    for (secs, day) in [(0, "2026-10-30"), (2 * 86_400, "2026-10-30"), (86_400, "2026-11-02")] {
        rig.later(secs);
        let feed = rig.send("GET /_sandbox/rates/eurofxref-daily.xml");
        assert_eq!(feed.header("Content-Type"), "text/xml");
        let xml = String::from_utf8(feed.reply.body).unwrap();
        assert!(xml.contains(&format!("<Cube time='{day}'>")), "{day}: {xml}");
        assert!(xml.contains("<Cube currency='USD' rate='1.1172'/>"));
        assert_eq!(xml.matches("<Cube currency=").count(), 29);
        assert_eq!(xml.matches("<Cube").count() - 29, xml.matches("</Cube>").count());
    }
}
