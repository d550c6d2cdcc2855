//! The obviously right authority: one list of intents, and every sum added up anew when it is
//! asked for. Money is in millionths of a dollar, time in milliseconds, zones are fixed offsets.

use gate_core::State;

const DAY: i64 = 24 * 3_600_000;

/// What an agent may do; `None` where the policy is silent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Limits {
    pub(crate) fraudulent: bool,
    pub(crate) max_per_payment: Option<i64>,
    pub(crate) daily_cap: Option<i64>,
    pub(crate) threshold: Option<i64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Policy {
    pub(crate) zone: i64,
    pub(crate) timeout: i64,
    /// By agent, as they were made.
    pub(crate) limits: Vec<Option<Limits>>,
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
    /// Code, and what was left of the limit.
    pub(crate) reasons: Vec<(&'static str, Option<i64>)>,
    pub(crate) holds_key: bool,
    /// When the approval expires, and when it was given.
    pub(crate) approval: Option<(i64, Option<i64>)>,
    /// First and last millisecond of the day that it counts in, if it counts.
    pub(crate) counts_in: Option<(i64, i64)>,
    pub(crate) updated_at: i64,
    pub(crate) settled_at: Option<i64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) now: i64,
    pub(crate) policy: Policy,
    pub(crate) stopped: bool,
    /// By agent: whether it is stopped.
    pub(crate) stops: Vec<bool>,
    pub(crate) intents: Vec<Intent>,
}

/// What was answered: the intent's place, and whether it was there before.
pub(crate) type Answer = Result<(usize, bool), String>;

impl Model {
    /// What an agent counts in a day.
    pub(crate) fn spent(&self, agent: usize, day: (i64, i64)) -> i64 {
        let own = self.intents.iter().filter(|i| i.ask.agent == agent && i.counts_in == Some(day));
        own.filter_map(|intent| intent.usd).sum()
    }

    fn today(&self) -> (i64, i64) {
        let start = (self.now + self.policy.zone).div_euclid(DAY) * DAY - self.policy.zone;
        (start, start + DAY)
    }

    /// Every reason not to pay at once, the hardest first.
    fn reasons(&self, intent: &Intent, approved: bool) -> Vec<(&'static str, Option<i64>)> {
        let agent = intent.ask.agent;
        let fraudulent = intent.ask.reason == Some("fraudulent");
        let limits = self.policy.limits.get(agent).cloned().flatten();
        let spent = self.spent(agent, self.today());
        let mut reasons = Vec::new();
        let mut add = |holds: bool, code, left| {
            if holds {
                reasons.push((code, left));
            }
        };
        add(self.stopped, "organization_stopped", None);
        add(self.stops[agent], "agent_stopped", None);
        let method = limits.as_ref().is_some_and(|limits| limits.fraudulent || !fraudulent);
        add(!method, "method_not_allowed", None);
        add(intent.usd.is_none(), "currency_not_supported", None);
        if let Some(limits) = limits {
            let over = |limit: Option<i64>| limit.zip(intent.usd).is_some_and(|(l, usd)| usd > l);
            add(over(limits.max_per_payment), "max_per_payment", None);
            let left = limits.daily_cap.map_or(0, |cap| cap.saturating_sub(spent).max(0));
            let unbounded = limits.daily_cap.is_none();
            let past =
                intent.usd.is_some_and(|usd| limits.daily_cap.is_some_and(|c| spent + usd > c));
            add(unbounded || past, "daily_cap", Some(left));
            let large = limits.threshold.zip(intent.usd).is_some_and(|(l, usd)| usd >= l);
            add(large && !approved, "approval_threshold", None);
        }
        reasons
    }

    /// Decides what stands at `at`: pays it, holds it or denies it.
    fn decide(&mut self, at: usize, approved: bool) {
        let mut intent = self.intents[at].clone();
        let mut reasons = self.reasons(&intent, approved);
        intent.updated_at = self.now;
        if reasons.is_empty() {
            intent.state = State::Submitted;
            intent.counts_in = Some(self.today());
        } else if reasons.iter().all(|(code, _)| *code == "approval_threshold") {
            intent.state = State::PendingApproval;
            intent.approval = Some((self.now + self.policy.timeout, None));
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
            reasons: Vec::new(),
            holds_key: true,
            approval: None,
            counts_in: None,
            updated_at: self.now,
            settled_at: None,
        });
        let at = self.intents.len() - 1;
        self.decide(at, false);
        Ok((at, false))
    }

    /// Uses an approval, if there is one to be used and nothing is stopped.
    pub(crate) fn execute(&mut self, at: usize) {
        let held = self.stopped || self.stops[self.intents[at].ask.agent];
        if self.intents[at].state != State::Approved {
        } else if !held && self.usable(at) {
            self.decide(at, true);
        } else if !held {
            self.end(at, State::Expired, "approval_expired");
        }
    }

    pub(crate) fn vote(&mut self, at: usize, yes: bool) -> Result<(), String> {
        let pending = self.intents[at].state == State::PendingApproval;
        match self.intents[at].approval {
            Some((until, _)) if pending && until > self.now && yes => {
                self.intents[at].approval = Some((until, Some(self.now)));
                self.intents[at].state = State::Approved;
            }
            Some((until, _)) if pending && until > self.now => {
                self.end(at, State::Denied, "approval_denied");
                self.intents[at].by_person = true;
            }
            _ => return Err("nothing to decide".to_owned()),
        }
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
        let (now, today) = (self.now, self.today());
        let intent = &mut self.intents[at];
        (intent.state, intent.updated_at) = (to, now);
        if to == State::Settled {
            intent.settled_at.get_or_insert(now);
        }
        let out = matches!(to, State::Submitted | State::AwaitingStripe | State::Settled);
        intent.counts_in = out.then(|| intent.counts_in.unwrap_or(today));
    }
}
