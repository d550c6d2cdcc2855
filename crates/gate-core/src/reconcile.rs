//! The reconciler: what was left half-way is driven to its end, and what was approved is executed.

use std::sync::Arc;

use crate::bugs::{self, Bug};
use crate::error::ActionError;
use crate::ids::IntentId;
use crate::ports::{AuthorityError, Work};
use crate::refund::Refunds;
use crate::state::State;
use crate::time::Clock;

/// Most intents that one step takes of each kind.
const CLAIMS_MAX: u16 = 32;

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
}

impl Reconciler {
    /// A reconciler for the refunds of `refunds`.
    #[must_use]
    pub const fn new(refunds: Arc<Refunds>, clock: Arc<dyn Clock>) -> Self {
        Self { refunds, clock }
    }

    /// Tells what was given up; takes what is submitted and whose lease has ended, and what was
    /// approved, and drives it; looks again at refunds that were made and may still fail.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`] when no work could be claimed.
    pub async fn step(&self) -> Result<Reconciled, AuthorityError> {
        let mut done = Reconciled::default();
        self.refunds.report_given_up().await;
        let asked_at = self.clock.uptime();
        for claim in self.refunds.authority().claim(Work::Submitted, CLAIMS_MAX).await? {
            let id = claim.intent.id.clone();
            done.note(
                id,
                self.refunds.driver().take_over(claim, asked_at).await.map(|d| d.intent.state),
            );
        }
        for claim in self.refunds.authority().claim(Work::Approved, CLAIMS_MAX).await? {
            if claim.stopped {
                continue;
            }
            let id = claim.intent.id.clone();
            done.note(id, self.refunds.execute_claimed(claim).await.map(|d| d.intent.state));
        }
        for claim in self.refunds.authority().claim(Work::Settled, CLAIMS_MAX).await? {
            let id = claim.intent.id.clone();
            if bugs::on(Bug::LateFailureIgnored) {
                continue;
            }
            match self.refunds.follow(&claim.intent).await {
                // Most refunds stay what they are; only a change is worth a word.
                Ok(state) if state == claim.intent.state => {}
                result => done.note(id, result),
            }
        }
        Ok(done)
    }
}

impl Reconciled {
    fn note(&mut self, id: IntentId, result: Result<State, ActionError>) {
        match result {
            Ok(state) => self.driven.push((id, state)),
            Err(error) => self.failed.push((id, error)),
        }
    }
}
