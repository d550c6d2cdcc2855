//! Serving HTTP on a socket: limits, TLS, and an end that lets what is under way finish.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{Either, select};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Most connections at once; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 1024;
/// How long a client may take to send a request's head, or to shake hands.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long accepting pauses when the system is out of files or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// An answer's body: whole, or coming piece by piece.
pub type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// What is answered; none closes the connection without an answer.
pub type Outgoing = Option<Response<Body>>;

/// A body that is there as a whole.
#[must_use]
pub fn whole(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).boxed_unsync()
}

/// What to do with a connection that is closed without an answer.
#[derive(Debug)]
struct Unanswered;

impl std::fmt::Display for Unanswered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("closed without an answer")
    }
}

impl std::error::Error for Unanswered {}

/// Certificates that are looked up for each connection, so that renewed files are picked up.
pub type Tls = Arc<dyn Fn() -> Option<TlsAcceptor> + Send + Sync>;

/// Serves `listener` until `stop`, and then lets every request under way be answered.
pub async fn serve<H, F>(
    listener: TcpListener,
    tls: Option<Tls>,
    stop: CancellationToken,
    handler: H,
) where
    H: Fn(Request<Incoming>, SocketAddr) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Outgoing> + Send + 'static,
{
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Some(place) = unless(&stop, Arc::clone(&places).acquire_owned()).await {
        let Ok(place) = place else { break };
        let Some(accepted) = unless(&stop, listener.accept()).await else { break };
        let Ok((stream, peer)) = accepted else {
            unless(&stop, tokio::time::sleep(ACCEPT_PAUSE)).await;
            continue;
        };
        let (handler, stop, tls) = (handler.clone(), stop.clone(), tls.clone());
        connections.spawn(async move {
            connection(stream, peer, tls, stop, handler).await;
            drop(place);
        });
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// Runs `work`, unless `stop` comes first.
pub(crate) async fn unless<T>(
    stop: &CancellationToken,
    work: impl Future<Output = T>,
) -> Option<T> {
    match select(std::pin::pin!(stop.cancelled()), std::pin::pin!(work)).await {
        Either::Left(_) => None,
        Either::Right((done, _)) => Some(done),
    }
}

async fn connection<H, F>(
    stream: TcpStream,
    peer: SocketAddr,
    tls: Option<Tls>,
    stop: CancellationToken,
    handler: H,
) where
    H: Fn(Request<Incoming>, SocketAddr) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Outgoing> + Send + 'static,
{
    // Answers are small and whole: waiting to fill a packet would only add delay.
    let _ = stream.set_nodelay(true);
    let Some(tls) = tls else {
        return speak(stream, peer, stop, handler).await;
    };
    let Some(acceptor) = tls() else { return };
    let shake = tokio::time::timeout(HEAD_TIMEOUT, acceptor.accept(stream));
    if let Some(Ok(Ok(stream))) = unless(&stop, shake).await {
        speak(stream, peer, stop, handler).await;
    }
}

async fn speak<S, H, F>(stream: S, peer: SocketAddr, stop: CancellationToken, handler: H)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    H: Fn(Request<Incoming>, SocketAddr) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Outgoing> + Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX));
    let service = service_fn(move |request| {
        let answer = handler(request, peer);
        async move { answer.await.ok_or(Unanswered) }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // An error here is a client that went away or does not speak HTTP: nobody to tell.
    if let Some(ended) = unless(&stop, connection.as_mut()).await {
        drop(ended);
        return;
    }
    connection.as_mut().graceful_shutdown();
    drop(connection.await);
}

/// Opens a listening socket.
///
/// # Errors
///
/// The system's.
pub async fn open(at: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(at).await?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}
