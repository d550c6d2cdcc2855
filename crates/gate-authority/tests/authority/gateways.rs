//! Gateways that ask over the network: their keys, and that each signed call is taken once.

use std::time::Duration;

use gate_authority::{AdminError, Caller, LocalAuthority};
use gate_core::{
    AccountId, ActionError, AgentName, Authority, AuthorityError, GatewayFault, Grants,
    Justification, Notes, Outcome, Records, State, ToolUse, Work,
};
use gate_store::{GatewayRow, Money, Nonce, Reads, Store};

use crate::world::{ASKS, ASKS_AND_GOES_ON, HOUR, LEASE, PLAIN, World, ask, run};

const MS: Duration = Duration::from_millis(1);

/// Makes a gateway with the public key of ones, twos, ….
fn create(world: &World, name: &str, key: u8) -> GatewayRow {
    run(world.admin().create_gateway(&AgentName::parse(name).unwrap(), [key; 32])).unwrap()
}

fn rotate(world: &World, name: &str, key: u8, at_once: bool) {
    run(world.admin().rotate_gateway(name, [key; 32], at_once)).unwrap();
}

/// Whether a key is taken, or why not.
fn key(world: &World, row: &GatewayRow, key: u8) -> &'static str {
    match run(world.authority.gateway_key(&row.id, |public| *public == [key; 32])) {
        Ok(_) => "taken",
        Err(AuthorityError::Gateway(fault)) => fault.as_str(),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_rotated_key_is_taken_for_24_hours_or_not_at_all() {
    #[rustfmt::skip]
    let table = [
        // at once, how much later,  the first key,     the second
        (false, Duration::ZERO,      "taken",           "taken"),
        (false, 24 * HOUR - MS,      "taken",           "taken"),
        (false, 24 * HOUR,           "gateway_revoked", "taken"),
        (true,  Duration::ZERO,      "gateway_revoked", "taken"),
    ];
    for (at_once, later, first, second) in table {
        let world = World::new(PLAIN);
        let row = create(&world, "east", 1);
        assert_eq!(key(&world, &row, 1), "taken");
        assert_eq!(key(&world, &row, 2), "gateway_unknown");
        rotate(&world, "east", 2, at_once);
        world.clock.advance(later);
        let found = (key(&world, &row, 1), key(&world, &row, 2));
        assert_eq!(found, (first, second), "{at_once} {later:?}");
        run(world.admin().revoke_gateway(row.id.as_str())).unwrap();
        assert_eq!(key(&world, &row, 2), "gateway_revoked", "on the next call");
        assert!(matches!(
            run(world.admin().rotate_gateway("east", [3; 32], false)),
            Err(AdminError::Conflict(_))
        ));
    }
}

#[test]
fn never_more_than_two_keys_are_valid_and_versions_count_up() {
    let world = World::new(PLAIN);
    let row = create(&world, "east", 1);
    for new in 2..6 {
        world.clock.advance(HOUR);
        rotate(&world, "east", new, false);
        for known in 1..=new {
            let taken = key(&world, &row, known) == "taken";
            assert_eq!(taken, known + 1 >= new, "key {known} of {new}");
        }
        let listed = run(world.admin().gateways()).unwrap();
        assert_eq!(listed[0].keys.last().unwrap().version, u32::from(new));
    }
    assert!(matches!(
        run(world.admin().create_gateway(&AgentName::parse("east").unwrap(), [9; 32])),
        Err(AdminError::Conflict(_))
    ));
    assert!(matches!(
        run(world.admin().rotate_gateway("west", [9; 32], false)),
        Err(AdminError::NotFound(_))
    ));
}

fn caller(row: &GatewayRow, nonce: &str) -> Caller {
    Caller {
        gateway: row.id.clone(),
        version: 1,
        nonce: Nonce { keyid: row.id.to_string(), nonce: nonce.to_owned() },
    }
}

/// One call of the port, under a caller.
type Call = fn(&World, &LocalAuthority) -> Result<(), AuthorityError>;

/// Whatever a call came to, it is not taken a second time, at once or within its three minutes, and
/// changes nothing then.
#[test]
fn a_call_that_came_before_changes_nothing() {
    #[rustfmt::skip]
    let table: [(&str, &str, Call); 10] = [
        ("decide", PLAIN, |w, a| run(a.decide(&w.key, &ask("k ch_1 3000"), &w.charge("ch_1"), &w.attempt())).map(drop)),
        ("a decision that is an error", PLAIN, |w, a| {
            drop(w.decide("k ch_1 3000"));
            match run(a.decide(&w.key, &ask("k ch_1 4000"), &w.charge("ch_1"), &w.attempt())) {
                Err(AuthorityError::Asked(ActionError::IdempotencyKeyReused { .. })) => Ok(()),
                other => other.map(drop),
            }
        }),
        ("claim", PLAIN, |w, a| {
            drop(w.decide("k ch_1 3000"));
            w.clock.advance(LEASE);
            let claimed = run(a.claim_of(Work::Submitted, 9, None))?;
            w.clock.advance(LEASE);
            assert_eq!(claimed.len(), 1);
            Ok(())
        }),
        ("a claim of nothing", PLAIN, |w, a| {
            assert!(run(a.claim_of(Work::Submitted, 9, None))?.is_empty());
            drop(w.decide("k ch_1 3000"));
            w.clock.advance(LEASE);
            Ok(())
        }),
        ("execute", ASKS_AND_GOES_ON, |w, a| {
            w.approve(&w.intent("k ch_1 3000"));
            let claim = run(w.authority.claim(Work::Approved, 1))?.remove(0);
            assert_eq!(run(a.execute(&claim, &w.charge("ch_1")))?.intent.state, State::Submitted);
            Ok(())
        }),
        ("record", PLAIN, |w, a| {
            let decided = w.decide("k ch_1 3000");
            let fence = decided.lease.unwrap().fence;
            run(a.record(&decided.intent.id, fence, &Outcome::NotExecuted("x".to_owned()))).map(drop)
        }),
        ("justify", ASKS, |w, a| {
            let words = Justification::parse("the parcel was lost").unwrap();
            run(a.justify(&w.key, &w.intent("k ch_1 3000").id, &words)).map(drop)
        }),
        ("cancel", ASKS, |w, a| run(a.cancel(&w.key, &w.intent("k ch_1 3000").id)).map(drop)),
        ("note", PLAIN, |_, a| run(a.note_event("evt_1")).map(|new| assert!(new))),
        ("tool", PLAIN, |w, a| run(a.use_tool(&w.key, &ToolUse { tool: "customers_search".to_owned(), ..ToolUse::default() })).map(|granted| assert!(!granted))),
    ];
    for (name, entry, call) in table {
        let world = World::new(entry);
        let row = create(&world, "east", 1);
        let serving = world.authority.serving(caller(&row, "1"));
        call(&world, &serving).unwrap_or_else(|error| panic!("{name}: {error}"));
        let everything = || {
            let seen = world.read(Reads {
                audit: Some(gate_store::AuditRange::WHOLE),
                books: true,
                ..Reads::default()
            });
            format!(
                "{:?} {:?} {:?} {}",
                seen.audit,
                seen.books,
                world.intents(),
                world.store.commits()
            )
        };
        let before = everything();
        for later in [Duration::ZERO, Duration::from_secs(100)] {
            world.clock.advance(later);
            let attempt = world.attempt();
            let ask = ask("k ch_1 3000");
            let calls = [
                run(serving.decide(&world.key, &ask, &world.charge("ch_1"), &attempt)).map(drop),
                run(serving.claim_of(Work::Submitted, 9, None)).map(drop),
                run(serving.note_event("evt_2")).map(drop),
            ];
            for again in calls {
                let fault = GatewayFault::NonceReused;
                assert!(
                    matches!(again, Err(AuthorityError::Gateway(found)) if found == fault),
                    "{name}: {again:?}"
                );
            }
            assert_eq!(everything(), before, "{name}");
        }
    }
}

#[test]
fn a_key_that_is_over_by_the_time_of_the_transaction_changes_nothing() {
    let world = World::new(PLAIN);
    let row = create(&world, "east", 1);
    let serving = world.authority.serving(caller(&row, "1"));
    run(world.admin().revoke_gateway("east")).unwrap();
    let commits = world.store.commits();
    let refused = run(serving.note_event("evt_1"));
    assert!(matches!(refused, Err(AuthorityError::Gateway(GatewayFault::Revoked))));
    assert_eq!(world.store.commits(), commits);
    assert!(run(world.authority.note_event("evt_1")).unwrap(), "it was not noted");
}

#[test]
fn reads_are_taken_once_and_the_last_use_is_written_once_a_minute() {
    let world = World::new(PLAIN);
    let row = create(&world, "east", 1);
    let used = || run(world.admin().gateways()).unwrap()[0].keys[0].last_used_at;
    let begin = world.store.commits();
    assert_eq!(used(), None);
    let table = [
        // nonce, seconds later, taken, commits by then
        ("1", 0, true, 1),
        ("1", 0, false, 1),
        ("2", 0, true, 1),
        ("3", 59, true, 1),
        ("4", 1, true, 2),
        ("2", 1, false, 2),
        ("5", 60, true, 3),
    ];
    for (nonce, later, taken, commits) in table {
        world.clock.advance(Duration::from_secs(later));
        let read = run(world.authority.take_read(&caller(&row, nonce)));
        assert_eq!(read.is_ok(), taken, "{nonce} {later}");
        assert_eq!(world.store.commits() - begin, commits, "{nonce} {later}");
    }
    assert_eq!(used(), Some(run(world.authority.time()).unwrap()));
    // A call that changes something notes it in its own transaction.
    world.clock.advance(HOUR);
    run(world.authority.serving(caller(&row, "9")).note_event("evt_1")).unwrap();
    assert_eq!(world.store.commits() - begin, 4);
    assert_eq!(used(), Some(run(world.authority.time()).unwrap()));
}

#[test]
fn a_gateway_gets_work_of_its_account_and_mode_only() {
    let world = World::new(PLAIN);
    drop(world.decide("k ch_1 3000"));
    world.clock.advance(LEASE);
    let acct = AccountId::parse("acct_1").unwrap();
    let table = [
        (Some(Money { account: Some(acct), livemode: false }), 0),
        (Some(Money { account: None, livemode: true }), 0),
        (Some(Money { account: None, livemode: false }), 1),
    ];
    for (of, expected) in table {
        let claimed = run(world.authority.claim_of(Work::Submitted, 9, of.clone())).unwrap();
        assert_eq!(claimed.len(), expected, "{of:?}");
    }
}

#[test]
fn what_a_gateway_is_told_of_an_agent() {
    let world = World::new(PLAIN);
    let standing = run(world.authority.standing(&world.key)).unwrap();
    assert_eq!((standing.agent.name.as_str(), standing.stopped), ("bot", None));
    assert!(standing.tools.is_empty(), "no policy of this version grants one");
    run(world.admin().stop(gate_authority::Whom::Agent("bot"), None)).unwrap();
    let stopped = run(world.authority.standing(&world.key)).unwrap().stopped;
    assert_eq!(stopped.map(|code| code.as_str()), Some("agent_stopped"));
    let stranger = gate_core::AgentKey::new("bb_agent_x".to_owned());
    assert!(matches!(
        run(world.authority.standing(&stranger)),
        Err(AuthorityError::Unauthenticated)
    ));
}
