//! A store with a clock that stands still, and the things that are put into it.

use std::future::{Future, ready};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use gate_cluster::{Cluster, Database};
use gate_core::{
    AgentId, AgentName, Approval, ApprovalId, ApprovalState, Approver, AttemptId, Channel, Charge,
    ChargeId, Clock, CustomerFact, CustomerId, Deadline, Denier, GatewayId, IdempotencyKey, Intent,
    IntentId, OnApproval, PaymentIntentId, State, TeamName, Timestamp, Tool, Valuation, Wanted,
};
use gate_money::{Amount, Currency, MicroUsd, Rate, parse_figure};
use gate_store::{
    AgentBy, AgentRow, AuditEntry, GatewayKeyRow, GatewayRow, IntentBy, Judge, KeyHash, KeyRow,
    MemStore, Nonce, PostgresAddress, PostgresStore, Reads, Scope, Snapshot, SpendWindow,
    SqliteStore, Store, StoreError, WebhookRow, Write,
};
use tempfile::TempDir;

pub(crate) const HOUR: i64 = 3_600_000;
pub(crate) const DAY: i64 = 24 * HOUR;

/// The time, `millis` after the tests' beginning.
pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_790_000_000_000 + millis)
}

/// A clock that stands still until it is set.
pub(crate) struct StillClock {
    now: AtomicI64,
    /// Where a database finds the time that stands still.
    file: Option<PathBuf>,
}

impl StillClock {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { now: AtomicI64::new(at(0).millis()), file: None })
    }

    /// The clock of a database of `cluster`'s: its server reads it instead of its own.
    pub(crate) fn of_database(cluster: &Cluster, database: &Database) -> Arc<Self> {
        let file = cluster.directory().join(&database.name);
        let (name, path) = (&database.name, file.display());
        let shadow = format!(
            "CREATE SCHEMA still;
             CREATE FUNCTION still.clock_timestamp() RETURNS TIMESTAMPTZ LANGUAGE SQL VOLATILE AS
             $$ SELECT TIMESTAMPTZ 'epoch'
                + CAST(pg_read_file('{path}') AS BIGINT) * INTERVAL '1 millisecond' $$;
             ALTER DATABASE {name} SET search_path = still, pg_catalog"
        );
        cluster.sql(name, &shadow);
        let clock = Self { now: AtomicI64::new(0), file: Some(file) };
        clock.set(at(0));
        Arc::new(clock)
    }

    pub(crate) fn set(&self, now: Timestamp) {
        self.now.store(now.millis(), Ordering::SeqCst);
        if let Some(file) = &self.file {
            let half_written = file.with_extension("new");
            std::fs::write(&half_written, now.millis().to_string()).unwrap();
            std::fs::rename(half_written, file).unwrap();
        }
    }
}

impl Clock for StillClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.now.load(Ordering::SeqCst))
    }
    fn uptime(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep_until(&self, _: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(ready(()))
    }
}

/// A judge made of a function.
pub(crate) struct Says<F>(pub(crate) F);

impl<F: Fn(Timestamp, &Snapshot) -> Vec<Write> + Send + Sync> Judge for Says<F> {
    fn judge(&self, now: Timestamp, seen: &Snapshot) -> Vec<Write> {
        (self.0)(now, seen)
    }
}

pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<StillClock>,
    _dir: Option<TempDir>,
}

impl World {
    pub(crate) fn memory() -> Self {
        let clock = StillClock::new();
        Self { store: Arc::new(MemStore::new(clock.clone())), clock, _dir: None }
    }

    pub(crate) fn sqlite() -> Self {
        let (clock, dir) = (StillClock::new(), TempDir::new().unwrap());
        let store = SqliteStore::open(&file_in(&dir), clock.clone()).unwrap();
        Self { store: Arc::new(store), clock, _dir: Some(dir) }
    }

    pub(crate) async fn postgres() -> Self {
        let cluster = Cluster::shared();
        let database = cluster.database();
        let clock = StillClock::of_database(cluster, &database);
        let store = PostgresStore::open(&address(&database)).await.unwrap();
        Self { store: Arc::new(store), clock, _dir: None }
    }

    /// The same, with agents `agt_1` and `agt_2`.
    pub(crate) async fn with_agents(self) -> Self {
        self.write(vec![Write::PutAgent(agent(1)), Write::PutAgent(agent(2))]).await;
        self
    }

    pub(crate) async fn write(&self, writes: Vec<Write>) {
        self.try_write(writes).await.unwrap();
    }

    pub(crate) async fn try_write(&self, writes: Vec<Write>) -> Result<(), StoreError> {
        let judge = Says(move |_, _: &Snapshot| writes.clone());
        self.store.transact(Reads::default(), Arc::new(judge)).await
    }

    pub(crate) async fn read(&self, reads: Reads) -> Snapshot {
        self.store.read(reads).await.unwrap()
    }

    pub(crate) async fn intent(&self, id: &str) -> Option<Intent> {
        self.read(of_intent(id)).await.intent
    }

    /// Everything that can be seen, as text.
    pub(crate) async fn everything(&self) -> String {
        everything(&*self.store).await
    }
}

pub(crate) fn address(database: &Database) -> PostgresAddress {
    PostgresAddress::parse(&database.url).unwrap()
}

pub(crate) fn file_in(dir: &TempDir) -> PathBuf {
    dir.path().join("gate.db")
}

/// Everything that can be seen in a store, as text.
pub(crate) async fn everything(store: &dyn Store) -> String {
    let reads = Reads {
        agents: true,
        intents: Some(gate_store::IntentQuery { limit: 1000, ..Default::default() }),
        policy: true,
        policies: true,
        rates: true,
        gateways: true,
        users: true,
        webhooks: true,
        audit: Some(gate_store::AuditRange::WHOLE),
        books: true,
        ..Reads::default()
    };
    let whole = store.read(reads).await.unwrap();
    let mut text = format!("{whole:?}\n");
    for agent in &whole.agents {
        let by = Some(AgentBy::Name(agent.name.to_string()));
        let reads = Reads { agent: by, policy: true, ..Reads::default() };
        let spent = store.read(reads).await.unwrap().spent;
        text.push_str(&format!("{} spent {spent:?}\n", agent.name));
    }
    text
}

pub(crate) fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(test)
}

/// A webhook that nothing was sent to.
pub(crate) fn webhook(n: u8) -> WebhookRow {
    WebhookRow {
        agent: agent(n).name,
        url: None,
        generation: 1,
        rotated_at: None,
        done_to: 0,
        attempts: 0,
        next_try_at: None,
        failing_since: None,
        disabled_at: None,
        last_try_at: None,
        last_result: None,
        given_up: 0,
    }
}

/// A gateway with its first key.
pub(crate) fn gateway(n: u8) -> GatewayRow {
    GatewayRow {
        id: gateway_id(n),
        name: AgentName::parse(&format!("east-{n}")).unwrap(),
        created_at: at(1),
        revoked_at: None,
        keys: vec![gateway_key(n, 1)],
    }
}

pub(crate) fn gateway_id(n: u8) -> GatewayId {
    GatewayId::parse(&format!("gw_{n}")).unwrap()
}

pub(crate) fn gateway_key(n: u8, version: u32) -> GatewayKeyRow {
    GatewayKeyRow {
        version,
        public_key: [n; 32],
        created_at: at(1),
        expires_at: None,
        last_used_at: None,
    }
}

pub(crate) fn nonce(keyid: &str, nonce: &str) -> Nonce {
    Nonce { keyid: keyid.to_owned(), nonce: nonce.to_owned() }
}

/// How a try ended, for a table's cell.
pub(crate) fn cell(result: Result<(), StoreError>) -> &'static str {
    match result {
        Ok(()) => "done",
        Err(StoreError::Conflict(_)) => "conflict",
        Err(StoreError::Corrupt(_)) => "corrupt",
        Err(StoreError::Full(_)) => "full",
        Err(StoreError::Unavailable(_)) => "unavailable",
    }
}

pub(crate) fn of_intent(id: &str) -> Reads {
    Reads { intent: Some(IntentBy::Id(intent_id(id))), ..Reads::default() }
}

pub(crate) fn of_agent(n: u8) -> Reads {
    Reads { agent: Some(AgentBy::Name(format!("bot-{n}"))), ..Reads::default() }
}

pub(crate) fn agent_id(n: u8) -> AgentId {
    AgentId::parse(&format!("agt_{n}")).unwrap()
}

pub(crate) fn intent_id(id: &str) -> IntentId {
    IntentId::parse(id).unwrap()
}

pub(crate) fn approval_id(id: &str) -> ApprovalId {
    ApprovalId::parse(id).unwrap()
}

pub(crate) fn idempotency_key(key: &str) -> IdempotencyKey {
    IdempotencyKey::parse(key).unwrap()
}

pub(crate) fn agent(n: u8) -> AgentRow {
    AgentRow {
        id: agent_id(n),
        name: AgentName::parse(&format!("bot-{n}")).unwrap(),
        created_at: at(n.into()),
        revoked_at: None,
        sources: Vec::new(),
        keys: vec![key(n)],
    }
}

pub(crate) fn key(n: u8) -> KeyRow {
    KeyRow {
        hash: KeyHash([n; 32]),
        hint: format!("bb_agent_{n}"),
        created_at: at(n.into()),
        expires_at: None,
    }
}

/// An intent of `agt_1` for 10.00 EUR of `ch_1` (`pi_1`), in full, denied by the policy, whose key
/// is its id.
pub(crate) fn intent(id: &str) -> Intent {
    Intent {
        id: intent_id(id),
        agent: agent_id(1),
        agent_name: AgentName::parse("bot-1").unwrap(),
        team: None,
        tool: Tool::StripeRefund,
        key: idempotency_key(id),
        keyless: false,
        wanted: Wanted::Full,
        reason: None,
        charge: ChargeId::parse("ch_1").unwrap(),
        payment_intent: Some(PaymentIntentId::parse("pi_1").unwrap()),
        seen: None,
        amount: Amount::new(1000, Currency::EUR).unwrap(),
        worth: None,
        livemode: false,
        account: None,
        state: State::Denied,
        denied_by: Some(Denier::Policy),
        reasons: Vec::new(),
        policy_version: 1,
        approval: None,
        refund: None,
        failure: None,
        needs_person: false,
        request: None,
        submitted_at: None,
        attempt: AttemptId::parse("att_1").unwrap(),
        fence: 0,
        lease_until: None,
        created_at: at(0),
        updated_at: at(0),
        settled_at: None,
        follow_at: None,
    }
}

/// The same in another state, changed.
pub(crate) fn intent_with(id: &str, state: State, change: impl FnOnce(&mut Intent)) -> Intent {
    let mut intent = intent(id);
    intent.state = state;
    intent.denied_by = None;
    change(&mut intent);
    intent
}

pub(crate) fn approval(id: &str) -> Approval {
    Approval {
        id: approval_id(id),
        state: ApprovalState::Pending,
        approver: Approver::Authority,
        expires_at: at(HOUR),
        digest: "00".to_owned(),
        votes: Vec::new(),
        decided_at: None,
        decided_by: None,
        note: None,
        justifications: Vec::new(),
        on_approval: OnApproval::Execute,
        hold_id: None,
        hold_url: None,
    }
}

pub(crate) fn insert(intent: Intent) -> Write {
    Write::InsertIntent(Box::new(intent))
}

pub(crate) fn update(was: State, intent: Intent) -> Write {
    Write::UpdateIntent { was, intent: Box::new(intent) }
}

pub(crate) fn audit(n: u8) -> Write {
    Write::Audit(AuditEntry {
        at: at(n.into()),
        actor: "agent:agt_1".to_owned(),
        action: "intent.submitted".to_owned(),
        subject: format!("int_{n}"),
        details: format!("{{\"n\":{n}}}"),
        salt: [n; 48],
    })
}

/// A day of an agent's, `ahead` days from the tests' beginning.
pub(crate) fn day(agent: u8, ahead: i64) -> SpendWindow {
    SpendWindow {
        scope: Scope::Agent(agent_id(agent)),
        period: "day".to_owned(),
        starts_at: at(ahead * DAY),
        ends_at: at((ahead + 1) * DAY),
    }
}

pub(crate) fn reserve(id: &str, micros: i64, windows: Vec<SpendWindow>) -> Write {
    Write::Reserve { intent: intent_id(id), usd: MicroUsd::new(micros).unwrap(), windows }
}

pub(crate) fn release(id: &str) -> Write {
    Write::Release(intent_id(id))
}

pub(crate) fn team(name: &str) -> TeamName {
    TeamName::parse(name).unwrap()
}

pub(crate) fn customer(n: u8) -> CustomerId {
    CustomerId::parse(&format!("cus_{n}")).unwrap()
}

pub(crate) fn with_customer(agent: u8, n: u8) -> Scope {
    Scope::Customer { agent: agent_id(agent), customer: customer(n) }
}

/// A charge as it was seen, of a customer; of none, when the number is 0.
pub(crate) fn charge_of(n: u8) -> Option<Box<Charge>> {
    let channel = Channel {
        account: None,
        livemode: false,
        version: "1".to_owned(),
        key: None,
        agent_tagged: false,
    };
    let amount = Amount::new(1000, Currency::EUR).unwrap();
    let charge = Charge::paid(ChargeId::parse("ch_1").unwrap(), amount, channel).unwrap();
    let customer = match n {
        0 => CustomerFact::None,
        1 => CustomerFact::Unreadable { id: customer(1) },
        n => CustomerFact::Known { id: customer(n), created_at: at(0) },
    };
    Some(Box::new(Charge { customer, ..charge }))
}

pub(crate) fn worth(micros: i64) -> Valuation {
    let pin = parse_figure("1.1").unwrap();
    let rate = Rate::pinned(Currency::EUR, pin).unwrap();
    Valuation { usd: MicroUsd::new(micros).unwrap(), rate, date: None }
}

/// The ids of a list, joined.
pub(crate) fn ids(intents: &[Intent]) -> String {
    let ids: Vec<&str> = intents.iter().map(|intent| intent.id.as_str()).collect();
    ids.join(" ")
}
