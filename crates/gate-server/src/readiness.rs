//! Whether the gateway can do its work, and since when it can or cannot.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gate_api::{Check, CheckStatus, CheckView, ReadyView};
use gate_burnbound::RemoteAuthority;
use gate_core::{Clock, Timestamp};
use gate_money::RateTable;
use gate_stripe::StripeClient;

use crate::account::Account;
use crate::embedded::Embedded;
use crate::gateway::{Decider, StripeKeys};

/// How long a remote authority may take to answer when it is asked after its health.
const STATUS_TIMEOUT: Duration = Duration::from_secs(3);
/// How far our clock may be from Stripe's, or from a remote authority's.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(30);

/// Looks after everything that the gateway depends on.
pub struct Readiness {
    decider: Decider,
    keys: Arc<StripeKeys>,
    stripe: Arc<StripeClient>,
    account: Arc<Account>,
    clock: Arc<dyn Clock>,
    since: Mutex<BTreeMap<Check, (CheckStatus, Timestamp)>>,
}

impl Readiness {
    /// Nothing is known to be wrong yet.
    #[must_use]
    pub(crate) fn new(
        decider: Decider,
        keys: Arc<StripeKeys>,
        stripe: Arc<StripeClient>,
        account: Arc<Account>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { decider, keys, stripe, account, clock, since: Mutex::default() }
    }

    /// Looks at everything now.
    pub async fn look(&self) -> ReadyView {
        let [store, authority, rates] = match &self.decider {
            Decider::Embedded(embedded) => embedded_checks(embedded).await,
            Decider::Remote(remote) => remote_checks(remote).await,
        };
        let checks = [
            (Check::Store, store),
            (Check::Authority, authority),
            (Check::StripeKey, self.stripe_key()),
            (Check::Clock, self.clock_apart()),
            (Check::Rates, rates),
        ];
        ReadyView::new(
            checks.map(|(check, (status, detail))| (check, self.view(check, status, detail))),
        )
    }

    fn stripe_key(&self) -> (CheckStatus, String) {
        match self.keys.state() {
            Ok(Some(_)) if self.stripe.health().key_refused => {
                let detail = "Stripe refuses the key: put a new one into its file";
                (CheckStatus::Failing, detail.to_owned())
            }
            Ok(Some(_)) if let Some(fault) = self.account.fault() => (CheckStatus::Failing, fault),
            Ok(Some(key)) => {
                let mode = if key.livemode() { "live" } else { "test" };
                (CheckStatus::Ok, format!("{mode} key ending in {}", key.last4()))
            }
            Ok(None) => {
                let detail = "no Stripe key: set STRIPE_SECRET_KEY_FILE and restart";
                (CheckStatus::Failing, detail.to_owned())
            }
            Err(fault) => (CheckStatus::Failing, fault),
        }
    }

    /// A clock that is wrong counts spend in the wrong day, and lets idempotency keys run out; one
    /// that is far from the authority's has its calls refused.
    fn clock_apart(&self) -> (CheckStatus, String) {
        let stripes = self.stripe.health().clock_apart;
        let authoritys = match &self.decider {
            Decider::Embedded(_) => None,
            Decider::Remote(remote) => remote.health().clock_apart,
        };
        for (whose, apart) in [("Stripe's", stripes), ("the authority's", authoritys)] {
            if let Some(apart) = apart.filter(|apart| *apart > CLOCKS_APART_MAX) {
                let secs = apart.as_secs();
                let detail = format!("{secs} seconds from {whose}: set this machine's clock");
                return (CheckStatus::Failing, detail);
            }
        }
        let detail = match (stripes, authoritys) {
            (Some(_), _) => "agrees with Stripe's",
            (None, Some(_)) => "agrees with the authority's; not compared with Stripe's yet",
            (None, None) => "not compared with Stripe's yet",
        };
        (CheckStatus::Ok, detail.to_owned())
    }

    fn view(&self, check: Check, status: CheckStatus, detail: String) -> CheckView {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let known = since.entry(check).or_insert((status, self.clock.now()));
        if known.0 != status {
            *known = (status, self.clock.now());
        }
        CheckView::new(status, known.1, detail)
    }
}

/// A check's status and what to say of it.
type Seen = (CheckStatus, String);

/// Store, authority and rates where all of them are in this process.
async fn embedded_checks(embedded: &Embedded) -> [Seen; 3] {
    match embedded.stored_rates().await {
        Ok(table) => {
            let store = match embedded.store.complaint() {
                Some(complaint) => (CheckStatus::Failing, complaint),
                None => (CheckStatus::Ok, "can be used".to_owned()),
            };
            let authority = (CheckStatus::Ok, "embedded".to_owned());
            [store, authority, rates(embedded, table.as_ref())]
        }
        // It can decide exactly when its store can be used.
        Err(error) => [
            (CheckStatus::Failing, error.to_string()),
            (CheckStatus::Failing, "its store cannot be used".to_owned()),
            rates(embedded, None),
        ],
    }
}

/// The same where they are elsewhere.
async fn remote_checks(remote: &RemoteAuthority) -> [Seen; 3] {
    let there = (CheckStatus::Ok, "kept by the authority".to_owned());
    let authority = match tokio::time::timeout(STATUS_TIMEOUT, remote.status()).await {
        Ok(Ok(status)) => (CheckStatus::Ok, format!("remote, version {}", status.version)),
        Ok(Err(error)) => (CheckStatus::Failing, error.to_string()),
        Err(_) => {
            let secs = STATUS_TIMEOUT.as_secs();
            (CheckStatus::Failing, format!("it gave no answer within {secs} seconds"))
        }
    };
    [there.clone(), authority, there]
}

/// Without rates other currencies are denied, and dollars go on: never more than degraded.
fn rates(embedded: &Embedded, table: Option<&RateTable>) -> Seen {
    match (table, embedded.rates_fault()) {
        (Some(table), fault) if embedded.are_stale(table) => {
            let fault = fault.map(|fault| format!("; {fault}")).unwrap_or_default();
            let detail =
                format!("of {}, too old: only US dollars and pins count{fault}", table.date());
            (CheckStatus::Degraded, detail)
        }
        (Some(table), None) => (CheckStatus::Ok, format!("of {}", table.date())),
        (Some(table), Some(fault)) => {
            (CheckStatus::Degraded, format!("of {}; {fault}", table.date()))
        }
        (None, fault) => {
            let fault = fault.unwrap_or_else(|| "not fetched yet".to_owned());
            (CheckStatus::Degraded, format!("none: only US dollars and pins count; {fault}"))
        }
    }
}
