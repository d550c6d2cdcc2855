//! The clock of a world: nobody waits for it, and every wait in the gateway follows it.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use gate_core::{Clock, Deadline, Timestamp};
use gate_server::system::SystemClock;
use tokio::sync::watch;

/// When worlds begin: a Tuesday morning, 2026-03-10T10:00:00Z, far from any midnight.
const BEGINS_MILLIS: i64 = 1_773_136_800_000;

/// A clock that a test moves: its days alone, or with them whatever waits.
pub(crate) struct TestClock {
    system: SystemClock,
    ahead_millis: AtomicI64,
    moved: watch::Sender<Moved>,
}

/// What was done to the passing of time.
#[derive(Clone, Copy, Default)]
struct Moved {
    /// What has passed besides the real time.
    passed: Duration,
    /// When the real time was held, if it was.
    held: Option<Duration>,
}

impl TestClock {
    pub(crate) fn new() -> Self {
        Self {
            system: SystemClock::start(),
            ahead_millis: AtomicI64::new(BEGINS_MILLIS),
            moved: watch::Sender::default(),
        }
    }

    /// Moves the date. Waits take as long as before.
    pub(crate) fn advance(&self, span: Duration) {
        self.ahead_millis.fetch_add(span.as_millis() as i64, Ordering::SeqCst);
    }

    /// Lets time pass, for every wait and timeout too.
    pub(crate) fn pass(&self, span: Duration) {
        self.moved.send_modify(|moved| moved.passed += span);
    }

    /// From here on no time passes by itself, however slow the machine is.
    pub(crate) fn hold(&self) {
        let now = self.system.uptime();
        self.moved.send_modify(|moved| moved.held = Some(now));
    }
}

impl Moved {
    fn uptime(self, system: SystemClock) -> Duration {
        self.held.unwrap_or_else(|| system.uptime()) + self.passed
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        let up_millis = self.uptime().as_millis() as i64;
        Timestamp::from_millis(self.ahead_millis.load(Ordering::SeqCst) + up_millis)
    }

    fn uptime(&self) -> Duration {
        let moved = *self.moved.borrow();
        moved.uptime(self.system)
    }

    fn sleep_until(&self, at: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let (system, mut moves) = (self.system, self.moved.subscribe());
        Box::pin(async move {
            loop {
                let moved = *moves.borrow_and_update();
                if moved.uptime(system) >= at.uptime() {
                    return;
                }
                let real = system.sleep_until(Deadline::at(at.left(moved.passed)));
                tokio::select! {
                    () = real, if moved.held.is_none() => return,
                    // The clock is gone, and nobody is left who would wait.
                    again = moves.changed() => if again.is_err() { return },
                }
            }
        })
    }
}
