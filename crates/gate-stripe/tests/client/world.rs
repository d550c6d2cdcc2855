//! What the tests share: a transport that is told its answers, keys, clocks, and Stripe's objects.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use gate_core::{AccountId, Clock, Deadline, Ids, Timestamp};
use gate_http::{Method, Request, Response, Transport, TransportError};
use gate_stripe::{KeySource, StripeClient, StripeConfig, StripeKey};
use serde_json::{Value, json};

pub(crate) const TEST_KEY: &str = "rk_test_canary00WXYZ";
pub(crate) const LIVE_KEY: &str = "rk_live_canary11WXYZ";
pub(crate) const BY: Deadline = Deadline::at(Duration::from_secs(20));

pub(crate) type Answer = Result<Response, TransportError>;

/// Answers in the order it was told, and keeps what it was asked.
#[derive(Default)]
pub(crate) struct Told {
    answers: Mutex<VecDeque<Answer>>,
    pub(crate) asked: Mutex<Vec<Request>>,
}

#[async_trait]
impl Transport for Told {
    async fn send(&self, request: Request, _: Deadline) -> Answer {
        let line = line(&request);
        self.asked.lock().unwrap().push(request);
        let answer = self.answers.lock().unwrap().pop_front();
        answer.unwrap_or_else(|| panic!("no answer to {line}"))
    }
}

impl Told {
    pub(crate) fn answering(answers: Vec<Answer>) -> Arc<Self> {
        Arc::new(Self { answers: Mutex::new(answers.into()), asked: Mutex::default() })
    }

    pub(crate) fn tell(&self, answers: Vec<Answer>) {
        self.answers.lock().unwrap().extend(answers);
    }

    /// What was asked since the last time, as `GET /path?query`; all answers must be used up.
    pub(crate) fn lines(&self) -> Vec<String> {
        assert!(self.answers.lock().unwrap().is_empty(), "answers are left");
        self.asked.lock().unwrap().drain(..).map(|r| line(&r)).collect()
    }
}

fn line(request: &Request) -> String {
    let verb = match request.method {
        Method::Get => "GET",
        Method::Post => "POST",
    };
    let path = request.url.replace("https://api.stripe.com", "");
    format!("{verb} {path}").replace("%5B%5D", "[]")
}

/// A key that can be changed.
pub(crate) struct Key(pub(crate) Mutex<Option<StripeKey>>);

impl Key {
    pub(crate) fn of(text: Option<&str>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(text.map(|text| StripeKey::parse(text).unwrap()))))
    }

    pub(crate) fn change(&self, text: &str) {
        *self.0.lock().unwrap() = Some(StripeKey::parse(text).unwrap());
    }
}

impl KeySource for Key {
    fn key(&self) -> Option<StripeKey> {
        self.0.lock().unwrap().clone()
    }
}

/// A clock that stands still until somebody sleeps, and then is there at once.
#[derive(Default)]
pub(crate) struct JumpClock(Mutex<Duration>);

impl Clock for JumpClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(0).after(self.uptime())
    }
    fn uptime(&self) -> Duration {
        *self.0.lock().unwrap()
    }
    fn sleep_until(&self, at: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut now = self.0.lock().unwrap();
        *now = at.uptime().max(*now);
        Box::pin(std::future::ready(()))
    }
}

pub(crate) struct SameBytes;

impl Ids for SameBytes {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

pub(crate) fn account() -> AccountId {
    AccountId::parse("acct_1").unwrap()
}

pub(crate) fn client(
    transport: Arc<Told>,
    key: Arc<Key>,
    account: Option<AccountId>,
) -> StripeClient {
    let config = StripeConfig { account, ..StripeConfig::default() };
    StripeClient::new(transport, Arc::new(JumpClock::default()), config, key)
}

pub(crate) fn says(status: u16, body: &Value) -> Answer {
    raw(status, &[], body.to_string().as_bytes())
}

pub(crate) fn raw(status: u16, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let headers = headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
    Ok(Response { status, headers: headers.collect(), body: body.to_vec() })
}

pub(crate) fn forbidden() -> Answer {
    problem(
        403,
        json!({"type": "invalid_request_error", "message":
        "The provided key 'rk_test_***WXYZ' does not have the required permissions."}),
    )
}

pub(crate) fn problem(status: u16, error: Value) -> Answer {
    says(status, &json!({ "error": error }))
}

/// `object` with some fields changed.
pub(crate) fn with(mut object: Value, changes: Value) -> Value {
    let Value::Object(changes) = changes else { panic!("no object") };
    object.as_object_mut().unwrap().extend(changes);
    object
}

/// A captured charge of 10.00 EUR, with a customer, as Stripe would send it unexpanded.
pub(crate) fn charge(changes: Value) -> Value {
    with(
        json!({
            "id": "ch_1", "object": "charge", "amount": 1000, "amount_captured": 1000,
            "amount_refunded": 0, "captured": true, "created": 1700, "currency": "eur",
            "customer": "cus_1", "disputed": false, "livemode": false, "paid": true,
            "payment_intent": "pi_1", "refunded": false, "status": "succeeded",
            "something_new": {"nested": [1, null]}
        }),
        changes,
    )
}

pub(crate) fn customer() -> Value {
    json!({"id": "cus_1", "object": "customer", "created": 1600, "email": "canary@example.com"})
}

pub(crate) fn payment_intent(status: &str, latest_charge: Value) -> Value {
    json!({"id": "pi_1", "object": "payment_intent", "status": status, "latest_charge": latest_charge})
}

pub(crate) fn refund(id: &str, intent: Option<&str>) -> Value {
    let metadata = intent.map_or(json!({}), |intent| json!({"burnbound_intent": intent}));
    json!({"id": id, "object": "refund", "amount": 300, "charge": "ch_1", "created": 1800,
        "currency": "eur", "metadata": metadata, "status": "succeeded"})
}

pub(crate) fn list(data: Vec<Value>, has_more: bool) -> Value {
    json!({"object": "list", "data": data, "has_more": has_more, "url": "/v1/…"})
}
