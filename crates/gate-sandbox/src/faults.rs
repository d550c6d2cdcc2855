//! Faults that the control API orders for calls to come.

use serde::Deserialize;

/// How many orders may wait at a time.
pub(crate) const FAULTS_MAX: usize = 1000;
/// The longest delay that may be ordered, in milliseconds.
const DELAY_MS_MAX: u64 = 600_000;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Executed at once, answered late; until then the idempotency key is in flight.
    Delay,
    /// Executed, and the connection closed without an answer.
    DropAfter,
    /// The connection closed before anything was looked at.
    DropBefore,
    /// Executed, and the answer cut off in the middle of its JSON.
    Malformed,
    /// The connection reset before anything was looked at.
    Reset,
    /// Executed, and the body sent slowly.
    SlowBody,
    /// Answered that the idempotency key is in use; not executed.
    #[serde(rename = "status_409")]
    Status409,
    /// Answered with Stripe's rate limit; not executed. Its delay is what `Retry-After` asks for.
    #[serde(rename = "status_429")]
    Status429,
    /// Executed, but a 500 answered and kept under the idempotency key.
    #[serde(rename = "status_500_done")]
    Status500Done,
    /// Not executed; a 500 answered and kept under the idempotency key.
    #[serde(rename = "status_500_stored")]
    Status500Stored,
    /// Executed at once, answered late, and its events due before the answer.
    WebhookBeforeAnswer,
    /// The first delivery of each event has a wrong signature.
    WebhookForged,
    /// The events are due late.
    WebhookLate,
    /// The events are delivered newest first, and before all that are due already.
    WebhookReorder,
    /// The first delivery of each event is made twice.
    WebhookTwice,
}

impl Kind {
    /// Whether it is about the events of a call, and not about the call.
    const fn is_of_webhook(self) -> bool {
        matches!(
            self,
            Self::WebhookForged | Self::WebhookLate | Self::WebhookReorder | Self::WebhookTwice
        )
    }

    const fn waits(self) -> bool {
        matches!(self, Self::Delay | Self::SlowBody | Self::WebhookBeforeAnswer | Self::WebhookLate)
    }
}

/// An order: which calls, what, and how often.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Fault {
    /// Absent means any method.
    method: Option<String>,
    /// Exact, or a prefix when it ends in `*`; absent means any path.
    path: Option<String>,
    pub(crate) kind: Kind,
    #[serde(default = "once")]
    times: u32,
    #[serde(default)]
    pub(crate) delay_ms: u64,
}

const fn once() -> u32 {
    1
}

/// The orders that wait, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    /// Adds an order.
    ///
    /// # Errors
    ///
    /// A sentence for the person who ordered it.
    pub(crate) fn order(&mut self, fault: Fault) -> Result<usize, String> {
        if fault.kind.waits() && fault.delay_ms == 0 {
            return Err("this kind of fault needs `delayMs`, in milliseconds".to_owned());
        }
        if fault.delay_ms > DELAY_MS_MAX {
            return Err(format!("`delayMs` can be at most {DELAY_MS_MAX}"));
        }
        if fault.times == 0 {
            return Err("`times` must be at least 1; DELETE /_sandbox/faults clears".to_owned());
        }
        if self.0.len() >= FAULTS_MAX {
            return Err(format!(
                "{FAULTS_MAX} faults are waiting already; DELETE /_sandbox/faults clears them"
            ));
        }
        self.0.push(fault);
        Ok(self.0.len())
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// The oldest order for this call, of which one time is used up.
    pub(crate) fn take(&mut self, method: &str, path: &str) -> Option<Fault> {
        self.take_where(|fault| !fault.kind.is_of_webhook() && fault.matches(method, path))
    }

    /// The oldest order for the events of this call, of which one time is used up.
    pub(crate) fn take_for_webhook(&mut self, method: &str, path: &str) -> Option<Fault> {
        self.take_where(|fault| fault.kind.is_of_webhook() && fault.matches(method, path))
    }

    fn take_where(&mut self, wanted: impl Fn(&Fault) -> bool) -> Option<Fault> {
        let place = self.0.iter().position(wanted)?;
        let fault = self.0.get_mut(place)?;
        fault.times = fault.times.saturating_sub(1);
        let taken = fault.clone();
        if taken.times == 0 {
            self.0.remove(place);
        }
        Some(taken)
    }
}

impl Fault {
    fn matches(&self, method: &str, path: &str) -> bool {
        let of_method =
            self.method.as_deref().is_none_or(|wanted| wanted.eq_ignore_ascii_case(method));
        let of_path = self.path.as_deref().is_none_or(|wanted| match wanted.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == wanted,
        });
        of_method && of_path
    }
}
