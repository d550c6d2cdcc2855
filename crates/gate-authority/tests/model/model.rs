//! The obviously right authority: one list of intents, and every sum added up anew when it is
//! asked for. Money is in millionths of a dollar, time in milliseconds, zones are fixed offsets.

use gate_core::State;
use jiff::ToSpan as _;
use jiff::civil::Date;

const DAY: i64 = 24 * 3_600_000;

/// What an agent may do; `None` where the policy is silent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) fraudulent: bool,
    pub(crate) max_per_payment: Option<i64>,
    pub(crate) daily_cap: Option<i64>,
    pub(crate) weekly_cap: Option<i64>,
    pub(crate) monthly_cap: Option<i64>,
    pub(crate) customer_cap: Option<i64>,
    pub(crate) per_hour: Option<usize>,
    pub(crate) threshold: Option<i64>,
    /// How many people a request takes that is put before people.
    pub(crate) people: usize,
}

/// The one team's budgets of a day and of a month. Whoever has an entry is in the team, if there is
/// one.
pub(crate) type Team = Option<(Option<i64>, Option<i64>)>;

/// Whose spend is counted.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Whose {
    Agent(usize),
    Customer(usize, u8),
    Team,
}

/// First millisecond, and the first one after it.
pub(crate) type Span = (i64, i64);

#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    pub(crate) zone: i64,
    pub(crate) timeout: i64,
    /// By agent, as they were made.
    pub(crate) limits: Vec<Option<Limits>>,
    pub(crate) team: Team,
}

#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) agent: usize,
    pub(crate) key: Option<u8>,
    pub(crate) charge: usize,
    /// `None` is in full.
    pub(crate) wanted: Option<i64>,
    pub(crate) reason: Option<&'static str>,
}

#[derive(Clone, Debug)]
pub(crate) struct Intent {
    pub(crate) ask: Ask,
    pub(crate) minor: i64,
    pub(crate) usd: Option<i64>,
    pub(crate) state: State,
    pub(crate) by_person: bool,
    pub(crate) reopened: bool,
    /// Code, and what was left of the limit.
    pub(crate) reasons: Vec<(&'static str, Option<i64>)>,
    pub(crate) holds_key: bool,
    /// When the approval expires, and when it was given.
    pub(crate) approval: Option<(i64, Option<i64>)>,
    /// Who said yes to it, and how many have to.
    pub(crate) votes: Vec<usize>,
    pub(crate) people: usize,
    /// Where it counts, if it counts.
    pub(crate) counts_in: Vec<(Whose, Span)>,
    pub(crate) submitted_at: Option<i64>,
    pub(crate) updated_at: i64,
    pub(crate) settled_at: Option<i64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) now: i64,
    pub(crate) policy: Policy,
    pub(crate) stopped: bool,
    pub(crate) team_stopped: bool,
    /// By charge: its customer, if it has one.
    pub(crate) customers: Vec<Option<u8>>,
    /// By agent: whether it is stopped.
    pub(crate) stops: Vec<bool>,
    pub(crate) intents: Vec<Intent>,
}

/// What was answered: the intent's place, and whether it was there before.
pub(crate) type Answer = Result<(usize, bool), String>;

impl Model {
    /// What is counted for somebody in a span.
    pub(crate) fn spent(&self, whose: Whose, span: Span) -> i64 {
        let own = self.intents.iter().filter(|i| i.counts_in.contains(&(whose, span)));
        own.filter_map(|intent| intent.usd).sum()
    }

    /// The day, the week from Monday on, and the month of now.
    fn spans(&self) -> [Span; 3] {
        let day = |date: Date| {
            let days = date.since(date_of(0)).unwrap().get_days();
            i64::from(days) * DAY - self.policy.zone
        };
        let today = date_of((self.now + self.policy.zone).div_euclid(DAY));
        let monday = today - i64::from(today.weekday().to_monday_zero_offset()).days();
        let first = today.first_of_month();
        [(today, 1.day()), (monday, 7.days()), (first, 1.month())]
            .map(|(from, span)| (day(from), day(from + span)))
    }

    /// Where a refund of an agent and a customer counts now: with the code and the limit.
    fn windows(&self, agent: usize, charge: usize) -> Vec<(Whose, Span, &'static str, i64)> {
        let [day, week, month] = self.spans();
        let Some(limits) = self.policy.limits.get(agent).cloned().flatten() else {
            return vec![(Whose::Agent(agent), day, "daily_cap", 0)];
        };
        let (team_day, team_month) = self.policy.team.unwrap_or_default();
        let own = [limits.daily_cap, limits.weekly_cap, limits.monthly_cap, team_day, team_month];
        if own.iter().all(Option::is_none) {
            return vec![(Whose::Agent(agent), day, "daily_cap", 0)];
        }
        let customer = self.customers[charge].map(|n| Whose::Customer(agent, n));
        let agent = Some(Whose::Agent(agent));
        let team = Some(Whose::Team);
        [
            (agent, day, "daily_cap", limits.daily_cap),
            (agent, week, "weekly_cap", limits.weekly_cap),
            (agent, month, "monthly_cap", limits.monthly_cap),
            (customer, day, "customer_cap", limits.customer_cap),
            (team, day, "team_budget", team_day),
            (team, month, "team_budget", team_month),
        ]
        .into_iter()
        .filter_map(|(whose, span, code, limit)| Some((whose?, span, code, limit?)))
        .collect()
    }

    /// How many refunds of an agent left within the hour, or may have.
    fn recent(&self, agent: usize) -> usize {
        let left = |intent: &&Intent| {
            let states = [State::Submitted, State::AwaitingStripe, State::Settled, State::Reversed];
            intent.ask.agent == agent
                && states.contains(&intent.state)
                && intent.submitted_at.is_some_and(|at| at > self.now - DAY / 24)
        };
        self.intents.iter().filter(left).count()
    }

    fn in_stopped_team(&self, agent: usize) -> bool {
        let member = self.policy.team.is_some()
            && self.policy.limits.get(agent).is_some_and(Option::is_some);
        self.team_stopped && member
    }

    /// Every reason not to pay at once, the hardest first; `votes` of those who said yes.
    fn reasons(&self, intent: &Intent, votes: Option<usize>) -> Vec<(&'static str, Option<i64>)> {
        let agent = intent.ask.agent;
        let fraudulent = intent.ask.reason == Some("fraudulent");
        let limits = self.policy.limits.get(agent).cloned().flatten();
        let mut reasons = Vec::new();
        let mut add = |holds: bool, code, left| {
            if holds {
                reasons.push((code, left));
            }
        };
        add(self.stopped, "organization_stopped", None);
        add(self.in_stopped_team(agent), "team_stopped", None);
        add(self.stops[agent], "agent_stopped", None);
        let method = limits.as_ref().is_some_and(|limits| limits.fraudulent || !fraudulent);
        add(!method, "method_not_allowed", None);
        add(intent.usd.is_none(), "currency_not_supported", None);
        if let Some(limits) = limits {
            let over = |limit: Option<i64>| limit.zip(intent.usd).is_some_and(|(l, usd)| usd > l);
            add(over(limits.max_per_payment), "max_per_payment", None);
            let often = limits.per_hour.is_some_and(|most| self.recent(agent) >= most);
            let windows = self.windows(agent, intent.ask.charge);
            for of_team in [false, true] {
                add(often && of_team, "rate_count", None);
                let those = windows.iter().filter(|it| (it.2 == "team_budget") == of_team);
                for (whose, span, code, limit) in those.copied() {
                    let left = (limit - self.spent(whose, span)).max(0);
                    let past = intent.usd.is_some_and(|usd| self.spent(whose, span) + usd > limit);
                    add(past || self.is_unbounded(&limits), code, Some(left));
                }
            }
            let asks = votes.is_none_or(|votes| votes < limits.people);
            let large = limits.threshold.zip(intent.usd).is_some_and(|(l, usd)| usd >= l);
            add(large && asks, "approval_threshold", None);
            let unknown =
                limits.customer_cap.is_some() && self.customers[intent.ask.charge].is_none();
            add(unknown && asks, "customer_unknown", None);
        }
        reasons
    }

    fn is_unbounded(&self, limits: &Limits) -> bool {
        let (day, month) = self.policy.team.unwrap_or_default();
        let caps = [limits.daily_cap, limits.weekly_cap, limits.monthly_cap, day, month];
        caps.iter().all(Option::is_none)
    }

    /// Decides what stands at `at`: pays it, holds it or denies it.
    fn decide(&mut self, at: usize, approved: bool) {
        let mut intent = self.intents[at].clone();
        let votes = approved.then_some(intent.votes.len());
        let mut reasons = self.reasons(&intent, votes);
        let asks = |code: &str| matches!(code, "approval_threshold" | "customer_unknown");
        intent.updated_at = self.now;
        if reasons.is_empty() {
            intent.state = State::Submitted;
            intent.submitted_at = Some(self.now);
            let windows = self.windows(intent.ask.agent, intent.ask.charge);
            intent.counts_in = windows.into_iter().map(|(whose, span, ..)| (whose, span)).collect();
        } else if !approved && reasons.iter().all(|(code, _)| asks(code)) {
            intent.state = State::PendingApproval;
            intent.approval = Some((self.now + self.policy.timeout, None));
            intent.votes = Vec::new();
            let limits = self.policy.limits[intent.ask.agent].as_ref();
            intent.people = limits.map_or(1, |limits| limits.people);
            intent.reasons = reasons;
        } else {
            intent.state = State::Denied;
            if approved {
                reasons.insert(0, ("approval_stale", None));
            }
            intent.reasons = reasons;
        }
        self.intents[at] = intent;
    }

    fn usable(&self, at: usize) -> bool {
        let given = self.intents[at].approval.and_then(|(until, given)| Some((until, given?)));
        given.is_some_and(|(until, given)| until.max(given + DAY) > self.now)
    }

    /// The newest that a key, or a request without one, is about.
    fn prior(&self, ask: &Ask) -> Option<usize> {
        self.intents.iter().rposition(|intent| {
            let twin = match intent.state {
                State::Settled => intent.settled_at.is_some_and(|at| at >= self.now - DAY),
                State::PendingApproval | State::Approved | State::Submitted => true,
                State::AwaitingStripe | State::NotExecuted => true,
                _ => false,
            };
            let (old, same) = (&intent.ask, intent.ask.charge == ask.charge);
            old.agent == ask.agent
                && intent.holds_key
                && old.key == ask.key
                && (ask.key.is_some() || (twin && same && old.wanted == ask.wanted))
        })
    }

    /// What a person denied within a day, by the amount as asked or as it comes out.
    fn refused(&self, ask: &Ask, minor: Option<i64>) -> Option<usize> {
        self.intents.iter().rposition(|intent| {
            let (old, same) = (&intent.ask, intent.ask.charge == ask.charge);
            let amount = old.wanted == ask.wanted || Some(intent.minor) == minor;
            (intent.state == State::Denied && intent.by_person)
                && (old.agent == ask.agent && same && amount)
                && intent.updated_at >= self.now - DAY
        })
    }

    /// One request; `full` is what the charge is, `usd` what the amount is worth.
    pub(crate) fn ask(&mut self, ask: &Ask, full: i64, usd: Option<i64>) -> Answer {
        let minor = ask.wanted.unwrap_or(full);
        let prior = self.prior(ask);
        if let Some(old) = prior.map(|at| &self.intents[at].ask) {
            let reused = |argument: &str| Err(format!("reused: {argument}"));
            if old.charge != ask.charge {
                return reused("target");
            } else if old.wanted != ask.wanted {
                return reused("amountMinor");
            } else if old.reason != ask.reason && ask.key.is_some() {
                return reused("reason");
            }
        }
        let state = prior.map(|at| (self.intents[at].state, self.intents[at].by_person));
        let anew = matches!(state, None | Some((State::Denied, false) | (State::NotExecuted, _)));
        if let Some(at) = prior.filter(|_| !anew) {
            self.execute(at);
            return Ok((at, true));
        }
        if let Some(at) = self.refused(ask, ask.wanted) {
            return Ok((at, true));
        }
        if minor > full {
            return Err("amount_over_refundable".to_owned());
        }
        if let Some(at) = self.refused(ask, Some(minor)) {
            return Ok((at, true));
        }
        if let Some(at) = prior.filter(|at| self.intents[*at].state == State::NotExecuted) {
            let approved = self.usable(at);
            if !approved {
                self.intents[at].reasons.clear();
            }
            self.decide(at, approved);
            return Ok((at, false));
        }
        if let Some(at) = prior {
            self.intents[at].holds_key = false;
        }
        self.intents.push(Intent {
            ask: ask.clone(),
            minor,
            usd,
            state: State::Asked,
            by_person: false,
            reopened: false,
            reasons: Vec::new(),
            holds_key: true,
            approval: None,
            votes: Vec::new(),
            people: 0,
            counts_in: Vec::new(),
            submitted_at: None,
            updated_at: self.now,
            settled_at: None,
        });
        let at = self.intents.len() - 1;
        self.decide(at, false);
        Ok((at, false))
    }

    /// Uses an approval, if there is one to be used and nothing is stopped.
    pub(crate) fn execute(&mut self, at: usize) {
        let agent = self.intents[at].ask.agent;
        let held = self.stopped || self.stops[agent] || self.in_stopped_team(agent);
        if self.intents[at].state != State::Approved {
        } else if !held && self.usable(at) {
            self.decide(at, true);
        } else if !held {
            self.end(at, State::Expired, "approval_expired");
        }
    }

    /// Somebody's yes, the last that it takes or one of several; or a no, which ends it.
    pub(crate) fn vote(&mut self, at: usize, who: usize, yes: bool) -> Result<(), String> {
        let now = self.now;
        let intent = &mut self.intents[at];
        let open = intent.approval.is_some_and(|(until, _)| until > now)
            && intent.state == State::PendingApproval
            && !(yes && intent.votes.contains(&who));
        if !open {
            return Err("nothing to decide".to_owned());
        }
        if !yes {
            self.end(at, State::Denied, "approval_denied");
            self.intents[at].by_person = true;
            return Ok(());
        }
        intent.votes.push(who);
        intent.updated_at = now;
        if intent.votes.len() >= intent.people {
            intent.approval = intent.approval.map(|(until, _)| (until, Some(now)));
            intent.state = State::Approved;
        }
        Ok(())
    }

    /// A person's no does not answer for the same refund any more.
    pub(crate) fn reopen(&mut self, at: usize) -> Result<(), String> {
        let intent = &mut self.intents[at];
        if !intent.by_person {
            return if intent.reopened { Ok(()) } else { Err("nothing to reopen".to_owned()) };
        }
        (intent.by_person, intent.reopened, intent.updated_at) = (false, true, self.now);
        Ok(())
    }

    pub(crate) fn cancel(&mut self, at: usize) -> Result<(), String> {
        if !matches!(self.intents[at].state, State::PendingApproval | State::Approved) {
            return Err("not_cancelable".to_owned());
        }
        self.end(at, State::Canceled, "approval_canceled");
        Ok(())
    }

    pub(crate) fn cancel_all_of(&mut self, agent: usize) {
        for at in 0..self.intents.len() {
            if self.intents[at].ask.agent == agent {
                let _ = self.cancel(at);
            }
        }
    }

    pub(crate) fn sweep(&mut self) {
        for at in 0..self.intents.len() {
            let until = self.intents[at].approval.map(|(until, _)| until);
            let over = match self.intents[at].state {
                State::PendingApproval => until.is_some_and(|until| until <= self.now),
                State::Approved => !self.usable(at),
                _ => false,
            };
            if over {
                self.end(at, State::Expired, "approval_expired");
            }
        }
    }

    /// News of what is under way: `to` is failed, not_executed or awaiting_stripe. Told again it is
    /// no news, and of anything else it comes too late.
    pub(crate) fn told(&mut self, at: usize, to: State, stale: bool) -> Result<(), String> {
        let was = self.intents[at].state;
        if was == to {
            return Ok(());
        }
        if was != State::Submitted || stale {
            return Err("stale".to_owned());
        }
        if to == State::AwaitingStripe {
            self.intents[at].reasons.insert(0, ("stripe_approval", None));
        }
        self.enter(at, to);
        Ok(())
    }

    /// The refund was seen at Stripe; `back` when the money did not go, or came back.
    pub(crate) fn seen(&mut self, at: usize, back: bool) {
        let to = match (self.intents[at].state, back) {
            (State::Submitted | State::AwaitingStripe, true) => State::Failed,
            (State::Settled, true) => State::Reversed,
            (State::Reversed, false) | (_, true) => return,
            (_, false) => State::Settled,
        };
        self.enter(at, to);
    }

    fn end(&mut self, at: usize, to: State, code: &'static str) {
        self.intents[at].reasons.insert(0, (code, None));
        self.enter(at, to);
    }

    /// Enters a state: what may be out counts where it counted, or from today on.
    fn enter(&mut self, at: usize, to: State) {
        let now = self.now;
        let (agent, charge) = (self.intents[at].ask.agent, self.intents[at].ask.charge);
        let windows = self.windows(agent, charge);
        let intent = &mut self.intents[at];
        (intent.state, intent.updated_at) = (to, now);
        if to == State::Settled {
            intent.settled_at.get_or_insert(now);
        }
        let out = matches!(to, State::Submitted | State::AwaitingStripe | State::Settled);
        if !out {
            intent.counts_in = Vec::new();
        } else if intent.counts_in.is_empty() {
            intent.counts_in = windows.into_iter().map(|(whose, span, ..)| (whose, span)).collect();
        }
    }
}

/// The date that is so many days after the first of January 1970.
fn date_of(days: i64) -> Date {
    Date::constant(1970, 1, 1) + days.days()
}
