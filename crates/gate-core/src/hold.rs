//! Looking after what Stripe holds for an approval of its own: Stripe makes it itself once it is
//! approved, so it is found, and nothing is ever sent.

use std::time::Duration;

use crate::drive::{Driven, Driver, Known};
use crate::error::ActionError;
use crate::intent::{Approver, ListedRefund, Refund};
use crate::permit::Claim;
use crate::ports::{HoldSeen, HoldStanding, Outcome};

/// How much longer than it says such an approval is waited for before a person is to look.
const HOLD_MARGIN: Duration = Duration::from_secs(24 * 3600);

impl Driver {
    /// Looks at what Stripe holds for an approval of its own. Nothing is ever sent for it: Stripe
    /// makes the refund itself, and it is found by its metadata or named by the approval.
    pub(crate) async fn look_at_hold(&self, claim: Claim) -> Result<Driven, ActionError> {
        let (intent, fence) = (claim.intent, claim.lease.fence);
        let approval = intent.approval.as_ref().filter(|it| it.approver == Approver::Stripe);
        let by = self.clock.deadline(self.call_timeout);
        let said = match approval.and_then(|approval| approval.hold_id.as_ref()) {
            Some(id) => self.processor.hold(id, by).await.ok(),
            None => None,
        };
        // Listed after the approval was read: what was made before that is in it, so an end without
        // a refund is one.
        let by = self.clock.deadline(self.call_timeout);
        let listed = self.processor.refunds_of(&intent.charge, by).await?;
        let named = match said.as_ref().map(|said| &said.standing) {
            Some(HoldStanding::Made(refund)) => refund.as_ref(),
            Some(HoldStanding::Open | HoldStanding::Over(_)) | None => None,
        };
        let is_ours = |other: &&ListedRefund| {
            other.minor == intent.amount.minor()
                && match &other.refund.intent {
                    Some(of) => *of == intent.id,
                    None => Some(&other.refund.id) == named,
                }
        };
        let found = listed.iter().find(is_ours).map(|listed| listed.refund.clone());
        let ends_at = approval.map(|approval| approval.expires_at.after(HOLD_MARGIN));
        let outcome = match (found, said) {
            (Some(refund), _) => {
                Outcome::Seen(Refund { intent: Some(intent.id.clone()), ..refund })
            }
            (None, Some(HoldSeen { standing: HoldStanding::Over(refusal), .. })) => {
                Outcome::Refused(refusal)
            }
            (None, _) if !intent.needs_person && ends_at.is_none_or(|at| claim.at >= at) => {
                Outcome::NeedsPerson
            }
            (None, said) => Outcome::Held(said.map(|said| said.hold).unwrap_or_default()),
        };
        self.record(intent, fence, Known::Outcome(outcome)).await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use futures_util::FutureExt;

    use super::*;
    use crate::codes::FailureCode;
    use crate::fakes::{
        JumpClock, LEASE, OneIntent, SameBytes, Scripted, Step, charge, refund_of, submitted,
    };
    use crate::ids::{ApprovalId, HoldId, IntentId, RefundId};
    use crate::intent::{Approval, ApprovalState, Intent, OnApproval};
    use crate::ports::{Authority, Doubt, Hold, Processor, Records, Refusal, SendError};
    use crate::reconcile::Reconciler;
    use crate::refund::{Refunds, Settings};
    use crate::state::State;
    use crate::time::Clock;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    /// An intent that waits for Stripe's approval for 14 days, and its world.
    struct World {
        authority: Arc<OneIntent>,
        processor: Arc<Scripted>,
        clock: Arc<JumpClock>,
    }

    impl World {
        fn new(id: Option<&str>, state: State) -> Self {
            let charge = charge("ch_1", 1000, "EUR");
            let clock = Arc::new(JumpClock::default());
            let approval = Approval {
                id: ApprovalId::parse("apr_1").unwrap(),
                state: ApprovalState::Pending,
                approver: Approver::Stripe,
                expires_at: clock.now().after(14 * DAY),
                digest: String::new(),
                votes: Vec::new(),
                decided_at: None,
                decided_by: None,
                note: None,
                justifications: Vec::new(),
                on_approval: OnApproval::Execute,
                hold_id: id.and_then(|id| HoldId::parse(id).ok()),
                hold_url: None,
            };
            let waiting = Intent {
                state,
                approval: Some(approval),
                ..submitted(&charge, charge.amount, clock.now())
            };
            let authority = Arc::new(OneIntent::holding(Some(waiting), &clock));
            Self { authority, processor: Arc::new(Scripted::new(charge, &[])), clock }
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

        /// Where it stands after a look.
        fn look(&self) -> String {
            let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
            let reconciler = Reconciler::new(Arc::new(self.refunds()), clock);
            reconciler.step().now_or_never().unwrap().unwrap();
            let intent = self.authority.intent.lock().unwrap().clone().unwrap();
            assert!(self.processor.sent.lock().unwrap().is_empty(), "nothing is ever sent");
            let code = intent.failure.and_then(|failure| failure.code).map(|code| code.as_str());
            let alarm = if intent.needs_person { " a person" } else { "" };
            let refund = intent.refund.map(|it| format!(" {}", it.id)).unwrap_or_default();
            let code = code.map(|code| format!(" {code}")).unwrap_or_default();
            format!("{}{refund}{code}{alarm}", intent.state.as_str())
        }
    }

    #[test]
    fn what_each_look_comes_to() {
        let ours = IntentId::parse("int_1").unwrap();
        let named = |id: &str| Some(HoldStanding::Made(RefundId::parse(id).ok()));
        let over =
            |code| Some(HoldStanding::Over(Refusal { code, message: "at Stripe".to_owned() }));
        let open = Some(HoldStanding::Open);
        let made = refund_of(&ours, "succeeded");
        let bare = || Refund { intent: None, ..made.clone() };
        let anothers = || Refund { intent: IntentId::parse("int_2").ok(), ..made.clone() };
        let failed = refund_of(&ours, "failed");
        let rejected = FailureCode::ApprovalRejected;
        #[rustfmt::skip]
        let table = [
            // what Stripe says,                  what is listed,           days, what it comes to
            ("open",          open.clone(),       vec![],                   1,    "awaiting_stripe"),
            ("unreadable",    None,               vec![],                   1,    "awaiting_stripe"),
            ("made, named",   named("re_1"),      vec![bare()],             1,    "settled re_1"),
            ("made, ours",    named(""),          vec![made.clone()],       1,    "settled re_1"),
            ("made, unlisted", named("re_1"),     vec![],                   1,    "awaiting_stripe"),
            ("made, another", named("re_9"),      vec![bare()],             1,    "awaiting_stripe"),
            ("made, another's", named("re_1"),    vec![anothers()],         1,    "awaiting_stripe"),
            ("found early",   open.clone(),       vec![made.clone()],       1,    "settled re_1"),
            ("found alone",   None,               vec![made.clone()],       1,    "settled re_1"),
            ("a stranger",    open.clone(),       vec![bare()],             1,    "awaiting_stripe"),
            ("made, failed",  named("re_1"),      vec![failed],             1,    "failed re_1"),
            ("rejected",      over(rejected),     vec![],                   1,    "failed approval_rejected"),
            ("but there",     over(rejected),     vec![made.clone()],       1,    "settled re_1"),
            ("open, late",    open.clone(),       vec![],                   14,   "awaiting_stripe"),
            ("open, too late", open,              vec![],                   15,   "awaiting_stripe a person"),
            ("unread, too late", None,            vec![],                   15,   "awaiting_stripe a person"),
            ("late rejection", over(rejected),    vec![],                   99,   "failed approval_rejected"),
        ];
        for (name, standing, listed, days, expected) in table {
            let world = World::new(Some("apreq_1"), State::AwaitingStripe);
            let seen = standing.map(|standing| HoldSeen { hold: Hold::default(), standing });
            *world.processor.says.lock().unwrap() = seen;
            *world.processor.made.lock().unwrap() = listed;
            world.clock.advance(days * DAY);
            assert_eq!(world.look(), expected, "{name}");
            assert_eq!(world.look(), expected, "{name}: again");
        }
    }

    /// Whether by its metadata or by Stripe's word: a refund of another amount is not what was held.
    #[test]
    fn a_refund_of_another_amount_is_not_the_held_one() {
        let ours = IntentId::parse("int_1").unwrap();
        let by_metadata = refund_of(&ours, "succeeded");
        let by_name = Refund { intent: None, ..by_metadata.clone() };
        for listed in [by_metadata, by_name] {
            let world = World::new(Some("apreq_1"), State::AwaitingStripe);
            let other = charge("ch_1", 999, "EUR").amount;
            world.authority.intent.lock().unwrap().as_mut().unwrap().amount = other;
            let standing = HoldStanding::Made(Some(listed.id.clone()));
            let seen = HoldSeen { hold: Hold::default(), standing };
            *world.processor.says.lock().unwrap() = Some(seen);
            world.processor.made.lock().unwrap().push(listed);
            assert_eq!(world.look(), "awaiting_stripe");
            world.clock.advance(15 * DAY);
            assert_eq!(world.look(), "awaiting_stripe a person");
        }
    }

    /// Held under a shape that nobody knows, only the listing tells; and a listing that fails tells
    /// nothing.
    #[test]
    fn without_its_request_it_is_still_found() {
        let mut world = World::new(None, State::AwaitingStripe);
        assert_eq!(world.look(), "awaiting_stripe");
        let ours = IntentId::parse("int_1").unwrap();
        world.processor.made.lock().unwrap().push(refund_of(&ours, "succeeded"));
        Arc::get_mut(&mut world.processor).unwrap().listing_fails = true;
        assert_eq!(world.look(), "awaiting_stripe");
        Arc::get_mut(&mut world.processor).unwrap().listing_fails = false;
        assert_eq!(world.look(), "settled re_1");
    }

    /// With a tagged key what may have been sent is only looked for, by whomever it is known.
    #[test]
    fn an_unclear_attempt_with_a_tagged_key_is_only_looked_for() {
        for (claim, channel, intent) in
            [(true, false, false), (false, true, false), (false, false, true)]
        {
            let mut world = World::new(None, State::Submitted);
            Arc::get_mut(&mut world.authority).unwrap().agent_tagged = claim;
            let processor = Arc::get_mut(&mut world.processor).unwrap();
            processor.charge.channel.agent_tagged = channel;
            let mut seen = processor.charge.clone();
            seen.channel.agent_tagged = intent;
            if let Some(kept) = world.authority.intent.lock().unwrap().as_mut() {
                kept.seen = Some(Box::new(seen));
            }
            world.clock.advance(LEASE);
            assert_eq!(world.look(), "submitted");
            world.clock.advance(DAY);
            assert_eq!(world.look(), "submitted a person");
            let ours = IntentId::parse("int_1").unwrap();
            world.processor.made.lock().unwrap().push(refund_of(&ours, "succeeded"));
            assert_eq!(world.look(), "settled re_1 a person");
        }
    }

    /// What Stripe said of a hold is kept until the authority can be told: no listing shows it.
    #[test]
    fn a_hold_that_could_not_be_told_is_told_later() {
        let mut charge = charge("ch_1", 1000, "EUR");
        charge.channel.agent_tagged = true;
        let clock = Arc::new(JumpClock::default());
        let authority = OneIntent::holding(None, &clock);
        let submits = submitted(&charge, charge.amount, clock.now());
        *authority.to_submit.lock().unwrap() = Some(submits);
        authority.record_fails.store(true, Ordering::SeqCst);
        let held = Step::Says(SendError::Held(Hold::default()));
        let processor = Arc::new(Scripted::new(charge, &[held]));
        let world = World { authority: Arc::new(authority), processor, clock };
        let refunds = Arc::new(world.refunds());
        let ask = crate::fakes::ask("ch_1", crate::ask::Wanted::Full);
        let key = crate::ids::AgentKey::new("bb_agent_x".to_owned());
        let asked = crate::ports::Actions::refund(refunds.as_ref(), &key, ask);
        drop(asked.now_or_never().unwrap().unwrap());
        let stored = || world.authority.intent.lock().unwrap().clone().unwrap().state;
        assert_eq!(stored(), State::Submitted);
        let clock = Arc::clone(&world.clock) as Arc<dyn Clock>;
        let reconciler = Reconciler::new(refunds, clock);
        for (fails, state) in [(true, State::Submitted), (false, State::AwaitingStripe)] {
            world.authority.record_fails.store(fails, Ordering::SeqCst);
            world.clock.advance(LEASE);
            reconciler.step().now_or_never().unwrap().unwrap();
            assert_eq!(stored(), state);
        }
        assert_eq!(world.processor.sent.lock().unwrap().len(), 1);
    }

    /// In the request itself, an unclear answer is not followed by another attempt; one that was
    /// stopped before it began is.
    #[test]
    fn with_a_tagged_key_a_request_sends_once() {
        let doubt = || Doubt { message: "…".to_owned(), after: None, give_up: false };
        let unknown = || Step::Says(SendError::Unknown(doubt()));
        let held = || {
            let id = HoldId::parse("apreq_1").ok();
            Step::Says(SendError::Held(Hold { id, ..Hold::default() }))
        };
        let table = [
            ("unclear", vec![unknown(), unknown()], 1, "submitted", 0),
            (
                "429 first",
                vec![Step::Says(SendError::NotStored(doubt())), held()],
                2,
                "awaiting_stripe",
                1,
            ),
            ("held", vec![held()], 1, "awaiting_stripe", 1),
        ];
        for (name, steps, sent, state, heard) in table {
            let mut charge = charge("ch_1", 1000, "EUR");
            charge.channel.agent_tagged = true;
            let clock = Arc::new(JumpClock::default());
            let authority = OneIntent::holding(None, &clock);
            let submits = submitted(&charge, charge.amount, clock.now());
            *authority.to_submit.lock().unwrap() = Some(submits);
            let processor = Arc::new(Scripted::new(charge, &steps));
            let world = World { authority: Arc::new(authority), processor, clock };
            let ask = crate::ask::Ask {
                justification: crate::ask::Justification::parse("lost in the post").ok(),
                ..crate::fakes::ask("ch_1", crate::ask::Wanted::Full)
            };
            let key = crate::ids::AgentKey::new("bb_agent_x".to_owned());
            let refunds = world.refunds();
            let answer = crate::ports::Actions::refund(&refunds, &key, ask).now_or_never();
            let Some(Ok(crate::ports::Answer::Intent { intent, .. })) = answer else {
                panic!("{name}: no answer")
            };
            assert_eq!(intent.state.as_str(), state, "{name}");
            assert_eq!(world.processor.sent.lock().unwrap().len(), sent, "{name}");
            let told = world.processor.heard.lock().unwrap();
            assert_eq!(*told, vec!["apreq_1: lost in the post"; heard], "{name}");
        }
    }
}
