//! Each state as an answer shows it.

use super::*;
use crate::samples::{approval, intent, refund};
use gate_core::{
    ApprovalState, Channel, Charge, ChargeId, Denier, Failure, FailureCode, HoldUrl, OnApproval,
    ReasonCode,
};
use gate_money::{Amount, Currency, MicroUsd};
use serde_json::{Value, json};

const DAY_MILLIS: i64 = 86_400_000;

#[test]
fn what_every_state_means() {
    #[rustfmt::skip]
    let table = [
        // state                 status              HTTP  retry       and where a reason resets
        (State::Asked,           "in_progress",      202, "same_key", "same_key"),
        (State::PendingApproval, "pending_approval", 202, "same_key", "same_key"),
        (State::Approved,        "approved",         200, "same_key", "same_key"),
        (State::Submitted,       "in_progress",      202, "same_key", "same_key"),
        (State::AwaitingStripe,  "pending_approval", 202, "same_key", "same_key"),
        (State::NotExecuted,     "not_executed",     200, "same_key", "same_key"),
        (State::Settled,         "refunded",         200, "never",    "never"),
        (State::Failed,          "failed",           200, "never",    "never"),
        (State::Reversed,        "reversed",         200, "never",    "never"),
        (State::Denied,          "denied",           200, "never",    "later"),
        (State::Expired,         "denied",           200, "never",    "later"),
        (State::Canceled,        "denied",           200, "never",    "later"),
    ];
    for (state, status, http, retry, resets) in table {
        let found = [false, true].map(|resets| {
            let standing = standing(state, resets);
            assert_eq!((standing.status.as_str(), standing.http_status), (status, http));
            standing.retry.as_str()
        });
        assert_eq!(found, [retry, resets], "{state:?}");
    }
    assert_eq!(State::STORED.len() + 1, table.len(), "a state is missing");
}

/// The whole object, byte for byte: names, order, nothing left out.
#[test]
fn golden() {
    let mut settled = intent(State::Settled);
    settled.refund = Some(refund("succeeded"));
    assert_eq!(
        serde_json::to_string(&IntentView::new(&settled, false, true)).unwrap(),
        concat!(
            r#"{"status":"refunded","state":"settled","intentId":"int_1","#,
            r#""idempotencyKey":"ticket-4821","replayed":false,"livemode":false,"#,
            r#""agent":"support-bot","charge":"ch_1","paymentIntent":"pi_1","#,
            r#""amount":{"minor":1250,"currency":"eur","decimals":2,"text":"12.50 EUR","#,
            r#""usdMicros":13965000},"refund":{"id":"re_1","status":"succeeded"},"#,
            r#""reported":true,"reasons":[],"policyVersion":7,"#,
            r#""createdAt":"1970-01-01T00:00:00.000Z","updatedAt":"1970-01-01T00:00:00.001Z","#,
            r#""retry":"never","#,
            r#""next":"The refund is on its way to the customer. Do not ask again."}"#
        )
    );
}

#[test]
fn what_is_not_known_is_null_or_left_out() {
    let mut bare = intent(State::Submitted);
    bare.payment_intent = None;
    bare.worth = None;
    let view = value(&IntentView::new(&bare, true, false));
    assert_eq!(view["paymentIntent"], Value::Null);
    assert_eq!(view["refund"], Value::Null);
    assert_eq!(view["amount"].get("usdMicros"), None);
    assert_eq!((&view["replayed"], &view["reported"]), (&json!(true), &json!(false)));
}

fn value(view: &IntentView) -> Value {
    serde_json::to_value(view).unwrap()
}

fn limit(code: ReasonCode) -> DecisionReason {
    DecisionReason {
        limit: Some(MicroUsd::new(500_000_000).unwrap()),
        left: Some(MicroUsd::new(1).unwrap()),
        resets_at: Some(Timestamp::from_millis(DAY_MILLIS)),
        ..DecisionReason::plain(code, "The cap for the day is used up.".to_owned())
    }
}

/// What each kind of intent adds to the fields that all have, and the advice it gives.
#[test]
fn what_each_state_adds_and_advises() {
    type Change = fn(&mut Intent);
    let pending: Change = |i| i.approval = Some(approval(ApprovalState::Pending));
    let approved: Change = |i| i.approval = Some(approval(ApprovalState::Approved));
    let executes: Change = |i| {
        let mut executes = approval(ApprovalState::Approved);
        executes.on_approval = OnApproval::Execute;
        i.approval = Some(executes);
    };
    let held: Change = |i| {
        let mut held = approval(ApprovalState::Pending);
        held.approver = Approver::Stripe;
        i.approval = Some(held);
    };
    let linked: Change = |i| {
        let mut held = approval(ApprovalState::Pending);
        held.approver = Approver::Stripe;
        held.hold_url = HoldUrl::parse("https://dashboard.stripe.com/x").ok();
        i.approval = Some(held);
    };
    let rejected: Change = |i| {
        let code = Some(FailureCode::ApprovalRejected);
        i.failure = Some(Failure { code, message: "A person said no.".to_owned() });
    };
    let unmade: Change = |i| {
        let code = Some(FailureCode::ApprovalFailed);
        i.failure = Some(Failure { code, message: "Too late.".to_owned() });
    };
    let by_person: Change = |i| {
        i.denied_by = Some(Denier::Person);
        i.approval = Some(approval(ApprovalState::Denied));
    };
    let by_cap: Change = |i| {
        i.denied_by = Some(Denier::Policy);
        i.reasons = vec![limit(ReasonCode::DailyCap)];
    };
    let by_rule: Change = |i| {
        i.denied_by = Some(Denier::Policy);
        let message = "Not turned on.".to_owned();
        i.reasons = vec![DecisionReason::plain(ReasonCode::MethodNotAllowed, message)];
    };
    let refused: Change = |i| {
        i.failure = Some(Failure {
            code: Some(FailureCode::ChargeDisputed),
            message: "The charge is disputed.".to_owned(),
        });
    };
    let lost: Change = |i| {
        i.failure = Some(Failure {
            code: Some(FailureCode::NotFoundAtStripe),
            message: "Not found in 15 days.".to_owned(),
        });
    };
    let limited: Change = |i| {
        i.failure = Some(Failure { code: None, message: "Stripe asks for patience".to_owned() });
    };
    let none = json!({});
    let approval_id = json!({"approvalId": "apr_1"});
    let until = "1970-01-02T00:00:00.000Z";
    #[rustfmt::skip]
    let table: [(&str, State, Change, Value, &str); 25] = [
        ("settled",      State::Settled,         |i| i.refund = Some(refund("succeeded")), none.clone(), "Do not ask again."),
        ("open",         State::Settled,         |i| i.refund = Some(refund("pending")),   none.clone(), "has not finished it"),
        ("pending",      State::PendingApproval, pending,   json!({"approvalId": "apr_1", "approver": "authority", "expiresAt": until}), "a person decides"),
        ("pending, executes", State::PendingApproval, executes, json!({"approvalId": "apr_1", "approver": "authority", "expiresAt": until}), "the gateway makes the refund once"),
        ("at Stripe",    State::AwaitingStripe,  held,      json!({"approvalId": "apr_1", "approver": "stripe", "expiresAt": until}), "Stripe holds the refund"),
        ("at Stripe, with a link", State::AwaitingStripe, linked, json!({"approvalId": "apr_1", "approver": "stripe", "expiresAt": until, "dashboardUrl": "https://dashboard.stripe.com/x"}), "makes it itself"),
        ("at Stripe, ours used", State::AwaitingStripe, approved, json!({"approver": "stripe"}), "Stripe holds the refund"),
        ("at Stripe, no more known", State::AwaitingStripe, |_| {}, json!({"approver": "stripe"}), "do not refund in another way"),
        ("approved",     State::Approved,        approved,  json!({"approvalId": "apr_1", "expiresAt": until}), "Ask again with the same key and the same arguments"),
        ("executing",    State::Approved,        executes,  json!({"approvalId": "apr_1", "expiresAt": until}), "the gateway is about to make it"),
        ("by a person",  State::Denied,          by_person, approval_id.clone(), "Do not ask again, with this key or another."),
        ("reopened",     State::Denied,          |i| { i.denied_by = Some(Denier::Reopened); i.approval = Some(approval(ApprovalState::Denied)); }, approval_id.clone(), "Ask with the same key and the same arguments"),
        ("by a cap",     State::Denied,          by_cap,    none.clone(), "Do not ask again before 1970-01-02T00:00:00.000Z;"),
        ("by a rule",    State::Denied,          by_rule,   none.clone(), "Do not ask again unchanged"),
        ("expired",      State::Expired,         pending,   approval_id.clone(), "in time"),
        ("canceled",     State::Canceled,        |_| {},    none.clone(), "withdrawn"),
        ("submitted",    State::Submitted,       approved,  none.clone(), "The refund may exist. Ask again with the same key; do not use another key."),
        ("nobody knows", State::Submitted,       |i| i.needs_person = true, json!({"needsPerson": true}), "a person has to find out"),
        ("refused",      State::Failed,          refused,   json!({"code": "charge_disputed", "message": "The charge is disputed."}), "Stripe did not give the money back"),
        ("rejected there", State::Failed,        rejected,  json!({"code": "approval_rejected", "message": "A person said no."}), "Do not ask again with this key or another"),
        ("approved, and failed", State::Failed,  unmade,    json!({"code": "approval_failed", "message": "Too late."}), "Stripe could not make it"),
        ("lost",         State::Failed,          lost,      json!({"code": "not_found_at_stripe", "message": "Not found in 15 days."}), "No refund was ever found at Stripe."),
        ("limited",      State::NotExecuted,     limited,   json!({"message": "Stripe asks for patience"}), "nothing was refunded; the message says why. Ask again with the same key"),
        ("settled after a failure", State::Settled, refused, none.clone(), "on its way"),
        ("reversed",     State::Reversed,        |_| {},    none.clone(), "the customer does not have the money"),
    ];
    let plain = value(&IntentView::new(&intent(State::Settled), false, true));
    for (name, state, change, added, advice) in table {
        let mut intent = intent(state);
        change(&mut intent);
        let found = value(&IntentView::new(&intent, false, true));
        let mut rest = found.as_object().unwrap().clone();
        rest.retain(|key, _| plain.get(key).is_none());
        assert_eq!(Value::Object(rest), added, "{name}");
        let next = found["next"].as_str().unwrap();
        assert!(next.to_lowercase().contains(&advice.to_lowercase()), "{name}: {next}");
    }
}

#[test]
fn reasons_say_what_is_left_and_when_it_resets() {
    let mut denied = intent(State::Denied);
    denied.reasons = vec![
        DecisionReason::plain(ReasonCode::AgentStopped, "Stopped.".to_owned()),
        limit(ReasonCode::DailyCap),
    ];
    let view = value(&IntentView::new(&denied, false, true));
    assert_eq!(
        view["reasons"].to_string(),
        concat!(
            r#"[{"code":"agent_stopped","message":"Stopped."},"#,
            r#"{"code":"daily_cap","message":"The cap for the day is used up.","#,
            r#""limit":"500.00","left":"0.000001","resetsAt":"1970-01-02T00:00:00.000Z"}]"#
        )
    );
    assert_eq!(view["retry"], "later");
}

/// A replay without a key says how a second refund is asked for; nothing else does.
#[test]
fn replays_without_a_key() {
    #[rustfmt::skip]
    let table = [
        // state          keyless replayed advised
        (State::Settled,         true,  true,  true),
        (State::Submitted,       true,  true,  true),
        (State::PendingApproval, true,  true,  true),
        (State::Settled,         true,  false, false),
        (State::Settled,         false, true,  false),
        (State::Denied,          true,  true,  false),
        (State::Failed,          true,  true,  false),
    ];
    for (state, keyless, replayed, advised) in table {
        let mut intent = intent(state);
        intent.keyless = keyless;
        let next = IntentView::new(&intent, replayed, true).next;
        let found = next.contains("needs an explicit idempotencyKey");
        assert_eq!(found, advised, "{state:?} {keyless} {replayed}");
    }
}

/// What agents write never reaches the advice, nor any other field of the answer.
#[test]
fn words_of_agents_stay_with_the_reviewers() {
    for state in State::STORED {
        let mut intent = intent(state);
        intent.approval = Some(approval(ApprovalState::Pending));
        let text = serde_json::to_string(&IntentView::new(&intent, true, true)).unwrap();
        assert!(!text.contains("SYSTEM"), "{text}");
    }
}

/// Every advice is whole sentences, and none of them asks again where the answer stands.
#[test]
fn advice_fits_the_retry() {
    for state in State::STORED {
        let view = IntentView::new(&intent(state), false, true);
        assert!(view.next.ends_with('.') && !view.next.contains(".."), "{}", view.next);
        assert!(!view.next.contains("  "), "{}", view.next);
        match view.retry {
            "never" => assert!(!view.next.contains("Ask again with the same key"), "{}", view.next),
            _ => assert!(view.next.to_lowercase().contains("same key"), "{}", view.next),
        }
    }
}

#[test]
fn dry_runs() {
    let amount = Amount::new(1250, Currency::EUR).unwrap();
    let channel = Channel {
        account: None,
        livemode: true,
        version: String::new(),
        key: None,
        agent_tagged: false,
    };
    let charge = Charge::paid(ChargeId::parse("ch_1").unwrap(), amount, channel).unwrap();
    for (decision, name) in [
        (Decision::Allow, "allow"),
        (Decision::RequireApproval, "pending_approval"),
        (Decision::Deny, "denied"),
    ] {
        let answer = AnswerView::new(&Answer::DryRun(Box::new(Preview {
            decision,
            reasons: Vec::new(),
            charge: charge.clone(),
            amount,
            worth: None,
            policy_version: 7,
        })));
        assert_eq!(answer.http_status(), 200);
        let text = serde_json::to_string(&answer).unwrap();
        let head = format!(
            concat!(
                r#"{{"status":"dry_run","decision":"{}","livemode":true,"charge":"ch_1","#,
                r#""paymentIntent":null,"amount":{{"minor":1250,"currency":"eur","decimals":2,"#,
                r#""text":"12.50 EUR"}},"reasons":[],"policyVersion":7,"next":"Nothing was refunded"#
            ),
            name
        );
        assert!(text.starts_with(&head), "{text}");
    }
}

#[test]
fn answers_carry_their_status() {
    let answer = Answer::Intent {
        intent: Box::new(intent(State::Submitted)),
        replayed: true,
        reported: false,
    };
    let view = AnswerView::new(&answer);
    assert_eq!(view.http_status(), 202);
    let value = serde_json::to_value(&view).unwrap();
    assert_eq!(value["status"], "in_progress");
    assert_eq!(value.get("httpStatus"), None, "not on the wire");
}
