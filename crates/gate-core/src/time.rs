//! Time and randomness as seams: a core that reads neither by itself replays exactly.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// A point in time in UTC, in milliseconds since 1970-01-01. May jump with the clock it came from;
/// for ages, windows and records, not for waiting.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The time that is `millis` milliseconds after 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }

    /// This time and `span` later; stops at the end of the representable range.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(millis_of(span)))
    }

    /// This time and `span` earlier; stops at the start of the representable range.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(millis_of(span)))
    }

    /// How long ago `earlier` was; zero when it lies in the future.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let millis = self.0.saturating_sub(earlier.0);
        Duration::from_millis(u64::try_from(millis).unwrap_or(0))
    }
}

fn millis_of(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// A point on the monotonic clock of the process, as time since it started.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Deadline(Duration);

impl Deadline {
    /// The point at which the process has been up for `uptime`.
    #[must_use]
    pub const fn at(uptime: Duration) -> Self {
        Self(uptime)
    }

    /// The uptime at which this deadline is reached.
    #[must_use]
    pub const fn uptime(self) -> Duration {
        self.0
    }

    /// What is left at `uptime`; zero once it has passed.
    #[must_use]
    pub fn left(self, uptime: Duration) -> Duration {
        self.0.saturating_sub(uptime)
    }

    /// The earlier of two deadlines.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        self.min(other)
    }
}

impl fmt::Display for Deadline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "uptime {} ms", self.0.as_millis())
    }
}

/// The only source of time.
pub trait Clock: Send + Sync {
    /// UTC now. May jump, forwards and backwards.
    fn now(&self) -> Timestamp;

    /// Time since some fixed point of this process. Never goes back.
    fn uptime(&self) -> Duration;

    /// Completes once [`Clock::uptime`] has reached `at`.
    fn sleep_until(&self, at: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// The deadline that lies `span` ahead.
    fn deadline(&self, span: Duration) -> Deadline {
        Deadline::at(self.uptime().saturating_add(span))
    }
}

/// The only source of randomness: ids, key material, jitter.
pub trait Ids: Send + Sync {
    /// Fills `bytes` with unpredictable bytes.
    fn fill(&self, bytes: &mut [u8]);
}
