//! Driving a submitted intent to its end: attempts, backoff, looking before sending again.
//!
//! One loop serves the request that submitted the intent and whoever takes its lease over later;
//! they differ only in whether something may have been sent before.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::bugs::{self, Bug};
use crate::codes::FailureCode;
use crate::error::ActionError;
use crate::ids::IntentId;
use crate::intent::{Failure, Intent, ListedRefund, Refund};
use crate::permit::{Claim, Expected, Permit, Ticket, ticket};
use crate::ports::{Authority, Doubt, Hold, Outcome, Processor, Refusal, SendError};
use crate::state::State;
use crate::time::{Clock, Deadline, Ids};

/// Most attempts under one lease.
const SEND_ATTEMPTS_MAX: u32 = 5;
/// First pause between two attempts; doubles each time, with full jitter.
const PAUSE_FIRST: Duration = Duration::from_millis(500);
/// Longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Stripe keeps an idempotency key for 24 hours; an hour before that nothing is sent again.
const SEND_AGAIN_WITHIN: Duration = Duration::from_secs(23 * 3600);
/// How long after that an unknown outcome is looked for; then the intent has failed.
const LOOKED_FOR: Duration = Duration::from_secs(15 * 24 * 3600);
/// Most holds that are remembered until the authority can be told.
const UNTOLD_MAX: usize = 1024;
/// How much earlier than the submission by our clock a refund of it may be by Stripe's.
const CLOCKS_APART: Duration = Duration::from_secs(300);

pub(crate) struct Driver {
    pub(crate) authority: Arc<dyn Authority>,
    pub(crate) processor: Arc<dyn Processor>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn Ids>,
    pub(crate) call_timeout: Duration,
    /// What is held, and the authority could not be told: no listing shows it.
    pub(crate) untold: Mutex<BTreeMap<IntentId, Hold>>,
}

/// What driving an intent came to.
#[derive(Debug)]
pub(crate) struct Driven {
    pub(crate) intent: Intent,
    /// False when Stripe's answer is known and the authority could not be told.
    pub(crate) reported: bool,
}

impl Driven {
    pub(crate) const fn untouched(intent: Intent) -> Self {
        Self { intent, reported: true }
    }
}

/// What one round of attempts, or a look, knows in the end.
pub(crate) enum Known {
    /// The outcome.
    Outcome(Outcome),
    /// Nothing certain; the next holder of the lease goes on.
    Nothing,
}

impl Driver {
    /// Sends what was just submitted; nothing can have been sent before. Should Stripe hold it, those
    /// who decide there are told the agent's `words`.
    pub(crate) async fn first_time(
        &self,
        permit: Permit,
        expected: &Expected<'_>,
        words: Option<&str>,
        asked_at: Duration,
    ) -> Result<Driven, ActionError> {
        let intent = permit.intent.clone();
        let tagged = expected.channel.agent_tagged || is_tagged(&intent);
        let lease_ends = Deadline::at(asked_at.saturating_add(permit.lease.span));
        let ticket = ticket(permit, expected, lease_ends).map_err(|what| {
            ActionError::AuthorityError { detail: format!("the permit disagrees on the {what}") }
        })?;
        let known = self.attempts(&ticket, &intent, false, tagged).await;
        let held = match &known {
            Known::Outcome(Outcome::Held(hold)) => hold.id.clone(),
            Known::Outcome(_) | Known::Nothing => None,
        };
        let driven = self.record(intent, ticket.fence(), known).await?;
        if let (Some(id), Some(words)) = (held, words) {
            let by = self.clock.deadline(self.call_timeout);
            self.processor.justify(&id, words, by).await;
        }
        Ok(driven)
    }

    /// Takes over a submitted intent whose worker is gone: something may have been sent.
    pub(crate) async fn take_over(
        &self,
        claim: Claim,
        asked_at: Duration,
    ) -> Result<Driven, ActionError> {
        let intent = claim.intent;
        let fence = claim.lease.fence;
        // By the clock that the submission was timed with: ours may be hours off.
        let now = if bugs::on(Bug::AgeByOwnClock) { self.clock.now() } else { claim.at };
        let age = intent.submitted_at.map_or(Duration::MAX, |at| now.since(at));
        let untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner).remove(&intent.id);
        if let Some(hold) = untold {
            return self.record(intent, fence, Known::Outcome(Outcome::Held(hold))).await;
        }
        let channel = self.processor.channel().await?;
        let stopped = claim.stopped && !bugs::on(Bug::SentUnderStop);
        // Stripe may hold it, and make it itself: whatever was sent is only looked for.
        let tagged = claim.agent_tagged || channel.agent_tagged || is_tagged(&intent);
        if stopped
            || tagged
            || intent.needs_person
            || age >= SEND_AGAIN_WITHIN && !bugs::on(Bug::SentAfter23Hours)
        {
            let known = match self.seen(&intent).await {
                Looked::Found(refund) => Known::Outcome(Outcome::Seen(refund)),
                Looked::NotThere
                    if age >= SEND_AGAIN_WITHIN.saturating_add(LOOKED_FOR)
                        && !bugs::on(Bug::LookedForEver) =>
                {
                    Known::Outcome(Outcome::Refused(never_found()))
                }
                Looked::NotThere if age >= SEND_AGAIN_WITHIN => needs_person(&intent),
                Looked::Stranger => needs_person(&intent),
                Looked::NotThere | Looked::Unclear => Known::Nothing,
            };
            return self.record(intent, fence, known).await;
        }
        let lease_ends = Deadline::at(asked_at.saturating_add(claim.lease.span));
        let expected = Expected {
            agent: &intent.agent,
            charge: &intent.charge,
            amount: intent.amount,
            channel: &channel,
        };
        let permit = Permit { intent: intent.clone(), lease: claim.lease };
        let ticket = ticket(permit, &expected, lease_ends).map_err(|what| {
            ActionError::AuthorityError { detail: format!("the claim disagrees on the {what}") }
        })?;
        let known = self.attempts(&ticket, &intent, true, tagged).await;
        self.record(intent, fence, known).await
    }

    /// Attempts under one lease, until an outcome is certain or the lease has not a call's time
    /// left. Invariant *doubt-is-not-failure*: once an attempt was unclear, or may have been made
    /// by somebody before us, only a refund seen or a refusal without one ends the intent.
    async fn attempts(
        &self,
        ticket: &Ticket,
        intent: &Intent,
        sent_before: bool,
        tagged: bool,
    ) -> Known {
        let mut in_doubt = sent_before;
        let mut last_doubt = None;
        let mut kept_unclear = false;
        for attempt in 0..SEND_ATTEMPTS_MAX {
            // Invariant *look-first*: what may have been sent is looked for before it is sent again.
            if in_doubt && !bugs::on(Bug::BlindRetry) {
                match self.seen(intent).await {
                    Looked::Found(refund) => return Known::Outcome(Outcome::Seen(refund)),
                    Looked::NotThere => {}
                    Looked::Stranger => return needs_person(intent),
                    Looked::Unclear => return Known::Nothing,
                }
            }
            let by = self.clock.deadline(self.call_timeout);
            if by > ticket.lease_ends() && !bugs::on(Bug::LeaseEndIgnored) {
                break;
            }
            let doubt = match self.processor.refund(ticket, by).await {
                Ok(refund) => return Known::Outcome(Outcome::Seen(refund)),
                Err(SendError::Held(hold)) => return Known::Outcome(Outcome::Held(hold)),
                Err(SendError::Refused(refusal)) if bugs::on(Bug::RefusalWithoutListing) => {
                    return Known::Outcome(Outcome::Refused(refusal));
                }
                Err(SendError::Refused(refusal)) => {
                    return match self.seen(intent).await {
                        Looked::Found(refund) => Known::Outcome(Outcome::Seen(refund)),
                        Looked::Stranger if in_doubt => needs_person(intent),
                        Looked::NotThere | Looked::Stranger => {
                            Known::Outcome(Outcome::Refused(refusal))
                        }
                        Looked::Unclear => Known::Nothing,
                    };
                }
                Err(SendError::NotSent(doubt) | SendError::NotStored(doubt)) => {
                    in_doubt &= !bugs::on(Bug::ClearedByLater);
                    doubt
                }
                Err(SendError::Unknown(doubt)) => {
                    in_doubt |= !bugs::on(Bug::DoubtForgotten);
                    kept_unclear = doubt.give_up;
                    doubt
                }
            };
            let give_up = doubt.give_up || in_doubt && tagged;
            let pause = self.pause(attempt, &doubt);
            last_doubt = Some(doubt);
            let until = self.clock.deadline(pause);
            let next_ends = Deadline::at(until.uptime().saturating_add(self.call_timeout));
            // The last look costs little, and finds what an attempt did just before its answer
            // was lost; so it is taken even when nothing more is sent.
            if give_up || next_ends > ticket.lease_ends() {
                break;
            }
            self.clock.sleep_until(until).await;
        }
        match last_doubt {
            Some(doubt) if !in_doubt => Known::Outcome(Outcome::NotExecuted(doubt.message)),
            Some(_) | None => match self.seen(intent).await {
                Looked::Found(refund) => Known::Outcome(Outcome::Seen(refund)),
                Looked::Stranger => needs_person(intent),
                // Stripe kept an unclear answer under the key, and gives it for as long as it can.
                Looked::NotThere if kept_unclear => needs_person(intent),
                Looked::NotThere if bugs::on(Bug::EmptyListingIsProof) => {
                    Known::Outcome(Outcome::NotExecuted(String::new()))
                }
                Looked::NotThere | Looked::Unclear => Known::Nothing,
            },
        }
    }

    /// Looks for the intent's refund among all refunds of its charge.
    async fn seen(&self, intent: &Intent) -> Looked {
        let by = self.clock.deadline(self.call_timeout);
        let Ok(listed) = self.processor.refunds_of(&intent.charge, by).await else {
            return if bugs::on(Bug::FailedListingIsEmpty) {
                Looked::NotThere
            } else {
                Looked::Unclear
            };
        };
        let since = intent.submitted_at.map(|at| at.before(CLOCKS_APART));
        let like_ours = listed.iter().any(|other| {
            other.refund.intent.is_none()
                && other.minor == intent.amount.minor()
                && since.is_some_and(|since| other.created_at >= since)
        });
        let (ours, copies): (Vec<ListedRefund>, Vec<ListedRefund>) = listed
            .into_iter()
            .filter(|other| other.refund.intent.as_ref() == Some(&intent.id))
            .partition(|named| named.minor == intent.amount.minor());
        match ours.into_iter().next() {
            Some(ours) => Looked::Found(ours.refund),
            None if like_ours || !copies.is_empty() => Looked::Stranger,
            None => Looked::NotThere,
        }
    }

    /// How long to wait before the next attempt: what the processor asks for, or between nothing
    /// and a doubling bound.
    fn pause(&self, attempt: u32, doubt: &Doubt) -> Duration {
        if let Some(after) = doubt.after {
            return after;
        }
        let bound = PAUSE_FIRST.saturating_mul(2_u32.saturating_pow(attempt)).min(PAUSE_MAX);
        let mut byte = [0_u8; 1];
        self.ids.fill(&mut byte);
        let [jitter] = byte;
        bound.saturating_mul(u32::from(jitter).saturating_add(1)).checked_div(256).unwrap_or(bound)
    }

    /// Tells the authority. Once Stripe's answer is known it stands, told or not: the intent is
    /// answered as it will be, and the next holder of the lease finds the same refund again.
    pub(crate) async fn record(
        &self,
        mut intent: Intent,
        fence: u64,
        known: Known,
    ) -> Result<Driven, ActionError> {
        let Known::Outcome(outcome) = known else {
            return Ok(Driven::untouched(intent));
        };
        match self.authority.record(&intent.id, fence, &outcome).await {
            Ok(intent) => Ok(Driven { intent, reported: true }),
            // That nothing happened is not the end before it is recorded: the record still says
            // `submitted`, and whoever holds its lease next sends it.
            Err(_)
                if matches!(outcome, Outcome::NotExecuted(_))
                    && !bugs::on(Bug::ForetoldNotExecuted) =>
            {
                Ok(Driven::untouched(intent))
            }
            // Whatever kept it from being told: what Stripe did is known, and contradicting it
            // would be worse than any answer.
            Err(_) => {
                self.remember(&intent, &outcome);
                foretell(&mut intent, &outcome);
                Ok(Driven { intent, reported: false })
            }
        }
    }
}

impl Driver {
    /// Keeps what only this answer of Stripe's said, for the next holder of the lease.
    fn remember(&self, intent: &Intent, outcome: &Outcome) {
        let Outcome::Held(hold) = outcome else { return };
        let mut untold = self.untold.lock().unwrap_or_else(PoisonError::into_inner);
        if intent.state == State::Submitted && untold.len() < UNTOLD_MAX {
            untold.insert(intent.id.clone(), hold.clone());
        }
    }
}

enum Looked {
    Found(Refund),
    NotThere,
    /// Not ours by its metadata, but of this amount, and since this was submitted: it may be ours
    /// with its metadata edited, so it is neither adopted nor is anything sent. Or ours by its
    /// metadata and of another amount, which was never sent: somebody is at Stripe's records.
    Stranger,
    /// The listing failed: that is not a proof of anything.
    Unclear,
}

/// Raises the alarm, once.
fn needs_person(intent: &Intent) -> Known {
    if intent.needs_person || bugs::on(Bug::AlarmNeverRaised) {
        Known::Nothing
    } else {
        Known::Outcome(Outcome::NeedsPerson)
    }
}

/// Whether the key that the intent was decided with is known to be agent-tagged.
fn is_tagged(intent: &Intent) -> bool {
    intent.seen.as_ref().is_some_and(|seen| seen.channel.agent_tagged)
}

fn never_found() -> Refusal {
    Refusal {
        code: FailureCode::NotFoundAtStripe,
        message: "No refund was found at Stripe within 15 days of the last attempt.".to_owned(),
    }
}

/// Shows an outcome that could not be recorded yet. Only certain news are shown.
fn foretell(intent: &mut Intent, outcome: &Outcome) {
    let Some(event) = outcome.event() else { return };
    let Ok(state) = intent.state.after(event) else {
        return;
    };
    intent.state = state;
    match outcome {
        Outcome::Named { refund, .. } | Outcome::Seen(refund) => {
            intent.refund = Some(refund.clone());
        }
        Outcome::Refused(refusal) => {
            intent.failure =
                Some(Failure { code: Some(refusal.code), message: refusal.message.clone() });
        }
        Outcome::Held(_) | Outcome::NeedsPerson | Outcome::NotExecuted(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::Wanted;
    use crate::fakes::{
        JumpClock, LEASE, OneIntent, SameBytes, Scripted, Step, ask, charge, submitted,
    };
    use crate::ids::AgentKey;
    use crate::ports::{Actions, Answer, Records};
    use crate::reconcile::Reconciler;
    use crate::refund::{Refunds, Settings};
    use futures_util::FutureExt;
    use std::sync::atomic::Ordering;

    fn doubt(give_up: bool) -> Doubt {
        Doubt { message: "…".to_owned(), after: None, give_up }
    }
    fn refused() -> SendError {
        let code = FailureCode::ChargeDisputed;
        SendError::Refused(Refusal { code, message: "…".to_owned() })
    }
    fn held() -> SendError {
        SendError::Held(Hold::default())
    }
    fn not_stored() -> SendError {
        SendError::NotStored(doubt(false))
    }
    fn forbidden() -> SendError {
        SendError::NotStored(doubt(true))
    }
    fn not_sent() -> SendError {
        SendError::NotSent(doubt(false))
    }
    fn unknown() -> SendError {
        SendError::Unknown(doubt(false))
    }
    /// A stored 500: the processor says that another attempt gets the same answer.
    fn stored() -> SendError {
        SendError::Unknown(doubt(true))
    }

    /// What every kind of answer does, in the request that submitted (`first`) and for whoever
    /// takes the intent over: the state afterwards and how often the bytes were sent.
    #[test]
    fn every_answer_and_what_follows() {
        use Step::{Made, MadeAndSays, Says};
        let n = |count: usize, step: Step| vec![step; count];
        #[rustfmt::skip]
        let table: Vec<(&str, Vec<Step>, (&str, usize), (&str, usize))> = vec![
            // the processor's answers                                        first              taken over
            ("made",               vec![Made("succeeded")],                   ("settled", 1),    ("settled", 1)),
            ("pending",            vec![Made("pending")],                     ("settled", 1),    ("settled", 1)),
            ("unknown status",     vec![Made("in_the_mail")],                 ("settled", 1),    ("settled", 1)),
            ("made, failed",       vec![Made("failed")],                      ("failed", 1),     ("failed", 1)),
            ("made, canceled",     vec![Made("canceled")],                    ("failed", 1),     ("failed", 1)),
            ("refused",            vec![Says(refused())],                     ("failed", 1),     ("failed", 1)),
            ("refused, but there", vec![MadeAndSays(refused())],              ("settled", 1),    ("settled", 1)),
            ("held",               vec![Says(held())],                        ("awaiting_stripe", 1), ("awaiting_stripe", 1)),
            ("429, then made",     vec![Says(not_stored()), Made("succeeded")], ("settled", 2),  ("settled", 2)),
            ("429 for ever",       n(5, Says(not_stored())),                  ("not_executed", 5), ("submitted", 5)),
            ("403",                vec![Says(forbidden())],                   ("not_executed", 1), ("submitted", 1)),
            ("no connection",      n(5, Says(not_sent())),                    ("not_executed", 5), ("submitted", 5)),
            ("lost after",         vec![MadeAndSays(unknown())],              ("settled", 1),    ("settled", 1)),
            ("lost before",        vec![Says(unknown()), Made("succeeded")],  ("settled", 2),    ("settled", 2)),
            ("unclear, then 429",  vec![Says(unknown()), Says(forbidden())],  ("submitted", 2),  ("submitted", 2)),
            ("unclear, refused",   vec![Says(unknown()), Says(refused())],    ("failed", 2),     ("failed", 2)),
            ("a stored 500",       vec![Says(stored())],                      ("submitted", 1),  ("submitted", 1)),
            ("a 500 that was done", vec![MadeAndSays(stored())],              ("settled", 1),    ("settled", 1)),
            ("unclear for ever",   n(5, Says(unknown())),                     ("submitted", 5),  ("submitted", 5)),
        ];
        for (name, steps, first, taken_over) in table {
            let world = World::new(&steps);
            assert_eq!(world.ask(), first.0, "{name}: first");
            world.check_sent(first.1, name);
            let world = World::new(&steps).left_behind();
            world.reconcile();
            assert_eq!(world.state(), taken_over.0, "{name}: taken over");
            world.check_sent(taken_over.1, name);
        }
    }

    /// What the next worker finds at Stripe is taken, and nothing is sent.
    #[test]
    fn what_is_there_is_adopted() {
        for (status, state) in
            [("succeeded", "settled"), ("pending", "settled"), ("failed", "failed")]
        {
            let world = World::new(&[]).left_behind();
            let intent = world.authority.intent.lock().unwrap().clone().unwrap();
            world.processor.made.lock().unwrap().push(crate::fakes::refund_of(&intent.id, status));
            world.reconcile();
            assert_eq!(world.state(), state, "{status}");
            world.check_sent(0, status);
        }
    }

    /// A refund that names the intent and is of another amount was never sent for it: it is not
    /// adopted, nothing is sent beside it, and a person is to look.
    #[test]
    fn a_refund_of_another_amount_is_not_adopted() {
        for status in ["succeeded", "pending", "failed"] {
            let world = World::new(&[]);
            let part = charge("ch_1", 999, "EUR").amount;
            let intent = submitted(&charge("ch_1", 1000, "EUR"), part, world.clock.now());
            let named = crate::fakes::refund_of(&intent.id, status);
            *world.authority.to_submit.lock().unwrap() = Some(intent);
            let world = world.left_behind();
            world.processor.made.lock().unwrap().push(named);
            for _ in 0..2 {
                world.reconcile();
                world.clock.advance(LEASE);
                let intent = world.authority.intent.lock().unwrap().clone().unwrap();
                let found = (intent.state, intent.refund, intent.needs_person);
                assert_eq!(found, (State::Submitted, None, true), "{status}");
                world.check_sent(0, status);
            }
        }
    }

    #[test]
    fn nothing_is_sent_after_23_hours_nor_under_a_stop_nor_blindly() {
        let hours = |h: u64| Duration::from_secs(h * 3600);
        #[rustfmt::skip]
        let table: [(&str, Duration, bool, bool, usize, bool); 5] = [
            //                    age        stopped listing fails  sent  needs a person
            ("in time",           hours(22), false,  false,         1,    false),
            ("too late",          hours(23), false,  false,         0,    true),
            ("stopped",           hours(1),  true,   false,         0,    false),
            ("cannot look",       hours(1),  false,  true,          0,    false),
            ("late, cannot look", hours(30), false,  true,          0,    false),
        ];
        for (name, age, stopped, listing_fails, sent, needs_person) in table {
            let mut world = World::new(&[Step::Made("succeeded")]).left_behind();
            Arc::get_mut(&mut world.authority).unwrap().stopped = stopped;
            Arc::get_mut(&mut world.processor).unwrap().listing_fails = listing_fails;
            world.clock.advance(age);
            world.reconcile();
            world.check_sent(sent, name);
            let intent = world.authority.intent.lock().unwrap().clone().unwrap();
            assert_eq!(intent.needs_person, needs_person, "{name}");
        }
    }

    #[test]
    fn a_lost_decision_is_asked_again_and_a_lost_report_is_told() {
        let world = World::new(&[Step::Made("succeeded")]);
        *world.authority.decide_answers_lost.lock().unwrap() = 1;
        assert_eq!(world.ask(), "settled");
        world.check_sent(1, "decided twice, sent once");

        let world = World::new(&[Step::Made("succeeded")]);
        *world.authority.decide_answers_lost.lock().unwrap() = 2;
        assert_eq!(world.ask(), "authority_unavailable");
        world.check_sent(0, "given up");

        let world = World::new(&[Step::Made("succeeded")]);
        world.authority.record_fails.store(true, Ordering::SeqCst);
        let answer = world.refunds().refund(&key(), ask("ch_1", Wanted::Full)).now_or_never();
        let Some(Ok(Answer::Intent { intent, reported, .. })) = answer else { panic!("no answer") };
        assert_eq!((intent.state, reported), (State::Settled, false));
        assert_eq!(world.state(), "submitted", "the record waits for the reconciler");
    }

    #[test]
    fn a_permit_that_disagrees_pays_nothing() {
        type Change = fn(&mut Intent);
        let table: [(&str, Change); 6] = [
            ("state", |i| i.state = State::Approved),
            ("charge", |i| i.charge = crate::ChargeId::parse("ch_2").unwrap()),
            ("amount", |i| i.amount = charge("ch_1", 999, "EUR").amount),
            ("account", |i| i.account = Some(crate::AccountId::parse("acct_1").unwrap())),
            ("mode", |i| i.livemode = true),
            ("bytes", |i| i.request.as_mut().unwrap().form.push_str("&amount=1")),
        ];
        for (what, change) in table {
            let world = World::new(&[]);
            let mut submits = world.authority.to_submit.lock().unwrap();
            change(submits.as_mut().unwrap());
            drop(submits);
            assert_eq!(world.ask(), "authority_error", "{what}");
            world.check_sent(0, what);
        }
    }

    fn key() -> AgentKey {
        AgentKey::new("bb_agent_x".to_owned())
    }

    struct World {
        authority: Arc<OneIntent>,
        processor: Arc<Scripted>,
        clock: Arc<JumpClock>,
    }

    impl World {
        fn new(steps: &[Step]) -> Self {
            let charge = charge("ch_1", 1000, "EUR");
            let clock = Arc::new(JumpClock::default());
            let authority = OneIntent::holding(None, &clock);
            *authority.to_submit.lock().unwrap() =
                Some(submitted(&charge, charge.amount, clock.now()));
            let processor = Arc::new(Scripted::new(charge, steps));
            Self { authority: Arc::new(authority), processor, clock }
        }

        /// The intent was submitted by somebody who is gone.
        fn left_behind(self) -> Self {
            let intent = self.authority.to_submit.lock().unwrap().take();
            *self.authority.intent.lock().unwrap() = intent;
            self.clock.advance(LEASE);
            self
        }

        fn refunds(&self) -> Refunds {
            Refunds::new(
                Arc::clone(&self.authority) as Arc<dyn Authority>,
                Arc::clone(&self.authority) as Arc<dyn Records>,
                Arc::clone(&self.processor) as Arc<dyn Processor>,
                Arc::clone(&self.clock) as Arc<dyn Clock>,
                Arc::new(SameBytes),
                Settings { call_timeout: Duration::from_secs(2), ..Settings::default() },
            )
        }

        /// Asks, and answers the state or the error's code.
        fn ask(&self) -> &'static str {
            let refunds = self.refunds();
            match refunds.refund(&key(), ask("ch_1", Wanted::Full)).now_or_never() {
                Some(Ok(Answer::Intent { intent, .. })) => intent.state.as_str(),
                Some(Ok(Answer::DryRun(_))) | None => panic!("no answer"),
                Some(Err(error)) => error.code(),
            }
        }

        fn reconcile(&self) {
            let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
            let reconciler = Reconciler::new(Arc::new(self.refunds()), clock);
            reconciler.step().now_or_never().unwrap().unwrap();
        }

        fn state(&self) -> &'static str {
            self.authority.intent.lock().unwrap().as_ref().unwrap().state.as_str()
        }

        /// So many attempts, all of them the same bytes under the same key.
        fn check_sent(&self, count: usize, name: &str) {
            let sent = self.processor.sent.lock().unwrap();
            assert_eq!(sent.len(), count, "{name}: attempts");
            assert!(sent.windows(2).all(|pair| pair[0] == pair[1]), "{name}: {sent:?}");
            assert!(sent.iter().all(|(key, _)| key == "bb_int_1"), "{name}");
        }
    }
}
