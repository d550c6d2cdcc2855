//! Asking again without a key, and asking again for what a person denied.

use std::time::Duration;

use gate_core::State;
use serde_json::{Value, json};

use crate::client::Answer;
use crate::world::{HOUR, Setup, World, outside, policy};

const SECOND: Duration = Duration::from_secs(1);

/// A refund of so much of the charge of 10.00 USD.
fn part(minor: i64) -> Value {
    json!({ "target": "ch_1", "amountMinor": minor })
}

fn keyed(mut body: Value, key: &str) -> Value {
    body["idempotencyKey"] = json!(key);
    body
}

async fn world(lines: &str) -> World {
    let text = policy(lines).replace("\"UTC\"", "\"UTC\"\napproval_timeout = \"14d\"");
    let world = Setup { policy: text, ..Setup::default() }.start().await;
    world.charge(&json!({ "id": "ch_1", "payment_intent": "pi_1" }));
    world
}

#[tokio::test]
async fn a_request_without_a_key_is_known_by_its_payment_and_amount() {
    let all = || json!({ "target": "ch_1" });
    let by_intent = || json!({ "target": "pi_1" });
    let mut reason = part(300);
    reason["reason"] = json!("duplicate");
    let (cap, person) =
        ("daily_cap = \"100.00\"", "daily_cap = \"100.00\"\napproval_threshold = \"0.01\"");
    let (day, soon) = (24 * HOUR, Duration::ZERO);
    #[rustfmt::skip]
    let table = [
        // name                         policy first                    later            again                   told                   intent   refunds
        ("in full",                     cap,   all(),                   soon,            all(),                  "200 refunded",         "same",  1),
        ("by its payment intent",       cap,   all(),                   soon,            by_intent(),            "200 refunded",         "same",  1),
        ("by its charge",               cap,   by_intent(),             soon,            all(),                  "200 refunded",         "same",  1),
        ("the same part",               cap,   part(300),               soon,            part(300),              "200 refunded",         "same",  1),
        ("for another reason",          cap,   part(300),               soon,            reason,                 "200 refunded",         "same",  1),
        ("another part",                cap,   part(300),               soon,            part(200),              "200 refunded",         "other", 2),
        ("a part, then the rest",       cap,   part(300),               soon,            all(),                  "200 refunded",         "other", 2),
        ("within 24 hours",             cap,   part(300),               day - 60 * SECOND, part(300),            "200 refunded",         "same",  1),
        ("after 24 hours",              cap,   part(300),               day + SECOND,    part(300),              "200 refunded",         "other", 2),
        ("first with a key",            cap,   keyed(part(300), "k"),   soon,            part(300),              "200 refunded",         "other", 2),
        ("then with a key",             cap,   part(300),               soon,            keyed(part(300), "k"),  "200 refunded",         "other", 2),
        ("denied by the policy",        "",    part(300),               soon,            part(300),              "200 denied",           "other", 0),
        ("pending",                     person, part(300),              soon,            part(300),              "202 pending_approval", "same",  0),
        ("pending for days",            person, part(300),              3 * day,         part(300),              "202 pending_approval", "same",  0),
    ];
    for (name, lines, first, later, again, told, intent, refunds) in table {
        let world = world(lines).await;
        let first = world.ask(&first).await;
        world.clock.advance(later);
        let second = world.ask(&again).await;
        assert_eq!(second.line(), told, "{name}");
        let same = first.text("/intentId") == second.text("/intentId");
        assert_eq!((same, second.replayed()), (intent == "same", intent == "same"), "{name}");
        world.check(name, refunds, refunds);
        // What was found without a key says how to have a second one.
        let advised = second.text("/next").contains("idempotencyKey");
        assert_eq!(advised, same, "{name}: {}", second.text("/next"));
    }
}

#[tokio::test]
async fn the_key_that_was_made_is_a_key() {
    let world = world("daily_cap = \"100.00\"").await;
    let first = world.ask(&part(300)).await;
    let made = first.text("/idempotencyKey");
    assert!(made.starts_with("auto_"), "{made}");
    world.clock.advance(48 * HOUR);
    let again = world.ask(&keyed(part(300), made)).await;
    assert_eq!((again.line(), again.replayed()), ("200 refunded".to_owned(), true));
    world.check("by the key that was made", 1, 1);
}

/// A failure is final: without a key, the request after it is a new one.
#[tokio::test]
async fn what_failed_is_not_found_without_a_key() {
    let world = world("daily_cap = \"100.00\"").await;
    let sandbox = world.sandbox.clone();
    world.wire.before_refund(move || outside(&sandbox, "/v1/refunds", "charge=ch_1&amount=500"));
    assert_eq!(world.ask(&part(600)).await.line(), "200 failed");
    assert_eq!(world.ask(&part(600)).await.line(), "422 amount_over_refundable");
    assert_eq!(world.ask(&part(500)).await.line(), "200 refunded");
    world.check("after a failure", 2, 1);
}

#[tokio::test]
async fn an_agent_finds_only_its_own() {
    let lines = "daily_cap = \"100.00\"\n\n[agents.other-bot]\nmethods = [\"stripe_refund\"]\n\
                 allowed_hosts = [\"stripe-refund.action\"]\ndaily_cap = \"100.00\"";
    let mut world = world(lines).await;
    let first = world.ask(&part(300)).await;
    world.key = world.agent("other-bot").await;
    let second = world.ask(&part(300)).await;
    assert_eq!((first.line(), second.line()), ("200 refunded".into(), "200 refunded".into()));
    assert_ne!(first.text("/intentId"), second.text("/intentId"));
    world.check("two agents", 2, 2);
}

/// After a person's denial the same payment and amount are not asked of a person again for 24
/// hours, whatever the key.
#[tokio::test]
async fn a_persons_denial_is_remembered_under_any_key() {
    let (day, soon) = (24 * HOUR, Duration::ZERO);
    let all = || json!({ "target": "ch_1" });
    let by_intent = json!({ "target": "pi_1", "amountMinor": 300 });
    #[rustfmt::skip]
    let table: [(&str, Value, Duration, Value, &str); 11] = [
        // name                 denied      later         asked                    told
        ("the same key",        part(300),  soon,         keyed(part(300), "k"),   "the denial"),
        ("another key",         part(300),  soon,         keyed(part(300), "k2"),  "the denial"),
        ("no key",              part(300),  soon,         part(300),               "the denial"),
        ("its payment intent",  part(300),  soon,         by_intent,               "the denial"),
        ("another amount",      part(300),  soon,         keyed(part(400), "k2"),  "a new approval"),
        ("in full",             part(300),  soon,         keyed(all(), "k2"),      "a new approval"),
        ("full, then as much",  all(),      soon,         keyed(part(1000), "k2"), "the denial"),
        ("as much, then full",  part(1000), soon,         keyed(all(), "k2"),      "the denial"),
        ("within 24 hours",     part(300),  day - 60 * SECOND, keyed(part(300), "k2"), "the denial"),
        ("after 24 hours",      part(300),  day + SECOND, keyed(part(300), "k2"),  "a new approval"),
        ("the key, much later", part(300),  9 * day,      keyed(part(300), "k"),   "the denial"),
    ];
    for (name, denied, later, asked, told) in table {
        let world = world("daily_cap = \"100.00\"\napproval_threshold = \"0.01\"").await;
        let first = world.ask(&keyed(denied, "k")).await;
        world.deny(&first).await;
        world.clock.advance(later);
        let again = world.ask(&asked).await;
        match told {
            "the denial" => {
                assert_eq!(again.line(), "200 denied", "{name}");
                assert_eq!(again.reasons(), "approval_denied,approval_threshold", "{name}");
                assert_eq!(again.text("/approvalId"), first.text("/approvalId"), "{name}");
                assert!(again.replayed(), "{name}");
                assert_eq!(again.text("/retry"), "never", "{name}");
            }
            _ => {
                assert_eq!(again.line(), "202 pending_approval", "{name}");
                assert_ne!(again.text("/approvalId"), first.text("/approvalId"), "{name}");
            }
        }
        world.check(name, 0, 0);
    }
}

/// Nobody's time-out, withdrawal or limit is taken for a person's denial.
#[tokio::test]
async fn nothing_else_is_remembered_like_a_denial() {
    for end in ["expired", "canceled"] {
        let world = world("daily_cap = \"100.00\"\napproval_threshold = \"0.01\"").await;
        let first = world.ask(&keyed(part(300), "k")).await;
        let ended: Answer = match end {
            "expired" => {
                world.clock.advance(15 * 24 * HOUR);
                world.run_by_itself();
                world.until(&first, |intent| intent.state == State::Expired).await;
                world.ask(&keyed(part(300), "k")).await
            }
            _ => {
                let path = format!("/v1/intents/{}/cancel", first.text("/intentId"));
                crate::client::Call::post(&path, "").key(&world.key).send(world.at).await
            }
        };
        assert_eq!(ended.line(), "200 denied", "{end}");
        assert_eq!(ended.reasons(), format!("approval_{end},approval_threshold"), "{end}");
        let anew = world.ask(&keyed(part(300), "k2")).await;
        assert_eq!(anew.line(), "202 pending_approval", "{end}");
        assert_ne!(anew.text("/approvalId"), first.text("/approvalId"), "{end}");
    }
}
