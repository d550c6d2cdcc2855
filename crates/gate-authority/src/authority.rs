//! The embedded authority behind the core's port: each call is one read or one transaction.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use gate_core::bugs::{self, Bug};
use gate_core::{
    Agent, AgentId, AgentKey, AgentName, Ask, AttemptId, Authority, AuthorityError, Channel,
    Charge, Claim, Clock, Decided, Ids, Intent, IntentId, Justification, KeyMark, Lease, Notes,
    Outcome, Preview, State, Timestamp, Wanted, Work,
};
use gate_money::Rate;
use gate_policy::{Policy, Stops};
use gate_store::{
    AgentBy, AgentRow, Due, IntentBy, KeyHash, Money, PolicyRow, Prior, Reads, Refused, Scope,
    Snapshot, Store, Write,
};

use crate::change::{Actor, Plan, store_error, transact};
use crate::gateways::{Caller, ReadNonces};
use crate::keys::{self, Seed};
use crate::{approval, decide, outcome};

/// How often an intent that needs a person is looked for at Stripe.
const LOOKED_FOR_EVERY: Duration = Duration::from_secs(3600);
/// How often what was sent with an agent-tagged key is looked for, while its outcome is unknown.
const TAGGED_LOOKED_FOR_EVERY: Duration = Duration::from_secs(300);
/// How long a settled key-less request answers for its like, and a person's denial for its.
const REMEMBERED: Duration = Duration::from_secs(24 * 3600);

/// How long events of Stripe's are remembered; Stripe repeats them for three days.
const EVENTS_KEPT: Duration = Duration::from_secs(30 * 24 * 3600);

/// Figures that the authority is run with.
#[derive(Clone, Debug)]
pub struct AuthorityConfig {
    /// How long a worker may hold an intent: a call's deadline and time for another attempt.
    pub lease: Duration,
    /// Exchange rates that win over the feed.
    pub pins: Vec<Rate>,
    /// How old published rates may be.
    pub rates_max_age: Duration,
}

impl Default for AuthorityConfig {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            pins: Vec::new(),
            rates_max_age: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

/// The authority in this process.
pub struct LocalAuthority {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) config: Arc<AuthorityConfig>,
    pub(crate) policies: Arc<Policies>,
    pub(crate) read_nonces: Arc<ReadNonces>,
    /// Whose signed call is served, if it is one.
    caller: Option<Caller>,
}

impl LocalAuthority {
    /// An authority over `store`.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        config: AuthorityConfig,
    ) -> Self {
        Self {
            store,
            clock,
            ids,
            config: Arc::new(config),
            policies: Arc::default(),
            read_nonces: Arc::default(),
            caller: None,
        }
    }

    /// The same authority, serving one signed call: what that call changes is written together with
    /// its nonce, or not at all, and so once.
    #[must_use]
    pub fn serving(&self, caller: Caller) -> Self {
        Self {
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            ids: Arc::clone(&self.ids),
            config: Arc::clone(&self.config),
            policies: Arc::clone(&self.policies),
            read_nonces: Arc::clone(&self.read_nonces),
            caller: Some(caller),
        }
    }

    /// One transaction of a call of the port; under a signed call its nonce goes with it, also where
    /// nothing else is written: sent again, it might have something to change.
    pub(crate) async fn change<T: Send + 'static>(
        &self,
        reads: Reads,
        judge: impl Fn(Timestamp, &Snapshot) -> Plan<T> + Send + Sync + 'static,
    ) -> Result<T, AuthorityError> {
        let Some(caller) = self.caller.clone() else {
            return transact(self.store.as_ref(), reads, judge).await;
        };
        let reads = caller.reads(reads);
        let judge = move |now, seen: &Snapshot| match caller.admitted(now, seen) {
            Err(fault) => Plan::nothing(Err(AuthorityError::Gateway(fault))),
            Ok(mut writes) => {
                let mut plan = judge(now, seen);
                writes.append(&mut plan.writes);
                Plan { writes, reply: Ok(plan.reply) }
            }
        };
        transact(self.store.as_ref(), reads, judge).await?
    }

    pub(crate) async fn read(&self, reads: Reads) -> Result<Snapshot, AuthorityError> {
        self.store.read(reads).await.map_err(store_error)
    }
}

/// The policy last read, parsed. It is used only for the version that a transaction has read, so a
/// changed policy acts on the very next request.
#[derive(Default)]
pub(crate) struct Policies(Mutex<Option<(u64, Arc<Policy>)>>);

impl Policies {
    /// The meaning of the policy in force; of a new store's document, where none was applied yet.
    pub(crate) fn of(&self, row: Option<&PolicyRow>) -> Result<Arc<Policy>, AuthorityError> {
        let (version, text) =
            row.map_or((0, gate_policy::NEW_STORE_TEXT), |row| (row.version, row.text.as_str()));
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, policy)) = last.as_ref()
            && (*known == version || bugs::on(Bug::PolicyCached))
        {
            return Ok(Arc::clone(policy));
        }
        let policy = Policy::parse(text).map_err(|faults| {
            let first = faults.first().map(ToString::to_string).unwrap_or_default();
            AuthorityError::Broken(format!("policy version {version} cannot be read: {first}"))
        })?;
        let policy = Arc::new(policy);
        *last = Some((version, Arc::clone(&policy)));
        Ok(policy)
    }
}

/// Who holds the key that was read; unknown, revoked and expired alike are nobody.
pub(crate) fn holder<'a>(
    now: Timestamp,
    seen: &'a Snapshot,
    hash: &KeyHash,
) -> Result<&'a AgentRow, AuthorityError> {
    let agent = seen
        .agent
        .as_ref()
        .filter(|agent| agent.revoked_at.is_none() || bugs::on(Bug::RevokedKeyTaken));
    agent
        .filter(|agent| {
            agent.keys.iter().any(|key| {
                key.hash == *hash
                    && (key.expires_at.is_none_or(|expires_at| now < expires_at)
                        || bugs::on(Bug::ExpiredKeyTaken))
            })
        })
        .ok_or(AuthorityError::Unauthenticated)
}

/// The stops that hold an agent: its own, its team's as the policy in force has it, everybody's.
pub(crate) fn stops(seen: &Snapshot, agent: &AgentId, name: &AgentName, policy: &Policy) -> Stops {
    let agent = Scope::Agent(agent.clone());
    let team = policy.team_of(name).map(|team| Scope::Team(team.clone()));
    let stopped = |scope: &Scope| seen.stops.iter().any(|stop| stop.scope == *scope);
    Stops {
        organization: stopped(&Scope::Organization),
        team: team.is_some_and(|team| stopped(&team)),
        agent: stopped(&agent),
    }
}

/// Whether a stop holds an intent that was decided before: one that is in force for its agent now,
/// or for the team that it was decided in.
pub(crate) fn is_held(seen: &Snapshot, intent: &Intent, policy: &Policy) -> bool {
    let then = intent.team.clone().map(Scope::Team);
    let now = stops(seen, &intent.agent, &intent.agent_name, policy);
    let now = Stops { team: now.team && !bugs::on(Bug::TeamStopMissesApproved), ..now };
    let then = then.filter(|_| !bugs::on(Bug::TeamStopMissesApproved));
    now.code().is_some()
        || then.is_some_and(|team| seen.stops.iter().any(|stop| stop.scope == team))
}

/// Whether a key is agent-tagged: as its gateway says, or as Stripe's answers to it have shown.
pub(crate) fn is_tagged(seen: &Snapshot, channel: &Channel) -> bool {
    let known = |mark: &KeyMark| seen.agent_tagged_keys.contains(mark);
    channel.agent_tagged || channel.key.as_ref().is_some_and(known)
}

fn prior(ask: &Ask, now: Timestamp) -> Prior {
    match &ask.key {
        Some(key) => Prior::Key(key.clone()),
        None => Prior::Keyless {
            target: ask.target.clone(),
            wanted: ask.wanted,
            settled_since: now.before(REMEMBERED),
        },
    }
}

/// The amount that a request comes to.
fn minor(ask: &Ask, charge: &Charge) -> Result<i64, AuthorityError> {
    gate_core::resolve(charge, ask.wanted, ask.believed_currency)
        .map(gate_money::Amount::minor)
        .map_err(AuthorityError::Asked)
}

/// What a person may have denied: by the amount as asked, and by what it is known to come to.
fn refused(ask: &Ask, resolved: Option<i64>, now: Timestamp) -> Refused {
    let minor = match ask.wanted {
        Wanted::Full => resolved,
        Wanted::Minor(minor) => Some(minor),
    };
    Refused { target: ask.target.clone(), wanted: ask.wanted, minor, since: now.before(REMEMBERED) }
}

#[async_trait]
impl Authority for LocalAuthority {
    async fn agent(&self, key: &AgentKey) -> Result<Agent, AuthorityError> {
        let hash = keys::hash(key);
        let reads = Reads { agent: Some(AgentBy::Key(hash)), ..Reads::default() };
        let (seen, now) = (self.read(reads).await?, self.now().await?);
        let agent = holder(now, &seen, &hash)?;
        let AgentRow { id, name, sources, .. } = agent.clone();
        Ok(Agent { id, name, sources })
    }

    async fn find(&self, key: &AgentKey, ask: &Ask) -> Result<Option<Intent>, AuthorityError> {
        let hash = keys::hash(key);
        let now = self.now().await?;
        let seen = self
            .read(Reads {
                agent: Some(AgentBy::Key(hash)),
                prior: Some(prior(ask, now)),
                refused: Some(refused(ask, None, now)),
                ..Reads::default()
            })
            .await?;
        holder(now, &seen, &hash)?;
        decide::found(&seen, ask)
    }

    async fn decide(
        &self,
        key: &AgentKey,
        ask: &Ask,
        charge: &Charge,
        attempt: &AttemptId,
    ) -> Result<Decided, AuthorityError> {
        let (seed, hash, now) = (Seed::draw(self.ids.as_ref()), keys::hash(key), self.now().await?);
        let reads = Reads {
            agent: Some(AgentBy::Key(hash)),
            prior: Some(prior(ask, now)),
            refused: Some(refused(ask, Some(minor(ask, charge)?), now)),
            policy: true,
            customer: charge.customer.id().cloned(),
            rates: true,
            users: true,
            ..Reads::default()
        };
        let (config, policies) = (Arc::clone(&self.config), Arc::clone(&self.policies));
        let (ask, charge, attempt) = (ask.clone(), charge.clone(), attempt.clone());
        let judge = move |now, seen: &Snapshot| {
            let asked = decide::Asked { ask: &ask, charge: &charge, attempt: &attempt };
            let world = decide::World { now, seen, config: &config, ids: &seed.stream() };
            let plan = holder(now, seen, &hash).and_then(|agent| {
                decide::decide(&asked, agent, policies.of(seen.policy.as_ref())?.as_ref(), &world)
            });
            flatten(plan)
        };
        self.change(reads, judge).await?
    }

    async fn preview(
        &self,
        key: &AgentKey,
        ask: &Ask,
        charge: &Charge,
    ) -> Result<Preview, AuthorityError> {
        let (hash, now) = (keys::hash(key), self.now().await?);
        let reads = Reads {
            agent: Some(AgentBy::Key(hash)),
            refused: Some(refused(ask, Some(minor(ask, charge)?), now)),
            policy: true,
            customer: charge.customer.id().cloned(),
            rates: true,
            ..Reads::default()
        };
        let seen = self.read(reads).await?;
        let agent = holder(now, &seen, &hash)?;
        let policy = self.policies.of(seen.policy.as_ref())?;
        let seed = Seed::draw(self.ids.as_ref());
        let world = decide::World { now, seen: &seen, config: &self.config, ids: &seed.stream() };
        decide::preview(ask, charge, agent, &policy, &world)
    }

    async fn execute(&self, claim: &Claim, charge: &Charge) -> Result<Decided, AuthorityError> {
        self.execute_under(&claim.intent.id, claim.lease.fence, charge).await
    }

    async fn claim(&self, work: Work, limit: u16) -> Result<Vec<Claim>, AuthorityError> {
        self.claim_of(work, limit, None).await
    }

    async fn record(
        &self,
        id: &IntentId,
        fence: u64,
        news: &Outcome,
    ) -> Result<Intent, AuthorityError> {
        let seed = Seed::draw(self.ids.as_ref());
        let reads = Reads {
            agent: Some(AgentBy::OfIntent),
            intent: Some(IntentBy::Id(id.clone())),
            policy: true,
            ..Reads::default()
        };
        let (policies, news) = (Arc::clone(&self.policies), news.clone());
        let config = Arc::clone(&self.config);
        let judge = move |now, seen: &Snapshot| {
            let world = decide::World { now, seen, config: &config, ids: &seed.stream() };
            flatten(
                policies
                    .of(seen.policy.as_ref())
                    .and_then(|policy| outcome::record(fence, &news, &policy, &world)),
            )
        };
        self.change(reads, judge).await?
    }

    async fn justify(
        &self,
        key: &AgentKey,
        id: &IntentId,
        words: &Justification,
    ) -> Result<Intent, AuthorityError> {
        let hash = keys::hash(key);
        let reads = Reads {
            agent: Some(AgentBy::Key(hash)),
            intent: Some(IntentBy::Id(id.clone())),
            ..Reads::default()
        };
        let words = words.clone();
        let judge = move |now, seen: &Snapshot| {
            flatten(
                holder(now, seen, &hash)
                    .and_then(|agent| approval::justify(agent, &words, now, seen)),
            )
        };
        self.change(reads, judge).await?
    }
}

#[async_trait]
impl Notes for LocalAuthority {
    /// Events are remembered for 30 days, ten times as long as Stripe repeats them.
    async fn note_event(&self, id: &str) -> Result<bool, AuthorityError> {
        let reads = Reads { event: Some(id.to_owned()), ..Reads::default() };
        let id = id.to_owned();
        let judge = move |now: Timestamp, seen: &Snapshot| {
            if seen.event_noted_at.is_some() {
                return Plan::nothing(false);
            }
            let keep_since = now.before(EVENTS_KEPT);
            let note = Write::NoteEvent { id: id.clone(), at: now, keep_since };
            Plan { writes: vec![note], reply: true }
        };
        self.change(reads, judge).await
    }
}

impl LocalAuthority {
    /// Executes as [`Authority::execute`] does, for the holder of the lease with this fence.
    ///
    /// # Errors
    ///
    /// [`AuthorityError::Stale`] when the lease was given to somebody else.
    pub async fn execute_under(
        &self,
        id: &IntentId,
        fence: u64,
        charge: &Charge,
    ) -> Result<Decided, AuthorityError> {
        let seed = Seed::draw(self.ids.as_ref());
        let reads = Reads {
            agent: Some(AgentBy::OfIntent),
            intent: Some(IntentBy::Id(id.clone())),
            policy: true,
            customer: charge.customer.id().cloned(),
            rates: true,
            users: true,
            ..Reads::default()
        };
        let (config, policies) = (Arc::clone(&self.config), Arc::clone(&self.policies));
        let charge = charge.clone();
        let judge = move |now, seen: &Snapshot| {
            let world = decide::World { now, seen, config: &config, ids: &seed.stream() };
            flatten(
                policies
                    .of(seen.policy.as_ref())
                    .and_then(|policy| approval::execute(fence, &charge, &policy, &world)),
            )
        };
        self.change(reads, judge).await?
    }

    /// Takes leases as [`Authority::claim`] does; with `of`, only on work of that Stripe account and
    /// mode.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`]; no lease was given.
    pub async fn claim_of(
        &self,
        work: Work,
        limit: u16,
        of: Option<Money>,
    ) -> Result<Vec<Claim>, AuthorityError> {
        let due = match work {
            Work::Approved => Due::Approved,
            Work::AwaitingStripe(id) => Due::Awaiting(id),
            Work::GivenUp(attempt) => Due::Attempt(attempt),
            Work::One(id) => Due::One(id),
            Work::Settled => Due::Followed,
            Work::Submitted => Due::Submitted,
        };
        let reads = Reads { due: Some((due, limit)), due_of: of, policy: true, ..Reads::default() };
        // Most of the time there is nothing to do; then nothing is locked.
        if self.caller.is_none() && self.read(reads.clone()).await?.intents.is_empty() {
            return Ok(Vec::new());
        }
        let (seed, span) = (Seed::draw(self.ids.as_ref()), self.config.lease);
        let policies = Arc::clone(&self.policies);
        let judge = move |now, seen: &Snapshot| {
            let policy = policies.of(seen.policy.as_ref());
            flatten(policy.map(|policy| leased(now, seen, &policy, span, &seed.stream())))
        };
        self.change(reads, judge).await?
    }

    pub(crate) async fn now(&self) -> Result<Timestamp, AuthorityError> {
        self.store.now().await.map_err(store_error)
    }
}

/// A plan that may fail: then nothing is written and the error is the reply.
pub(crate) fn flatten<T>(plan: Result<Plan<T>, AuthorityError>) -> Plan<Result<T, AuthorityError>> {
    match plan {
        Ok(Plan { writes, reply }) => Plan { writes, reply: Ok(reply) },
        Err(error) => Plan::nothing(Err(error)),
    }
}

/// Leases everything that was read as due. No transition: nothing to audit.
///
/// The intent is the new holder's attempt from here on: the call that decided it, asked again after
/// its answer was lost, must not be handed somebody else's lease.
fn leased(
    now: Timestamp,
    seen: &Snapshot,
    policy: &Policy,
    span: Duration,
    ids: &dyn Ids,
) -> Plan<Vec<Claim>> {
    let mut plan = Plan { writes: Vec::new(), reply: Vec::new() };
    for intent in &seen.intents {
        let mut intent = intent.clone();
        let was: State = intent.state;
        let stopped = is_held(seen, &intent, policy);
        let agent_tagged = intent.seen.as_ref().is_some_and(|it| is_tagged(seen, &it.channel));
        if stopped && was == State::Approved {
            // Nobody works on it until the stop is lifted, so nobody is to wait for a lease then.
            let lease = Lease { fence: intent.fence, span: Duration::ZERO };
            plan.reply.push(Claim { intent, lease, stopped, agent_tagged, at: now });
            continue;
        }
        // Nothing is sent for these any more: they are only looked for, now and then.
        let span = match (intent.needs_person, agent_tagged && was == State::Submitted) {
            (true, _) => LOOKED_FOR_EVERY,
            (false, true) => span.max(TAGGED_LOOKED_FOR_EVERY),
            (false, false) => span,
        };
        intent.fence = intent.fence.saturating_add(u64::from(!bugs::on(Bug::LeaseWithoutFence)));
        intent.lease_until = Some(now.after(span));
        intent.attempt = AttemptId::make(now, ids);
        plan.writes.push(Write::UpdateIntent { was, intent: Box::new(intent.clone()) });
        let lease = Lease { fence: intent.fence, span };
        plan.reply.push(Claim { intent, lease, stopped, agent_tagged, at: now });
    }
    plan
}

/// The agent itself, as an actor.
pub(crate) fn actor(agent: &AgentRow) -> Actor {
    Actor::agent(&agent.id)
}
