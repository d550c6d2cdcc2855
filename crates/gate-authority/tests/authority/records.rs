//! What an agent reads and withdraws of its own, and that it waits for news and not for ever.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join;
use gate_core::{
    ActionError, AuthorityError, Clock, IdempotencyKey, Intent, IntentFilter, Page, Records, State,
};

use crate::till::Step;
use crate::world::{ASKS, PLAIN, World, approval, dollars, run};

const MS: Duration = Duration::from_millis(1);
const NOW: Duration = Duration::ZERO;

fn list(world: &World, filter: &IntentFilter) -> Page {
    run(world.authority.intents(&world.key, filter)).unwrap()
}

#[test]
fn another_agents_intents_are_not_there() {
    let world = World::new(ASKS);
    let intent = world.intent("k ch_1 3000");
    let (records, other, id) = (&world.authority, &world.other, &intent.id);
    assert!(run(records.intent(&world.key, id, NOW)).is_ok());
    assert!(run(records.approval(&world.key, approval(&intent), NOW)).is_ok());
    let not_found: [Result<Intent, AuthorityError>; 2] =
        [run(records.intent(other, id, NOW)), run(records.cancel(other, id))];
    for answer in not_found {
        assert!(matches!(answer, Err(AuthorityError::Asked(ActionError::IntentNotFound))));
    }
    let answer = run(records.approval(other, approval(&intent), NOW));
    assert!(matches!(answer, Err(AuthorityError::Asked(ActionError::ApprovalNotFound))));
    let filter = IntentFilter { limit: 9, ..IntentFilter::default() };
    assert!(run(records.intents(other, &filter)).unwrap().intents.is_empty());
    assert_eq!(world.state(id), State::PendingApproval);
}

#[test]
fn only_what_waits_can_be_withdrawn() {
    #[rustfmt::skip]
    let table: [(&str, &[Step], bool, bool); 7] = [
        // asked         the attempt        approved withdrawn
        ("k ch_1 3000",  &[],               false,   true),
        ("k ch_1 3000",  &[],               true,    true),
        ("k ch_1 1000",  &[],               false,   false),
        ("k ch_1 1000",  &[Step::Stored],   false,   false),
        ("k ch_1 1000",  &[Step::Held],     false,   false),
        ("k ch_1 1000",  &[Step::Refused],  false,   false),
        ("k ch_1 1000",  &[Step::Forbidden], false,  false),
    ];
    for (text, steps, approved, withdrawn) in table {
        let world = World::new(ASKS);
        world.till.script(steps);
        let mut intent = world.intent(text);
        if approved {
            intent = world.approve(&intent);
        }
        let answer = world.cancel(&intent.id);
        assert_eq!(answer.is_ok(), withdrawn, "{:?}", intent.state);
        if let Err(error) = answer {
            let AuthorityError::Asked(ActionError::NotCancelable { state }) = error else {
                panic!("{error}")
            };
            assert_eq!((state, world.state(&intent.id)), (intent.state, intent.state));
        }
        assert!(world.cancel(&intent.id).is_err(), "twice");
    }
}

#[test]
fn lists_are_filtered_and_cut() {
    let world = World::new("daily_cap = \"1.00\"");
    let mut made = vec![world.intent("k ch_1 3000")];
    world.policy(PLAIN);
    for text in ["k ch_1 3000", "k2 ch_1 1000", "- ch_2 1000"] {
        world.clock.advance(MS);
        made.push(world.intent(text));
    }
    let [denied, taken_over, second, keyless] = &made[..] else { panic!("four") };
    let all = IntentFilter { limit: 9, ..IntentFilter::default() };
    let key = Some(IdempotencyKey::parse("k").unwrap());
    #[rustfmt::skip]
    let table = [
        ("all",       all.clone(),                                           vec![keyless, second, taken_over, denied], false),
        ("two",       IntentFilter { limit: 2, ..all.clone() },              vec![keyless, second],                     true),
        ("exactly",   IntentFilter { limit: 4, ..all.clone() },              vec![keyless, second, taken_over, denied], false),
        ("older",     IntentFilter { before: Some(second.id.clone()), ..all.clone() }, vec![taken_over, denied],        false),
        ("key",       IntentFilter { idempotency_key: key, ..all.clone() },  vec![taken_over, denied],                  false),
        ("state",     IntentFilter { state: Some(State::Denied), ..all },    vec![denied],                              false),
    ];
    for (name, filter, expected, more) in table {
        let page = list(&world, &filter);
        let found: Vec<_> = page.intents.iter().map(|intent| &intent.id).collect();
        let expected: Vec<_> = expected.iter().map(|intent| &intent.id).collect();
        assert_eq!((found, page.more), (expected, more), "{name}");
    }
}

/// Whoever waits is woken by the change, and not before; and goes home when the time is up.
#[test]
fn waiting_ends_with_the_change_or_with_the_time() {
    let wait = Duration::from_secs(60);
    let world = World::new(ASKS);
    let intent = world.intent("k ch_1 3000");
    world.clock.sleepers_wait.store(true, Ordering::Relaxed);
    let waiting = world.authority.intent(&world.key, &intent.id, wait);
    let (seen, _) = run(join(waiting, async {
        // Something else happens first, and says nothing of this intent.
        world.ask("other ch_2 100");
        world.approve(&intent);
    }));
    assert_eq!(seen.unwrap().state, State::Approved);

    let started = world.clock.uptime();
    let waiting = world.authority.approval(&world.key, approval(&intent), wait);
    let (seen, _) = run(join(waiting, async { world.clock.advance(wait) }));
    assert_eq!(seen.unwrap().state, State::Approved, "nothing changed");
    assert_eq!(world.clock.uptime() - started, wait);

    // Nobody waits for what moves no more.
    world.cancel(&intent.id).unwrap();
    let seen = run(world.authority.intent(&world.key, &intent.id, wait)).unwrap();
    assert_eq!((seen.state, world.clock.uptime() - started), (State::Canceled, wait));
}

#[test]
fn the_budget_says_what_is_left() {
    let world = World::new(&format!("{ASKS}\nmax_per_payment = \"50.00\""));
    world.ask("k ch_1 1500");
    let budget = run(world.authority.budget(&world.key)).unwrap();
    assert_eq!(budget.max_per_payment, Some(dollars("50.00")));
    assert_eq!(budget.approval_threshold, Some(dollars("20.00")));
    assert_eq!(budget.stopped, None);
    assert_eq!(budget.windows[0].limit, dollars("200.00"));
    assert_eq!(budget.windows[0].spent, dollars("15.00"));
    assert_eq!(budget.windows[0].code.as_str(), "daily_cap");
}
