//! How many refunds a second a store takes: two transactions each, as the authority makes them.
//!
//! `cargo run --release -p gate-store --example throughput -- PLACE CALLERS SECONDS`, where `PLACE`
//! is the path of a new SQLite file or the address of an empty PostgreSQL database.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::unwrap_used,
    missing_docs,
    reason = "a measurement, not the product"
)]

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use gate_core::{
    AgentId, AgentName, AttemptId, ChargeId, Clock, Deadline, IdempotencyKey, Intent, IntentId,
    State, Timestamp, Tool, Wanted,
};
use gate_money::{Amount, Currency, MicroUsd};
use gate_store::{
    AgentBy, AgentRow, AuditEntry, IntentBy, Judge, PostgresAddress, PostgresStore, Prior, Reads,
    Scope, Snapshot, SpendWindow, SqliteStore, Store, Write,
};

/// Time since the example began.
struct Running(Instant);

impl Clock for Running {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_790_000_000_000).after(self.uptime())
    }
    fn uptime(&self) -> Duration {
        self.0.elapsed()
    }
    fn sleep_until(&self, _: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::pending())
    }
}

fn agent(n: usize) -> AgentRow {
    AgentRow {
        id: AgentId::parse(&format!("agt_{n}")).unwrap(),
        name: AgentName::parse(&format!("bot-{n}")).unwrap(),
        created_at: Timestamp::from_millis(0),
        revoked_at: None,
        sources: Vec::new(),
        keys: Vec::new(),
    }
}

fn intent(id: &str, agent: AgentRow, now: Timestamp) -> Intent {
    Intent {
        id: IntentId::parse(id).unwrap(),
        agent: agent.id,
        agent_name: agent.name,
        team: None,
        tool: Tool::StripeRefund,
        seen: None,
        key: IdempotencyKey::parse(id).unwrap(),
        keyless: false,
        wanted: Wanted::Full,
        reason: None,
        charge: ChargeId::parse("ch_1").unwrap(),
        payment_intent: None,
        amount: Amount::new(1000, Currency::EUR).unwrap(),
        worth: None,
        livemode: false,
        account: None,
        state: State::Submitted,
        denied_by: None,
        reasons: Vec::new(),
        policy_version: 1,
        approval: None,
        refund: None,
        failure: None,
        needs_person: false,
        request: None,
        submitted_at: Some(now),
        attempt: AttemptId::parse("att_1").unwrap(),
        fence: 1,
        lease_until: Some(now),
        created_at: now,
        updated_at: now,
        settled_at: None,
        follow_at: None,
    }
}

fn entry(now: Timestamp, action: &str, id: &str) -> Write {
    Write::Audit(AuditEntry {
        at: now,
        actor: "gateway".to_owned(),
        action: action.to_owned(),
        subject: id.to_owned(),
        details: "{\"amount\":\"10.00\",\"currency\":\"EUR\"}".to_owned(),
        salt: [7; 48],
    })
}

/// Decides: reads what a decision reads, reserves, records.
struct Decides(String);

impl Judge for Decides {
    fn judge(&self, now: Timestamp, seen: &Snapshot) -> Vec<Write> {
        let Some(agent) = seen.agent.clone() else { return Vec::new() };
        let day = SpendWindow {
            scope: Scope::Agent(agent.id.clone()),
            period: "day".to_owned(),
            starts_at: Timestamp::from_millis(0),
            ends_at: Timestamp::from_millis(4_000_000_000_000),
        };
        let intent = intent(&self.0, agent, now);
        let (id, usd) = (intent.id.clone(), MicroUsd::new(1).unwrap());
        vec![
            Write::InsertIntent(Box::new(intent)),
            Write::Reserve { intent: id, usd, windows: vec![day] },
            entry(now, "intent.submitted", &self.0),
        ]
    }
}

/// Records that the refund was made.
struct Settles(String);

impl Judge for Settles {
    fn judge(&self, now: Timestamp, seen: &Snapshot) -> Vec<Write> {
        let Some(intent) = seen.intent.clone() else { return Vec::new() };
        let settled = Intent { state: State::Settled, settled_at: Some(now), ..intent };
        let intent = Box::new(settled);
        vec![
            Write::UpdateIntent { was: State::Submitted, intent },
            entry(now, "intent.settled", &self.0),
        ]
    }
}

async fn refund(store: &dyn Store, agent: usize, id: String) {
    let reads = Reads {
        agent: Some(AgentBy::Name(format!("bot-{agent}"))),
        prior: Some(Prior::Key(IdempotencyKey::parse(&id).unwrap())),
        policy: true,
        rates: true,
        ..Reads::default()
    };
    store.transact(reads, Arc::new(Decides(id.clone()))).await.unwrap();
    let by = IntentBy::Id(IntentId::parse(&id).unwrap());
    let reads = Reads { intent: Some(by), ..Reads::default() };
    store.transact(reads, Arc::new(Settles(id))).await.unwrap();
}

async fn measure(store: &dyn Store, round: &str, agents: usize, callers: usize, span: Duration) {
    let begun = Instant::now();
    let caller = async |caller: usize| {
        let mut times = Vec::new();
        while begun.elapsed() < span {
            let (n, started) = (times.len(), Instant::now());
            refund(store, caller % agents, format!("int_{round}_{caller}_{n}")).await;
            times.push(started.elapsed());
        }
        times
    };
    let times = join_all((0..callers).map(caller)).await;
    let took = begun.elapsed();
    let mut times: Vec<Duration> = times.into_iter().flatten().collect();
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    let millis = took.as_millis().max(1);
    let rate = u128::try_from(times.len()).unwrap() * 1000 / millis;
    println!(
        "{round}: {callers} callers, {agents} agents: {rate} refunds/s, {} transactions/s; a \
         refund takes {:?} (p50), {:?} (p99)",
        rate * 2,
        at(50),
        at(99)
    );
}

#[tokio::main]
async fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [place, callers, seconds] = given.as_slice() else {
        println!("say PLACE CALLERS SECONDS");
        return;
    };
    let store: Arc<dyn Store> = if PostgresAddress::is_meant_by(place) {
        let address = PostgresAddress::parse(place).unwrap();
        Arc::new(PostgresStore::open(&address).await.unwrap())
    } else {
        let clock = Arc::new(Running(Instant::now()));
        Arc::new(SqliteStore::open(Path::new(place), clock).unwrap())
    };
    let (callers, span) = (callers.parse().unwrap(), Duration::from_secs(seconds.parse().unwrap()));
    let agents = (0..callers).map(|n| Write::PutAgent(agent(n))).collect();
    store.transact(Reads::default(), Arc::new(Puts(agents))).await.unwrap();
    measure(&*store, "alone", 1, 1, span).await;
    measure(&*store, "apart", callers, callers, span).await;
    measure(&*store, "hot", 1, callers, span).await;
}

struct Puts(Vec<Write>);

impl Judge for Puts {
    fn judge(&self, _: Timestamp, _: &Snapshot) -> Vec<Write> {
        self.0.clone()
    }
}
