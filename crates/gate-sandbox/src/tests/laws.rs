//! Properties that hold whatever is asked, in whatever order.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::{NOON_MS, Rig, request, text};
use crate::{Reply, Sandbox};

/// One step of a random world over a few charges and a few idempotency keys.
#[derive(Clone, Debug)]
enum Step {
    Refund { charge: usize, amount: i64, key: usize },
    Fault { kind: usize },
    Move { newest: usize, status: usize },
    Wait { secs: i64 },
}

const KINDS: [&str; 12] = [
    "drop_before",
    "drop_after",
    "reset",
    "malformed",
    "status_409",
    "status_429",
    "status_500_stored",
    "status_500_done",
    "webhook_forged",
    "webhook_late",
    "webhook_reorder",
    "webhook_twice",
];
const STATUSES: [&str; 5] = ["pending", "requires_action", "succeeded", "failed", "canceled"];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_usize, 0..700_i64, 0..6_usize)
            .prop_map(|(charge, amount, key)| Step::Refund { charge, amount, key }),
        1 => (0..KINDS.len()).prop_map(|kind| Step::Fault { kind }),
        1 => (0..4_usize, 0..STATUSES.len())
            .prop_map(|(newest, status)| Step::Move { newest, status }),
        1 => (0..1400_i64).prop_map(|secs| Step::Wait { secs }),
    ]
}

/// Three charges of which 1000, 600 and 1000 were captured.
fn stocked() -> Rig {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_0","amount":1000}"#);
    rig.charge(r#"{"id":"ch_1","amount":1000,"amount_captured":600}"#);
    rig.charge(r#"{"id":"ch_2","amount":1000,"source":"tok_refundFail"}"#);
    rig.order("webhook", r#"{"url":"http://127.0.0.1/","secret":"whsec_laws"}"#);
    rig
}

/// Plays a step; what it sent is told to `sent`.
fn play(rig: &mut Rig, step: &Step, sent: &mut Vec<Reply>) {
    match step {
        Step::Refund { charge, amount, key } => {
            // The key stands in the metadata too, so that a second refund under it shows.
            let form = format!("charge=ch_{charge}&amount={amount}&metadata[key]=k{key}");
            sent.push(rig.send(&format!("POST /v1/refunds {form} Idempotency-Key:k{key}")).reply);
        }
        Step::Fault { kind } => {
            let kind = KINDS[*kind];
            rig.order("faults", &format!(r#"{{"method":"POST","kind":"{kind}","delayMs":9}}"#));
        }
        Step::Move { newest, status } => {
            let refunds = rig.sandbox.refunds();
            if let Some(refund) = refunds.iter().rev().nth(*newest) {
                let path = format!("refunds/{}", text(refund, "id"));
                let status = STATUSES[*status];
                sent.push(rig.order(&path, &format!(r#"{{"status":"{status}"}}"#)).reply);
            }
        }
        // Less than a day altogether, or keys would be forgotten.
        Step::Wait { secs } => rig.later(*secs),
    }
}

proptest! {
    #[test]
    fn refunds_stay_within_what_was_captured(steps in prop::collection::vec(step(), 1..60)) {
        let mut rig = stocked();
        for step in &steps {
            play(&mut rig, step, &mut Vec::new());
            let refunds = rig.sandbox.refunds();
            for charge in rig.sandbox.charges() {
                let id = text(&charge, "id");
                let back: i64 = refunds
                    .iter()
                    .filter(|refund| refund["charge"] == id)
                    .filter(|refund| !matches!(text(refund, "status"), "failed" | "canceled"))
                    .map(|refund| refund["amount"].as_i64().unwrap())
                    .sum();
                let of = |field: &str| charge[field].as_i64().unwrap();
                prop_assert!(back <= of("amount_captured"), "{id} after {step:?}");
                let released = of("amount") - of("amount_captured");
                prop_assert_eq!(of("amount_refunded"), released + back, "{} after {:?}", id, step);
            }
        }
    }

    #[test]
    fn a_key_never_makes_a_second_refund(steps in prop::collection::vec(step(), 1..60)) {
        let mut rig = stocked();
        for step in &steps {
            play(&mut rig, step, &mut Vec::new());
        }
        let mut made = BTreeMap::<String, u32>::new();
        for refund in rig.sandbox.refunds() {
            *made.entry(text(&refund["metadata"], "key").to_owned()).or_default() += 1;
        }
        prop_assert!(made.values().all(|count| *count == 1), "{made:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes(steps in prop::collection::vec(step(), 1..40)) {
        let worlds = [(); 2].map(|()| {
            let mut rig = stocked();
            let (mut sent, mut told) = (Vec::new(), Vec::new());
            for step in &steps {
                play(&mut rig, step, &mut sent);
                told.extend(rig.sandbox.take_deliveries(rig.now_ms));
            }
            (sent, told)
        });
        prop_assert_eq!(&worlds[0], &worlds[1]);
    }

    /// Whatever happens to deliveries, an endpoint that answers at last has had every event.
    #[test]
    fn every_event_is_received_in_the_end(
        steps in prop::collection::vec(step(), 1..40),
        answers in prop::collection::vec(any::<bool>(), 1..20),
    ) {
        let mut rig = stocked();
        let mut answers = answers.iter().cycle();
        let mut received = BTreeSet::new();
        for step in &steps {
            play(&mut rig, step, &mut Vec::new());
            for told in rig.sandbox.take_deliveries(rig.now_ms) {
                let ok = told.attempt > 2 || *answers.next().unwrap();
                rig.sandbox.delivered(&told.event_id, told.attempt, ok, rig.now_ms);
                received.extend(ok.then_some(told.event_id));
            }
        }
        while let Some(due_ms) = rig.sandbox.next_delivery_ms() {
            rig.now_ms = rig.now_ms.max(due_ms);
            for told in rig.sandbox.take_deliveries(rig.now_ms) {
                rig.sandbox.delivered(&told.event_id, told.attempt, true, rig.now_ms);
                received.insert(told.event_id);
            }
        }
        let events = rig.sandbox.events();
        let made: BTreeSet<String> =
            events.iter().map(|event| text(event, "id").to_owned()).collect();
        prop_assert_eq!(received, made);
        prop_assert!(events.iter().all(|event| event["pending_webhooks"] == 0));
    }

    #[test]
    fn anything_at_all_is_answered(
        method in "(GET|POST|DELETE|PATCH)",
        path in "/(v1|_sandbox)/(charges|refunds|payment_intents|events|disputes|faults|keys|clock|webhook|[a-z]{1,4})(/[a-z_0-9]{0,6}){0,3}",
        query in "[a-z\\[\\]=&%0-9.]{0,40}",
        body in prop::collection::vec(any::<u8>(), 0..60),
        now in any::<i64>(),
    ) {
        let mut asked = request("GET /");
        asked.method = method;
        asked.path = path;
        asked.query = query;
        asked.body = body;
        let reply = Sandbox::new(1).handle(now, &asked);
        prop_assert!((200..600).contains(&reply.status));
        prop_assert!(serde_json::from_slice::<serde_json::Value>(&reply.body).is_ok());
    }
}

#[test]
fn another_seed_gives_other_ids() {
    let make = request("POST /v1/customers");
    let first = Sandbox::new(1).handle(NOON_MS, &make);
    assert_eq!(first, Sandbox::new(1).handle(NOON_MS, &make));
    assert_ne!(first.body, Sandbox::new(2).handle(NOON_MS, &make).body);
}

/// Demos and seeded worlds name ids; events and deliveries, which came later, do not move them,
/// and neither does asking for deliveries.
#[test]
fn the_ids_of_a_seed_stay() {
    for polled in [false, true] {
        let mut rig = Rig::new();
        let mut made = Vec::new();
        for token in ["tok_visa", "tok_refundFail", "tok_visa"] {
            let form = format!("amount=1000&currency=usd&source={token}");
            let charge = rig.ok(&format!("POST /v1/charges {form}"));
            let refund = rig.ok(&format!("POST /v1/refunds charge={}", text(&charge, "id")));
            made.extend([&charge, &refund].map(|it| text(it, "id")[..7].to_owned()));
            rig.later(7200);
            if polled {
                rig.sandbox.take_deliveries(rig.now_ms);
            }
        }
        let ids = ["ch_t1SF", "re_7gVZ", "ch_9It4", "re_3iMb", "ch_Gnqk", "re_iwXx"];
        assert_eq!(made, ids, "{polled}");
    }
}
