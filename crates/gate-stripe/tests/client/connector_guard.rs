//! The guard before reads for staff: what reaches Stripe, and that a refund goes through whatever
//! becomes of the reads.

use std::sync::Arc;
use std::time::Duration;

use gate_api::connector::{Connector, ConnectorError};
use gate_core::{Clock, Processor, State};
use gate_stripe::StripeReads;
use serde_json::json;

use crate::authority;
use crate::sandboxed::{Bench, order};
use crate::world::{BY, Key, TEST_KEY, Told, client, raw};

fn refundable(bench: &Bench) {
    bench.order("charges", &json!({"id": "ch_1", "amount": 1000, "currency": "eur"}));
}

async fn refund(bench: &Bench) -> State {
    authority::ask(Arc::clone(&bench.client) as Arc<dyn Processor>).await
}

#[tokio::test]
async fn five_hundred_reads_do_not_starve_a_refund() {
    let bench = Bench::new();
    refundable(&bench);
    let (mut answered, mut busy, mut state) = (0, 0, None);
    for call in 0..500 {
        match bench.reads.balance(bench.by()).await {
            Ok(_) => answered += 1,
            Err(ConnectorError::Busy { after }) => {
                assert!(after > Duration::ZERO && after <= Duration::from_secs(60));
                busy += 1;
            }
            Err(error) => panic!("{error:?}"),
        }
        if call == 300 {
            let before = bench.clock.uptime();
            state = Some(refund(&bench).await);
            assert_eq!(bench.clock.uptime(), before, "nothing was waited for");
        }
    }
    assert_eq!((answered, busy), (120, 380));
    assert_eq!(bench.received("/v1/balance"), 120);
    assert_eq!(state, Some(State::Settled));
    // Ten a second: twelve times ten take eleven pauses.
    assert_eq!(bench.clock.uptime(), Duration::from_secs(11));
    // A minute after the first ten there are ten more, and not eleven without another second.
    let error = bench.reads.balance(bench.by()).await.unwrap_err();
    assert_eq!(error, ConnectorError::Busy { after: Duration::from_secs(49) });
    bench.wait(error).await;
    for _ in 0..10 {
        bench.reads.balance(bench.by()).await.unwrap();
    }
    assert_eq!(bench.clock.uptime(), Duration::from_secs(60));
}

/// As many reads as are let through, however patiently everybody waits, stay below the limits that
/// Stripe publishes, with room for refunds.
#[tokio::test]
async fn stripes_own_limits_are_never_reached() {
    let bench = Bench::with_limit(600);
    refundable(&bench);
    bench.order("seed", &json!({"payments": 50, "customers": 50}));
    bench.order("settings", &json!({"rateLimits": true}));
    let mut calls = 0;
    while calls < 600 {
        let found = match calls % 30 {
            0..15 => bench.customers(&json!({"keyword": "customer"})).await.map(|_| ()),
            15..25 => bench.payments(&json!({})).await.map(|_| ()),
            _ => bench.reads.balance(bench.by()).await.map(|_| ()),
        };
        match found {
            Ok(()) => calls += 1,
            Err(error @ ConnectorError::Busy { .. }) => bench.wait(error).await,
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(refund(&bench).await, State::Settled);
    assert_eq!(bench.clock.uptime(), Duration::from_secs(59));
}

#[tokio::test]
async fn three_failures_pause_reads_and_no_refund() {
    for kind in ["status_500_stored", "reset", "malformed"] {
        let bench = Bench::new();
        refundable(&bench);
        bench.order("faults", &json!({"path": "/v1/balance", "kind": kind, "times": 4}));
        for _ in 0..3 {
            let error = bench.reads.balance(bench.by()).await.unwrap_err();
            let failed = [ConnectorError::Unavailable, ConnectorError::Unreadable];
            assert!(failed.contains(&error), "{kind}: {error:?}");
        }
        let paused = ConnectorError::Paused { after: Duration::from_secs(60) };
        for _ in 0..5 {
            assert_eq!(bench.payments(&json!({})).await.unwrap_err(), paused, "{kind}");
        }
        assert_eq!(bench.received("/v1/payment_intents"), 0);
        assert_eq!(refund(&bench).await, State::Settled, "{kind}");
        // The trial fails once more, and the next one does not.
        bench.wait(paused.clone()).await;
        assert!(bench.reads.balance(bench.by()).await.is_err());
        assert_eq!(bench.payments(&json!({})).await.unwrap_err(), paused, "{kind}");
        bench.wait(paused).await;
        for _ in 0..3 {
            bench.reads.balance(bench.by()).await.unwrap();
        }
        assert_eq!(bench.received("/v1/balance"), 4 + 3);
    }
}

#[tokio::test]
async fn failures_of_refunds_and_refusals_pause_nothing() {
    let bench = Bench::new();
    refundable(&bench);
    bench.order(
        "keys",
        &json!({"key": "rk_test_bench", "permissions":
        {"charges": "read", "refunds": "write", "balance": "read"}}),
    );
    bench.order("faults", &json!({"path": "/v1/charges/*", "kind": "reset", "times": 9}));
    for _ in 0..5 {
        let target = gate_core::Target::parse("ch_1").unwrap();
        let by = bench.by();
        assert!(bench.client.charge(&target, by).await.is_err());
        let error = bench.disputes(&json!({})).await.unwrap_err();
        assert!(matches!(error, ConnectorError::Permission { .. }), "{error:?}");
    }
    bench.reads.balance(bench.by()).await.unwrap();
}

#[tokio::test]
async fn a_429_pauses_reads_until_it_is_over() {
    let bench = Bench::new();
    bench.before_each(|sandbox| {
        let fault = json!({"path": "/v1/disputes", "kind": "status_429", "times": 1});
        order(sandbox, "faults", &fault);
    });
    let paused = ConnectorError::Paused { after: Duration::from_secs(60) };
    assert_eq!(bench.disputes(&json!({})).await, Err(paused.clone()));
    bench.before_each(|_| {});
    assert_eq!(bench.reads.balance(bench.by()).await.unwrap_err(), paused);
    bench.wait(paused).await;
    bench.reads.balance(bench.by()).await.unwrap();
}

#[tokio::test]
async fn stripe_says_how_long_to_wait() {
    let told = Told::answering(vec![raw(429, &[("Retry-After", "7")], b"{}")]);
    let client = Arc::new(client(told, Key::of(Some(TEST_KEY)), None));
    let reads = StripeReads::new(client);
    let paused = ConnectorError::Paused { after: Duration::from_secs(7) };
    // The first is told by Stripe, the second by the guard.
    assert_eq!(reads.balance(BY).await, Err(paused.clone()));
    assert_eq!(reads.balance(BY).await, Err(paused));
}
