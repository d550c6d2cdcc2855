//! A world to test in: an agent `bot` with a policy, charges of 100 dollars, people, and answers
//! short enough to stand in a table.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::task::noop_waker;
use gate_authority::{
    Actor, Admin, AuthorityConfig, FeedError, IntentList, LocalAuthority, RatesFeed, Sweeper, Whom,
};
use gate_core::{
    ActionError, Actions, AgentKey, AgentName, Answer, ApprovalId, Ask, AttemptId, Authority,
    AuthorityError, BudgetWindow, Charge, Clock, Deadline, Decided, IdempotencyKey, Ids, Intent,
    IntentId, Justification, Processor, Reconciled, Reconciler, Records, RefundReason, Refunds,
    Settings, State, Target, Timestamp, Tool, UserName, Wanted,
};
use gate_money::{Currency, MicroUsd};
use gate_store::{AuditRow, MemStore, Reads, Snapshot, Store, verify};

use crate::till::Till;

pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// The lease of the authority's own choosing.
pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// When each world begins.
pub(crate) const START: &str = "2026-10-30T12:00:00Z";
/// An entry that allows 200 dollars a day and never asks a person.
pub(crate) const PLAIN: &str = "daily_cap = \"200.00\"";
/// The same, but a person decides from 20 dollars on and the agent has to ask again.
pub(crate) const ASKS: &str =
    "daily_cap = \"200.00\"\napproval_threshold = \"20.00\"\non_approval = \"agent\"";
/// The same, and the gateway goes on by itself.
pub(crate) const ASKS_AND_GOES_ON: &str =
    "daily_cap = \"200.00\"\napproval_threshold = \"20.00\"\nowner = \"mona\"";

/// A clock that stands still until it is moved, or until somebody sleeps: then it is there at once,
/// unless sleepers are to wait for whoever moves it.
pub(crate) struct FakeClock {
    now: Mutex<Timestamp>,
    uptime: Arc<Mutex<Duration>>,
    pub(crate) sleepers_wait: AtomicBool,
}

impl FakeClock {
    pub(crate) fn advance(&self, span: Duration) {
        let mut now = self.now.lock().unwrap();
        *now = now.after(span);
        *self.uptime.lock().unwrap() += span;
    }

    /// Shows another time, without any having passed.
    pub(crate) fn show(&self, text: &str) {
        self.set(at(text));
    }

    pub(crate) fn set(&self, now: Timestamp) {
        *self.now.lock().unwrap() = now;
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        *self.now.lock().unwrap()
    }
    fn uptime(&self) -> Duration {
        *self.uptime.lock().unwrap()
    }
    fn sleep_until(&self, until: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        if !self.sleepers_wait.load(Ordering::Relaxed) {
            self.advance(until.left(self.uptime()));
        }
        let uptime = Arc::clone(&self.uptime);
        Box::pin(poll_fn(move |context| {
            if until.left(*uptime.lock().unwrap()).is_zero() {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }))
    }
}

/// Ids that look random and are the same each time.
#[derive(Default)]
struct SeededIds(AtomicU64);

impl Ids for SeededIds {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let step = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
            let mixed = (step ^ (step >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB).to_le_bytes();
            chunk.copy_from_slice(&mixed[..chunk.len()]);
        }
    }
}

/// What the feed answers.
#[derive(Default)]
pub(crate) struct FakeFeed(pub(crate) Mutex<String>);

#[async_trait]
impl RatesFeed for FakeFeed {
    async fn fetch(&self) -> Result<Vec<u8>, String> {
        Ok(self.0.lock().unwrap().clone().into_bytes())
    }
}

pub(crate) struct World {
    pub(crate) clock: Arc<FakeClock>,
    pub(crate) store: Arc<MemStore>,
    pub(crate) authority: Arc<LocalAuthority>,
    pub(crate) refunds: Arc<Refunds>,
    pub(crate) till: Arc<Till>,
    /// The key of `bot`.
    pub(crate) key: AgentKey,
    /// The key of `other`, which has the same policy.
    pub(crate) other: AgentKey,
    feed: Arc<FakeFeed>,
    sweeper: Sweeper,
    attempts: AtomicU64,
}

impl World {
    pub(crate) fn new(entry: &str) -> Self {
        Self::with_config(entry, AuthorityConfig::default())
    }

    pub(crate) fn with_config(entry: &str, config: AuthorityConfig) -> Self {
        let clock = Arc::new(FakeClock {
            now: Mutex::new(at(START)),
            uptime: Arc::new(Mutex::new(HOUR)),
            sleepers_wait: AtomicBool::new(false),
        });
        let store = Arc::new(MemStore::new(Arc::clone(&clock) as Arc<dyn Clock>));
        let ids: Arc<dyn Ids> = Arc::new(SeededIds::default());
        let authority = Arc::new(LocalAuthority::new(
            Arc::clone(&store) as Arc<dyn Store>,
            Arc::clone(&clock) as Arc<dyn Clock>,
            Arc::clone(&ids),
            config,
        ));
        let till = Arc::new(Till::new(Arc::clone(&clock)));
        for charge in ["ch_1", "ch_2", "ch_3"] {
            till.add_charge(charge, 10_000, "usd");
        }
        let settings = Settings { call_timeout: Duration::from_secs(2), ..Settings::default() };
        let refunds = Arc::new(Refunds::new(
            Arc::clone(&authority) as Arc<dyn Authority>,
            Arc::clone(&authority) as Arc<dyn Records>,
            Arc::clone(&till) as Arc<dyn Processor>,
            Arc::clone(&clock) as Arc<dyn Clock>,
            ids,
            settings,
        ));
        let feed = Arc::new(FakeFeed::default());
        let sweeper = Sweeper::new(Arc::clone(&authority), Arc::clone(&feed) as Arc<dyn RatesFeed>);
        let admin = Admin::new(&authority, person());
        let agent = |name| {
            run(admin.create_agent(&AgentName::parse(name).unwrap(), None, false)).unwrap().1
        };
        let (key, other) = (agent("bot"), agent("other"));
        for (name, role) in [("mona", "owner"), ("rita", "support-leads"), ("vic", "viewer")] {
            run(admin.create_user(&user(name), &[role.to_owned()])).unwrap();
        }
        let attempts = AtomicU64::new(0);
        let world =
            Self { clock, store, authority, refunds, till, key, other, feed, sweeper, attempts };
        world.policy(entry);
        world
    }

    /// Gives both agents another entry.
    pub(crate) fn policy(&self, entry: &str) {
        self.policy_in("UTC", entry);
    }

    pub(crate) fn policy_in(&self, timezone: &str, entry: &str) {
        let agent = |name| {
            format!(
                "[agents.{name}]\nmethods = [\"stripe_refund\"]\n\
                 allowed_hosts = [\"stripe-refund.action\"]\n{entry}\n"
            )
        };
        let (bot, other) = (agent("bot"), agent("other"));
        let text = format!("[organization]\ntimezone = \"{timezone}\"\n{bot}{other}");
        run(self.admin().apply_policy(&text)).unwrap();
    }

    /// Puts a whole policy in force.
    pub(crate) fn apply(&self, text: &str) {
        run(self.admin().apply_policy(text)).unwrap_or_else(|error| panic!("{error}"));
    }

    pub(crate) fn admin(&self) -> Admin<'_> {
        Admin::new(&self.authority, person())
    }

    /// Asks as `bot` and tells the answer; [`ask`] says how.
    pub(crate) fn ask(&self, text: &str) -> String {
        told(&run(self.refunds.refund(&self.key, ask(text))))
    }

    pub(crate) fn ask_as(&self, key: &AgentKey, text: &str) -> String {
        told(&run(self.refunds.refund(key, ask(text))))
    }

    /// Asks as `bot` for an intent, whatever becomes of it.
    pub(crate) fn intent(&self, text: &str) -> Intent {
        match run(self.refunds.refund(&self.key, ask(text))).unwrap() {
            Answer::Intent { intent, .. } => *intent,
            Answer::DryRun(_) => panic!("a dry run"),
        }
    }

    /// Asks for a decision alone; nothing is sent.
    pub(crate) fn decide(&self, text: &str) -> Decided {
        self.decide_as(text, &self.attempt()).unwrap()
    }

    pub(crate) fn decide_as(
        &self,
        text: &str,
        attempt: &AttemptId,
    ) -> Result<Decided, AuthorityError> {
        let ask = ask(text);
        let charge = self.charge(ask.target.as_str());
        run(self.authority.decide(&self.key, &ask, &charge, attempt))
    }

    pub(crate) fn attempt(&self) -> AttemptId {
        let n = self.attempts.fetch_add(1, Ordering::Relaxed);
        AttemptId::parse(&format!("att_{n}")).unwrap()
    }

    pub(crate) fn charge(&self, target: &str) -> Charge {
        let target = Target::parse(target).unwrap();
        run(self.till.charge(&target, Deadline::at(Duration::MAX))).unwrap()
    }

    /// The intent as it is recorded.
    pub(crate) fn stored(&self, id: &IntentId) -> Intent {
        run(self.admin().intent(id)).unwrap()
    }

    pub(crate) fn state(&self, id: &IntentId) -> State {
        self.stored(id).state
    }

    /// All intents, oldest first.
    pub(crate) fn intents(&self) -> Vec<Intent> {
        let list = IntentList { limit: u32::MAX, ..IntentList::default() };
        let mut intents = run(self.admin().intents(&list)).unwrap();
        intents.reverse();
        intents
    }

    pub(crate) fn approve(&self, intent: &Intent) -> Intent {
        run(self.admin().approve(approval(intent), &user("rita"), None)).unwrap()
    }

    pub(crate) fn deny(&self, intent: &Intent) -> Intent {
        run(self.admin().deny(approval(intent), &user("rita"), "no")).unwrap()
    }

    /// Asks while everything is stopped.
    pub(crate) fn stop_and_ask(&self, text: &str) -> Intent {
        run(self.admin().stop(Whom::Everybody, None)).unwrap();
        let intent = self.intent(text);
        run(self.admin().resume(Whom::Everybody, None)).unwrap();
        intent
    }

    pub(crate) fn cancel(&self, id: &IntentId) -> Result<Intent, AuthorityError> {
        run(self.authority.cancel(&self.key, id))
    }

    /// Drives what is due; whoever held a lease before has lost it.
    pub(crate) fn reconcile(&self) -> Reconciled {
        self.clock.advance(LEASE);
        run(self.reconciler().step()).unwrap()
    }

    pub(crate) fn reconciler(&self) -> Reconciler {
        Reconciler::new(Arc::clone(&self.refunds), Arc::clone(&self.clock) as Arc<dyn Clock>)
    }

    pub(crate) fn sweep(&self) -> usize {
        run(self.sweeper.step()).unwrap().expired.len()
    }

    pub(crate) fn feed(&self, xml: &str) -> Result<String, FeedError> {
        xml.clone_into(&mut self.feed.0.lock().unwrap());
        run(self.sweeper.refresh_rates())
    }

    /// What `bot` has spent today, in dollars.
    pub(crate) fn spent(&self) -> String {
        let [BudgetWindow { spent, .. }] = self.budget()[..] else { panic!("one window") };
        spent.to_string()
    }

    pub(crate) fn budget(&self) -> Vec<BudgetWindow> {
        run(self.authority.budget(&self.key)).unwrap().windows
    }

    pub(crate) fn read(&self, reads: Reads) -> Snapshot {
        run(self.store.read(reads)).unwrap()
    }

    /// The audit chain, which must hold.
    pub(crate) fn audit(&self) -> Vec<AuditRow> {
        let rows = self
            .read(Reads { audit: Some(gate_store::AuditRange::WHOLE), ..Reads::default() })
            .audit;
        verify(&rows).unwrap();
        rows
    }

    /// What the audit log says of an intent: `submitted settled`.
    pub(crate) fn history(&self, id: &IntentId) -> String {
        let rows = self.audit().into_iter().filter(|row| row.entry.subject == id.as_str());
        let actions: Vec<String> =
            rows.map(|row| row.entry.action.replace("intent.", "")).collect();
        actions.join(" ")
    }
}

/// What is asked, in words: key (`-` for none), payment, amount (`full` or minor units), and then
/// perhaps a reason, a currency that the agent believes in, words in brackets, and `dry`.
pub(crate) fn ask(text: &str) -> Ask {
    let mut words = text.split_whitespace();
    let mut next = || words.next().unwrap();
    let key = Some(next()).filter(|key| *key != "-").map(|key| IdempotencyKey::parse(key).unwrap());
    let target = Target::parse(next()).unwrap();
    let wanted = match next() {
        "full" => Wanted::Full,
        minor => Wanted::Minor(minor.parse().unwrap()),
    };
    let mut ask = Ask {
        tool: Tool::StripeRefund,
        target,
        wanted,
        believed_currency: None,
        reason: None,
        justification: None,
        key,
        dry_run: false,
    };
    for word in words {
        if word == "dry" {
            ask.dry_run = true;
        } else if let Some(said) = word.strip_prefix('[') {
            ask.justification = Justification::parse(said.trim_end_matches(']')).ok();
        } else if let Some(reason) = RefundReason::parse(word) {
            ask.reason = Some(reason);
        } else {
            ask.believed_currency = Some(Currency::parse(word).unwrap());
        }
    }
    ask
}

/// An answer in words: the state, the hardest reason of a denial, the code of a failure, and
/// whether it was there before; or the error's code.
pub(crate) fn told(answer: &Result<Answer, ActionError>) -> String {
    match answer {
        Ok(Answer::Intent { intent, replayed, .. }) => {
            let mut words = vec![intent.state.as_str()];
            if intent.state == State::Denied {
                words.extend(intent.reasons.first().map(|reason| reason.code.as_str()));
            }
            if let Some(code) = intent.failure.as_ref().and_then(|failure| failure.code) {
                words.push(code.as_str());
            }
            if *replayed {
                words.push("again");
            }
            words.join(" ")
        }
        Ok(Answer::DryRun(preview)) => format!("{:?}", preview.decision),
        Err(ActionError::IdempotencyKeyReused { argument, .. }) => format!("reused: {argument}"),
        Err(error) => error.code().to_owned(),
    }
}

/// The codes of an intent's reasons, hardest first.
pub(crate) fn codes(intent: &Intent) -> Vec<&'static str> {
    intent.reasons.iter().map(|reason| reason.code.as_str()).collect()
}

pub(crate) fn approval(intent: &Intent) -> &ApprovalId {
    &intent.approval.as_ref().expect("an approval").id
}

pub(crate) fn user(name: &str) -> UserName {
    UserName::parse(name).unwrap()
}

pub(crate) fn dollars(text: &str) -> MicroUsd {
    MicroUsd::parse_dollars(text).unwrap()
}

pub(crate) fn at(text: &str) -> Timestamp {
    Timestamp::from_millis(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

fn person() -> Actor {
    Actor::cli("tester", None)
}

/// Runs to the end; whoever gives way goes on at once.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    run_for(future, 100_000).expect("it hangs")
}

/// Runs, and is killed when it gives way for the `times`-th time.
pub(crate) fn run_for<T>(future: impl Future<Output = T>, times: usize) -> Option<T> {
    let waker = noop_waker();
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    (0..times).find_map(|_| match future.as_mut().poll(&mut context) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    })
}
