//! Clocks that are wrong in known ways, and ids that are the same each time.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use gate_core::{Clock, Deadline, Ids, Timestamp};

use crate::draw::mixed;
use crate::executor::Handle;

/// The clock of one node, or of the store.
pub(crate) struct SimClock {
    handle: Handle,
    base_ms: i64,
    skew_ms: i64,
    /// When it jumps, in virtual milliseconds, and by how much.
    jumps: Vec<(u64, i64)>,
    /// The clock that it follows, once somebody has seen to that.
    followed: OnceLock<Arc<Self>>,
}

impl SimClock {
    /// Shows what `right` shows from now on.
    pub(crate) fn follow(&self, right: &Arc<Self>) {
        let _ = self.followed.set(Arc::clone(right));
    }

    /// A clock that shows `base_ms` at the beginning of the world, but for its faults.
    pub(crate) fn new(handle: Handle, base_ms: i64, skew_ms: i64, jumps: Vec<(u64, i64)>) -> Self {
        Self { handle, base_ms, skew_ms, jumps, followed: OnceLock::new() }
    }
}

impl Clock for SimClock {
    fn now(&self) -> Timestamp {
        if let Some(right) = self.followed.get() {
            return right.now();
        }
        let now_ms = self.handle.now_ms();
        let jumped =
            self.jumps.iter().filter(|(at, _)| *at <= now_ms).map(|(_, by)| by).sum::<i64>();
        Timestamp::from_millis(self.base_ms + self.skew_ms + now_ms as i64 + jumped)
    }

    fn uptime(&self) -> Duration {
        Duration::from_millis(self.handle.now_ms())
    }

    fn sleep_until(&self, at: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        // Up to the next whole millisecond, or it would never be over.
        let at_ms = at.uptime().as_micros().div_ceil(1000) as u64;
        Box::pin(self.handle.sleep_until(at_ms))
    }
}

/// Randomness of one node.
pub(crate) struct SimIds {
    seed: u64,
    node: u64,
    next: AtomicU64,
}

impl SimIds {
    pub(crate) const fn new(seed: u64, node: u64) -> Self {
        Self { seed, node, next: AtomicU64::new(0) }
    }
}

impl Ids for SimIds {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            let drawn = mixed(self.seed, 2, self.node, n).to_le_bytes();
            chunk.copy_from_slice(&drawn[..chunk.len()]);
        }
    }
}
