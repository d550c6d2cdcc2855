//! The shipped transport against real sockets: what arrives, and what each fault is called.

#![allow(
    clippy::as_conversions,
    clippy::unwrap_used,
    reason = "tests unwrap, and name a trait by `as`"
)]

use std::future::Future;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use gate_core::{Clock, Deadline, Timestamp};
use gate_http::{HeaderText, HyperTransport, Method, Request, Response, Transport, TransportError};
use httpmock::MockServer;
use tokio::time::{Instant, sleep_until};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(150);
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// The runtime's own clock.
struct TokioClock {
    start: Instant,
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::default()
    }
    fn uptime(&self) -> Duration {
        self.start.elapsed()
    }
    fn sleep_until(&self, at: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(sleep_until(self.start.checked_add(at.uptime()).unwrap()))
    }
}

struct Caller {
    clock: Arc<TokioClock>,
    transport: HyperTransport,
}

impl Caller {
    fn new() -> Self {
        let clock = Arc::new(TokioClock { start: Instant::now() });
        let transport =
            HyperTransport::new(Arc::clone(&clock) as Arc<dyn Clock>).with_response_bytes_max(1000);
        Self { clock, transport }
    }

    async fn send(&self, request: Request, within: Duration) -> Result<Response, TransportError> {
        self.transport.send(request, self.clock.deadline(within)).await
    }
}

fn post(url: &str) -> Request {
    Request {
        method: Method::Post,
        url: url.to_owned(),
        headers: vec![
            ("Authorization", HeaderText::Secret("Bearer secret".into())),
            ("Content-Type", "application/x-www-form-urlencoded".into()),
        ],
        body: b"charge=ch_1&amount=300&metadata%5Ba%5D=b".to_vec(),
    }
}

/// A server of raw bytes, which does with its connections what it is told; gives its URL.
fn server(act: impl FnOnce(TcpListener) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    thread::spawn(move || act(listener));
    url
}

/// A server that reads a request, answers with these bytes, and closes.
fn answering(answer: String) -> String {
    server(move |listener| {
        let (mut stream, _) = listener.accept().unwrap();
        read_request(&mut stream);
        stream.write_all(answer.as_bytes()).unwrap();
    })
}

/// Reads one request, up to the end of the body that [`post`] sends. False when there was none.
fn read_request(stream: &mut TcpStream) -> bool {
    let mut seen = Vec::new();
    let mut byte = [0_u8; 1];
    while !seen.ends_with(b"metadata%5Ba%5D=b") {
        match stream.read(&mut byte) {
            Ok(1) => seen.extend_from_slice(&byte),
            Ok(_) | Err(_) => return false,
        }
    }
    true
}

fn class(answer: &Result<Response, TransportError>) -> &'static str {
    match answer {
        Ok(_) => "answered",
        Err(TransportError::Broken { .. }) => "broken",
        Err(TransportError::NotSent { .. }) => "not sent",
        Err(TransportError::TimedOut) => "timed out",
        Err(TransportError::TooLarge { .. }) => "too large",
    }
}

#[tokio::test]
async fn what_is_sent_arrives_unchanged_and_any_status_is_an_answer() {
    for status in [200, 302, 404, 500] {
        let server = MockServer::start_async().await;
        let mock = server
            .mock_async(|when, then| {
                when.method("POST")
                    .path("/v1/refunds")
                    .query_param("a", "b c")
                    .header("authorization", "Bearer secret")
                    .header("content-type", "application/x-www-form-urlencoded")
                    .body("charge=ch_1&amount=300&metadata%5Ba%5D=b");
                then.status(status)
                    .header("Request-Id", "req_1")
                    .header("Location", "/elsewhere")
                    .body("told");
            })
            .await;
        let answer =
            Caller::new().send(post(&server.url("/v1/refunds?a=b%20c")), LONG).await.unwrap();
        mock.assert_calls_async(1).await;
        assert_eq!((answer.status, answer.body.as_slice()), (status, &b"told"[..]));
        assert_eq!(answer.header("request-id"), Some("req_1"));
    }
}

#[tokio::test]
async fn what_each_fault_is_called() {
    let unused = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let silent = || {
        server(|listener| {
            let (mut stream, _) = listener.accept().unwrap();
            read_request(&mut stream);
            // Ends when the client goes away.
            let _ = stream.read(&mut [0]);
        })
    };
    let long = "x".repeat(1001);
    let plain_text = server(|listener| {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(OK.as_bytes()).unwrap();
    })
    .replace("http:", "https:");
    #[rustfmt::skip]
    let table = [
        // what the other side does                    deadline        class
        ("refuses connections", format!("http://{unused}"),                  LONG,           "not sent"),
        ("speaks no TLS",       plain_text,                                  LONG,           "not sent"),
        ("is asked in plain",   "http://192.0.2.1/v1".to_owned(),            LONG,           "not sent"),
        ("has no name",         "https:///v1".to_owned(),                    LONG,           "not sent"),
        ("is asked too late",   silent(),                                    Duration::ZERO, "not sent"),
        ("never answers",       silent(),                                    SHORT,          "timed out"),
        ("reads and hangs up",  answering(String::new()),                    LONG,           "broken"),
        ("speaks no HTTP",      answering("nonsense\r\n\r\n".to_owned()),    LONG,           "broken"),
        ("stops half-way",      answering(OK.replace(": 2", ": 3")),         LONG,           "broken"),
        ("answers",             answering(OK.to_owned()),                    LONG,           "answered"),
        ("announces too much",  answering(format!("HTTP/1.1 200 OK\r\ncontent-length: 1001\r\n\r\n{long}")), LONG, "too large"),
        ("says too much",       answering(format!("HTTP/1.1 200 OK\r\n\r\n{long}")),         LONG, "too large"),
        ("says just enough",    answering(format!("HTTP/1.1 200 OK\r\n\r\n{}", &long[1..])), LONG, "answered"),
    ];
    let caller = Caller::new();
    for (name, url, within, expected) in table {
        let answer = caller.send(post(&url), within).await;
        assert_eq!(class(&answer), expected, "{name}: {answer:?}");
        let told = answer.map_or_else(|error| error.to_string(), |_| String::new());
        assert!(!told.contains("secret") && !told.contains("ch_1"), "{name}: {told}");
    }
}

#[tokio::test]
async fn a_header_that_cannot_be_sent_is_named_and_nothing_is_sent() {
    let url = server(|listener| drop(listener.accept()));
    let mut request = post(&url);
    request.headers.push(("X-Broken", "line\nbreak".into()));
    let error = Caller::new().send(request, LONG).await.unwrap_err();
    assert_eq!(error.to_string(), "nothing was sent: the header X-Broken cannot be sent");
}

#[tokio::test]
async fn a_connection_is_kept() {
    // Only one connection is ever accepted, and it carries both requests.
    let url = server(|listener| {
        let (mut stream, _) = listener.accept().unwrap();
        while read_request(&mut stream) {
            stream.write_all(OK.as_bytes()).unwrap();
        }
    });
    let caller = Caller::new();
    for _ in 0..2 {
        assert_eq!(class(&caller.send(post(&url), LONG).await), "answered");
    }
}

/// A kept connection that the server closes between two requests: whatever the race comes to, the
/// second request is seen once at most, and never when it is called not sent.
#[tokio::test]
async fn a_kept_connection_that_closes_never_sends_twice() {
    for round in 0..20 {
        let requests = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&requests);
        let url = server(move |listener| {
            while let Ok((mut stream, _)) = listener.accept() {
                if read_request(&mut stream) {
                    count.fetch_add(1, Ordering::SeqCst);
                    let _ = stream.write_all(OK.as_bytes());
                }
            }
        });
        let caller = Caller::new();
        assert_eq!(class(&caller.send(post(&url), LONG).await), "answered");
        let second = caller.send(post(&url), LONG).await;
        let seen = requests.load(Ordering::SeqCst);
        match class(&second) {
            "answered" => assert_eq!(seen, 2, "round {round}"),
            "not sent" | "broken" => assert_eq!(seen, 1, "round {round}: {second:?}"),
            other => panic!("round {round}: {other}"),
        }
    }
}

/// Where somebody else chose the URL, every address is looked at before it is connected to, whether
/// it is written out or looked up, and each request looks anew.
#[tokio::test]
async fn only_addresses_that_are_taken_are_connected_to() {
    let caller = |admits: fn(IpAddr) -> bool| {
        let Caller { clock, transport } = Caller::new();
        Caller { clock, transport: transport.only_to(Arc::new(admits)) }
    };
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let url = server(move |listener| {
        while let Ok((mut stream, _)) = listener.accept() {
            count.fetch_add(1, Ordering::SeqCst);
            if read_request(&mut stream) {
                let _ = stream.write_all(OK.as_bytes());
            }
        }
    });
    let by_name = url.replace("127.0.0.1", "localhost");
    let (nobody, this_machine) = (caller(|_| false), caller(|at| at.is_loopback()));
    for url in
        [&url, &by_name, &url.replace("http:", "https:"), &by_name.replace("http:", "https:")]
    {
        let error = nobody.send(post(url), LONG).await.unwrap_err();
        assert_eq!(class(&Err(error.clone())), "not sent", "{url}");
        assert!(error.to_string().contains("to which nothing is sent"), "{url}: {error}");
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0, "nobody was connected to");
    for requests in 1..=3 {
        let url = if requests == 2 { &by_name } else { &url };
        assert_eq!(class(&this_machine.send(post(url), LONG).await), "answered");
        assert_eq!(connections.load(Ordering::SeqCst), requests, "a connection for each");
    }
}
