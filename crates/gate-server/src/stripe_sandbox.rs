//! The stateful Stripe on a socket: the sandbox's answers and webhooks, delivered as it says,
//! faults included.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use gate_core::{Clock, Timestamp};
use gate_http::{HeaderText, HyperTransport, Method, Transport};
use gate_sandbox::{Delivery, Reply, Sandbox, WebhookDelivery};
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::listen::{self, Body, Outgoing, unless, whole};

/// Largest body that is read, in bytes.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// How long a webhook's receiver may take to answer.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Shortest pause between two looks for webhooks that are due.
const DELIVERY_PAUSE_MIN_MS: u64 = 1;
/// Pieces that a slow body comes in.
const PIECES: usize = 10;

/// A sandbox that many connections share.
#[derive(Clone)]
pub struct SharedSandbox {
    sandbox: Arc<Mutex<Sandbox>>,
    clock: Arc<dyn Clock>,
    /// Something was asked of the sandbox, so a webhook may be due.
    asked: Arc<Notify>,
}

impl SharedSandbox {
    /// A new sandbox whose every id follows from `seed`.
    #[must_use]
    pub fn new(seed: u64, clock: Arc<dyn Clock>) -> Self {
        let sandbox = Arc::new(Mutex::new(Sandbox::new(seed)));
        Self { sandbox, clock, asked: Arc::default() }
    }

    /// Answers one request at the clock's time.
    #[must_use]
    pub fn handle(&self, request: &gate_sandbox::Request) -> Reply {
        let reply = self.with(|sandbox, now| sandbox.handle(now.millis(), request));
        self.asked.notify_one();
        reply
    }

    /// Every refund there is, as Stripe shows it.
    #[must_use]
    pub fn refunds(&self) -> Vec<serde_json::Value> {
        self.with(|sandbox, _| sandbox.refunds())
    }

    fn with<T>(&self, does: impl FnOnce(&mut Sandbox, Timestamp) -> T) -> T {
        let now = self.clock.now();
        does(&mut self.sandbox.lock().unwrap_or_else(PoisonError::into_inner), now)
    }

    /// Serves it on `listener`, and delivers its webhooks, until `stop`.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let sandbox = self.clone();
        let answers = listen::serve(listener, None, stop.clone(), move |request, peer| {
            let sandbox = sandbox.clone();
            async move { sandbox.answer(request, peer).await }
        });
        tokio::join!(answers, self.deliver(stop));
    }

    /// Delivers webhooks one after the other, each when it is due.
    async fn deliver(&self, stop: CancellationToken) {
        let transport = HyperTransport::new(Arc::clone(&self.clock));
        loop {
            let due = self.with(|sandbox, now| sandbox.take_deliveries(now.millis()));
            for webhook in due {
                let Some(ok) = unless(&stop, self.post(&transport, &webhook)).await else { return };
                self.with(|sandbox, now| {
                    sandbox.delivered(&webhook.event_id, webhook.attempt, ok, now.millis());
                });
            }
            let wait = async {
                tokio::select! { () = self.asked.notified() => {}, () = self.next_due() => {} }
            };
            if unless(&stop, wait).await.is_none() {
                return;
            }
        }
    }

    /// Returns when the next webhook is due by the clock as it goes now; never, when none waits.
    async fn next_due(&self) {
        let left = self.with(|sandbox, now| {
            sandbox.next_delivery_ms().map(|due| due.saturating_sub(now.millis()))
        });
        let Some(left) = left else { return std::future::pending().await };
        let left_ms = u64::try_from(left).unwrap_or(0).max(DELIVERY_PAUSE_MIN_MS);
        self.clock.sleep_until(self.clock.deadline(Duration::from_millis(left_ms))).await;
    }

    /// Whether the receiver answered that it has it.
    async fn post(&self, transport: &HyperTransport, webhook: &WebhookDelivery) -> bool {
        let header = |name: &'static str| {
            let mut held = webhook.headers.iter().filter(|(known, _)| known == name);
            held.next().map(|(_, value)| (name, HeaderText::Plain(value.clone())))
        };
        let request = gate_http::Request {
            method: Method::Post,
            url: webhook.url.clone(),
            headers: ["Content-Type", "Stripe-Signature"].into_iter().filter_map(header).collect(),
            body: webhook.body.clone(),
        };
        if !goes_to_this_machine(&webhook.url) {
            tracing::warn!(event.id = webhook.event_id, "webhooks go to this machine only");
            return false;
        }
        let sent = transport.send(request, self.clock.deadline(DELIVERY_TIMEOUT)).await;
        let problem = match sent {
            Ok(answer) if (200..300).contains(&answer.status) => return true,
            Ok(answer) => format!("it answered {}", answer.status),
            Err(error) => error.to_string(),
        };
        tracing::info!(event.id = webhook.event_id, "a webhook was not received: {problem}");
        false
    }

    async fn answer(self, request: Request<Incoming>, _peer: SocketAddr) -> Outgoing {
        let (head, body) = request.into_parts();
        let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else { return None };
        let text = |value: &hyper::header::HeaderValue| {
            String::from_utf8_lossy(value.as_bytes()).into_owned()
        };
        let reply = self.handle(&gate_sandbox::Request {
            method: head.method.as_str().to_owned(),
            path: head.uri.path().to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
            headers: head.headers.iter().map(|(n, v)| (n.to_string(), text(v))).collect(),
            body: body.to_bytes().to_vec(),
        });
        match reply.delivery {
            Delivery::Normal => response(reply, whole),
            // Both close the connection without an answer; a client cannot act on the difference.
            Delivery::Drop | Delivery::Reset => None,
            Delivery::Delay { ms } => {
                let until = self.clock.deadline(Duration::from_millis(ms));
                self.clock.sleep_until(until).await;
                response(reply, whole)
            }
            Delivery::SlowBody { ms } => {
                let clock = Arc::clone(&self.clock);
                response(reply, move |body: Vec<u8>| trickling(body, ms, clock))
            }
        }
    }
}

/// Nothing of the sandbox leaves the machine: what looks like Stripe must not knock elsewhere.
fn goes_to_this_machine(url: &str) -> bool {
    // Plain http goes to loopback addresses only, wherever it is checked.
    url.starts_with("http://") && gate_http::check_url(url).is_ok()
}

/// The body in ten pieces, the last of them `ms` milliseconds after the head.
fn trickling(body: Vec<u8>, ms: u64, clock: Arc<dyn Clock>) -> Body {
    let size = body.len().div_ceil(PIECES).max(1);
    let pieces: Vec<Bytes> = body.chunks(size).map(Bytes::copy_from_slice).collect();
    let pause = Duration::from_millis(ms.div_ceil(u64::try_from(pieces.len().max(1)).unwrap_or(1)));
    let stream = futures_util::stream::unfold(pieces.into_iter(), move |mut pieces| {
        let clock = Arc::clone(&clock);
        async move {
            let piece = pieces.next()?;
            clock.sleep_until(clock.deadline(pause)).await;
            Some((Ok(Frame::data(piece)), pieces))
        }
    });
    StreamBody::new(stream).boxed_unsync()
}

fn response(reply: Reply, body: impl FnOnce(Vec<u8>) -> Body) -> Outgoing {
    let mut response = Response::builder().status(reply.status);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    response.body(body(reply.body)).ok()
}
