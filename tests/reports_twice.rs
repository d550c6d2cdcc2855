//! Public reports of refunds made twice, or made and lost: whatever Stripe's answers, one intent
//! is one refund under one key.

use std::time::Duration;

use gate_core::State;
use serde_json::{Value, json};

use crate::world::{HOUR, Setup, World, outside, policy};

fn body() -> Value {
    json!({ "target": "ch_1", "idempotencyKey": "k" })
}

/// Each request waits for hardly anything, so that no row takes long.
async fn world(stripe_timeout: Duration) -> World {
    let twin_wait = Some(Duration::from_millis(20));
    let world = Setup { stripe_timeout, twin_wait, ..Setup::default() }.start().await;
    world.charge(&json!({ "id": "ch_1" }));
    world
}

#[tokio::test]
async fn whatever_becomes_of_an_answer() {
    #[rustfmt::skip]
    let table = [
        // Stripe's answer                     fault                times told               attempts refunds
        ("lost after it was made",             "drop_after",        1,    "200 refunded",    1,       1),
        ("lost before it was looked at",       "drop_before",       1,    "200 refunded",    2,       1),
        ("reset",                              "reset",             1,    "200 refunded",    2,       1),
        ("cut off in the middle",              "malformed",         1,    "200 refunded",    1,       1),
        ("another request is in progress",     "status_409",        1,    "200 refunded",    2,       1),
        ("patience",                           "status_429",        1,    "200 refunded",    2,       1),
        ("a 500 after it was made",            "status_500_done",   1,    "200 refunded",    1,       1),
        ("a 500 that is kept",                 "status_500_stored", 1,    "202 in_progress", 2,       0),
        ("lost before, again and again",       "drop_before",       5,    "202 in_progress", 5,       0),
    ];
    for (name, fault, times, told, attempts, refunds) in table {
        let world = world(Duration::from_secs(5)).await;
        world.fault(fault, times);
        let first = world.ask(&body()).await;
        assert_eq!(first.line(), told, "{name}");
        world.check(name, attempts, refunds);
        let again = world.ask(&body()).await;
        assert_eq!((again.line(), again.replayed()), (told.to_owned(), true), "{name}");
        assert_eq!(again.json["refund"], first.json["refund"], "{name}");
        world.check(name, attempts, refunds);
    }
}

/// An answer that comes too late, or too slowly: the refund is found, and not made again.
#[tokio::test]
async fn whatever_takes_too_long() {
    for kind in ["delay", "slow_body"] {
        let world = world(Duration::from_secs(1)).await;
        world.control(
            "/_sandbox/faults",
            &json!({ "method": "POST", "path": "/v1/refunds", "kind": kind, "delayMs": 3000 }),
        );
        assert_eq!(world.ask(&body()).await.line(), "200 refunded", "{kind}");
        world.check(kind, 1, 1);
    }
}

/// What was never made is sent again by whoever takes it over, the same bytes under the same key.
#[tokio::test]
async fn what_was_not_made_is_sent_again() {
    let world = world(Duration::from_secs(5)).await;
    world.fault("drop_before", 5);
    let first = world.ask(&body()).await;
    assert_eq!(first.line(), "202 in_progress");
    assert_eq!(world.spent().await, "10.00", "what may have left counts");
    // Past the lease of whoever tried.
    world.clock.advance(Duration::from_secs(60));
    world.run_by_itself();
    world.until(&first, |intent| intent.state == State::Settled).await;
    assert_eq!(world.ask(&body()).await.line(), "200 refunded");
    world.check("taken over", 6, 1);
}

/// Under a stop it is looked for, and not sent again before the stop is lifted.
#[tokio::test]
async fn nothing_is_sent_again_under_a_stop() {
    let world = world(Duration::from_secs(5)).await;
    world.fault("drop_before", 5);
    let first = world.ask(&body()).await;
    world.stop_everybody().await;
    world.run_by_itself();
    // Taken up, and taken up again: by then the first time is over.
    for _ in 0..2 {
        let fence = world.intent(&first).await.fence;
        world.clock.advance(Duration::from_secs(60));
        world.until(&first, |intent| intent.fence > fence).await;
    }
    let looked = world.received().iter().filter(|seen| seen.method == "GET").count();
    assert!(looked > 6, "it was not looked for");
    world.check("stopped", 5, 0);
    world.resume_everybody().await;
    world.clock.advance(Duration::from_secs(60));
    world.until(&first, |intent| intent.state == State::Settled).await;
    world.check("resumed", 6, 1);
}

/// Stripe forgets keys after 24 hours: from 23 on nothing is sent again, only looked for.
#[tokio::test]
async fn after_a_day_nothing_is_sent_again() {
    let world = world(Duration::from_secs(5)).await;
    world.fault("drop_before", 5);
    let first = world.ask(&body()).await;
    assert_eq!(first.line(), "202 in_progress");
    world.clock.advance(25 * HOUR);
    world.run_by_itself();
    world.until(&first, |intent| intent.needs_person).await;
    let calls = world.received();
    let last = calls.last().unwrap();
    assert_eq!((last.method.as_str(), last.path.as_str()), ("GET", "/v1/refunds"), "looked for");
    let again = world.ask(&body()).await;
    assert_eq!(again.line(), "202 in_progress");
    assert_eq!(again.json["needsPerson"], true);
    assert!(again.text("/next").contains("a person has to find out"), "{}", again.text("/next"));
    world.check("a day later", 5, 0);
}

/// It was made, and could not be seen for a day: then it is found by its metadata.
#[tokio::test]
async fn after_a_day_it_is_found() {
    let world = world(Duration::from_secs(5)).await;
    world.fault("drop_after", 1);
    world.control(
        "/_sandbox/faults",
        &json!({ "method": "GET", "path": "/v1/refunds", "kind": "drop_before", "times": 900 }),
    );
    let first = world.ask(&body()).await;
    assert_eq!(first.line(), "202 in_progress");
    world.clock.advance(25 * HOUR);
    world.clear_faults();
    world.run_by_itself();
    let found = world.until(&first, |intent| intent.state == State::Settled).await;
    assert_eq!(found.refund.unwrap().id.as_str(), world.refunds()[0]["id"]);
    world.check("found", 1, 1);
}

/// Days between a request and its approval do not matter: nothing was sent before.
#[tokio::test]
async fn approved_days_later() {
    let text =
        policy("daily_cap = \"100.00\"\napproval_threshold = \"5.00\"\non_approval = \"agent\"")
            .replace("\"UTC\"", "\"UTC\"\napproval_timeout = \"14d\"");
    let world = Setup { policy: text, ..Setup::default() }.start().await;
    world.charge(&json!({ "id": "ch_1" }));
    let pending = world.ask(&body()).await;
    world.clock.advance(3 * 24 * HOUR);
    world.approve(&pending).await;
    assert_eq!(world.ask(&body()).await.line(), "200 refunded");
    world.check("days later", 1, 1);
}

/// Two keys are two refunds; one key is one, however often and at once it comes.
#[tokio::test]
async fn keys_tell_refunds_apart() {
    let part = |key: &str| json!({ "target": "ch_1", "amountMinor": 300, "idempotencyKey": key });
    #[rustfmt::skip]
    let table: [(&str, &[&str], usize); 4] = [
        // name                      keys at once                      refunds
        ("two parts",                &["a", "b"],                      2),
        ("one part twice",           &["a", "a"],                      1),
        ("as many as there is for",  &["a", "b", "c"],                 3),
        ("each twice",               &["a", "b", "a", "b"],            2),
    ];
    for (name, keys, refunds) in table {
        let world = World::new().await;
        world.charge(&json!({ "id": "ch_1" }));
        let bodies: Vec<Value> = keys.iter().map(|key| part(key)).collect();
        for answer in world.ask_together(&bodies).await {
            assert_eq!(answer.line(), "200 refunded", "{name}: {}", answer.json);
        }
        world.check(name, refunds, refunds);
        assert_eq!(world.spent().await, format!("{}.00", refunds * 3), "{name}");
    }
}

/// Somebody else refunds between our reading and our attempt: refused by Stripe, in either of the
/// shapes that Stripe is known to answer in, and nothing stays reserved.
#[tokio::test]
async fn refunded_outside_in_between() {
    #[rustfmt::skip]
    let table = [
        // what was refunded outside     with a code  ours fails with
        ("charge=ch_1",                  true,        "charge_already_refunded"),
        ("charge=ch_1&amount=500",       true,        "amount_over_refundable"),
        ("charge=ch_1&amount=500",       false,       "amount_over_refundable"),
    ];
    for (form, over_refund_code, code) in table {
        let world = World::new().await;
        world.charge(&json!({ "id": "ch_1" }));
        world.control("/_sandbox/settings", &json!({ "overRefundCode": over_refund_code }));
        let sandbox = world.sandbox.clone();
        world.wire.before_refund(move || outside(&sandbox, "/v1/refunds", form));
        let ask = json!({ "target": "ch_1", "amountMinor": 600, "idempotencyKey": "k" });
        let answer = world.ask(&ask).await;
        assert_eq!(answer.line(), "200 failed", "{form}");
        assert_eq!(answer.text("/code"), code, "{form}, {over_refund_code}");
        assert_eq!(world.spent().await, "0.00", "{form}");
        world.check(form, 1, 0);
    }
}

/// A charge that is refunded in full names the intent that did it, under whatever key it is asked.
#[tokio::test]
async fn asked_again_under_a_new_key() {
    let world = World::new().await;
    world.charge(&json!({ "id": "ch_1" }));
    let first = world.ask(&body()).await;
    let again = world.ask(&json!({ "target": "ch_1", "idempotencyKey": "k2" })).await;
    assert_eq!(again.line(), "422 charge_already_refunded");
    assert_eq!(again.text("/intentId"), first.text("/intentId"));
    world.check("a new key", 1, 1);
}

/// The client hangs up while Stripe is at it: the refund is made all the same, once, and the same
/// request finds it.
#[tokio::test]
async fn a_client_that_hangs_up() {
    let world = World::new().await;
    world.charge(&json!({ "id": "ch_1" }));
    world.delay(1000);
    let call = crate::client::Call::post(crate::world::REFUND, body()).key(&world.key);
    call.hang_up(world.at, world.attempted(1)).await;
    let again = world.ask(&body()).await;
    assert_eq!((again.line(), again.replayed()), ("200 refunded".to_owned(), true));
    world.check("hung up", 1, 1);
}
