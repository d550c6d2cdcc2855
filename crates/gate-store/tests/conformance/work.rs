//! Work that is due, and spend in its windows.

use gate_core::{AccountId, Approval, HoldId, Intent, OnApproval, State, Timestamp};
use gate_money::MicroUsd;
use gate_store::{
    Books, Due, Money, Reads, Refunded, Reservation, Scope, SpendWindow, Spent, StopRow, Write,
};

use crate::world::{
    DAY, HOUR, World, agent_id, approval, at, cell, charge_of, customer, day, ids, insert,
    intent_id, intent_with, of_agent, release, reserve, team, update, with_customer, worth,
};

async fn due(world: &World, due: Due, limit: u16) -> String {
    let reads = Reads { due: Some((due, limit)), ..Reads::default() };
    ids(&world.read(reads).await.intents)
}

type Change = fn(&mut Intent, &mut Approval);

/// An intent with an approval that was given at the beginning and expires an hour later.
fn approved(id: &str, state: State, change: Change) -> Intent {
    intent_with(id, state, |intent| {
        let decided_at = (state != State::PendingApproval).then_some(at(0));
        let mut approval = Approval { decided_at, ..approval(&format!("apr_{id}")) };
        change(intent, &mut approval);
        intent.approval = Some(approval);
    })
}

const LOOKED_AT: Change = |intent, _| intent.follow_at = Some(at(5));

/// What was made, and what Stripe holds, each for its own asker, from its time on.
pub(crate) async fn what_is_followed_is_due_from_its_time_on(world: World) {
    let later: Change = |intent, _| {
        (intent.follow_at, intent.lease_until) = (Some(at(5)), Some(at(10)));
    };
    let from_5 = &[(at(4), false), (at(5), true), (at(HOUR), true)];
    let from_10 = &[(at(5), false), (at(9), false), (at(10), true)];
    let never = &[(at(HOUR), false)];
    use State::{AwaitingStripe, Settled, Submitted};
    hold(
        world,
        |_| Due::Followed,
        &[
            ("made", Settled, LOOKED_AT, from_5),
            ("leased", Settled, later, from_10),
            ("not followed", Settled, UNCHANGED, never),
            ("held", AwaitingStripe, LOOKED_AT, never),
            ("submitted", Submitted, LOOKED_AT, never),
        ],
    )
    .await;
}

/// By its time, the longest due first; by the request that an event names, due or not, and then those
/// whose request is not known.
pub(crate) async fn what_stripe_holds_is_found_by_its_request(world: World) {
    let world = world.with_agents().await;
    let waits = |n: i64, hold: Option<&str>, change: Change| {
        let id = format!("int_{n}");
        let mut intent = approved(&id, State::AwaitingStripe, change);
        intent.follow_at = Some(at(100 - n));
        if let Some(approval) = &mut intent.approval {
            approval.hold_id = hold.and_then(|id| HoldId::parse(id).ok());
        }
        insert(intent)
    };
    let settled: Change = |intent, _| intent.state = State::Settled;
    world
        .write(vec![
            waits(1, None, UNCHANGED),
            waits(2, Some("apreq_1"), UNCHANGED),
            waits(3, Some("apreq_2"), LEASED),
            waits(4, Some("apreq_2"), settled),
        ])
        .await;
    let request = |id: &str| Due::Awaiting(HoldId::parse(id).ok());
    let table = [
        // when, what is asked for, what is found
        (0, Due::Awaiting(None), ""),
        (98, Due::Awaiting(None), "int_3 int_2"),
        (99, Due::Awaiting(None), "int_3 int_2 int_1"),
        (0, request("apreq_1"), "int_2 int_1"),
        (9, request("apreq_2"), "int_1"),
        (10, request("apreq_2"), "int_3 int_1"),
        (10, request("apreq_3"), "int_1"),
    ];
    for (now, asked, expected) in table {
        world.clock.set(at(now));
        assert_eq!(due(&world, asked.clone(), 9).await, expected, "{asked:?} at {now}");
    }
}

/// A name, an intent by its state and more, and when it is due.
type Row<'a> = (&'a str, State, Change, &'a [(Timestamp, bool)]);

/// Inserts each row's intent alone, and holds when it is due against the row.
async fn hold(world: World, asked: fn(&str) -> Due, table: &[Row<'_>]) {
    let world = world.with_agents().await;
    for (n, (name, state, change, expected)) in table.iter().enumerate() {
        let id = format!("int_{n}");
        world.clock.set(at(0));
        world.write(vec![insert(approved(&id, *state, *change))]).await;
        for (now, expected) in *expected {
            world.clock.set(*now);
            let found = due(&world, asked(&id), 9).await;
            assert_eq!(found, if *expected { id.as_str() } else { "" }, "{name} at {now:?}");
        }
        let gone = intent_with(&id, State::Canceled, |_| {});
        world.write(vec![update(*state, gone)]).await;
    }
}

const UNCHANGED: Change = |_, _| {};
const LEASED: Change = |intent, _| intent.lease_until = Some(at(10));

pub(crate) async fn approved_work_is_due_while_it_is_usable(world: World) {
    let days: Change = |_, approval| approval.expires_at = at(3 * DAY);
    let undecided: Change = |_, approval| approval.decided_at = None;
    let agents: Change = |_, approval| approval.on_approval = OnApproval::Agent;
    hold(
        world,
        |_| Due::Approved,
        &[
            ("a day", State::Approved, UNCHANGED, &[(at(DAY - 1), true), (at(DAY), false)]),
            ("days", State::Approved, days, &[(at(3 * DAY - 1), true), (at(3 * DAY), false)]),
            ("odd", State::Approved, undecided, &[(at(HOUR - 1), true), (at(HOUR), false)]),
            ("leased", State::Approved, LEASED, &[(at(9), false), (at(10), true)]),
            ("the agent's", State::Approved, agents, &[(at(0), false)]),
            ("pending", State::PendingApproval, UNCHANGED, &[(at(0), false)]),
            ("submitted", State::Submitted, UNCHANGED, &[(at(0), false)]),
        ],
    )
    .await;
}

pub(crate) async fn a_stop_holds_what_is_approved_and_nothing_else(world: World) {
    let world = world.with_agents().await;
    let of = |id, agent| {
        let mut intent = approved(id, State::Approved, UNCHANGED);
        intent.agent = agent_id(agent);
        intent.team = Some(team(&format!("team-{agent}")));
        insert(intent)
    };
    world.write(vec![of("int_1", 1), of("int_2", 2)]).await;
    let submitted = intent_with("int_3", State::Submitted, |_| {});
    world.write(vec![insert(submitted)]).await;
    let stop =
        |scope| Write::PutStop(StopRow { scope, by: "ada".to_owned(), note: None, at: at(0) });
    let table = [
        // what is stopped                         approved work   one by its id
        (vec![], "int_1 int_2", "int_1"),
        (vec![Scope::Agent(agent_id(1))], "int_2", "int_1"),
        (vec![Scope::Agent(agent_id(2))], "int_1", "int_1"),
        (vec![Scope::Team(team("team-2"))], "int_1", "int_1"),
        (vec![Scope::Organization], "", "int_1"),
    ];
    for (stopped, expected, one) in table {
        world.write(stopped.iter().cloned().map(stop).collect()).await;
        // One alone is asked for, to see that the held do not fill the place.
        let first = expected.split(' ').next().unwrap();
        assert_eq!(due(&world, Due::Approved, 1).await, first, "{stopped:?}");
        assert_eq!(due(&world, Due::Approved, 9).await, expected, "{stopped:?}");
        assert_eq!(due(&world, Due::One(intent_id("int_1")), 9).await, one, "{stopped:?}");
        assert_eq!(due(&world, Due::Submitted, 9).await, "int_3", "{stopped:?}");
        world.write(stopped.into_iter().map(Write::LiftStop).collect()).await;
    }
}

pub(crate) async fn what_is_not_decided_or_used_in_time_expires(world: World) {
    let days: Change = |_, approval| approval.expires_at = at(3 * DAY);
    let undecided: Change = |_, approval| approval.decided_at = None;
    let agents: Change = |_, approval| approval.on_approval = OnApproval::Agent;
    let early: Change = |_, approval| approval.decided_at = Some(at(-DAY));
    hold(
        world,
        |_| Due::Expired,
        &[
            ("hour", State::PendingApproval, UNCHANGED, &[(at(HOUR - 1), false), (at(HOUR), true)]),
            ("leased", State::PendingApproval, LEASED, &[(at(HOUR), true)]),
            ("a day", State::Approved, UNCHANGED, &[(at(DAY - 1), false), (at(DAY), true)]),
            ("days", State::Approved, days, &[(at(3 * DAY - 1), false), (at(3 * DAY), true)]),
            ("early", State::Approved, early, &[(at(HOUR - 1), false), (at(HOUR), true)]),
            ("odd", State::Approved, undecided, &[(at(HOUR - 1), false), (at(HOUR), true)]),
            ("the agent's", State::Approved, agents, &[(at(DAY - 1), false), (at(DAY), true)]),
            ("submitted", State::Submitted, UNCHANGED, &[(at(9 * DAY), false)]),
            ("denied", State::Denied, UNCHANGED, &[(at(9 * DAY), false)]),
        ],
    )
    .await;
}

pub(crate) async fn submitted_work_is_due_when_its_lease_ends(world: World) {
    hold(
        world,
        |_| Due::Submitted,
        &[
            ("free", State::Submitted, UNCHANGED, &[(at(0), true), (at(99 * DAY), true)]),
            ("leased", State::Submitted, LEASED, &[(at(9), false), (at(10), true)]),
            ("approved", State::Approved, UNCHANGED, &[(at(0), false)]),
            ("settled", State::Settled, UNCHANGED, &[(at(0), false)]),
        ],
    )
    .await;
}

/// Of several accounts and both modes, work is only that of whoever asks.
pub(crate) async fn work_is_of_one_account_and_mode(world: World) {
    let world = world.with_agents().await;
    let acct = |text: &str| AccountId::parse(text).unwrap();
    let moved = [
        ("int_1", None, false),
        ("int_2", None, true),
        ("int_3", Some(acct("acct_1")), false),
        ("int_4", Some(acct("acct_2")), false),
        ("int_5", Some(acct("acct_1")), true),
        ("int_6", None, false),
    ];
    for (id, account, livemode) in &moved {
        let submitted = intent_with(id, State::Submitted, |intent| {
            (intent.account, intent.livemode) = (account.clone(), *livemode);
        });
        world.write(vec![insert(submitted)]).await;
    }
    let money = |account, livemode| Some(Money { account, livemode });
    let table = [
        // whose work, at most, and which
        (None, 9, "int_1 int_2 int_3 int_4 int_5 int_6"),
        (money(None, false), 9, "int_1 int_6"),
        (money(None, true), 9, "int_2"),
        (money(Some(acct("acct_1")), false), 9, "int_3"),
        (money(Some(acct("acct_2")), false), 9, "int_4"),
        (money(Some(acct("acct_1")), true), 9, "int_5"),
        (money(Some(acct("acct_2")), true), 9, ""),
        (money(None, false), 1, "int_1"),
    ];
    for (due_of, limit, expected) in table {
        let due = Some((Due::Submitted, limit));
        let reads = Reads { due, due_of: due_of.clone(), ..Reads::default() };
        assert_eq!(ids(&world.read(reads).await.intents), expected, "{due_of:?}");
        let one = Some((Due::One(intent_id("int_3")), 9));
        let reads = Reads { due: one, due_of: due_of.clone(), ..Reads::default() };
        let found = ids(&world.read(reads).await.intents);
        assert_eq!(found == "int_3", expected.contains("int_3"), "{due_of:?}");
    }
}

pub(crate) async fn one_intent_is_due_when_nobody_holds_it(world: World) {
    hold(
        world,
        |id| Due::One(intent_id(id)),
        &[
            ("submitted", State::Submitted, UNCHANGED, &[(at(0), true)]),
            ("approved", State::Approved, UNCHANGED, &[(at(0), true)]),
            ("leased", State::Submitted, LEASED, &[(at(9), false), (at(10), true)]),
            ("pending", State::PendingApproval, UNCHANGED, &[(at(0), false)]),
            ("stopped", State::NotExecuted, UNCHANGED, &[(at(0), false)]),
        ],
    )
    .await;
}

pub(crate) async fn work_is_handed_out_oldest_first_up_to_the_limit(world: World) {
    let world = world.with_agents().await;
    let made = |id, state| insert(approved(id, state, UNCHANGED));
    let submitted = ["int_3", "int_1", "int_2"].map(|id| made(id, State::Submitted));
    let pending = ["int_6", "int_4", "int_5"].map(|id| made(id, State::Approved));
    world.write(submitted.into_iter().chain(pending).collect()).await;
    for (asked, limit, expected) in [
        (Due::Submitted, 9, "int_1 int_2 int_3"),
        (Due::Submitted, 2, "int_1 int_2"),
        (Due::Submitted, 0, ""),
        (Due::Approved, 2, "int_4 int_5"),
        (Due::Expired, 9, ""),
        (Due::One(intent_id("int_3")), 0, ""),
        (Due::One(intent_id("int_3")), 1, "int_3"),
    ] {
        let name = format!("{asked:?}");
        assert_eq!(due(&world, asked, limit).await, expected, "{name}, at most {limit}");
    }
    world.clock.set(at(DAY));
    assert_eq!(due(&world, Due::Expired, 2).await, "int_4 int_5");
}

/// What `agent` spent in open windows, each as `period:micros`.
async fn spent(world: &World, agent: u8) -> String {
    let seen = world.read(Reads { policy: true, ..of_agent(agent) }).await;
    let spent = seen.spent.iter();
    let cells: Vec<String> =
        spent.map(|s| format!("{}:{}", s.window.period, s.usd.micros())).collect();
    cells.join(" ")
}

pub(crate) async fn spend_counts_in_open_windows(world: World) {
    let world = world.with_agents().await;
    let all = SpendWindow { scope: Scope::Organization, ..day(1, 0) };
    let week = SpendWindow { period: "week".to_owned(), ends_at: at(7 * DAY), ..day(1, 0) };
    for id in ["int_1", "int_2", "int_3"] {
        world.write(vec![insert(intent_with(id, State::Submitted, |_| {}))]).await;
    }
    world
        .write(vec![
            reserve("int_1", 5, vec![day(1, 0), week.clone(), all]),
            reserve("int_2", 7, vec![day(1, 0), day(2, 0)]),
            reserve("int_3", 11, vec![day(1, 1), week]),
        ])
        .await;
    for (now, agent, expected) in [
        (at(-1), 1, ""),
        (at(0), 1, "day:12 week:16"),
        (at(DAY - 1), 1, "day:12 week:16"),
        (at(DAY), 1, "day:11 week:16"),
        (at(2 * DAY - 1), 1, "day:11 week:16"),
        (at(2 * DAY), 1, "week:16"),
        (at(7 * DAY), 1, ""),
        (at(0), 2, "day:7"),
        (at(0), 3, ""),
    ] {
        world.clock.set(now);
        assert_eq!(spent(&world, agent).await, expected, "agent {agent} at {now:?}");
    }
    world.clock.set(at(0));
    assert!(world.read(of_agent(1)).await.spent.is_empty(), "not asked for");
}

pub(crate) async fn the_books_show_all_that_is_counted_and_held(world: World) {
    let world = world.with_agents().await;
    let all = SpendWindow { scope: Scope::Organization, ..day(1, 0) };
    for id in ["int_2", "int_1", "int_3"] {
        world.write(vec![insert(intent_with(id, State::Submitted, |_| {}))]).await;
    }
    world
        .write(vec![
            reserve("int_2", 7, vec![day(2, 0), all.clone(), day(1, 0)]),
            reserve("int_1", 5, vec![day(1, 3)]),
            reserve("int_3", 3, vec![day(1, 0)]),
            release("int_1"),
            Write::SurrenderKey(intent_id("int_2")),
        ])
        .await;
    let usd = |micros| MicroUsd::new(micros).unwrap();
    let total = |window: &SpendWindow, micros| Spent { window: window.clone(), usd: usd(micros) };
    let of = |id: &str, window: &SpendWindow, micros| Reservation {
        intent: intent_id(id),
        window: window.clone(),
        usd: usd(micros),
    };
    let books = world.read(Reads { books: true, ..Reads::default() }).await.books;
    let expected = Books {
        windows: vec![
            total(&day(1, 0), 10),
            total(&day(1, 3), 0),
            total(&day(2, 0), 7),
            total(&all, 7),
        ],
        reservations: vec![
            of("int_2", &day(1, 0), 7),
            of("int_2", &day(2, 0), 7),
            of("int_2", &all, 7),
            of("int_3", &day(1, 0), 3),
        ],
        key_holders: vec![intent_id("int_1"), intent_id("int_3")],
    };
    assert_eq!(books, expected);
    assert_eq!(world.read(of_agent(1)).await.books, Books::default(), "not asked for");
}

pub(crate) async fn spend_is_given_back_once_to_where_it_was_reserved(world: World) {
    let world = world.with_agents().await;
    for id in ["int_1", "int_2"] {
        world.write(vec![insert(intent_with(id, State::Submitted, |_| {}))]).await;
    }
    // The same day in another time zone is another window.
    let moved = SpendWindow { starts_at: at(HOUR), ends_at: at(DAY + HOUR), ..day(1, 0) };
    let table: [(&str, Vec<Write>, &str, &str); 10] = [
        // writes                                                            found       left
        ("first", vec![reserve("int_1", 5, vec![day(1, 0)])], "done", "day:5"),
        ("again", vec![reserve("int_1", 5, vec![day(1, 0)])], "conflict", "day:5"),
        ("elsewhere", vec![reserve("int_1", 5, vec![moved.clone()])], "conflict", "day:5"),
        ("second", vec![reserve("int_2", 7, vec![moved.clone()])], "done", "day:5 day:7"),
        ("back", vec![release("int_1")], "done", "day:0 day:7"),
        ("back again", vec![release("int_1"), release("int_none")], "done", "day:0 day:7"),
        ("once more", vec![reserve("int_1", 2, vec![moved])], "done", "day:0 day:9"),
        ("nowhere", vec![release("int_1"), reserve("int_1", 2, vec![])], "done", "day:0 day:7"),
        ("here", vec![reserve("int_1", 3, vec![day(1, 0)])], "done", "day:3 day:7"),
        ("no intent", vec![reserve("int_3", 3, vec![day(1, 0)])], "conflict", "day:3 day:7"),
    ];
    world.clock.set(at(2 * HOUR));
    for (name, writes, expected, left) in table {
        assert_eq!(cell(world.try_write(writes).await), expected, "{name}");
        assert_eq!(spent(&world, 1).await, left, "{name}");
    }
}

pub(crate) async fn spend_neither_overflows_nor_falls_below_nothing(world: World) {
    let world = world.with_agents().await;
    for id in ["int_1", "int_2", "int_3"] {
        world.write(vec![insert(intent_with(id, State::Submitted, |_| {}))]).await;
    }
    world.write(vec![reserve("int_1", i64::MAX - 1, vec![day(1, 0)])]).await;
    let before = world.everything().await;
    let over = vec![
        reserve("int_2", 1, vec![day(1, 0), day(2, 0)]),
        reserve("int_3", 1, vec![day(1, 1), day(1, 0)]),
    ];
    assert_eq!(cell(world.try_write(over).await), "corrupt");
    assert_eq!(world.everything().await, before);
    world.write(vec![release("int_1"), release("int_2")]).await;
    assert_eq!(spent(&world, 1).await, "day:0");
}

/// A team's windows are shown to every agent, for the team is known from the policy alone; a
/// customer's only where it is asked for, and only with the same agent.
pub(crate) async fn teams_and_customers_count_beside_the_agent(world: World) {
    let world = world.with_agents().await;
    let of = |scope| SpendWindow { scope, ..day(1, 0) };
    let windows = [
        day(1, 0),
        of(with_customer(1, 1)),
        of(with_customer(1, 2)),
        of(with_customer(2, 1)),
        of(Scope::Team(team("night"))),
        of(Scope::Team(team("sales"))),
        SpendWindow { scope: Scope::Team(team("sales")), ..day(1, 1) },
    ];
    world.write(vec![insert(intent_with("int_1", State::Submitted, |_| {}))]).await;
    world.write(vec![reserve("int_1", 7, windows.to_vec())]).await;
    #[rustfmt::skip]
    let table = [
        // agent, customer, what is seen
        (1, None,    "agent:agt_1 team:night team:sales"),
        (1, Some(1), "agent:agt_1 customer:agt_1:cus_1 team:night team:sales"),
        (2, Some(1), "customer:agt_2:cus_1 team:night team:sales"),
        (2, Some(3), "team:night team:sales"),
    ];
    for (agent, n, expected) in table {
        let reads = Reads { policy: true, customer: n.map(customer), ..of_agent(agent) };
        let seen = world.read(reads).await.spent;
        let scopes: Vec<String> = seen.iter().map(|spent| spent.window.scope.text()).collect();
        assert_eq!(scopes.join(" "), expected, "agent {agent}, customer {n:?}");
        assert!(seen.iter().all(|spent| spent.usd.micros() == 7));
    }
    for window in windows {
        assert_eq!(Scope::parse(&window.scope.text()), Some(window.scope));
    }
    for odd in ["", "team", "team:", "agent:cus_1", "customer:agt_1", "customer:agt_1:", "x:y"] {
        assert_eq!(Scope::parse(odd), None, "{odd}");
    }
    world.write(vec![release("int_1")]).await;
    let seen = world.read(Reads { policy: true, ..of_agent(1) }).await.spent;
    assert!(seen.iter().all(|spent| spent.usd == MicroUsd::ZERO), "{seen:?}");
}

/// An hour of an agent's, 30 days of a customer's: what left, or may have.
pub(crate) async fn recent_refunds_are_those_that_may_have_left(world: World) {
    let world = world.with_agents().await;
    world.clock.set(at(40 * DAY));
    const AGO: i64 = 40 * DAY;
    #[rustfmt::skip]
    let table = [
        // state,                agent, customer, submitted,              of the agent, of the customer
        (State::Submitted,       1,     1,        Some(AGO),              1,            1),
        (State::AwaitingStripe,  1,     1,        Some(AGO),              1,            1),
        (State::Settled,         1,     1,        Some(AGO - HOUR + 1),   1,            1),
        (State::Settled,         1,     1,        Some(AGO - HOUR),       0,            1),
        (State::Reversed,        1,     1,        Some(AGO),              1,            1),
        (State::Failed,          1,     1,        Some(AGO),              0,            0),
        (State::NotExecuted,     1,     1,        Some(AGO),              0,            0),
        (State::PendingApproval, 1,     1,        None,                   0,            0),
        (State::Denied,          1,     1,        None,                   0,            0),
        (State::Settled,         2,     1,        Some(AGO),              0,            1),
        (State::Settled,         1,     2,        Some(AGO),              1,            0),
        (State::Settled,         1,     0,        Some(AGO),              1,            0),
        (State::Settled,         1,     1,        Some(AGO - 30 * DAY + 1), 0,          1),
        (State::Settled,         1,     1,        Some(AGO - 30 * DAY),   0,            0),
    ];
    let (mut recent, mut count, mut usd) = (0, 0, 0);
    for (n, (state, agent, who, submitted, of_agent_, of_customer)) in table.into_iter().enumerate()
    {
        let made = intent_with(&format!("int_{n:02}"), state, |intent| {
            intent.agent = agent_id(agent);
            intent.seen = charge_of(who);
            intent.worth = Some(worth(1 << n));
            intent.submitted_at = submitted.map(at);
        });
        world.write(vec![insert(made)]).await;
        recent += of_agent_;
        count += of_customer;
        usd += i64::from(of_customer) << n;
        let reads = Reads { policy: true, customer: Some(customer(1)), ..of_agent(1) };
        let seen = world.read(reads).await;
        assert_eq!(seen.recent_refunds, recent, "row {n}");
        assert_eq!(seen.refunded, Refunded { count, usd: MicroUsd::new(usd).unwrap() }, "row {n}");
    }
    let seen = world.read(of_agent(1)).await;
    assert_eq!((seen.recent_refunds, seen.refunded), (0, Refunded::default()), "not asked for");
}
