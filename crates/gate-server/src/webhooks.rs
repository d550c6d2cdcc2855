//! Stripe's webhooks: what they set off.
//!
//! A delivery that is genuine and fresh has the refunds of its charge, or what waits for its approval
//! request, read again from Stripe, and ours recorded as they now stand; nothing that the event itself says is believed. So deliveries
//! may come twice, late, in any order, or before the answer that they are about. A refund that is
//! not ours is noted in the log and never adopted. What is missed is found by polling.

use std::sync::Arc;
use std::time::Duration;

use gate_api::SurfaceError;
use gate_core::{AccountId, ActionError, ChargeId, Clock, HoldId, Notes, Refunds};
use gate_stripe::{EventKind, WebhookEvent, verify};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::listen::unless;
use crate::reread::{StripeKeys, WebhookKeys};

/// Most events that wait for their charge to be looked at; Stripe repeats those beyond.
const EVENTS_WAITING_MAX: usize = 1024;
/// Most charges that are looked at together, so that refunds are not kept waiting by Stripe's
/// rate limit.
const LOOKS_AT_ONCE_MAX: usize = 4;
/// How long to wait before a charge that could not be looked at is looked at again; after the last
/// of these it is left to polling.
const LOOK_AGAIN_SECS: [u64; 6] = [1, 2, 4, 8, 16, 32];
/// When a delivery that found no place may come again.
const COME_AGAIN: Duration = Duration::from_secs(60);

/// Takes deliveries.
pub struct Webhooks {
    pub(crate) account: Option<AccountId>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keys: Arc<StripeKeys>,
    pub(crate) notes: Arc<dyn Notes>,
    pub(crate) refunds: Arc<Refunds>,
    pub(crate) secrets: Arc<WebhookKeys>,
    /// The work that is waited for when the process ends.
    pub(crate) tasks: TaskTracker,
    /// When nothing is to be tried again, because the process ends.
    pub(crate) ending: CancellationToken,
    pub(crate) places: Places,
}

/// How much is taken on.
pub(crate) struct Places {
    waiting: Arc<Semaphore>,
    looking: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            waiting: Arc::new(Semaphore::new(EVENTS_WAITING_MAX)),
            looking: Arc::new(Semaphore::new(LOOKS_AT_ONCE_MAX)),
        }
    }
}

impl Webhooks {
    /// Takes a delivery by its `Stripe-Signature` header and its raw body. Returns before anything
    /// is looked at; an event that was taken before changes nothing.
    ///
    /// # Errors
    ///
    /// [`SurfaceError::NotFound`] without a secret to verify with;
    /// [`SurfaceError::InvalidRequest`] when it is not believed, and
    /// [`SurfaceError::RateLimited`] or [`SurfaceError::Action`] when Stripe is to send it again.
    /// Nothing was noted then.
    pub(crate) async fn receive(
        &self,
        signature: Option<&str>,
        body: &[u8],
    ) -> Result<(), SurfaceError> {
        let secrets = self.secrets.usable("the webhook secret").ok_or(SurfaceError::NotFound)?;
        let refused = |detail: String| {
            tracing::warn!(error.detail = detail, "a webhook was refused");
            SurfaceError::InvalidRequest { field: None, detail }
        };
        let signature = signature.ok_or_else(|| {
            refused("the Stripe-Signature header is missing; only Stripe calls here".to_owned())
        })?;
        let event = verify(&secrets, signature, body, self.clock.now())
            .map_err(|error| refused(error.to_string()))?;
        match self.concerned(&event) {
            Some(what) => self.take(event, what).await,
            None => Ok(()),
        }
    }

    /// What is to be looked at, if the event is about this gateway's account and mode.
    fn concerned(&self, event: &WebhookEvent) -> Option<LookAt> {
        let is_approval = match event.kind {
            EventKind::ApprovalChanged => true,
            EventKind::ChargeRefunded | EventKind::DisputeChanged | EventKind::RefundChanged => {
                false
            }
            EventKind::Other(_) => return None,
        };
        let livemode = self.keys.state().ok().flatten().map(|key| key.livemode());
        let problem = if livemode.is_none() {
            "there is no Stripe key to look with"
        } else if livemode != Some(event.livemode) {
            "it is of the other mode, test or live, than the Stripe key"
        } else if is_approval {
            // Thin events also name the account's own id, which is not known here; what is looked
            // for is the request's id among those that ours wait for.
            match &event.hold {
                Some(id) => return Some(LookAt::Hold(id.clone())),
                None => "it names no approval request",
            }
        } else if event.account != self.account {
            "it is of another account than STRIPE_ACCOUNT"
        } else {
            match &event.charge {
                Some(charge) => return Some(LookAt::Charge(charge.clone())),
                None => "it names no charge",
            }
        };
        tracing::warn!(event.id = event.id, error.detail = problem, "a webhook was ignored");
        None
    }

    /// Notes the event, and has what it is about looked at unless it was taken before.
    async fn take(&self, event: WebhookEvent, what: LookAt) -> Result<(), SurfaceError> {
        if self.tasks.is_closed() {
            return Err(ActionError::ShuttingDown.into());
        }
        let waiting = Arc::clone(&self.places.waiting).try_acquire_owned();
        let place = waiting.map_err(|_| SurfaceError::RateLimited { after: COME_AGAIN })?;
        if !self.notes.note_event(&event.id).await.map_err(ActionError::from)? {
            return Ok(());
        }
        let (refunds, looking) = (Arc::clone(&self.refunds), Arc::clone(&self.places.looking));
        let (clock, ending) = (Arc::clone(&self.clock), self.ending.clone());
        self.tasks.spawn(async move {
            for wait in LOOK_AGAIN_SECS {
                let turn = looking.acquire().await;
                let is_done = look(&refunds, &event, &what).await;
                drop(turn);
                let again = clock.sleep_until(clock.deadline(Duration::from_secs(wait)));
                if is_done || unless(&ending, again).await.is_none() {
                    break;
                }
            }
            drop(place);
        });
        Ok(())
    }
}

/// What an event has looked at.
enum LookAt {
    /// All refunds of a charge.
    Charge(ChargeId),
    /// What waits for an approval of Stripe's own.
    Hold(HoldId),
}

impl LookAt {
    fn as_str(&self) -> &str {
        match self {
            Self::Charge(id) => id.as_str(),
            Self::Hold(id) => id.as_str(),
        }
    }
}

/// Whether it could be looked at.
async fn look(refunds: &Refunds, event: &WebhookEvent, what: &LookAt) -> bool {
    let observed = match what {
        LookAt::Charge(charge) => refunds.observe(charge).await,
        LookAt::Hold(id) => refunds.observe_hold(id).await,
    };
    let subject = what.as_str();
    match observed {
        Ok(observed) => {
            for (id, state) in observed.ours {
                let state = state.as_str();
                tracing::info!(event.id, intent.id = %id, intent.state = state, "seen at Stripe");
            }
            if observed.others > 0 {
                let count = observed.others;
                tracing::info!(event.id, subject, count, "refunds that are not ours");
            }
            true
        }
        Err(error) => {
            let code = error.code();
            tracing::warn!(
                event.id,
                subject,
                error.code = code,
                "nothing was looked at for a webhook: {error}"
            );
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use gate_authority::RatesFeed;
    use gate_core::Deadline;
    use gate_http::{Request, Response, Transport, TransportError};
    use gate_store::{MemStore, Store};
    use gate_stripe::{StripeConfig, StripeKey, WebhookSecrets};
    use ring::hmac;
    use serde_json::json;

    use super::*;
    use crate::embedded::{Embedded, EmbeddedParts};
    use crate::gateway::{Decider, Gateway, Parts};
    use crate::system::{SystemClock, SystemIds};

    const SECRET: &str = "whsec_1";

    /// No network at all.
    struct Nowhere;

    #[async_trait]
    impl Transport for Nowhere {
        async fn send(&self, _: Request, _: Deadline) -> Result<Response, TransportError> {
            Err(TransportError::NotSent { detail: "nowhere".to_owned() })
        }
    }

    #[async_trait]
    impl RatesFeed for Nowhere {
        async fn fetch(&self) -> Result<Vec<u8>, String> {
            Err("nowhere".to_owned())
        }
    }

    fn gateway(key: Option<&'static str>, account: Option<&str>) -> (Gateway, Arc<dyn Store>) {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let store: Arc<dyn Store> = Arc::new(MemStore::new(Arc::clone(&clock)));
        let ids = Arc::new(SystemIds::default());
        let embedded = Embedded::new(EmbeddedParts {
            store: Arc::clone(&store),
            clock: Arc::clone(&clock),
            ids: Arc::<SystemIds>::clone(&ids),
            feed: Arc::new(Nowhere),
            pins: Vec::new(),
            rates_max_age: Duration::from_secs(1),
            stripe_timeout: Duration::from_secs(1),
        });
        let gateway = Gateway::new(Parts {
            decider: Decider::Embedded(Arc::new(embedded)),
            clock,
            ids,
            transport: Arc::new(Nowhere),
            stripe: StripeConfig {
                account: account.map(|id| AccountId::parse(id).unwrap()),
                ..StripeConfig::default()
            },
            keys: Arc::new(StripeKeys::new(move || {
                Ok(key.map(|text| StripeKey::parse(text).unwrap()))
            })),
            webhook_keys: Arc::new(WebhookKeys::new(|| {
                Ok(Some(WebhookSecrets::parse(SECRET).unwrap()))
            })),
            stripe_timeout: Duration::from_secs(1),
            reconcile_interval: Duration::from_secs(1),
        });
        (gateway, store)
    }

    fn signature(body: &str) -> String {
        let stamp = SystemClock::start().now().millis() / 1000;
        let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
        let tag = hmac::sign(&key, format!("{stamp}.{body}").as_bytes());
        let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        format!("t={stamp},v1={hex}")
    }

    /// Events of Stripe's own approvals are thin: they name the request, whatever account they name.
    #[tokio::test]
    async fn which_approvals_are_taken_up() {
        let (test, live) = (Some("rk_test_a1"), Some("rk_live_a1"));
        #[rustfmt::skip]
        let table = [
            // key, our account, what it names,  live,  its context,    taken up
            (test, None,           "apreq_1",    false, None,           true),
            (test, None,           "areq_1",     false, Some("acct_1"), true),
            (test, Some("acct_1"), "apreq_1",    false, Some("acct_1"), true),
            (live, None,           "apreq_1",    true,  None,           true),
            (test, None,           "apreq_1",    true,  None,           false),
            (live, None,           "apreq_1",    false, None,           false),
            (None, None,           "apreq_1",    false, None,           false),
            (test, None,           "apreq/../1", false, None,           false),
        ];
        for (key, ours, names, livemode, context, taken) in table {
            let (gateway, store) = gateway(key, ours);
            let body = json!({
                "id": "evt_1", "object": "v2.core.event", "livemode": livemode, "context": context,
                "type": "v2.core.approval_request.succeeded",
                "related_object": { "id": names, "type": "v2.core.approval_request" },
            })
            .to_string();
            let signature = signature(&body);
            for _ in 0..2 {
                let answer = gateway.webhooks.receive(Some(&signature), body.as_bytes()).await;
                assert_eq!(answer, Ok(()), "{names}");
            }
            gateway.finish_money_work().await;
            assert_eq!(store.commits(), u64::from(taken), "{names} {key:?} {livemode}");
        }
    }

    /// Every genuine event is received; only those of our account and mode are taken up.
    #[tokio::test]
    async fn which_events_are_taken_up() {
        let (test, live) = (Some("rk_test_a1"), Some("rk_live_a1"));
        let (refund, charge) = (json!({ "id": "re_1", "charge": "ch_1" }), json!({ "id": "ch_1" }));
        #[rustfmt::skip]
        let table = [
            // key, our account, kind,                    object,  live,  its account,    taken up
            (test, None,         "refund.updated",        &refund, false, None,           true),
            (test, None,         "refund.failed",         &refund, false, None,           true),
            (test, None,         "charge.refund.updated", &refund, false, None,           true),
            (test, None,         "charge.dispute.closed", &refund, false, None,           true),
            (test, None,         "charge.refunded",       &charge, false, None,           true),
            (test, None,         "charge.succeeded",      &charge, false, None,           false),
            (test, None,         "invoice.paid",          &charge, false, None,           false),
            (test, None,         "refund.updated",        &charge, false, None,           false),
            (test, None,         "refund.updated",        &refund, true,  None,           false),
            (live, None,         "refund.updated",        &refund, true,  None,           true),
            (live, None,         "refund.updated",        &refund, false, None,           false),
            (None, None,         "refund.updated",        &refund, false, None,           false),
            (test, None,         "refund.updated",        &refund, false, Some("acct_1"), false),
            (test, Some("acct_1"), "refund.updated",      &refund, false, Some("acct_1"), true),
            (test, Some("acct_1"), "refund.updated",      &refund, false, Some("acct_2"), false),
            (test, Some("acct_1"), "refund.updated",      &refund, false, None,           false),
        ];
        for (key, ours, kind, object, livemode, account, taken) in table {
            let (gateway, store) = gateway(key, ours);
            let body = json!({
                "id": "evt_1", "object": "event", "type": kind, "livemode": livemode,
                "account": account, "data": { "object": object },
            })
            .to_string();
            let signature = signature(&body);
            for _ in 0..2 {
                let answer = gateway.webhooks.receive(Some(&signature), body.as_bytes()).await;
                assert_eq!(answer, Ok(()), "{kind}");
            }
            // Stripe cannot be reached: nothing but the note is ever written, and that once.
            gateway.finish_money_work().await;
            assert_eq!(store.commits(), u64::from(taken), "{kind} {key:?} {ours:?} {account:?}");
            let late = gateway.webhooks.receive(Some(&signature), body.as_bytes()).await;
            assert_eq!(late.is_err(), taken, "{kind}: once the gateway is ending");
        }
    }
}
