//! Random stories, told to the authority and to the model; after each command both must have given
//! the same answer, and hold the same intents and the same spend.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gate_authority::{
    Actor, Admin, AuthorityConfig, IntentList, LocalAuthority, Sweeper, Whom, invariants,
};
use gate_core::{
    Again, AgentKey, AgentName, Ask, AttemptId, Authority, AuthorityError, Channel, Charge,
    ChargeId, Clock, CustomerFact, CustomerId, FailureCode, Hold, IdempotencyKey, Intent, Outcome,
    PaymentIntentId, Records, Refund, RefundId, RefundReason, RefundStatus, Refusal, State, Target,
    TeamName, Tool, UserName, Wanted, Work,
};
use gate_money::{Amount, Currency, Decimal, Rate};
use gate_store::{MemStore, Reads, Scope, Store};

use crate::model::{self, Limits, Model, Span, Team, Whose};
use crate::plot::{AGENTS, Command, DAY, HOUR, Held, PEOPLE, ZONES};
use crate::props::{Dice, NoFeed, Random, Still, run};

/// Commands of one story: long enough for days to pass, short enough to be read.
const STORY_COMMANDS: u64 = 250;
/// Full amount in minor units, currency, and what a minor unit is worth in tenths of a micro-dollar.
const CHARGES: [(i64, &str, Option<i64>); 5] = [
    (10_000, "usd", Some(100_000)),
    (6_000, "usd", Some(100_000)),
    (4_000, "eur", Some(117_000)),
    (7_777, "jpy", Some(67_125)),
    (5_000, "gbp", None),
];
/// Each charge's customer, if it has one.
const CUSTOMERS: [Option<u8>; 5] = [Some(1), Some(1), Some(2), None, Some(2)];
/// An agent that lives: its place among all that were made, and its keys with their ends.
pub(crate) struct Living {
    pub(crate) agent: usize,
    keys: Vec<(AgentKey, Option<i64>)>,
}

pub(crate) struct Both {
    pub(crate) model: Model,
    clock: Arc<Still>,
    store: Arc<MemStore>,
    authority: Arc<LocalAuthority>,
    sweeper: Sweeper,
    names: Vec<AgentName>,
    ids: Vec<gate_core::AgentId>,
    pub(crate) living: Vec<Living>,
    pub(crate) policy: (usize, i64, [Option<Limits>; AGENTS], Team),
    attempts: AtomicU64,
    /// The intent at whose edge time stands.
    pub(crate) about: Option<usize>,
}

/// Tells `commands` commands in stories of their own, from `seed` on.
///
/// # Errors
///
/// The story up to the first command after which the two differ.
pub(crate) fn tell(commands: u64, seed: u64) -> Result<(), String> {
    for story in 0..commands.div_ceil(STORY_COMMANDS) {
        let seed = seed.wrapping_add(story);
        let length = STORY_COMMANDS.min(commands - story * STORY_COMMANDS);
        let mut dice = Dice(seed);
        let mut both = Both::new(seed);
        let mut told = Vec::new();
        for _ in 0..length {
            let command = both.next(&mut dice);
            told.push(format!("{command:?}"));
            let differs = both.perform(&command).and_then(|()| both.same_record());
            differs.map_err(|what| format!("{}\nseed {seed}: {what}", told.join("\n")))?;
        }
        let broken = run(invariants(&both.authority)).map_err(|error| error.to_string())?;
        if let Some(broken) = broken.first() {
            let intents = both.intents();
            let place = intents.iter().position(|one| Some(&one.id) == broken.intent.as_ref());
            let story = told.join("\n");
            return Err(format!("{story}\nseed {seed}: {broken:?}, intent {place:?}"));
        }
    }
    Ok(())
}

impl Both {
    fn new(seed: u64) -> Self {
        let now = 1_793_361_600_000;
        let clock = Arc::new(Still(AtomicI64::new(now)));
        let store = Arc::new(MemStore::new(Arc::clone(&clock) as Arc<dyn Clock>));
        let pin = |code, figure| {
            Rate::pinned(Currency::parse(code).unwrap(), Decimal::from_str_exact(figure).unwrap())
        };
        let authority = Arc::new(LocalAuthority::new(
            Arc::clone(&store) as Arc<dyn Store>,
            Arc::clone(&clock) as Arc<dyn Clock>,
            Arc::new(Random(Mutex::new(Dice(!seed)))),
            AuthorityConfig {
                // Whoever comes next may go on.
                lease: Duration::ZERO,
                pins: vec![pin("eur", "1.17").unwrap(), pin("jpy", "0.0067125").unwrap()],
                ..AuthorityConfig::default()
            },
        ));
        let limits = Limits { daily_cap: Some(200_000_000), people: 1, ..Limits::default() };
        let customers = CUSTOMERS.to_vec();
        let mut both = Self {
            model: Model { now, customers, ..Model::default() },
            sweeper: Sweeper::new(Arc::clone(&authority), Arc::new(NoFeed)),
            clock,
            store,
            authority,
            names: Vec::new(),
            ids: Vec::new(),
            living: Vec::new(),
            policy: (0, HOUR, [Some(limits.clone()), Some(limits)], None),
            attempts: AtomicU64::new(0),
            about: None,
        };
        for name in PEOPLE {
            run(both.admin().create_user(&person(name), &["reviewers".to_owned()])).unwrap();
        }
        both.living = (0..AGENTS).map(|_| both.create()).collect();
        both.apply();
        both
    }

    fn admin(&self) -> Admin<'_> {
        Admin::new(&self.authority, Actor::cli("tests", None))
    }

    fn create(&mut self) -> Living {
        let agent = self.names.len();
        let name = AgentName::parse(&format!("bot-{agent}")).unwrap();
        let (row, key) = run(self.admin().create_agent(&name, None, false)).unwrap();
        self.names.push(name);
        self.ids.push(row.id);
        self.model.stops.push(false);
        Living { agent, keys: vec![(key, None)] }
    }

    /// Applies the policy to the agents that live.
    fn apply(&mut self) {
        let (zone, timeout, limits, team) = &self.policy;
        let (name, offset) = ZONES[*zone];
        let mut text = format!(
            "[organization]\ntimezone = \"{name}\"\napproval_timeout = \"{}m\"\n",
            timeout / 60_000
        );
        self.model.policy = model::Policy {
            zone: offset,
            timeout: *timeout,
            limits: vec![None; self.names.len()],
            team: *team,
        };
        if let Some((day, month)) = team {
            text.push_str("[teams.crew]\n");
            amounts(&mut text, &[("daily_budget", *day), ("monthly_budget", *month)]);
        }
        for (living, limits) in self.living.iter().zip(limits) {
            self.model.policy.limits[living.agent] = limits.clone();
            if let Some(limits) = limits {
                text.push_str(&entry(&self.names[living.agent], limits, team.is_some()));
            }
        }
        run(self.admin().apply_policy(&text)).unwrap();
    }

    /// Does it to both; each command takes a millisecond, so that no two intents are of one moment.
    fn perform(&mut self, command: &Command) -> Result<(), String> {
        let (span, about) = match command {
            Command::Pass { span, about } => (*span, *about),
            _ => (1, None),
        };
        self.about = about;
        self.model.now += span;
        self.clock.0.fetch_add(span, Ordering::Relaxed);
        match command {
            Command::Ask { slot, old_key, by_payment, ask } => {
                let (expected, told) = self.ask(*slot, *old_key, *by_payment, ask);
                return same(&expected, &told);
            }
            Command::Execute(at) => {
                let intent = self.intent(*at);
                execute(&self.authority, &intent);
                self.model.execute(*at);
            }
            Command::Told { at, to, stale } => {
                let intent = self.intent(*at);
                let news = match to {
                    State::Failed => Outcome::Refused(Refusal {
                        code: FailureCode::ChargeNotRefundable,
                        message: "no".to_owned(),
                    }),
                    State::NotExecuted => Outcome::NotExecuted("no".to_owned()),
                    _ => Outcome::Held(Hold::default()),
                };
                let fence = intent.fence - u64::from(*stale);
                let told = match run(self.authority.record(&intent.id, fence, &news)) {
                    Ok(_) => Ok(()),
                    Err(AuthorityError::Stale) => Err("stale".to_owned()),
                    Err(error) => return Err(error.to_string()),
                };
                return same(&self.model.told(*at, *to, *stale), &told);
            }
            Command::Seen { at, back } => {
                let intent = self.intent(*at);
                let status = if *back { "failed" } else { "succeeded" };
                let refund = Refund {
                    id: RefundId::parse(&format!("re_{at}")).unwrap(),
                    status: RefundStatus::from_stripe(status),
                    intent: Some(intent.id.clone()),
                };
                run(self.authority.record(&intent.id, 0, &Outcome::Seen(refund)))
                    .map_err(|error| error.to_string())?;
                self.model.seen(*at, *back);
            }
            Command::Vote { at, who, yes } => {
                let approval = self.intent(*at).approval.unwrap().id;
                let user = person(PEOPLE[*who]);
                let told = if *yes {
                    run(self.admin().approve(&approval, &user, None))
                } else {
                    run(self.admin().deny(&approval, &user, "no"))
                };
                let told = told.map(drop).map_err(|_| "nothing to decide".to_owned());
                return same(&self.model.vote(*at, *who, *yes), &told);
            }
            Command::Reopen(at) => {
                let Some(approval) = self.intent(*at).approval else { return Ok(()) };
                let told = run(self.admin().reopen(&approval.id, &person(PEOPLE[0]), None));
                let told = told.map(drop).map_err(|_| "nothing to reopen".to_owned());
                return same(&self.model.reopen(*at), &told);
            }
            Command::Cancel(at) => {
                let told = run(self.admin().cancel(&self.intent(*at).id));
                let told = told.map(drop).map_err(|_| "not_cancelable".to_owned());
                return same(&self.model.cancel(*at), &told);
            }
            Command::Sweep => {
                run(self.sweeper.step()).unwrap();
                self.model.sweep();
            }
            Command::Policy { zone, timeout, limits, team } => {
                self.policy = (*zone, *timeout, (**limits).clone(), *team);
                self.apply();
            }
            Command::Stop { whom, on } => {
                let admin = self.admin();
                let (name, crew);
                let stopped = match whom {
                    Held::Everybody => Whom::Everybody,
                    Held::Slot(slot) => {
                        name = self.names[self.living[*slot].agent].clone();
                        Whom::Agent(name.as_str())
                    }
                    Held::Team => {
                        crew = TeamName::parse("crew").unwrap();
                        Whom::Team(&crew)
                    }
                };
                let done = if *on {
                    run(admin.stop(stopped, None))
                } else {
                    run(admin.resume(stopped, None))
                };
                done.map_err(|error| error.to_string())?;
                match whom {
                    Held::Everybody => self.model.stopped = *on,
                    Held::Slot(slot) => self.model.stops[self.living[*slot].agent] = *on,
                    Held::Team => self.model.team_stopped = *on,
                }
            }
            Command::Revoke(slot) => {
                let agent = self.living[*slot].agent;
                run(self.admin().revoke_agent(self.names[agent].as_str())).unwrap();
                self.model.cancel_all_of(agent);
                let (gone, _) = self.living[*slot].keys.last().unwrap().clone();
                if run(self.authority.agent(&gone)).is_ok() {
                    return Err("a revoked key is taken".to_owned());
                }
                self.living[*slot] = self.create();
                self.apply();
            }
            Command::Rotate { slot, at_once } => {
                let name = self.names[self.living[*slot].agent].clone();
                let (_, key) = run(self.admin().rotate_agent(name.as_str(), *at_once)).unwrap();
                let now = self.model.now;
                let keys = &mut self.living[*slot].keys;
                for (older, (_, until)) in keys.iter_mut().rev().enumerate() {
                    let end = if older == 0 && !at_once { now + DAY } else { now };
                    *until = Some(until.map_or(end, |until| until.min(end)));
                }
                keys.push((key, None));
            }
            Command::Pass { .. } => {}
        }
        Ok(())
    }

    /// Asks both, and says what each answered.
    fn ask(
        &mut self,
        slot: usize,
        old_key: bool,
        by_payment: bool,
        ask: &model::Ask,
    ) -> (String, String) {
        let keys = &self.living[slot].keys;
        let age = usize::from(old_key && keys.len() > 1);
        let (key, until) = keys[keys.len() - 1 - age].clone();
        let (full, currency, tenths) = CHARGES[ask.charge];
        let target = if by_payment { "pi" } else { "ch" };
        let real = Ask {
            tool: Tool::StripeRefund,
            target: Target::parse(&format!("{target}_{}", ask.charge)).unwrap(),
            wanted: ask.wanted.map_or(Wanted::Full, Wanted::Minor),
            believed_currency: None,
            reason: ask.reason.and_then(RefundReason::parse),
            justification: None,
            key: ask.key.map(|n| IdempotencyKey::parse(&format!("k{n}")).unwrap()),
            dry_run: false,
        };
        let told = self.ask_real(&key, &real, &charge(ask.charge, full, currency));
        let expected = if until.is_some_and(|until| until <= self.model.now) {
            Err("unauthenticated".to_owned())
        } else {
            let minor = ask.wanted.unwrap_or(full);
            // A tenth is rounded up.
            let usd = tenths.map(|tenths| (minor * tenths + 9) / 10);
            self.model.ask(ask, full, usd)
        };
        let expected = expected.map(|(at, before)| {
            let intent = &self.model.intents[at];
            format!("{at} {} {:?} {before}", intent.state.as_str(), intent.reasons)
        });
        (expected.unwrap_or_else(|code| code), told)
    }

    /// As the core asks: what exists, then a decision, then an approval that waits to be used.
    fn ask_real(&self, key: &AgentKey, ask: &Ask, charge: &Charge) -> String {
        let authority = &self.authority;
        let asked = || -> Result<(Intent, bool), AuthorityError> {
            if let Some(intent) = run(authority.find(key, ask))? {
                match intent.again() {
                    Again::DecideAgain | Again::DecideAnew => {}
                    Again::Execute => {
                        execute(authority, &intent);
                        return Ok((run(authority.intent(key, &intent.id, Duration::ZERO))?, true));
                    }
                    Again::SameAnswer | Again::Wait => return Ok((intent, true)),
                }
            }
            let n = self.attempts.fetch_add(1, Ordering::Relaxed);
            let attempt = AttemptId::parse(&format!("att_{n}")).unwrap();
            let decided = run(authority.decide(key, ask, charge, &attempt))?;
            Ok((decided.intent, decided.replayed))
        };
        match asked() {
            Ok((intent, before)) => {
                let place = self.intents().iter().position(|one| one.id == intent.id).unwrap();
                let state = intent.state.as_str();
                format!("{place} {state} {:?} {before}", reasons(&intent))
            }
            Err(AuthorityError::Unauthenticated) => "unauthenticated".to_owned(),
            Err(AuthorityError::Asked(gate_core::ActionError::IdempotencyKeyReused {
                argument,
                ..
            })) => format!("reused: {argument}"),
            Err(AuthorityError::Asked(error)) => error.code().to_owned(),
            Err(error) => error.to_string(),
        }
    }

    /// All intents, oldest first.
    fn intents(&self) -> Vec<Intent> {
        let all = IntentList { limit: u32::MAX, ..IntentList::default() };
        let mut intents = run(self.admin().intents(&all)).unwrap();
        intents.reverse();
        intents
    }

    fn intent(&self, at: usize) -> Intent {
        self.intents().swap_remove(at)
    }

    /// Both hold the same intents, and count the same in every window.
    fn same_record(&self) -> Result<(), String> {
        let books = run(self.store.read(Reads { books: true, ..Reads::default() })).unwrap().books;
        let real = self.intents();
        let line = |state: State, holds_key: bool, reasons: &dyn std::fmt::Debug, usd| {
            format!("{} {holds_key} {reasons:?} {usd:?}", state.as_str())
        };
        let told: Vec<String> = real
            .iter()
            .map(|intent| {
                let holds_key = books.key_holders.contains(&intent.id);
                let usd = intent.worth.as_ref().map(|worth| worth.usd.micros());
                line(intent.state, holds_key, &reasons(intent), usd)
            })
            .collect();
        let expected = self.model.intents.iter();
        let expected: Vec<String> =
            expected.map(|i| line(i.state, i.holds_key, &i.reasons, i.usd)).collect();
        if let Some(at) =
            (0..told.len().max(expected.len())).find(|n| told.get(*n) != expected.get(*n))
        {
            same(&expected.get(at), &told.get(at))
                .map_err(|what| format!("intent {at}: {what}"))?;
        }
        let mut spent: BTreeMap<(Whose, Span), i64> = BTreeMap::new();
        for at in self.model.intents.iter().flat_map(|intent| intent.counts_in.iter().copied()) {
            spent.insert(at, self.model.spent(at.0, at.1));
        }
        let agent = |id: &gate_core::AgentId| self.ids.iter().position(|own| own == id).unwrap();
        let whose = |scope: &Scope| match scope {
            Scope::Agent(id) => Whose::Agent(agent(id)),
            Scope::Customer { agent: id, customer } => {
                let n = customer.as_str().trim_start_matches("cus_").parse().unwrap();
                Whose::Customer(agent(id), n)
            }
            Scope::Organization => panic!("nothing counts for everybody"),
            Scope::Team(_) => Whose::Team,
        };
        let counted = books.windows.iter().filter(|spent| spent.usd.micros() > 0);
        let counted: BTreeMap<(Whose, Span), i64> = counted
            .map(|spent| {
                let span = (spent.window.starts_at.millis(), spent.window.ends_at.millis());
                ((whose(&spent.window.scope), span), spent.usd.micros())
            })
            .collect();
        same(&spent, &counted)
    }
}

/// Uses an approval as the core does: under a lease, and not while anything is stopped.
fn execute(authority: &LocalAuthority, intent: &Intent) {
    let place = intent.charge.as_str().trim_start_matches("ch_").parse::<usize>().unwrap();
    let (full, currency, _) = CHARGES[place];
    for claim in run(authority.claim(Work::One(intent.id.clone()), 1)).unwrap() {
        if claim.intent.state == State::Approved && !claim.stopped {
            run(authority.execute(&claim, &charge(place, full, currency))).unwrap();
        }
    }
}

fn charge(place: usize, full: i64, currency: &str) -> Charge {
    let channel = Channel {
        account: None,
        livemode: false,
        version: "1".to_owned(),
        key: None,
        agent_tagged: false,
    };
    let amount = Amount::new(full, Currency::parse(currency).unwrap()).unwrap();
    let id = ChargeId::parse(&format!("ch_{place}")).unwrap();
    let payment_intent = PaymentIntentId::parse(&format!("pi_{place}")).ok();
    let customer = CUSTOMERS[place].map(|n| CustomerId::parse(&format!("cus_{n}")).unwrap());
    let customer = customer.map_or(CustomerFact::None, |id| CustomerFact::Unreadable { id });
    Charge { payment_intent, customer, ..Charge::paid(id, amount, channel).unwrap() }
}

fn reasons(intent: &Intent) -> Vec<(&'static str, Option<i64>)> {
    let reason = |reason: &gate_core::DecisionReason| {
        (reason.code.as_str(), reason.left.map(gate_money::MicroUsd::micros))
    };
    intent.reasons.iter().map(reason).collect()
}

fn amounts(text: &mut String, lines: &[(&str, Option<i64>)]) {
    for (key, limit) in lines {
        if let Some(limit) = limit {
            text.push_str(&format!("{key} = \"{}.00\"\n", limit / 1_000_000));
        }
    }
}

fn entry(name: &AgentName, limits: &Limits, in_team: bool) -> String {
    let mut text = format!(
        "[agents.{name}]\nmethods = [\"stripe_refund\"{}]\nallowed_hosts = [\"stripe-refund.action\"]\n",
        if limits.fraudulent { ", \"stripe_refund_fraudulent\"" } else { "" }
    );
    if in_team {
        text.push_str("team = \"crew\"\n");
    }
    let caps = [
        ("max_per_payment", limits.max_per_payment),
        ("daily_cap", limits.daily_cap),
        ("weekly_cap", limits.weekly_cap),
        ("monthly_cap", limits.monthly_cap),
        ("per_customer_daily_cap", limits.customer_cap),
        ("approval_threshold", limits.threshold),
    ];
    amounts(&mut text, &caps);
    if let Some(most) = limits.per_hour {
        text.push_str(&format!("refunds_per_hour = {most}\n"));
    }
    text.push_str(&format!("approvals_required = {}\n", limits.people));
    text
}

fn person(name: &str) -> UserName {
    UserName::parse(name).unwrap()
}

fn same<T: PartialEq + std::fmt::Debug>(expected: &T, told: &T) -> Result<(), String> {
    if expected == told {
        return Ok(());
    }
    Err(format!("the model says {expected:?}, the authority {told:?}"))
}
