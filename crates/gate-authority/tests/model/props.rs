//! What a story needs besides the two that it is told to: dice, a clock that stands still, ids.

use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use gate_authority::RatesFeed;
use gate_core::{Clock, Deadline, Ids, Timestamp};

/// The same numbers from the same seed (a Weyl sequence, mixed).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn throw(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % sides
    }

    pub(crate) fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.throw(choices.len() as u64) as usize]
    }
}

pub(crate) struct Still(pub(crate) AtomicI64);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
    fn uptime(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep_until(&self, _: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(pending())
    }
}

pub(crate) struct Random(pub(crate) Mutex<Dice>);

impl Ids for Random {
    fn fill(&self, bytes: &mut [u8]) {
        let mut dice = self.0.lock().unwrap();
        bytes.iter_mut().for_each(|byte| *byte = dice.throw(256) as u8);
    }
}

pub(crate) struct NoFeed;

#[async_trait]
impl RatesFeed for NoFeed {
    async fn fetch(&self) -> Result<Vec<u8>, String> {
        Err("there is no feed".to_owned())
    }
}

/// Runs what never waits.
pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}
