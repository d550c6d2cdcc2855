//! The composition root's middle: puts store, authority, Stripe and core together, and runs what
//! goes on by itself.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use gate_api::connector::Connector;
use gate_authority::{LocalAuthority, Swept};
use gate_burnbound::RemoteAuthority;
use gate_core::{
    Actions, Authority, AuthorityError, Clock, Grants, Ids, IntentId, Notes, Processor, Reconciler,
    Records, Refunds, Settings, State,
};
use gate_http::Transport;
use gate_stripe::{StripeClient, StripeConfig, StripeReads};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::account::Account;
use crate::detach::Detached;
use crate::embedded::Embedded;
use crate::listen::unless;
use crate::readiness::Readiness;
pub use crate::reread::{StripeKeys, WebhookKeys};
use crate::webhooks::{Places, Webhooks};

/// How long a request waits for a twin that is under way.
const TWIN_WAIT: Duration = Duration::from_secs(5);
/// Least time between two looks for work that commits give rise to.
const RECONCILE_PAUSE: Duration = Duration::from_millis(200);
/// How often the Stripe key is looked at for being another one.
const KEYS_INTERVAL: Duration = Duration::from_secs(5);

/// Who decides for a gateway.
#[derive(Clone)]
pub enum Decider {
    /// The authority in this process.
    Embedded(Arc<Embedded>),
    /// One over the network.
    Remote(Arc<RemoteAuthority>),
}

impl Decider {
    fn ports(&self) -> (Arc<dyn Authority>, Arc<dyn Records>, Arc<dyn Notes>) {
        match self {
            Self::Embedded(embedded) => {
                let at = &embedded.authority;
                (Arc::<LocalAuthority>::clone(at), Arc::<LocalAuthority>::clone(at), at.clone())
            }
            Self::Remote(at) => {
                (Arc::<RemoteAuthority>::clone(at), Arc::<RemoteAuthority>::clone(at), at.clone())
            }
        }
    }

    /// Who says which tools an agent is granted.
    #[must_use]
    pub fn grants(&self) -> Arc<dyn Grants> {
        match self {
            Self::Embedded(embedded) => Arc::<LocalAuthority>::clone(&embedded.authority),
            Self::Remote(at) => Arc::<RemoteAuthority>::clone(at),
        }
    }

    /// The authority in this process, if it is here.
    #[must_use]
    pub const fn embedded(&self) -> Option<&Arc<Embedded>> {
        match self {
            Self::Embedded(embedded) => Some(embedded),
            Self::Remote(_) => None,
        }
    }
}

/// What a gateway is put together from. Tests hand over a clock that they move.
pub struct Parts {
    /// Who decides.
    pub decider: Decider,
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
    pub authority: Arc<dyn Authority>,
    /// Who that is.
    pub decider: Decider,
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
    reconciler: Reconciler,
    reconcile_interval: Duration,
    money_work: TaskTracker,
    /// When nothing is to be tried again.
    ending: CancellationToken,
}

impl Gateway {
    /// Puts a gateway together. Opens nothing and starts nothing.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { decider, clock, ids, transport, stripe, keys, .. } = parts;
        let (authority, records, notes) = decider.ports();
        let account = stripe.account.clone();
        let client = StripeClient::new(
            transport,
            Arc::clone(&clock),
            stripe,
            Arc::<StripeKeys>::clone(&keys),
        );
        let stripe = Arc::new(client);
        let same_account = Arc::new(Account {
            store: decider.embedded().map(|embedded| Arc::clone(&embedded.store)),
            stripe: Arc::clone(&stripe),
            keys: Arc::clone(&keys),
            clock: Arc::clone(&clock),
            call_timeout: parts.stripe_timeout,
            seen: Mutex::default(),
        });
        let readiness = Arc::new(Readiness::new(
            decider.clone(),
            Arc::clone(&keys),
            Arc::clone(&stripe),
            Arc::clone(&same_account),
            Arc::clone(&clock),
        ));
        let processor: Arc<dyn Processor> = Arc::<StripeClient>::clone(&stripe);
        let settings = Settings { call_timeout: parts.stripe_timeout, twin_wait: TWIN_WAIT };
        let refunds = Arc::new(Refunds::new(
            Arc::clone(&authority),
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
            clock: Arc::clone(&clock),
            keys,
            notes,
            refunds: Arc::clone(&refunds),
            secrets: parts.webhook_keys,
            tasks: money_work.clone(),
            ending: ending.clone(),
            places: Places::default(),
        });
        let inner: Arc<dyn Actions> = Arc::<Refunds>::clone(&refunds);
        Self {
            actions: Arc::new(Detached::new(inner, Arc::clone(&authority), money_work.clone())),
            authority,
            decider,
            records,
            readiness,
            connector: Arc::new(StripeReads::new(Arc::clone(&stripe))),
            stripe,
            webhooks,
            account: same_account,
            reconciler: Reconciler::new(refunds, Arc::clone(&clock)),
            clock,
            reconcile_interval: parts.reconcile_interval,
            money_work,
            ending,
        }
    }

    /// Runs what goes on by itself until `stop`: the reconciler, the look at a changed Stripe key and,
    /// with the authority in this process, what that does.
    pub async fn run(&self, stop: &CancellationToken) {
        let embedded = async {
            if let Some(embedded) = self.decider.embedded() {
                embedded.run(stop).await;
            }
        };
        tokio::join!(self.reconcile(stop), self.look_at_keys(stop), embedded);
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
        let swept = match self.decider.embedded() {
            Some(embedded) => embedded.sweep_once().await?,
            None => Swept::default(),
        };
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

    /// Looks for work at start, on a timer and, where the store is here, when something was
    /// committed: what a person has approved at the command line is executed at once.
    async fn reconcile(&self, stop: &CancellationToken) {
        let mut changes = self.decider.embedded().map(|embedded| embedded.store.changes());
        loop {
            if let Some(changes) = &mut changes {
                changes.mark();
            }
            if !stop.is_cancelled() && self.reconcile_once().await {
                continue;
            }
            let wait = async {
                let timer = self.clock.sleep_until(self.clock.deadline(self.reconcile_interval));
                match &mut changes {
                    None => timer.await,
                    Some(changes) => {
                        tokio::select! { () = changes.changed() => {}, () = timer => {} }
                    }
                }
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

    async fn look_at_keys(&self, stop: &CancellationToken) {
        loop {
            self.account.look().await;
            let timer = self.clock.sleep_until(self.clock.deadline(KEYS_INTERVAL));
            if unless(stop, timer).await.is_none() {
                return;
            }
        }
    }
}
