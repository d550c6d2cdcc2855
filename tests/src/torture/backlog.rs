//! A restart with many open refunds: how soon the gateway is ready, how soon a new refund is made
//! beside them, and how soon every one of them is repaired.
//!
//! The open refunds are the embedded authority's own: each was decided and submitted in the store
//! that the gateway is then started over, by a worker that is gone.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use gate_authority::{AuthorityConfig, LocalAuthority};
use gate_core::{
    AgentKey, Ask, AttemptId, Authority, Channel, Charge, ChargeId, Clock, IdempotencyKey, Ids,
    State, Target, Wanted,
};
use gate_money::{Amount, Currency};
use gate_server::system::{SystemClock, SystemIds};
use gate_store::{IntentQuery, Reads, SqliteStore, Store};
use serde_json::json;

use crate::asks::REFUND;
use crate::http::{post, read};
use crate::now;
use crate::process::Product;
use crate::stripe::Stripe;
use crate::world::variables;

/// What a refund is for, in cents, so that no cap is met.
const CENTS: i64 = 100;
const POLICY: &str = r#"[agents.bot]
methods = ["stripe_refund"]
allowed_hosts = ["stripe-refund.action"]
daily_cap = "1000000.00"
"#;
/// How soon the gateway has to be ready.
const READY_MAX: Duration = Duration::from_secs(5);
/// How long the repair of all may take.
const REPAIR_MAX: Duration = Duration::from_secs(900);

/// Measures a restart with `open` refunds under way.
///
/// # Errors
///
/// When a server or a request fails, the gateway is not ready in time, or a refund is made twice or
/// not at all.
pub(crate) fn run(binary: &Path, open: u32) -> Result<String, String> {
    let home = tempfile::tempdir().map_err(|error| format!("cannot make a directory: {error}"))?;
    let path = |name: &str| home.path().join(name);
    let mut product =
        Product { binary: binary.to_owned(), variables: Vec::new(), log: path("log") };
    let (_sandbox, stripe) = product.serve(&["stripe-sandbox", "--port", "0"])?;
    product.variables = variables(stripe, &path("data"));
    Product::write(&path("policy.toml"), POLICY)?;
    product.done(&["policy", "apply", &path("policy.toml").display().to_string()])?;
    let made = product.run(&["agent", "create", "bot", "--json"])?;
    let key = made["key"].as_str().unwrap_or_default().to_owned();

    let begun = now();
    for n in 0..=open {
        let charge = json!({ "id": charge_id(n), "amount": CENTS, "currency": "usd" });
        Stripe(stripe).control("POST", "/_sandbox/charges", &charge)?;
    }
    let runtime = tokio::runtime::Runtime::new().map_err(|error| error.to_string())?;
    let database = path("data").join("gateway.db");
    runtime.block_on(submit(&database, &key, open))?;
    let prepared = begun.elapsed();

    let begun = now();
    let (_gateway, at) = product.serve(&["serve", "--port", "0"])?;
    while read(at, "/readyz", "").is_none_or(|answer| answer.status != 200) {
        if begun.elapsed() > READY_MAX {
            return Err(format!("not ready after {} s", READY_MAX.as_secs()));
        }
    }
    let ready = begun.elapsed();
    let beside = refund_beside(at, &key, open)?;
    let repaired = runtime.block_on(repaired(&database, begun))?;

    let refunds = Stripe(stripe).refunds()?.len();
    if refunds != open as usize + 1 {
        return Err(format!("{refunds} refunds at Stripe instead of {}", open + 1));
    }
    let ms = |span: Duration| span.as_millis();
    Ok(format!(
        "open refunds left behind     {open:>9}   (prepared in {} ms)\n\
         ready after                  {:>9} ms\n\
         a new refund, right then     {:>9} ms\n\
         all repaired after           {:>9} ms\n\
         refunds at Stripe            {refunds:>9}   one each",
        ms(prepared),
        ms(ready),
        ms(beside),
        ms(repaired),
    ))
}

fn charge_id(n: u32) -> String {
    format!("ch_open{n}")
}

/// Has the authority decide and submit `open` refunds, under leases that end at once.
async fn submit(database: &Path, key: &str, open: u32) -> Result<(), String> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let ids: Arc<dyn Ids> = Arc::new(SystemIds::default());
    let store = SqliteStore::open(database, Arc::clone(&clock)).map_err(|e| e.to_string())?;
    let config = AuthorityConfig { lease: Duration::from_millis(1), ..AuthorityConfig::default() };
    let store: Arc<dyn Store> = Arc::new(store);
    let authority = LocalAuthority::new(store, Arc::clone(&clock), Arc::clone(&ids), config);
    let key = AgentKey::new(key.to_owned());
    let channel = Channel {
        account: None,
        livemode: false,
        version: "2025-09-30.clover".to_owned(),
        key: None,
        agent_tagged: false,
    };
    let submit = async |n: u32| -> Result<(), String> {
        let said = |error: &dyn std::fmt::Display| error.to_string();
        let amount = Amount::new(CENTS, Currency::USD).map_err(|e| said(&e))?;
        let id = ChargeId::parse(&charge_id(n)).map_err(|e| said(&e))?;
        let charge = Charge::paid(id, amount, channel.clone()).map_err(|e| said(&e))?;
        let ask = Ask {
            key: IdempotencyKey::parse(&format!("open-{n}")).ok(),
            ..Ask::new(Target::Charge(charge.id.clone()), Wanted::Full)
        };
        let attempt = AttemptId::make(clock.now(), ids.as_ref());
        let decided = authority.decide(&key, &ask, &charge, &attempt).await;
        let intent = decided.map_err(|e| said(&e))?.intent;
        if intent.state != State::Submitted {
            return Err(format!("{} is {}", intent.id, intent.state.as_str()));
        }
        Ok(())
    };
    let numbers: Vec<u32> = (0..open).collect();
    for some in numbers.chunks(256) {
        join_all(some.iter().map(|n| submit(*n))).await.into_iter().collect::<Result<(), _>>()?;
    }
    Ok(())
}

/// Asks for one more refund while the others are being repaired.
fn refund_beside(at: SocketAddr, key: &str, open: u32) -> Result<Duration, String> {
    let begun = now();
    let body = json!({ "target": charge_id(open), "idempotencyKey": "beside" });
    let answer = post(at, REFUND, key, &body).ok_or("no answer to a refund")?;
    if answer.text("/status") != "refunded" {
        return Err(format!("a refund beside the others: {}", answer.json));
    }
    Ok(begun.elapsed())
}

/// Waits until nothing is submitted any more.
async fn repaired(database: &Path, begun: Instant) -> Result<Duration, String> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let store = SqliteStore::open(database, clock).map_err(|error| error.to_string())?;
    let mut changes = store.changes();
    loop {
        changes.mark();
        let query =
            IntentQuery { state: Some(State::Submitted), limit: 1, ..IntentQuery::default() };
        let reads = Reads { intents: Some(query), ..Reads::default() };
        let seen = store.read(reads).await.map_err(|error| error.to_string())?;
        if seen.intents.is_empty() {
            return Ok(begun.elapsed());
        }
        if begun.elapsed() > REPAIR_MAX {
            return Err(format!("not repaired after {} s", REPAIR_MAX.as_secs()));
        }
        changes.changed().await;
    }
}
