//! What became of a submitted intent, as it is recorded: by whom, in which state, how often.

use std::time::Duration;

use gate_core::{
    ApprovalState, Approver, Authority, AuthorityError, ChargeId, Clock, FailureCode, Hold, HoldId,
    HoldUrl, Intent, IntentId, KeyMark, Notes, Outcome, Refund, RefundId, RefundStatus, Refusal,
    State, Work,
};
use gate_store::{Judge, Reads, Snapshot, Store, Write};

use crate::world::{HOUR, PLAIN, World, at, run};

/// News of a refund from somebody without a lease, such as a webhook.
pub(crate) fn seen(world: &World, id: &IntentId, refund: &Refund) {
    run(world.authority.record(id, 0, &Outcome::Seen(refund.clone()))).unwrap();
}

pub(crate) fn refund(id: &IntentId, status: RefundStatus) -> Refund {
    Refund { id: RefundId::parse("re_1").unwrap(), status, intent: Some(id.clone()) }
}

pub(crate) fn refused() -> Outcome {
    let code = FailureCode::ChargeNotRefundable;
    Outcome::Refused(Refusal { code, message: "no".to_owned() })
}

/// An approval of Stripe's own ended without a refund.
fn ended(code: FailureCode) -> Outcome {
    Outcome::Refused(Refusal { code, message: "at Stripe".to_owned() })
}

fn not_executed() -> Outcome {
    Outcome::NotExecuted("no".to_owned())
}

fn held() -> Outcome {
    Outcome::Held(Hold::default())
}

/// All news, by name.
fn news(id: &IntentId) -> [(&'static str, Outcome); 8] {
    let seen = |status| Outcome::Seen(refund(id, status));
    [
        ("succeeded", seen(RefundStatus::Succeeded)),
        ("open", seen(RefundStatus::Open("pending".to_owned()))),
        ("failed", seen(RefundStatus::Failed)),
        ("refused", refused()),
        ("not exec", not_executed()),
        ("held", held()),
        ("person", Outcome::NeedsPerson),
        ("rejected", ended(FailureCode::ApprovalRejected)),
    ]
}

/// An intent of 30 dollars in `state`, with the fence of whoever held it last.
fn standing(world: &World, state: &str) -> Intent {
    let intent = world.decide("k ch_1 3000").intent;
    let record = |news: &Outcome| {
        run(world.authority.record(&intent.id, intent.fence, news)).unwrap();
    };
    match state {
        "submitted" => {}
        "unknown" => record(&Outcome::NeedsPerson),
        "awaiting" => record(&held()),
        "not_ex" => record(&not_executed()),
        "settled" => seen(world, &intent.id, &refund(&intent.id, RefundStatus::Succeeded)),
        "failed" => record(&refused()),
        "reversed" => {
            seen(world, &intent.id, &refund(&intent.id, RefundStatus::Succeeded));
            seen(world, &intent.id, &refund(&intent.id, RefundStatus::Failed));
        }
        other => panic!("{other}"),
    }
    world.stored(&intent.id)
}

fn short(intent: &Intent) -> &'static str {
    match intent.state {
        State::Submitted if intent.needs_person => "unknown",
        State::AwaitingStripe if intent.needs_person => "alarmed",
        State::AwaitingStripe => "awaiting",
        State::NotExecuted => "not_ex",
        state => state.as_str(),
    }
}

/// The state afterwards; `=` for told already, `stale` for refused, `+` for more to know but no
/// transition.
#[test]
fn every_state_and_every_news() {
    #[rustfmt::skip]
    let current = [
        //            succeeded open     failed   refused not exec held     person   rejected
        "submitted  | settled   settled  failed   failed  not_ex   awaiting unknown  failed  ",
        "unknown    | settled   settled  failed   failed  not_ex   awaiting =        failed  ",
        "awaiting   | settled   settled  failed   stale   stale    =        alarmed  failed  ",
        "not_ex     | settled   settled  +        stale   =        stale    stale    stale   ",
        "settled    | =         settled  reversed stale   stale    stale    stale    stale   ",
        "failed     | settled   settled  failed   =       stale    stale    stale    =       ",
        "reversed   | =         =        =        stale   stale    stale    stale    stale   ",
    ];
    // Whose lease was given to somebody else: only a refund that was seen is taken.
    #[rustfmt::skip]
    let stale = [
        //            succeeded open     failed   refused not exec held     person   rejected
        "submitted  | settled   settled  failed   stale   stale    stale    stale    stale   ",
        "unknown    | settled   settled  failed   stale   stale    stale    =        stale   ",
        "awaiting   | settled   settled  failed   stale   stale    =        stale    stale   ",
        "not_ex     | settled   settled  +        stale   =        stale    stale    stale   ",
        "settled    | =         settled  reversed stale   stale    stale    stale    stale   ",
        "failed     | settled   settled  failed   =       stale    stale    stale    =       ",
        "reversed   | =         =        =        stale   stale    stale    stale    stale   ",
    ];
    for (is_current, table) in [(true, current), (false, stale)] {
        for row in table {
            let (state, cells) = row.split_once('|').unwrap();
            for (column, expected) in cells.split_whitespace().enumerate() {
                check(state.trim(), is_current, column, expected);
            }
        }
    }
}

fn check(state: &str, is_current: bool, column: usize, expected: &str) {
    let world = World::new(PLAIN);
    let before = standing(&world, state);
    let (name, news) = news(&before.id)[column].clone();
    let case = format!("{state}, {name}, current: {is_current}");
    let fence = if is_current { before.fence } else { before.fence - 1 };
    let entries = world.audit().len();
    let answer = run(world.authority.record(&before.id, fence, &news));
    let after = world.stored(&before.id);
    let told = world.audit().len() - entries;
    let (state_after, entries_after) = match expected {
        "=" | "stale" => (short(&before), 0),
        "+" => (short(&before), 1),
        other => (other, 1),
    };
    assert_eq!(short(&after), state_after, "{case}");
    assert_eq!(told, entries_after, "{case}: audit entries");
    match answer {
        Ok(answered) => {
            assert_ne!(expected, "stale", "{case}");
            assert_eq!(short(&answered), short(&after), "{case}: the answer is what is recorded");
        }
        Err(AuthorityError::Stale) => assert_eq!(expected, "stale", "{case}"),
        Err(error) => panic!("{case}: {error}"),
    }
    let spent = if after.state.counts() { "30.00 USD" } else { "0.00 USD" };
    assert_eq!(world.spent(), spent, "{case}: spend");
    if let (Outcome::Seen(refund), false) = (&news, expected == "=") {
        assert_eq!(after.refund.as_ref(), Some(refund), "{case}: the refund is kept");
    }
    if entries_after == 1 {
        let alarm = ["unknown", "alarmed"].contains(&expected);
        assert_eq!(after.needs_person, alarm, "{case}: a person has to look");
    }
    // The same news again change nothing.
    let entries = world.audit().len();
    let again = run(world.authority.record(&before.id, fence, &news));
    assert_eq!(again.is_err(), expected == "stale", "{case}: again");
    assert_eq!(world.audit().len(), entries, "{case}: again");
    assert_eq!(format!("{:?}", world.stored(&before.id)), format!("{after:?}"), "{case}: again");
}

/// A refund that shows up after its spend was given back is booked, even over the cap, today.
#[test]
fn a_refund_found_late_is_booked_over_the_cap() {
    for state in ["not_ex", "failed"] {
        let world = World::new(PLAIN);
        world.clock.show("2026-10-30T23:50:00Z");
        let intent = standing(&world, state);
        world.clock.show("2026-10-31T00:10:00Z");
        assert_eq!(world.ask("k1 ch_2 full"), "settled");
        assert_eq!(world.ask("k2 ch_3 full"), "settled");
        seen(&world, &intent.id, &refund(&intent.id, RefundStatus::Succeeded));
        assert_eq!(world.spent(), "230.00 USD", "{state}");
        let stored = world.stored(&intent.id);
        assert_eq!((stored.state, stored.failure), (State::Settled, None), "{state}");
        assert_eq!(stored.settled_at, Some(at("2026-10-31T00:10:00Z")), "{state}");
        assert_eq!(world.ask("k3 ch_2 1"), "charge_already_refunded");
        assert_eq!(world.ask("k4 ch_1 1"), "denied daily_cap", "{state}");
        // And given back like any other.
        seen(&world, &intent.id, &refund(&intent.id, RefundStatus::Canceled));
        assert_eq!(world.spent(), "200.00 USD", "{state}");
    }
}

/// A refund of what was never (or no longer to be) sent is nobody's transition, but it is kept and
/// a person is called.
#[test]
fn a_refund_that_cannot_be_is_kept() {
    let world = World::new(crate::world::ASKS);
    let intent = world.intent("k ch_1 3000");
    let there = refund(&intent.id, RefundStatus::Succeeded);
    seen(&world, &intent.id, &there);
    seen(&world, &intent.id, &there);
    let stored = world.stored(&intent.id);
    assert_eq!((stored.state, stored.needs_person), (State::PendingApproval, true));
    assert_eq!(stored.refund, Some(there));
    assert_eq!(world.history(&intent.id), "pending_approval refund_seen");
}

/// An intent has one refund. Another that names it calls for a person, once, and whatever becomes
/// of it, the spend goes by the first.
#[test]
fn a_second_refund_calls_for_a_person() {
    let table = [
        // the first refund, the second's steps, needs a person, history after it was submitted
        ("settled", &["succeeded"][..], true, "second_refund_seen"),
        ("settled", &["succeeded", "succeeded", "failed"], true, "second_refund_seen"),
        ("settled", &["failed"], false, ""),
        ("reversed", &["succeeded", "failed"], true, "second_refund_seen"),
    ];
    for (state, steps, needs_person, noted) in table {
        let world = World::new(PLAIN);
        let before = standing(&world, state);
        let history = world.history(&before.id);
        for step in steps {
            let status =
                if *step == "failed" { RefundStatus::Failed } else { RefundStatus::Succeeded };
            let id = RefundId::parse("re_2").unwrap();
            seen(&world, &before.id, &Refund { id, ..refund(&before.id, status) });
        }
        let after = world.stored(&before.id);
        let case = format!("{state} {steps:?}");
        assert_eq!((after.state, &after.refund), (before.state, &before.refund), "{case}");
        assert_eq!(after.needs_person, needs_person, "{case}");
        assert_eq!(world.history(&before.id), format!("{history} {noted}").trim(), "{case}");
        let spent = if after.state.counts() { "30.00 USD" } else { "0.00 USD" };
        assert_eq!(world.spent(), spent, "{case}");
    }
}

/// Metadata is anybody's who may write at Stripe. A refund that names an intent is its own only when
/// it is of its charge and amount; otherwise the intent stays as it is, its spend with it, and a
/// person is to look.
#[test]
fn a_refund_that_only_names_an_intent_is_not_its_own() {
    let table = [
        // state, the refund's charge, amount, id and status, what it comes to
        ("submitted", "ch_1", 3000, "re_1", "succeeded", "settled"),
        ("submitted", "ch_1", 3000, "re_1", "failed", "failed"),
        ("submitted", "ch_1", 2999, "re_1", "succeeded", "unknown foreign_refund_seen"),
        ("submitted", "ch_1", 1, "re_1", "failed", "submitted"),
        ("submitted", "ch_2", 3000, "re_1", "succeeded", "unknown foreign_refund_seen"),
        ("submitted", "ch_2", 3000, "re_1", "failed", "submitted"),
        ("awaiting", "ch_2", 3000, "re_1", "succeeded", "alarmed foreign_refund_seen"),
        ("awaiting", "ch_1", 1, "re_1", "failed", "awaiting"),
        ("not_ex", "ch_1", 3000, "re_1", "succeeded", "settled"),
        ("not_ex", "ch_1", 1, "re_1", "succeeded", "not_ex foreign_refund_seen"),
        ("failed", "ch_1", 3000, "re_1", "succeeded", "settled"),
        ("failed", "ch_2", 3000, "re_1", "succeeded", "failed foreign_refund_seen"),
        ("settled", "ch_2", 3000, "re_2", "succeeded", "settled foreign_refund_seen"),
        ("settled", "ch_2", 3000, "re_2", "failed", "settled"),
        // By its own id it is its own, whatever else is said of it.
        ("settled", "ch_1", 3000, "re_1", "failed", "reversed"),
        ("settled", "ch_1", 2999, "re_1", "failed", "reversed"),
        ("reversed", "ch_1", 1, "re_2", "succeeded", "reversed foreign_refund_seen"),
    ];
    for (state, charge, minor, id, status, expected) in table {
        let world = World::new(PLAIN);
        let before = standing(&world, state);
        let (spent, history) = (world.spent(), world.history(&before.id));
        let news = Outcome::Named {
            charge: ChargeId::parse(charge).unwrap(),
            minor,
            refund: Refund {
                id: RefundId::parse(id).unwrap(),
                status: RefundStatus::from_stripe(status),
                intent: Some(before.id.clone()),
            },
        };
        for _ in 0..2 {
            run(world.authority.record(&before.id, 0, &news)).unwrap();
        }
        let after = world.stored(&before.id);
        let case = format!("{state}: {status} {id} of {minor} of {charge}");
        let noted = world.history(&before.id).replacen(&history, "", 1);
        let is_foreign = noted.contains("foreign") || noted.is_empty();
        let told = if is_foreign { noted.trim() } else { "" };
        assert_eq!(format!("{} {told}", short(&after)).trim(), expected, "{case}");
        if is_foreign {
            assert_eq!((after.state, &after.refund), (before.state, &before.refund), "{case}");
            assert_eq!(after.needs_person, !noted.is_empty(), "{case}");
            assert_eq!(world.spent(), spent, "{case}");
        }
    }
}

#[test]
fn an_event_is_new_once_in_thirty_days() {
    let world = World::new(PLAIN);
    let note = |id: &str| run(world.authority.note_event(id)).unwrap();
    assert!(note("evt_1") && note("evt_2"));
    let commits = world.store.commits();
    assert!(!note("evt_1") && !note("evt_2"));
    assert_eq!(world.store.commits(), commits, "what is known costs no commit");
    world.clock.advance(30 * 24 * HOUR);
    assert!(!note("evt_1"));
    world.clock.advance(HOUR);
    assert!(note("evt_3"), "which forgets the old ones");
    assert!(note("evt_1"));
}

/// What Stripe held was approved there, if a refund comes of it; it expires after 14 days unless
/// Stripe says otherwise.
#[test]
fn stripes_own_approval() {
    let world = World::new(PLAIN);
    let intent = standing(&world, "awaiting");
    let approval = intent.approval.unwrap();
    assert_eq!((approval.approver, approval.state), (Approver::Stripe, ApprovalState::Pending));
    assert_eq!(approval.expires_at, intent.updated_at.after(14 * 24 * HOUR));
    seen(&world, &intent.id, &refund(&intent.id, RefundStatus::Succeeded));
    let approval = world.stored(&intent.id).approval.unwrap();
    assert_eq!(approval.state, ApprovalState::Approved);
    assert_eq!(approval.decided_by, None);

    let world = World::new(PLAIN);
    let intent = world.decide("k ch_1 3000").intent;
    let until = at("2026-11-03T00:00:00Z");
    let hold = Outcome::Held(Hold { expires_at: Some(until), ..Hold::default() });
    run(world.authority.record(&intent.id, intent.fence, &hold)).unwrap();
    assert_eq!(world.stored(&intent.id).approval.unwrap().expires_at, until);
    // Nobody here decides it, and it does not expire here.
    world.clock.advance(400 * 24 * HOUR);
    assert_eq!((world.sweep(), world.state(&intent.id)), (0, State::AwaitingStripe));
}

/// What Stripe says of its approval while it is open is kept, and the next look comes later and
/// later. Each end of it is the failure's code and the approval's state, and nothing is sent again.
#[test]
fn stripes_own_approval_is_followed_to_its_end() {
    let id = |text: &str| HoldId::parse(text).ok();
    let says = |hold_id: Option<&str>, url: Option<&str>| {
        Outcome::Held(Hold {
            id: hold_id.and_then(id),
            url: url.and_then(|url| HoldUrl::parse(url).ok()),
            ..Hold::default()
        })
    };
    let look = |world: &World| {
        let claims = run(world.authority.claim(Work::AwaitingStripe(None), 9)).unwrap();
        claims.into_iter().next()
    };
    let table = [
        (FailureCode::ApprovalCanceled, ApprovalState::Canceled),
        (FailureCode::ApprovalExpired, ApprovalState::Expired),
        (FailureCode::ApprovalFailed, ApprovalState::Approved),
        (FailureCode::ApprovalRejected, ApprovalState::Denied),
    ];
    for (code, state) in table {
        let world = World::new(PLAIN);
        let intent = world.decide("k ch_1 3000").intent;
        let first = says(Some("apreq_1"), None);
        run(world.authority.record(&intent.id, intent.fence, &first)).unwrap();
        assert!(look(&world).is_none(), "{code:?}: not at once");
        // How old it is at a look, and how long until the next, in seconds.
        let mut age = 0;
        for (old, next, link) in
            [(60, 60, None), (3600, 300, Some("https://x")), (24 * 3600, 1800, None)]
        {
            world.clock.advance(Duration::from_secs(old - age));
            age = old;
            let fence = look(&world).unwrap().lease.fence;
            assert!(look(&world).is_none(), "{code:?}: one worker");
            run(world.authority.record(&intent.id, fence, &says(None, link))).unwrap();
            let stored = world.stored(&intent.id);
            let until = stored.follow_at.unwrap().since(world.clock.now());
            assert_eq!(until.as_secs(), next, "{code:?}: {old} s old");
        }
        let approval = world.stored(&intent.id).approval.unwrap();
        assert_eq!(
            (approval.hold_id, approval.hold_url.as_ref().map(HoldUrl::as_str)),
            (id("apreq_1"), Some("https://x"))
        );
        world.clock.advance(HOUR);
        let fence = look(&world).unwrap().lease.fence;
        assert_eq!(world.spent(), "0.00 USD", "of another day");
        run(world.authority.record(&intent.id, fence, &ended(code))).unwrap();
        let stored = world.stored(&intent.id);
        assert_eq!(stored.state, State::Failed);
        assert_eq!(stored.failure.unwrap().code, Some(code));
        assert_eq!(stored.approval.unwrap().state, state, "{code:?}");
        assert_eq!((stored.follow_at, look(&world).is_none()), (None, true), "{code:?}");
        assert_eq!(world.history(&intent.id), "submitted awaiting_stripe failed");
    }
}

/// An event names the request: what waits for it is looked at although it is not due, and so is what
/// waits for one that is not known; nothing else is.
#[test]
fn an_event_has_what_waits_for_it_looked_at() {
    let table = [
        // the request that is waited for, the event's, looked at
        (Some("apreq_1"), "apreq_1", true),
        (Some("apreq_1"), "apreq_2", false),
        (None, "apreq_2", true),
    ];
    for (waits_for, named, looked_at) in table {
        let world = World::new(PLAIN);
        let intent = world.decide("k ch_1 3000").intent;
        let id = waits_for.and_then(|id| HoldId::parse(id).ok());
        let hold = Outcome::Held(Hold { id, ..Hold::default() });
        run(world.authority.record(&intent.id, intent.fence, &hold)).unwrap();
        let work = || Work::AwaitingStripe(HoldId::parse(named).ok());
        let claims = run(world.authority.claim(work(), 9)).unwrap();
        assert_eq!(!claims.is_empty(), looked_at, "{waits_for:?} {named}");
        assert!(run(world.authority.claim(work(), 9)).unwrap().is_empty(), "one worker");
    }
}

/// The first refund that is held tells of the key, for good and for everybody.
#[test]
fn a_key_is_known_by_the_first_refund_that_is_held() {
    let world = World::new(PLAIN);
    let key = |n: &str| KeyMark::parse(&format!("key_{n}")).ok();
    let first = world.decide("k ch_1 3000").intent;
    let tagged = || run(world.store.read(Reads { policy: true, ..Reads::default() })).unwrap();
    assert_eq!(tagged().agent_tagged_keys, vec![]);
    for _ in 0..2 {
        let hold = Outcome::Held(Hold { key: key("1"), ..Hold::default() });
        run(world.authority.record(&first.id, first.fence, &hold)).unwrap();
    }
    assert_eq!(tagged().agent_tagged_keys, vec![key("1").unwrap()]);
}

#[test]
fn nobodys_intent_is_not_found() {
    let world = World::new(PLAIN);
    let id = IntentId::parse("int_none").unwrap();
    let error = run(world.authority.record(&id, 1, &not_executed())).unwrap_err();
    assert_eq!(error.to_string(), "this agent has no intent of this id");
}

/// Writes what no command writes.
pub(crate) fn write(world: &World, writes: Vec<Write>) {
    struct Exactly(Vec<Write>);
    impl Judge for Exactly {
        fn judge(&self, _: gate_core::Timestamp, _: &Snapshot) -> Vec<Write> {
            self.0.clone()
        }
    }
    let judge = std::sync::Arc::new(Exactly(writes));
    run(world.store.transact(Reads::default(), judge)).unwrap();
}
