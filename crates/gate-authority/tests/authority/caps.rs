//! Deciding and reserving: one step, whoever asks at once; caps to the micro-dollar, in the day in
//! which they were reserved.

use std::time::Duration;

use futures_util::future::join_all;
use gate_core::{Actions, Authority, Intent, Lease, Outcome, RefundStatus, State};

use crate::outcomes::{refund, refused, seen};
use crate::till::Step;
use crate::world::{ASKS, HOUR, LEASE, PLAIN, World, ask, at, codes, dollars, run, told};

const SEC: Duration = Duration::from_secs(1);

/// The answer to a decision was lost, and it is asked again.
#[test]
fn the_same_attempt_gets_the_same_answer_and_lease() {
    for text in ["k ch_1 3000", "- ch_1 3000"] {
        let world = World::new(PLAIN);
        let attempt = world.attempt();
        let first = world.decide_as(text, &attempt).unwrap();
        assert_eq!(first.lease, Some(Lease { fence: 1, span: LEASE }));
        world.clock.advance(10 * SEC);
        let again = world.decide_as(text, &attempt).unwrap();
        assert_eq!((&again.intent.id, again.replayed), (&first.intent.id, false));
        assert_eq!(again.lease, Some(Lease { fence: 1, span: LEASE - 10 * SEC }), "what is left");
        assert_eq!(again.intent.request, first.intent.request);
        assert_eq!(world.spent(), "30.00 USD", "one reservation");
        assert_eq!(world.history(&first.intent.id), "submitted", "one entry");
        // A clock that was set back lengthens no lease.
        world.clock.show("2026-10-29T12:00:00Z");
        let back = world.decide_as(text, &attempt).unwrap();
        assert_eq!(back.lease, Some(Lease { fence: 1, span: LEASE }));
    }
    let world = World::new("daily_cap = \"1.00\"");
    let attempt = world.attempt();
    let first = world.decide_as("k ch_1 3000", &attempt).unwrap();
    let again = world.decide_as("k ch_1 3000", &attempt).unwrap();
    assert_eq!((first.intent.id, first.intent.state), (again.intent.id, State::Denied));
    assert_eq!(world.intents().len(), 1);
}

/// Nobody is given a lease that is, or may be, somebody else's.
#[test]
fn a_lease_is_one_workers() {
    let world = World::new(PLAIN);
    let attempt = world.attempt();
    let decided = |text| world.decide_as(text, &attempt).unwrap();
    let id = decided("k ch_1 3000").intent.id;

    let twin = world.decide("k ch_1 3000");
    assert_eq!((&twin.intent.id, twin.lease, twin.replayed), (&id, None, true), "a twin");

    world.clock.advance(LEASE);
    assert_eq!(decided("k ch_1 3000").lease, None, "it has ended");
    let claims = run(world.authority.claim(gate_core::Work::Submitted, 9)).unwrap();
    let [claim] = &claims[..] else { panic!("{claims:?}") };
    assert_eq!((&claim.intent.id, claim.lease.fence), (&id, 2));
    assert!(run(world.authority.claim(gate_core::Work::Submitted, 9)).unwrap().is_empty());
    let late = decided("k ch_1 3000");
    assert_eq!((&late.intent.id, late.lease), (&id, None), "somebody took it over");

    // Not executed and decided again by another call: the first call's turn is over.
    let message = Outcome::NotExecuted("no".to_owned());
    run(world.authority.record(&id, 2, &message)).unwrap();
    let other = world.decide("k ch_1 3000");
    assert_eq!((&other.intent.id, other.lease.map(|lease| lease.fence)), (&id, Some(3)));
    assert_eq!(decided("k ch_1 3000").lease, None);
}

#[test]
fn a_cap_is_met_to_the_micro_dollar() {
    let table = [
        // cap, spent before, asked                     answer
        ("100.00", 0, 10_000, "settled"),
        ("99.999999", 0, 10_000, "denied daily_cap"),
        ("130.00", 3_000, 10_000, "settled"),
        ("129.999999", 3_000, 10_000, "denied daily_cap"),
        ("0.00", 0, 1, "denied daily_cap"),
    ];
    for (cap, before, asked, answer) in table {
        let world = World::new(&format!("daily_cap = \"{cap}\""));
        if before > 0 {
            assert_eq!(world.ask(&format!("before ch_2 {before}")), "settled");
        }
        assert_eq!(world.ask(&format!("k ch_1 {asked}")), answer, "{cap} {before} {asked}");
    }
    let world = World::new("daily_cap = \"129.999999\"\nmax_per_payment = \"50.00\"");
    world.ask("before ch_2 3000");
    let denied = world.intent("k ch_1 full");
    assert_eq!(codes(&denied), ["max_per_payment", "daily_cap"], "all reasons, hardest first");
    let reason = &denied.reasons[1];
    assert_eq!(reason.limit, Some(dollars("129.999999")));
    assert_eq!(reason.left, Some(dollars("99.999999")));
    assert_eq!(reason.resets_at, Some(at("2026-10-31T00:00:00Z")));
    assert_eq!(world.history(&denied.id), "denied");
    assert_eq!((denied.request, denied.lease_until), (None, None));
}

/// What nobody allowed is denied: no entry, no method, no host, no cap.
#[test]
fn what_does_not_stand_there_is_denied() {
    let table = [
        ("", "method_not_allowed"),
        ("[agents.bot]\n", "method_not_allowed"),
        ("[agents.bot]\nmethods = [\"stripe_refund\"]\ndaily_cap = \"9.00\"", "host_not_allowed"),
        (
            "[agents.bot]\nmethods = [\"stripe_refund\"]\n\
             allowed_hosts = [\"stripe-refund.action\"]",
            "daily_cap",
        ),
    ];
    for (text, code) in table {
        let world = World::new(PLAIN);
        run(world.admin().apply_policy(text)).unwrap();
        assert_eq!(world.ask("k ch_1 1"), format!("denied {code}"), "{text}");
    }
    // `fraudulent` is a method of its own.
    let world = World::new(PLAIN);
    assert_eq!(world.ask("k ch_1 1 fraudulent"), "denied method_not_allowed");
}

/// Forty at once at a cap for twenty: twenty are made, whatever becomes of the others meanwhile.
#[test]
fn requests_race_on_a_cap() {
    let world = World::new(PLAIN);
    let asks = (0..40).map(|n| {
        let text = format!("k{n} ch_{} 1000", n % 3 + 1);
        let asked = ask(&text);
        world.refunds.refund(&world.key, asked)
    });
    let answers: Vec<String> = run(join_all(asks)).iter().map(told).collect();
    let count = |what| answers.iter().filter(|answer| *answer == what).count();
    assert_eq!((count("settled"), count("denied daily_cap")), (20, 20));
    assert_eq!((world.till.made().len(), world.spent()), (20, "200.00 USD".to_owned()));

    // What comes back is there for the next, and not twice.
    let world = World::new("daily_cap = \"100.00\"");
    world.till.script(&[Step::Forbidden; 5]);
    let asks = (0..40).map(|n| {
        let asked = ask(&format!("k{n} ch_1 1000"));
        world.refunds.refund(&world.key, asked)
    });
    let answers: Vec<String> = run(join_all(asks)).iter().map(told).collect();
    let count = |what| answers.iter().filter(|answer| *answer == what).count();
    assert_eq!(count("not_executed"), 5);
    assert_eq!(count("settled"), world.till.made().len());
    assert!(world.till.made().len() <= 10);
    assert_eq!(world.spent(), format!("{}.00 USD", world.till.made().len() * 10));
}

/// Only what was submitted counts: what waits, was denied or withdrawn holds nothing.
#[test]
fn what_waits_holds_no_spend() {
    let world = World::new(ASKS);
    let pending = world.intent("k1 ch_1 full");
    let canceled = world.intent("k2 ch_2 full");
    world.cancel(&canceled.id).unwrap();
    world.deny(&world.intent("k3 ch_3 full"));
    assert_eq!(world.spent(), "0.00 USD");
    world.approve(&pending);
    assert_eq!(world.spent(), "0.00 USD", "not even approved");
    assert_eq!(world.ask("k1 ch_1 full"), "settled again");
    assert_eq!(world.spent(), "100.00 USD");
}

/// The day is the organisation's: 24 hours, or 25, or 23.
#[test]
fn a_day_ends_at_the_organisations_midnight() {
    #[rustfmt::skip]
    let table = [
        // time zone            150 dollars at               100 more at                 answer
        ("UTC",              "2026-10-30T23:59:59.999Z", "2026-10-31T00:00:00Z",     "settled"),
        ("UTC",              "2026-10-30T00:00:00Z",     "2026-10-30T23:59:59.999Z", "denied daily_cap"),
        ("America/New_York", "2026-10-30T04:00:00Z",     "2026-10-31T03:59:59.999Z", "denied daily_cap"),
        ("America/New_York", "2026-10-31T03:59:59.999Z", "2026-10-31T04:00:00Z",     "settled"),
        // clocks are set back: 25 hours
        ("America/New_York", "2026-11-01T04:00:00Z",     "2026-11-02T04:59:59.999Z", "denied daily_cap"),
        ("America/New_York", "2026-11-01T04:00:00Z",     "2026-11-02T05:00:00Z",     "settled"),
        // and forward: 23
        ("America/New_York", "2027-03-14T05:00:00Z",     "2027-03-15T03:59:59.999Z", "denied daily_cap"),
        ("America/New_York", "2027-03-14T05:00:00Z",     "2027-03-15T04:00:00Z",     "settled"),
    ];
    for (zone, first, second, answer) in table {
        let world = World::new(PLAIN);
        world.policy_in(zone, PLAIN);
        world.clock.show(first);
        assert_eq!(world.ask("a ch_1 full"), "settled");
        assert_eq!(world.ask("b ch_2 5000"), "settled");
        world.clock.show(second);
        assert_eq!(world.ask("c ch_3 full"), answer, "{zone} {first} {second}");
    }
}

/// How an intent gives its spend back.
type End = fn(&World, &Intent);

const ENDS: [(&str, End); 4] = [
    ("not executed", |world, intent| {
        let news = Outcome::NotExecuted("no".to_owned());
        run(world.authority.record(&intent.id, intent.fence, &news)).unwrap();
    }),
    ("refused", |world, intent| {
        run(world.authority.record(&intent.id, intent.fence, &refused())).unwrap();
    }),
    ("failed at once", |world, intent| {
        seen(world, &intent.id, &refund(&intent.id, RefundStatus::Failed));
    }),
    ("reversed", |world, intent| {
        seen(world, &intent.id, &refund(&intent.id, RefundStatus::Succeeded));
        seen(world, &intent.id, &refund(&intent.id, RefundStatus::Failed));
        seen(world, &intent.id, &refund(&intent.id, RefundStatus::Failed));
        seen(world, &intent.id, &refund(&intent.id, RefundStatus::Canceled));
    }),
];

/// Spend stays in the window it was reserved in, and is given back to that one, once.
#[test]
fn spend_goes_back_where_it_came_from() {
    for (name, end) in ENDS {
        let world = World::new(PLAIN);
        world.clock.show("2026-10-30T23:50:00Z");
        assert_eq!(world.ask("before ch_2 2000"), "settled");
        let intent = world.decide("k ch_1 3000").intent;
        assert_eq!(world.spent(), "50.00 USD");
        world.clock.show("2026-10-31T00:10:00Z");
        assert_eq!(world.ask("after ch_3 1000"), "settled");
        end(&world, &intent);
        assert_eq!(world.spent(), "10.00 USD", "{name}: today's");
        world.clock.show("2026-10-30T23:55:00Z");
        assert_eq!(world.spent(), "20.00 USD", "{name}: yesterday's");
    }
}

/// The same, when the organisation moved meanwhile.
#[test]
fn spend_stays_in_its_time_zone() {
    for (name, end) in ENDS {
        let world = World::new(PLAIN);
        let intent = world.decide("k ch_1 3000").intent;
        world.policy_in("Asia/Tokyo", PLAIN);
        assert_eq!(world.spent(), "0.00 USD", "a new day began");
        assert_eq!(world.ask("after ch_3 1000"), "settled");
        end(&world, &intent);
        assert_eq!(world.spent(), "10.00 USD", "{name}");
        world.policy_in("UTC", PLAIN);
        assert_eq!(world.spent(), "0.00 USD", "{name}");
    }
}

/// An approval that is executed after midnight counts in the day of its execution, against its cap.
#[test]
fn an_approval_counts_on_the_day_it_is_used() {
    let world = World::new(ASKS);
    world.clock.show("2026-10-30T23:50:00Z");
    let intent = world.intent("k ch_1 full");
    world.approve(&intent);
    world.clock.show("2026-10-31T00:10:00Z");
    assert_eq!(world.ask("k ch_1 full"), "settled again");
    assert_eq!(world.spent(), "100.00 USD");
    world.clock.show("2026-10-30T23:55:00Z");
    assert_eq!(world.spent(), "0.00 USD");

    let world = World::new(ASKS);
    world.clock.show("2026-10-30T23:50:00Z");
    let intent = world.intent("k ch_1 full");
    world.approve(&intent);
    world.clock.show("2026-10-31T00:10:00Z");
    for n in 0..15 {
        assert_eq!(world.ask(&format!("small{n} ch_2 600")), "settled");
    }
    for n in 0..11 {
        assert_eq!(world.ask(&format!("smaller{n} ch_3 100")), "settled");
    }
    assert_eq!(world.spent(), "101.00 USD");
    assert_eq!(world.ask("k ch_1 full"), "denied approval_stale again");
    assert_eq!(codes(&world.stored(&intent.id)), ["approval_stale", "daily_cap"]);
}

/// What was decided is recorded with what decided it.
#[test]
fn a_decision_says_what_it_was_made_of() {
    let world = World::new(PLAIN);
    let head = world.read(gate_store::Reads::default()).head.hex();
    let intent = world.decide("k ch_1 3000 duplicate").intent;
    assert_eq!(intent.policy_version, 1);
    assert_eq!(intent.submitted_at, Some(intent.created_at));
    let request = intent.request.unwrap();
    let text = format!("{}\0k", intent.agent);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let hash: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    for part in [
        "charge=ch_1&amount=3000&reason=duplicate&",
        &format!("burnbound_intent%5D={}&", intent.id),
        &format!("burnbound_agent%5D={}&", intent.agent),
        &format!("burnbound_key%5D={hash}&"),
        "burnbound_usd_micros%5D=30000000&",
        &format!("burnbound_audit%5D={head}"),
    ] {
        assert!(request.form.contains(part), "{part} in {}", request.form);
    }
    let entry = world.audit().pop().unwrap().entry;
    let details: serde_json::Value = serde_json::from_str(&entry.details).unwrap();
    assert_eq!(entry.actor, format!("agent:{}", intent.agent));
    assert_eq!(details["usdMicros"], 30_000_000);
    assert_eq!(details["policyVersion"], 1);
}

/// 23 hours after it was submitted nothing is sent again: a person has to look, and is told once.
#[test]
fn what_stays_unknown_is_sent_for_23_hours() {
    // The pause between the first two attempts passes as well.
    let second = Duration::from_secs(1);
    for (age, sent, needs_person) in [(23 * HOUR - second, 4, false), (23 * HOUR, 2, true)] {
        let world = World::new(PLAIN);
        world.clock.show("2026-10-30T00:10:00Z");
        world.till.script(&[Step::Lost, Step::Forbidden, Step::Lost, Step::Forbidden]);
        let intent = world.intent("k ch_1 3000");
        assert_eq!(intent.state, State::Submitted);
        world.clock.advance(age - LEASE);
        world.reconcile();
        assert_eq!(world.till.sent().len(), sent, "{age:?}");
        let stored = world.stored(&intent.id);
        assert_eq!((stored.state, stored.needs_person), (State::Submitted, needs_person));
        assert_eq!(world.spent(), "30.00 USD", "it may have been made");
        world.reconcile();
        world.reconcile();
        assert_eq!(world.till.sent().len(), sent, "never again, {age:?}");
        assert_eq!(world.history(&intent.id), "submitted needs_person", "told once");
    }
}

/// An unclear answer that Stripe keeps under the key calls for a person at once, and is only looked
/// for from then on.
#[test]
fn what_is_kept_unclear_calls_for_a_person() {
    let world = World::new(PLAIN);
    world.till.script(&[Step::Stored]);
    let intent = world.intent("k ch_1 3000");
    assert_eq!((intent.state, intent.needs_person), (State::Submitted, true));
    world.clock.advance(2 * HOUR);
    world.reconcile();
    assert_eq!(world.till.sent().len(), 1, "never sent again");
    assert_eq!(world.history(&intent.id), "submitted needs_person", "told once");
    assert_eq!(world.spent(), "30.00 USD", "it may have been made");
}
