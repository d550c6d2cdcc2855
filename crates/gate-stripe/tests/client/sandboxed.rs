//! The sandbox in place of the network, for reads that page through much.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use gate_api::connector::{
    Connector, ConnectorError, CustomersView, DisputesView, PaymentsView, parse_customers,
    parse_disputes, parse_payments,
};
use gate_core::{Clock, Deadline};
use gate_http::{Method, Request, Response, Transport, TransportError};
use gate_sandbox::{Delivery, Sandbox};
use gate_stripe::{CALLS_PER_MINUTE, StripeClient, StripeConfig, StripeReads};
use serde_json::{Value, json};

use crate::world::{JumpClock, Key};

/// Friday 30 October 2026, noon, in seconds.
pub(crate) const NOON: i64 = 1_793_361_600;

type Action = Box<dyn FnMut(&mut Sandbox) + Send>;

/// Stripe, and what is done to it before each call that reaches it.
pub(crate) struct Stripe {
    sandbox: Mutex<Sandbox>,
    before: Mutex<Action>,
    clock: Arc<JumpClock>,
}

#[async_trait]
impl Transport for Stripe {
    async fn send(&self, request: Request, _: Deadline) -> Result<Response, TransportError> {
        let mut sandbox = self.sandbox.lock().unwrap();
        self.before.lock().unwrap()(&mut sandbox);
        let path = request.url.replace("https://api.stripe.com", "");
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        let headers = request.headers.iter();
        let asked = gate_sandbox::Request {
            method: if request.method == Method::Get { "GET" } else { "POST" }.to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            headers: headers.map(|(n, v)| ((*n).to_owned(), v.expose().to_owned())).collect(),
            body: request.body,
        };
        let passed_ms = i64::try_from(self.clock.uptime().as_millis()).unwrap();
        let reply = sandbox.handle(NOON * 1000 + passed_ms, &asked);
        match reply.delivery {
            Delivery::Normal => {
                Ok(Response { status: reply.status, headers: reply.headers, body: reply.body })
            }
            Delivery::Delay { .. }
            | Delivery::Drop
            | Delivery::Reset
            | Delivery::SlowBody { .. } => {
                Err(TransportError::Broken { detail: "ordered".to_owned() })
            }
        }
    }
}

/// A connector on a sandbox, and the clock that both go by.
pub(crate) struct Bench {
    pub(crate) stripe: Arc<Stripe>,
    pub(crate) clock: Arc<JumpClock>,
    pub(crate) client: Arc<StripeClient>,
    pub(crate) reads: StripeReads,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with_limit(CALLS_PER_MINUTE)
    }

    /// One that makes as many calls a minute.
    pub(crate) fn with_limit(reads_per_minute: u32) -> Self {
        let stripe = Stripe {
            sandbox: Mutex::new(Sandbox::new(7)),
            before: Mutex::new(Box::new(|_: &mut Sandbox| {})),
            clock: Arc::new(JumpClock::default()),
        };
        let config = StripeConfig { reads_per_minute, ..StripeConfig::default() };
        Self::on(Arc::new(stripe), "rk_test_bench", config)
    }

    /// Another connector on the same Stripe.
    pub(crate) fn on(stripe: Arc<Stripe>, key: &str, config: StripeConfig) -> Self {
        let clock = Arc::clone(&stripe.clock);
        let client = Arc::new(StripeClient::new(
            Arc::clone(&stripe) as Arc<dyn Transport>,
            Arc::clone(&clock) as Arc<dyn Clock>,
            config,
            Key::of(Some(key)),
        ));
        let reads = StripeReads::new(Arc::clone(&client));
        Self { stripe, clock, client, reads }
    }

    /// Does something before each call from now on.
    pub(crate) fn before_each(&self, action: impl FnMut(&mut Sandbox) + Send + 'static) {
        *self.stripe.before.lock().unwrap() = Box::new(action);
    }

    pub(crate) fn order(&self, path: &str, body: &Value) -> Value {
        order(&mut self.stripe.sandbox.lock().unwrap(), path, body)
    }

    /// Everything in a list, newest first, asked of the sandbox itself.
    pub(crate) fn listed(&self, path: &str) -> Vec<Value> {
        let mut sandbox = self.stripe.sandbox.lock().unwrap();
        let mut rows: Vec<Value> = Vec::new();
        loop {
            let after = rows.last().and_then(|row| row["id"].as_str());
            let after = after.map(|id| format!("&starting_after={id}")).unwrap_or_default();
            let page = ask(&mut sandbox, "GET", path, &format!("limit=100{after}"), "");
            rows.extend(page["data"].as_array().unwrap().iter().cloned());
            if page["has_more"] == false {
                return rows;
            }
        }
    }

    /// How many requests with this path came over the connector.
    pub(crate) fn received(&self, path: &str) -> usize {
        let sandbox = self.stripe.sandbox.lock().unwrap();
        sandbox.requests().filter(|request| request.path == path).count()
    }

    pub(crate) fn by(&self) -> Deadline {
        self.clock.deadline(std::time::Duration::from_secs(20))
    }

    pub(crate) async fn payments(&self, ask: &Value) -> Result<PaymentsView, ConnectorError> {
        let ask = parse_payments(ask.to_string().as_bytes()).unwrap();
        self.reads.payments(&ask, self.by()).await
    }

    pub(crate) async fn disputes(&self, ask: &Value) -> Result<DisputesView, ConnectorError> {
        let ask = parse_disputes(ask.to_string().as_bytes()).unwrap();
        self.reads.disputes(&ask, self.by(), &|_| {}).await
    }

    pub(crate) async fn customers(&self, ask: &Value) -> Result<CustomersView, ConnectorError> {
        let ask = parse_customers(ask.to_string().as_bytes()).unwrap();
        self.reads.customers(&ask, self.by()).await
    }

    /// Waits as long as an error says.
    pub(crate) async fn wait(&self, error: ConnectorError) {
        let (ConnectorError::Busy { after } | ConnectorError::Paused { after }) = error else {
            panic!("{error:?}");
        };
        self.clock.sleep_until(self.clock.deadline(after)).await;
    }

    /// The ids of all pages of payments, joined, and how many pages there were.
    pub(crate) async fn all_payments(&self, mut ask: Value) -> (Vec<String>, usize) {
        let (mut ids, mut pages) = (Vec::new(), 0);
        loop {
            match self.payments(&ask).await {
                Err(error) => self.wait(error).await,
                Ok(view) => {
                    pages += 1;
                    ids.extend(view.data.into_iter().map(|payment| payment.id));
                    let Some(next) = view.next_cursor else {
                        return (ids, pages);
                    };
                    ask["cursor"] = json!(next);
                }
            }
        }
    }

    /// The same of disputes.
    pub(crate) async fn all_disputes(&self, mut ask: Value) -> (Vec<String>, usize) {
        let (mut ids, mut pages) = (Vec::new(), 0);
        loop {
            match self.disputes(&ask).await {
                Err(error) => self.wait(error).await,
                Ok(view) => {
                    pages += 1;
                    ids.extend(view.data.into_iter().map(|dispute| dispute.id));
                    let Some(next) = view.next_cursor else {
                        return (ids, pages);
                    };
                    ask["cursor"] = json!(next);
                }
            }
        }
    }
}

/// Posts to the sandbox's control API.
pub(crate) fn order(sandbox: &mut Sandbox, path: &str, body: &Value) -> Value {
    ask(sandbox, "POST", &format!("/_sandbox/{path}"), "", &body.to_string())
}

/// One request to the sandbox, which must succeed.
pub(crate) fn ask(
    sandbox: &mut Sandbox,
    method: &str,
    path: &str,
    query: &str,
    body: &str,
) -> Value {
    let request = gate_sandbox::Request {
        method: method.to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        headers: vec![("Authorization".to_owned(), "Bearer sk_test_1".to_owned())],
        body: body.as_bytes().to_vec(),
    };
    let reply = sandbox.handle(NOON * 1000, &request);
    let answer = serde_json::from_slice(&reply.body).unwrap();
    assert_eq!(reply.status, 200, "{path}: {answer}");
    answer
}

/// The ids of rows.
pub(crate) fn ids(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}
