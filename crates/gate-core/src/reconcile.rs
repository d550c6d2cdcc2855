//! The reconciler: what was left half-way is driven to its end, and what was approved is executed.

use std::sync::Arc;

use futures_util::future::join_all;

use crate::bugs::{self, Bug};
use crate::error::ActionError;
use crate::ids::IntentId;
use crate::permit::Claim;
use crate::ports::{AuthorityError, Work};
use crate::refund::Refunds;
use crate::state::State;
use crate::time::Clock;

/// Most intents that one step takes of each kind. They are driven at once, so this is also how many
/// calls to the processor are under way: with answers in 200 ms, 80 a second, and processors take
/// about 100.
const CLAIMS_MAX: u16 = 16;

/// Drives work that nobody holds. Any number of them may run, in any number of processes: leases
/// give each intent to one.
pub struct Reconciler {
    refunds: Arc<Refunds>,
    clock: Arc<dyn Clock>,
}

/// What one step did.
#[derive(Debug, Default)]
pub struct Reconciled {
    /// Each intent that was taken, with the state it is in now.
    pub driven: Vec<(IntentId, State)>,
    /// Each intent whose turn failed; it is taken again once its lease ends.
    pub failed: Vec<(IntentId, ActionError)>,
    /// Whether there may be more that is due already.
    pub more: bool,
}

impl Reconciler {
    /// A reconciler for the refunds of `refunds`.
    #[must_use]
    pub const fn new(refunds: Arc<Refunds>, clock: Arc<dyn Clock>) -> Self {
        Self { refunds, clock }
    }

    /// Tells what was given up; takes what is submitted and whose lease has ended, and what was
    /// approved, and drives it; looks at what Stripe holds, and again at refunds that were made and may still fail. What is
    /// taken of one kind is driven at once, so that one slow answer holds up nobody else.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`] when no work could be claimed.
    pub async fn step(&self) -> Result<Reconciled, AuthorityError> {
        let mut done = Reconciled::default();
        self.refunds.report_given_up().await;
        let asked_at = self.clock.uptime();
        self.take(Work::Submitted, &mut done, |claim| async move {
            let driven = self.refunds.driver().take_over(claim, asked_at).await;
            Some(driven.map(|driven| driven.intent.state))
        })
        .await?;
        self.take(Work::AwaitingStripe(None), &mut done, |claim| async move {
            let was = claim.intent.state;
            let driven = self.refunds.driver().look_at_hold(claim).await;
            let state = driven.map(|driven| driven.intent.state);
            if state.as_ref().is_ok_and(|state| *state == was) {
                return None;
            }
            Some(state)
        })
        .await?;
        self.take(Work::Approved, &mut done, |claim| async move {
            if claim.stopped {
                return None;
            }
            let driven = self.refunds.execute_claimed(claim).await;
            Some(driven.map(|driven| driven.intent.state))
        })
        .await?;
        self.take(Work::Settled, &mut done, |claim| async move {
            if bugs::on(Bug::LateFailureIgnored) {
                return None;
            }
            let state = self.refunds.follow(&claim.intent).await;
            // Most refunds stay what they are; only a change is worth a word.
            if state.as_ref().is_ok_and(|state| *state == claim.intent.state) {
                return None;
            }
            Some(state)
        })
        .await?;
        Ok(done)
    }

    /// Claims work of one kind and has `drive` do all of it at once; `None` is not worth a word.
    async fn take<D>(
        &self,
        work: Work,
        done: &mut Reconciled,
        drive: impl Fn(Claim) -> D,
    ) -> Result<(), AuthorityError>
    where
        D: Future<Output = Option<Result<State, ActionError>>>,
    {
        let claims = self.refunds.authority().claim(work, CLAIMS_MAX).await?;
        // What a stop holds comes without a lease, and would come again at once.
        let is_held = |claim: &Claim| claim.lease.span.is_zero();
        done.more |= claims.len() >= usize::from(CLAIMS_MAX) && !claims.iter().all(is_held);
        let driven = claims.into_iter().map(|claim| {
            let (id, driven) = (claim.intent.id.clone(), drive(claim));
            async move { (id, driven.await) }
        });
        for (id, result) in join_all(driven).await {
            match result {
                Some(Ok(state)) => done.driven.push((id, state)),
                Some(Err(error)) => done.failed.push((id, error)),
                None => {}
            }
        }
        Ok(())
    }
}
