//! The refund, from asking to answering. [`Refunds::refund`] reads as the numbered steps of the
//! README; everything below it is called from there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use gate_money::Amount;

use crate::ask::{Ask, Justification, Target, Wanted};
use crate::bugs::{self, Bug};
use crate::charge::{Charge, resolve};
use crate::drive::{Driven, Driver};
use crate::error::ActionError;
use crate::ids::{AgentKey, AttemptId, ChargeId, HoldId, IntentId};
use crate::intent::{Again, Intent};
use crate::permit::{Claim, Expected, Permit};
use crate::ports::{
    Actions, Answer, Authority, AuthorityError, Decided, Outcome, Processor, ReadError, Records,
    Work,
};
use crate::state::State;
use crate::time::{Clock, Ids};

/// Most attempts to read a charge for one request.
const READ_ATTEMPTS_MAX: u32 = 3;
/// Most decisions without an answer that are remembered.
const GIVEN_UP_MAX: usize = 1024;
/// Most intents that one event of an approval of Stripe's own has looked at.
const HOLDS_MAX: u16 = 16;
/// First pause between two attempts to read; doubles each time.
const READ_PAUSE: Duration = Duration::from_millis(200);

/// Figures that the core is run with.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The deadline of one call to the processor.
    pub call_timeout: Duration,
    /// How long a request waits for the outcome of a twin that is under way.
    pub twin_wait: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self { call_timeout: Duration::from_secs(20), twin_wait: Duration::from_secs(5) }
    }
}

/// The use case: one agent's refund, decided by the authority, made by the processor, once.
pub struct Refunds {
    authority: Arc<dyn Authority>,
    records: Arc<dyn Records>,
    processor: Arc<dyn Processor>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    driver: Arc<Driver>,
    settings: Settings,
    given_up: Mutex<Vec<AttemptId>>,
}

/// What looking at a charge's refunds came to.
#[derive(Debug, Default)]
pub struct Observed {
    /// Refunds of intents of ours, with the state that each is in now.
    pub ours: Vec<(IntentId, State)>,
    /// How many refunds are not ours.
    pub others: u32,
}

impl Refunds {
    /// Puts the ports together.
    #[must_use]
    pub fn new(
        authority: Arc<dyn Authority>,
        records: Arc<dyn Records>,
        processor: Arc<dyn Processor>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        settings: Settings,
    ) -> Self {
        let driver = Arc::new(Driver {
            authority: Arc::clone(&authority),
            processor: Arc::clone(&processor),
            clock: Arc::clone(&clock),
            ids: Arc::clone(&ids),
            call_timeout: settings.call_timeout,
            untold: Mutex::default(),
        });
        let given_up = Mutex::default();
        Self { authority, records, processor, clock, ids, driver, settings, given_up }
    }

    pub(crate) fn driver(&self) -> &Driver {
        &self.driver
    }

    pub(crate) fn authority(&self) -> &dyn Authority {
        self.authority.as_ref()
    }

    /// Executes an approved intent under a claim of its own: reads the charge again, has
    /// everything hard checked again, and pays. `None` when somebody else is at it.
    pub(crate) async fn execute(&self, id: IntentId) -> Result<Option<Driven>, ActionError> {
        let mut claims = self.authority.claim(Work::One(id), 1).await?;
        let Some(claim) = claims.pop() else {
            return Ok(None);
        };
        if claim.intent.state != State::Approved || claim.stopped {
            return Ok(Some(Driven::untouched(claim.intent)));
        }
        self.execute_claimed(claim).await.map(Some)
    }

    pub(crate) async fn execute_claimed(&self, claim: Claim) -> Result<Driven, ActionError> {
        let asked_at = self.clock.uptime();
        let charge = self.charge(&Target::Charge(claim.intent.charge.clone())).await?;
        let decided = self.authority.execute(&claim, &charge).await?;
        let approval = claim.intent.approval.as_ref();
        let words = approval.and_then(|it| it.justifications.first()).map(String::as_str);
        self.pay(decided, claim.intent.amount, &charge, words, asked_at).await
    }

    /// Pays what was decided, if it is this caller's turn.
    ///
    /// Invariant *submitted-first*: the lease came with a durable `submitted`.
    async fn pay(
        &self,
        decided: Decided,
        amount: Amount,
        charge: &Charge,
        words: Option<&str>,
        asked_at: Duration,
    ) -> Result<Driven, ActionError> {
        let Decided { intent, lease: Some(lease), .. } = decided else {
            return Ok(Driven::untouched(decided.intent));
        };
        let agent = intent.agent.clone();
        let expected =
            Expected { agent: &agent, charge: &charge.id, amount, channel: &charge.channel };
        let late = bugs::on(Bug::LeaseFromAnswer);
        let asked_at = if late { self.clock.uptime() } else { asked_at };
        self.driver.first_time(Permit { intent, lease }, &expected, words, asked_at).await
    }

    /// Reads the charge, again after a short pause when Stripe was not to be reached; all within
    /// one call's deadline.
    pub(crate) async fn charge(&self, target: &Target) -> Result<Charge, ActionError> {
        let by = self.clock.deadline(self.settings.call_timeout);
        let mut pause = READ_PAUSE;
        for _ in 1..READ_ATTEMPTS_MAX {
            match self.processor.charge(target, by).await {
                Err(ReadError::Unavailable { after }) => {
                    let until = self.clock.deadline(after.unwrap_or(pause));
                    if until >= by {
                        return Err(ActionError::StripeUnavailable);
                    }
                    self.clock.sleep_until(until).await;
                    pause = pause.saturating_mul(2);
                }
                other => return Ok(other?),
            }
        }
        Ok(self.processor.charge(target, by).await?)
    }

    /// Nothing is left: perhaps because a twin was paid between our look and our reading of the
    /// charge. Then its answer is ours.
    async fn beaten_or(
        &self,
        key: &AgentKey,
        ask: &Ask,
        charge: &Charge,
        error: ActionError,
    ) -> Result<Answer, ActionError> {
        if !ask.dry_run
            && let Some(intent) = self.authority.find(key, ask).await?
            && let Some(answer) = self.answer_again(key, ask, intent).await?
        {
            return Ok(answer);
        }
        Err(self.explain(charge, error).await)
    }

    /// Names our intent that refunded a charge last, where that is why nothing is left of it.
    async fn explain(&self, charge: &Charge, error: ActionError) -> ActionError {
        let ActionError::ChargeAlreadyRefunded { by: None } = error else {
            return error;
        };
        let by = self.clock.deadline(self.settings.call_timeout);
        let refunds = self.processor.refunds_of(&charge.id, by).await.unwrap_or_default();
        let by = refunds.into_iter().find_map(|listed| listed.refund.intent);
        ActionError::ChargeAlreadyRefunded { by }
    }

    /// Answers with what exists, or says that it has to be decided.
    async fn answer_again(
        &self,
        key: &AgentKey,
        ask: &Ask,
        intent: Intent,
    ) -> Result<Option<Answer>, ActionError> {
        match intent.again() {
            Again::DecideAgain | Again::DecideAnew => Ok(None),
            Again::SameAnswer => match &ask.justification {
                Some(words) if intent.state == State::PendingApproval => {
                    let intent = self.authority.justify(key, &intent.id, words).await?;
                    Ok(Some(replayed(intent)))
                }
                Some(_) | None => Ok(Some(replayed(intent))),
            },
            Again::Execute => match self.execute(intent.id.clone()).await? {
                Some(driven) => Ok(Some(Answer::Intent {
                    intent: Box::new(driven.intent),
                    replayed: true,
                    reported: driven.reported,
                })),
                None => self.wait_for_twin(key, &intent).await.map(Some),
            },
            Again::Wait => self.wait_for_twin(key, &intent).await.map(Some),
        }
    }

    /// Waits a little for the call under way. A lease that ended meanwhile is taken over by the
    /// reconciler, never here: a request has no more than one refund to answer for.
    async fn wait_for_twin(&self, key: &AgentKey, intent: &Intent) -> Result<Answer, ActionError> {
        let until = self.clock.deadline(self.settings.twin_wait);
        loop {
            let left = until.left(self.clock.uptime());
            let now = self.records.intent(key, &intent.id, left).await?;
            let under_way = matches!(now.state, State::Submitted | State::Approved);
            if !under_way || until.left(self.clock.uptime()).is_zero() {
                return Ok(replayed(now));
            }
        }
    }
}

fn replayed(intent: Intent) -> Answer {
    Answer::Intent { intent: Box::new(intent), replayed: true, reported: true }
}

#[async_trait]
impl Actions for Refunds {
    async fn in_minor_units(
        &self,
        key: &AgentKey,
        ask: Ask,
        major: &str,
    ) -> Result<Ask, ActionError> {
        self.counted(key, ask, major).await
    }

    async fn refund(&self, key: &AgentKey, ask: Ask) -> Result<Answer, ActionError> {
        // 1. What was asked before is answered, although Stripe be down or nothing be left.
        if !ask.dry_run
            && let Some(intent) = self.authority.find(key, &ask).await?
            && let Some(answer) = self.answer_again(key, &ask, intent).await?
        {
            return Ok(answer);
        }
        if ask.dry_run {
            self.authority.agent(key).await?;
        }
        // 2. The real charge is read. 3. What keeps it from being refunded is told.
        let charge = self.charge(&ask.target).await?;
        let resolved = match resolve(&charge, ask.wanted, ask.believed_currency) {
            Ok(amount) => amount,
            Err(error) => return self.beaten_or(key, &ask, &charge, error).await,
        };
        if ask.dry_run {
            let preview = self.authority.preview(key, &ask, &charge).await?;
            return Ok(Answer::DryRun(Box::new(preview)));
        }
        // 4. The authority decides, reserves and records: the first durable write.
        let asked_at = self.clock.uptime();
        let attempt = AttemptId::make(self.clock.now(), self.ids.as_ref());
        let decided = self.decide(key, &ask, &charge, &attempt).await?;
        if decided.replayed && decided.lease.is_none() {
            let intent = decided.intent;
            let answer = self.answer_again(key, &ask, intent.clone()).await?;
            return Ok(answer.unwrap_or_else(|| replayed(intent)));
        }
        // 5. What is allowed is sent, and 6. what became of it recorded: the second durable write.
        let replayed = decided.replayed;
        // "In full" was fixed when an intent that is decided again was first decided; more may
        // have become refundable since, which it does not cover, but never less.
        let fixed = decided.intent.amount;
        let fixed_before = ask.wanted == Wanted::Full && fixed.minor() < resolved.minor();
        let amount = if fixed_before { fixed } else { resolved };
        let words = ask.justification.as_ref().map(Justification::as_str);
        let driven = self.pay(decided, amount, &charge, words, asked_at).await?;
        Ok(Answer::Intent { intent: Box::new(driven.intent), replayed, reported: driven.reported })
    }
}

impl Refunds {
    /// Asks for a decision; when the answer is lost, once more with the same attempt, which gets
    /// the same answer.
    async fn decide(
        &self,
        key: &AgentKey,
        ask: &Ask,
        charge: &Charge,
        attempt: &AttemptId,
    ) -> Result<Decided, ActionError> {
        match self.authority.decide(key, ask, charge, attempt).await {
            Err(AuthorityError::StoreUnavailable(_) | AuthorityError::Unavailable(_)) => {
                let attempt = &self.repeated(attempt);
                let second = self.authority.decide(key, ask, charge, attempt).await;
                // A refusal to be asked at all says nothing of the first time either.
                if let Err(
                    AuthorityError::Gateway(_)
                    | AuthorityError::StoreUnavailable(_)
                    | AuthorityError::Unavailable(_),
                ) = second
                {
                    self.give_up(attempt.clone());
                }
                Ok(second?)
            }
            other => Ok(other?),
        }
    }

    /// The attempt under which a decision is asked for again: the same.
    fn repeated(&self, attempt: &AttemptId) -> AttemptId {
        if bugs::on(Bug::AttemptIdFresh) {
            return AttemptId::make(self.clock.now(), self.ids.as_ref());
        }
        attempt.clone()
    }

    /// Remembers a decision whose answer never came: nothing is sent for it, and once the authority
    /// is back it is told so. Should this process end first, the intent, if there is one, is driven
    /// like any other whose worker is gone.
    fn give_up(&self, attempt: AttemptId) {
        let mut given_up = self.given_up.lock().unwrap_or_else(PoisonError::into_inner);
        if given_up.len() < GIVEN_UP_MAX {
            given_up.push(attempt);
        }
    }

    /// Tells the authority what was given up.
    pub(crate) async fn report_given_up(&self) {
        let given_up: Vec<AttemptId> =
            std::mem::take(&mut *self.given_up.lock().unwrap_or_else(PoisonError::into_inner));
        for attempt in given_up {
            if self.report_one(&attempt).await.is_err() {
                self.give_up(attempt);
            }
        }
    }

    async fn report_one(&self, attempt: &AttemptId) -> Result<(), AuthorityError> {
        let why = "The decision's answer was lost, and nothing was sent to Stripe.";
        for claim in self.authority.claim(Work::GivenUp(attempt.clone()), 1).await? {
            let news = Outcome::NotExecuted(why.to_owned());
            self.authority.record(&claim.intent.id, claim.lease.fence, &news).await?;
        }
        Ok(())
    }

    /// Looks again at a refund that was made, and records it as it now stands.
    pub(crate) async fn follow(&self, intent: &Intent) -> Result<State, ActionError> {
        let by = self.clock.deadline(self.settings.call_timeout);
        let listed = self.processor.refunds_of(&intent.charge, by).await?;
        let known = intent.refund.as_ref().map(|refund| &refund.id);
        // By its own id: metadata can be edited, and then it is still this refund.
        let ours = listed.into_iter().find(|listed| Some(&listed.refund.id) == known);
        let Some(mut refund) = ours.map(|listed| listed.refund) else {
            return Err(ActionError::StripeError { detail: "the refund is not listed any more" });
        };
        refund.intent = Some(intent.id.clone());
        Ok(self.authority.record(&intent.id, 0, &Outcome::Seen(refund)).await?.state)
    }

    /// Looks at what waits for an approval of Stripe's own, although it is not due: Stripe said that
    /// something happened to it. What another worker is at is left to it.
    ///
    /// # Errors
    ///
    /// [`ActionError`] when it could not be looked at.
    pub async fn observe_hold(&self, id: &HoldId) -> Result<Observed, ActionError> {
        let mut observed = Observed::default();
        let work = Work::AwaitingStripe(Some(id.clone()));
        for claim in self.authority.claim(work, HOLDS_MAX).await? {
            let driven = self.driver.look_at_hold(claim).await?;
            observed.ours.push((driven.intent.id, driven.intent.state));
        }
        Ok(observed)
    }

    /// Looks at all refunds of a charge, and records each that carries an intent of ours as it now
    /// stands; whether it can be that intent's, the record tells. Others are not ours to adopt; they
    /// are counted for the log.
    ///
    /// # Errors
    ///
    /// [`ActionError`] when they could not be read, or not all be recorded.
    pub async fn observe(&self, charge: &ChargeId) -> Result<Observed, ActionError> {
        let by = self.clock.deadline(self.settings.call_timeout);
        let mut observed = Observed::default();
        for listed in self.processor.refunds_of(charge, by).await? {
            let Some(id) = listed.refund.intent.clone() else {
                observed.others = observed.others.saturating_add(1);
                continue;
            };
            let (charge, minor, refund) = (charge.clone(), listed.minor, listed.refund);
            let news = Outcome::Named { charge, minor, refund };
            match self.authority.record(&id, 0, &news).await {
                Ok(intent) => observed.ours.push((id, intent.state)),
                // Metadata that names an intent which is not here: another gateway's, or made up.
                Err(AuthorityError::Asked(ActionError::IntentNotFound)) => {
                    observed.others = observed.others.saturating_add(1);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(observed)
    }
}
