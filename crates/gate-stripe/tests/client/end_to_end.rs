//! The client over the shipped transport and real sockets.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use gate_core::{ChargeId, Clock, Deadline, Processor, State, Timestamp};
use gate_http::HyperTransport;
use gate_stripe::{StripeClient, StripeConfig};
use httpmock::MockServer;
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::authority::{FORM, ask};
use crate::world::{Key, TEST_KEY, account, charge, list, refund};

/// The runtime's own clock.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::default()
    }
    fn uptime(&self) -> Duration {
        self.0.elapsed()
    }
    fn sleep_until(&self, at: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(sleep_until(self.0 + at.uptime()))
    }
}

fn client(server: &MockServer) -> (StripeClient, Deadline) {
    let clock = Arc::new(TokioClock(Instant::now()));
    let by = clock.deadline(Duration::from_secs(20));
    let transport = HyperTransport::new(Arc::clone(&clock) as Arc<dyn Clock>);
    let config = StripeConfig {
        api_base: format!("{}/", server.base_url()),
        account: Some(account()),
        ..StripeConfig::default()
    };
    let client = StripeClient::new(Arc::new(transport), clock, config, Key::of(Some(TEST_KEY)));
    (client, by)
}

#[tokio::test]
async fn a_refund_from_asking_to_settling() {
    let server = MockServer::start_async().await;
    let read = server
        .mock_async(|when, then| {
            when.method("GET")
                .path("/v1/charges/ch_1")
                .query_param("expand[]", "customer")
                .header("stripe-account", "acct_1");
            then.status(200).json_body(charge(json!({})));
        })
        .await;
    let made = server
        .mock_async(|when, then| {
            when.method("POST")
                .path("/v1/refunds")
                .header("authorization", format!("Bearer {TEST_KEY}"))
                .header("content-type", "application/x-www-form-urlencoded")
                .header("content-length", FORM.len().to_string())
                .header("idempotency-key", "bb_int_1")
                .header("stripe-account", "acct_1")
                .header("stripe-version", "2025-09-30.clover")
                .body(FORM);
            then.status(200).json_body(refund("re_1", Some("int_1")));
        })
        .await;
    let (client, _) = client(&server);
    assert_eq!(ask(Arc::new(client)).await, State::Settled);
    read.assert_calls_async(1).await;
    made.assert_calls_async(1).await;
}

#[tokio::test]
async fn a_refund_that_stripe_refuses_is_looked_for_and_fails() {
    let server = MockServer::start_async().await;
    server
        .mock_async(|when, then| {
            when.method("GET").path("/v1/charges/ch_1");
            then.status(200).json_body(charge(json!({})));
        })
        .await;
    let refused = server
        .mock_async(|when, then| {
            when.method("POST").path("/v1/refunds");
            then.status(400).json_body(json!({"error":
                {"type": "invalid_request_error", "code": "charge_disputed"}}));
        })
        .await;
    let looked = server
        .mock_async(|when, then| {
            when.method("GET").path("/v1/refunds").query_param("charge", "ch_1");
            then.status(200).json_body(list(Vec::new(), false));
        })
        .await;
    let (client, _) = client(&server);
    assert_eq!(ask(Arc::new(client)).await, State::Failed);
    refused.assert_calls_async(1).await;
    looked.assert_calls_async(1).await;
}

#[tokio::test]
async fn pages_are_joined() {
    let server = MockServer::start_async().await;
    let first = server
        .mock_async(|when, then| {
            when.method("GET")
                .path("/v1/refunds")
                .query_param("charge", "ch_1")
                .query_param("limit", "100")
                .query_param_missing("starting_after");
            then.status(200)
                .json_body(list(vec![refund("re_1", None), refund("re_2", None)], true));
        })
        .await;
    let second = server
        .mock_async(|when, then| {
            when.method("GET").path("/v1/refunds").query_param("starting_after", "re_2");
            then.status(200).json_body(list(vec![refund("re_3", Some("int_1"))], false));
        })
        .await;
    let (client, by) = client(&server);
    let refunds = client.refunds_of(&ChargeId::parse("ch_1").unwrap(), by).await.unwrap();
    let ids: Vec<_> = refunds.iter().map(|listed| listed.refund.id.as_str()).collect();
    assert_eq!(ids, ["re_1", "re_2", "re_3"]);
    let facts = refunds.first().map(|first| (first.minor, first.created_at.millis()));
    assert_eq!(facts, Some((300, 1_800_000)));
    first.assert_calls_async(1).await;
    second.assert_calls_async(1).await;
}
