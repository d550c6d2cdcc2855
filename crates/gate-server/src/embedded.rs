//! The authority in this process, over its store, with what it does by itself: the sweeper and the
//! exchange rates. Part of a gateway, or alone for a fleet of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gate_authority::{
    AuthorityConfig, FeedError, LocalAuthority, RatesFeed, Sweeper, Swept, is_stale,
};
use gate_core::{AuthorityError, Clock, Ids};
use gate_money::{Rate, RateTable};
use gate_notify::Deliverer;
use gate_store::{Reads, Store, StoreError};
use tokio_util::sync::CancellationToken;

use crate::listen::unless;
use crate::notices::AtCommits;

/// How much longer than one call to Stripe a lease holds: time for a second attempt after a
/// refused one, and short enough that a lost outcome is taken up within a minute.
const LEASE_MARGIN: Duration = Duration::from_secs(10);
/// How often approvals are looked through for those past their time.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);
/// How often the exchange rates are fetched, and how soon again when that failed.
const RATES_INTERVAL: Duration = Duration::from_secs(3600);
const RATES_RETRY: Duration = Duration::from_secs(60);

/// What an authority is put together from.
pub struct EmbeddedParts {
    /// Where everything durable lies.
    pub store: Arc<dyn Store>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub ids: Arc<dyn Ids>,
    /// The published exchange rates.
    pub feed: Arc<dyn RatesFeed>,
    /// Exchange rates that win over them.
    pub pins: Vec<Rate>,
    /// How old published rates may be.
    pub rates_max_age: Duration,
    /// The deadline of one call to Stripe: leases follow from it.
    pub stripe_timeout: Duration,
}

/// The authority in this process.
pub struct Embedded {
    /// The authority behind its port.
    pub authority: Arc<LocalAuthority>,
    pub(crate) store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    sweeper: Sweeper,
    deliverer: Option<Deliverer>,
    rates_max_age: Duration,
    rates_fault: Mutex<Option<String>>,
}

impl Embedded {
    /// Puts an authority together. Opens nothing and starts nothing.
    #[must_use]
    pub fn new(parts: EmbeddedParts) -> Self {
        let EmbeddedParts { store, clock, ids, feed, pins, rates_max_age, stripe_timeout } = parts;
        let lease = stripe_timeout.saturating_add(LEASE_MARGIN);
        let config = AuthorityConfig { lease, pins, rates_max_age };
        let authority = LocalAuthority::new(Arc::clone(&store), Arc::clone(&clock), ids, config);
        let authority = Arc::new(authority);
        let sweeper = Sweeper::new(Arc::clone(&authority), feed);
        Self {
            authority,
            store,
            clock,
            sweeper,
            deliverer: None,
            rates_max_age,
            rates_fault: Mutex::default(),
        }
    }

    /// The same, telling agents' webhooks by `deliverer`. Without one nobody is told.
    #[must_use]
    pub fn telling(self, deliverer: Deliverer) -> Self {
        Self { deliverer: Some(deliverer), ..self }
    }

    /// Sweeps, fetches rates and tells webhooks until `stop`.
    pub async fn run(&self, stop: &CancellationToken) {
        tokio::join!(self.sweep(stop), self.fetch_rates(stop), self.tell(stop));
    }

    async fn tell(&self, stop: &CancellationToken) {
        if let Some(deliverer) = &self.deliverer {
            deliverer.run(&mut AtCommits(self.store.changes()), stop).await;
        }
    }

    /// Lets expire what is past its time, once.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`]; nothing expired.
    pub async fn sweep_once(&self) -> Result<Swept, AuthorityError> {
        self.sweeper.step().await
    }

    /// Fetches the exchange rates once, and notes how that went.
    ///
    /// # Errors
    ///
    /// [`FeedError`]; it is logged, and the rates that there are go on.
    pub async fn fetch_rates_once(&self) -> Result<(), FeedError> {
        let fetched = self.sweeper.refresh_rates().await;
        let fault = fetched.as_ref().err().map(ToString::to_string);
        *self.rates_fault.lock().unwrap_or_else(PoisonError::into_inner) = fault;
        match fetched {
            Ok(date) => {
                tracing::info!(rates.date = date, "exchange rates are up to date");
                Ok(())
            }
            Err(error) => {
                tracing::warn!("{error}; US dollars and pinned currencies go on");
                Err(error)
            }
        }
    }

    /// Whether the store writes (its clock stops with its writer) and reads; the rates it holds.
    pub(crate) async fn stored_rates(&self) -> Result<Option<RateTable>, StoreError> {
        self.store.now().await?;
        Ok(self.store.read(Reads { rates: true, ..Reads::default() }).await?.rates)
    }

    /// Whether rates are too old to count by.
    pub(crate) fn are_stale(&self, rates: &RateTable) -> bool {
        is_stale(rates, self.clock.now(), self.rates_max_age)
    }

    /// How the last fetching of rates went wrong, if it did.
    pub(crate) fn rates_fault(&self) -> Option<String> {
        self.rates_fault.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn sweep(&self, stop: &CancellationToken) {
        loop {
            match self.sweep_once().await {
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
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use async_trait::async_trait;
    use gate_core::{Deadline, Timestamp};
    use gate_store::MemStore;

    use super::*;
    use crate::system::SystemIds;

    const FRIDAY: &str = "<Cube time='2026-10-30'><Cube currency='USD' rate='1.1172'/></Cube>";

    /// Whoever sleeps is awake at once, and it is later.
    #[derive(Default)]
    struct Jumps(Mutex<Duration>);

    impl Clock for Jumps {
        fn now(&self) -> Timestamp {
            Timestamp::from_millis(1_793_361_600_000).after(self.uptime())
        }

        fn uptime(&self) -> Duration {
            *self.0.lock().unwrap()
        }

        fn sleep_until(&self, at: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            *self.0.lock().unwrap() = at.uptime();
            Box::pin(std::future::ready(()))
        }
    }

    /// Answers one after the other, notes when it was asked, and ends it all when there are no more.
    struct Script {
        answers: Mutex<Vec<&'static str>>,
        asked: Mutex<Vec<u64>>,
        clock: Arc<Jumps>,
        stop: CancellationToken,
    }

    #[async_trait]
    impl RatesFeed for Script {
        async fn fetch(&self) -> Result<Vec<u8>, String> {
            self.asked.lock().unwrap().push(self.clock.uptime().as_secs());
            let answer = self.answers.lock().unwrap().pop();
            if self.answers.lock().unwrap().is_empty() {
                self.stop.cancel();
            }
            answer.map(|xml| xml.as_bytes().to_vec()).ok_or_else(|| "no more".to_owned())
        }
    }

    /// Rates are fetched at the start and every hour, and soon again where that failed or what came
    /// was refused; the rates that there are stay.
    #[tokio::test]
    async fn rates_are_fetched_at_the_start_and_hourly() {
        let clock = Arc::new(Jumps::default());
        let stop = CancellationToken::new();
        let mut answers = vec![FRIDAY, FRIDAY, "<html>", "", FRIDAY, FRIDAY];
        answers.reverse();
        let feed = Arc::new(Script {
            answers: Mutex::new(answers),
            asked: Mutex::default(),
            clock: Arc::clone(&clock),
            stop: stop.clone(),
        });
        let time: Arc<dyn Clock> = Arc::<Jumps>::clone(&clock);
        let embedded = Embedded::new(EmbeddedParts {
            store: Arc::new(MemStore::new(Arc::clone(&time))),
            clock: time,
            ids: Arc::new(SystemIds::default()),
            feed: Arc::<Script>::clone(&feed),
            pins: Vec::new(),
            rates_max_age: Duration::from_secs(7 * 24 * 3600),
            stripe_timeout: Duration::from_secs(1),
        });
        embedded.fetch_rates(&stop).await;
        assert_eq!(*feed.asked.lock().unwrap(), [0, 3600, 7200, 7260, 7320, 10920]);
        let kept = embedded.stored_rates().await.unwrap().unwrap();
        assert_eq!((kept.date(), embedded.rates_fault()), ("2026-10-30", None));
    }
}
