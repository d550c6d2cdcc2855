//! The process ends in the middle: kill -9 at every point of a refund, and SIGTERM.

use std::path::Path;
use std::sync::Arc;

use gate_core::Clock;
use gate_server::system::SystemClock;
use gate_store::{AuditRow, IntentQuery, Reads, SqliteStore, Store, verify};
use serde_json::{Value, json};

use crate::client::{Answer, Call};
use crate::process::{Home, POLICY, Server};
use crate::world::REFUND;

/// Short enough that a lease of a killed gateway ends within a test.
pub(crate) const SHORT: [(&str, &str); 2] =
    [("GATEWAY_STRIPE_TIMEOUT", "1s"), ("GATEWAY_RECONCILE_INTERVAL", "1s")];
/// Most repetitions of a request while it is in progress; the gateway makes each wait for seconds.
const REPEATS_MAX: usize = 10;

/// A refund that a gateway is killed in.
struct Killing {
    name: &'static str,
    /// What Stripe does with the first attempt.
    fault: &'static str,
    times: u32,
    delay_millis: u64,
    /// Fewest and most attempts in the end.
    attempts: [usize; 2],
}

#[rustfmt::skip]
const KILLINGS: [Killing; 3] = [
    // Made, and killed while Stripe's answer is under way: found, never sent again.
    Killing { name: "in flight",   fault: "delay",       times: 1,   delay_millis: 900, attempts: [1, 1] },
    // Made, the answer lost, and killed wherever it then is.
    Killing { name: "answer lost", fault: "drop_after",  times: 1,   delay_millis: 0,   attempts: [1, 1] },
    // Not made, and killed between two attempts: sent again, the same bytes.
    Killing { name: "not made",    fault: "drop_before", times: 900, delay_millis: 0,   attempts: [2, 9] },
];

/// The request is repeated while it is in progress, and ends refunded, once.
#[tokio::test]
async fn killed_in_the_middle_of_a_refund() {
    // At the same time, because each waits for a lease to end.
    futures_util::future::join_all(KILLINGS.iter().map(killed)).await;
}

async fn killed(killing: &Killing) {
    let name = killing.name;
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(POLICY);
    let gateway = home.serve(&sandbox, &SHORT);
    sandbox.control("/_sandbox/charges", &json!({ "id": "ch_1" })).await;
    sandbox.fault(killing.fault, killing.times, killing.delay_millis).await;
    let body = json!({ "target": "ch_1", "idempotencyKey": "k" });
    // The client hangs up with the kill.
    let ask = Call::post(REFUND, &body).key(&key);
    let at = gateway.at;
    let client = async { ask.attempt(at).await };
    let kill = async {
        sandbox.attempted(1).await;
        gateway.kill();
    };
    let (lost, ()) = tokio::join!(client, kill);
    assert!(lost.is_none_or(|answer| answer.line() == "200 refunded"), "{name}");
    let cleared = Call::new("DELETE", "/_sandbox/faults").send(sandbox.at).await;
    assert_eq!(cleared.status, 200, "{name}");

    let gateway = home.serve(&sandbox, &SHORT);
    let last = repeated(&gateway, &key, &body).await;
    assert_eq!(last.line(), "200 refunded", "{name}");
    assert!(last.replayed(), "{name}");
    let refunds = sandbox.refunds().await;
    assert_eq!(refunds.len(), 1, "{name}: refunds");
    assert_eq!(refunds[0]["id"], last.text("/refund/id"), "{name}");
    assert_eq!(refunds[0]["metadata"]["burnbound_intent"], last.text("/intentId"), "{name}");
    let attempts = sandbox.attempts().await;
    let [fewest, most] = killing.attempts;
    assert!((fewest..=most).contains(&attempts.len()), "{name}: {} attempts", attempts.len());
    for attempt in &attempts {
        let same = |part: &str| attempt[part] == attempts[0][part];
        assert!(same("form") && same("idempotencyKey"), "{name}: {attempts:?}");
    }
    assert_eq!(gateway.kill().code, None, "{name}");
    whole_chain(&home.database(), &[("intent.submitted", 1), ("intent.settled", 1)]).await;
}

/// Repeats a request while it is in progress.
pub(crate) async fn repeated(gateway: &Server, key: &str, body: &Value) -> Answer {
    let mut last = gateway.ask(key, body).await;
    for _ in 0..REPEATS_MAX {
        if last.line() != "202 in_progress" {
            break;
        }
        last = gateway.ask(key, body).await;
    }
    last
}

/// The chain of a store that nobody has open verifies, and has so many entries of these actions.
pub(crate) async fn whole_chain(database: &Path, expected: &[(&str, usize)]) -> Vec<AuditRow> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let store = SqliteStore::open(database, clock).unwrap();
    let query = IntentQuery { limit: 1000, ..IntentQuery::default() };
    let reads = Reads {
        audit: Some(gate_store::AuditRange::WHOLE),
        intents: Some(query),
        ..Reads::default()
    };
    let seen = store.read(reads).await.unwrap();
    assert_eq!(verify(&seen.audit).unwrap(), seen.head);
    for (action, count) in expected {
        let found = seen.audit.iter().filter(|row| row.entry.action == *action).count();
        assert_eq!(found, *count, "{action}");
    }
    // Each intent's last entry is the state that it is in.
    for intent in &seen.intents {
        let of = seen.audit.iter().rev().find(|row| row.entry.subject == intent.id.as_str());
        let action = format!("intent.{}", intent.state.as_str());
        assert_eq!(of.unwrap().entry.action, action, "{}", intent.id);
    }
    seen.audit
}

/// Asked to end during a refund, it finishes it, answers, and ends well.
#[tokio::test]
async fn asked_to_end_in_the_middle_of_a_refund() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(POLICY);
    let gateway = home.serve(&sandbox, &[]);
    sandbox.control("/_sandbox/charges", &json!({ "id": "ch_1" })).await;
    sandbox.fault("delay", 1, 500).await;
    let body = json!({ "target": "ch_1", "idempotencyKey": "k" });
    let told = async {
        sandbox.attempted(1).await;
        gateway.terminate();
    };
    let (answer, ()) = tokio::join!(gateway.ask(&key, &body), told);
    assert_eq!(answer.line(), "200 refunded");
    let ended = gateway.end();
    assert_eq!(ended.code, Some(0), "{}", ended.words);
    let shown = home.done(&["intent", "show", answer.text("/intentId"), "--json"]).json();
    assert_eq!((&shown["state"], &shown["refund"]), (&json!("settled"), &answer.json["refund"]));
    assert_eq!(sandbox.refunds().await.len(), 1);
    whole_chain(&home.database(), &[("intent.submitted", 1), ("intent.settled", 1)]).await;
}

/// The same when the client has hung up: the refund is finished before the process ends.
#[tokio::test]
async fn asked_to_end_after_the_client_went_away() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(POLICY);
    let gateway = home.serve(&sandbox, &[]);
    sandbox.control("/_sandbox/charges", &json!({ "id": "ch_1" })).await;
    sandbox.fault("delay", 1, 300).await;
    let body = json!({ "target": "ch_1", "idempotencyKey": "k" });
    Call::post(REFUND, &body).key(&key).hang_up(gateway.at, sandbox.attempted(1)).await;
    gateway.terminate();
    let ended = gateway.end();
    assert_eq!(ended.code, Some(0), "{}", ended.words);
    let listed = home.done(&["intent", "list", "--json"]).json();
    assert_eq!(listed[0]["state"], "settled");
    assert_eq!(sandbox.refunds().await.len(), 1);
}
