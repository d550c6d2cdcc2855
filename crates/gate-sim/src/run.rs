//! One seed, from the empty world to the last check.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use futures_util::FutureExt as _;
use gate_authority::{Actor, Admin, Whom};
use gate_core::State;
use gate_core::bugs::{self, Bug};
use gate_store::{IntentQuery, Reads, Store as _, verify};
use serde_json::Value;

use crate::coverage::Coverage;
use crate::credentials::repairs;
use crate::executor::{Executor, Node, Step};
use crate::faults::{Class, Fault, Place};
use crate::ledger::Entry;
use crate::people::does;
use crate::store::predicted;
use crate::witness::Violation;
use crate::world::World;

/// No world needs as many polls; one that does goes round in circles.
const POLLS_MAX: u64 = 3_000_000;
/// After faults stop: for what is still on its way to arrive and for the dead to come back.
const LANDING_MS: u64 = 170_000;
/// Within this time after the cause went away a lost outcome is repaired.
const REPAIR_MS: u64 = 60_000;
const HOUR_MS: u64 = 3_600_000;

/// How a seed is run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// What is left out: classes, single faults, operations, by their names.
    pub without: BTreeSet<String>,
    /// What alone happens, single faults and operations by their names; absent: everything.
    pub only: Option<BTreeSet<String>>,
    /// Whether a timeline is kept.
    pub timeline: bool,
    /// The bug that is put into the product.
    pub bug: Option<Bug>,
}

/// What a seed came to.
#[derive(Debug)]
pub struct Report {
    /// The laws that were broken; the world ended with the first.
    pub violations: Vec<Violation>,
    /// Equal for equal runs.
    pub trace_hash: u64,
    /// Which transitions were met by what.
    pub coverage: Coverage,
    /// What happened, if it was to be kept: virtual milliseconds and one line.
    pub timeline: Vec<(u64, String)>,
    /// The names of what went wrong, each fit to be left out.
    pub faults: Vec<String>,
    /// The names of what was done, each fit to be left out.
    pub ops: Vec<String>,
    /// Polls of tasks.
    pub polls: u64,
}

/// Runs a seed.
#[must_use]
pub fn run(seed: u64, options: &Options) -> Report {
    bugs::set(options.bug);
    let mut course = Course::new(seed, options);
    course.set_up();
    let ends_ms = course.world.plan.ends_ms;
    course.until(ends_ms);
    course.world.faults.switch(false);
    course.world.witness.line(|| "no more faults".to_owned());
    // A lease that was given before the store's clock was set back ends so much later.
    let landed_ms = ends_ms + LANDING_MS + course.world.plan.set_back_ms();
    course.until(landed_ms);
    course.repair();
    course.wake();
    course.until(landed_ms + REPAIR_MS);
    course.repaired();
    course.ready();
    course.resume();
    course.until(landed_ms + REPAIR_MS + 30 * HOUR_MS);
    course.after_a_day();
    if course.is_open() {
        // Past the longest approval, and the fifteen days for which a refund is looked for.
        course.until(landed_ms + REPAIR_MS + 17 * 24 * HOUR_MS);
    }
    course.at_the_end();
    bugs::set(None);
    course.report()
}

/// A world on its way.
struct Course {
    executor: Executor,
    world: Arc<World>,
    ops: Vec<String>,
    /// Every refund at Stripe, in the end.
    refunds: Vec<Value>,
}

impl Course {
    fn new(seed: u64, options: &Options) -> Self {
        let executor = Executor::new(seed);
        let world = World::new(seed, &executor.handle(), options);
        Self { executor, world: Arc::new(world), ops: Vec::new(), refunds: Vec::new() }
    }

    fn set_up(&mut self) {
        let world = Arc::clone(&self.world);
        self.executor.handle().spawn(Node::DESK, async move { world.set_up().await });
        self.until(500);
        assert!(self.world.is_set_up.load(Ordering::Relaxed), "the world is not set up");
        for node in self.world.processes() {
            self.world.start(node);
        }
        for op in self.world.plan.ops.clone() {
            let name = format!("op:{}", op.n);
            if !self.world.faults.is_left_out(&name) {
                self.ops.push(name);
                self.executor.handle().spawn(Node::DESK, does(Arc::clone(&self.world), op));
            }
        }
        self.executor.handle().spawn(Node::STRIPE, Arc::clone(&self.world).posts());
        if self.world.plan.is_fretted_over {
            self.executor.handle().spawn(Node::DESK, Arc::clone(&self.world).frets());
        }
        self.world.faults.switch(true);
    }

    fn is_over(&self) -> bool {
        !self.world.witness.seen().violations.is_empty()
    }

    /// Lets the world go on until it is so old, or a law is broken.
    fn until(&mut self, limit_ms: u64) {
        if self.is_over() {
            return;
        }
        loop {
            match self.executor.step(limit_ms) {
                Step::Limit => return,
                Step::Waited => {}
                Step::Polled(node) => {
                    if self.is_over() {
                        return;
                    }
                    self.may_die(node);
                    self.may_restart();
                }
            }
            if self.executor.polls() > POLLS_MAX {
                self.world
                    .witness
                    .seen()
                    .breach("I8", "the world goes round in circles".to_owned());
                return;
            }
        }
    }

    /// Every await is a point at which a gateway may die.
    fn may_die(&mut self, node: Node) {
        let may = Node::GATEWAYS.contains(&node) || Node::REPLICAS.contains(&node);
        if !may {
            return;
        }
        let hot = self.world.witness.seen().is_hot(node);
        let place = if hot { Place::HotPoll } else { Place::Poll };
        let Some(fault) = self.world.faults.at(place, node) else { return };
        if fault.class == Class::Freeze {
            let for_ms =
                500 + fault.chance % if fault.chance.is_multiple_of(2) { 3_000 } else { 70_000 };
            let mut seen = self.world.witness.seen();
            seen.faulted(&fault);
            seen.freezes(node, for_ms);
            drop(seen);
            self.executor.freeze(node, for_ms);
            return;
        }
        let store = Arc::clone(&self.world.store);
        {
            let mut seen = self.world.witness.seen();
            seen.faulted(&fault);
            seen.crashing(node, |reads, judge| predicted(&store, reads, judge));
        }
        self.world.died(node);
        self.executor.crash(node);
        let world = Arc::clone(&self.world);
        let after_ms = 50 + fault.chance % if fault.chance % 3 == 0 { 60_000 } else { 2_000 };
        self.executor.handle().spawn(Node::STRIPE, async move {
            world.handle.sleep(after_ms).await;
            world.start(node);
        });
    }

    /// The operator starts a gateway anew, with another credential.
    fn may_restart(&mut self) {
        let mut restarts = self.world.restarts.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = std::mem::take(&mut *restarts);
        drop(restarts);
        for node in nodes {
            let store = Arc::clone(&self.world.store);
            self.world
                .witness
                .seen()
                .crashing(node, |reads, judge| predicted(&store, reads, judge));
            self.world.died(node);
            self.executor.crash(node);
            self.world.start(node);
        }
    }

    /// The operator sees to what gateways need to ask an authority elsewhere: a credential that is
    /// taken, and a clock that is right.
    fn repair(&mut self) {
        if let Some(wire) = &self.world.wire {
            wire.up();
            self.world.sets_clocks();
            let world = Arc::clone(&self.world);
            self.executor.handle().spawn(Node::DESK, repairs(world));
        }
    }

    /// Whoever was repaired is ready.
    fn ready(&self) {
        if self.is_over() {
            return;
        }
        for (which, gateway) in self.world.gateways().iter().enumerate() {
            let remote = gateway.as_ref().and_then(|gateway| gateway.remote.as_ref());
            let refused = remote.and_then(|remote| remote.health().refused);
            self.world.witness.seen().law("I8", refused.is_none(), || {
                format!("gateway {which} has a credential that is taken and is {refused:?}")
            });
        }
    }

    /// Tells everybody that there may be something to do.
    fn wake(&self) {
        self.world.stripe.tell();
        self.world.witness.seen().active();
        self.world.bell.ring();
        self.world.last_bell.ring();
    }

    /// A lost outcome is repaired: what is still submitted has a reason to be.
    fn repaired(&self) {
        if self.is_over() {
            return;
        }
        let mut seen = self.world.witness.seen();
        let now_ms = self.executor.handle().now_ms();
        let stuck: Vec<String> = seen
            .ledger
            .intents
            .values()
            .filter(|entry| entry.intent.state == State::Submitted)
            .filter(|entry| {
                let stopped = seen.ledger.stopped_since(&entry.intent).is_some();
                let old = entry.submitted_ms + 22 * HOUR_MS < now_ms;
                !stopped && !old && !entry.answers_500 && !entry.intent.needs_person
            })
            .map(|entry| entry.intent.id.to_string())
            .collect();
        seen.law("I8", stuck.is_empty(), || format!("{stuck:?} are not repaired within a minute"));
    }

    /// The operator lifts every stop.
    fn resume(&mut self) {
        let world = Arc::clone(&self.world);
        self.executor.handle().spawn(Node::DESK, async move {
            let admin = Admin::new(&world.desk, Actor::cli("sim", None));
            let agents = crate::plan::AGENTS.iter().map(|name| Whom::Agent(name));
            let team = gate_core::TeamName::parse(crate::plan::TEAM).expect("a name");
            for whom in agents.chain([Whom::Everybody, Whom::Team(&team)]) {
                // Who is not stopped cannot be resumed.
                let _ = admin.resume(whom, None).await;
            }
        });
        self.wake();
    }

    /// A day later whatever is not decided yet has an alarm.
    fn after_a_day(&self) {
        if self.is_over() {
            return;
        }
        let mut seen = self.world.witness.seen();
        let silent: Vec<String> = seen
            .ledger
            .intents
            .values()
            .filter(|entry| entry.intent.state == State::Submitted && !entry.intent.needs_person)
            .map(|entry| entry.intent.id.to_string())
            .collect();
        seen.law("I8", silent.is_empty(), || format!("{silent:?} are submitted without an alarm"));
    }

    /// Whether anything still waits for somebody, or to be found.
    fn is_open(&self) -> bool {
        let open =
            |state| matches!(state, State::Submitted | State::PendingApproval | State::Approved);
        let seen = self.world.witness.seen();
        seen.ledger.intents.values().any(|entry| open(entry.intent.state))
    }

    /// Whether a refund that carries no mark of ours looks like the intent's, so that it stays a
    /// person's to look into.
    fn is_confused(&self, entry: &Entry) -> bool {
        let intent = &entry.intent;
        self.refunds.iter().any(|refund| {
            refund["charge"] == intent.charge.as_str()
                && refund["amount"] == intent.amount.minor()
                && refund["metadata"]["burnbound_intent"].as_str().unwrap_or_default().is_empty()
        })
    }

    /// In the end everything is final, `not_executed`, or a person's to look at.
    fn at_the_end(&mut self) {
        if self.is_over() {
            return;
        }
        self.world.stripe.tell();
        self.refunds = self.world.stripe.refunds();
        let rows = Reads { audit: Some(gate_store::AuditRange::WHOLE), ..Reads::default() };
        let rows =
            self.world.store.read(rows).now_or_never().and_then(Result::ok).unwrap_or_default();
        let query = IntentQuery { limit: 1000, ..IntentQuery::default() };
        let all = Reads { intents: Some(query), ..Reads::default() };
        let all =
            self.world.store.read(all).now_or_never().and_then(Result::ok).unwrap_or_default();
        let mut seen = self.world.witness.seen();
        let chain = verify(&rows.audit);
        let counted = seen.ledger.audited();
        seen.law("I9", chain.is_ok_and(|head| head.n == counted), || {
            format!("the audit chain does not hold: {chain:?} of {counted}")
        });
        for row in &rows.audit {
            seen.no_secret(&row.entry.details);
        }
        let states = |intent: &gate_core::Intent| (intent.id.clone(), intent.state, intent.fence);
        let stored: BTreeSet<String> =
            all.intents.iter().map(|i| format!("{:?}", states(i))).collect();
        let booked: BTreeSet<String> =
            seen.ledger.intents.values().map(|e| format!("{:?}", states(&e.intent))).collect();
        seen.law("I9", stored == booked, || "the store is not what was committed to it".to_owned());
        let open: Vec<String> = seen
            .ledger
            .intents
            .values()
            .filter(|entry| match entry.intent.state {
                State::Submitted => !entry.intent.needs_person || !self.is_confused(entry),
                State::PendingApproval | State::Approved => true,
                _ => false,
            })
            .map(|entry| format!("{} {}", entry.intent.id, entry.intent.state.as_str()))
            .collect();
        seen.law("I8", open.is_empty(), || format!("{open:?} never end"));
        let ends = seen.made.iter().filter_map(|(refund, made)| {
            let came_back = ["failed", "canceled"].contains(&made.status.as_str());
            let entry = seen.ledger.intents.get(&made.intent)?;
            let intent = &entry.intent;
            let fits = match intent.state {
                State::Settled => !came_back,
                State::Reversed | State::Failed => came_back,
                State::Submitted => intent.needs_person,
                _ => false,
            };
            let state = intent.state.as_str();
            (!fits && !entry.ended_by_mistake)
                .then(|| format!("{refund} is {} and {} {state}", made.status, made.intent))
        });
        let ends: Vec<String> = ends.collect();
        seen.law("I8", ends.is_empty(), || format!("{ends:?}"));
    }

    fn report(self) -> Report {
        let fired = self.world.faults.fired();
        let mut faults: Vec<String> = fired.iter().map(Fault::to_string).collect();
        if self.world.faults.has(Class::Jump) {
            for (node, (_, jumps)) in self.world.plan.clocks.iter().enumerate() {
                for n in 0..jumps.len() {
                    let mut name = String::new();
                    let _ = write!(name, "jump:plan:{node}:{n}");
                    if !self.world.faults.is_left_out(&name) {
                        faults.push(name);
                    }
                }
            }
        }
        let polls = self.executor.polls();
        let mut seen = self.world.witness.seen();
        seen.trace(9, polls, 0);
        let (trace_hash, timeline) = (seen.hash(), seen.take_lines());
        let (violations, coverage) =
            (std::mem::take(&mut seen.violations), std::mem::take(&mut seen.coverage));
        Report { violations, trace_hash, coverage, timeline, faults, ops: self.ops, polls }
    }
}
