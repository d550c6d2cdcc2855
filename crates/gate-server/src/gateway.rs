//! The composition root's middle: puts store, authority, Stripe and core together, and runs what
//! goes on by itself.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gate_api::connector::Connector;
use gate_authority::{AuthorityConfig, FeedError, LocalAuthority, RatesFeed, Sweeper};
use gate_core::{
    Actions, Authority, AuthorityError, Clock, Ids, IntentId, Processor, Reconciler, Records,
    Refunds, Settings, State,
};
use gate_http::Transport;
use gate_money::Rate;
use gate_store::Store;
use gate_stripe::{StripeClient, StripeConfig, StripeReads};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::account::Account;
use crate::detach::Detached;
use crate::listen::unless;
use crate::readiness::Readiness;
pub use crate::reread::{StripeKeys, WebhookKeys};
use crate::webhooks::{Places, Webhooks};

/// How much longer than one call to Stripe a lease holds: time for a second attempt after a
/// refused one, and short enough that a lost outcome is taken up within a minute.
const LEASE_MARGIN: Duration = Duration::from_secs(10);
/// How long a request waits for a twin that is under way.
const TWIN_WAIT: Duration = Duration::from_secs(5);
/// Least time between two looks for work that commits give rise to.
const RECONCILE_PAUSE: Duration = Duration::from_millis(200);
/// How often approvals are looked through for those past their time.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);
/// How often the Stripe key is looked at for being another one.
const KEYS_INTERVAL: Duration = Duration::from_secs(5);
/// How often the exchange rates are fetched, and how soon again when that failed.
const RATES_INTERVAL: Duration = Duration::from_secs(3600);
const RATES_RETRY: Duration = Duration::from_secs(60);

/// What a gateway is put together from. Tests hand over a clock that they move.
pub struct Parts {
    /// Where everything durable lies.
    pub store: Arc<dyn Store>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub ids: Arc<dyn Ids>,
    /// Carries requests to Stripe.
    pub transport: Arc<dyn Transport>,
    /// Which Stripe.
    pub stripe: StripeConfig,
    /// The key for it.
    pub keys: Arc<StripeKeys>,
    /// What its webhooks are signed with.
    pub webhook_keys: Arc<WebhookKeys>,
    /// The published exchange rates.
    pub feed: Arc<dyn RatesFeed>,
    /// Exchange rates that win over them.
    pub pins: Vec<Rate>,
    /// How old published rates may be.
    pub rates_max_age: Duration,
    /// The deadline of one call to Stripe.
    pub stripe_timeout: Duration,
    /// How often the reconciler looks for work by itself.
    pub reconcile_interval: Duration,
}

/// A gateway, put together.
pub struct Gateway {
    /// Refunds, each in a task of its own.
    pub actions: Arc<dyn Actions>,
    /// The authority behind its port.
    pub authority: Arc<LocalAuthority>,
    /// The agents' records.
    pub records: Arc<dyn Records>,
    /// Whether it can work.
    pub readiness: Arc<Readiness>,
    /// Stripe.
    pub stripe: Arc<StripeClient>,
    /// Stripe, as staff read it.
    pub connector: Arc<dyn Connector>,
    /// Stripe's webhooks.
    pub webhooks: Arc<Webhooks>,
    account: Arc<Account>,
    clock: Arc<dyn Clock>,
    store: Arc<dyn Store>,
    reconciler: Reconciler,
    sweeper: Sweeper,
    reconcile_interval: Duration,
    money_work: TaskTracker,
    /// When nothing is to be tried again.
    ending: CancellationToken,
}

impl Gateway {
    /// Puts a gateway together. Opens nothing and starts nothing.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { store, clock, ids, transport, stripe, keys, feed, .. } = parts;
        let config = AuthorityConfig {
            lease: parts.stripe_timeout.saturating_add(LEASE_MARGIN),
            pins: parts.pins,
            rates_max_age: parts.rates_max_age,
        };
        let authority = Arc::new(LocalAuthority::new(
            Arc::clone(&store),
            Arc::clone(&clock),
            Arc::clone(&ids),
            config,
        ));
        let account = stripe.account.clone();
        let client = StripeClient::new(
            transport,
            Arc::clone(&clock),
            stripe,
            Arc::<StripeKeys>::clone(&keys),
        );
        let stripe = Arc::new(client);
        let same_account = Arc::new(Account {
            store: Arc::clone(&store),
            stripe: Arc::clone(&stripe),
            keys: Arc::clone(&keys),
            clock: Arc::clone(&clock),
            call_timeout: parts.stripe_timeout,
            seen: Mutex::default(),
        });
        let readiness = Arc::new(Readiness::new(
            Arc::clone(&store),
            Arc::clone(&keys),
            Arc::clone(&stripe),
            Arc::clone(&same_account),
            Arc::clone(&clock),
            parts.rates_max_age,
        ));
        let port: Arc<dyn Authority> = Arc::<LocalAuthority>::clone(&authority);
        let records: Arc<dyn Records> = Arc::<LocalAuthority>::clone(&authority);
        let processor: Arc<dyn Processor> = Arc::<StripeClient>::clone(&stripe);
        let settings = Settings { call_timeout: parts.stripe_timeout, twin_wait: TWIN_WAIT };
        let refunds = Arc::new(Refunds::new(
            Arc::clone(&port),
            Arc::clone(&records),
            processor,
            Arc::clone(&clock),
            ids,
            settings,
        ));
        let money_work = TaskTracker::new();
        let ending = CancellationToken::new();
        let webhooks = Arc::new(Webhooks {
            account,
            authority: Arc::clone(&authority),
            clock: Arc::clone(&clock),
            keys,
            refunds: Arc::clone(&refunds),
            secrets: parts.webhook_keys,
            tasks: money_work.clone(),
            ending: ending.clone(),
            places: Places::default(),
        });
        let inner: Arc<dyn Actions> = Arc::<Refunds>::clone(&refunds);
        Self {
            actions: Arc::new(Detached::new(inner, port, money_work.clone())),
            sweeper: Sweeper::new(Arc::clone(&authority), feed),
            authority,
            records,
            readiness,
            connector: Arc::new(StripeReads::new(Arc::clone(&stripe))),
            stripe,
            webhooks,
            account: same_account,
            reconciler: Reconciler::new(refunds, Arc::clone(&clock)),
            clock,
            store,
            reconcile_interval: parts.reconcile_interval,
            money_work,
            ending,
        }
    }

    /// Where everything durable lies.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Runs what goes on by itself until `stop`: the reconciler, the sweeper, the exchange rates, and
    /// the look at a changed Stripe key.
    pub async fn run(&self, stop: &CancellationToken) {
        tokio::join!(
            self.reconcile(stop),
            self.sweep(stop),
            self.fetch_rates(stop),
            self.look_at_keys(stop)
        );
    }

    /// Takes no new refunds, and waits for those under way.
    pub async fn finish_money_work(&self) {
        self.money_work.close();
        self.ending.cancel();
        self.money_work.wait().await;
    }

    /// The reconciler and the sweeper, until nothing is due: each intent that was touched, and what
    /// was found.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`] when no work could be looked for.
    pub async fn round(&self) -> Result<Vec<(IntentId, String)>, AuthorityError> {
        let swept = self.sweeper.step().await?;
        let mut found: Vec<_> =
            swept.expired.into_iter().map(|id| (id, "expired".to_owned())).collect();
        loop {
            let done = self.reconciler.step().await?;
            let driven = done.driven.into_iter().map(|(id, state)| (id, state.as_str().to_owned()));
            found.extend(driven);
            let failed = done.failed.into_iter();
            found.extend(failed.map(|(id, error)| (id, format!("not yet: {error}"))));
            if !done.more {
                return Ok(found);
            }
        }
    }

    /// Looks for work at start, on a timer, and when something was committed: what a person has
    /// approved at the command line is executed at once.
    async fn reconcile(&self, stop: &CancellationToken) {
        let mut changes = self.store.changes();
        loop {
            changes.mark();
            if !stop.is_cancelled() && self.reconcile_once().await {
                continue;
            }
            let wait = async {
                let timer = self.clock.sleep_until(self.clock.deadline(self.reconcile_interval));
                tokio::select! { () = changes.changed() => {}, () = timer => {} }
                self.clock.sleep_until(self.clock.deadline(RECONCILE_PAUSE)).await;
            };
            if unless(stop, wait).await.is_none() {
                return;
            }
        }
    }

    /// Whether there may be more that is due already.
    async fn reconcile_once(&self) -> bool {
        match self.reconciler.step().await {
            Ok(done) => {
                for (id, state) in done.driven {
                    let open = state == State::Submitted;
                    let told = if open { "not found out yet" } else { "reconciled" };
                    tracing::info!(intent.id = %id, intent.state = state.as_str(), "{told}");
                }
                for (id, error) in done.failed {
                    let code = error.code();
                    tracing::warn!(intent.id = %id, error.code = code, "not reconciled yet: {error}");
                }
                done.more
            }
            Err(error) => {
                tracing::warn!("cannot look for unfinished refunds: {error}");
                false
            }
        }
    }

    async fn sweep(&self, stop: &CancellationToken) {
        loop {
            match self.sweeper.step().await {
                Ok(swept) => {
                    for id in swept.expired {
                        tracing::info!(intent.id = %id, "expired: nobody decided or used it in time");
                    }
                }
                Err(error) => tracing::warn!("cannot look for expired approvals: {error}"),
            }
            let timer = self.clock.sleep_until(self.clock.deadline(SWEEP_INTERVAL));
            if unless(stop, timer).await.is_none() {
                return;
            }
        }
    }

    async fn look_at_keys(&self, stop: &CancellationToken) {
        loop {
            self.account.look().await;
            let timer = self.clock.sleep_until(self.clock.deadline(KEYS_INTERVAL));
            if unless(stop, timer).await.is_none() {
                return;
            }
        }
    }

    async fn fetch_rates(&self, stop: &CancellationToken) {
        loop {
            let Some(fetched) = unless(stop, self.fetch_rates_once()).await else { return };
            let pause = if fetched.is_ok() { RATES_INTERVAL } else { RATES_RETRY };
            let timer = self.clock.sleep_until(self.clock.deadline(pause));
            if unless(stop, timer).await.is_none() {
                return;
            }
        }
    }

    /// Fetches the exchange rates once, and notes how that went.
    ///
    /// # Errors
    ///
    /// [`FeedError`]; it is logged, and the rates that there are go on.
    pub async fn fetch_rates_once(&self) -> Result<(), FeedError> {
        match self.sweeper.refresh_rates().await {
            Ok(date) => {
                tracing::info!(rates.date = date, "exchange rates are up to date");
                self.readiness.note_rates(None);
                Ok(())
            }
            Err(error) => {
                tracing::warn!("{error}; US dollars and pinned currencies go on");
                self.readiness.note_rates(Some(error.to_string()));
                Err(error)
            }
        }
    }
}
