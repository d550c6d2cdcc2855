//! Every transition has exactly one entry in the audit chain, whoever made it, and the chain
//! verifies.

use gate_core::{Event, State};
use gate_store::verify;
use serde_json::json;

use crate::client::Call;
use crate::world::{HOUR, STRIPE_KEY, Setup, World, policy};

/// What is done to a refund of 10.00 USD before it is asked for again.
#[derive(Clone, Copy, Debug)]
enum Then {
    Approve,
    Cancel,
    Deny,
    Expire,
    Nothing,
}

#[tokio::test]
async fn one_entry_for_each_transition() {
    let cap = "daily_cap = \"100.00\"";
    let none = "daily_cap = \"1.00\"";
    let person = "daily_cap = \"100.00\"\napproval_threshold = \"1.00\"\non_approval = \"agent\"";
    #[rustfmt::skip]
    let table: [(&str, &str, &str, Then, &[&str]); 9] = [
        // name                       policy  fault          then            entries
        ("made, and asked again",     cap,    "",            Then::Nothing,  &["submitted", "settled"]),
        ("lost, and found",           cap,    "drop_after",  Then::Nothing,  &["submitted", "settled"]),
        ("sent twice",                cap,    "drop_before", Then::Nothing,  &["submitted", "settled"]),
        ("denied, and denied again",  none,   "",            Then::Nothing,  &["denied", "denied"]),
        ("approved",                  person, "",            Then::Approve,  &["pending_approval", "approved", "submitted", "settled"]),
        ("refused",                   person, "",            Then::Deny,     &["pending_approval", "denied"]),
        ("withdrawn",                 person, "",            Then::Cancel,   &["pending_approval", "canceled"]),
        ("expired",                   person, "",            Then::Expire,   &["pending_approval", "expired"]),
        ("forbidden, then allowed",   cap,    "permission",  Then::Nothing,  &["submitted", "not_executed", "submitted", "settled"]),
    ];
    for (name, lines, fault, then, expected) in table {
        let world = Setup { policy: policy(lines), sqlite: true, ..Setup::default() }.start().await;
        world.charge(&json!({ "id": "ch_1" }));
        match fault {
            "" => {}
            "permission" => {
                let may = json!({ "charges": "read", "refunds": "read", "customers": "read" });
                world.control("/_sandbox/keys", &json!({ "key": STRIPE_KEY, "permissions": may }));
            }
            fault => world.fault(fault, 1),
        }
        let body = json!({ "target": "ch_1", "idempotencyKey": "k" });
        let first = world.ask(&body).await;
        match then {
            Then::Approve => world.approve(&first).await,
            Then::Cancel => {
                let path = format!("/v1/intents/{}/cancel", first.text("/intentId"));
                Call::post(&path, "").key(&world.key).send(world.at).await;
            }
            Then::Deny => world.deny(&first).await,
            Then::Expire => {
                world.clock.advance(25 * HOUR);
                world.run_by_itself();
                world.until(&first, |intent| intent.state == State::Expired).await;
            }
            Then::Nothing => {
                world.control("/_sandbox/keys", &json!({ "key": STRIPE_KEY }));
            }
        }
        world.ask(&body).await;
        assert_eq!(transitions(&world).await, expected, "{name}");
    }
}

/// The states that intents came to, in the order of the chain, which must hold and be legal.
async fn transitions(world: &World) -> Vec<String> {
    let chain = world.audit().await;
    verify(&chain).unwrap();
    let mut states: Vec<String> = Vec::new();
    let mut last: std::collections::BTreeMap<&str, State> = std::collections::BTreeMap::new();
    for row in &chain {
        let Some(name) = row.entry.action.strip_prefix("intent.") else {
            continue;
        };
        let state = State::parse(name).unwrap();
        let from = last.insert(&row.entry.subject, state).unwrap_or(State::Asked);
        assert!(
            EVENTS.iter().any(|event| from.after(*event) == Ok(state)),
            "{from:?} to {state:?}"
        );
        states.push(name.to_owned());
    }
    states
}

/// Everything that can happen to an intent.
const EVENTS: [Event; 11] = [
    Event::Hold,
    Event::Allow,
    Event::Deny,
    Event::Approve,
    Event::Expire,
    Event::Cancel,
    Event::Settle,
    Event::Fail,
    Event::Await,
    Event::NotExecute,
    Event::Reverse,
];
