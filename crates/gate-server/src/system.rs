//! The real clock and the real source of randomness: the one place that asks the system for them.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use gate_core::{Clock, Deadline, Ids, Timestamp};
use ring::rand::{SecureRandom, SystemRandom};

/// The system's clocks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// Starts counting uptime.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "this is the seam behind which time is real")]
    pub fn start() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the seam behind which time is real")]
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    fn sleep_until(&self, at: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        // A deadline past what the system can express is never reached.
        match self.started.checked_add(at.uptime()) {
            Some(instant) => Box::pin(tokio::time::sleep_until(instant.into())),
            None => Box::pin(std::future::pending()),
        }
    }
}

/// The system's randomness.
#[derive(Clone, Debug)]
pub struct SystemIds(SystemRandom);

impl Default for SystemIds {
    fn default() -> Self {
        Self(SystemRandom::new())
    }
}

impl Ids for SystemIds {
    fn fill(&self, bytes: &mut [u8]) {
        // The system's source fails only where there is none; guessable keys would be worse than
        // no process.
        if self.0.fill(bytes).is_err() {
            tracing::error!("the system has no source of randomness: ending the process");
            std::process::abort();
        }
    }
}
