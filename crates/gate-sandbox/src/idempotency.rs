//! Answers kept under idempotency keys.
//!
//! An answer is kept once execution has begun, whatever it was, 500s included; the same key with
//! the same request gets it again. The same key with another endpoint or other parameters is an
//! error. After 24 hours of the sandbox's clock a key is forgotten, and using it again is a new
//! request, as on Stripe.

use std::collections::BTreeMap;

use crate::{clock::Moment, failure::Failure};

/// The longest key, in characters.
pub(crate) const KEY_CHARS_MAX: usize = 255;
/// How long a key is remembered, in seconds of the sandbox's clock.
const KEY_KEPT_SECS: i64 = 24 * 60 * 60;

/// The kept answers of one account, by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kept(BTreeMap<String, Record>);

/// One kept answer and the request it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// Method and path.
    pub(crate) endpoint: String,
    /// The parameters, sorted.
    pub(crate) params: Vec<(String, String)>,
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// The id of the request that was executed.
    pub(crate) request_id: String,
    /// When it was executed, in the sandbox's seconds.
    pub(crate) kept_secs: i64,
    /// Until when, in real milliseconds, its answer is still under way.
    pub(crate) in_flight_until_ms: i64,
}

impl Kept {
    /// The answer that a request with this key has already had, if any.
    pub(crate) fn find(
        &mut self,
        key: &str,
        endpoint: &str,
        params: &[(String, String)],
        now: Moment,
    ) -> Result<Option<&Record>, Failure> {
        let expired = |record: &Record| now.secs.saturating_sub(record.kept_secs) >= KEY_KEPT_SECS;
        if self.0.get(key).is_some_and(expired) {
            self.0.remove(key);
        }
        let Some(record) = self.0.get(key) else {
            return Ok(None);
        };
        if now.real_ms < record.in_flight_until_ms {
            return Err(Failure::key_in_use(key));
        }
        if record.endpoint != endpoint {
            return Err(Failure::idempotency(format!(
                "Keys for idempotent requests can only be used for the same endpoint they were \
                 first used for ('{}' vs '{endpoint}'). Try using a key other than '{key}'.",
                record.endpoint
            )));
        }
        if record.params != params {
            return Err(Failure::idempotency(format!(
                "Keys for idempotent requests can only be used with the same parameters they were \
                 first used with. Try using a key other than '{key}'."
            )));
        }
        Ok(Some(record))
    }

    pub(crate) fn keep(&mut self, key: &str, record: Record) {
        self.0.insert(key.to_owned(), record);
    }
}
