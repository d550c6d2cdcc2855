//! An HTTP client that shows everything and hides nothing: one request, one connection, and what
//! came back. It can also hang up before the answer.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use futures_util::future::{Either, select};
use http_body_util::{BodyExt, Full};
use hyper::HeaderMap;
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// A request, headers included; `Host` is added unless it is there.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    method: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Call {
    pub(crate) fn new(method: &'static str, path: &str) -> Self {
        Self { method, path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    /// A POST of JSON.
    pub(crate) fn post(path: &str, body: impl ToString) -> Self {
        Self::new("POST", path)
            .with("content-type", "application/json")
            .body(body.to_string().into_bytes())
    }

    pub(crate) fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: body.into(), ..self }
    }

    /// Sets a header, in place of one of the same name.
    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value.to_owned()));
        self
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.headers.iter().any(|(known, _)| *known == name)
    }

    pub(crate) fn key(self, key: &str) -> Self {
        self.with("authorization", &format!("Bearer {key}"))
    }

    /// Sends it, and waits for the answer.
    pub(crate) async fn send(self, to: SocketAddr) -> Answer {
        let told = format!("{} {}", self.method, self.path);
        self.attempt(to).await.unwrap_or_else(|| panic!("no answer to {told}"))
    }

    /// Sends it; none when no answer came, because the other side went away.
    pub(crate) async fn attempt(self, to: SocketAddr) -> Option<Answer> {
        let stream = TcpStream::connect(to).await.ok()?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.ok()?;
        let mut request = hyper::Request::builder().method(self.method).uri(&self.path);
        if !self.has("host") {
            request = request.header("host", to.to_string());
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(Bytes::from(self.body))).unwrap();
        let exchange = async move { Answer::of(sender.send_request(request).await.ok()?).await };
        let (answer, _) = tokio::join!(exchange, connection);
        answer
    }

    /// Sends it, and hangs up once `until` is there.
    pub(crate) async fn hang_up(self, to: SocketAddr, until: impl Future<Output = ()>) {
        let told = format!("{} {}", self.method, self.path);
        match select(std::pin::pin!(self.attempt(to)), std::pin::pin!(until)).await {
            Either::Left((answer, _)) => panic!("{told} was answered too soon: {answer:?}"),
            Either::Right(_) => {}
        }
    }
}

/// A connection that carries many requests at once (HTTP/2): hundreds of callers without hundreds of
/// sockets.
#[derive(Clone)]
pub(crate) struct Shared {
    to: SocketAddr,
    sender: hyper::client::conn::http2::SendRequest<Full<Bytes>>,
    /// Moves the bytes, and ends with the last clone.
    _connection: Arc<JoinSet<hyper::Result<()>>>,
}

impl Shared {
    pub(crate) async fn open(to: SocketAddr) -> Self {
        let stream = TokioIo::new(TcpStream::connect(to).await.unwrap());
        let shake = hyper::client::conn::http2::handshake(TokioExecutor::new(), stream);
        let (sender, connection) = shake.await.unwrap();
        let mut task = JoinSet::new();
        task.spawn(connection);
        Self { to, sender, _connection: Arc::new(task) }
    }

    pub(crate) async fn send(mut self, call: Call) -> Answer {
        let uri = format!("http://{}{}", self.to, call.path);
        let mut request = hyper::Request::builder().method(call.method).uri(uri);
        for (name, value) in &call.headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(Bytes::from(call.body))).unwrap();
        Answer::of(self.sender.send_request(request).await.unwrap()).await.unwrap()
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
    /// The body as JSON; null when it is none.
    pub(crate) json: Value,
}

impl Answer {
    async fn of(response: hyper::Response<hyper::body::Incoming>) -> Option<Self> {
        let (head, body) = response.into_parts();
        let body = body.collect().await.ok()?.to_bytes().to_vec();
        let json = serde_json::from_slice(&body).unwrap_or_default();
        Some(Self { status: head.status.as_u16(), headers: head.headers, body, json })
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// The text at a JSON pointer; empty when there is none.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.json.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn replayed(&self) -> bool {
        self.json["replayed"] == true
    }

    /// HTTP status and `status`, or the problem's `code`, in one line for a table.
    pub(crate) fn line(&self) -> String {
        let word = if self.header("content-type") == "application/problem+json" {
            self.text("/code")
        } else {
            self.text("/status")
        };
        format!("{} {word}", self.status)
    }

    /// The codes of the reasons, with commas between them.
    pub(crate) fn reasons(&self) -> String {
        let reasons = self.json["reasons"].as_array().cloned().unwrap_or_default();
        let codes: Vec<&str> =
            reasons.iter().filter_map(|reason| reason["code"].as_str()).collect();
        codes.join(",")
    }
}
