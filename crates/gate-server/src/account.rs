//! Whether the Stripe key is of the account that refunds were made in: a key of another one would
//! look for them, and find nothing, in the wrong place.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gate_core::{Clock, Intent, Processor, ReadError, State, Target};
use gate_store::{IntentQuery, Reads, Store};
use gate_stripe::{StripeClient, StripeKey};

use crate::gateway::StripeKeys;

/// How many of the newest refunds are looked through for one of the key's mode.
const LOOKED_THROUGH_MAX: u32 = 100;

/// Looks, once for each key, whether it sees the charge that was refunded last.
pub(crate) struct Account {
    /// The records, where they are here; elsewhere the latest refund is not known.
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) stripe: Arc<StripeClient>,
    pub(crate) keys: Arc<StripeKeys>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) call_timeout: Duration,
    pub(crate) seen: Mutex<Seen>,
}

/// What is known of the key that was looked at last.
#[derive(Default)]
pub(crate) struct Seen {
    key: Option<StripeKey>,
    fault: Option<String>,
}

impl Account {
    /// What is wrong with the key that was looked at last.
    pub(crate) fn fault(&self) -> Option<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).fault.clone()
    }

    /// Looks, if the key is another than last time. What cannot be found out now is looked at again
    /// with the next call.
    pub(crate) async fn look(&self) {
        let Ok(Some(key)) = self.keys.state() else { return };
        let is_known = {
            let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.key.as_ref().is_some_and(|seen| seen.is(&key))
        };
        if is_known {
            return;
        }
        let Ok(last) = self.last_refunded(&key).await else { return };
        let fault = match last {
            None => None,
            Some(intent) => {
                let target = Target::Charge(intent.charge);
                let by = self.clock.deadline(self.call_timeout);
                match self.stripe.charge(&target, by).await {
                    Ok(_) => None,
                    Err(ReadError::NotFound { .. } | ReadError::LivemodeMismatch) => {
                        let fault = format!(
                            "this key does not see {target}, which was refunded last: it is of \
                             another account; use a key of the same one, or set STRIPE_ACCOUNT"
                        );
                        tracing::error!("{fault}");
                        Some(fault)
                    }
                    Err(_) => return,
                }
            }
        };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Seen { key: Some(key), fault };
    }

    /// The newest refund of the key's mode.
    async fn last_refunded(
        &self,
        key: &StripeKey,
    ) -> Result<Option<Intent>, gate_store::StoreError> {
        let settled = IntentQuery {
            state: Some(State::Settled),
            limit: LOOKED_THROUGH_MAX,
            ..IntentQuery::default()
        };
        let Some(store) = &self.store else { return Ok(None) };
        let seen = store.read(Reads { intents: Some(settled), ..Reads::default() }).await?;
        Ok(seen.intents.into_iter().find(|intent| intent.livemode == key.livemode()))
    }
}
