//! What spares Stripe: how many reads staff's tools make, how long they pause after failures, and
//! that no refund ever waits for any of it. The clock is moved, so nobody waits here either.

use std::time::Duration;

use gate_sandbox::Received;
use serde_json::{Value, json};

use crate::client::{Answer, Call, Shared};
use crate::connector::READS;
use crate::rpc::{Called, call, post, tool_call};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);
/// The figures that the manual gives: reads in any second, and in any minute.
const PER_SECOND: usize = 10;
const PER_MINUTE: usize = 120;
/// Callers at once, and requests that one connection carries.
const CALLERS: usize = 500;
const PER_CONNECTION: usize = 200;
/// How long what must come may take, by the real time.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// The gateway, and a charge that has enough for every refund.
async fn world() -> World {
    let world = World::with_policy(&format!("daily_cap = \"1000.00\"\n{READS}")).await;
    world.charge(&json!({ "id": "ch_1", "amount": 100_000 }));
    world.control("/_sandbox/settings", &json!({ "rateLimits": true }));
    world
}

/// The same on a clock that only the test moves.
async fn held() -> World {
    let world = world().await;
    world.clock.hold();
    world
}

/// The reads for staff that Stripe received.
fn reads(world: &World) -> usize {
    let paths = ["/v1/balance", "/v1/customers/search", "/v1/disputes", "/v1/payment_intents"];
    let of_staff = |seen: &Received| paths.contains(&seen.path.as_str());
    world.received().iter().filter(|seen| of_staff(seen)).count()
}

/// A refund goes through, and takes no time of the clock's that reads wait for.
async fn refund(world: &World, when: &str) {
    let key = when.replace(' ', "-");
    let ask = json!({ "target": "ch_1", "amountMinor": 100, "idempotencyKey": key });
    assert_eq!(world.ask(&ask).await.line(), "200 refunded", "{when}");
}

async fn read(world: &World, tool: &str) -> Called {
    call(world.at, &world.key, tool, &json!({})).await
}

/// A read over the plain door: its status and code, and after how many seconds to come back.
async fn told(world: &World, tool: &str) -> (String, u64) {
    let answer = Call::post(&format!("/v1/tools/{tool}"), "{}").key(&world.key);
    let answer = answer.send(world.at).await;
    (answer.line(), answer.header("retry-after").parse().unwrap_or_default())
}

/// One of the five hundred.
fn caller(world: &World, place: usize) -> Call {
    let (tool, arguments) = [
        ("finance_balance", json!({})),
        ("customers_search", json!({ "keyword": "Ann" })),
        ("finance_disputes", json!({})),
        ("finance_payments", json!({})),
    ][place % 4]
        .clone();
    let call = if place % 8 < 4 {
        post(tool_call(1, tool, &arguments))
    } else {
        Call::post(&format!("/v1/tools/{tool}"), arguments)
    };
    call.key(&world.key)
}

/// What a call came to, at either door: the code of its problem, and when to come back.
fn outcome(answer: &Answer) -> (String, String) {
    if answer.json["jsonrpc"].is_string() {
        let called = Called::of(&answer.json);
        return (called.text("/code").to_owned(), called.text("/detail").to_owned());
    }
    let after = answer.header("retry-after").parse::<u64>().unwrap_or_default();
    assert_eq!(answer.status == 429, (1..=60).contains(&after), "{answer:?}");
    (answer.text("/code").to_owned(), answer.text("/detail").to_owned())
}

/// Five hundred ask at once: ten a second get through until the minute's are used up, the others
/// are told when to come back, and refunds are made in between as if there were nobody.
#[tokio::test]
async fn five_hundred_callers_and_a_refund() {
    let world = held().await;
    let mut connections = Vec::new();
    for _ in 0..CALLERS.div_ceil(PER_CONNECTION) {
        connections.push(Shared::open(world.at).await);
    }
    let calls = (0..CALLERS)
        .map(|place| connections[place / PER_CONNECTION].clone().send(caller(&world, place)));
    let seconds = async {
        for second in 1..=PER_MINUTE / PER_SECOND {
            while reads(&world) < second * PER_SECOND {
                tokio::task::yield_now().await;
            }
            if second % 4 == 0 {
                refund(&world, &format!("in second {second}")).await;
            }
            assert_eq!(reads(&world), second * PER_SECOND);
            world.clock.pass(SECOND);
        }
    };
    let seconds = async { tokio::time::timeout(WAIT_MAX, seconds).await.expect("reads are held") };
    let (answers, ()) = tokio::join!(futures_util::future::join_all(calls), seconds);
    let problems: Vec<(String, String)> =
        answers.iter().map(outcome).filter(|(code, _)| !code.is_empty()).collect();
    assert_eq!(problems.len(), CALLERS - PER_MINUTE);
    for (code, detail) in &problems {
        assert_eq!(code, "rate_limited");
        assert!(detail.contains("the next is possible in"), "{detail}");
    }
    assert_eq!(reads(&world), PER_MINUTE);

    // Nobody else gets through before it was said, and ten do then; refunds do at any time.
    let (line, after) = told(&world, "finance_balance").await;
    assert_eq!((line.as_str(), after), ("429 rate_limited", 60 - 12));
    refund(&world, "while reads are used up").await;
    world.clock.pass(Duration::from_secs(after));
    assert!(!read(&world, "finance_balance").await.is_error);
    assert_eq!(reads(&world), PER_MINUTE + 1);
    // Stripe's own limits were never reached.
    assert!(world.received().iter().all(|seen| seen.status == Some(200)));
    world.check("five hundred callers", 4, 4);
}

/// Three failures in a row pause reads for a minute, then one is tried; refunds are made throughout.
#[tokio::test]
async fn failures_pause_reads_and_no_refund() {
    #[rustfmt::skip]
    let table = [
        // fault               a read is told
        ("drop_before",        "error stripe_unavailable"),
        ("drop_after",         "error stripe_unavailable"),
        ("reset",              "error stripe_unavailable"),
        ("status_500_stored",  "error stripe_unavailable"),
        ("malformed",          "error stripe_error"),
    ];
    for (kind, line) in table {
        let world = held().await;
        let fault = json!({ "method": "GET", "path": "/v1/balance", "kind": kind, "times": 4 });
        world.control("/_sandbox/faults", &fault);
        for place in 1..=3 {
            assert_eq!(read(&world, "finance_balance").await.line(), line, "{kind} {place}");
        }
        // No tool reads now, whatever it reads, and each says for how long.
        for tool in ["finance_balance", "finance_payments", "finance_disputes"] {
            let (line, after) = told(&world, tool).await;
            assert_eq!((line.as_str(), after), ("503 stripe_unavailable", 60), "{kind} {tool}");
        }
        assert_eq!(reads(&world), 3, "{kind}");
        refund(&world, "while reads are paused").await;
        // The one that is tried after a minute fails too, and pauses them again by itself.
        world.clock.pass(60 * SECOND);
        assert_eq!(read(&world, "finance_balance").await.line(), line, "{kind}");
        assert_eq!(told(&world, "finance_payments").await.0, "503 stripe_unavailable", "{kind}");
        assert_eq!(reads(&world), 4, "{kind}");
        refund(&world, "while they are paused again").await;
        world.clock.pass(60 * SECOND);
        for tool in ["finance_balance", "finance_payments", "finance_disputes"] {
            assert!(!read(&world, tool).await.is_error, "{kind} {tool}");
        }
        world.check(kind, 2, 2);
    }
}

/// Stripe asks for patience, and says for how long or does not.
#[tokio::test]
async fn a_plea_for_patience_pauses_reads_and_no_refund() {
    #[rustfmt::skip]
    let table = [
        // Retry-After, ms  reads pause, in seconds
        (Value::Null,       60),
        (json!(7_000),      7),
        (json!(90_000),     90),
        (json!(600_000),    600),
    ];
    for (asked, secs) in table {
        let world = held().await;
        let mut fault = json!({ "method": "GET", "path": "/v1/disputes", "kind": "status_429" });
        if !asked.is_null() {
            fault["delayMs"] = asked;
        }
        world.control("/_sandbox/faults", &fault);
        for tool in ["finance_disputes", "finance_balance"] {
            let (line, after) = told(&world, tool).await;
            assert_eq!((line.as_str(), after), ("503 stripe_unavailable", secs), "{tool}");
        }
        refund(&world, "while Stripe wants peace").await;
        world.clock.pass(Duration::from_secs(secs - 1));
        let (line, after) = told(&world, "finance_balance").await;
        assert_eq!((line.as_str(), after), ("503 stripe_unavailable", 1), "{secs}");
        assert_eq!(reads(&world), 1, "{secs}");
        world.clock.pass(SECOND);
        assert!(!read(&world, "finance_balance").await.is_error, "{secs}");
        world.check("patience", 1, 1);
    }
}

/// What fails of refunds pauses neither reads nor other refunds.
#[tokio::test]
async fn failures_of_refunds_pause_nothing() {
    let world = world().await;
    world.control(
        "/_sandbox/faults",
        &json!({ "path": "/v1/charges/*", "kind": "reset", "times": 1000 }),
    );
    for place in 0..5 {
        let ask =
            json!({ "target": "ch_1", "amountMinor": 100, "idempotencyKey": place.to_string() });
        assert_eq!(world.ask(&ask).await.text("/code"), "stripe_unavailable", "{place}");
        assert!(!read(&world, "finance_balance").await.is_error, "{place}");
    }
    world.clear_faults();
    refund(&world, "once it is over").await;
    world.check("failures of refunds", 1, 1);
}
