//! A world whose gateway asks its authority over signed calls: the authority served on a port of its
//! own, the way to it, and a store that does not count what only books a call.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use gate_authority::{Actor, Admin};
use gate_burnbound::{AuthorityKey, ClientSettings, GatewaySecret, RemoteAuthority, SecretSource};
use gate_core::{AccountId, AgentName, Channel, Clock, Deadline, Ids, Timestamp};
use gate_http::{HyperTransport, Request, Response, Transport, TransportError};
use gate_server::authority_api::AuthorityApi;
use gate_server::embedded::Embedded;
use gate_server::listen;
use gate_store::{Changes, Judge, Reads, Snapshot, Store, StoreError, Write};
use gate_stripe::StripeConfig;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::world::loopback;

/// An authority to be served.
pub(crate) struct Served<'a> {
    pub(crate) embedded: &'a Arc<Embedded>,
    pub(crate) clock: &'a Arc<dyn Clock>,
    pub(crate) ids: &'a Arc<dyn Ids>,
    pub(crate) calls: &'a Arc<Calls>,
}

impl Served<'_> {
    /// Serves it on a port of its own, and makes a gateway's way to it.
    pub(crate) async fn remote(
        &self,
        account: Option<AccountId>,
        stop: &CancellationToken,
        tasks: &TaskTracker,
    ) -> Arc<RemoteAuthority> {
        let key = AuthorityKey::from_seed(&[9; 32]).unwrap();
        let secret = GatewaySecret::make(&[1; 32], &key.public_key()).unwrap();
        let admin = Admin::new(&self.embedded.authority, Actor::cli("tests", None));
        let name = AgentName::parse("east").unwrap();
        let gateway = admin.create_gateway(&name, secret.public_key()).await.unwrap().id;
        let served = gate_served::Served {
            authority: Arc::clone(&self.embedded.authority),
            key,
            clock: Arc::clone(self.clock),
            ids: Arc::clone(self.ids),
        };
        let api = Arc::new(AuthorityApi { served, stopping: stop.clone() });
        let (listener, at) = loopback().await;
        tasks.spawn(listen::serve(listener, None, stop.clone(), move |request, peer| {
            Arc::clone(&api).answer(request, peer)
        }));
        let version = StripeConfig::default().version;
        let remote = RemoteAuthority::new(
            Arc::<Calls>::clone(self.calls),
            Arc::clone(self.clock),
            Arc::clone(self.ids),
            ClientSettings {
                origin: format!("http://{at}"),
                stripped: String::new(),
                gateway,
                call_timeout: Duration::from_secs(10),
            },
            Arc::new(OneSecret(Arc::new(secret))),
            move || {
                let (account, version) = (account.clone(), version.clone());
                Some(Channel { account, livemode: false, version, key: None, agent_tagged: false })
            },
        );
        // So that its first use is not noted in the middle of a test.
        remote.status().await.unwrap();
        Arc::new(remote)
    }
}

/// A secret that never changes.
struct OneSecret(Arc<GatewaySecret>);

impl SecretSource for OneSecret {
    fn secret(&self) -> Option<Arc<GatewaySecret>> {
        Some(Arc::clone(&self.0))
    }
}

/// The way to the authority: keeps each signed call.
pub(crate) struct Calls {
    inner: HyperTransport,
    pub(crate) sent: Mutex<Vec<Request>>,
}

impl Calls {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { inner: HyperTransport::new(clock), sent: Mutex::default() }
    }

    /// Sends a call that was sent before once more, as it was.
    pub(crate) async fn again(&self, call: Request, by: Deadline) -> Response {
        self.inner.send(call, by).await.unwrap()
    }
}

#[async_trait]
impl Transport for Calls {
    async fn send(&self, request: Request, by: Deadline) -> Result<Response, TransportError> {
        self.sent.lock().unwrap().push(request.clone());
        self.inner.send(request, by).await
    }
}

/// A store that counts what is changed: that a signed call came is booked, and does not count.
pub(crate) struct Counted {
    inner: Arc<dyn Store>,
    changes: AtomicU64,
}

impl Counted {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner, changes: AtomicU64::new(0) }
    }
}

#[async_trait]
impl Store for Counted {
    async fn now(&self) -> Result<Timestamp, StoreError> {
        self.inner.now().await
    }

    async fn transact(&self, reads: Reads, judge: Arc<dyn Judge>) -> Result<(), StoreError> {
        let watched = Arc::new(Watched { judge, changes: AtomicBool::new(false) });
        self.inner.transact(reads, Arc::<Watched>::clone(&watched)).await?;
        self.changes.fetch_add(u64::from(watched.changes.load(Ordering::SeqCst)), Ordering::SeqCst);
        Ok(())
    }

    async fn read(&self, reads: Reads) -> Result<Snapshot, StoreError> {
        self.inner.read(reads).await
    }

    fn changes(&self) -> Changes {
        self.inner.changes()
    }

    fn commits(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }
}

/// A judge, and whether it last changed anything.
struct Watched {
    judge: Arc<dyn Judge>,
    changes: AtomicBool,
}

impl Judge for Watched {
    fn judge(&self, now: Timestamp, seen: &Snapshot) -> Vec<Write> {
        let writes = self.judge.judge(now, seen);
        let booked =
            |write: &Write| matches!(write, Write::GatewayUsed { .. } | Write::UseNonce { .. });
        self.changes.store(!writes.iter().all(booked), Ordering::SeqCst);
        writes
    }
}
