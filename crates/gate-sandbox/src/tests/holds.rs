//! Stripe's own approvals: what is held, what is decided, and what comes of it.

use serde_json::Value;

use super::{Rig, text};

const FORM: &str = "charge=ch_1&amount=400&metadata[burnbound_intent]=int_1";
const DAY_SECS: i64 = 24 * 60 * 60;
const PREVIEW: &str = "Stripe-Version:2026-09-30.preview";

/// A charge of 10.00 USD, a tagged key, and its refund of 4.00 USD that is held.
fn held() -> (Rig, String) {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_1"}"#);
    rig.order("keys", r#"{"key":"rk_test_agent","agentTagged":true}"#);
    let id = ask(&mut rig, "k1");
    (rig, id)
}

fn ask(rig: &mut Rig, key: &str) -> String {
    let agent = format!("Authorization:Bearer+rk_test_agent Idempotency-Key:{key}");
    let answered = rig.send(&format!("POST /v1/refunds {FORM} {agent}"));
    assert_eq!((answered.status, answered.code()), (400, "approval_required"));
    text(&answered.body["error"]["approval_request"], "id").to_owned()
}

fn read(rig: &mut Rig, id: &str) -> Value {
    rig.ok(&format!("GET /v2/core/approval_requests/{id} {PREVIEW}"))
}

/// The types of all thin events, and the request that the last one names.
fn events(rig: &Rig) -> (Vec<String>, String) {
    let events = rig.sandbox.events();
    let thin = events.iter().filter(|event| event["object"] == "v2.core.event");
    let kind = |event: &Value| text(event, "type").replace("v2.core.approval_request.", "");
    let named =
        thin.clone().next_back().map(|event| text(&event["related_object"], "id").to_owned());
    (thin.map(kind).collect(), named.unwrap_or_default())
}

#[test]
fn every_decision_and_what_comes_of_it() {
    #[rustfmt::skip]
    let table: [(&[&str], &str, &str, usize); 8] = [
        // decisions in order,                                status in the end,   events,                      refunds
        (&[],                                                 "requires_review",    "created",                   0),
        (&["approved"],                                       "succeeded",          "created approved succeeded", 1),
        (&["requires_execution"],                             "requires_execution", "created approved",          0),
        (&["requires_execution", "succeeded"],                "succeeded",          "created approved succeeded", 1),
        (&["rejected"],                                       "rejected",           "created rejected",          0),
        (&["canceled"],                                       "canceled",           "created canceled",          0),
        (&["expired"],                                        "expired",            "created expired",           0),
        (&["failed"],                                         "failed",             "created approved failed",   0),
    ];
    for (decisions, status, told, refunds) in table {
        let (mut rig, id) = held();
        for decision in decisions {
            let order = format!(r#"{{"status":"{decision}","reason":"said so"}}"#);
            let path = format!("approval_requests/{id}");
            let answered = rig.order(&path, &order);
            assert_eq!(answered.status, 200, "{decision}: {}", answered.body);
        }
        let request = read(&mut rig, &id);
        assert_eq!(text(&request, "status"), status, "{request}");
        assert_eq!(text(&request, "object"), "v2.core.approval_request");
        assert_eq!(text(&request, "action"), "refund.create");
        let (kinds, named) = events(&rig);
        assert_eq!((kinds.join(" ").as_str(), named), (told, id.clone()), "{decisions:?}");
        let made = rig.sandbox.refunds();
        assert_eq!(made.len(), refunds, "{decisions:?}");
        if let [refund] = made.as_slice() {
            let result = &request["status_details"]["succeeded"]["result"];
            assert_eq!((&result["id"], &refund["amount"]), (&refund["id"], &Value::from(400)));
            assert_eq!(refund["metadata"]["burnbound_intent"], "int_1", "as it was asked for");
        }
        let is_open = status.starts_with("requires");
        let again = rig.order(&format!("approval_requests/{id}"), r#"{"status":"approved"}"#);
        assert_eq!(again.status, if is_open { 200 } else { 400 }, "{decisions:?}: decided once");
        // The first version of the interface does not list thin events.
        let listed = rig.ok("GET /v1/events?limit=100");
        assert!(!listed.to_string().contains("approval_request"), "{listed}");
    }
}

#[test]
fn it_expires_after_fourteen_days() {
    let (mut rig, id) = held();
    rig.later(14 * DAY_SECS - 1);
    assert_eq!(text(&read(&mut rig, &id), "status"), "requires_review");
    assert!(rig.sandbox.next_delivery_ms().is_some(), "something will happen by itself");
    rig.later(1);
    assert_eq!(text(&read(&mut rig, &id), "status"), "expired");
    let at = "2026-11-13T12:00:00Z";
    assert_eq!(text(&read(&mut rig, &id)["status_transitions"], "expired_at"), at);
    assert_eq!(events(&rig).0, ["created", "expired"]);
}

/// What was left of the charge when it was asked for may be gone when it is approved.
#[test]
fn an_approval_makes_no_more_than_the_charge_has() {
    let (mut rig, first) = held();
    let second = ask(&mut rig, "k2");
    rig.ok("POST /v1/refunds charge=ch_1&amount=500");
    for (id, status) in [(&first, "succeeded"), (&second, "failed")] {
        rig.order(&format!("approval_requests/{id}"), r#"{"status":"approved"}"#);
        assert_eq!(text(&read(&mut rig, id), "status"), status);
    }
    let why = read(&mut rig, &second)["status_details"]["failed"]["error_message"].to_string();
    assert!(why.contains("unrefunded amount"), "{why}");
    assert_eq!(rig.sandbox.refunds().len(), 2);
}

#[test]
fn the_interface_takes_a_reason_and_refuses_what_it_has_to() {
    let (mut rig, id) = held();
    let path = format!("/v2/core/approval_requests/{id}");
    for (verb, said) in [("", "one"), ("/update", "two"), ("/submit", "three")] {
        let told = rig.ok(&format!("POST {path}{verb} {{\"reason\":\"{said}\"}} {PREVIEW}"));
        assert_eq!(text(&told, "reason"), said);
    }
    let listed = rig.ok(&format!("GET /v2/core/approval_requests?limit=1 {PREVIEW}"));
    assert_eq!((&listed["data"][0]["id"], &listed["next_page_url"]), (&id.into(), &Value::Null));
    rig.order("keys", r#"{"key":"rk_test_few","permissions":{"refunds":"write"}}"#);
    let few = "Authorization:Bearer+rk_test_few";
    rig.check(&[
        (&format!("GET {path}"), 404, "-", "Unrecognized request URL"),
        (&format!("GET {path} {PREVIEW} {few}"), 403, "-", "rak_approval_request_read"),
        (&format!("GET {path}x {PREVIEW}"), 404, "resource_missing", "No such approval_request"),
        (&format!("POST {path} {PREVIEW}"), 400, "parameter_missing", "reason"),
        (&format!("GET {path} {PREVIEW} Stripe-Context:acct_2"), 404, "resource_missing", ""),
    ]);
    let unknown = rig.order("approval_requests/apreq_0", r#"{"status":"approved"}"#);
    assert_eq!(unknown.status, 404);
    let odd = rig.order("approval_requests/apreq_0", r#"{"status":"maybe"}"#);
    assert_eq!(odd.status, 400);
}
