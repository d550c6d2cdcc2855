//! The stateful Stripe on a socket: the sandbox's answers, delivered as it says, faults included.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use gate_core::Clock;
use gate_sandbox::{Delivery, Reply, Sandbox};
use http_body_util::{BodyExt, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Request, Response};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::listen::{self, Body, Outgoing, whole};

/// Largest body that is read, in bytes.
const BODY_BYTES_MAX: usize = 1024 * 1024;
/// Pieces that a slow body comes in.
const PIECES: usize = 10;

/// A sandbox that many connections share.
#[derive(Clone)]
pub struct SharedSandbox {
    sandbox: Arc<Mutex<Sandbox>>,
    clock: Arc<dyn Clock>,
}

impl SharedSandbox {
    /// A new sandbox whose every id follows from `seed`.
    #[must_use]
    pub fn new(seed: u64, clock: Arc<dyn Clock>) -> Self {
        Self { sandbox: Arc::new(Mutex::new(Sandbox::new(seed))), clock }
    }

    /// Answers one request at the clock's time.
    #[must_use]
    pub fn handle(&self, request: &gate_sandbox::Request) -> Reply {
        let now = self.clock.now().millis();
        self.sandbox.lock().unwrap_or_else(PoisonError::into_inner).handle(now, request)
    }

    /// Every refund there is, as Stripe shows it.
    #[must_use]
    pub fn refunds(&self) -> Vec<serde_json::Value> {
        self.sandbox.lock().unwrap_or_else(PoisonError::into_inner).refunds()
    }

    /// Serves it on `listener` until `stop`.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        listen::serve(listener, None, stop, move |request, peer| {
            let sandbox = self.clone();
            async move { sandbox.answer(request, peer).await }
        })
        .await;
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
