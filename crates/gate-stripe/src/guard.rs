//! The guard before reads for staff: how many may be made, and when none may.
//!
//! It is kept for one key at a time; with another key, failures and pauses of the one before are
//! forgotten. It promises that no more calls are let through in any 60 s than were set, no more than
//! ten in any second, and none while reads are paused. The refund path does not come here, so that
//! neither a report nor a failing report can stand in a refund's way.
//!
//! Time is handed in, as uptime; the guard never waits itself.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::key::StripeKey;

/// Calls that are let through in any 60 s, unless another number is set.
pub const CALLS_PER_MINUTE: u32 = 120;
/// Calls that are let through in any second: half of what Stripe allows for searches (20), which is
/// less than half of what it allows otherwise (25 in a sandbox and for one endpoint, 100 live). The
/// rest is left to refunds and to the account's other programs.
pub const CALLS_PER_SECOND: u32 = 10;

const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
/// How many failures in a row pause reads, and for how long. Stripe's plea for patience pauses them
/// for as long as it says, or as long as this.
const FAILURES_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_secs(60);
/// Longest pause that Stripe's plea is obeyed for.
const PATIENCE_MAX: Duration = Duration::from_secs(60 * 60);
/// When to ask again while the one trial call after a pause is under way.
const TRIAL_WAIT: Duration = SECOND;

/// Lets calls through, or says why not and until when.
pub(crate) struct Guard {
    calls_per_minute: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    key: Option<StripeKey>,
    /// How often the key has changed: a call that was let through under another one says nothing.
    keys_seen: u64,
    /// When the calls of the last minute were let through, oldest first.
    calls: VecDeque<Duration>,
    /// In a row.
    failures: u32,
    paused_until: Option<Duration>,
    /// Whether the one call after a pause is under way.
    trial: bool,
}

/// Why a call was not let through.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Refused {
    /// The minute's calls are used up.
    Busy { after: Duration },
    /// Reads are paused.
    Paused { after: Duration },
    /// The second's calls are used up; it is worth the wait.
    Soon { after: Duration },
}

/// How a call ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ended {
    /// Stripe answered something sensible, be it a refusal.
    Answered,
    /// Stripe failed, or could not be reached.
    Failed,
    /// Stripe asks for patience; see [`patience`].
    Patience { after: Duration },
}

/// How long reads are paused when Stripe asks for patience and perhaps says for how long.
pub(crate) fn patience(asked: Option<Duration>) -> Duration {
    asked.unwrap_or(PAUSE).min(PATIENCE_MAX)
}

/// One call that was let through. Dropped without an end, it was given up and says nothing.
#[must_use = "how the call ends decides whether there is another"]
pub(crate) struct Pass<'a> {
    guard: &'a Guard,
    keys_seen: u64,
    trial: bool,
}

impl Guard {
    pub(crate) fn new(calls_per_minute: u32) -> Self {
        let calls_per_minute = usize::try_from(calls_per_minute).unwrap_or(usize::MAX);
        Self { calls_per_minute, state: Mutex::default() }
    }

    /// Lets a call with `key` through at `now`, or does not.
    pub(crate) fn admit(&self, key: &StripeKey, now: Duration) -> Result<Pass<'_>, Refused> {
        let mut state = self.state();
        state.meet(key);
        state.admit(self.calls_per_minute, now)?;
        Ok(Pass { guard: self, keys_seen: state.keys_seen, trial: state.trial })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn meet(&mut self, key: &StripeKey) {
        if self.key.as_ref().is_some_and(|known| known.is(key)) {
            return;
        }
        // What was let through still counts: Stripe counts by account.
        let calls = std::mem::take(&mut self.calls);
        let keys_seen = self.keys_seen.saturating_add(1);
        *self = Self { key: Some(key.clone()), keys_seen, calls, ..Self::default() };
    }

    fn admit(&mut self, calls_per_minute: usize, now: Duration) -> Result<(), Refused> {
        if let Some(until) = self.paused_until.filter(|until| *until > now) {
            return Err(Refused::Paused { after: until.saturating_sub(now) });
        }
        let half_open = self.failures >= FAILURES_MAX;
        if half_open && self.trial {
            return Err(Refused::Paused { after: TRIAL_WAIT });
        }
        let gone = |at: &Duration| now.saturating_sub(*at) >= MINUTE;
        while self.calls.front().is_some_and(gone) {
            self.calls.pop_front();
        }
        // With as many as that in the window, the oldest of them has to leave it first.
        let left_after = |many: usize, window: Duration| {
            let oldest = self.calls.get(self.calls.len().checked_sub(many)?)?;
            Some(oldest.saturating_add(window).saturating_sub(now)).filter(|wait| !wait.is_zero())
        };
        if let Some(after) = left_after(calls_per_minute, MINUTE) {
            return Err(Refused::Busy { after });
        }
        let per_second = usize::try_from(CALLS_PER_SECOND).unwrap_or(usize::MAX);
        if let Some(after) = left_after(per_second, SECOND) {
            return Err(Refused::Soon { after });
        }
        self.calls.push_back(now);
        self.trial = half_open;
        Ok(())
    }

    fn end(&mut self, ended: Ended, now: Duration) {
        let pause = match ended {
            Ended::Answered => {
                self.failures = 0;
                return;
            }
            Ended::Failed => {
                self.failures = self.failures.saturating_add(1);
                if self.failures < FAILURES_MAX {
                    return;
                }
                PAUSE
            }
            Ended::Patience { after } => after,
        };
        let until = now.saturating_add(pause);
        self.paused_until = Some(self.paused_until.map_or(until, |before| before.max(until)));
        let pause_secs = pause.as_secs();
        tracing::warn!(pause_secs, "reading Stripe for staff is paused; refunds go on");
    }
}

impl Pass<'_> {
    /// Says at `now` how the call ended.
    pub(crate) fn end(self, ended: Ended, now: Duration) {
        let mut state = self.guard.state();
        if state.keys_seen == self.keys_seen {
            state.end(ended, now);
        }
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let mut state = self.guard.state();
        if self.trial && state.keys_seen == self.keys_seen {
            state.trial = false;
        }
    }
}

#[cfg(test)]
mod tests;
