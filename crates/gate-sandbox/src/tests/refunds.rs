//! What a refund refuses, does, and becomes.

use serde_json::json;

use super::{Rig, text};

fn stocked() -> Rig {
    let mut rig = Rig::new();
    for fields in [
        r#"{"id":"ch_usd","amount":1000}"#,
        r#"{"id":"ch_partly","amount":1000,"amount_refunded":300}"#,
        r#"{"id":"ch_gone","amount":1000,"refunded":true}"#,
        r#"{"id":"ch_open","amount":1000,"captured":false}"#,
        r#"{"id":"ch_held","amount":1000,"captured":false,"payment_intent":"pi_held"}"#,
        r#"{"id":"ch_short","amount":1000,"amount_captured":700}"#,
        r#"{"id":"ch_failed","amount":1000,"status":"failed"}"#,
        r#"{"id":"ch_jpy","amount":9899,"currency":"jpy"}"#,
        r#"{"id":"ch_ugx","amount":10000,"currency":"ugx"}"#,
        r#"{"id":"ch_isk","amount":10000,"currency":"isk"}"#,
        r#"{"id":"ch_kwd","amount":10000,"currency":"kwd"}"#,
        r#"{"id":"ch_bgn","amount":1000,"currency":"bgn"}"#,
        r#"{"id":"ch_real","dispute":{"status":"needs_response"}}"#,
        r#"{"id":"ch_claims","dispute":{"status":"under_review","is_charge_refundable":true}}"#,
        r#"{"id":"ch_lost","dispute":{"status":"lost"}}"#,
        r#"{"id":"ch_won","dispute":{"status":"won"}}"#,
        r#"{"id":"ch_ask","dispute":{"status":"warning_needs_response"}}"#,
        r#"{"id":"ch_stuck","dispute":{"status":"warning_closed","is_charge_refundable":false}}"#,
        r#"{"id":"ch_odd","dispute":{"status":"brand_new"}}"#,
        r#"{"id":"ch_marked","disputed":true}"#,
    ] {
        rig.charge(fields);
    }
    rig
}

#[test]
fn creation_refuses_what_stripe_refuses() {
    let mut rig = stocked();
    rig.ok("POST /v1/payment_intents amount=500&currency=usd");
    let intents = rig.ok("GET /v1/payment_intents?limit=1");
    let empty = intents["data"][0]["id"].as_str().unwrap().to_owned();
    let no_charge = format!("POST /v1/refunds payment_intent={empty}");
    rig.check(&[
        // the request's own faults
        ("POST /v1/refunds", 400, "parameter_missing", "payment_intent or charge"),
        ("POST /v1/refunds charge=ch_usd&payment_intent=pi_held", 400, "parameter_missing", "one of"),
        ("POST /v1/refunds charge=", 400, "parameter_invalid_empty", "'charge'"),
        ("POST /v1/refunds charge=ch_usd&foo=1", 400, "parameter_unknown", "parameter: foo"),
        ("POST /v1/refunds charge=ch_usd&amount[a]=1", 400, "parameter_unknown", "amount[a]"),
        ("POST /v1/refunds charge=ch_usd&amount=0", 400, "parameter_invalid_integer", "equal to 1."),
        ("POST /v1/refunds charge=ch_usd&amount=-1", 400, "parameter_invalid_integer", "equal to 1."),
        ("POST /v1/refunds charge=ch_usd&amount=1.5", 400, "parameter_invalid_integer", "1.5"),
        ("POST /v1/refunds charge=ch_usd&amount=99999999999999999999", 400, "parameter_invalid_integer", "Invalid integer"),
        ("POST /v1/refunds charge=ch_usd&reason=angry", 400, "-", "Invalid reason: must be one of duplicate, fraudulent, or requested_by_customer"),
        ("POST /v1/refunds charge=ch_usd&reverse_transfer=maybe", 400, "-", "Invalid boolean"),
        ("POST /v1/refunds charge=ch_usd&reverse_transfer=true", 400, "-", "no transfer"),
        ("POST /v1/refunds charge=ch_usd&refund_application_fee=true", 400, "-", "no application fee"),
        ("POST /v1/refunds charge=ch_usd&origin=customer_balance", 400, "-", "cash balance"),
        ("POST /v1/refunds charge=ch_usd&expand[]=amount", 400, "-", "cannot be expanded (amount)"),
        // what is not there
        ("POST /v1/refunds charge=ch_nope", 404, "resource_missing", "No such charge: 'ch_nope'"),
        ("POST /v1/refunds payment_intent=pi_nope", 404, "resource_missing", "No such payment_intent: 'pi_nope'"),
        (&no_charge, 400, "-", "does not have a successful charge to refund."),
        // over what is left
        ("POST /v1/refunds charge=ch_partly&amount=701", 400, "-", "Refund amount ($7.01) is greater than unrefunded amount on charge ($7.00)"),
        ("POST /v1/refunds charge=ch_usd&amount=3000", 400, "-", "Refund amount ($30.00) is greater than charge amount ($10.00)"),
        ("POST /v1/refunds charge=ch_jpy&amount=989900", 400, "-", "Refund amount (¥989,900) is greater than charge amount (¥9,899)"),
        ("POST /v1/refunds charge=ch_short&amount=701", 400, "-", "unrefunded amount on charge ($7.00)"),
        // finer than the currency
        ("POST /v1/refunds charge=ch_ugx&amount=550", 400, "-", "Currency UGX has become effectively zero-decimal and charged amounts must be evenly divisible by 100"),
        ("POST /v1/refunds charge=ch_isk&amount=550", 400, "-", "Currency ISK"),
        ("POST /v1/refunds charge=ch_kwd&amount=1505", 400, "-", "KWD must be evenly divisible by 10"),
        // the charge's state
        ("POST /v1/refunds charge=ch_gone", 400, "charge_already_refunded", "Charge ch_gone has already been refunded."),
        ("POST /v1/refunds charge=ch_open&amount=5", 400, "charge_not_refundable", "You cannot partially refund an uncaptured charge"),
        ("POST /v1/refunds payment_intent=pi_held", 400, "payment_intent_unexpected_state", "Cancel it instead"),
        ("POST /v1/refunds charge=ch_held", 400, "payment_intent_unexpected_state", "requires_capture"),
        ("POST /v1/refunds charge=ch_failed", 400, "charge_not_refundable", "failed"),
        // disputes
        ("POST /v1/refunds charge=ch_real", 400, "charge_disputed", "Charge ch_real has been charged back; cannot issue a refund."),
        ("POST /v1/refunds charge=ch_claims", 400, "charge_disputed", "charged back"),
        ("POST /v1/refunds charge=ch_lost", 400, "charge_disputed", "charged back"),
        ("POST /v1/refunds charge=ch_stuck", 400, "charge_disputed", "charged back"),
        ("POST /v1/refunds charge=ch_odd", 400, "charge_disputed", "charged back"),
        ("POST /v1/refunds charge=ch_marked", 400, "charge_disputed", "charged back"),
    ]);
    assert!(rig.sandbox.refunds().is_empty(), "nothing of all this made a refund");
}

#[test]
fn creation_refunds_and_the_charge_shows_it() {
    //  request                                   refunded, amount_refunded and refunded after
    let table = [
        ("charge=ch_usd&amount=300", 300, 300, false),
        ("charge=ch_usd&amount=300", 300, 600, false),
        ("charge=ch_usd", 400, 1000, true),
        ("charge=ch_partly&amount=700", 700, 1000, true),
        ("charge=ch_short", 700, 1000, true),
        ("charge=ch_jpy", 9899, 9899, true),
        ("charge=ch_ugx&amount=500", 500, 500, false),
        ("charge=ch_isk&amount=500", 500, 500, false),
        ("charge=ch_kwd&amount=1510", 1510, 1510, false),
        ("charge=ch_bgn", 1000, 1000, true),
        ("charge=ch_won", 1000, 1000, true),
        ("charge=ch_ask&amount=1", 1, 1, false),
    ];
    let mut rig = stocked();
    for (form, amount, refunded, whole) in table {
        let refund = rig.ok(&format!("POST /v1/refunds {form}"));
        assert_eq!(refund["amount"], amount, "{form}");
        assert_eq!(refund["status"], "succeeded", "{form}");
        let charge = rig.ok(&format!("GET /v1/charges/{}", text(&refund, "charge")));
        assert_eq!(charge["amount_refunded"], refunded, "{form}");
        assert_eq!(charge["refunded"], whole, "{form}");
    }
}

#[test]
fn over_refund_can_carry_its_code() {
    let mut rig = stocked();
    let over = "POST /v1/refunds charge=ch_usd&amount=1001";
    assert_eq!(rig.send(over).body["error"]["param"], "amount");
    rig.order("settings", r#"{"overRefundCode":true}"#);
    rig.check(&[(over, 400, "amount_too_large", "greater than charge amount")]);
    rig.order("settings", r#"{"overRefundCode":false}"#);
    rig.check(&[(over, 400, "-", "greater than charge amount")]);
}

#[test]
fn a_refund_has_the_fields_of_its_version() {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_1","payment_intent":"pi_1"}"#);
    let form = "payment_intent=pi_1&amount=250&reason=duplicate&metadata[order]=7&metadata[none]=";
    let mut refund = rig.ok(&format!("POST /v1/refunds {form}"));
    let fields = refund.as_object_mut().unwrap();
    let id = fields.shift_remove("id").unwrap();
    assert!(id.as_str().unwrap().starts_with("re_") && id.as_str().unwrap().len() == 27);
    let transaction = fields.shift_remove("balance_transaction").unwrap();
    assert!(transaction.as_str().unwrap().starts_with("txn_"));
    assert_eq!(
        refund,
        json!({
            "object": "refund", "amount": 250, "charge": "ch_1", "created": 1_793_361_600,
            "currency": "usd", "destination_details": { "card": { "type": "refund" }, "type": "card" },
            "metadata": { "order": "7" }, "payment_intent": "pi_1", "reason": "duplicate",
            "receipt_number": null, "source_transfer_reversal": null, "status": "succeeded",
            "transfer_reversal": null,
        })
    );
}

#[test]
fn metadata_is_laid_over_and_unset() {
    let mut rig = stocked();
    let refund = rig.ok("POST /v1/refunds charge=ch_usd&amount=1&metadata[a]=1&metadata[b]=2");
    let path = format!("/v1/refunds/{}", text(&refund, "id"));
    let long_key = format!("POST {path} metadata[{}]=1", "k".repeat(41));
    let long_value = format!("POST {path} metadata[k]={}", "v".repeat(501));
    for (line, metadata) in [
        (format!("POST {path} metadata[b]=&metadata[c]=3"), json!({ "a": "1", "c": "3" })),
        (format!("POST {path} expand[]=charge"), json!({ "a": "1", "c": "3" })),
        (format!("POST {path} metadata="), json!({})),
    ] {
        assert_eq!(rig.ok(&line)["metadata"], metadata, "{line}");
    }
    let too_many: Vec<String> = (0..51).map(|k| format!("metadata[k{k}]=v")).collect();
    rig.check(&[
        (&format!("POST {path} amount=5"), 400, "parameter_unknown", "amount"),
        (&long_key, 400, "-", "at most 40 characters"),
        (&long_value, 400, "-", "at most 500 characters"),
        (&format!("POST {path} {}", too_many.join("&")), 400, "-", "at most 50 keys"),
        ("POST /v1/refunds/re_nope metadata[a]=1", 404, "resource_missing", "No such refund"),
        ("GET /v1/refunds/re_nope", 404, "resource_missing", "No such refund"),
    ]);
}

#[test]
fn a_refund_lives_on() {
    //   moves, one after the other                 status    given back  failure_reason
    let table = [
        (vec![r#"{"status":"pending","pending_reason":"insufficient_funds"}"#], "pending", false),
        (vec![r#"{"status":"pending"}"#, r#"{"status":"succeeded"}"#], "succeeded", false),
        (vec![r#"{"status":"requires_action"}"#], "requires_action", false),
        (vec![r#"{"status":"failed","failure_reason":"lost_or_stolen_card"}"#], "failed", true),
        (vec![r#"{"status":"pending"}"#, r#"{"status":"failed"}"#], "failed", true),
        (vec![r#"{"status":"canceled"}"#], "canceled", true),
    ];
    for (moves, status, given_back) in table {
        let mut rig = stocked();
        let refund = rig.ok("POST /v1/refunds charge=ch_usd&amount=400");
        let id = text(&refund, "id");
        for order in &moves {
            assert_eq!(rig.order(&format!("refunds/{id}"), order).status, 200, "{order}");
        }
        let refund = rig.ok(&format!("GET /v1/refunds/{id}"));
        assert_eq!(refund["status"], status, "{moves:?}");
        assert_eq!(refund["failure_balance_transaction"].is_string(), given_back, "{moves:?}");
        assert_eq!(refund["failure_reason"].is_string(), given_back, "{moves:?}");
        assert_eq!(refund["pending_reason"].is_string(), status == "pending", "{moves:?}");
        let charge = rig.ok("GET /v1/charges/ch_usd");
        assert_eq!(charge["amount_refunded"], if given_back { 0 } else { 400 }, "{moves:?}");
        // The end is the end.
        let again = rig.order(&format!("refunds/{id}"), r#"{"status":"succeeded"}"#);
        assert_eq!(again.status, if given_back { 400 } else { 200 }, "{moves:?}");
    }
}

#[test]
fn only_a_refund_that_requires_action_is_canceled() {
    let mut rig = stocked();
    let refund = rig.ok("POST /v1/refunds charge=ch_usd");
    let id = text(&refund, "id");
    let cancel = format!("POST /v1/refunds/{id}/cancel");
    rig.check(&[(&cancel, 400, "-", "requires_action")]);
    rig.order(&format!("refunds/{id}"), r#"{"status":"requires_action"}"#);
    rig.check(&[(&cancel, 200, "-", "canceled"), (&cancel, 400, "-", "requires_action")]);
    assert_eq!(rig.ok("GET /v1/charges/ch_usd")["amount_refunded"], 0);
}

#[test]
fn the_asynchronous_test_cards_move_on_by_themselves() {
    //   token                at once       amount   after an hour  amount
    let table = [
        ("tok_pendingRefund", "pending", 400, "succeeded", 400),
        ("tok_refundFail", "succeeded", 400, "failed", 0),
        ("tok_visa", "succeeded", 400, "succeeded", 400),
    ];
    for (token, at_once, amount, after, amount_after) in table {
        let mut rig = Rig::new();
        let form = format!("amount=1000&currency=usd&source={token}");
        let charge = rig.ok(&format!("POST /v1/charges {form}"));
        let charge = format!("/v1/charges/{}", text(&charge, "id"));
        let form = format!("charge={}&amount=400", charge.trim_start_matches("/v1/charges/"));
        let refund = rig.ok(&format!("POST /v1/refunds {form}"));
        let refund = format!("GET /v1/refunds/{}", text(&refund, "id"));
        for (secs, status, amount) in [(3599, at_once, amount), (1, after, amount_after)] {
            rig.later(secs);
            assert_eq!(rig.ok(&refund)["status"], status, "{token}");
            assert_eq!(rig.ok(&format!("GET {charge}"))["amount_refunded"], amount, "{token}");
        }
    }
}

#[test]
fn a_pending_charge_gives_a_pending_refund() {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_1","status":"pending","payment_intent":"pi_1"}"#);
    assert_eq!(rig.ok("GET /v1/payment_intents/pi_1")["status"], "processing");
    let refund = rig.ok("POST /v1/refunds charge=ch_1");
    assert_eq!(
        (text(&refund, "status"), text(&refund, "pending_reason")),
        ("pending", "charge_pending")
    );
}

#[test]
fn an_agent_tagged_key_is_held() {
    let mut rig = stocked();
    rig.order("keys", r#"{"key":"rk_test_agent","agentTagged":true}"#);
    let agent = "Authorization:Bearer+rk_test_agent Idempotency-Key:k1";
    let line = format!("POST /v1/refunds charge=ch_usd&amount=5 {agent}");
    let held = rig.send(&line);
    assert_eq!((held.status, held.code()), (400, "approval_required"));
    let request = &held.body["error"]["approval_request"];
    assert!(text(request, "id").starts_with("apreq_test_"), "{request}");
    assert_eq!(text(request, "action"), "create_refund");
    assert_eq!(text(request, "expires_at"), "2026-11-13T12:00:00Z");
    // The same key is shown the same approval request again.
    assert_eq!(rig.send(&line).body, held.body);
    assert!(rig.sandbox.refunds().is_empty());
    rig.check(&[
        (&format!("POST /v1/refunds charge=ch_gone {agent}2"), 400, "charge_already_refunded", ""),
        (&format!("GET /v1/charges/ch_usd {agent}"), 200, "-", ""),
    ]);
}
