//! Whether the gateway can do its work, and since when it can or cannot.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gate_api::{Check, CheckStatus, CheckView, ReadyView};
use gate_authority::is_stale;
use gate_core::{Clock, Timestamp};
use gate_money::RateTable;
use gate_store::{Reads, Store, StoreError};
use gate_stripe::StripeClient;

use crate::account::Account;
use crate::gateway::StripeKeys;

/// How far our clock may be from Stripe's.
const CLOCKS_APART_MAX: Duration = Duration::from_secs(30);

/// Looks after everything that the gateway depends on.
pub struct Readiness {
    store: Arc<dyn Store>,
    keys: Arc<StripeKeys>,
    stripe: Arc<StripeClient>,
    account: Arc<Account>,
    clock: Arc<dyn Clock>,
    rates_max_age: Duration,
    rates_fault: Mutex<Option<String>>,
    since: Mutex<BTreeMap<Check, (CheckStatus, Timestamp)>>,
}

impl Readiness {
    /// Nothing is known to be wrong yet.
    #[must_use]
    pub(crate) fn new(
        store: Arc<dyn Store>,
        keys: Arc<StripeKeys>,
        stripe: Arc<StripeClient>,
        account: Arc<Account>,
        clock: Arc<dyn Clock>,
        rates_max_age: Duration,
    ) -> Self {
        Self {
            store,
            keys,
            stripe,
            account,
            clock,
            rates_max_age,
            rates_fault: Mutex::default(),
            since: Mutex::default(),
        }
    }

    /// Notes how fetching the exchange rates went.
    pub fn note_rates(&self, fault: Option<String>) {
        *self.rates_fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// Looks at everything now.
    pub async fn look(&self) -> ReadyView {
        let (store, rates) = match self.store_and_rates().await {
            Ok(rates) => match self.store.complaint() {
                Some(complaint) => ((CheckStatus::Failing, complaint), Some(rates)),
                None => ((CheckStatus::Ok, "can be used".to_owned()), Some(rates)),
            },
            Err(error) => ((CheckStatus::Failing, error.to_string()), None),
        };
        // The authority is embedded: it can decide exactly when its store can be used.
        let authority = match store.0 {
            CheckStatus::Ok => (CheckStatus::Ok, "embedded".to_owned()),
            CheckStatus::Degraded | CheckStatus::Failing => {
                (CheckStatus::Failing, "its store cannot be used".to_owned())
            }
        };
        let checks = [
            (Check::Store, store),
            (Check::Authority, authority),
            (Check::StripeKey, self.stripe_key()),
            (Check::Clock, self.clock_apart()),
            (Check::Rates, self.rates(rates.flatten().as_ref())),
        ];
        ReadyView::new(
            checks.map(|(check, (status, detail))| (check, self.view(check, status, detail))),
        )
    }

    /// Whether the store writes (its clock stops with its writer) and reads.
    async fn store_and_rates(&self) -> Result<Option<RateTable>, StoreError> {
        self.store.now().await?;
        Ok(self.store.read(Reads { rates: true, ..Reads::default() }).await?.rates)
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

    /// A clock that is wrong counts spend in the wrong day, and lets idempotency keys run out.
    fn clock_apart(&self) -> (CheckStatus, String) {
        match self.stripe.health().clock_apart {
            None => (CheckStatus::Ok, "not compared with Stripe's yet".to_owned()),
            Some(apart) if apart > CLOCKS_APART_MAX => {
                let secs = apart.as_secs();
                let detail = format!("{secs} seconds from Stripe's: set this machine's clock");
                (CheckStatus::Failing, detail)
            }
            Some(_) => (CheckStatus::Ok, "agrees with Stripe's".to_owned()),
        }
    }

    /// Without rates other currencies are denied, and dollars go on: never more than degraded.
    fn rates(&self, table: Option<&RateTable>) -> (CheckStatus, String) {
        let fault = self.rates_fault.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let stale = |table: &RateTable| is_stale(table, self.clock.now(), self.rates_max_age);
        match (table, fault) {
            (Some(table), fault) if stale(table) => {
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

    fn view(&self, check: Check, status: CheckStatus, detail: String) -> CheckView {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let known = since.entry(check).or_insert((status, self.clock.now()));
        if known.0 != status {
            *known = (status, self.clock.now());
        }
        CheckView::new(status, known.1, detail)
    }
}
