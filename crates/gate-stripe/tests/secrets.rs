//! No key leaves in a message, a log line or a `Debug`, whatever Stripe answers.
//!
//! One test in a process of its own: who listens to log lines is decided once per process.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::panic,
    clippy::unwrap_used,
    dead_code,
    reason = "tests unwrap and compute freely, name traits by `as`, and share helpers"
)]

#[path = "client/authority.rs"]
mod authority;
#[path = "client/world.rs"]
mod world;

use std::io;
use std::sync::{Arc, Mutex};

use gate_api::connector::{Connector, parse_customers};
use gate_core::{Channel, ChargeId, Processor, Target};
use gate_http::TransportError;
use gate_stripe::{KeySource, StripeReads};
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::authority::attempt;
use crate::world::{
    Answer, BY, Key, TEST_KEY, Told, account, charge, client, forbidden, list, problem, raw,
    refund, says,
};

/// What every secret, and the customer's address, has in it.
const CANARY: &str = "canary";

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Answers that repeat the key, as Stripe's own do with masked ones.
fn answers() -> Vec<Answer> {
    let echo = |status| {
        let message = format!("The key '{TEST_KEY}' may not, Bearer {TEST_KEY}");
        problem(status, json!({"type": "invalid_request_error", "code": "new", "message": message}))
    };
    let mut answers: Vec<Answer> = [400, 401, 402, 403, 404, 409, 424, 429, 500].map(echo).into();
    answers
        .push(says(200, &charge(json!({"amount": TEST_KEY, "customer": {"email": "canary@x"}}))));
    answers.push(says(200, &refund("re_1", Some("int_1"))));
    answers.push(raw(200, &[("request-id", TEST_KEY)], TEST_KEY.as_bytes()));
    answers.push(Err(TransportError::TimedOut));
    answers
}

#[tokio::test]
async fn no_key_is_shown_and_a_missing_permission_is_told_once() {
    let lines = Lines::default();
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(lines.clone())
        .init();
    no_key_is_ever_shown(&lines).await;
    a_missing_permission_is_told_once(&lines).await;
    no_keyword_and_no_row_is_logged(&lines).await;
}

impl Lines {
    /// What was logged since the last time.
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
    }
}

async fn no_key_is_ever_shown(lines: &Lines) {
    let mut shown = String::new();
    for answer in answers() {
        let key = Key::of(Some(TEST_KEY));
        shown.push_str(&format!("{:?}\n", key.key()));
        // A 403 is asked again without the customer.
        let again = vec![answer.clone(), answer.clone()];
        let transport = Told::answering(again);
        let reading = client(transport.clone(), key.clone(), Some(account()));
        let target = Target::parse("ch_1").unwrap();
        shown.push_str(&format!("{:?}\n", reading.charge(&target, BY).await));
        shown.push_str(&format!("{:?}\n", transport.asked.lock().unwrap()));
        let reading = client(Told::answering(vec![answer.clone()]), key.clone(), None);
        let charge = ChargeId::parse("ch_1").unwrap();
        shown.push_str(&format!("{:?}\n", reading.refunds_of(&charge, BY).await));
        let transport = Told::answering(vec![answer]);
        let sending = client(transport.clone(), key, None);
        let channel = Channel {
            account: None,
            livemode: false,
            version: "v".to_owned(),
            key: None,
            agent_tagged: false,
        };
        shown.push_str(&format!("{:?}\n", attempt(sending, channel).await));
        shown.push_str(&format!("{:?}\n", transport.asked.lock().unwrap()));
    }
    let logged = lines.take();
    assert!(logged.contains("asked Stripe") && logged.contains("sent a refund"), "{logged}");
    for text in [shown, logged] {
        assert!(!text.contains(CANARY) && !text.contains("WXYZ"), "{text}");
    }
}

/// What a key may not read is said in the log once, and then not again until the key changes.
async fn a_missing_permission_is_told_once(lines: &Lines) {
    let plain = || says(200, &charge(json!({})));
    let transport = Told::answering(vec![forbidden(), plain(), plain(), forbidden(), plain()]);
    let key = Key::of(None);
    let client = client(transport, key.clone(), None);
    for (text, warnings) in [(TEST_KEY, 1), (TEST_KEY, 0), ("sk_test_another", 1)] {
        key.change(text);
        let target = Target::parse("ch_1").unwrap();
        client.charge(&target, BY).await.unwrap();
        let logged = lines.take();
        let count = logged.matches("may not read customers").count();
        assert_eq!(count, warnings, "{logged}");
    }
}

/// What staff search for and find stays between them and Stripe.
async fn no_keyword_and_no_row_is_logged(lines: &Lines) {
    let customer = json!({"id": "cus_1", "created": 0, "name": CANARY, "email": "canary@x"});
    let found = says(200, &list(vec![customer], false));
    let unreadable = says(200, &list(vec![json!({"id": "cus_1", "name": CANARY})], false));
    let transport = Told::answering(vec![found, unreadable, raw(500, &[], b"canary")]);
    let client = Arc::new(client(transport, Key::of(Some("rk_test_1")), None));
    let reads = StripeReads::new(client);
    let ask = parse_customers(br#"{"keyword":"canary"}"#).unwrap();
    let outcomes = [
        reads.customers(&ask, BY).await,
        reads.customers(&ask, BY).await,
        reads.customers(&ask, BY).await,
    ];
    assert_eq!(outcomes.map(|outcome| outcome.is_ok()), [true, false, false]);
    let logged = lines.take();
    assert!(logged.contains("/v1/customers/search") && logged.contains("could not be read"));
    assert!(!logged.contains(CANARY), "{logged}");
}
