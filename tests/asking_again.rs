//! Asking again with the same key: the manual's table, row by row, and with other arguments in
//! each state.

use std::time::Duration;

use gate_core::{Approval, State};
use serde_json::{Value, json};

use crate::client::{Answer, Call};
use crate::world::{HOUR, REFUND, STRIPE_KEY, Setup, World, outside, policy};

/// How an intent under the key `k` comes to be where it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Way {
    /// A person said yes, and the refund is for the agent to have made.
    Approved,
    /// Stripe holds it for an approval of its own.
    AwaitingStripe,
    Canceled,
    /// Nobody decided in time.
    Expired,
    /// The charge was refunded by somebody else between its reading and the attempt.
    Failed,
    /// Stripe's key may not make refunds, until the operator lets it.
    Forbidden,
    /// The cap is too small, and stays so.
    OverCap,
    /// The cap was too small, and is not any more.
    OverCapOnce,
    Pending,
    /// A person said no.
    Refused,
    Settled,
    /// It was made, and then Stripe went away.
    SettledAndDown,
    /// Stripe asked for patience five times.
    TooMany,
    /// Stripe has an answer on its books that tells nothing.
    Unclear,
}

/// A refund of the whole charge, 10.00 USD.
fn body() -> Value {
    json!({ "target": "ch_1", "idempotencyKey": "k" })
}

/// Goes that way; answers the world, and what the first request was told.
async fn go(way: Way) -> (World, Answer) {
    let lines = match way {
        Way::OverCap | Way::OverCapOnce => "daily_cap = \"9.99\"",
        Way::Approved | Way::Canceled | Way::Expired | Way::Pending | Way::Refused => {
            "daily_cap = \"100.00\"\napproval_threshold = \"5.00\"\non_approval = \"agent\""
        }
        _ => "daily_cap = \"100.00\"",
    };
    let twin_wait = Some(Duration::from_millis(20));
    let world = Setup { policy: policy(lines), twin_wait, ..Setup::default() }.start().await;
    world.charge(&json!({ "id": "ch_1", "payment_intent": "pi_1" }));
    world.charge(&json!({ "id": "ch_2" }));
    match way {
        Way::AwaitingStripe => {
            world.control("/_sandbox/keys", &json!({ "key": STRIPE_KEY, "agentTagged": true }));
        }
        Way::Failed => {
            let sandbox = world.sandbox.clone();
            world.wire.before_refund(move || outside(&sandbox, "/v1/refunds", "charge=ch_1"));
        }
        Way::Forbidden => {
            let may = json!({ "charges": "read", "customers": "read", "refunds": "read" });
            world.control("/_sandbox/keys", &json!({ "key": STRIPE_KEY, "permissions": may }));
        }
        Way::TooMany => world.fault("status_429", 5),
        Way::Unclear => world.fault("status_500_stored", 1),
        _ => {}
    }
    let first = world.ask(&body()).await;
    match way {
        Way::Approved => world.approve(&first).await,
        Way::Canceled => {
            let path = format!("/v1/intents/{}/cancel", first.text("/intentId"));
            let canceled = Call::post(&path, "").key(&world.key).send(world.at).await;
            assert_eq!(canceled.line(), "200 denied");
        }
        Way::Expired => {
            world.clock.advance(25 * HOUR);
            world.run_by_itself();
            world.until(&first, |intent| intent.state == State::Expired).await;
        }
        Way::Forbidden => {
            world.control("/_sandbox/keys", &json!({ "key": STRIPE_KEY }));
        }
        Way::OverCapOnce => world.apply(&policy("daily_cap = \"10.00\"")).await,
        Way::Refused => world.deny(&first).await,
        Way::SettledAndDown => {
            world.control("/_sandbox/faults", &json!({ "kind": "drop_before", "times": 100 }));
        }
        _ => {}
    }
    (world, first)
}

#[tokio::test]
async fn the_same_again() {
    use Way as W;
    #[rustfmt::skip]
    let table = [
        // the intent is       told at first           asked again             replayed  intent   attempts  refunds
        (W::Settled,           "200 refunded",         "200 refunded",         true,     "same",  1,        1),
        (W::SettledAndDown,    "200 refunded",         "200 refunded",         true,     "same",  1,        1),
        (W::Unclear,           "202 in_progress",      "202 in_progress",      true,     "same",  2,        0),
        (W::Pending,           "202 pending_approval", "202 pending_approval", true,     "same",  0,        0),
        (W::AwaitingStripe,    "202 pending_approval", "202 pending_approval", true,     "same",  1,        0),
        (W::Approved,          "202 pending_approval", "200 refunded",         true,     "same",  1,        1),
        (W::OverCap,           "200 denied",           "200 denied",           false,    "other", 0,        0),
        (W::OverCapOnce,       "200 denied",           "200 refunded",         false,    "other", 1,        1),
        (W::Refused,           "202 pending_approval", "200 denied",           true,     "same",  0,        0),
        (W::Expired,           "202 pending_approval", "200 denied",           true,     "same",  0,        0),
        (W::Canceled,          "202 pending_approval", "200 denied",           true,     "same",  0,        0),
        (W::Failed,            "200 failed",           "200 failed",           true,     "same",  1,        0),
        (W::TooMany,           "200 not_executed",     "200 refunded",         false,    "same",  6,        1),
        (W::Forbidden,         "200 not_executed",     "200 refunded",         false,    "same",  2,        1),
    ];
    for (way, at_first, again, replayed, intent, attempts, refunds) in table {
        let (world, first) = go(way).await;
        assert_eq!(first.line(), at_first, "{way:?}: at first");
        assert!(!first.replayed(), "{way:?}: at first");
        let second = world.ask(&body()).await;
        assert_eq!(second.line(), again, "{way:?}: again");
        assert_eq!(second.replayed(), replayed, "{way:?}: replayed");
        let same = first.text("/intentId") == second.text("/intentId");
        assert_eq!(same, intent == "same", "{way:?}: intent");
        assert_eq!(second.text("/idempotencyKey"), "k", "{way:?}");
        world.check(&format!("{way:?}"), attempts, refunds);
        // Once more: by now every row answers what it answered last, but for what is decided anew.
        let third = world.ask(&body()).await;
        assert_eq!(third.line(), again, "{way:?}: a third time");
        world.check(&format!("{way:?}, a third time"), attempts, refunds);
    }
}

#[tokio::test]
async fn other_arguments_are_another_request() {
    use Way as W;
    #[rustfmt::skip]
    let others = [
        // what differs                                                                   named
        (json!({ "target": "ch_2", "idempotencyKey": "k" }),                              "target"),
        (json!({ "target": "ch_1", "idempotencyKey": "k", "amountMinor": 1000 }),         "amountMinor"),
        (json!({ "target": "ch_1", "idempotencyKey": "k", "reason": "duplicate" }),       "reason"),
    ];
    for way in [
        W::Settled,
        W::SettledAndDown,
        W::Unclear,
        W::Pending,
        W::AwaitingStripe,
        W::Approved,
        W::OverCap,
        W::OverCapOnce,
        W::Refused,
        W::Expired,
        W::Canceled,
        W::Failed,
        W::TooMany,
        W::Forbidden,
    ] {
        let (world, first) = go(way).await;
        let (commits, attempts) = (world.store.commits(), world.attempts().len());
        for (body, field) in &others {
            let refused = world.ask(body).await;
            assert_eq!(refused.line(), "409 idempotency_key_reused", "{way:?}: {field}");
            assert_eq!(refused.text("/field"), *field, "{way:?}");
            assert_eq!(refused.text("/intentId"), first.text("/intentId"), "{way:?}: {field}");
            assert!(refused.text("/detail").contains("Nothing was refunded."), "{way:?}");
        }
        assert_eq!(world.store.commits(), commits, "{way:?}: something was recorded");
        assert_eq!(world.attempts().len(), attempts, "{way:?}: something was sent");
    }
}

#[tokio::test]
async fn what_does_not_differ_is_the_same_request() {
    #[rustfmt::skip]
    let table = [
        // asked first                         asked again
        (json!({ "target": "ch_1" }),          json!({ "target": "pi_1" })),
        (json!({ "target": "pi_1" }),          json!({ "target": "ch_1" })),
        (json!({ "target": "ch_1" }),          json!({ "target": "ch_1", "justification": "other words" })),
        (json!({ "target": "ch_1" }),          json!({ "target": "ch_1", "currency": "usd" })),
        (json!({ "target": "ch_1", "amountMinor": 400 }), json!({ "target": "pi_1", "amountMinor": 400 })),
    ];
    for (mut first, mut again) in table {
        let world = World::new().await;
        world.charge(&json!({ "id": "ch_1", "payment_intent": "pi_1" }));
        for body in [&mut first, &mut again] {
            body["idempotencyKey"] = json!("k");
        }
        let (first, second) = (world.ask(&first).await, world.ask(&again).await);
        assert_eq!((first.line(), second.line()), ("200 refunded".into(), "200 refunded".into()));
        assert!(second.replayed(), "{again}");
        assert_eq!(first.text("/refund/id"), second.text("/refund/id"), "{again}");
        world.check(&again.to_string(), 1, 1);
    }
}

/// While Stripe's call is under way a second request waits for it a little, and gets its outcome;
/// when that takes longer, it is told that it is under way.
#[tokio::test]
async fn a_call_under_way_is_waited_for() {
    #[rustfmt::skip]
    let table = [
        // waits at most                    the second one is told
        (Duration::from_secs(5),            "200 refunded"),
        (Duration::from_millis(20),         "202 in_progress"),
    ];
    for (twin_wait, told) in table {
        let setup = Setup { twin_wait: Some(twin_wait), ..Setup::default() };
        let world = setup.start().await;
        world.charge(&json!({ "id": "ch_1" }));
        world.delay(300);
        let body = body();
        let second = async {
            world.attempted(1).await;
            world.ask(&body).await
        };
        let (first, second) = tokio::join!(world.ask(&body), second);
        assert_eq!(first.line(), "200 refunded");
        assert_eq!((second.line(), second.replayed()), (told.to_owned(), true));
        world.check(told, 1, 1);
    }
}

/// A copy that was looked up before the first was recorded, and read its charge after the first was
/// made, is that first one all the same, although nothing is left to refund.
#[tokio::test]
async fn a_copy_that_comes_in_between_is_the_same_request() {
    for body in [
        json!({ "target": "ch_1", "idempotencyKey": "k" }),
        json!({ "target": "ch_1", "idempotencyKey": "k", "amountMinor": 600 }),
        json!({ "target": "ch_1" }),
        json!({ "target": "ch_1", "amountMinor": 600 }),
    ] {
        let world = World::new().await;
        world.charge(&json!({ "id": "ch_1" }));
        let first = Call::post(REFUND, &body).key(&world.key);
        let at = world.at;
        world.wire.before_read(async move {
            assert_eq!(first.send(at).await.line(), "200 refunded");
        });
        let copy = world.ask(&body).await;
        assert_eq!(copy.line(), "200 refunded", "{body}: {}", copy.json);
        assert!(copy.replayed(), "{body}");
        world.check(&body.to_string(), 1, 1);
    }
}

#[tokio::test]
async fn more_words_are_kept_for_the_reviewers_and_decide_nothing() {
    let world = World::with_policy("daily_cap = \"100.00\"\napproval_threshold = \"5.00\"").await;
    world.charge(&json!({ "id": "ch_1" }));
    let ask = async |words: &str| {
        let mut body = body();
        body["justification"] = json!(words);
        world.ask(&body).await
    };
    let first = ask("words 1").await;
    #[rustfmt::skip]
    let table = [
        // words      kept afterwards  commits
        ("words 1",   1,               0),
        ("words 2",   2,               1),
        ("words 3",   3,               1),
        ("words 4",   4,               1),
        ("words 5",   5,               1),
        ("words 6",   5,               0),
        ("words 7",   5,               0),
    ];
    for (words, kept, commits) in table {
        let before = world.store.commits();
        let again = ask(words).await;
        assert_eq!(again.line(), "202 pending_approval", "{words}");
        assert_eq!(again.text("/approvalId"), first.text("/approvalId"), "{words}");
        let approval = world.intent(&again).await.approval.unwrap();
        assert_eq!(approval.justifications.len(), kept, "{words}");
        assert_eq!(world.store.commits() - before, commits, "{words}");
    }
    assert_eq!(Approval::JUSTIFICATIONS_MAX, 5);
    world.check("words", 0, 0);
}

#[tokio::test]
async fn an_approval_is_used_once_however_many_ask() {
    let (world, first) = go_with_patience("on_approval = \"agent\"").await;
    world.approve(&first).await;
    let answers = world.ask_together(&vec![body(); 20]).await;
    for answer in &answers {
        assert_eq!(answer.line(), "200 refunded");
        assert_eq!(answer.text("/refund/id"), answers[0].text("/refund/id"));
    }
    world.check("together", 1, 1);
    assert_eq!(world.ask(&body()).await.line(), "200 refunded");
    world.check("and later", 1, 1);
}

/// With `on_approval = "execute"` nobody has to ask again.
#[tokio::test]
async fn an_approval_is_executed_by_the_gateway() {
    let (world, first) = go_with_patience("on_approval = \"execute\"").await;
    world.run_by_itself();
    world.approve(&first).await;
    world.until(&first, |intent| intent.state == State::Settled).await;
    let again = world.ask(&body()).await;
    assert_eq!((again.line(), again.replayed()), ("200 refunded".to_owned(), true));
    world.check("executed", 1, 1);
}

/// An approval is used up by a refund, not by an attempt that Stripe stopped.
#[tokio::test]
async fn an_approval_outlives_an_attempt_that_was_not_executed() {
    let (world, first) = go_with_patience("on_approval = \"agent\"").await;
    world.approve(&first).await;
    world.fault("status_429", 5);
    assert_eq!(world.ask(&body()).await.line(), "200 not_executed");
    assert_eq!(world.spent().await, "0.00");
    let again = world.ask(&body()).await;
    assert_eq!(again.line(), "200 refunded");
    assert_eq!(again.text("/intentId"), first.text("/intentId"));
    world.check("after the 429s", 6, 1);
}

/// A stop holds what was approved; it does not end it.
#[tokio::test]
async fn a_stop_holds_an_approval() {
    let (world, first) = go_with_patience("on_approval = \"agent\"").await;
    world.approve(&first).await;
    world.stop_everybody().await;
    let held = world.ask(&body()).await;
    assert_eq!((held.line(), held.text("/state")), ("200 approved".to_owned(), "approved"));
    world.check("stopped", 0, 0);
    world.resume_everybody().await;
    // Past the lease of the request that was held.
    world.clock.advance(Duration::from_secs(60));
    assert_eq!(world.ask(&body()).await.line(), "200 refunded");
    world.check("resumed", 1, 1);
}

async fn go_with_patience(on_approval: &str) -> (World, Answer) {
    let lines = format!("daily_cap = \"100.00\"\napproval_threshold = \"5.00\"\n{on_approval}");
    let world = World::with_policy(&lines).await;
    world.charge(&json!({ "id": "ch_1" }));
    let first = world.ask(&body()).await;
    assert_eq!(first.line(), "202 pending_approval");
    (world, first)
}
