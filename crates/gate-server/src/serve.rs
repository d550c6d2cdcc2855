//! `serve`: opens the store, listens, works until it is told to stop, and lets what is under way
//! finish.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gate_authority::Notices;
use gate_burnbound::{AuthorityKey, ClientSettings, GatewaySecret, RemoteAuthority, SecretSource};
use gate_core::{Channel, Clock, Ids};
use gate_http::{HyperTransport, Transport};
use gate_notify::Deliverer;
use gate_served::Served;
use gate_store::{PostgresStore, SqliteStore, Store};
use gate_tools::{LocalTools, McpDoor, Ports, Toolbox};
use tokio_util::sync::CancellationToken;

use crate::authority_api::AuthorityApi;
use crate::config::{Config, Database, Lookup, RemoteConfig, StoreConfig};
use crate::embedded::{Embedded, EmbeddedParts};
use crate::feed::HttpFeed;
use crate::gateway::{Decider, Gateway, Parts, StripeKeys, WebhookKeys};
use crate::http::{Hosts, Limits, Patient, Service};
use crate::listen::{self, Tls};
use crate::master_key::{MasterKey, Purpose};
use crate::notices::{WebhookTransport, to_public_addresses, webhook_secrets};
use crate::reread::GatewaySecrets;
use crate::system::{SystemClock, SystemIds};

/// Where the authority alone listens, unless it is told otherwise.
const AUTHORITY_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8788);
/// How long one call to a remote authority may take, all attempts together.
const AUTHORITY_TIMEOUT: Duration = Duration::from_secs(10);
/// Which of the keys that follow from the master key signs the authority's answers.
const AUTHORITY_KEY_GENERATION: u32 = 1;

/// Makes the door to MCP: to these tools, of a program of this version.
pub type MakeDoor = fn(Arc<dyn Toolbox>, &'static str) -> McpDoor;

/// What a test's program puts its own in the place of. No setting of the product reaches it.
#[derive(Clone, Copy, Debug)]
pub struct Seams {
    /// The door to MCP.
    pub door: MakeDoor,
    /// What carries agents' webhooks, and so decides where they may go.
    pub webhooks: WebhookTransport,
}

/// As shipped.
impl Default for Seams {
    fn default() -> Self {
        Self { door: McpDoor::new, webhooks: to_public_addresses }
    }
}

/// A gateway that is listening.
pub(crate) struct Serving {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) address: SocketAddr,
    pub(crate) tls: bool,
    served: Option<ServedAuthority>,
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

/// The authority in this process, over the store that `config` names, and its key for its answers.
///
/// # Errors
///
/// What went wrong and what to do.
async fn open_embedded(
    config: &Config,
    store: &StoreConfig,
    world: &World,
) -> Result<(Embedded, AuthorityKey), String> {
    let embedded = Embedded::new(EmbeddedParts {
        store: open_store(&store.database, Arc::clone(&world.clock), true).await?,
        clock: Arc::clone(&world.clock),
        ids: Arc::clone(&world.ids),
        feed: Arc::new(HttpFeed {
            transport: Arc::clone(&world.transport),
            clock: Arc::clone(&world.clock),
            url: config.rates.feed_url.to_string(),
        }),
        pins: config.rates.pins.clone(),
        rates_max_age: config.rates.age_max,
        stripe_timeout: config.stripe.timeout,
    });
    let master = master_key(store, world.ids.as_ref())?;
    let key = authority_key(&master)?;
    let deliverer = Deliverer::new(
        Arc::new(Notices::new(Arc::clone(&embedded.authority))),
        webhook_secrets(master),
        Arc::clone(&world.webhooks),
        Arc::clone(&world.clock),
        Arc::clone(&world.ids),
    );
    Ok((embedded.telling(deliverer), key))
}

/// The key that all secrets follow from; made when there is none, unless others share the database.
///
/// # Errors
///
/// What went wrong and what to do.
pub(crate) fn master_key(store: &StoreConfig, ids: &dyn Ids) -> Result<MasterKey, String> {
    match &store.database {
        Database::File(_) => {
            if let Some(dir) = store.master_key.parent() {
                make_data_dir(dir)?;
            }
            MasterKey::open_or_make(&store.master_key, ids)
        }
        // Others may have written to it with a key of theirs.
        Database::Postgres(_) => MasterKey::open(&store.master_key),
    }
}

/// The authority's key for its answers.
///
/// # Errors
///
/// That there is none.
pub(crate) fn authority_key(master: &MasterKey) -> Result<AuthorityKey, String> {
    let seed = master.derive(Purpose::AuthoritySigning, "", AUTHORITY_KEY_GENERATION);
    AuthorityKey::from_seed(&seed).map_err(|fault| fault.to_string())
}

/// Listens for gateways.
async fn serve_authority(
    listen: SocketAddr,
    key: AuthorityKey,
    embedded: &Embedded,
    world: &World,
) -> Result<ServedAuthority, String> {
    let (listener, address) = listen::open(listen).await.map_err(|error| {
        format!("cannot listen on {listen}: {error}; choose another AUTHORITY_LISTEN")
    })?;
    let authority = Arc::clone(&embedded.authority);
    let (clock, ids) = (Arc::clone(&world.clock), Arc::clone(&world.ids));
    let served = Served { authority, key, clock, ids };
    let api = Arc::new(AuthorityApi { served, stopping: CancellationToken::new() });
    Ok(ServedAuthority { api, listener, address, tls: world.tls.clone() })
}

/// What everything is opened with.
struct World {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    transport: Arc<dyn Transport>,
    webhooks: Arc<dyn Transport>,
    tls: Option<Tls>,
}

impl World {
    fn open(
        config: &Config,
        lookup: &Arc<dyn Lookup>,
        webhooks: WebhookTransport,
    ) -> Result<Self, String> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let tls = match config.server.tls.clone() {
            Some(files) => Some(crate::tls::reloading(files, Arc::clone(lookup))?),
            None => None,
        };
        Ok(Self {
            ids: Arc::new(SystemIds::default()),
            transport: Arc::new(HyperTransport::new(Arc::clone(&clock))),
            webhooks: webhooks(Arc::clone(&clock)),
            clock,
            tls,
        })
    }
}

/// The secret that is given, read again when its file changes.
impl SecretSource for GatewaySecrets {
    fn secret(&self) -> Option<Arc<GatewaySecret>> {
        self.usable("the gateway's secret").map(Arc::new)
    }
}

fn remote(
    config: RemoteConfig,
    channel: impl Fn() -> Option<Channel> + Send + Sync + 'static,
    world: &World,
    lookup: Arc<dyn Lookup>,
) -> RemoteAuthority {
    let RemoteConfig { origin, stripped, gateway, secret } = config;
    let secrets = GatewaySecrets::new(move || {
        secret.current(lookup.as_ref()).map(Some).map_err(|fault| fault.to_string())
    });
    let settings = ClientSettings { origin, stripped, gateway, call_timeout: AUTHORITY_TIMEOUT };
    RemoteAuthority::new(
        Arc::clone(&world.transport),
        Arc::clone(&world.clock),
        Arc::clone(&world.ids),
        settings,
        Arc::new(secrets),
        channel,
    )
}

/// Opens everything that `config` names, and listens. Serves nobody yet.
///
/// # Errors
///
/// What went wrong and what to do.
pub(crate) async fn start(
    mut config: Config,
    lookup: Arc<dyn Lookup>,
    seams: Seams,
) -> Result<Serving, String> {
    let world = World::open(&config, &lookup, seams.webhooks)?;
    let (key, key_lookup) = (config.stripe.key.take(), Arc::clone(&lookup));
    let keys = Arc::new(StripeKeys::new(move || match &key {
        None => Ok(None),
        Some(key) => key.current(key_lookup.as_ref()).map(Some).map_err(|fault| fault.to_string()),
    }));
    let (webhook, webhook_lookup) = (config.stripe.webhook.take(), Arc::clone(&lookup));
    let webhook_keys = WebhookKeys::new(move || match &webhook {
        None => Ok(None),
        Some(held) => {
            held.current(webhook_lookup.as_ref()).map(Some).map_err(|fault| fault.to_string())
        }
    });
    let mut served = None;
    let decider = match (config.remote.take(), config.store.take()) {
        (Some(there), _) => {
            let (account, version) = (config.stripe.account.clone(), config.stripe.version.clone());
            let keys = Arc::clone(&keys);
            let channel = move || {
                let livemode = keys.state().ok().flatten()?.livemode();
                let (account, version) = (account.clone(), version.clone());
                // Only which money is moved: facts of the key go with what is decided.
                Some(Channel { account, livemode, version, key: None, agent_tagged: false })
            };
            Decider::Remote(Arc::new(remote(there, channel, &world, lookup)))
        }
        (None, Some(store)) => {
            let (embedded, key) = open_embedded(&config, &store, &world).await?;
            if let Some(listen) = config.authority_listen {
                served = Some(serve_authority(listen, key, &embedded, &world).await?);
            }
            Decider::Embedded(Arc::new(embedded))
        }
        (None, None) => return Err("neither an authority nor a store is configured".to_owned()),
    };
    let gateway = Arc::new(Gateway::new(Parts {
        decider,
        clock: Arc::clone(&world.clock),
        ids: Arc::clone(&world.ids),
        transport: Arc::clone(&world.transport),
        stripe: gate_stripe::StripeConfig {
            api_base: config.stripe.api_base.to_string(),
            version: config.stripe.version,
            account: config.stripe.account,
            agent_tagged: config.stripe.key_agent_tagged,
            reads_per_minute: config.stripe.calls_per_minute,
        },
        keys,
        webhook_keys: Arc::new(webhook_keys),
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
        clock: Arc::clone(&world.clock),
    };
    let grants = gateway.decider.grants();
    let tools = Arc::new(LocalTools::new(ports, grants, Arc::clone(&world.ids)));
    let service = Arc::new(Service {
        actions: Arc::clone(&gateway.actions),
        authority: Arc::clone(&gateway.authority),
        records,
        mcp: (seams.door)(tools.clone(), env!("CARGO_PKG_VERSION")),
        tools,
        readiness: Arc::clone(&gateway.readiness),
        webhooks: Arc::clone(&gateway.webhooks),
        hosts: Hosts::new(config.server.allowed_hosts),
        limits: Limits::new(rate.per_second, rate.burst),
        clock: world.clock,
        ids: world.ids,
        stopping,
    });
    Ok(Serving {
        gateway,
        address,
        tls: world.tls.is_some(),
        served,
        service,
        listener,
        tls_config: world.tls,
        grace: config.server.shutdown_grace,
    })
}

/// The authority alone, listening for gateways.
pub(crate) struct ServingAuthority {
    embedded: Embedded,
    pub(crate) served: ServedAuthority,
    grace: Duration,
}

/// Opens the store, and listens for gateways. Serves nobody yet.
///
/// # Errors
///
/// What went wrong and what to do.
pub(crate) async fn start_authority(
    config: &Config,
    lookup: &Arc<dyn Lookup>,
    seams: Seams,
) -> Result<ServingAuthority, String> {
    let Some(store) = &config.store else {
        return Err(
            "BURNBOUND_API says that the authority is elsewhere: unset it to serve the one here"
                .to_owned(),
        );
    };
    let world = World::open(config, lookup, seams.webhooks)?;
    let (embedded, key) = open_embedded(config, store, &world).await?;
    let listen = config.authority_listen.unwrap_or(AUTHORITY_ADDRESS);
    let served = serve_authority(listen, key, &embedded, &world).await?;
    Ok(ServingAuthority { embedded, served, grace: config.server.shutdown_grace })
}

impl ServingAuthority {
    /// Serves until `stop`, or until the disk failed to keep a commit, and answers what is under way
    /// then.
    ///
    /// # Errors
    ///
    /// That the store is lost.
    pub(crate) async fn run(self, stop: CancellationToken) -> Result<(), String> {
        let Self { embedded, served, grace } = self;
        let is_lost = AtomicBool::new(false);
        let ending = async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = lost(Some(&embedded)) => {
                    is_lost.store(true, Ordering::Release);
                    stop.cancel();
                }
            }
        };
        let all = async { tokio::join!(served.serve(stop.clone()), embedded.run(&stop), ending) };
        let out_of_time = async {
            stop.cancelled().await;
            tokio::time::sleep(grace).await;
        };
        tokio::select! {
            _ = all => tracing::info!("stopped"),
            () = out_of_time => tracing::warn!("the grace is over"),
        }
        if is_lost.into_inner() { Err(LOST.to_owned()) } else { Ok(()) }
    }
}

/// What is said when the store is lost.
const LOST: &str = "the store can write no more: the disk failed to keep a commit, or a thread of the \
                    store panicked (the log says which). Restart; what was under way is finished then";

/// Completes when the store in this process can write no more; never, without one.
async fn lost(embedded: Option<&Embedded>) {
    match embedded {
        Some(embedded) => embedded.store.changes().lost().await,
        None => std::future::pending().await,
    }
}

/// The authority's address for gateways.
pub(crate) struct ServedAuthority {
    api: Arc<AuthorityApi>,
    listener: tokio::net::TcpListener,
    address: SocketAddr,
    tls: Option<Tls>,
}

impl ServedAuthority {
    /// Where it listens, as a URL.
    pub(crate) fn url(&self) -> String {
        url(self.tls.is_some(), self.address)
    }

    async fn serve(self, stop: CancellationToken) {
        let Self { api, listener, tls, .. } = self;
        let stopping = api.stopping.clone();
        let serve = listen::serve(listener, tls, stop.clone(), move |request, peer| {
            Arc::clone(&api).answer(request, peer)
        });
        let ending = async {
            stop.cancelled().await;
            stopping.cancel();
        };
        tokio::join!(serve, ending);
    }
}

fn url(tls: bool, address: SocketAddr) -> String {
    let scheme = if tls { "https" } else { "http" };
    format!("{scheme}://{address}")
}

impl Serving {
    /// Where it listens, as a URL.
    pub(crate) fn url(&self) -> String {
        url(self.tls, self.address)
    }

    /// Where it serves the authority to other gateways, if it does.
    pub(crate) fn authority_url(&self) -> Option<String> {
        self.served.as_ref().map(ServedAuthority::url)
    }

    /// Serves until `stop`, or until the disk failed to keep a commit; then takes nothing new, and
    /// gives what is under way its grace. What is not done by then is left to the reconciler of the
    /// next start.
    ///
    /// # Errors
    ///
    /// That the store is lost: what the disk holds is not known, and only a new process can tell.
    pub(crate) async fn run(self, stop: CancellationToken) -> Result<(), String> {
        let Self { gateway, service, served, listener, tls_config, grace, .. } = self;
        let stopping = service.stopping.clone();
        let is_lost = AtomicBool::new(false);
        let background = CancellationToken::new();
        let serve = listen::serve(listener, tls_config, stopping.clone(), move |request, peer| {
            Arc::clone(&service).answer(request, peer)
        });
        let ending = async {
            tokio::select! {
                () = stop.cancelled() => {}
                () = lost(gateway.decider.embedded().map(AsRef::as_ref)) => {
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
        // Other gateways are answered until the money work of this one is done.
        let authority = async {
            if let Some(served) = served {
                served.serve(background.clone()).await;
            }
        };
        let all = async { tokio::join!(serve, authority, gateway.run(&background), ending) };
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
        if is_lost.into_inner() { Err(LOST.to_owned()) } else { Ok(()) }
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
