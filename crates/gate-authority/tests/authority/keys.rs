//! Agents: their keys, their end, and the stops that hold them.

use std::time::Duration;

use gate_authority::{AdminError, KeyTerms, Whom};
use gate_core::{AgentKey, AgentName, Authority, Records, Source, State, Work};
use gate_policy::NewAgent;
use gate_store::{AgentBy, AgentRow, Reads, Write};

use crate::outcomes::write;
use crate::till::Step;
use crate::world::{ASKS, ASKS_AND_GOES_ON, HOUR, LEASE, PLAIN, World, codes, run, user};

const MS: Duration = Duration::from_millis(1);

fn is_taken(world: &World, key: &AgentKey) -> bool {
    run(world.authority.agent(key)).is_ok()
}

fn rotate(world: &World, at_once: bool) -> AgentKey {
    run(world.admin().rotate_agent("bot", at_once)).unwrap().1
}

fn bot(world: &World) -> AgentRow {
    let agent = Some(AgentBy::Name("bot".to_owned()));
    world.read(Reads { agent, ..Reads::default() }).agent.unwrap()
}

#[test]
fn a_rotated_key_is_taken_for_24_hours_or_not_at_all() {
    for (at_once, later, taken) in [
        (false, Duration::ZERO, true),
        (false, 24 * HOUR - MS, true),
        (false, 24 * HOUR, false),
        (true, Duration::ZERO, false),
    ] {
        let world = World::new(PLAIN);
        let new = rotate(&world, at_once);
        world.clock.advance(later);
        assert_eq!(is_taken(&world, &world.key), taken, "the old one: {at_once} {later:?}");
        assert!(is_taken(&world, &new), "the new one: {at_once} {later:?}");
        // Both are the same agent: what was asked under one is answered under the other.
        assert_eq!(world.ask_as(&new, "k ch_1 3000"), "settled");
        let answer = world.ask("k ch_1 3000");
        assert_eq!(answer, if taken { "settled again" } else { "unauthenticated" });
    }
}

/// Whatever is rotated how fast, two keys are the most.
#[test]
fn never_more_than_two_keys_are_valid() {
    for at_once in [[false; 4], [false, false, true, false], [false, true, false, false]] {
        let world = World::new(PLAIN);
        let mut keys = vec![world.key.clone()];
        for at_once in at_once {
            world.clock.advance(HOUR);
            keys.push(rotate(&world, at_once));
            let taken: Vec<bool> = keys.iter().map(|key| is_taken(&world, key)).collect();
            let newest = taken.len() - 1;
            for (n, taken) in taken.into_iter().enumerate() {
                let expected = n == newest || (n + 1 == newest && !at_once);
                assert_eq!(taken, expected, "key {n} of {newest}");
            }
            assert!(bot(&world).keys.len() <= 3, "what has ended is forgotten");
        }
    }
    // A second rotation does not lengthen what the first left.
    let world = World::new(PLAIN);
    let second = rotate(&world, false);
    world.clock.advance(12 * HOUR);
    rotate(&world, false);
    assert!(!is_taken(&world, &world.key) && is_taken(&world, &second));
}

#[test]
fn a_revoked_agent_is_over() {
    let world = World::new(ASKS);
    let settled = world.intent("done ch_3 1000");
    let pending = world.intent("k1 ch_1 3000");
    let approved = world.intent("k2 ch_2 3000");
    world.approve(&approved);
    world.till.script(&[Step::Stored]);
    let submitted = world.intent("k3 ch_3 1000");
    run(world.admin().revoke_agent("bot")).unwrap();

    assert_eq!(world.ask("k4 ch_1 100"), "unauthenticated");
    assert_eq!(world.ask("done ch_3 1000"), "unauthenticated");
    assert!(run(world.authority.intent(&world.key, &settled.id, Duration::ZERO)).is_err());
    assert!(run(world.authority.budget(&world.key)).is_err());
    for (intent, history) in [
        (&settled, "submitted settled"),
        (&pending, "pending_approval canceled"),
        (&approved, "pending_approval approved canceled"),
        (&submitted, "submitted needs_person"),
    ] {
        assert_eq!(world.history(&intent.id), history);
    }
    assert_eq!(codes(&world.stored(&approved.id))[0], "approval_canceled");
    assert_eq!(world.ask_as(&world.other, "k ch_1 100"), "settled", "the other agent");
    // What may have left is still driven to its end.
    world.clock.advance(23 * HOUR);
    world.till.script(&[]);
    assert_eq!(world.reconcile().failed.len(), 0);
    assert!(world.stored(&submitted.id).needs_person);
    // The name is never another agent's, and no key brings it back.
    let again = run(world.admin().create_agent(&AgentName::parse("bot").unwrap(), None, false));
    assert!(matches!(again, Err(AdminError::Conflict(_))));
    let rotated = run(world.admin().rotate_agent("bot", true));
    assert!(matches!(rotated, Err(AdminError::Conflict(_))));
    // Twice is once.
    let entries = bot(&world).revoked_at;
    world.clock.advance(HOUR);
    assert_eq!(run(world.admin().revoke_agent("bot")).unwrap().revoked_at, entries);
}

/// Should a revocation ever have missed something that was approved, it is not executed.
#[test]
fn what_a_revoked_agent_asked_for_is_not_executed() {
    let world = World::new(ASKS_AND_GOES_ON);
    let intent = world.intent("k ch_1 3000");
    world.approve(&intent);
    let mut agent = bot(&world);
    agent.revoked_at = Some(intent.created_at);
    write(&world, vec![Write::PutAgent(agent)]);
    world.reconcile();
    assert_eq!(world.till.sent().len(), 0);
    assert_eq!(world.history(&intent.id), "pending_approval approved canceled");
}

/// A stop acts on the next request, holds what waits or was approved, and ends nothing.
#[test]
fn a_stop_holds_and_a_resume_lets_go() {
    for (whom, code) in
        [(Whom::Agent("bot"), "agent_stopped"), (Whom::Everybody, "organization_stopped")]
    {
        let everybody = whom == Whom::Everybody;
        let world = World::new(ASKS_AND_GOES_ON);
        let pending = world.intent("pending ch_1 3000");
        let approved = world.intent("approved ch_2 3000");
        world.approve(&approved);
        run(world.admin().stop(whom, Some("strange refunds"))).unwrap();

        assert_eq!(world.ask("new ch_3 100"), format!("denied {code}"));
        assert_eq!(
            run(world.authority.budget(&world.key)).unwrap().stopped.unwrap().as_str(),
            code
        );
        let other = if everybody { format!("denied {code}") } else { "settled".to_owned() };
        assert_eq!(world.ask_as(&world.other, "new ch_3 100"), other);
        // Neither the reconciler nor the agent executes; a person may still decide.
        world.reconcile();
        world.clock.advance(LEASE);
        assert_eq!(world.ask("approved ch_2 3000"), "approved again");
        world.approve(&pending);
        world.reconcile();
        for intent in [&pending, &approved] {
            assert_eq!(world.state(&intent.id), State::Approved, "{code}");
        }
        let sent = usize::from(!everybody);
        assert_eq!(world.till.sent().len(), sent);
        // A new policy lifts no stop.
        world.policy(ASKS_AND_GOES_ON);
        assert_eq!(world.ask("newer ch_3 100"), format!("denied {code}"));

        run(world.admin().resume(whom, None)).unwrap();
        world.reconcile();
        for intent in [&pending, &approved] {
            assert_eq!(
                world.history(&intent.id),
                "pending_approval approved submitted settled",
                "{code}"
            );
        }
        // Denied by the stop is denied by nobody: decided anew.
        assert_eq!(world.ask("new ch_3 100"), "settled");
    }
}

/// Stopped between the claim and the decision, an approved refund stays approved.
#[test]
fn a_stop_is_seen_at_the_last_moment() {
    let world = World::new(ASKS_AND_GOES_ON);
    let intent = world.intent("k ch_1 3000");
    world.approve(&intent);
    let mut claims = run(world.authority.claim(Work::Approved, 1)).unwrap();
    let claim = claims.pop().unwrap();
    run(world.admin().stop(Whom::Agent("bot"), None)).unwrap();
    let decided = run(world.authority.execute(&claim, &world.charge("ch_1"))).unwrap();
    assert_eq!((decided.intent.state, decided.lease), (State::Approved, None));
    assert_eq!(world.spent(), "0.00 USD");
}

/// Under a stop nothing is sent again; what is found is taken.
#[test]
fn a_stopped_agents_unknown_outcome_is_only_looked_for() {
    for (step, state) in [(Step::Lost, "submitted"), (Step::MadeAndLost, "settled")] {
        let world = World::new(PLAIN);
        world.till.script(&[step]);
        let asked = crate::world::ask("k ch_1 3000");
        // The worker dies as soon as the bytes have gone.
        crate::world::run_for(gate_core::Actions::refund(&*world.refunds, &world.key, asked), 3);
        assert_eq!(world.till.sent().len(), 1);
        let id = world.intents()[0].id.clone();
        assert_eq!(world.state(&id), State::Submitted);
        run(world.admin().stop(Whom::Everybody, None)).unwrap();
        world.reconcile();
        assert_eq!((world.till.sent().len(), world.state(&id).as_str()), (1, state), "{step:?}");
        run(world.admin().resume(Whom::Everybody, None)).unwrap();
        world.reconcile();
        assert_eq!((world.till.made().len(), world.state(&id)), (1, State::Settled), "{step:?}");
    }
}

#[test]
fn what_people_get_wrong_is_told() {
    let world = World::new(PLAIN);
    let admin = world.admin();
    let name = AgentName::parse("bot").unwrap();
    let role = |text: &str| [text.to_owned()];
    let table: [(&str, Result<(), AdminError>, &str); 9] = [
        ("a name taken", run(admin.create_agent(&name, None, false)).map(drop), "there is, or was"),
        ("no such agent", run(admin.rotate_agent("bob", false)).map(drop), "no agent bob"),
        ("no such agent", run(admin.revoke_agent("bob")).map(drop), "no agent bob"),
        ("no such agent", run(admin.stop(Whom::Agent("bob"), None)).map(drop), "no agent bob"),
        (
            "an empty note",
            run(admin.stop(Whom::Everybody, Some(" "))).map(drop),
            "a note is needed",
        ),
        ("a user twice", run(admin.create_user(&user("rita"), &role("x"))).map(drop), "already"),
        ("no role", run(admin.create_user(&user("nina"), &[])).map(drop), "needs a role"),
        ("a bad role", run(admin.create_user(&user("nina"), &role("A B"))).map(drop), "not a role"),
        ("a bad policy", run(admin.apply_policy("[agent.bot]")).map(drop), "not applied"),
    ];
    for (case, result, part) in table {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(part), "{case}: {error}");
    }
    // A starter's entry is written, once, with an owner that exists.
    let new = AgentName::parse("new").unwrap();
    let mona = user("mona");
    let nobody = user("nobody");
    assert!(run(admin.create_agent(&new, Some(&nobody), true)).is_err());
    run(admin.create_agent(&new, Some(&mona), true)).unwrap();
    let (version, text) = run(admin.policy()).unwrap();
    assert_eq!(version, 2);
    assert!(text.contains("[agents.new]\nowner = \"mona\""), "{text}");
}

#[test]
fn a_key_lasts_as_long_as_it_was_made_for() {
    let day = 24 * HOUR;
    let terms = |days: Option<u32>| KeyTerms { lifetime: days.map(|n| n * day), sources: None };
    let new_agent = |terms: &KeyTerms| {
        let world = World::new(PLAIN);
        let name = AgentName::parse("temp").unwrap();
        let made = run(world.admin().create_agent_under(terms, &name, &NewAgent::default()));
        made.map(|(_, key)| (world, key)).map_err(|error| error.to_string())
    };
    let rotated = |world: &World, terms: &KeyTerms, at_once| {
        run(world.admin().rotate_agent_under(terms, "temp", at_once)).unwrap().1
    };
    let (world, first) = new_agent(&terms(Some(90))).unwrap();
    world.clock.advance(90 * day - MS);
    assert!(is_taken(&world, &first), "until the last millisecond");
    // Rotated just before its end, the old key gets no grace beyond it.
    let second = rotated(&world, &terms(None), false);
    world.clock.advance(MS);
    assert_eq!((is_taken(&world, &first), is_taken(&world, &second)), (false, true));
    world.clock.advance(90 * day - MS - MS);
    assert!(is_taken(&world, &second), "as long as the one before");
    world.clock.advance(MS);
    assert!(!is_taken(&world, &second), "and no longer");
    // A key that has run out is replaced like any other, and now lasts otherwise.
    let third = rotated(&world, &terms(Some(7)), true);
    world.clock.advance(7 * day - MS);
    assert!(is_taken(&world, &third));
    world.clock.advance(MS);
    assert!(!is_taken(&world, &third));

    for (days, told) in
        [(0, "a key lasts longer than nothing"), (3650, ""), (3651, "at most 3650d")]
    {
        let error = new_agent(&terms(Some(days))).err().unwrap_or_default();
        assert!(error.contains(told) && error.is_empty() == told.is_empty(), "{days}: {error}");
    }
}

#[test]
fn an_agents_sources_stay_until_they_are_replaced() {
    let world = World::new(PLAIN);
    let sources = |texts: &[&str]| KeyTerms {
        sources: Some(texts.iter().map(|text| Source::parse(text).unwrap()).collect()),
        ..KeyTerms::default()
    };
    let rotate_to = |terms: &KeyTerms| run(world.admin().rotate_agent_under(terms, "bot", false));
    let may = |key: &AgentKey| {
        let agent = run(world.authority.agent(key)).unwrap();
        ["10.1.2.3", "2001:db8::1", "192.0.2.7"]
            .map(|address| agent.may_call_from(address.parse().unwrap()))
    };
    assert_eq!(may(&world.key), [true, true, true], "without any: from everywhere");
    let (_, second) = rotate_to(&sources(&["10.1.0.0/16", "2001:db8::/32"])).unwrap();
    let expected = [true, true, false];
    assert_eq!((may(&world.key), may(&second)), (expected, expected), "the old key's too");
    let third = rotate(&world, false);
    assert_eq!(may(&third), expected, "they stay");
    let (_, fourth) = rotate_to(&sources(&["192.0.2.7"])).unwrap();
    assert_eq!(may(&fourth), [false, false, true], "they are replaced");
    let told = world.audit().into_iter().rev().find(|row| row.entry.action == "agent.rotated");
    assert!(told.unwrap().entry.details.contains("\"192.0.2.7/32\""), "and it is told");
    let many: Vec<String> = (0..33).map(|n| format!("10.0.0.{n}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert!(rotate_to(&sources(&many[..32])).is_ok());
    let error = rotate_to(&sources(&many)).unwrap_err().to_string();
    assert!(error.starts_with("33 ranges are too many"), "{error}");
}
