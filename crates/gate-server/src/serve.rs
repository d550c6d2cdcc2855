//! `serve`: opens the store, listens, works until it is told to stop, and lets what is under way
//! finish.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gate_core::{Clock, Grants, Ids};
use gate_http::{HyperTransport, Transport};
use gate_store::{PostgresStore, SqliteStore, Store};
use gate_tools::{LocalTools, McpDoor, Ports};
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Database, Lookup};
use crate::feed::HttpFeed;
use crate::gateway::{Gateway, Parts, StripeKeys, WebhookKeys};
use crate::http::{Hosts, Limits, Patient, Service};
use crate::listen::{self, Tls};
use crate::system::{SystemClock, SystemIds};

/// A gateway that is listening.
pub(crate) struct Serving {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) address: SocketAddr,
    pub(crate) tls: bool,
    service: Arc<Service>,
    listener: tokio::net::TcpListener,
    tls_config: Option<Tls>,
    grace: Duration,
}

/// Makes the data directory, for its owner alone.
///
/// # Errors
///
/// What went wrong and what to do.
pub(crate) fn make_data_dir(dir: &Path) -> Result<(), String> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| {
        format!(
            "the data directory {} cannot be made: {error}; make it, or name another with GATEWAY_DATA_DIR",
            dir.display()
        )
    })
}

/// Opens the store, which is made when there is none. An SQLite file takes `clock`'s time;
/// PostgreSQL has its own.
///
/// # Errors
///
/// What went wrong and what to do.
pub(crate) async fn open_store(
    database: &Database,
    clock: Arc<dyn Clock>,
    makes_refunds: bool,
) -> Result<Arc<dyn Store>, String> {
    let opened = match database {
        Database::File(path) => {
            if let Some(dir) = path.parent() {
                make_data_dir(dir)?;
            }
            let open = if makes_refunds { SqliteStore::open_with_room } else { SqliteStore::open };
            open(path, clock).map(|store| -> Arc<dyn Store> { Arc::new(store) })
        }
        Database::Postgres(address) => {
            PostgresStore::open(address).await.map(|store| -> Arc<dyn Store> { Arc::new(store) })
        }
    };
    opened.map_err(|error| format!("{database}: {error}"))
}

/// Opens everything that `config` names, and listens. Serves nobody yet.
///
/// # Errors
///
/// What went wrong and what to do.
pub(crate) async fn start(config: Config, lookup: Arc<dyn Lookup>) -> Result<Serving, String> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let ids: Arc<dyn Ids> = Arc::new(SystemIds::default());
    let store = open_store(&config.store.database, Arc::clone(&clock), true).await?;
    let transport: Arc<dyn Transport> = Arc::new(HyperTransport::new(Arc::clone(&clock)));
    let tls_config = match config.server.tls.clone() {
        Some(files) => Some(crate::tls::reloading(files, Arc::clone(&lookup))?),
        None => None,
    };
    let (key, key_lookup) = (config.stripe.key, Arc::clone(&lookup));
    let keys = StripeKeys::new(move || match &key {
        None => Ok(None),
        Some(key) => key.current(key_lookup.as_ref()).map(Some).map_err(|fault| fault.to_string()),
    });
    let webhook = config.stripe.webhook;
    let webhook_keys = WebhookKeys::new(move || match &webhook {
        None => Ok(None),
        Some(held) => held.current(lookup.as_ref()).map(Some).map_err(|fault| fault.to_string()),
    });
    let gateway = Arc::new(Gateway::new(Parts {
        store,
        clock: Arc::clone(&clock),
        ids: Arc::clone(&ids),
        transport: Arc::clone(&transport),
        stripe: gate_stripe::StripeConfig {
            api_base: config.stripe.api_base.to_string(),
            version: config.stripe.version,
            account: config.stripe.account,
            reads_per_minute: config.stripe.calls_per_minute,
        },
        keys: Arc::new(keys),
        webhook_keys: Arc::new(webhook_keys),
        feed: Arc::new(HttpFeed {
            transport,
            clock: Arc::clone(&clock),
            url: config.rates.feed_url.to_string(),
        }),
        pins: config.rates.pins,
        rates_max_age: config.rates.age_max,
        stripe_timeout: config.stripe.timeout,
        reconcile_interval: config.server.reconcile_interval,
    }));
    let (listener, address) = listen::open(config.server.listen).await.map_err(|error| {
        format!("cannot listen on {}: {error}; choose another GATEWAY_PORT", config.server.listen)
    })?;
    let rate = config.server.agent_rate;
    let stopping = CancellationToken::new();
    let records = Arc::new(Patient::new(Arc::clone(&gateway.records), stopping.clone()));
    let ports = Ports {
        actions: Arc::clone(&gateway.actions),
        records: records.clone(),
        connector: Arc::clone(&gateway.connector),
        clock: Arc::clone(&clock),
    };
    let grants: Arc<dyn Grants> = Arc::<gate_authority::LocalAuthority>::clone(&gateway.authority);
    let tools = Arc::new(LocalTools::new(ports, grants, Arc::clone(&ids)));
    let service = Arc::new(Service {
        actions: Arc::clone(&gateway.actions),
        authority: Arc::<gate_authority::LocalAuthority>::clone(&gateway.authority),
        records,
        mcp: McpDoor::new(tools.clone(), env!("CARGO_PKG_VERSION")),
        tools,
        readiness: Arc::clone(&gateway.readiness),
        webhooks: Arc::clone(&gateway.webhooks),
        hosts: Hosts::new(config.server.allowed_hosts),
        limits: Limits::new(rate.per_second, rate.burst),
        clock,
        ids,
        stopping,
    });
    Ok(Serving {
        gateway,
        address,
        tls: tls_config.is_some(),
        service,
        listener,
        tls_config,
        grace: config.server.shutdown_grace,
    })
}

impl Serving {
    /// Where it listens, as a URL.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Serves until `stop`, or until the disk failed to keep a commit; then takes nothing new, and
    /// gives what is under way its grace. What is not done by then is left to the reconciler of the
    /// next start.
    ///
    /// # Errors
    ///
    /// That the store is lost: what the disk holds is not known, and only a new process can tell.
    pub(crate) async fn run(self, stop: CancellationToken) -> Result<(), String> {
        let Self { gateway, service, listener, tls_config, grace, .. } = self;
        let stopping = service.stopping.clone();
        let mut changes = gateway.store().changes();
        let is_lost = AtomicBool::new(false);
        let background = CancellationToken::new();
        let serve = listen::serve(listener, tls_config, stopping.clone(), move |request, peer| {
            Arc::clone(&service).answer(request, peer)
        });
        let ending = async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = changes.lost() => {
                    is_lost.store(true, Ordering::Release);
                    stop.cancel();
                }
            }
            tracing::info!(grace_secs = grace.as_secs(), "stopping: finishing what is under way");
            stopping.cancel();
            // Refunds are finished before the reconciler ends, so that none is left for nobody.
            gateway.finish_money_work().await;
            background.cancel();
        };
        let all = async { tokio::join!(serve, gateway.run(&background), ending) };
        let out_of_time = async {
            stop.cancelled().await;
            tokio::time::sleep(grace).await;
        };
        tokio::select! {
            _ = all => tracing::info!("stopped"),
            () = out_of_time => tracing::warn!(
                "the grace is over; what is not finished is taken up at the next start"
            ),
        }
        if is_lost.into_inner() {
            return Err("the store can write no more: the disk failed to keep a commit, or a \
                        thread of the store panicked (the log says which). Restart; what was under \
                        way is finished then"
                .to_owned());
        }
        Ok(())
    }
}

/// Completes at SIGTERM or SIGINT.
///
/// # Errors
///
/// The system's, when signals cannot be had.
pub(crate) async fn told_to_stop() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
    Ok(())
}
