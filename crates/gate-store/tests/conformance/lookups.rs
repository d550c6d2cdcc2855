//! What was asked before, what a person refused, and lists.

use gate_core::{Denier, Intent, State, Target, Timestamp, Wanted};
use gate_store::{IntentQuery, Prior, Reads, Refused, Write};

use crate::world::{
    DAY, World, agent_id, at, idempotency_key, ids, insert, intent, intent_id, intent_with,
    of_agent,
};

async fn prior(world: &World, agent: u8, prior: Prior) -> Option<String> {
    let reads = Reads { prior: Some(prior), ..of_agent(agent) };
    world.read(reads).await.prior.map(|intent| intent.id.to_string())
}

pub(crate) async fn a_key_finds_its_holder_of_the_same_agent(world: World) {
    let world = world.with_agents().await;
    let keyed = |id: &str, agent: u8, key: &str| {
        intent_with(id, State::Denied, |intent| {
            intent.agent = agent_id(agent);
            intent.key = idempotency_key(key);
        })
    };
    world
        .write(vec![
            insert(keyed("int_1", 1, "k")),
            Write::SurrenderKey(intent_id("int_1")),
            insert(keyed("int_2", 1, "k")),
            insert(keyed("int_3", 2, "k")),
            insert(keyed("int_4", 2, "l")),
            Write::SurrenderKey(intent_id("int_4")),
        ])
        .await;
    for (agent, key, expected) in [
        (1, "k", Some("int_2")),
        (2, "k", Some("int_3")),
        (1, "K", None),
        (1, "l", None),
        (2, "l", None),
        (3, "k", None),
    ] {
        let found = prior(&world, agent, Prior::Key(idempotency_key(key))).await;
        assert_eq!(found.as_deref(), expected, "agent {agent}, key {key}");
    }
    let without_agent = Reads { prior: Some(Prior::Key(idempotency_key("k"))), ..Reads::default() };
    assert!(world.read(without_agent).await.prior.is_none());
}

fn keyless(target: &str, wanted: Wanted, settled_since: Timestamp) -> Prior {
    Prior::Keyless { target: Target::parse(target).unwrap(), wanted, settled_since }
}

pub(crate) async fn a_request_without_a_key_finds_its_twin(world: World) {
    type Change = fn(&mut Intent);
    let world = world.with_agents().await;
    let full = Wanted::Full;
    let settled_at: Change = |intent| intent.settled_at = Some(at(-DAY));
    let too_early: Change = |intent| intent.settled_at = Some(at(-DAY - 1));
    let plain: Change = |_| {};
    #[rustfmt::skip]
    let table: [(&str, State, Change, &str, Wanted, bool); 23] = [
        // its state, and more of it              asked of  amount             found
        ("pending",   State::PendingApproval, plain, "ch_1", full,              true),
        ("approved",  State::Approved,        plain, "ch_1", full,              true),
        ("submitted", State::Submitted,       plain, "ch_1", full,              true),
        ("awaiting",  State::AwaitingStripe,  plain, "ch_1", full,              true),
        ("stopped",   State::NotExecuted,     plain, "ch_1", full,              true),
        ("failed",    State::Failed,          plain, "ch_1", full,              false),
        ("reversed",  State::Reversed,        plain, "ch_1", full,              false),
        ("denied",    State::Denied,          plain, "ch_1", full,              false),
        ("expired",   State::Expired,         plain, "ch_1", full,              false),
        ("canceled",  State::Canceled,        plain, "ch_1", full,              false),
        ("a day ago", State::Settled,    settled_at, "ch_1", full,              true),
        ("too early", State::Settled,     too_early, "ch_1", full,              false),
        ("no time",   State::Settled,         plain, "ch_1", full,              false),
        ("its payment", State::Submitted,     plain, "pi_1", full,              true),
        ("too early", State::Settled,     too_early, "pi_1", full,              false),
        ("other charge", State::Submitted,    plain, "ch_2", full,              false),
        ("other payment", State::Submitted,   plain, "pi_2", full,              false),
        ("no payment", State::Submitted, |i| i.payment_intent = None, "pi_1", full, false),
        ("a part",    State::Submitted,       plain, "ch_1", Wanted::Minor(1000), false),
        ("that part", State::Submitted, |i| i.wanted = Wanted::Minor(1000), "ch_1", Wanted::Minor(1000), true),
        ("other part", State::Submitted, |i| i.wanted = Wanted::Minor(999), "ch_1", Wanted::Minor(1000), false),
        ("with a key", State::Submitted, |i| i.keyless = false, "ch_1", full,   false),
        ("another's", State::Submitted, |i| i.agent = agent_id(2), "ch_1", full, false),
    ];
    for (n, (name, state, change, target, wanted, expected)) in table.into_iter().enumerate() {
        let id = format!("int_{n:02}");
        let twin = intent_with(&id, state, |intent| {
            intent.keyless = true;
            change(intent);
        });
        world.write(vec![insert(twin)]).await;
        let found = prior(&world, 1, keyless(target, wanted, at(-DAY))).await;
        let expected = expected.then_some(id.clone());
        assert_eq!(found, expected, "{name}");
        world.write(vec![Write::SurrenderKey(intent_id(&id))]).await;
        let found = prior(&world, 1, keyless(target, wanted, at(-DAY))).await;
        assert_eq!(found, None, "{name}, taken over");
    }
}

pub(crate) async fn the_newest_twin_wins(world: World) {
    let world = world.with_agents().await;
    let twin = |id: &str| intent_with(id, State::Submitted, |intent| intent.keyless = true);
    let denied = |id: &str| intent_with(id, State::Denied, |i| i.denied_by = Some(Denier::Person));
    let inserted = ["int_2", "int_3", "int_1"].map(|id| insert(twin(id)));
    world.write(inserted.to_vec()).await;
    world.write(["int_5", "int_6", "int_4"].map(|id| insert(denied(id))).to_vec()).await;
    for target in ["ch_1", "pi_1"] {
        let found = prior(&world, 1, keyless(target, Wanted::Full, at(0))).await;
        assert_eq!(found.as_deref(), Some("int_3"), "{target}");
        let asked = refused(target, Wanted::Full, None, at(0));
        let found = world.read(Reads { refused: Some(asked), ..of_agent(1) }).await.refused;
        assert_eq!(found.unwrap().id.as_str(), "int_6", "{target}");
    }
}

fn refused(target: &str, wanted: Wanted, minor: Option<i64>, since: Timestamp) -> Refused {
    Refused { target: Target::parse(target).unwrap(), wanted, minor, since }
}

pub(crate) async fn a_refusal_is_found_by_amount_and_time(world: World) {
    let world = world.with_agents().await;
    let denied = |id: &str, by: Denier, agent: u8, charge: &str| {
        intent_with(id, State::Denied, |intent| {
            intent.denied_by = Some(by);
            intent.agent = agent_id(agent);
            intent.charge = gate_core::ChargeId::parse(charge).unwrap();
            intent.payment_intent = None;
            intent.wanted = Wanted::Minor(1000);
        })
    };
    let mut of_payment = denied("int_5", Denier::Person, 1, "ch_5");
    of_payment.payment_intent = Some(gate_core::PaymentIntentId::parse("pi_5").unwrap());
    of_payment.wanted = Wanted::Full;
    let mut approved = denied("int_6", Denier::Person, 1, "ch_6");
    approved.state = State::Approved;
    world
        .write(vec![
            insert(denied("int_1", Denier::Person, 1, "ch_1")),
            insert(denied("int_2", Denier::Policy, 1, "ch_2")),
            insert(denied("int_3", Denier::Person, 2, "ch_3")),
            Write::SurrenderKey(intent_id("int_1")),
            insert(of_payment),
            insert(approved),
        ])
        .await;
    let part = Wanted::Minor;
    #[rustfmt::skip]
    let table = [
        // asked of, amount,      comes to,   since,  found (taken over or not)
        ("ch_1", part(1000),      None,       at(0),  Some("int_1")),
        ("ch_1", part(1000),      None,       at(1),  None),
        ("ch_1", part(1000),      None,       at(-9), Some("int_1")),
        ("ch_1", part(999),       None,       at(0),  None),
        ("ch_1", Wanted::Full,    None,       at(0),  None),
        ("ch_1", Wanted::Full,    Some(1000), at(0),  Some("int_1")),
        ("ch_1", Wanted::Full,    Some(999),  at(0),  None),
        ("ch_2", part(1000),      None,       at(0),  None),
        ("ch_3", part(1000),      None,       at(0),  None),
        ("ch_5", Wanted::Full,    None,       at(0),  Some("int_5")),
        ("pi_5", Wanted::Full,    None,       at(0),  Some("int_5")),
        ("pi_5", part(1000),      Some(1000), at(0),  Some("int_5")),
        ("pi_5", part(1000),      None,       at(0),  None),
        ("pi_5", Wanted::Full,    None,       at(1),  None),
        ("ch_6", part(1000),      None,       at(0),  None),
    ];
    for (target, wanted, minor, since, expected) in table {
        let reads = Reads { refused: Some(refused(target, wanted, minor, since)), ..of_agent(1) };
        let found = world.read(reads).await.refused;
        let found = found.as_ref().map(|intent| intent.id.as_str());
        assert_eq!(found, expected, "{target} {wanted:?} {minor:?} {since:?}");
    }
}

pub(crate) async fn lists_are_newest_first_and_filtered(world: World) {
    let world = world.with_agents().await;
    let made = |id: &str, agent: u8, key: &str, state: State| {
        intent_with(id, state, |intent| {
            intent.agent = agent_id(agent);
            intent.key = idempotency_key(key);
        })
    };
    world
        .write(vec![
            insert(made("int_1", 1, "a", State::Denied)),
            Write::SurrenderKey(intent_id("int_1")),
            insert(made("int_2", 1, "a", State::Settled)),
            insert(made("int_3", 2, "a", State::Settled)),
            insert(made("int_5", 1, "c", State::Denied)),
            insert(made("int_4", 1, "b", State::Denied)),
        ])
        .await;
    let (no, denied, settled) = (None, Some(State::Denied), Some(State::Settled));
    #[rustfmt::skip]
    let table = [
        // agent, key,  state,  before,      at most, found
        (None,    no,        None,    None,          9, "int_5 int_4 int_3 int_2 int_1"),
        (None,    no,        None,    None,          2, "int_5 int_4"),
        (None,    no,        None,    Some("int_4"), 2, "int_3 int_2"),
        (None,    no,        None,    None,          0, ""),
        (None,    no,        denied,  None,          9, "int_5 int_4 int_1"),
        (None,    no,        denied,  Some("int_5"), 1, "int_4"),
        (Some(1), no,        None,    None,          9, "int_5 int_4 int_2 int_1"),
        (Some(1), no,        denied,  Some("int_5"), 9, "int_4 int_1"),
        (Some(1), Some("a"), None,    None,          9, "int_2 int_1"),
        (Some(1), Some("a"), settled, None,          9, "int_2"),
        (Some(1), Some("a"), None,    Some("int_2"), 9, "int_1"),
        (Some(2), Some("b"), None,    None,          9, ""),
        (None,    Some("a"), None,    None,          9, "int_3 int_2 int_1"),
        (None,    Some("a"), settled, None,          1, "int_3"),
        (Some(3), no,        None,    None,          9, ""),
    ];
    for (agent, key, state, before, limit, expected) in table {
        let query = IntentQuery {
            agent: agent.map(agent_id),
            key: key.map(idempotency_key),
            state,
            before: before.map(intent_id),
            limit,
        };
        let name = format!("{query:?}");
        let found = world.read(Reads { intents: Some(query), ..Reads::default() }).await;
        assert_eq!(ids(&found.intents), expected, "{name}");
    }
    assert_eq!(world.intent("int_4").await.unwrap().created_at, intent("int_4").created_at);
}
