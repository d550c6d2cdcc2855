//! Many requests at once, over the real binary and its SQLite file: caps, copies and shares of one
//! charge.

use futures_util::future::join_all;
use gate_core::Clock;
use gate_server::system::SystemClock;
use serde_json::{Value, json};

use crate::client::Answer;
use crate::process::{Home, POLICY, Server};

/// No limit on how many requests come at once.
const RATE: (&str, &str) = ("GATEWAY_AGENT_RATE", "1000/s burst 1000");

async fn ask_together(gateway: &Server, key: &str, bodies: &[Value]) -> Vec<Answer> {
    join_all(bodies.iter().map(|body| gateway.ask(key, body))).await
}

/// The policy in a time zone where it is about noon, so that no day ends during a test.
pub(crate) fn policy_at_noon() -> String {
    let hour = SystemClock::start().now().millis().div_euclid(3_600_000).rem_euclid(24);
    // The database's signs are the other way round: Etc/GMT+5 is five hours behind.
    let zone = format!("Etc/GMT{:+}", hour - 12);
    POLICY.replace("[organization]\n", &format!("[organization]\ntimezone = \"{zone}\"\n"))
}

/// 200 requests of 10.00 USD, each for a charge and under a key of its own, against 100.00 a day.
#[tokio::test]
async fn a_cap_holds_against_two_hundred_at_once() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(&policy_at_noon());
    let gateway = home.serve(&sandbox, &[RATE]);
    let charges: Vec<Value> = (0..200).map(|n| json!({ "id": format!("ch_{n}") })).collect();
    join_all(charges.iter().map(|charge| sandbox.control("/_sandbox/charges", charge))).await;
    let asks: Vec<Value> = (0..200)
        .map(|n| json!({ "target": format!("ch_{n}"), "idempotencyKey": format!("k-{n}") }))
        .collect();
    let answers = ask_together(&gateway, &key, &asks).await;
    let count = |line: &str| answers.iter().filter(|answer| answer.line() == line).count();
    assert_eq!((count("200 refunded"), count("200 denied")), (10, 190));
    for denied in answers.iter().filter(|answer| answer.line() == "200 denied") {
        assert_eq!(denied.reasons(), "daily_cap");
    }
    assert_eq!(sandbox.refunds().await.len(), 10);
    assert_eq!(sandbox.attempts().await.len(), 10);
}

#[tokio::test]
async fn twenty_copies_are_one_refund() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(POLICY);
    let gateway = home.serve(&sandbox, &[RATE]);
    for (name, made, body) in [
        ("with a key", 1, json!({ "target": "ch_1", "idempotencyKey": "ticket-1" })),
        ("without one", 2, json!({ "target": "ch_2" })),
    ] {
        sandbox.control("/_sandbox/charges", &json!({ "id": body["target"] })).await;
        let answers = ask_together(&gateway, &key, &vec![body; 20]).await;
        for answer in &answers {
            assert_eq!(answer.line(), "200 refunded", "{name}: {}", answer.json);
        }
        let first = answers.iter().filter(|answer| !answer.replayed()).count();
        assert_eq!(first, 1, "{name}: who was first");
        // Without a key, those who come later are told of it in `next`.
        let same = |answer: &Answer| {
            let mut json = answer.json.clone();
            json["replayed"] = Value::Null;
            json["next"] = Value::Null;
            (answer.line(), json)
        };
        for answer in &answers {
            assert_eq!(same(answer), same(&answers[0]), "{name}");
        }
        let mut words: Vec<&str> = answers.iter().map(|answer| answer.text("/next")).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), made, "{name}: {words:?}");
        assert_eq!(sandbox.refunds().await.len(), made, "{name}");
        assert_eq!(sandbox.attempts().await.len(), made, "{name}");
    }
}

/// Two refunds of 60 % of one charge under two keys: there is money for one.
#[tokio::test]
async fn a_charge_is_not_refunded_past_what_is_left() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(POLICY);
    let gateway = home.serve(&sandbox, &[RATE]);
    for round in 0..5 {
        let target = format!("ch_{round}");
        sandbox.control("/_sandbox/charges", &json!({ "id": target })).await;
        let ask = |half| {
            let key = format!("{round}-{half}");
            json!({ "target": target, "amountMinor": 600, "idempotencyKey": key })
        };
        let answers = ask_together(&gateway, &key, &[ask(1), ask(2)]).await;
        let (made, not): (Vec<&Answer>, Vec<&Answer>) =
            answers.iter().partition(|answer| answer.line() == "200 refunded");
        assert_eq!(made.len(), 1, "{round}");
        let code = "amount_over_refundable";
        let refused = not[0].line() == format!("422 {code}");
        let failed = not[0].line() == "200 failed" && not[0].text("/code") == code;
        assert!(refused || failed, "{round}: {}", not[0].json);
        assert_eq!(sandbox.refunds().await.len(), round + 1);
    }
}
