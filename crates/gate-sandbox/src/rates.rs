//! Stripe's published rate limits in a sandbox, counted by account once they are switched on.

use std::collections::VecDeque;

/// How many calls an account may make in a second, and how many of them searches.
const CALLS_PER_SECOND: usize = 25;
const SEARCHES_PER_SECOND: usize = 20;
const SECOND_MS: i64 = 1000;

/// The calls of the last second: when, in the sandbox's milliseconds, and whether to search.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates(VecDeque<(i64, bool)>);

impl Rates {
    /// Counts a call, or gives Stripe's word for the limit that it is over. A call that is over a
    /// limit is not counted.
    pub(crate) fn count(&mut self, now_ms: i64, searches: bool) -> Result<(), &'static str> {
        let gone = |(at_ms, _): &(i64, bool)| now_ms.saturating_sub(*at_ms) >= SECOND_MS;
        while self.0.front().is_some_and(gone) {
            self.0.pop_front();
        }
        if self.0.len() >= CALLS_PER_SECOND {
            return Err("global-rate");
        }
        let before = self.0.iter().filter(|(_, searches)| *searches).count();
        if searches && before >= SEARCHES_PER_SECOND {
            return Err("endpoint-rate");
        }
        self.0.push_back((now_ms, searches));
        Ok(())
    }
}
