//! Events: which ones, what they carry, and how they are listed.

use serde_json::json;

use super::{NOON_MS, Rig, text};
use crate::EVENTS_KEPT_MAX;

const NOON_SECS: i64 = NOON_MS / 1000;
const DAY_SECS: i64 = 24 * 60 * 60;

#[test]
fn each_change_has_its_events() {
    let failed = "refund.updated charge.refund.updated refund.failed";
    let updated = "refund.updated charge.refund.updated";
    //   orders before; what is done; its events
    let table = [
        ("", "POST /v1/refunds charge=ch_1&amount=1", "refund.created charge.refunded"),
        ("", "POST /v1/refunds charge=ch_1&amount=9999", ""),
        ("", "POST /v1/refunds/RE metadata[a]=2", updated),
        ("", "POST /v1/refunds/RE metadata[a]=1", ""),
        ("", "GET /v1/refunds/RE", ""),
        ("", "POST /v1/refunds/RE/cancel", ""),
        ("requires_action", "POST /v1/refunds/RE/cancel", updated),
        ("", r#"POST /_sandbox/refunds/RE {"status":"pending"}"#, updated),
        ("pending", r#"POST /_sandbox/refunds/RE {"status":"succeeded"}"#, updated),
        ("", r#"POST /_sandbox/refunds/RE {"status":"failed"}"#, failed),
        ("pending", r#"POST /_sandbox/refunds/RE {"status":"failed"}"#, failed),
        ("failed", r#"POST /_sandbox/refunds/RE {"status":"failed"}"#, ""),
        ("", r#"POST /_sandbox/refunds/RE {"status":"canceled"}"#, updated),
        ("", r#"POST /_sandbox/disputes {"charge":"ch_1"}"#, "charge.dispute.created"),
        ("", r#"POST /_sandbox/charges {"disputed":true}"#, "charge.dispute.created"),
        (
            "",
            "POST /v1/charges amount=5&currency=usd&source=tok_createDispute",
            "charge.dispute.created",
        ),
        ("", r#"POST /_sandbox/disputes/dp_2 {"status":"under_review"}"#, "charge.dispute.updated"),
        ("", r#"POST /_sandbox/disputes/dp_2 {"status":"lost"}"#, "charge.dispute.closed"),
        (
            "",
            r#"POST /_sandbox/disputes/dp_2 {"status":"warning_closed"}"#,
            "charge.dispute.closed",
        ),
        ("", "POST /v1/charges amount=5&currency=usd&source=tok_visa", ""),
    ];
    for (before, line, expected) in table {
        let mut rig = Rig::new();
        rig.charge(r#"{"id":"ch_1"}"#);
        rig.charge(r#"{"id":"ch_2","dispute":{"id":"dp_2"}}"#);
        let refund = rig.ok("POST /v1/refunds charge=ch_1&amount=400&metadata[a]=1");
        let id = text(&refund, "id");
        if !before.is_empty() {
            let order = format!(r#"{{"status":"{before}"}}"#);
            assert_eq!(rig.order(&format!("refunds/{id}"), &order).status, 200, "{line}");
        }
        let already = rig.sandbox.events().len();
        rig.send(&line.replace("RE", id));
        let events = rig.sandbox.events();
        let kinds: Vec<&str> = events[already..].iter().map(|it| text(it, "type")).collect();
        assert_eq!(kinds.join(" "), expected, "{before} {line}");
    }
}

#[test]
fn an_event_has_the_fields_of_stripe() {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_1"}"#);
    let sent = rig.send("POST /v1/refunds charge=ch_1&amount=400 Idempotency-Key:k1");
    let events = rig.sandbox.events();
    let id = text(&events[0], "id");
    assert!(id.starts_with("evt_") && id.len() == 28, "{id}");
    assert_eq!(
        events[0],
        json!({
            "id": id, "object": "event", "api_version": "2025-09-30.clover",
            "created": NOON_SECS, "data": { "object": sent.body }, "livemode": false,
            "pending_webhooks": 0,
            "request": { "id": sent.header("Request-Id"), "idempotency_key": "k1" },
            "type": "refund.created",
        })
    );
    assert_eq!(
        events[1]["data"],
        json!({
            "object": rig.ok("GET /v1/charges/ch_1"),
            "previous_attributes": { "amount_refunded": 0 },
        })
    );
    // Stripe shows no refunds in a charge that nobody expanded.
    assert_eq!(events[1]["data"]["object"].get("refunds"), None);
    assert_eq!(rig.ok(&format!("GET /v1/events/{id}")), events[0]);

    // What time and the control API do is nobody's request.
    let failed = r#"{"status":"failed","failure_reason":"lost_or_stolen_card"}"#;
    let refund = rig.order(&format!("refunds/{}", text(&sent.body, "id")), failed).body;
    let event = rig.sandbox.events().remove(4);
    assert_eq!(text(&event, "type"), "refund.failed");
    assert_eq!(event["request"], json!({ "id": null, "idempotency_key": null }));
    assert_eq!(
        event["data"],
        json!({
            "object": refund,
            "previous_attributes": {
                "failure_balance_transaction": null, "failure_reason": null, "status": "succeeded",
            },
        })
    );
    assert_eq!(rig.ok("GET /v1/charges/ch_1")["amount_refunded"], 0);
}

#[test]
fn a_lost_answer_loses_no_event() {
    //   fault, refunds made, events
    for (kind, events) in [
        ("drop_before", 0),
        ("drop_after", 2),
        ("status_500_done", 2),
        ("status_500_stored", 0),
        ("status_409", 0),
        ("malformed", 2),
    ] {
        let mut rig = Rig::new();
        rig.charge(r#"{"id":"ch_1"}"#);
        rig.order("faults", &format!(r#"{{"kind":"{kind}"}}"#));
        let line = "POST /v1/refunds charge=ch_1&amount=1 Idempotency-Key:k1";
        rig.send(line);
        assert_eq!(rig.sandbox.events().len(), events, "{kind}");
        // Whatever the same key is answered now, the events are those of one refund at most.
        rig.send(line);
        assert_eq!(rig.sandbox.events().len(), rig.sandbox.refunds().len() * 2, "{kind}");
    }
}

#[test]
fn new_refunds_can_be_ordered() {
    //   order                                                       status, given, its events
    let table = [
        (
            r#"{"status":"pending","pending_reason":"insufficient_funds"}"#,
            json!({ "status": "pending", "pending_reason": "insufficient_funds" }),
            400,
            "refund.created charge.refunded",
        ),
        (
            r#"{"status":"requires_action"}"#,
            json!({ "status": "requires_action" }),
            400,
            "refund.created charge.refunded",
        ),
        (
            r#"{"status":"failed","failure_reason":"insufficient_funds"}"#,
            json!({ "status": "failed", "failure_reason": "insufficient_funds" }),
            0,
            "refund.created refund.failed",
        ),
        ("null", json!({ "status": "succeeded" }), 400, "refund.created charge.refunded"),
    ];
    let mut rig = Rig::new();
    for (order, fields, refunded, kinds) in table {
        let charge = rig.charge("{}");
        let charge = text(&charge, "id");
        let set = rig.order("settings", &format!(r#"{{"newRefunds":{order}}}"#));
        assert_eq!(set.status, 200, "{order}: {}", set.body);
        let already = rig.sandbox.events().len();
        let refund = rig.ok(&format!("POST /v1/refunds charge={charge}&amount=400"));
        for (name, value) in fields.as_object().unwrap() {
            assert_eq!(&refund[name], value, "{order}");
        }
        assert_eq!(refund.get("next_action").is_some(), refund["status"] == "requires_action");
        let charge = rig.ok(&format!("GET /v1/charges/{charge}"));
        assert_eq!(charge["amount_refunded"], refunded, "{order}");
        let events = rig.sandbox.events();
        let seen: Vec<&str> = events[already..].iter().map(|it| text(it, "type")).collect();
        assert_eq!(seen.join(" "), kinds, "{order}");
    }
}

#[test]
fn time_makes_events_at_its_own_time() {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_1","source":"tok_refundFail"}"#);
    rig.ok("POST /v1/refunds charge=ch_1");
    assert_eq!(rig.sandbox.next_delivery_ms(), Some(NOON_MS + 3_600_000));
    rig.later(2 * 3600);
    // Asking for what is due is enough to let it happen.
    assert!(rig.sandbox.take_deliveries(rig.now_ms).is_empty(), "there is no endpoint");
    let events = rig.sandbox.events();
    assert_eq!(text(&events[4], "type"), "refund.failed");
    assert_eq!(events[4]["created"], NOON_SECS + 3600);
    assert_eq!(rig.sandbox.next_delivery_ms(), None);
}

#[test]
fn events_are_listed_by_type_and_page() {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_1"}"#);
    rig.charge(r#"{"id":"ch_2","disputed":true}"#);
    let refund = rig.ok("POST /v1/refunds charge=ch_1&amount=1");
    rig.order(&format!("refunds/{}", text(&refund, "id")), r#"{"status":"failed"}"#);
    let all = "refund.failed charge.refund.updated refund.updated charge.refunded refund.created \
               charge.dispute.created";
    let first = text(&rig.sandbox.events()[1], "id").to_owned();
    //   query, types on the page, has_more
    let table = [
        (String::new(), all, false),
        ("type=refund.failed".to_owned(), "refund.failed", false),
        ("type=refund.*".to_owned(), "refund.failed refund.updated refund.created", false),
        ("type=charge.dispute.*".to_owned(), "charge.dispute.created", false),
        (
            "types[]=refund.created&types[]=charge.refunded".to_owned(),
            "charge.refunded refund.created",
            false,
        ),
        ("type=plan.created".to_owned(), "", false),
        ("limit=2".to_owned(), "refund.failed charge.refund.updated", true),
        (format!("starting_after={first}"), "charge.dispute.created", false),
        (format!("ending_before={first}&limit=1"), "charge.refunded", true),
        (format!("created[gt]={NOON_SECS}"), "", false),
    ];
    for (query, types, more) in table {
        let page = rig.ok(&format!("GET /v1/events?{query}"));
        let seen: Vec<&str> =
            page["data"].as_array().unwrap().iter().map(|it| text(it, "type")).collect();
        assert_eq!(seen.join(" "), types, "{query}");
        assert_eq!(page["has_more"], more, "{query}");
    }
    let many = format!("GET /v1/events?{}", "types[]=a&".repeat(21));
    rig.order("keys", r#"{"key":"rk_test_refunds","permissions":{"refunds":"write"}}"#);
    rig.check(&[
        ("GET /v1/events?type=a&types[]=b", 400, "parameters_exclusive", "type, types"),
        (&many, 400, "-", "at most 20 types"),
        ("GET /v1/events?delivery_success=true", 400, "parameter_unknown", "delivery_success"),
        ("GET /v1/events/evt_nope", 404, "resource_missing", "No such event: 'evt_nope'"),
        ("GET /v1/events Authorization:Bearer+rk_test_refunds", 403, "-", "rak_event_read"),
    ]);
}

#[test]
fn events_are_kept_for_thirty_days_and_in_limited_number() {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_1","amount":50000}"#);
    rig.ok("POST /v1/refunds charge=ch_1&amount=1");
    let old = text(&rig.sandbox.events()[0], "id").to_owned();
    for (secs, status) in [(30 * DAY_SECS, 200), (1, 404)] {
        rig.later(secs);
        assert_eq!(rig.send(&format!("GET /v1/events/{old}")).status, status);
    }
    assert!(rig.sandbox.events().is_empty());
    rig.ok("POST /v1/refunds charge=ch_1&amount=1");
    let first = text(&rig.sandbox.events()[0], "id").to_owned();
    for _ in 0..EVENTS_KEPT_MAX / 2 {
        rig.ok("POST /v1/refunds charge=ch_1&amount=1");
    }
    assert_eq!(rig.sandbox.events().len(), EVENTS_KEPT_MAX);
    let last = text(rig.sandbox.events().last().unwrap(), "id").to_owned();
    rig.check(&[
        (&format!("GET /v1/events/{first}"), 404, "resource_missing", ""),
        (&format!("GET /v1/events/{last}"), 200, "-", ""),
        (&format!("GET /v1/events?starting_after={first}"), 404, "resource_missing", ""),
    ]);
}

#[test]
fn events_of_other_accounts_name_them() {
    let mut rig = Rig::new();
    rig.ok(r#"POST /_sandbox/charges {"id":"ch_b"} Stripe-Account:acct_b"#);
    rig.ok("POST /v1/refunds charge=ch_b Stripe-Account:acct_b");
    assert_eq!(rig.ok("GET /v1/events")["data"], json!([]));
    let page = rig.ok("GET /v1/events Stripe-Account:acct_b");
    assert_eq!(page["data"][0]["account"], "acct_b");
}
