//! The world's own books: every commit is written into them a second time, by rules of their own,
//! and whatever the authority's books and these disagree on is a violation. Incremental: a commit
//! is checked by what it touches.

mod approvals;
mod gateways;
mod spend;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gate_core::{
    AgentId, Approval, ApprovalId, ApprovalState, AttemptId, Denier, GatewayId, Intent, IntentId,
    Requirement, State, Timestamp,
};
use gate_money::{Rate, RateTable};
use gate_policy::{AgentLimits, Method, Policy, REFUND_HOST};
use gate_store::{AgentRow, GatewayRow, KeyHash, Scope, SpendWindow, UserRow, Write};

use crate::coverage::{Hit, Move, Turn};
use crate::executor::Node;
use crate::plan::{RULE, RULE_ROLE};
use approvals::{approval_of, reopened};

/// How long a lease holds, in milliseconds.
const LEASE_MS: u64 = 30_000;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A broken law: which, and how.
pub(crate) type Breach = (&'static str, String);

/// One intent, and what happened to it.
pub(crate) struct Entry {
    pub(crate) intent: Intent,
    pub(crate) holds_key: bool,
    /// Each state it was in, with the commit that brought it there.
    pub(crate) history: Vec<(u64, State)>,
    /// How often it was submitted, and when last, in virtual milliseconds.
    pub(crate) submits: u32,
    pub(crate) submitted_ms: u64,
    /// Whether Stripe answers its key with a 500 for ever.
    pub(crate) answers_500: bool,
    /// When each node was last given its lease, in virtual milliseconds.
    pub(crate) granted_ms: BTreeMap<Node, u64>,
    /// Until when two leases may be alive at once, because a clock jumped.
    pub(crate) overlap_ms: u64,
    /// What hit the work on it since it last moved.
    pub(crate) hits: BTreeSet<Hit>,
    /// Attempts since it was last submitted.
    pub(crate) posts: Vec<Post>,
    /// An agent was told that nothing was refunded, when it had been submitted so often.
    pub(crate) told_nothing: Option<(State, u32)>,
    /// A person ended it by mistake, so that what Stripe does contradicts the record.
    pub(crate) ended_by_mistake: bool,
    /// The refund that Stripe made for it.
    pub(crate) refund: Option<String>,
    /// The approval that somebody changed beside the gateway.
    tampered: Option<ApprovalId>,
}

/// One attempt at a refund.
#[derive(Clone, Debug)]
pub(crate) struct Post {
    pub(crate) node: Node,
    pub(crate) sent_ms: u64,
    /// When the sender learned what became of it, and whether nothing of it is in doubt.
    pub(crate) ended: Option<(u64, bool)>,
}

/// What a commit changed, for whoever counts.
#[derive(Debug, Default)]
pub(crate) struct Booked {
    pub(crate) moves: Vec<(IntentId, Move)>,
    /// What was told of a refund anew, in the state that the intent was in already.
    retold: Vec<(IntentId, State)>,
    pub(crate) breaches: Vec<Breach>,
}

/// The books.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) commits: u64,
    pub(crate) intents: BTreeMap<IntentId, Entry>,
    approvals: BTreeMap<ApprovalId, IntentId>,
    reserved: BTreeMap<IntentId, (i64, Vec<SpendWindow>)>,
    sums: BTreeMap<SpendWindow, i64>,
    pub(crate) agents: BTreeMap<AgentId, AgentRow>,
    /// The commit in which each agent or its keys last changed.
    pub(crate) agents_changed: BTreeMap<AgentId, u64>,
    pub(crate) gateways: BTreeMap<GatewayId, GatewayRow>,
    /// How often each gateway's keys were changed, and what last became of them.
    pub(crate) gateway_changes: BTreeMap<GatewayId, (u64, Turn)>,
    /// Which gateway has which id.
    pub(crate) gateway_nodes: BTreeMap<GatewayId, Node>,
    users: BTreeMap<String, UserRow>,
    /// Since when each stop is in force, in virtual milliseconds.
    pub(crate) stops: BTreeMap<Scope, u64>,
    policy: Option<(u64, Policy)>,
    /// Since when it is in force, in virtual milliseconds.
    policy_since_ms: u64,
    /// Whether the policy in force has the rule that asks for a role.
    has_rule: bool,
    rates: Option<RateTable>,
    /// How old rates may be, and those that win over them.
    rates_max_age: Duration,
    pins: Vec<Rate>,
    audited: u64,
    /// Whose commit is being booked.
    by: Node,
}

impl Ledger {
    /// Books one commit: what was written, judged at `now`, when the world was `at_ms` old, by a
    /// node that takes back what it decided in the attempts `reclaimed`.
    pub(crate) fn book(
        &mut self,
        by: Node,
        now: Timestamp,
        at_ms: u64,
        writes: &[Write],
        reclaimed: &[AttemptId],
    ) -> Booked {
        self.commits += 1;
        self.by = by;
        let mut booked = Booked::default();
        let mut entries: Vec<(String, String)> = Vec::new();
        let mut touched = BTreeSet::new();
        for write in writes {
            match write {
                Write::Audit(entry) => {
                    self.audited += 1;
                    entries.push((entry.subject.clone(), entry.action.clone()));
                }
                Write::InsertIntent(intent) => {
                    touched.insert(intent.id.clone());
                    self.insert(now, at_ms, intent, &mut booked);
                }
                Write::UpdateIntent { was, intent } => {
                    touched.insert(intent.id.clone());
                    self.update(now, at_ms, *was, intent, reclaimed, &mut booked);
                }
                Write::InsertPolicy(row) => {
                    let expected = self.policy.as_ref().map_or(0, |(version, _)| *version) + 1;
                    let policy = Policy::parse(&row.text).expect("a policy that was applied");
                    if row.version != expected {
                        booked.breach(
                            "I9",
                            format!("policy version {} after {expected}", row.version),
                        );
                    }
                    self.policy_since_ms = at_ms;
                    self.has_rule = row.text.contains(RULE);
                    self.policy = Some((row.version, policy));
                }
                Write::InsertUser(user) => {
                    drop(self.users.insert(user.name.to_string(), user.clone()))
                }
                Write::LiftStop(scope) => drop(self.stops.remove(scope)),
                Write::PutAgent(agent) => {
                    self.agents_changed.insert(agent.id.clone(), self.commits);
                    self.agents.insert(agent.id.clone(), agent.clone());
                }
                Write::EmptyAudit { .. }
                | Write::GatewayUsed { .. }
                | Write::NoteEvent { .. }
                | Write::PutWebhook(_) => {}
                Write::PutGateway(row) => self.gateway(now, row, writes, &mut booked),
                Write::UseNonce { nonce, .. } => self.signed(now, nonce, &mut booked),
                Write::PutRates(table) => self.rates(now, table, &mut booked),
                Write::PutStop(stop) => drop(self.stops.entry(stop.scope.clone()).or_insert(at_ms)),
                Write::Release(id) => {
                    touched.insert(id.clone());
                    self.release(id, &mut booked);
                }
                Write::Reserve { intent, usd, windows } => {
                    touched.insert(intent.clone());
                    self.reserve(now, intent, usd.micros(), windows, &mut booked);
                }
                Write::SetRoles { user, roles } => {
                    if let Some(row) = self.users.get_mut(user.as_str()) {
                        row.roles.clone_from(roles);
                    }
                }
                Write::SurrenderKey(id) => self.surrender(id, &mut booked),
                // A fact of the key's, and of no intent's.
                Write::TagKey { .. } => {}
            }
        }
        for id in touched {
            self.counted(&id, &mut booked);
        }
        self.submitted(now, &mut booked);
        audited(&entries, &mut booked);
        booked
    }

    fn insert(&mut self, now: Timestamp, at_ms: u64, intent: &Intent, booked: &mut Booked) {
        let id = &intent.id;
        booked.law("I7", !self.intents.contains_key(id), || format!("{id} was made twice"));
        let known = self.agents.get(&intent.agent);
        booked.law("F13", known.is_some_and(|agent| agent.revoked_at.is_none()), || {
            format!("{id} was made for an agent that is revoked or unknown")
        });
        for (other, entry) in &self.intents {
            let them = &entry.intent;
            if them.agent != intent.agent {
                continue;
            }
            let same_payment = them.charge == intent.charge;
            booked.law("I1", !(entry.holds_key && them.key == intent.key), || {
                format!("{id} and {other} both hold the key {}", intent.key.as_str())
            });
            let twins =
                same_payment && them.wanted == intent.wanted && them.keyless && intent.keyless;
            booked.law("F2", !(twins && entry.holds_key && answers_keyless(them, now)), || {
                format!("{id} was made without a key although {other} is its twin")
            });
            let denied = same_payment
                && them.state == State::Denied
                && them.denied_by == Some(Denier::Person)
                && now.since(them.updated_at) < DAY
                && now >= them.updated_at
                && (them.wanted == intent.wanted || them.amount == intent.amount);
            booked.law("F13", !denied, || {
                format!("{id} was made although a person denied it as {other}")
            });
        }
        self.intents.insert(
            id.clone(),
            Entry {
                intent: intent.clone(),
                holds_key: true,
                history: Vec::new(),
                submits: 0,
                submitted_ms: 0,
                answers_500: false,
                granted_ms: BTreeMap::from([(self.by, at_ms)]),
                overlap_ms: 0,
                hits: BTreeSet::new(),
                posts: Vec::new(),
                told_nothing: None,
                ended_by_mistake: false,
                refund: None,
                tampered: None,
            },
        );
        self.approval(intent, booked);
        self.moved(at_ms, id, (State::Asked, intent.state), booked);
    }

    fn update(
        &mut self,
        now: Timestamp,
        at_ms: u64,
        was: State,
        intent: &Intent,
        reclaimed: &[AttemptId],
        booked: &mut Booked,
    ) {
        let (id, by) = (&intent.id, self.by);
        let Some(entry) = self.intents.get_mut(id) else {
            booked.breach("I7", format!("{id} was changed and never made"));
            return;
        };
        let old = std::mem::replace(&mut entry.intent, intent.clone());
        booked.law("I7", old.state == was, || {
            format!("{id} is {} and was changed as {}", old.state.as_str(), was.as_str())
        });
        let fixed = |of: &Intent| {
            let asked = (of.agent.clone(), of.key.clone(), of.keyless, of.wanted, of.reason);
            (asked, of.charge.clone(), of.amount, of.livemode, of.account.clone(), of.created_at)
        };
        booked.law("I3", fixed(&old) == fixed(intent), || {
            format!("{id}: what was asked, or its amount, is not what it was")
        });
        booked.law("I3", old.request.is_none() || old.request == intent.request, || {
            format!("{id}: the request that is sent is not what it was")
        });
        booked.law("F23", intent.fence >= old.fence, || format!("{id}: the fence fell"));
        let longer = intent.lease_until > old.lease_until && intent.lease_until.is_some();
        booked.law("F23", !longer || intent.fence > old.fence, || {
            format!("{id}: a lease was given without a new fence")
        });
        if intent.fence > old.fence {
            let last_ms = entry.granted_ms.values().max().copied().unwrap_or_default();
            if at_ms < last_ms + LEASE_MS {
                entry.overlap_ms = at_ms + LEASE_MS;
            }
            entry.granted_ms.insert(by, at_ms);
            let held = old.lease_until.is_some_and(|until| until > now)
                && !reclaimed.contains(&old.attempt);
            booked.law("F23", !(held && was == intent.state), || {
                format!("{id}: a lease was given while another one held")
            });
        }
        self.approval(intent, booked);
        self.voted(now, &old, intent, booked);
        self.said_yes(now, &old, intent, booked);
        reopened(&old, intent, booked);
        let ended = was == State::Approved && intent.state == State::Denied;
        booked.law("F13", !ended || self.stopped_since(&old).is_none(), || {
            format!("{id} was approved, and a stop ended it")
        });
        if was != intent.state {
            self.moved(at_ms, id, (was, intent.state), booked);
        } else if old.refund != intent.refund && was != State::Denied {
            booked.retold.push((id.clone(), was));
        }
    }

    fn moved(&mut self, at_ms: u64, id: &IntentId, (from, to): Move, booked: &mut Booked) {
        booked.law("I7", is_legal(from, to), || {
            format!("{id} went from {} to {}", from.as_str(), to.as_str())
        });
        let commit = self.commits;
        if let Some(entry) = self.intents.get_mut(id) {
            entry.history.push((commit, to));
            if to == State::Submitted {
                entry.submits += 1;
                entry.submitted_ms = at_ms;
                entry.posts.clear();
            }
        }
        booked.moves.push((id.clone(), (from, to)));
    }

    fn surrender(&mut self, id: &IntentId, booked: &mut Booked) {
        let Some(entry) = self.intents.get_mut(id) else { return };
        let by_policy =
            entry.intent.state == State::Denied && entry.intent.denied_by != Some(Denier::Person);
        booked.law("I1", by_policy, || {
            format!("the key of {id} was taken over while it was {}", entry.intent.state.as_str())
        });
        entry.holds_key = false;
    }

    /// Everything hard held at each submission, whatever was checked before.
    fn submitted(&self, now: Timestamp, booked: &mut Booked) {
        let ids: Vec<IntentId> = booked
            .moves
            .iter()
            .filter(|(_, (_, to))| *to == State::Submitted)
            .map(|(id, _)| id.clone())
            .collect();
        for id in ids {
            let Some(entry) = self.intents.get(&id) else { continue };
            let intent = &entry.intent;
            let stopped = self.stopped_since(intent).is_some();
            booked.law("F13", !stopped, || format!("{id} was submitted under a stop"));
            let revoked = self.agents.get(&intent.agent).is_none_or(|a| a.revoked_at.is_some());
            booked.law("F13", !revoked, || format!("{id} was submitted for a revoked agent"));
            let version = self.policy.as_ref().map_or(0, |(version, _)| *version);
            booked.law("F13", intent.policy_version == version, || {
                format!(
                    "{id} was decided by policy {} and {version} is in force",
                    intent.policy_version
                )
            });
            booked.law("I2", intent.request.is_some() && intent.submitted_at == Some(now), || {
                format!("{id} was submitted without its request or time")
            });
            booked.law("I2", intent.lease_until.is_some_and(|until| until > now), || {
                format!("{id} was submitted without a lease")
            });
            let Some(limits) = self.limits(intent) else {
                booked.breach("F13", format!("{id} was submitted and the policy has no entry"));
                continue;
            };
            let worth = intent.worth.as_ref().map_or(i64::MAX, |worth| worth.usd.micros());
            let may = limits.methods.contains(&Method::needed_for(intent.reason))
                && limits.allowed_hosts.contains(REFUND_HOST)
                && limits.max_per_payment.is_none_or(|most| worth <= most.micros());
            booked.law("F13", may, || format!("{id} was submitted and the policy denies it"));
            let asks = limits.approval_threshold.is_some_and(|from| worth >= from.micros());
            let approved = intent.approval.as_ref().is_some_and(|approval| {
                approval.state == ApprovalState::Approved && usable_until(approval) > now
            });
            let ruled = self.rules_on(intent);
            booked.law("I6", !(asks || ruled) || approved, || {
                format!("{id} was submitted without a person's yes that can be used")
            });
            let roles = limits.reviewers.iter().cloned().collect();
            let own = Requirement { roles, people: limits.approvals_required };
            let rule = Requirement { roles: vec![RULE_ROLE.to_owned()], people: 1 };
            for (_, needed) in [(asks, own), (ruled, rule)].iter().filter(|(asks, _)| *asks) {
                booked.law("I6", self.agreed(intent, needed), || {
                    format!("{id} was submitted without those whose yes it takes: {needed:?}")
                });
            }
            let counts = self.worth(now, intent);
            booked.law("F30", counts == Some(worth), || {
                format!("{id} was submitted as worth {worth} and today's rates say {counts:?}")
            });
            let tampered = entry.tampered.is_some() && entry.tampered == approval_of(intent);
            booked.law("I6", !tampered, || {
                format!("{id} was submitted although its approval was tampered with")
            });
        }
    }

    fn limits(&self, intent: &Intent) -> Option<&AgentLimits> {
        self.policy.as_ref().and_then(|(_, policy)| policy.agent(&intent.agent_name))
    }

    /// Since when a stop holds an intent, in virtual milliseconds: one of its agent, of the team that
    /// the agent is in or that it was decided in, or of everybody.
    pub(crate) fn stopped_since(&self, intent: &Intent) -> Option<u64> {
        let team = self.limits(intent).and_then(|limits| limits.team.as_ref());
        // Whom the policy has put into a team that is stopped is held since then.
        let joined = team.and_then(|team| self.stops.get(&Scope::Team(team.clone())));
        let joined = joined.map(|since| *since.max(&self.policy_since_ms));
        let then = intent.team.iter().cloned().map(Scope::Team);
        let scopes = [Scope::Agent(intent.agent.clone()), Scope::Organization].into_iter();
        let held = scopes.chain(then).filter_map(|scope| self.stops.get(&scope).copied());
        held.chain(joined).min()
    }

    /// Whether a key is nobody's at `now`.
    pub(crate) fn is_void(&self, agent: &AgentId, key: &KeyHash, now: Timestamp) -> bool {
        self.agents.get(agent).is_none_or(|agent| {
            let valid = |row: &gate_store::KeyRow| {
                row.hash == *key && row.expires_at.is_none_or(|at| now < at)
            };
            agent.revoked_at.is_some() || !agent.keys.iter().any(valid)
        })
    }

    /// How many audit entries were written.
    pub(crate) const fn audited(&self) -> u64 {
        self.audited
    }
}

impl Entry {
    /// Whether it may have been made, and nobody knows.
    pub(crate) fn is_in_doubt(&self) -> bool {
        let doubt = |post: &Post| post.ended.is_some_and(|(_, clear)| !clear);
        self.intent.state == State::Submitted && self.posts.iter().any(doubt)
    }

    /// Whether it was in `state` at some time since the commit `since`.
    pub(crate) fn was(&self, state: State, since: u64) -> bool {
        let mut until = u64::MAX;
        self.history.iter().rev().any(|(from, of)| {
            let overlaps = *of == state && until > since;
            until = *from;
            overlaps
        })
    }
}

impl Booked {
    pub(crate) fn breach(&mut self, law: &'static str, what: String) {
        self.breaches.push((law, what));
    }

    pub(crate) fn law(&mut self, law: &'static str, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.breach(law, what());
        }
    }
}

/// One entry for each transition, of its name; others only of what is no transition.
fn audited(entries: &[(String, String)], booked: &mut Booked) {
    let moves = booked.moves.iter().map(|(id, (_, to))| (id, to));
    let retold = booked.retold.iter().map(|(id, state)| (id, state));
    let expected: Vec<(String, String)> = moves
        .chain(retold)
        .map(|(id, state)| (id.to_string(), format!("intent.{}", state.as_str())))
        .collect();
    let states: BTreeSet<String> =
        State::STORED.iter().map(|state| format!("intent.{}", state.as_str())).collect();
    let found: Vec<(String, String)> =
        entries.iter().filter(|(_, action)| states.contains(action)).cloned().collect();
    booked.law("I9", found == expected, || {
        format!("transitions {expected:?} have audit entries {found:?}")
    });
}

/// Whether a key-less intent answers for its like.
fn answers_keyless(intent: &Intent, now: Timestamp) -> bool {
    match intent.state {
        State::PendingApproval
        | State::Approved
        | State::Submitted
        | State::AwaitingStripe
        | State::NotExecuted => true,
        State::Settled => intent.settled_at.is_some_and(|at| now.since(at) < DAY),
        State::Asked
        | State::Failed
        | State::Reversed
        | State::Denied
        | State::Expired
        | State::Canceled => false,
    }
}

/// The later of the approval's own end and a day after it was given.
pub(crate) fn usable_until(approval: &Approval) -> Timestamp {
    let day_after = approval.decided_at.map_or(approval.expires_at, |at| at.after(DAY));
    day_after.max(approval.expires_at)
}

/// The life of an intent, as the manual draws it.
fn is_legal(from: State, to: State) -> bool {
    use State as S;
    let next: &[State] = match from {
        S::Asked => &[S::PendingApproval, S::Submitted, S::Denied],
        S::PendingApproval => &[S::Approved, S::Denied, S::Expired, S::Canceled],
        S::Approved => &[S::Submitted, S::Denied, S::Expired, S::Canceled],
        S::Submitted => &[S::Settled, S::Failed, S::AwaitingStripe, S::NotExecuted],
        S::AwaitingStripe => &[S::Settled, S::Failed],
        S::NotExecuted => &[S::Submitted, S::Denied, S::PendingApproval, S::Settled],
        S::Settled => &[S::Reversed],
        S::Failed => &[S::Settled],
        S::Reversed | S::Denied | S::Expired | S::Canceled => &[],
    };
    next.contains(&to)
}
