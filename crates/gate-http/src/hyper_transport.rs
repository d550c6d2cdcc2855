//! The shipped transport: HTTP/1.1 with kept connections, over hyper and rustls.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use gate_core::{Clock, Deadline};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{HeaderName, HeaderValue};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::{self, Client};
use hyper_util::rt::TokioExecutor;
use tower_service::Service;

use crate::message::{Method, Request, Response};
use crate::transport::{Seen, Transport, TransportError};
use crate::url::{checked, literal_address};

/// Longest time for a TCP connection to come about.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest body of an answer that is read, in bytes, unless another limit is set.
pub const RESPONSE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// How long a connection without work is kept. Shorter than servers keep theirs, so that few
/// requests meet a connection that is just being closed.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Most connections without work that are kept to one host.
const IDLE_CONNECTIONS_MAX: usize = 8;

/// Says which addresses may be connected to.
pub type Admits = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

type HttpsClient = Client<HttpsConnector<HttpConnector<Resolver>>, WatchedBody>;

/// Sends over the network. TLS, with Mozilla's roots and `ring`, is set up with the first request:
/// a process that sends nothing does not hold the roots. No process-wide provider is installed.
pub struct HyperTransport {
    clock: Arc<dyn Clock>,
    response_bytes_max: usize,
    admits: Option<Admits>,
    client: OnceLock<HttpsClient>,
}

impl HyperTransport {
    /// A transport that keeps its deadlines by `clock`.
    #[must_use]
    pub const fn new(clock: Arc<dyn Clock>) -> Self {
        let client = OnceLock::new();
        Self { clock, response_bytes_max: RESPONSE_BYTES_MAX, admits: None, client }
    }

    /// The same with another limit for the bodies of answers, in bytes.
    #[must_use]
    pub fn with_response_bytes_max(self, limit: usize) -> Self {
        Self { response_bytes_max: limit, ..self }
    }

    /// The same, connecting to addresses that `admits` takes and to no others, for URLs that somebody
    /// else chose. A host's addresses are looked up once for each request, all of them have to be
    /// taken, and the connection goes to one of those: between looking and connecting nobody can
    /// give another. So no connection is kept for the next request either.
    #[must_use]
    pub fn only_to(self, admits: Admits) -> Self {
        Self { admits: Some(admits), client: OnceLock::new(), ..self }
    }

    fn client(&self) -> Result<&HttpsClient, TransportError> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = https_client(self.admits.clone())
            .map_err(|error| TransportError::not_sent(chain(&error)))?;
        Ok(self.client.get_or_init(|| client))
    }

    async fn exchange(
        &self,
        request: Request,
        seen: &Seen<'_>,
    ) -> Result<Response, TransportError> {
        let body_taken = Arc::new(AtomicBool::new(false));
        let request = hyper_request(request, Arc::clone(&body_taken))?;
        // An address that is written out is connected to without being looked up.
        if let (Some(admits), Some(address)) = (&self.admits, literal_address(request.uri()))
            && !admits(address)
        {
            return Err(TransportError::not_sent(refused(address)));
        }
        let response = self
            .client()?
            .request(request)
            .await
            .map_err(|error| class_of(&error, body_taken.load(Ordering::SeqCst)))?;
        let (head, body) = response.into_parts();
        let mut left = Limited::new(body, self.response_bytes_max);
        let mut body = Vec::new();
        while let Some(frame) = left.frame().await {
            let frame = frame.map_err(|error| self.unreadable(error.as_ref()))?;
            if let Some(piece) = frame.data_ref() {
                seen(piece);
                body.extend_from_slice(piece);
            }
        }
        let headers = head
            .headers
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes());
                (name.as_str().to_owned(), value.into_owned())
            })
            .collect();
        Ok(Response { status: head.status.as_u16(), headers, body })
    }

    fn unreadable(&self, error: &(dyn StdError + Send + Sync + 'static)) -> TransportError {
        if error.is::<LengthLimitError>() {
            return TransportError::TooLarge { limit_bytes: self.response_bytes_max };
        }
        TransportError::Broken { detail: chain(error) }
    }
}

#[async_trait]
impl Transport for HyperTransport {
    async fn send(&self, request: Request, by: Deadline) -> Result<Response, TransportError> {
        self.send_seen(request, by, &|_| {}).await
    }

    async fn send_seen(
        &self,
        request: Request,
        by: Deadline,
        seen: &Seen<'_>,
    ) -> Result<Response, TransportError> {
        if by.left(self.clock.uptime()).is_zero() {
            return Err(TransportError::not_sent("its deadline had passed"));
        }
        tokio::select! {
            biased;
            answer = self.exchange(request, seen) => answer,
            () = self.clock.sleep_until(by) => Err(TransportError::TimedOut),
        }
    }
}

fn refused(address: IpAddr) -> String {
    format!("its host has the address {address}, to which nothing is sent")
}

/// Looks names up, and answers with addresses that are taken only.
#[derive(Clone)]
struct Resolver(Option<Admits>);

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let admits = self.0.clone();
        Box::pin(async move {
            // The connector puts the port in.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let found: Vec<SocketAddr> = found.collect();
            let is_refused = |at: &&SocketAddr| admits.as_ref().is_some_and(|it| !it(at.ip()));
            match found.iter().find(is_refused) {
                Some(at) => Err(io::Error::other(refused(at.ip()))),
                None => Ok(found.into_iter()),
            }
        })
    }
}

fn https_client(admits: Option<Admits>) -> Result<HttpsClient, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_webpki_roots()
        .with_no_client_auth();
    let idle_connections_max = if admits.is_some() { 0 } else { IDLE_CONNECTIONS_MAX };
    let mut tcp = HttpConnector::new_with_resolver(Resolver(admits));
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_nodelay(true);
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(tls)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    // One attempt is one attempt: hyper would otherwise send again what met a closed connection.
    Ok(Client::builder(TokioExecutor::new())
        .retry_canceled_requests(false)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .pool_max_idle_per_host(idle_connections_max)
        .build(connector))
}

fn hyper_request(
    request: Request,
    body_taken: Arc<AtomicBool>,
) -> Result<hyper::Request<WatchedBody>, TransportError> {
    let body = WatchedBody {
        bytes: Some(Bytes::from(request.body)).filter(|bytes| !bytes.is_empty()),
        taken: body_taken,
    };
    let mut built = hyper::Request::new(body);
    *built.uri_mut() = checked(&request.url)?;
    *built.method_mut() = match request.method {
        Method::Get => hyper::Method::GET,
        Method::Post => hyper::Method::POST,
    };
    for (name, text) in request.headers {
        let bad = || TransportError::not_sent(format!("the header {name} cannot be sent"));
        let mut value = HeaderValue::from_str(text.expose()).map_err(|_| bad())?;
        value.set_sensitive(text.is_secret());
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
        built.headers_mut().append(name, value);
    }
    Ok(built)
}

/// Says whether a request that hyper gave up may have reached anybody.
///
/// Certain are two cases only: there never was a connection; or hyper calls the request canceled,
/// which it does when it hands it back before writing it (a kept connection that the server closed
/// meanwhile), and, so that this does not rest on hyper's word alone, the body was never taken.
fn class_of(error: &legacy::Error, body_taken: bool) -> TransportError {
    let canceled = error
        .source()
        .and_then(|source| source.downcast_ref::<hyper::Error>())
        .is_some_and(hyper::Error::is_canceled);
    let detail = chain(error);
    if error.is_connect() || (canceled && !body_taken) {
        TransportError::NotSent { detail }
    } else {
        TransportError::Broken { detail }
    }
}

/// An error with its causes, for the log. None of these layers puts headers or bodies into words.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// A request's body that remembers whether it was taken for sending.
struct WatchedBody {
    bytes: Option<Bytes>,
    taken: Arc<AtomicBool>,
}

impl Body for WatchedBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.taken.store(true, Ordering::SeqCst);
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        let len = self.bytes.as_ref().map_or(0, Bytes::len);
        SizeHint::with_exact(u64::try_from(len).unwrap_or(u64::MAX))
    }
}
