//! The way to Stripe: the byte-level Transport over one sandbox at virtual time, so that the
//! shipped headers, parsing and error classes run.
//!
//! A request goes its way in a task of Stripe's node: whoever sent it may time out or die, and it
//! arrives all the same.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::future::{Either, select};
use gate_core::{Deadline, IntentId};
use gate_http::{Method, Request, Response, Transport, TransportError};
use gate_sandbox::{Delivery, Reply, Sandbox};
use serde_json::{Value, json};

use crate::coverage::Hit;
use crate::executor::{Bell, Give, Handle, Node, hand_over};
use crate::faults::{Class, Fault, Faults, Place};
use crate::witness::{ACTED_ON, ON_ITS_WAY, Pending, Witness};

/// Where the gateways believe Stripe to be.
pub(crate) const API_BASE: &str = "https://stripe.sim";

/// Stripe, and the state of what it is at.
#[derive(Clone)]
pub(crate) struct Stripe {
    state: Arc<Mutex<State>>,
    handle: Handle,
    witness: Witness,
    base_ms: i64,
    /// Rung when there is something to post.
    pub(crate) post: Bell,
}

struct State {
    sandbox: Sandbox,
    /// Idempotency keys of requests that are being executed, and until when.
    executing: BTreeMap<String, u64>,
    /// Charges whose refunds changed, for the webhooks about them.
    outbox: Vec<String>,
}

impl Stripe {
    pub(crate) fn new(handle: Handle, witness: Witness, base_ms: i64, seed: u64) -> Self {
        let state =
            State { sandbox: Sandbox::new(seed), executing: BTreeMap::new(), outbox: Vec::new() };
        Self { state: Arc::new(Mutex::new(state)), handle, witness, base_ms, post: Bell::default() }
    }

    /// What webhooks are to be sent about.
    pub(crate) fn take_post(&self) -> Vec<String> {
        std::mem::take(&mut self.state().outbox)
    }

    /// Something about a refund is worth a webhook.
    fn notify(&self, refund: &Value) {
        let charge = refund["charge"].as_str().unwrap_or_default().to_owned();
        self.state().outbox.push(charge);
        self.post.ring();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call to the sandbox's control interface.
    pub(crate) fn control(&self, method: &str, path: &str, body: &Value) -> Value {
        let reply = self.handle_call(&gate_sandbox::Request {
            method: method.to_owned(),
            path: format!("/_sandbox/{path}"),
            query: String::new(),
            headers: Vec::new(),
            body: if body.is_null() { Vec::new() } else { body.to_string().into_bytes() },
        });
        serde_json::from_slice(&reply.body).unwrap_or_default()
    }

    /// The feed of exchange rates.
    pub(crate) fn rates(&self) -> Vec<u8> {
        let reply = self.handle_call(&gate_sandbox::Request {
            method: "GET".to_owned(),
            path: "/_sandbox/rates/eurofxref-daily.xml".to_owned(),
            ..gate_sandbox::Request::default()
        });
        reply.body
    }

    /// What Stripe's own dashboard does, under a key of its own.
    pub(crate) fn dashboard(&self, path: &str, form: &str) -> Value {
        let reply = self.handle_call(&gate_sandbox::Request {
            method: "POST".to_owned(),
            path: path.to_owned(),
            query: String::new(),
            headers: vec![("authorization".to_owned(), "Bearer sk_test_dashboard".to_owned())],
            body: form.as_bytes().to_vec(),
        });
        let answer = serde_json::from_slice(&reply.body).unwrap_or_default();
        if reply.status == 200 && path == "/v1/refunds" {
            self.witness.seen().made(&answer);
            self.notify(&answer);
        }
        answer
    }

    /// Every refund as it is now.
    pub(crate) fn refunds(&self) -> Vec<Value> {
        // Refunds whose time has come move on when anybody looks.
        self.handle_call(&gate_sandbox::Request {
            method: "GET".to_owned(),
            path: "/v1/balance".to_owned(),
            query: String::new(),
            headers: vec![("authorization".to_owned(), "Bearer sk_test_dashboard".to_owned())],
            body: Vec::new(),
        });
        self.state().sandbox.refunds()
    }

    /// Lets the witness know how every refund now stands.
    pub(crate) fn tell(&self) {
        let refunds = self.refunds();
        let mut seen = self.witness.seen();
        for refund in refunds {
            let text = |name: &str| refund[name].as_str().unwrap_or_default().to_owned();
            if seen.refund_moved(&text("id"), &text("status")) {
                self.notify(&refund);
            }
        }
    }

    fn handle_call(&self, request: &gate_sandbox::Request) -> Reply {
        let now_ms = self.base_ms + self.handle.now_ms() as i64;
        self.state().sandbox.handle(now_ms, request)
    }

    /// Stripe acts on a request of the gateways.
    fn act(&self, call: &Call, fault: Option<&Fault>) -> Reply {
        let now_ms = self.handle.now_ms();
        let busy = call.key.as_ref().is_some_and(|key| {
            self.state().executing.get(key).is_some_and(|until| now_ms < *until)
        });
        let order = match fault.map(|fault| fault.class) {
            _ if busy => Some("status_409"),
            Some(Class::Status429) => Some("status_429"),
            Some(Class::Stored500 | Class::Rolled500) => Some("status_500_stored"),
            Some(Class::Done500) => Some("status_500_done"),
            Some(Class::Malformed) => Some("malformed"),
            _ => None,
        };
        if let Some(kind) = order {
            self.control("POST", "faults", &json!({ "kind": kind }));
        }
        let forbidden = fault.is_some_and(|fault| fault.class == Class::Status403);
        if forbidden {
            let none = json!({ "key": STRIPE_KEY, "permissions": {} });
            self.control("POST", "keys", &none);
        }
        let reply = self.handle_call(&call.request);
        if forbidden {
            self.control("POST", "keys", &json!({ "key": STRIPE_KEY }));
        }
        if call.request.path.starts_with("/v1/refunds") && !call.is_send && reply.status == 200 {
            self.moved(&reply);
        }
        if call.is_send {
            self.made(call, &reply, fault);
            let mut seen = self.witness.seen();
            if let Some(entry) = call.intent.as_ref().and_then(|id| seen.ledger.intents.get_mut(id))
                && reply.status == 500
            {
                entry.answers_500 = true;
            }
        }
        reply
    }

    /// Tells the witness how refunds stand, as Stripe is about to say.
    fn moved(&self, reply: &Reply) {
        // A body that was cut off says nothing to anybody.
        let Ok(body) = serde_json::from_slice::<Value>(&reply.body) else { return };
        let mut seen = self.witness.seen();
        let one = std::slice::from_ref(&body);
        for refund in body["data"].as_array().map_or(one, Vec::as_slice) {
            let text = |name: &str| refund[name].as_str().unwrap_or_default().to_owned();
            if seen.refund_moved(&text("id"), &text("status")) {
                self.notify(refund);
            }
        }
    }

    /// Tells the witness of the refund that a request made.
    fn made(&self, call: &Call, reply: &Reply, fault: Option<&Fault>) {
        let replayed = reply.headers.iter().any(|(name, _)| name == "Idempotent-Replayed");
        if replayed {
            return;
        }
        let hidden = matches!(fault.map(|f| f.class), Some(Class::Done500 | Class::Malformed));
        if hidden {
            // The answer does not show it: it is the newest, if there is one of this intent.
            let refunds = self.state().sandbox.refunds();
            let of = call.intent.as_ref().map(|id| id.as_str().to_owned()).unwrap_or_default();
            if let Some(refund) = refunds.last()
                && refund["metadata"]["burnbound_intent"] == of
                && !self.witness.seen().made.contains_key(refund["id"].as_str().unwrap_or_default())
            {
                self.witness.seen().made(refund);
                self.notify(refund);
            }
        } else if reply.status == 200
            && let Ok(refund) = serde_json::from_slice(&reply.body)
        {
            self.witness.seen().made(&refund);
            self.notify(&refund);
        }
    }
}

/// The restricted key that the gateways use: a canary as well.
pub(crate) const STRIPE_KEY: &str = "rk_test_canary51SimulatedKeyOfTheGateway";

/// One request, taken apart.
struct Call {
    request: gate_sandbox::Request,
    key: Option<String>,
    is_send: bool,
    intent: Option<IntentId>,
    /// The charge whose refunds are listed.
    lists: Option<String>,
}

impl Call {
    fn of(request: &Request) -> Self {
        let rest = request.url.strip_prefix(API_BASE).expect("a URL of Stripe's");
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let method = match request.method {
            Method::Get => "GET",
            Method::Post => "POST",
        };
        let headers = request
            .headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.expose().to_owned()));
        let key = request.header("idempotency-key").map(|key| key.expose().to_owned());
        let is_send = method == "POST" && path == "/v1/refunds";
        let lists = (method == "GET" && path == "/v1/refunds")
            .then(|| query.split('&').find_map(|pair| pair.strip_prefix("charge=")))
            .flatten()
            .map(str::to_owned);
        Self {
            request: gate_sandbox::Request {
                method: method.to_owned(),
                path: path.to_owned(),
                query: query.to_owned(),
                headers: headers.collect(),
                body: request.body.clone(),
            },
            key,
            is_send,
            intent: None,
            lists,
        }
    }
}

/// The transport of one node.
pub(crate) struct SimTransport {
    pub(crate) node: Node,
    pub(crate) stripe: Stripe,
    pub(crate) faults: Arc<Faults>,
}

#[async_trait]
impl Transport for SimTransport {
    async fn send(&self, request: Request, by: Deadline) -> Result<Response, TransportError> {
        let (node, stripe) = (self.node, &self.stripe);
        let begun_ms = stripe.handle.now_ms();
        let mut call = Call::of(&request);
        let place = if call.is_send { Place::Send } else { Place::Read };
        let fault = self.faults.at(place, node);
        if call.is_send {
            let form = String::from_utf8_lossy(&request.body).into_owned();
            let key = call.key.clone().unwrap_or_default();
            call.intent = stripe.witness.seen().sending(node, &key, &form);
        }
        let intent = call.intent.clone();
        if let Some(fault) = &fault {
            let mut seen = stripe.witness.seen();
            seen.faulted(fault);
            if let Some(id) = &intent {
                seen.hit(id, Hit::of(fault.class));
            }
        }
        let lists = call.lists.clone();
        let answer = self.attempt(call, by, fault).await;
        let mut seen = stripe.witness.seen();
        if let Some(id) = &intent {
            let status = answer.as_ref().ok().map(|response| response.status);
            seen.sent(node, id, status, matches!(answer, Err(TransportError::NotSent { .. })));
        }
        if let (Some(charge), Ok(response)) = (lists, &answer)
            && response.status == 200
            && serde_json::from_slice::<Value>(&response.body).is_ok()
        {
            seen.looked(node, &charge, begun_ms);
        }
        answer
    }
}

impl SimTransport {
    async fn attempt(
        &self,
        call: Call,
        by: Deadline,
        fault: Option<Fault>,
    ) -> Result<Response, TransportError> {
        let handle = &self.stripe.handle;
        let chance = fault.map_or(0, |fault| fault.chance);
        if fault.is_some_and(|fault| fault.class == Class::NotSent) {
            handle.sleep(1 + chance % 3000).await;
            return Err(TransportError::NotSent { detail: "no connection".to_owned() });
        }
        let stage = Arc::new(AtomicU8::new(ON_ITS_WAY));
        let pending = call.intent.clone().map(|id| Pending::Send(id, Arc::clone(&stage)));
        let _guard = pending.map(|pending| self.stripe.witness.begin(self.node, pending));
        let (give, slot) = hand_over();
        handle.spawn(Node::STRIPE, goes(self.stripe.clone(), call, fault, stage, give));
        let timeout = handle.sleep_until(by.uptime().as_millis() as u64);
        match select(pin!(slot), pin!(timeout)).await {
            Either::Left((Some(answer), _)) => answer,
            // Whoever carries it keeps quiet: nothing more comes.
            Either::Left((None, timeout)) => {
                timeout.await;
                Err(TransportError::TimedOut)
            }
            Either::Right(((), _)) => Err(TransportError::TimedOut),
        }
    }
}

/// The way of one request: there, what Stripe does with it, and back.
async fn goes(
    stripe: Stripe,
    call: Call,
    fault: Option<Fault>,
    stage: Arc<AtomicU8>,
    give: Give<Result<Response, TransportError>>,
) {
    let handle = stripe.handle.clone();
    let chance = fault.map_or(0, |fault| fault.chance);
    let class = fault.map(|fault| fault.class);
    // What is read may be old news by the time it is known.
    let answers_late = class == Some(Class::Slow) && !call.is_send && !chance.is_multiple_of(3);
    handle.sleep(1 + chance % 150).await;
    match class {
        Some(Class::LostBefore) => return,
        Some(Class::Reset) => {
            give.give(Err(TransportError::Broken { detail: "reset".to_owned() }));
            return;
        }
        Some(Class::Slow) if answers_late => {}
        Some(Class::Slow) => handle.sleep(chance % 90_000).await,
        Some(Class::Executing) => {
            let span = chance % 60_000;
            if let Some(key) = &call.key {
                let until = handle.now_ms() + span;
                stripe.state().executing.insert(key.clone(), until);
            }
            handle.sleep(span).await;
        }
        _ => {}
    }
    let reply = stripe.act(&call, fault.as_ref());
    stage.store(ACTED_ON, Ordering::Relaxed);
    stripe.witness.seen().trace(6, u64::from(reply.status), reply.body.len() as u64);
    if class == Some(Class::Rolled500) && call.is_send && reply.status == 500 {
        let (later, form) = (stripe.clone(), call.request.body.clone());
        let replayed = reply.headers.iter().any(|(name, _)| name == "Idempotent-Replayed");
        if !replayed {
            // What was answered with a 500 is completed by Stripe itself, seconds or hours later.
            let longest_ms = if chance.is_multiple_of(3) { 36_000_000 } else { 40_000 };
            handle.spawn(Node::STRIPE, async move {
                later.handle.sleep(1000 + chance / 3 % longest_ms).await;
                later.dashboard("/v1/refunds", &String::from_utf8_lossy(&form));
            });
        }
    }
    handle.sleep(1 + chance % if answers_late { 19_000 } else { 70 }).await;
    match (class, reply.delivery) {
        (Some(Class::LostAfter), _) if chance.is_multiple_of(2) => {}
        (Some(Class::LostAfter), _) => {
            give.give(Err(TransportError::Broken { detail: "closed".to_owned() }));
        }
        (_, Delivery::Normal) => give.give(Ok(Response {
            status: reply.status,
            headers: reply
                .headers
                .into_iter()
                .map(|(name, value)| (name.to_lowercase(), value))
                .collect(),
            body: reply.body,
        })),
        (_, _) => {}
    }
}
