//! Small worlds in which anything happens in any order, and what holds after every step.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures_util::future::{join_all, try_join};
use gate_authority::{Whom, invariants};
use gate_core::{
    ActionError, Actions, Clock, Event, Intent, IntentId, RefundStatus, State, TeamName, Ticket,
    Timestamp,
};
use gate_money::MicroUsd;
use gate_store::{IntentBy, Reads, Store};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::budgets;
use crate::outcomes::seen;
use crate::till::Step;
use crate::world::{HOUR, World, approval, ask, dollars, run, run_for, told, user};

const CAP: &str = "150.00";
/// Who reviews: two of them have to agree.
const PEOPLE: [&str; 3] = ["rita", "remy", "rosa"];
const MINUTE: Duration = Duration::from_secs(60);
const STEPS: [Step; 9] = [
    Step::Made("succeeded"),
    Step::Made("pending"),
    Step::Made("failed"),
    Step::MadeAndLost,
    Step::Lost,
    Step::Stored,
    Step::NotStored,
    Step::Forbidden,
    Step::Refused,
];

/// Something that happens. Intents are picked among those that there are.
#[derive(Clone, Debug)]
enum Happens {
    Ask { other: bool, text: String, dies_after: Option<usize> },
    AskAtOnce { texts: Vec<String>, while_reconciling: bool },
    Script(Vec<Step>),
    Approve(Index, &'static str),
    Deny(Index),
    Reopen(Index),
    Role(&'static str, bool),
    Cancel(Index),
    Stop(bool),
    Resume(bool),
    Pass(Duration),
    Reconcile,
    Sweep,
    ProcessorApproves,
    RefundFails(Index),
    Webhook(Index),
}

fn text() -> impl Strategy<Value = String> {
    let key = select(vec!["k1", "k2", "k3", "-", "-"]);
    let charge = select(vec!["ch_1", "ch_2", "pi_1"]);
    let amount = select(vec!["full", "1000", "3000", "6000"]);
    (key, charge, amount).prop_map(|(key, charge, amount)| format!("{key} {charge} {amount}"))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![9 => select(STEPS.to_vec()), 1 => Just(Step::Held)];
    prop::collection::vec(step, 1..4)
}

fn happens() -> impl Strategy<Value = Happens> {
    use Happens as H;
    let pass = [Duration::from_millis(1), MINUTE, HOUR, 12 * HOUR, 23 * HOUR, 25 * HOUR];
    prop_oneof![
        8 => (prop::bool::weighted(0.3), text(), prop::option::weighted(0.3, 1..8_usize))
            .prop_map(|(other, text, dies_after)| H::Ask { other, text, dies_after }),
        4 => (prop::collection::vec(text(), 2..5), any::<bool>())
            .prop_map(|(texts, while_reconciling)| H::AskAtOnce { texts, while_reconciling }),
        6 => steps().prop_map(H::Script),
        6 => (any::<Index>(), select(PEOPLE.to_vec())).prop_map(|(at, who)| H::Approve(at, who)),
        1 => any::<Index>().prop_map(H::Deny),
        1 => any::<Index>().prop_map(H::Reopen),
        1 => (select(PEOPLE.to_vec()), any::<bool>()).prop_map(|(who, may)| H::Role(who, may)),
        1 => any::<Index>().prop_map(H::Cancel),
        1 => any::<bool>().prop_map(H::Stop),
        2 => any::<bool>().prop_map(H::Resume),
        4 => select(pass.to_vec()).prop_map(H::Pass),
        4 => Just(H::Reconcile),
        2 => Just(H::Sweep),
        1 => Just(H::ProcessorApproves),
        1 => any::<Index>().prop_map(H::RefundFails),
        2 => any::<Index>().prop_map(H::Webhook),
    ]
}

fn happen(world: &World, what: &Happens) {
    let intents = world.intents();
    let pick = |index: &Index| (!intents.is_empty()).then(|| index.get(&intents).clone());
    let waits = |index: &Index| {
        let pending = intents.iter().filter(|intent| intent.state == State::PendingApproval);
        let pending: Vec<&Intent> = pending.collect();
        (!pending.is_empty()).then(|| (*index.get(&pending)).clone())
    };
    match what {
        Happens::Ask { other, text, dies_after } => {
            let key = if *other { &world.other } else { &world.key };
            let asked = world.refunds.refund(key, ask(text));
            if let Some(answer) = run_for(asked, dies_after.unwrap_or(usize::MAX)) {
                sound(&answer.map(|answer| told(&Ok(answer))));
            }
        }
        Happens::AskAtOnce { texts, while_reconciling } => {
            let asks = texts.iter().map(|text| world.refunds.refund(&world.key, ask(text)));
            let reconciler = world.reconciler();
            let step: Pin<Box<dyn Future<Output = _>>> = if *while_reconciling {
                Box::pin(reconciler.step())
            } else {
                Box::pin(async { Ok(gate_core::Reconciled::default()) })
            };
            let asks = async { Ok(join_all(asks).await) };
            let (answers, reconciled) = run(try_join(asks, step)).unwrap();
            assert!(reconciled.failed.is_empty(), "{:?}", reconciled.failed);
            answers.into_iter().for_each(|answer| sound(&answer.map(|answer| told(&Ok(answer)))));
        }
        Happens::Script(steps) => world.till.script(steps),
        Happens::Approve(index, who) => {
            if let Some(intent) = waits(index) {
                let _ = run(world.admin().approve(approval(&intent), &user(who), None));
            }
        }
        Happens::Reopen(index) => {
            if let Some(intent) = pick(index).filter(|intent| intent.approval.is_some()) {
                let _ = run(world.admin().reopen(approval(&intent), &user("rita"), None));
            }
        }
        Happens::Role(who, may) => {
            let role = if *may { "support-leads" } else { "viewer" };
            run(world.admin().set_roles(&user(who), &[role.to_owned()])).unwrap();
        }
        Happens::Deny(index) => {
            if let Some(intent) = waits(index) {
                let _ = run(world.admin().deny(approval(&intent), &user("rita"), "no"));
            }
        }
        Happens::Cancel(index) => {
            let _ = pick(index).map(|intent| world.cancel(&intent.id));
        }
        Happens::Stop(team) => drop(run(world.admin().stop(whom(*team), None)).unwrap()),
        Happens::Resume(team) => drop(run(world.admin().resume(whom(*team), None)).unwrap()),
        Happens::Pass(span) => world.clock.advance(*span),
        Happens::Reconcile => {
            let reconciled = world.reconcile();
            assert!(reconciled.failed.is_empty(), "{:?}", reconciled.failed);
        }
        Happens::Sweep => drop(world.sweep()),
        Happens::ProcessorApproves => world.till.approve_held(),
        Happens::RefundFails(index) => {
            let _ = pick(index).map(|intent| world.till.fail(&intent.id));
        }
        Happens::Webhook(index) => {
            let _ = pick(index).map(|intent| webhook(world, &intent.id));
        }
    }
}

fn whom(team: bool) -> Whom<'static> {
    static TEAM: LazyLock<TeamName> = LazyLock::new(|| TeamName::parse("support").unwrap());
    if team { Whom::Team(&TEAM) } else { Whom::Everybody }
}

/// An answer may be no, but never that something is broken.
fn sound(answer: &Result<String, ActionError>) {
    if let Err(ActionError::AuthorityError { detail }) = answer {
        panic!("{detail}");
    }
}

fn webhook(world: &World, id: &IntentId) {
    if let Some(refund) = world.till.refund_of(id) {
        seen(world, id, &refund);
    }
}

/// What was seen of the world so far: when each intent was submitted, and on which day its spend
/// was reserved, while it is.
#[derive(Default)]
struct Observer {
    commits: u64,
    known: BTreeMap<IntentId, (Option<Timestamp>, Option<Day>)>,
    days: BTreeSet<Day>,
}

/// Days since 1970, in the organisation's time zone, which is UTC.
type Day = i64;

fn day(at: Timestamp) -> Day {
    at.millis().div_euclid(24 * 3_600_000)
}

impl Observer {
    fn check(&mut self, world: &World) {
        let intents = world.intents();
        refunds(world, &intents);
        if std::mem::replace(&mut self.commits, world.store.commits()) != world.store.commits() {
            self.spend(world, &intents);
            histories(world, &intents);
            assert_eq!(run(invariants(&world.authority)).unwrap(), vec![]);
        }
    }

    /// In every window what is counted is what was reserved in it by intents that count, and it is
    /// within the cap.
    fn spend(&mut self, world: &World, intents: &[Intent]) {
        let mut sums: BTreeMap<Day, i64> = BTreeMap::new();
        for intent in intents.iter().filter(|intent| intent.agent_name.as_str() == "bot") {
            let (submitted_at, reserved) = self.known.entry(intent.id.clone()).or_default();
            if !intent.state.counts() {
                *reserved = None;
            } else if intent.submitted_at != *submitted_at || reserved.is_none() {
                *reserved = intent.submitted_at.map(day);
            }
            *submitted_at = intent.submitted_at;
            if let Some(day) = *reserved {
                let worth = intent.worth.as_ref().unwrap();
                *sums.entry(day).or_default() += worth.usd.micros();
                self.days.insert(day);
            }
        }
        let now = world.clock.now();
        for past in self.days.clone() {
            let sum = sums.get(&past).copied().unwrap_or(0);
            let noon = Timestamp::from_millis(past * 24 * 3_600_000 + 12 * 3_600_000);
            world.clock.set(noon);
            let spent = world.budget()[0].spent;
            assert_eq!(spent, MicroUsd::new(sum).unwrap(), "day {past}");
            assert!(spent <= dollars(CAP), "day {past}: {spent}");
        }
        world.clock.set(now);
    }
}

/// Every transition has exactly one entry, and the chain verifies.
fn histories(world: &World, intents: &[Intent]) {
    let rows = world.audit();
    let mut histories: BTreeMap<&str, Vec<State>> = BTreeMap::new();
    for row in &rows {
        if let Some(state) = row.entry.action.strip_prefix("intent.").and_then(State::parse) {
            histories.entry(&row.entry.subject).or_default().push(state);
        }
    }
    for intent in intents {
        let mut before = State::Asked;
        for state in &histories[intent.id.as_str()] {
            assert!(follows(before, *state), "{}: {before:?}, then {state:?}", intent.id);
            before = *state;
        }
        assert_eq!(before, intent.state, "{}: the last entry", intent.id);
    }
}

fn follows(before: State, after: State) -> bool {
    use Event as E;
    [
        E::Hold,
        E::Allow,
        E::Deny,
        E::Approve,
        E::Expire,
        E::Cancel,
        E::Settle,
        E::Fail,
        E::Await,
        E::NotExecute,
        E::Reverse,
    ]
    .into_iter()
    .any(|event| before.after(event) == Ok(after))
}

/// At most one refund for an intent, and for an agent's key; each for exactly what was decided.
fn refunds(world: &World, intents: &[Intent]) {
    let mut ids = BTreeSet::new();
    let mut keys = BTreeSet::new();
    for made in world.till.made() {
        let id = made.refund.intent.unwrap();
        let intent = intents.iter().find(|intent| intent.id == id).unwrap();
        assert!(intent.submitted_at.is_some(), "{id} was never allowed");
        assert_eq!((&made.charge, made.minor), (&intent.charge, intent.amount.minor()), "{id}");
        assert!(ids.insert(id.clone()), "{id} was made twice");
        assert!(keys.insert(made.key_hash), "{id}: its key was paid before");
    }
}

/// Nothing leaves that is not durably submitted, byte for byte as it is sent.
fn submitted_first(store: &dyn Store, ticket: &Ticket) {
    let intent = Some(IntentBy::Id(ticket.intent().clone()));
    let intent = run(store.read(Reads { intent, ..Reads::default() })).unwrap().intent.unwrap();
    assert_eq!(intent.state, State::Submitted);
    assert_eq!(intent.request.as_ref(), Some(ticket.request()));
}

/// Once faults stop, everything comes to an end that agrees with the processor, or to a person.
fn settles_down(world: &World, observer: &mut Observer) {
    world.till.script(&[]);
    for team in [false, true] {
        run(world.admin().resume(whom(team), None)).unwrap();
    }
    for pass in [MINUTE, MINUTE, 25 * HOUR, 25 * HOUR] {
        world.reconcile();
        world.till.approve_held();
        world.intents().iter().for_each(|intent| webhook(world, &intent.id));
        world.clock.advance(pass);
        world.sweep();
        observer.check(world);
    }
    for intent in world.intents() {
        let refund = world.till.refund_of(&intent.id);
        let made = refund.as_ref().map(|refund| refund.status != RefundStatus::Failed);
        let good = match intent.state {
            State::Settled => made == Some(true),
            State::Reversed => made == Some(false),
            State::Failed => made != Some(true),
            State::Submitted => made.is_none() && intent.needs_person,
            State::NotExecuted
            | State::AwaitingStripe
            | State::Denied
            | State::Expired
            | State::Canceled => made.is_none(),
            State::Asked | State::PendingApproval | State::Approved => false,
        };
        assert!(good, "{} is {:?}, at the processor {refund:?}", intent.id, intent.state);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens(
        on_approval in select(vec!["execute", "agent"]),
        story in prop::collection::vec(happens(), 20..80),
    ) {
        // The other caps are held by the invariants, which are judged after every change.
        let bot = format!(
            "daily_cap = \"{CAP}\"\nweekly_cap = \"220.00\"\nmonthly_cap = \"300.00\"\n\
             per_customer_daily_cap = \"120.00\"\napproval_threshold = \"50.00\"\n\
             approvals_required = 2\non_approval = \"{on_approval}\""
        );
        let world = budgets::world(&bot, "daily_budget = \"170.00\"\nmonthly_budget = \"400.00\"");
        for name in PEOPLE {
            let _ = run(world.admin().create_user(&user(name), &["support-leads".to_owned()]));
        }
        let store = Arc::clone(&world.store);
        world.till.watch(move |ticket| submitted_first(store.as_ref(), ticket));
        let mut observer = Observer::default();
        for what in &story {
            happen(&world, what);
            observer.check(&world);
        }
        settles_down(&world, &mut observer);
    }
}
