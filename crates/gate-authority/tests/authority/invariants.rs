//! A record that is sound has no findings; each corruption of it has exactly its own.

use std::time::Duration;

use gate_authority::{Finding, Level, invariants, invariants_at_stripe, invariants_of};
use gate_core::{ApprovalState, Denier, Intent, RefundId, RefundStatus, State, Vote};
use gate_money::MicroUsd;
use gate_store::{IntentQuery, Reads, Scope, Snapshot};

use crate::outcomes::seen;
use crate::till::{Made, Step};
use crate::world::{ASKS, HOUR, World, run, user};

const CALL: Duration = Duration::from_secs(2);

/// A world with an intent in each state, which is its key.
pub(crate) fn all_states() -> World {
    let world = World::new(&format!("{ASKS}\nowner = \"mona\""));
    // Only what began after the policy is held against its cap.
    world.clock.advance(24 * HOUR);
    let made = |key: &str, step: Step| {
        world.till.script(&[step]);
        world.intent(&format!("{key} ch_1 500"))
    };
    made("settled", Step::Made("succeeded"));
    made("failed", Step::Refused);
    made("not_executed", Step::Forbidden);
    made("submitted", Step::Stored);
    made("awaiting", Step::Held);
    let reversed = made("reversed", Step::Made("pending"));
    world.till.fail(&reversed.id);
    seen(&world, &reversed.id, &world.till.refund_of(&reversed.id).unwrap());
    let big = |key: &str, minor: u32| world.intent(&format!("{key} ch_2 {minor}"));
    big("expired", 2100);
    world.clock.advance(25 * HOUR);
    world.sweep();
    big("pending", 2000);
    world.approve(&big("approved", 2200));
    world.cancel(&big("canceled", 2300).id).unwrap();
    world.deny(&big("denied", 2400));
    world.stop_and_ask("refused ch_3 100");
    world.intent("refused ch_3 100");
    world
}

fn everything(world: &World) -> Snapshot {
    world.read(Reads {
        agents: true,
        intents: Some(IntentQuery { limit: u32::MAX, ..IntentQuery::default() }),
        policy: true,
        policies: true,
        users: true,
        audit: Some(gate_store::AuditRange::WHOLE),
        books: true,
        ..Reads::default()
    })
}

/// Findings in words: `I4 settled: it is settled, and does not count`.
fn told(found: &[Finding], intents: &[Intent]) -> String {
    let lines = found.iter().map(|finding| {
        let intent = intents.iter().find(|intent| Some(&intent.id) == finding.intent.as_ref());
        let key = intent.map_or("-", |intent| intent.key.as_str());
        let weak = if finding.level == Level::Warning { "?" } else { "" };
        assert!(!finding.fix.is_empty());
        format!("{}{weak} {key}: {}", finding.invariant, finding.what)
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn of<'a>(seen: &'a mut Snapshot, key: &str) -> &'a mut Intent {
    seen.intents.iter_mut().find(|intent| intent.key.as_str() == key).unwrap()
}

fn vote(seen: &mut Snapshot) -> &mut Vote {
    &mut of(seen, "approved").approval.as_mut().unwrap().votes[0]
}

/// Alters the request that is kept.
fn form(seen: &mut Snapshot, key: &str, from: &str, to: &str) {
    let request = of(seen, key).request.as_mut().unwrap();
    assert!(request.form.contains(from), "{}", request.form);
    request.form = request.form.replace(from, to);
}

fn place(seen: &Snapshot, key: &str) -> usize {
    let id = &seen.intents.iter().find(|intent| intent.key.as_str() == key).unwrap().id;
    seen.books.reservations.iter().position(|one| one.intent == *id).unwrap()
}

fn micros(micros: i64) -> MicroUsd {
    MicroUsd::new(micros).unwrap()
}

#[test]
fn a_sound_record_has_no_findings() {
    let world = all_states();
    let mut states: Vec<&str> = world.intents().iter().map(|i| i.state.as_str()).collect();
    states.sort_unstable();
    states.dedup();
    let mut all: Vec<&str> = State::STORED.iter().map(|state| state.as_str()).collect();
    all.sort_unstable();
    assert_eq!(states, all, "the world shows every state");
    assert_eq!(run(invariants(&world.authority)).unwrap(), vec![]);
    let at_stripe = run(invariants_at_stripe(&world.authority, &*world.till, CALL)).unwrap();
    assert_eq!((at_stripe.findings, at_stripe.looked_at), (vec![], 2));
    assert_eq!(at_stripe.left_out, None);
}

#[test]
fn each_corruption_has_its_finding() {
    type Corrupt = fn(&mut Snapshot);
    #[rustfmt::skip]
    let table: Vec<(Corrupt, &str)> = vec![
        // I1: who holds what
        (|s| { let id = s.intents.iter().find(|i| i.key.as_str() == "settled").unwrap().id.clone(); s.books.key_holders.retain(|one| *one != id); },
            "I1 settled: it is settled and lost its key to another"),
        (|s| { let key = of(s, "pending").key.clone(); of(s, "approved").key = key; },
            "I1 pending: it holds the same key of AGENT as INT"),
        (|s| { let refund = of(s, "settled").refund.as_ref().unwrap().id.clone(); of(s, "reversed").refund.as_mut().unwrap().id = refund; },
            "I1 settled: refund re_1 is recorded for it and for INT"),
        // I2: allowed, and recorded, before it was sent
        (|s| of(s, "failed").submitted_at = None,
            "I2 failed: it is failed and was never submitted"),
        (|s| of(s, "settled").request = None,
            "I2 settled: it is settled and its request was not kept"),
        (|s| form(s, "settled", "charge=ch_1", "charge=ch_2"),
            "I2 settled: the request that is kept to be sent has another charge"),
        (|s| form(s, "submitted", "amount=500", "amount=5000"),
            "I2 submitted: the request that is kept to be sent has another amount"),
        (|s| form(s, "submitted", "amount=500", "amount=500&amount=500"),
            "I2 submitted: the request that is kept to be sent has another amount"),
        (|s| form(s, "not_executed", "intent%5D=int", "intent%5D=int1"),
            "I2 not_executed: the request that is kept to be sent has another intent"),
        (|s| of(s, "awaiting").request.as_mut().unwrap().account = gate_core::AccountId::parse("acct_1").ok(),
            "I2 awaiting: the request that is kept to be sent has another account"),
        (|s| { let refund = of(s, "reversed").refund.clone(); of(s, "reversed").refund.as_mut().unwrap().id = RefundId::parse("re_9").unwrap(); of(s, "pending").refund = refund; },
            "I2 pending: it is pending_approval, and refund re_2 was made for it"),
        // I4: what is counted
        (|s| { let n = place(s, "settled"); s.books.reservations.remove(n); let usd = s.books.windows[0].usd; s.books.windows[0].usd = usd.checked_sub(micros(5_000_000)).unwrap(); },
            "I4 settled: it is settled, and does not count"),
        (|s| { let n = place(s, "settled"); s.books.reservations[n].usd = micros(1); s.books.windows[0].usd = micros(10_000_001); },
            "I4 settled: it counts 0.000001 USD, and is worth 5.00 USD"),
        (|s| { let n = place(s, "settled"); let id = of(s, "failed").id.clone(); let mut one = s.books.reservations[n].clone(); one.intent = id; one.usd = micros(0); s.books.reservations.push(one); },
            "I4 failed: it is failed, and still counts"),
        (|s| s.books.windows[0].usd = micros(0),
            "I4 -: the day of AGENT from 2026-10-31T00:00:00Z counts 0.00 USD, and its reservations are 15.00 USD"),
        (|s| { s.books.windows.remove(0); },
            "I4 -: the day of AGENT from 2026-10-31T00:00:00Z is not counted, and has reservations"),
        (|s| of(s, "settled").submitted_at = Some(s.policy.as_ref().unwrap().created_at),
            "I4 settled: it counts in the day of AGENT from 2026-10-31T00:00:00Z, where it was not submitted"),
        (|s| { let n = place(s, "settled"); let mut all = s.books.windows[0].clone(); all.window.scope = Scope::Organization; all.usd = micros(5_000_000); s.books.reservations[n].window = all.window.clone(); s.books.windows.push(all); s.books.windows[0].usd = micros(10_000_000); },
            "I4 settled: it counts in the day of organization from 2026-10-31T00:00:00Z, where it was not submitted"),
        // I5: the cap
        (|s| { let policy = s.policy.as_mut().unwrap(); policy.text = policy.text.replace("200.00", "14.99"); },
            "I5 -: the day of AGENT from 2026-10-31T00:00:00Z counts 15.00 USD, over its cap of 14.99 USD"),
        (|s| { let policy = s.policy.as_mut().unwrap(); policy.text = policy.text.replace("200.00", "14.99"); policy.created_at = policy.created_at.after(24 * HOUR); },
            ""),
        // I6: who said yes
        (|s| of(s, "approved").approval.as_mut().unwrap().state = ApprovalState::Denied,
            "I6 approved: it is approved and its approval is denied"),
        (|s| { let approval = of(s, "expired").approval.clone(); of(s, "settled").approval = approval; },
            "I6 settled: it is settled and its approval is expired"),
        (|s| of(s, "approved").approval.as_mut().unwrap().decided_by = None,
            "I6 approved: nobody is named who approved it, or no time"),
        (|s| vote(s).by = user("mona"),
            "I6 approved: mona approved it and owns bot"),
        (|s| of(s, "approved").approval.as_mut().unwrap().votes.clear(),
            "I6 approved: it was approved, and 1 more had to approve it"),
        (|s| of(s, "approved").amount = gate_money::Amount::new(2201, gate_money::Currency::USD).unwrap(),
            "I6 approved: what is recorded is not what its reviewers were asked"),
        (|s| of(s, "pending").reasons[0].requires.as_mut().unwrap().people = 2,
            "I6 pending: what is recorded is not what its reviewers were asked"),
        (|s| s.users.retain(|user| user.name.as_str() != "rita"),
            "I6 approved: rita, who approved it, is no user"),
        (|s| { let approval = of(s, "approved").approval.as_mut().unwrap(); approval.expires_at = approval.votes[0].at; },
            "I6 approved: rita approved it after it had expired"),
        // I7: what cannot stand together
        (|s| of(s, "settled").refund = None,
            "I7 settled: it is settled and has no refund"),
        (|s| of(s, "settled").refund.as_mut().unwrap().status = RefundStatus::Failed,
            "I7 settled: it is settled and its refund came back"),
        (|s| of(s, "settled").settled_at = None,
            "I7 settled: it is settled and does not say since when"),
        (|s| of(s, "reversed").refund.as_mut().unwrap().status = RefundStatus::Succeeded,
            "I7 reversed: it is reversed and its refund did not come back"),
        (|s| of(s, "failed").failure = None,
            "I7 failed: it is failed and has no code"),
        (|s| of(s, "not_executed").failure = None,
            "I7 not_executed: it is not_executed and does not say why"),
        (|s| { let refund = of(s, "settled").refund.clone(); of(s, "submitted").refund = refund; of(s, "submitted").refund.as_mut().unwrap().id = RefundId::parse("re_9").unwrap(); },
            "I7 submitted: it is submitted although its refund was seen"),
        (|s| { let sent = of(s, "settled").submitted_at; let refund = of(s, "settled").refund.clone(); of(s, "settled").refund.as_mut().unwrap().id = RefundId::parse("re_9").unwrap(); of(s, "canceled").submitted_at = sent; of(s, "canceled").refund = refund; },
            "I7 canceled: it was ended although its refund was seen"),
        (|s| of(s, "settled").denied_by = Some(Denier::Policy),
            "I7 settled: its state and who denied it disagree"),
        (|s| of(s, "denied").approval.as_mut().unwrap().state = ApprovalState::Pending,
            "I7 denied: it is denied by a person, and its approval is not"),
        (|s| of(s, "pending").approval = None,
            "I7 pending: it is pending_approval and no approval is pending"),
        (|s| of(s, "awaiting").approval = None,
            "I7 awaiting: it is awaiting_stripe and no approval of Stripe's is recorded"),
        (|s| of(s, "canceled").approval.as_mut().unwrap().state = ApprovalState::Expired,
            "I7 canceled: it is canceled, and its approval is not"),
        // I9: the audit log
        (|s| s.audit[3].entry.actor = "agent:agt_other".to_owned(),
            "I9 -: the actor of audit entry 4 was altered"),
        (|s| s.audit[3].hash = [0; 32],
            "I9 -: the seal of audit entry 4 does not hold: the entry was replaced, put in or moved"),
        (|s| { s.audit.remove(3); },
            "I9 -: audit entry 4 is missing"),
        (|s| { let n = s.audit.len(); s.audit.remove(n - 1); },
            "I9 -: the newest audit entries are missing\n\
             I9 refused: it is settled, and last was submitted in the audit log"),
        (|s| of(s, "canceled").state = State::Expired,
            "I7 canceled: it is expired, and its approval is not\n\
             I9 canceled: it is expired, and last was canceled in the audit log"),
        (|s| { let id = of(s, "canceled").id.clone(); s.intents.retain(|intent| intent.id != id); },
            "I9 -: INT is in the audit log and nowhere else"),
    ];
    let world = all_states();
    let mut wrong = Vec::new();
    for (n, (corrupt, expected)) in table.into_iter().enumerate() {
        let mut seen = everything(&world);
        corrupt(&mut seen);
        let words = plain(&told(&invariants_of(&seen), &seen.intents));
        if words != expected {
            wrong.push(format!("row {n}: {words}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Without the parts of ids that nobody can foresee.
fn plain(text: &str) -> String {
    let word = |word: &str| {
        let bare = word.trim_matches(',').trim_start_matches("agent:");
        if bare.starts_with("agt_") && bare.len() > 12 {
            "AGENT".to_owned()
        } else if bare.starts_with("int_") {
            "INT".to_owned()
        } else {
            word.to_owned()
        }
    };
    let line = |line: &str| line.split(' ').map(word).collect::<Vec<_>>().join(" ");
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn stripe_is_held_against_the_record() {
    type Forge = fn(&mut Vec<Made>);
    let named = |world: &World, key: &str| {
        world.intents().into_iter().find(|intent| intent.key.as_str() == key).unwrap().id
    };
    #[rustfmt::skip]
    let table: Vec<(&str, Forge, &str)> = vec![
        // whose refund is added, what is done to the list, and what is found
        ("", |_| {}, ""),
        ("settled", |_| {}, "I1 settled: re_1, re_9 were all made for it"),
        ("submitted", |_| {}, "I7? submitted: it is submitted, and Stripe made re_9"),
        ("awaiting", |_| {}, "I7? awaiting: it is awaiting_stripe, and Stripe made re_9"),
        ("failed", |_| {}, "I7 failed: it is failed, and Stripe made re_9"),
        ("not_executed", |_| {}, "I7 not_executed: it is not_executed, and Stripe made re_9"),
        ("failed", |made| made.last_mut().unwrap().refund.status = RefundStatus::Failed, ""),
        ("failed", |made| made.last_mut().unwrap().minor = 499,
            "I3 failed: re_9 gives back 499 in minor units, and it is for 500\n\
             I7 failed: it is failed, and Stripe made re_9"),
        ("pending", |_| {}, "I3 pending: re_9 is of ch_1, and it is for ch_2"),
        ("", |made| { made.remove(0); }, "I7 settled: it is settled by re_1, which Stripe does not list"),
        ("", |made| made[0].refund.intent = None, ""),
        ("", |made| made[0].refund.status = RefundStatus::Canceled, "I7? settled: it is settled, and re_1 is canceled at Stripe"),
        ("", |made| made[1].refund.status = RefundStatus::Succeeded, "I7? reversed: it is reversed, and re_2 is succeeded at Stripe"),
        ("settled", |made| made.last_mut().unwrap().refund.intent = gate_core::IntentId::parse("int_9").ok(),
            "I2 -: re_9 names it, and the record does not know it"),
        ("settled", |made| made.last_mut().unwrap().refund.intent = None, ""),
    ];
    for (n, (key, forge, expected)) in table.into_iter().enumerate() {
        let world = all_states();
        let id = (!key.is_empty()).then(|| named(&world, key));
        world.till.forge(|made| {
            if let Some(id) = id {
                let mut more = made[0].clone();
                more.refund.id = RefundId::parse("re_9").unwrap();
                more.refund.intent = Some(id);
                made.push(more);
            }
            forge(made);
        });
        let found = run(invariants_at_stripe(&world.authority, &*world.till, CALL)).unwrap();
        assert_eq!(plain(&told(&found.findings, &world.intents())), expected, "row {n}");
        assert_eq!((found.looked_at, found.left_out), (2, None), "row {n}");
    }
}

/// What was not looked at is said, never passed over.
#[test]
fn a_stripe_that_cannot_be_asked_is_said() {
    let world = all_states();
    world.till.set_down(true);
    let found = run(invariants_at_stripe(&world.authority, &*world.till, CALL)).unwrap();
    let (left, why) = found.left_out.unwrap();
    assert_eq!((found.findings.len(), found.looked_at, left), (0, 0, 2), "{why}");
    assert!(why.starts_with("Stripe could not be asked: "), "{why}");
}
