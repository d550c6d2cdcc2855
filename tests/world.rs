//! A whole gateway in this process: the shipped parts over sockets of their own, with a Stripe
//! that a test commands, a wire that it listens to, and a clock that it moves.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use gate_authority::{Actor, Admin, AdminError, RatesFeed, Whom};
use gate_core::{
    AccountId, Actions, AgentName, ApprovalId, Authority, Clock, Deadline, Ids, Intent, IntentId,
    Processor, Records, Refunds, Settings, UserName,
};
use gate_http::{HyperTransport, Method, Request, Response, Transport, TransportError};
use gate_money::parse_pins;
use gate_sandbox::Received;
use gate_server::embedded::{Embedded, EmbeddedParts};
use gate_server::gateway::{Decider, Gateway, Parts, StripeKeys, WebhookKeys};
use gate_server::http::{Hosts, Limits, Patient, Service};
use gate_server::listen;
use gate_server::stripe_sandbox::SharedSandbox;
use gate_server::system::SystemIds;
use gate_store::{AuditRow, MemStore, Reads, SqliteStore, Store};
use gate_stripe::{StripeConfig, StripeKey, WebhookSecrets};
use gate_tools::{LocalTools, McpDoor, Ports};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client::{Answer, Call};
use crate::clock::TestClock;
use crate::remote::{Calls, Counted, Served};

/// Where a request for a refund goes.
pub(crate) const REFUND: &str = "/v1/actions/stripe.refund";
/// The agent of every world.
pub(crate) const AGENT: &str = "support-bot";
/// The person who reviews.
pub(crate) const REVIEWER: &str = "maria";
/// The gateway's key, long enough to be masked by its last four characters.
pub(crate) const STRIPE_KEY: &str = "rk_test_51TheGatewaysOwnKey4242";
/// An hour.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// How long a condition is waited for that must come.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// The text of a policy in which the agent may refund, with more lines for its entry.
pub(crate) fn policy(lines: &str) -> String {
    format!(
        "[organization]\ntimezone = \"UTC\"\n\n[agents.{AGENT}]\nmethods = [\"stripe_refund\"]\n\
         allowed_hosts = [\"stripe-refund.action\"]\n{lines}\n"
    )
}

/// How a world is to be.
pub(crate) struct Setup {
    pub(crate) account: Option<&'static str>,
    /// Whether the gateway is told that Stripe holds refunds of its key.
    pub(crate) agent_tagged: bool,
    pub(crate) pins: &'static str,
    pub(crate) policy: String,
    /// In a file, rather than in memory.
    pub(crate) sqlite: bool,
    pub(crate) stripe_timeout: Duration,
    /// How long a request waits for its twin; the product's own time when none.
    pub(crate) twin_wait: Option<Duration>,
    /// What Stripe's webhooks may be signed with; none are taken when none.
    pub(crate) webhook_secrets: Option<&'static str>,
    /// Whether the gateway asks its authority over signed calls.
    pub(crate) remote: bool,
}

/// Whether the gateways of this run ask an authority over the network: the whole suite runs both
/// ways, with `GATEWAY_TESTS_AUTHORITY=remote` and without.
#[allow(clippy::disallowed_methods, reason = "a run of tests is told by its environment")]
pub(crate) fn remote() -> bool {
    static REMOTE: LazyLock<bool> = LazyLock::new(|| {
        std::env::var("GATEWAY_TESTS_AUTHORITY").is_ok_and(|authority| authority == "remote")
    });
    *REMOTE
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            account: None,
            agent_tagged: false,
            pins: "",
            policy: policy("daily_cap = \"1000.00\""),
            sqlite: false,
            stripe_timeout: Duration::from_secs(5),
            twin_wait: None,
            webhook_secrets: None,
            remote: remote(),
        }
    }
}

/// A gateway, a Stripe, and everything between.
pub(crate) struct World {
    pub(crate) at: SocketAddr,
    pub(crate) clock: Arc<TestClock>,
    pub(crate) embedded: Arc<Embedded>,
    pub(crate) gateway: Arc<Gateway>,
    /// The signed calls to the authority, where it is asked over the network.
    pub(crate) calls: Arc<Calls>,
    pub(crate) key: String,
    pub(crate) sandbox: SharedSandbox,
    pub(crate) store: Arc<dyn Store>,
    /// Where the sandbox listens.
    pub(crate) stripe_at: SocketAddr,
    pub(crate) wire: Arc<Wire>,
    /// Where the store's file is, if it has one.
    _dir: Option<tempfile::TempDir>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl World {
    pub(crate) async fn new() -> Self {
        Setup::default().start().await
    }

    pub(crate) async fn with_policy(lines: &str) -> Self {
        Setup { policy: policy(lines), ..Setup::default() }.start().await
    }

    pub(crate) fn admin(&self) -> Admin<'_> {
        Admin::new(&self.embedded.authority, Actor::cli("tests", None))
    }

    pub(crate) async fn apply(&self, policy: &str) {
        self.admin().apply_policy(policy).await.unwrap();
    }

    /// Makes an agent, and answers its key.
    pub(crate) async fn agent(&self, name: &str) -> String {
        let name = AgentName::parse(name).unwrap();
        self.admin().create_agent(&name, None, false).await.unwrap().1.expose().to_owned()
    }

    pub(crate) async fn revoke(&self, name: &str) {
        self.admin().revoke_agent(name).await.unwrap();
    }

    pub(crate) async fn stop_everybody(&self) {
        self.admin().stop(Whom::Everybody, None).await.unwrap();
    }

    pub(crate) async fn resume_everybody(&self) {
        self.admin().resume(Whom::Everybody, None).await.unwrap();
    }

    pub(crate) async fn approve(&self, pending: &Answer) {
        self.try_to_approve(pending).await.unwrap();
    }

    pub(crate) async fn try_to_approve(&self, pending: &Answer) -> Result<Intent, AdminError> {
        let id = ApprovalId::parse(pending.text("/approvalId")).unwrap();
        let user = UserName::parse(REVIEWER).unwrap();
        self.admin().approve(&id, &user, None).await
    }

    pub(crate) async fn deny(&self, pending: &Answer) {
        let id = ApprovalId::parse(pending.text("/approvalId")).unwrap();
        let user = UserName::parse(REVIEWER).unwrap();
        self.admin().deny(&id, &user, "the parcel arrived").await.unwrap();
    }

    /// The record behind an answer.
    pub(crate) async fn intent(&self, answer: &Answer) -> Intent {
        let id = IntentId::parse(answer.text("/intentId")).unwrap();
        self.admin().intent(&id).await.unwrap()
    }

    /// Asks for a refund as the agent.
    pub(crate) async fn ask(&self, body: &Value) -> Answer {
        Call::post(REFUND, body).key(&self.key).send(self.at).await
    }

    /// Asks for all of them at once.
    pub(crate) async fn ask_together(&self, bodies: &[Value]) -> Vec<Answer> {
        futures_util::future::join_all(bodies.iter().map(|body| self.ask(body))).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        Call::get(path).key(&self.key).send(self.at).await
    }

    /// What the agent has spent of its day, in dollars.
    pub(crate) async fn spent(&self) -> String {
        self.get("/v1/budget").await.text("/windows/0/spent").to_owned()
    }

    /// One call of the sandbox's control interface.
    pub(crate) fn control(&self, path: &str, body: &Value) -> Value {
        control(&self.sandbox, path, body)
    }

    /// One look over the sandbox's control interface.
    pub(crate) fn look(&self, path: &str) -> Value {
        control_call(&self.sandbox, "GET", path, "")
    }

    /// Makes a charge; 10.00 USD unless it says otherwise.
    pub(crate) fn charge(&self, fields: &Value) {
        self.control("/_sandbox/charges", fields);
    }

    /// Orders a fault of the calls that make refunds.
    pub(crate) fn fault(&self, kind: &str, times: u32) {
        let path = "/v1/refunds";
        let fault = json!({ "method": "POST", "path": path, "kind": kind, "times": times });
        self.control("/_sandbox/faults", &fault);
    }

    /// Orders answers to the calls that make refunds to be late.
    pub(crate) fn delay(&self, millis: u64) {
        self.control(
            "/_sandbox/faults",
            &json!({ "method": "POST", "path": "/v1/refunds", "kind": "delay", "delayMs": millis }),
        );
    }

    /// Has Stripe be itself again.
    pub(crate) fn clear_faults(&self) {
        control_call(&self.sandbox, "DELETE", "/_sandbox/faults", "");
    }

    /// What the sandbox received.
    pub(crate) fn received(&self) -> Vec<Received> {
        let seen = control_call(&self.sandbox, "GET", "/_sandbox/requests", "");
        let rows = seen.as_array().unwrap().iter();
        let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
        rows.map(|row| Received {
            method: text(row, "method"),
            path: text(row, "path"),
            idempotency_key: row["idempotencyKey"].as_str().map(str::to_owned),
            form: row["form"].clone(),
            status: row["status"].as_u64().map(|status| status as u16),
        })
        .collect()
    }

    /// The attempts to make a refund that the sandbox received from the gateway.
    pub(crate) fn attempts(&self) -> Vec<Received> {
        let ours = |seen: &Received| {
            let key = seen.idempotency_key.as_deref().unwrap_or_default();
            seen.method == "POST" && seen.path == "/v1/refunds" && key.starts_with("bb_")
        };
        self.received().into_iter().filter(ours).collect()
    }

    /// The refunds that the gateway made.
    pub(crate) fn refunds(&self) -> Vec<Value> {
        let ours = |refund: &Value| refund["metadata"]["burnbound_intent"].is_string();
        self.sandbox.refunds().into_iter().filter(ours).collect()
    }

    /// So many attempts and refunds there were, all attempts of one intent were the same bytes
    /// under the key that follows from it, and no intent has two refunds.
    #[track_caller]
    pub(crate) fn check(&self, name: &str, attempts: usize, refunds: usize) {
        assert_eq!(self.attempts().len(), attempts, "{name}: attempts");
        assert_eq!(self.refunds().len(), refunds, "{name}: refunds");
        let mut sent: BTreeMap<String, String> = BTreeMap::new();
        for (key, form) in self.wire.sent.lock().unwrap().iter() {
            let ours = format!("&metadata%5Bburnbound_intent%5D={}&", &key[3..]);
            assert!(key.starts_with("bb_int_") && form.contains(&ours), "{name}: {key} {form}");
            assert_eq!(sent.entry(key.clone()).or_insert(form.clone()), form, "{name}");
        }
        let mut made: Vec<Value> = self
            .refunds()
            .iter()
            .map(|made| made["metadata"]["burnbound_intent"].clone())
            .collect();
        made.sort_by_key(Value::to_string);
        made.dedup();
        assert_eq!(made.len(), refunds, "{name}: an intent was refunded twice");
    }

    /// Has the reconciler, the sweeper and the feed run from here on.
    pub(crate) fn run_by_itself(&self) {
        let (gateway, stop) = (Arc::clone(&self.gateway), self.stop.clone());
        self.tasks.spawn(async move { gateway.run(&stop).await });
        if self.gateway.decider.embedded().is_none() {
            let (embedded, stop) = (Arc::clone(&self.embedded), self.stop.clone());
            self.tasks.spawn(async move { embedded.run(&stop).await });
        }
    }

    /// Reads the intent of `answer` with each commit, until `fits`.
    pub(crate) async fn until(&self, answer: &Answer, fits: impl Fn(&Intent) -> bool) -> Intent {
        let mut changes = self.store.changes();
        let waiting = async {
            loop {
                changes.mark();
                let intent = self.intent(answer).await;
                if fits(&intent) {
                    return intent;
                }
                changes.changed().await;
            }
        };
        tokio::time::timeout(WAIT_MAX, waiting).await.expect("it never came to that")
    }

    /// Returns once the sandbox has received so many attempts to make a refund.
    pub(crate) async fn attempted(&self, count: usize) {
        let waiting = async {
            while self.attempts().len() < count {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(WAIT_MAX, waiting).await.expect("Stripe was never asked");
    }

    pub(crate) async fn audit(&self) -> Vec<AuditRow> {
        self.store
            .read(Reads { audit: Some(gate_store::AuditRange::WHOLE), ..Reads::default() })
            .await
            .unwrap()
            .audit
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Setup {
    pub(crate) async fn start(self) -> World {
        let clock = Arc::new(TestClock::new());
        let time: Arc<dyn Clock> = Arc::<TestClock>::clone(&clock);
        let ids: Arc<dyn Ids> = Arc::new(NoJitter(SystemIds::default()));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let sandbox = SharedSandbox::new(7, Arc::clone(&time));
        let (listener, stripe_at) = loopback().await;
        tasks.spawn(sandbox.clone().serve(listener, stop.clone()));
        let dir = self.sqlite.then(|| tempfile::tempdir().unwrap());
        let store: Arc<dyn Store> = match &dir {
            None => Arc::new(MemStore::new(Arc::clone(&time))),
            Some(dir) => {
                let path = dir.path().join("gateway.db");
                Arc::new(SqliteStore::open(&path, Arc::clone(&time)).unwrap())
            }
        };
        let store: Arc<dyn Store> = Arc::new(Counted::new(store));
        let wire = Arc::new(Wire::new(Arc::clone(&time)));
        let embedded = Arc::new(Embedded::new(EmbeddedParts {
            store: Arc::clone(&store),
            clock: Arc::clone(&time),
            ids: Arc::clone(&ids),
            feed: Arc::new(SandboxFeed(sandbox.clone())),
            pins: parse_pins(self.pins).unwrap(),
            rates_max_age: 7 * 24 * HOUR,
            stripe_timeout: self.stripe_timeout,
        }));
        embedded.fetch_rates_once().await.unwrap();
        let calls = Arc::new(Calls::new(Arc::clone(&time)));
        let decider = if self.remote {
            let account = self.account.map(|id| AccountId::parse(id).unwrap());
            let served = Served { embedded: &embedded, clock: &time, ids: &ids, calls: &calls };
            Decider::Remote(served.remote(account, &stop, &tasks).await)
        } else {
            Decider::Embedded(Arc::clone(&embedded))
        };
        let gateway = Arc::new(Gateway::new(Parts {
            decider,
            clock: Arc::clone(&time),
            ids: Arc::clone(&ids),
            transport: Arc::<Wire>::clone(&wire),
            stripe: StripeConfig {
                api_base: format!("http://{stripe_at}"),
                account: self.account.map(|id| AccountId::parse(id).unwrap()),
                agent_tagged: self.agent_tagged,
                ..StripeConfig::default()
            },
            keys: Arc::new(StripeKeys::new(|| Ok(StripeKey::parse(STRIPE_KEY).ok()))),
            webhook_keys: Arc::new(WebhookKeys::new(move || {
                Ok(self.webhook_secrets.map(|secrets| WebhookSecrets::parse(secrets).unwrap()))
            })),
            stripe_timeout: self.stripe_timeout,
            reconcile_interval: Duration::from_millis(200),
        }));
        let actions = self.actions(&gateway, &time, &ids);
        let records = Arc::new(Patient::new(Arc::clone(&gateway.records), stop.clone()));
        let ports = Ports {
            actions: Arc::clone(&actions),
            records: records.clone(),
            connector: Arc::clone(&gateway.connector),
            clock: Arc::clone(&time),
        };
        let tools = Arc::new(LocalTools::new(ports, gateway.decider.grants(), Arc::clone(&ids)));
        let service = Arc::new(Service {
            actions,
            authority: Arc::clone(&gateway.authority),
            records,
            mcp: McpDoor::new(tools.clone(), "0"),
            tools,
            readiness: Arc::clone(&gateway.readiness),
            webhooks: Arc::clone(&gateway.webhooks),
            hosts: Hosts::new(Vec::new()),
            limits: Limits::new(many(), many()),
            clock: time,
            ids,
            stopping: stop.clone(),
        });
        let (listener, at) = loopback().await;
        tasks.spawn(listen::serve(listener, None, stop.clone(), move |request, peer| {
            Arc::clone(&service).answer(request, peer)
        }));
        let mut world = World {
            at,
            clock,
            embedded,
            gateway,
            calls,
            key: String::new(),
            sandbox,
            store,
            stripe_at,
            wire,
            _dir: dir,
            stop,
            tasks,
        };
        world.apply(&self.policy).await;
        let reviewer = UserName::parse(REVIEWER).unwrap();
        world.admin().create_user(&reviewer, &["reviewer".to_owned()]).await.unwrap();
        world.key = world.agent(AGENT).await;
        world
    }

    fn actions(
        &self,
        gateway: &Gateway,
        clock: &Arc<dyn Clock>,
        ids: &Arc<dyn Ids>,
    ) -> Arc<dyn Actions> {
        let Some(twin_wait) = self.twin_wait else {
            return Arc::clone(&gateway.actions);
        };
        let authority: Arc<dyn Authority> = Arc::clone(&gateway.authority);
        let records: Arc<dyn Records> = Arc::clone(&gateway.records);
        let stripe: Arc<dyn Processor> = Arc::<gate_stripe::StripeClient>::clone(&gateway.stripe);
        let settings = Settings { call_timeout: self.stripe_timeout, twin_wait };
        let (clock, ids) = (Arc::clone(clock), Arc::clone(ids));
        Arc::new(Refunds::new(authority, records, stripe, clock, ids, settings))
    }
}

pub(crate) async fn loopback() -> (tokio::net::TcpListener, SocketAddr) {
    listen::open(([127, 0, 0, 1], 0).into()).await.unwrap()
}

const fn many() -> NonZeroU32 {
    NonZeroU32::MAX
}

/// A control call that must succeed.
pub(crate) fn control(sandbox: &SharedSandbox, path: &str, body: &Value) -> Value {
    control_call(sandbox, "POST", path, &body.to_string())
}

fn control_call(sandbox: &SharedSandbox, method: &str, path: &str, body: &str) -> Value {
    let reply = sandbox.handle(&gate_sandbox::Request {
        method: method.to_owned(),
        path: path.to_owned(),
        body: body.as_bytes().to_vec(),
        ..gate_sandbox::Request::default()
    });
    let text = String::from_utf8(reply.body).unwrap();
    assert_eq!(reply.status, 200, "{method} {path}: {text}");
    serde_json::from_str(&text).unwrap()
}

/// Somebody else calls Stripe, past the gateway, with a key that may do everything.
pub(crate) fn outside(sandbox: &SharedSandbox, path: &str, form: &str) {
    let reply = sandbox.handle(&gate_sandbox::Request {
        method: "POST".to_owned(),
        path: path.to_owned(),
        headers: vec![("Authorization".to_owned(), "Bearer sk_test_somebodyElse".to_owned())],
        body: form.as_bytes().to_vec(),
        ..gate_sandbox::Request::default()
    });
    assert_eq!(reply.status, 200, "{path}: {}", String::from_utf8_lossy(&reply.body));
}

/// The system's randomness, but for single bytes: those are jitter, and pauses are kept short.
struct NoJitter(SystemIds);

impl Ids for NoJitter {
    fn fill(&self, bytes: &mut [u8]) {
        match bytes {
            [jitter] => *jitter = 0,
            _ => self.0.fill(bytes),
        }
    }
}

/// What happens before a call leaves.
type Event = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The wire to Stripe: keeps the bytes of each attempt at a refund, and lets something happen
/// just before a charge is read or refunded.
pub(crate) struct Wire {
    inner: HyperTransport,
    before_read: Mutex<Option<Event>>,
    before_refund: Mutex<Option<Event>>,
    /// Idempotency key and form of each attempt.
    pub(crate) sent: Mutex<Vec<(String, String)>>,
}

impl Wire {
    fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            inner: HyperTransport::new(clock),
            before_read: Mutex::default(),
            before_refund: Mutex::default(),
            sent: Mutex::default(),
        }
    }

    /// Does `this` just before the next charge is read.
    pub(crate) fn before_read(&self, this: impl Future<Output = ()> + Send + 'static) {
        *self.before_read.lock().unwrap() = Some(Box::pin(this));
    }

    /// Does `this` just before the next attempt at a refund leaves.
    pub(crate) fn before_refund(&self, this: impl FnOnce() + Send + 'static) {
        *self.before_refund.lock().unwrap() = Some(Box::pin(async move { this() }));
    }

    /// The form of the last attempt.
    pub(crate) fn last_form(&self) -> String {
        self.sent.lock().unwrap().last().map(|(_, form)| form.clone()).unwrap_or_default()
    }
}

#[async_trait]
impl Transport for Wire {
    async fn send(&self, request: Request, by: Deadline) -> Result<Response, TransportError> {
        // Whatever happens, nothing else is ever changed at Stripe: nothing is put right with money.
        let changes = ["/v1/refunds", "/approval_requests/"];
        let known = changes.iter().any(|path| request.url.contains(path));
        assert!(request.method == Method::Get || known, "{:?} {}", request.method, request.url);
        if request.method == Method::Post && request.url.ends_with("/v1/refunds") {
            let key = request.header("Idempotency-Key").unwrap().expose().to_owned();
            let form = String::from_utf8(request.body.clone()).unwrap();
            self.sent.lock().unwrap().push((key, form));
            let this = self.before_refund.lock().unwrap().take();
            this.unwrap_or_else(|| Box::pin(async {})).await;
        }
        if request.url.contains("/v1/charges/") {
            let this = self.before_read.lock().unwrap().take();
            this.unwrap_or_else(|| Box::pin(async {})).await;
        }
        self.inner.send(request, by).await
    }
}

/// The sandbox's exchange rates.
struct SandboxFeed(SharedSandbox);

#[async_trait]
impl RatesFeed for SandboxFeed {
    async fn fetch(&self) -> Result<Vec<u8>, String> {
        let reply = self.0.handle(&gate_sandbox::Request {
            method: "GET".to_owned(),
            path: "/_sandbox/rates/eurofxref-daily.xml".to_owned(),
            ..gate_sandbox::Request::default()
        });
        Ok(reply.body)
    }
}
