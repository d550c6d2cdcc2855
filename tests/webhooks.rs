//! Refunds that change after they were made: told by Stripe's webhooks, whatever becomes of those
//! on the way, and found by polling without them (reports E1, E2, E4, E5 and E8).

use std::time::Duration;

use gate_core::State;
use serde_json::{Value, json};

use crate::client::{Answer, Call};
use crate::process::{Home, POLICY, Server};
use crate::world::{AGENT, HOUR, Setup, World, outside};

const HOOK: &str = "/webhooks/stripe";
const SECRET: &str = "whsec_ofTheTests";
const DAY: Duration = Duration::from_secs(24 * 3600);
/// How long a condition is waited for that must come.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// A world that takes webhooks signed with one of the secrets.
async fn world(secrets: &'static str) -> World {
    Setup { webhook_secrets: Some(secrets), ..Setup::default() }.start().await
}

/// Has the sandbox send its webhooks to the gateway from now on.
fn connect(world: &World, secret: &str) {
    let url = format!("http://{}{HOOK}", world.at);
    world.control("/_sandbox/webhook", &json!({ "url": url, "secret": secret }));
}

fn disconnect(world: &World) {
    world.control("/_sandbox/webhook", &json!({ "url": null }));
}

/// Has what happens by such a call reach the gateway in this way.
fn on_the_way(world: &World, kind: &str, path: &str, delay_millis: u64) {
    let mut fault = json!({ "method": "POST", "path": path, "kind": kind });
    if delay_millis > 0 {
        fault["delayMs"] = json!(delay_millis);
    }
    world.control("/_sandbox/faults", &fault);
}

/// Moves the refund of an answer on.
fn move_on(world: &World, refunded: &Answer, status: &str) {
    let path = format!("/_sandbox/refunds/{}", refunded.text("/refund/id"));
    world.control(&path, &json!({ "status": status }));
}

/// Asks for 4.00 of a new charge of 10.00 USD.
async fn refunded(world: &World, charge: &str) -> Answer {
    world.charge(&json!({ "id": charge }));
    let answer = world.ask(&json!({ "target": charge, "amountMinor": 400 })).await;
    assert_eq!(answer.line(), "200 refunded");
    answer
}

/// Returns once the sandbox's count of what became of webhooks is as wanted.
async fn counted(world: &World, fits: impl Fn(&Value) -> bool) {
    let waiting = async {
        while !fits(&world.look("/_sandbox/webhook")) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(WAIT_MAX, waiting).await.expect("it never came to that");
}

/// Returns once nothing is to be delivered any more, and all that was has been worked on. The
/// gateway takes no further work after that.
async fn all_done(world: &World) {
    counted(world, |shown| shown["waiting"] == 0).await;
    world.gateway.finish_money_work().await;
}

/// Where an intent stands, as its agent reads it.
async fn told(world: &World, refunded: &Answer) -> String {
    world.get(&format!("/v1/intents/{}", refunded.text("/intentId"))).await.line()
}

/// How often the audit log says that something came to a state.
async fn times(world: &World, action: &str) -> usize {
    world.audit().await.iter().filter(|row| row.entry.action == action).count()
}

/// The deliveries that the gateway received so far, ready to be sent again.
fn received(world: &World) -> Vec<Call> {
    let shown = world.look("/_sandbox/deliveries");
    let of_ours = shown.as_array().unwrap().iter().filter(|sent| sent["state"] == "received");
    of_ours
        .map(|sent| {
            let signature = sent["headers"]["Stripe-Signature"].as_str().unwrap();
            Call::post(HOOK, sent["body"].as_str().unwrap()).with("stripe-signature", signature)
        })
        .collect()
}

#[tokio::test]
async fn a_refund_that_fails_later_is_reversed_once_however_it_is_told() {
    let moved = "/_sandbox/refunds/*";
    let table = [
        // what becomes of the events, milliseconds, the steps of the refund
        ("", 0, &["failed"][..]),
        ("", 0, &["canceled"]),
        ("webhook_twice", 0, &["failed"]),
        ("webhook_late", 300, &["failed"]),
        ("webhook_reorder", 0, &["pending", "failed"]),
        // The older news come last.
        ("webhook_late", 300, &["pending", "failed"]),
        ("", 0, &["requires_action", "pending", "succeeded", "failed"]),
    ];
    for (kind, millis, steps) in table {
        let name = format!("{kind} {steps:?}");
        let world = world(SECRET).await;
        connect(&world, SECRET);
        let refunded = refunded(&world, "ch_1").await;
        assert_eq!(world.spent().await, "4.00", "{name}");
        if !kind.is_empty() {
            on_the_way(&world, kind, moved, millis);
        }
        for step in steps {
            move_on(&world, &refunded, step);
        }
        world.until(&refunded, |intent| intent.state == State::Reversed).await;
        all_done(&world).await;
        assert_eq!(told(&world, &refunded).await, "200 reversed", "{name}");
        assert_eq!(world.spent().await, "0.00", "{name}");
        assert_eq!(times(&world, "intent.reversed").await, 1, "{name}");
        world.check(&name, 1, 1);
    }
}

#[tokio::test]
async fn a_webhook_before_the_answer_makes_one_record() {
    let world = world(SECRET).await;
    connect(&world, SECRET);
    on_the_way(&world, "webhook_before_answer", "/v1/refunds", 1000);
    refunded(&world, "ch_1").await;
    let before = world.look("/_sandbox/webhook");
    assert!(before["delivered"].as_u64() > Some(0), "{before}");
    all_done(&world).await;
    assert_eq!(times(&world, "intent.settled").await, 1);
    assert_eq!(world.spent().await, "4.00");
    world.check("before the answer", 1, 1);
}

#[tokio::test]
async fn what_is_not_believed_changes_nothing() {
    let world = world(SECRET).await;
    connect(&world, SECRET);
    let refunded = refunded(&world, "ch_1").await;
    counted(&world, |shown| shown["waiting"] == 0).await;
    let genuine = received(&world).first().unwrap().clone();
    // From here on Stripe knows better than the gateway, which must not look.
    disconnect(&world);
    move_on(&world, &refunded, "failed");
    let commits = world.store.commits();
    let altered = genuine.clone().body("{\"id\":\"evt_new\",\"object\":\"event\"}");
    let large = Call::post(HOOK, "x".repeat(256 * 1024 + 1)).with("stripe-signature", "t=1,v1=00");
    let table = [
        // call, moved clock, answer, a part of the detail
        (genuine.clone(), 0, "200 ", ""),
        (altered, 0, "400 invalid_request", "signature is wrong"),
        (genuine.clone().with("stripe-signature", "t=1,v1=00"), 0, "400 invalid_request", "wrong"),
        (genuine.clone().with("stripe-signature", "v1=00"), 0, "400 invalid_request", "t=…,v1=…"),
        (genuine.clone().with("stripe-signature", "t=1,v0=00"), 0, "400 invalid_request", "no v1"),
        (Call::post(HOOK, "{}"), 0, "400 invalid_request", "is missing"),
        (large, 0, "413 body_too_large", "262144"),
        (genuine.clone().with("host", "evil.example"), 0, "403 host_refused", "evil.example"),
        (genuine, 301, "400 invalid_request", "more than 300 seconds ago"),
    ];
    for (call, secs, expected, part) in table {
        world.clock.advance(Duration::from_secs(secs));
        let answer = call.send(world.at).await;
        assert_eq!(answer.line(), expected, "{part}");
        assert!(answer.text("/detail").contains(part), "{part}: {}", answer.json);
        assert!(!String::from_utf8_lossy(&answer.body).contains("whsec_"), "{part}");
    }
    assert_eq!(Call::get(HOOK).send(world.at).await.status, 405);
    world.gateway.finish_money_work().await;
    assert_eq!(told(&world, &refunded).await, "200 refunded");
    assert_eq!(world.store.commits(), commits);
}

#[tokio::test]
async fn an_event_is_taken_once() {
    let world = world(SECRET).await;
    connect(&world, SECRET);
    let refunded = refunded(&world, "ch_1").await;
    move_on(&world, &refunded, "failed");
    world.until(&refunded, |intent| intent.state == State::Reversed).await;
    counted(&world, |shown| shown["waiting"] == 0).await;
    let (commits, asked) = (world.store.commits(), world.received().len());
    for call in received(&world).into_iter().cycle().take(20) {
        let answer = call.send(world.at).await;
        assert_eq!((answer.status, &answer.json), (200, &json!({ "received": true })));
    }
    world.gateway.finish_money_work().await;
    assert_eq!(world.store.commits(), commits, "nothing was committed");
    assert_eq!(world.received().len(), asked, "Stripe was not asked");
}

#[tokio::test]
async fn without_a_secret_there_is_no_such_route() {
    let world = World::new().await;
    connect(&world, SECRET);
    refunded(&world, "ch_1").await;
    counted(&world, |shown| shown["failed"].as_u64() > Some(0)).await;
    let call = Call::post(HOOK, "{}").with("stripe-signature", "t=1,v1=00");
    assert_eq!(call.send(world.at).await.line(), "404 not_found");
}

#[tokio::test]
async fn old_and_new_secrets_are_taken_while_rotating() {
    let world = world("whsec_old,whsec_new").await;
    for (secret, charge, taken) in
        [("whsec_old", "ch_1", true), ("whsec_new", "ch_2", true), ("whsec_gone", "ch_3", false)]
    {
        let refunded = refunded(&world, charge).await;
        connect(&world, secret);
        move_on(&world, &refunded, "failed");
        if taken {
            world.until(&refunded, |intent| intent.state == State::Reversed).await;
        } else {
            counted(&world, |shown| shown["failed"].as_u64() > Some(0)).await;
            assert_eq!(told(&world, &refunded).await, "200 refunded", "{secret}");
        }
        disconnect(&world);
    }
}

#[tokio::test]
async fn a_refund_that_is_not_ours_is_never_adopted() {
    let world = world(SECRET).await;
    connect(&world, SECRET);
    world.charge(&json!({ "id": "ch_1" }));
    let ours = refunded(&world, "ch_2").await;
    for form in [
        "charge=ch_1&amount=300",
        "charge=ch_1&amount=200&metadata[burnbound_intent]=int_01K5ZZZZZZZZZZZZZZZZZZZZZZ",
        "charge=ch_1&amount=100&metadata[burnbound_intent]=nonsense",
        "charge=ch_2&amount=100",
    ] {
        outside(&world.sandbox, "/v1/refunds", form);
    }
    all_done(&world).await;
    assert!(world.look("/_sandbox/webhook")["delivered"].as_u64() > Some(4));
    let listed = world.get("/v1/intents").await.json["data"].as_array().unwrap().clone();
    let ids: Vec<&str> = listed.iter().map(|intent| intent["intentId"].as_str().unwrap()).collect();
    assert_eq!(ids, [ours.text("/intentId")]);
    assert_eq!(told(&world, &ours).await, "200 refunded");
    assert_eq!(world.intent(&ours).await.refund.unwrap().id.as_str(), ours.text("/refund/id"));
    assert_eq!(world.spent().await, "4.00");
}

#[tokio::test]
async fn money_that_left_is_booked_whatever_was_thought() {
    for (fault, was) in [("status_429", "200 not_executed"), ("", "200 failed")] {
        let world = world(SECRET).await;
        connect(&world, SECRET);
        world.charge(&json!({ "id": "ch_1" }));
        if fault.is_empty() {
            // So much is refunded by somebody else that Stripe refuses ours; it fails later.
            let sandbox = world.sandbox.clone();
            let form = "charge=ch_1&amount=700";
            world.wire.before_refund(move || outside(&sandbox, "/v1/refunds", form));
        } else {
            world.fault(fault, 10);
        }
        let ended = world.ask(&json!({ "target": "ch_1", "amountMinor": 400 })).await;
        assert_eq!(ended.line(), was);
        assert_eq!(world.spent().await, "0.00", "{was}");
        world.clear_faults();
        for other in world.sandbox.refunds() {
            let path = format!("/_sandbox/refunds/{}", other["id"].as_str().unwrap());
            world.control(&path, &json!({ "status": "failed" }));
        }
        let id = ended.text("/intentId");
        let form = format!("charge=ch_1&amount=400&metadata[burnbound_intent]={id}");
        outside(&world.sandbox, "/v1/refunds", &form);
        world.until(&ended, |intent| intent.state == State::Settled).await;
        all_done(&world).await;
        assert_eq!(told(&world, &ended).await, "200 refunded", "{was}");
        assert_eq!(world.spent().await, "4.00", "{was}");
    }
}

/// Whoever may write at Stripe can put an intent's id into any refund's metadata. That neither ends
/// what is under way, nor gives its spend back, nor is it told as the refund of this intent.
#[tokio::test]
async fn a_forged_name_ends_nothing() {
    for (form, status) in [
        ("charge=ch_1&amount=1", "succeeded"),
        ("charge=ch_1&amount=1", "failed"),
        ("charge=ch_2&amount=400", "succeeded"),
        ("charge=ch_2&amount=400", "failed"),
    ] {
        let case = format!("{form} {status}");
        let world = world(SECRET).await;
        connect(&world, SECRET);
        for id in ["ch_1", "ch_2"] {
            world.charge(&json!({ "id": id }));
        }
        // Stripe keeps a 500 under the key: whether the refund was made is not known.
        world.fault("status_500_stored", 10);
        let unclear = world.ask(&json!({ "target": "ch_1", "amountMinor": 400 })).await;
        assert_eq!(unclear.line(), "202 in_progress", "{case}");
        world.clear_faults();
        let id = unclear.text("/intentId");
        outside(&world.sandbox, "/v1/refunds", &format!("{form}&metadata[burnbound_intent]={id}"));
        let forged = world.sandbox.refunds().last().unwrap()["id"].as_str().unwrap().to_owned();
        let path = format!("/_sandbox/refunds/{forged}");
        world.control(&path, &json!({ "status": status }));
        all_done(&world).await;
        assert_eq!(told(&world, &unclear).await, "200 in_progress", "{case}");
        let intent = world.intent(&unclear).await;
        assert_eq!((intent.refund, intent.needs_person), (None, true), "{case}");
        assert_eq!(world.spent().await, "4.00", "{case}");
    }
}

/// Stripe repeats nothing that it was thanked for: what fails after that is tried again here.
#[tokio::test]
async fn a_charge_that_could_not_be_looked_at_is_looked_at_again() {
    let world = world(SECRET).await;
    let refunded = refunded(&world, "ch_1").await;
    connect(&world, SECRET);
    let down = json!({ "method": "GET", "path": "/v1/refunds", "kind": "drop_before", "times": 1 });
    world.control("/_sandbox/faults", &down);
    move_on(&world, &refunded, "failed");
    world.until(&refunded, |intent| intent.state == State::Reversed).await;
    assert_eq!(times(&world, "intent.reversed").await, 1);
}

#[tokio::test]
async fn a_dispute_has_the_charge_looked_at() {
    let world = world(SECRET).await;
    let refunded = refunded(&world, "ch_1").await;
    move_on(&world, &refunded, "failed");
    connect(&world, SECRET);
    world.control("/_sandbox/disputes", &json!({ "charge": "ch_1" }));
    world.until(&refunded, |intent| intent.state == State::Reversed).await;
}

#[tokio::test]
async fn without_webhooks_refunds_are_followed_by_asking() {
    let table = [
        // when it fails, when it is looked at: each the time since the step before; how it ends
        (Duration::ZERO, Duration::ZERO, "200 refunded"),
        (Duration::ZERO, HOUR, "200 reversed"),
        // Looked at, and then only a day later.
        (25 * HOUR, HOUR, "200 refunded"),
        (25 * HOUR, DAY, "200 reversed"),
        (34 * DAY, DAY, "200 reversed"),
        // Past its 35 days nobody looks any more.
        (36 * DAY, 30 * DAY, "200 refunded"),
    ];
    for (fails, looked, ends) in table {
        let name = format!("{fails:?} {looked:?}");
        let world = World::new().await;
        let refunded = refunded(&world, "ch_1").await;
        world.clock.advance(fails);
        world.gateway.round().await.unwrap();
        move_on(&world, &refunded, "failed");
        world.clock.advance(looked);
        world.gateway.round().await.unwrap();
        assert_eq!(told(&world, &refunded).await, ends, "{name}");
        // Once more: it is given back once.
        world.clock.advance(DAY);
        world.gateway.round().await.unwrap();
        assert!(times(&world, "intent.reversed").await <= 1, "{name}");
    }
}

/// Nobody asks: the real binary hears of it by itself.
#[tokio::test]
async fn the_binary_reverses_what_stripe_reports() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(POLICY);
    std::fs::write(home.path("hook"), format!("{SECRET}\n")).unwrap();
    let file = home.path("hook");
    let variables = [("STRIPE_WEBHOOK_SECRET_FILE", file.to_str().unwrap())];
    let gateway = home.serve(&sandbox, &variables);
    let url = format!("http://{}{HOOK}", gateway.at);
    sandbox.control("/_sandbox/webhook", &json!({ "url": url, "secret": SECRET })).await;
    sandbox.control("/_sandbox/charges", &json!({ "id": "ch_1" })).await;
    let refunded = gateway.ask(&key, &json!({ "target": "ch_1" })).await;
    assert_eq!(refunded.line(), "200 refunded");
    let path = format!("/_sandbox/refunds/{}", refunded.text("/refund/id"));
    sandbox.control(&path, &json!({ "status": "failed", "failure_reason": "unknown" })).await;
    let path = format!("/v1/intents/{}", refunded.text("/intentId"));
    let waiting = async {
        loop {
            let told = Call::get(&path).key(&key).send(gateway.at).await;
            if told.line() != "200 refunded" {
                return told;
            }
        }
    };
    let told = tokio::time::timeout(WAIT_MAX, waiting).await.expect("it was never told");
    assert_eq!(told.line(), "200 reversed");
    assert_eq!(told.text("/agent"), AGENT);
    gateway.terminate();
    let ended = gateway.end();
    assert_eq!(ended.code, Some(0), "{}", ended.words);
    assert!(!ended.words.contains(SECRET) && !ended.words.contains("followed by polling"));
    sandbox.terminate();
    assert_eq!(sandbox.end().code, Some(0));
}
