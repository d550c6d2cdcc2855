//! A person's part: who may decide, who is first, until when, and what is checked again after.

use std::time::Duration;

use gate_authority::AdminError;
use gate_core::{ApprovalState, Denier, Dispute, Intent, State, Work};
use gate_core::{Authority, AuthorityError};

use crate::till::{Step, book};
use crate::world::{ASKS, ASKS_AND_GOES_ON, HOUR, LEASE, World, approval, codes, run, user};

const MS: Duration = Duration::from_millis(1);

/// What somebody tries with a pending request.
type Deed = fn(&World, &Intent) -> Result<(), String>;

const DEEDS: [(&str, Deed); 5] = [
    ("approve", |world, intent| {
        let done = run(world.admin().approve(approval(intent), &user("rita"), Some("fine")));
        done.map(drop).map_err(|error| error.to_string())
    }),
    ("deny", |world, intent| {
        let done = run(world.admin().deny(approval(intent), &user("mona"), "a duplicate"));
        done.map(drop).map_err(|error| error.to_string())
    }),
    ("expire", |world, _| {
        world.clock.advance(24 * HOUR);
        if world.sweep() == 1 { Ok(()) } else { Err("nothing expired".to_owned()) }
    }),
    ("withdraw", |world, intent| {
        world.cancel(&intent.id).map(drop).map_err(|error| error.to_string())
    }),
    ("cancel", |world, intent| {
        run(world.admin().cancel(&intent.id)).map(drop).map_err(|error| error.to_string())
    }),
];

/// Whoever comes first decides; the second is told where it stands, and changes nothing.
#[test]
fn the_first_decides_and_the_second_sees_it() {
    #[rustfmt::skip]
    let table = [
        // first      | second: approve   deny      expire    withdraw  cancel
        "approve      | approved  approved  expired   canceled  canceled",
        "deny         | denied    denied    denied    denied    denied",
        "expire       | expired   expired   expired   expired   expired",
        "withdraw     | canceled  canceled  canceled  canceled  canceled",
        "cancel       | canceled  canceled  canceled  canceled  canceled",
    ];
    for (row, (first, do_first)) in table.into_iter().zip(DEEDS) {
        let cells = row.split_once('|').unwrap().1.split_whitespace();
        for (expected, (second, do_second)) in cells.zip(DEEDS) {
            let case = format!("{first}, then {second}");
            let world = World::new(ASKS);
            let intent = world.intent("k ch_1 3000");
            do_first(&world, &intent).unwrap();
            let between = world.stored(&intent.id);
            let history = world.history(&intent.id);
            let answer = do_second(&world, &intent);
            let after = world.stored(&intent.id);
            assert_eq!(after.state.as_str(), expected, "{case}");
            assert_eq!(answer.is_ok(), after.state != between.state, "{case}: {answer:?}");
            if let Err(message) = answer {
                let sees = second == "expire" || message.contains(between.state.as_str());
                assert!(sees, "{case}: {message}");
                assert_eq!(world.history(&intent.id), history, "{case}");
                assert_eq!(after.approval, between.approval, "{case}");
            }
            assert_eq!(world.till.sent().len(), 0, "{case}");
        }
    }
}

#[test]
fn who_may_decide() {
    // `mona` owns the agent here.
    #[rustfmt::skip]
    let table = [
        // user      may     what is said
        ("rita",   true,  ""),
        ("mona",   false, "mona owns agent bot: somebody else has to decide"),
        ("vic",    false, "vic is viewer and may not decide"),
        ("nobody", false, "there is no user nobody"),
    ];
    for (name, may, said) in table {
        for deny in [false, true] {
            let world = World::new(ASKS_AND_GOES_ON);
            let intent = world.intent("k ch_1 3000");
            let admin = world.admin();
            let answer = if deny {
                run(admin.deny(approval(&intent), &user(name), "no"))
            } else {
                run(admin.approve(approval(&intent), &user(name), None))
            };
            assert_eq!(answer.is_ok(), may, "{name}");
            match answer {
                Ok(intent) => {
                    let approval = intent.approval.unwrap();
                    assert_eq!(approval.decided_by, Some(user(name)));
                    assert_eq!(approval.decided_at, Some(intent.updated_at));
                }
                Err(error) => {
                    assert!(error.to_string().contains(said), "{name}: {error}");
                    assert_eq!(world.history(&intent.id), "pending_approval");
                }
            }
        }
    }
    // An owner of ours that does not own this agent may.
    let world = World::new(ASKS);
    let intent = world.intent("k ch_1 3000");
    run(world.admin().approve(approval(&intent), &user("mona"), None)).unwrap();
}

#[test]
fn a_denial_needs_a_note() {
    let world = World::new(ASKS);
    let intent = world.intent("k ch_1 3000");
    for note in ["", "  \n", &"x".repeat(501)] {
        let error = run(world.admin().deny(approval(&intent), &user("rita"), note)).unwrap_err();
        assert!(matches!(error, AdminError::Invalid(_)), "{error}");
    }
    let denied = run(world.admin().deny(approval(&intent), &user("rita"), " not ours ")).unwrap();
    assert_eq!(denied.denied_by, Some(Denier::Person));
    assert_eq!(codes(&denied), ["approval_denied", "approval_threshold"]);
    assert_eq!(denied.approval.unwrap().note.as_deref(), Some("not ours"));
}

/// At its very moment it has expired: for the reviewer, for the sweeper, for the gateway.
#[test]
fn expiry_to_the_millisecond() {
    for (age, in_time) in [(24 * HOUR - MS, true), (24 * HOUR, false)] {
        for (name, deed) in [DEEDS[0], DEEDS[1]] {
            let world = World::new(ASKS);
            let intent = world.intent("k ch_1 3000");
            world.clock.advance(age);
            let answer = deed(&world, &intent);
            assert_eq!(answer.is_ok(), in_time, "{name} at {age:?}");
            if let Err(message) = answer {
                assert!(message.contains("past its time"), "{message}");
                assert_eq!(world.sweep(), 1);
                assert_eq!(world.history(&intent.id), "pending_approval expired");
            }
        }
        let world = World::new(ASKS);
        world.intent("k ch_1 3000");
        world.clock.advance(age);
        assert_eq!(world.sweep(), usize::from(!in_time), "the sweeper at {age:?}");
    }
    // An expiry is nobody's denial.
    let world = World::new(ASKS);
    let intent = world.intent("k ch_1 3000");
    world.clock.advance(24 * HOUR);
    world.sweep();
    let expired = world.stored(&intent.id);
    assert_eq!((expired.denied_by, codes(&expired)[0]), (None, "approval_expired"));
    assert_eq!(expired.approval.unwrap().state, ApprovalState::Expired);
}

/// An approval can be used until the later of its expiry and 24 hours after it was given.
#[test]
fn an_approval_is_usable_for_a_while() {
    #[rustfmt::skip]
    let table = [
        // timeout  approved after  used after that    usable
        ("24h",     HOUR,            24 * HOUR - MS,   true),
        ("24h",     HOUR,            24 * HOUR,        false),
        ("3d",      HOUR,            71 * HOUR - MS,   true),
        ("3d",      HOUR,            71 * HOUR,        false),
        ("1m",      Duration::ZERO,  24 * HOUR - MS,   true),
        ("1m",      Duration::ZERO,  24 * HOUR,        false),
    ];
    for (timeout, decided, used, usable) in table {
        let case = format!("{timeout} {decided:?} {used:?}");
        let later = || {
            let world = World::new(ASKS);
            let (_, text) = run(world.admin().policy()).unwrap();
            let text = text.replace(
                "[organization]",
                &format!("[organization]\napproval_timeout = \"{timeout}\""),
            );
            run(world.admin().apply_policy(&text)).unwrap();
            let intent = world.intent("k ch_1 3000");
            world.clock.advance(decided);
            world.approve(&intent);
            world.clock.advance(used);
            (world, intent)
        };
        let (world, intent) = later();
        let answer = world.ask("k ch_1 3000");
        assert_eq!(answer, if usable { "settled again" } else { "expired again" }, "{case}");
        assert_eq!(world.till.made().len(), usize::from(usable), "{case}");
        if !usable {
            let history = "pending_approval approved expired";
            assert_eq!(world.history(&intent.id), history, "{case}");
        }
        let (world, _) = later();
        assert_eq!(world.sweep(), usize::from(!usable), "{case}: the sweeper");
    }
}

/// The gateway does not even look at what can no longer be used.
#[test]
fn the_gateway_leaves_what_is_past_its_time_to_the_sweeper() {
    let world = World::new(ASKS_AND_GOES_ON);
    let intent = world.intent("k ch_1 3000");
    world.approve(&intent);
    world.clock.advance(24 * HOUR - LEASE);
    assert!(world.reconcile().driven.is_empty());
    assert_eq!((world.sweep(), world.state(&intent.id)), (1, State::Expired));
}

/// Five justifications at most, each once; they are for the reviewers and decide nothing.
#[test]
fn justifications() {
    let world = World::new(ASKS);
    let intent = world.intent("k ch_1 3000 [one]");
    for words in ["one", "two", "two", "three", "four", "five", "six", "one"] {
        let answer = world.ask(&format!("k ch_1 3000 [{words}]"));
        assert_eq!(answer, "pending_approval again");
    }
    let kept = world.stored(&intent.id).approval.unwrap().justifications;
    assert_eq!(kept, ["one", "two", "three", "four", "five"]);
    assert_eq!(world.history(&intent.id), "pending_approval");
    // Nobody else adds any.
    let words = gate_core::Justification::parse("me too").unwrap();
    assert!(run(world.authority.justify(&world.other, &intent.id, &words)).is_err());
    world.deny(&intent);
    world.ask("k ch_1 3000 [please]");
    assert_eq!(world.stored(&intent.id).approval.unwrap().justifications.len(), 5);
}

/// What changed between the approval and the execution: denied with the code that says what, and
/// never shrunk.
#[test]
fn the_charge_is_looked_at_again() {
    type Change = fn(&World);
    let disputed: Change = |w| w.till.change("ch_1", |charge| charge.dispute = Dispute::Open);
    let inquiry: Change = |w| w.till.change("ch_1", |charge| charge.dispute = Dispute::Refundable);
    let gone: Change = |w| w.till.change("ch_1", |charge| book(charge, 10_000));
    let less: Change = |w| w.till.change("ch_1", |charge| book(charge, 7_001));
    let enough: Change = |w| w.till.change("ch_1", |charge| book(charge, 7_000));
    #[rustfmt::skip]
    let table = [
        ("disputed",        disputed, "charge_disputed"),
        ("all gone",        gone,     "charge_already_refunded"),
        ("a cent too few",  less,     "amount_over_refundable"),
        ("just enough",     enough,   "settled"),
        ("an inquiry",      inquiry,  "settled"),
    ];
    for (what, change, expected) in table {
        let world = World::new(ASKS_AND_GOES_ON);
        let intent = world.intent("k ch_1 3000");
        world.approve(&intent);
        change(&world);
        world.reconcile();
        let stored = world.stored(&intent.id);
        if expected == "settled" {
            assert_eq!(world.till.made()[0].minor, 3000, "{what}");
            assert_eq!(stored.state, State::Settled, "{what}");
            continue;
        }
        assert_eq!(codes(&stored), [expected, "approval_threshold"], "{what}");
        assert_eq!(stored.denied_by, Some(Denier::Policy), "{what}");
        assert_eq!(world.history(&intent.id), "pending_approval approved denied", "{what}");
        assert_eq!((world.till.sent().len(), world.spent()), (0, "0.00 USD".to_owned()));
    }
}

/// A person's yes does not outweigh the policy of the day on which it is used.
#[test]
fn the_policy_is_looked_at_again() {
    #[rustfmt::skip]
    let table = [
        // the policy when it is executed                             the reasons, or settled
        ("daily_cap = \"29.99\"",                                     "approval_stale daily_cap"),
        ("daily_cap = \"200.00\"\nmax_per_payment = \"29.99\"",       "approval_stale max_per_payment"),
        ("",                                                          "approval_stale daily_cap"),
        ("daily_cap = \"30.00\"\napproval_threshold = \"1.00\"",      "settled"),
        ("daily_cap = \"30.00\"",                                     "settled"),
    ];
    for (entry, expected) in table {
        let world = World::new(ASKS_AND_GOES_ON);
        let intent = world.intent("k ch_1 3000");
        world.approve(&intent);
        world.policy(entry);
        world.reconcile();
        let stored = world.stored(&intent.id);
        assert_eq!(stored.policy_version, 2, "{entry}");
        if expected == "settled" {
            assert_eq!(stored.state, State::Settled, "{entry}");
        } else {
            assert_eq!(codes(&stored).join(" "), expected, "{entry}");
            assert_eq!((stored.state, world.till.sent().len()), (State::Denied, 0), "{entry}");
            // The policy said no, so a new request takes over the key, and asks a person anew.
            world.policy(ASKS_AND_GOES_ON);
            assert_eq!(world.ask("k ch_1 3000"), "pending_approval", "{entry}");
        }
    }
}

/// An approval is one refund's: a claim that was overtaken executes nothing.
#[test]
fn an_approval_is_executed_under_the_last_claim_only() {
    let world = World::new(ASKS_AND_GOES_ON);
    let intent = world.intent("k ch_1 3000");
    world.approve(&intent);
    let claim = |world: &World| run(world.authority.claim(Work::Approved, 1)).unwrap().pop();
    let first = claim(&world).unwrap();
    assert!(claim(&world).is_none(), "leased");
    world.clock.advance(LEASE);
    let second = claim(&world).unwrap();
    let charge = world.charge("ch_1");
    let stale = run(world.authority.execute(&first, &charge));
    assert!(matches!(stale, Err(AuthorityError::Stale)));
    let decided = run(world.authority.execute(&second, &charge)).unwrap();
    assert!(decided.lease.is_some());
    let again = run(world.authority.execute(&second, &charge)).unwrap();
    assert_eq!((again.intent.state, again.lease), (State::Submitted, None), "once");
    assert_eq!(world.spent(), "30.00 USD");
    // Of another charge it is nobody's approval.
    let world = World::new(ASKS_AND_GOES_ON);
    let intent = world.intent("k ch_1 3000");
    world.approve(&intent);
    let claimed = claim(&world).unwrap();
    assert!(run(world.authority.execute(&claimed, &world.charge("ch_2"))).is_err());
    assert_eq!(world.state(&intent.id), State::Approved);
}

/// What cannot be refunded just now is tried again; it is not denied for good.
#[test]
fn what_may_yet_become_possible_stays_approved() {
    let world = World::new(ASKS_AND_GOES_ON);
    let intent = world.intent("k ch_1 3000");
    world.approve(&intent);
    world.till.set_down(true);
    assert_eq!(world.reconcile().failed.len(), 1);
    assert_eq!(world.state(&intent.id), State::Approved);
    world.till.set_down(false);
    world.till.script(&[Step::NotStored, Step::Made("pending")]);
    world.reconcile();
    assert_eq!(world.state(&intent.id), State::Settled);
}
