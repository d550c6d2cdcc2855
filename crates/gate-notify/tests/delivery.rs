//! Notices on their way: what goes over the wire, what becomes of each answer, and who waits for whom.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::as_conversions,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::type_complexity,
    clippy::unwrap_used,
    reason = "tests unwrap and compute freely"
)]

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gate_core::{
    AgentId, AgentName, AttemptId, AuthorityError, ChargeId, Clock, Deadline, Fate, IdempotencyKey,
    Ids, Intent, IntentId, Notice, Outbox, State, Timestamp, Tool, Waiting, Wanted,
};
use gate_http::{HyperTransport, Request, Response, Transport, TransportError};
use gate_money::{Amount, Currency};
use gate_notify::{ANSWER_BYTES_MAX, Deliverer, Secret, Wake, is_public, pause_max};
use proptest::prelude::*;
use ring::digest::{SHA256, digest};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

const WAIT_MAX: Duration = Duration::from_secs(20);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The runtime's own clock.
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::default()
    }
    fn uptime(&self) -> Duration {
        self.0.elapsed()
    }
    fn sleep_until(&self, at: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(sleep_until(self.0 + at.uptime()))
    }
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(TokioClock(Instant::now()))
}

/// Always the same byte.
struct Same(u8);

impl Ids for Same {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0);
    }
}

fn intent() -> Intent {
    Intent {
        id: IntentId::parse("int_1").unwrap(),
        agent: AgentId::parse("agt_1").unwrap(),
        agent_name: AgentName::parse("bot").unwrap(),
        team: None,
        tool: Tool::StripeRefund,
        key: IdempotencyKey::parse("ticket-4821").unwrap(),
        keyless: false,
        wanted: Wanted::Minor(1250),
        reason: None,
        charge: ChargeId::parse("ch_1").unwrap(),
        payment_intent: None,
        seen: None,
        amount: Amount::new(1250, Currency::EUR).unwrap(),
        worth: None,
        livemode: false,
        account: None,
        state: State::Settled,
        denied_by: None,
        reasons: Vec::new(),
        policy_version: 7,
        approval: None,
        refund: None,
        failure: None,
        needs_person: false,
        request: None,
        submitted_at: None,
        settled_at: None,
        follow_at: None,
        attempt: AttemptId::parse("att_1").unwrap(),
        fence: 1,
        lease_until: None,
        created_at: Timestamp::from_millis(0),
        updated_at: Timestamp::from_millis(1),
    }
}

/// A notice of something that happened at zero.
fn notice(agent: &str, n: u64, url: &str) -> Notice {
    Notice {
        agent: AgentName::parse(agent).unwrap(),
        url: url.to_owned(),
        n,
        event: "refund.settled",
        at: Timestamp::from_millis(0),
        taken_at: Timestamp::from_millis(7999),
        taken_until: Timestamp::from_millis(37_999),
        attempts: 0,
        intent: intent(),
        generations: vec![2, 1],
    }
}

/// A list for each agent; what is delivered or given up is gone, what fails waits for good.
#[derive(Default)]
struct Lists {
    waiting: Mutex<BTreeMap<AgentName, Vec<Notice>>>,
    taken: Mutex<Vec<AgentName>>,
    recorded: Mutex<Vec<(AgentName, u64, Fate, String)>>,
    changed: tokio::sync::Notify,
}

impl Lists {
    fn of(notices: Vec<Notice>) -> Arc<Self> {
        let lists = Self::default();
        for notice in notices {
            let mut waiting = lists.waiting.lock().unwrap();
            waiting.entry(notice.agent.clone()).or_default().push(notice);
        }
        Arc::new(lists)
    }

    /// Returns once so much is recorded.
    async fn recorded(&self, count: usize) -> Vec<(AgentName, u64, Fate, String)> {
        let waiting = async {
            loop {
                let changed = self.changed.notified();
                let recorded = self.recorded.lock().unwrap().clone();
                if recorded.len() >= count {
                    return recorded;
                }
                changed.await;
            }
        };
        tokio::time::timeout(WAIT_MAX, waiting).await.unwrap()
    }
}

#[async_trait]
impl Outbox for Lists {
    async fn waiting(&self) -> Result<Waiting, AuthorityError> {
        let waiting = self.waiting.lock().unwrap();
        Ok(Waiting { due: waiting.keys().cloned().collect(), next_in: None })
    }

    async fn take(
        &self,
        agent: &AgentName,
        lease: Duration,
    ) -> Result<Option<Notice>, AuthorityError> {
        assert!(lease > Duration::from_secs(10), "longer than an attempt");
        let taken = self.waiting.lock().unwrap().get(agent).and_then(|list| list.first().cloned());
        if taken.is_some() {
            self.taken.lock().unwrap().push(agent.clone());
        }
        Ok(taken)
    }

    async fn record(
        &self,
        notice: &Notice,
        fate: Fate,
        result: &str,
        lease: Option<Duration>,
    ) -> Result<Option<Notice>, AuthorityError> {
        assert!(lease.is_none() || fate == Fate::Delivered, "only after a success");
        let mut waiting = self.waiting.lock().unwrap();
        match fate {
            Fate::Delivered => {
                let list = waiting.get_mut(&notice.agent).unwrap();
                list.remove(0);
                if list.is_empty() {
                    waiting.remove(&notice.agent);
                }
            }
            Fate::Failed(_) | Fate::GivenUp(_) | Fate::Gone => drop(waiting.remove(&notice.agent)),
        }
        let row = (notice.agent.clone(), notice.n, fate, result.to_owned());
        self.recorded.lock().unwrap().push(row);
        self.changed.notify_waiters();
        // Every other time it is left to be taken.
        let next = waiting.get(&notice.agent).and_then(|list| list.first().cloned());
        Ok(next.filter(|next| lease.is_some() && next.n.is_multiple_of(2)))
    }
}

/// Never wakes.
struct Asleep;

#[async_trait]
impl Wake for Asleep {
    fn mark(&mut self) {}

    async fn woken(&mut self) {
        std::future::pending::<()>().await;
    }
}

/// Answers by a function, and keeps what was sent.
struct Wire<F> {
    answer: F,
    sent: Mutex<Vec<Request>>,
}

impl<F> Wire<F> {
    fn new(answer: F) -> Arc<Self> {
        Arc::new(Self { answer, sent: Mutex::default() })
    }
}

#[async_trait]
impl<F> Transport for Wire<F>
where
    F: Fn(&Request) -> Result<u16, TransportError> + Send + Sync,
{
    async fn send(&self, request: Request, _: Deadline) -> Result<Response, TransportError> {
        let answer = (self.answer)(&request);
        self.sent.lock().unwrap().push(request);
        // Url `…/never` is never answered.
        match answer {
            Ok(0) => std::future::pending().await,
            answer => answer.map(|status| Response { status, ..Response::default() }),
        }
    }
}

fn secret(_: &AgentName, generation: u32) -> Secret {
    Secret::new(&[u8::try_from(generation).unwrap(); 32])
}

fn deliverer(lists: &Arc<Lists>, transport: Arc<dyn Transport>, byte: u8) -> Deliverer {
    let outbox: Arc<dyn Outbox> = Arc::<Lists>::clone(lists);
    Deliverer::new(outbox, Arc::new(secret), transport, clock(), Arc::new(Same(byte)))
}

/// HMAC as RFC 2104 has it, and not by the code that signs.
fn hmac(key: &[u8], message: &[u8]) -> Vec<u8> {
    let padded = |pad: u8| -> Vec<u8> {
        (0..64).map(|n| key.get(n).copied().unwrap_or_default() ^ pad).collect()
    };
    let inner = digest(&SHA256, &[padded(0x36), message.to_vec()].concat());
    digest(&SHA256, &[padded(0x5c), inner.as_ref().to_vec()].concat()).as_ref().to_vec()
}

#[tokio::test]
async fn what_goes_over_the_wire() {
    let wire = Wire::new(|_: &Request| Ok(204));
    let lists = Lists::of(vec![notice("bot", 42, "https://bot.example.com/hooks?a=b")]);
    let sender = deliverer(&lists, Arc::<Wire<_>>::clone(&wire), 0);
    sender.deliver(&AgentName::parse("bot").unwrap(), || false).await.unwrap();
    let sent = wire.sent.lock().unwrap();
    let [request] = &sent[..] else { panic!("one request") };
    let header = |name: &str| request.header(name).unwrap().expose().to_owned();
    assert_eq!(request.url, "https://bot.example.com/hooks?a=b");
    assert_eq!(header("content-type"), "application/json");
    let (id, at) = (header("webhook-id"), header("webhook-timestamp"));
    assert_eq!((id.as_str(), at.as_str()), ("msg_42_int_1", "7"), "whole seconds, rounded down");
    let body = String::from_utf8(request.body.clone()).unwrap();
    let told: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(told["type"], "refund.settled");
    assert_eq!(told["timestamp"], "1970-01-01T00:00:00.000Z");
    assert_eq!(told["data"]["intentId"], "int_1");
    assert_eq!(told["data"]["livemode"], false);
    assert_eq!(told.as_object().unwrap().len(), 3);
    // As the specification tells receivers to, for each secret that is valid.
    let signatures = header("webhook-signature");
    let expected: Vec<String> = [2, 1]
        .map(|generation| {
            let secret = secret(&AgentName::parse("bot").unwrap(), generation);
            let key = STANDARD.decode(secret.expose().strip_prefix("whsec_").unwrap()).unwrap();
            let signed = hmac(&key, format!("{id}.{at}.{body}").as_bytes());
            format!("v1,{}", STANDARD.encode(signed))
        })
        .to_vec();
    assert_eq!(signatures.split(' ').collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn what_each_answer_comes_to() {
    let lost = || TransportError::Broken { detail: "reset".to_owned() };
    let (failed, given_up) = (|pause| Fate::Failed(pause), |pause| Fate::GivenUp(pause));
    let seconds = Duration::from_secs;
    #[rustfmt::skip]
    let table: [(Result<u16, TransportError>, u32, Duration, Fate, &str); 17] = [
        // answer, failures before it, age of the event, fate, in words
        (Ok(200),                      0, Duration::ZERO, Fate::Delivered,          "200"),
        (Ok(204),                      9, 9 * DAY,        Fate::Delivered,          "204"),
        (Ok(299),                      0, Duration::ZERO, Fate::Delivered,          "299"),
        (Ok(199),                      0, Duration::ZERO, failed(seconds(5)),       "199"),
        (Ok(301),                      0, Duration::ZERO, failed(seconds(5)),       "301, and redirects are not followed"),
        (Ok(307),                      1, Duration::ZERO, failed(seconds(10)),      "307, and redirects are not followed"),
        (Ok(400),                      2, Duration::ZERO, failed(seconds(20)),      "400"),
        (Ok(404),                      9, Duration::ZERO, failed(seconds(2560)),    "404"),
        (Ok(410),                      0, Duration::ZERO, Fate::Gone,               "410"),
        (Ok(410),                      7, 9 * DAY,        Fate::Gone,               "410"),
        (Ok(429),                      10, Duration::ZERO, failed(seconds(3600)),   "429"),
        (Ok(500),                      99, Duration::ZERO, failed(seconds(3600)),   "500"),
        (Err(TransportError::TimedOut), 0, Duration::ZERO, failed(seconds(5)),      "no answer came in time"),
        (Err(TransportError::TooLarge { limit_bytes: 9 }), 0, Duration::ZERO, failed(seconds(5)), "the answer is longer than 9 bytes"),
        (Err(lost()),                  0, 3 * DAY - Duration::from_millis(1), failed(seconds(5)), "the connection broke: reset"),
        (Err(lost()),                  0, 3 * DAY,        given_up(seconds(5)),     "the connection broke: reset"),
        (Ok(503),                      99, 30 * DAY,      given_up(seconds(3600)),  "503"),
    ];
    for (answer, attempts, age, fate, words) in table {
        let case = format!("{answer:?} after {attempts}, {age:?} old");
        let taken_at = Timestamp::from_millis(0).after(age);
        let lists = Lists::of(vec![Notice {
            attempts,
            taken_at,
            ..notice("bot", 1, "https://a.example/")
        }]);
        // The longest pause that there is.
        let wire = Wire::new(move |_: &Request| answer.clone());
        let sender = deliverer(&lists, wire, 255);
        sender.deliver(&AgentName::parse("bot").unwrap(), || true).await.unwrap();
        let [(_, 1, found, said)] = &lists.recorded.lock().unwrap()[..] else { panic!("{case}") };
        assert_eq!((*found, said.as_str()), (fate, words), "{case}");
    }
}

proptest! {
    /// Full jitter: a pause is anything up to its bound, which doubles up to an hour.
    #[test]
    fn pauses_stay_within_their_bounds(attempts in 0_u32..200, byte in any::<u8>()) {
        let bound = pause_max(attempts);
        prop_assert!(bound >= Duration::from_secs(5) && bound <= Duration::from_secs(3600));
        prop_assert!(pause_max(attempts + 1) >= bound);
        let lists =
            Lists::of(vec![Notice { attempts, ..notice("bot", 1, "https://a.example/") }]);
        let sender = deliverer(&lists, Wire::new(|_: &Request| Ok(500)), byte);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(sender.deliver(&AgentName::parse("bot").unwrap(), || true)).unwrap();
        let recorded = lists.recorded.lock().unwrap();
        let Fate::Failed(pause) = recorded[0].2 else { panic!("{recorded:?}") };
        let expected = bound * (u32::from(byte) * 257 + 1) / 65_536;
        prop_assert_eq!(pause, expected);
        prop_assert!(pause <= bound && !pause.is_zero());
    }
}

/// One agent's target never answers, one's fails; a third's notices all go, in their order.
#[tokio::test]
async fn a_target_holds_up_only_its_own_agent() {
    let wire = Wire::new(|request: &Request| match request.url.rsplit('/').next().unwrap() {
        "never" => Ok(0),
        "down" => Ok(503),
        _ => Ok(200),
    });
    let mut notices = vec![notice("stuck", 1, "https://a.example/never")];
    notices.extend((2..5).map(|n| notice("down", n, "https://b.example/down")));
    notices.extend((5..205).map(|n| notice("well", n, "https://c.example/")));
    let lists = Lists::of(notices);
    let (sender, stop) = (deliverer(&lists, wire, 0), CancellationToken::new());
    let looking = async {
        let recorded = lists.recorded(201).await;
        let of = |name: &str| -> Vec<u64> {
            let own = recorded.iter().filter(|(agent, ..)| agent.as_str() == name);
            own.map(|(_, n, ..)| *n).collect()
        };
        assert_eq!(of("well"), (5..205).collect::<Vec<_>>());
        assert_eq!(of("down"), [2], "nothing after one that failed");
        assert_eq!(of("stuck"), [0; 0]);
        let taken = lists.taken.lock().unwrap();
        assert_eq!(taken.iter().filter(|agent| agent.as_str() == "stuck").count(), 1, "once");
    };
    let mut asleep = Asleep;
    tokio::select! {
        () = sender.run(&mut asleep, &stop) => panic!("it ended by itself"),
        () = looking => {}
    }
}

/// Told to stop, it finishes what is under way and takes nothing new.
#[tokio::test]
async fn what_is_under_way_is_finished() {
    let stop = CancellationToken::new();
    let told = stop.clone();
    let wire = Wire::new(move |_: &Request| {
        told.cancel();
        Ok(200)
    });
    let lists = Lists::of((1..9).map(|n| notice("bot", n, "https://a.example/")).collect());
    let sender = deliverer(&lists, wire, 0);
    tokio::time::timeout(WAIT_MAX, sender.run(&mut Asleep, &stop)).await.unwrap();
    assert_eq!(lists.recorded.lock().unwrap().len(), 1);
}

/// A server that answers every connection with these bytes, and counts them.
fn server(answer: String) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            counted.fetch_add(1, Ordering::SeqCst);
            let mut seen = Vec::new();
            let mut part = [0; 4096];
            // The body ends with the object in it.
            while !seen.ends_with(b"}}") {
                let read = stream.read(&mut part).unwrap_or_default();
                if read == 0 {
                    break;
                }
                seen.extend_from_slice(&part[..read]);
            }
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (url, count)
}

/// Over sockets: a redirect is an answer like others, and too long an answer is none.
#[tokio::test]
async fn answers_over_sockets() {
    let (target, followed) = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned());
    let long = "x".repeat(ANSWER_BYTES_MAX + 1);
    let answers = |head: &str| format!("HTTP/1.1 {head}\r\n\r\n");
    #[rustfmt::skip]
    let table = [
        (answers("200 OK\r\ncontent-length: 0"),                            "200"),
        (answers(&format!("302 Found\r\nlocation: {target}\r\ncontent-length: 0")), "302, and redirects are not followed"),
        (answers(&format!("308 Moved\r\nlocation: {target}\r\ncontent-length: 0")), "308, and redirects are not followed"),
        (format!("{}{long}", answers("200 OK")),                            "the answer is longer than 65536 bytes"),
        (format!("{}{}", answers("200 OK"), &long[1..]),                    "200"),
        ("nonsense\r\n\r\n".to_owned(),                                     "the connection broke: "),
        (String::new(),                                                     "the connection broke: "),
    ];
    for (answer, expected) in table {
        let (url, _) = server(answer);
        let lists = Lists::of(vec![notice("bot", 1, &url)]);
        let transport = HyperTransport::new(clock()).with_response_bytes_max(ANSWER_BYTES_MAX);
        let sender = deliverer(&lists, Arc::new(transport), 0);
        sender.deliver(&AgentName::parse("bot").unwrap(), || true).await.unwrap();
        let recorded = lists.recorded.lock().unwrap();
        assert!(recorded[0].3.starts_with(expected), "{recorded:?} instead of {expected}");
    }
    assert_eq!(followed.load(Ordering::SeqCst), 0, "no redirect was followed");
}

/// What would reach something that is not everybody's is not even connected to, however it is written.
#[tokio::test]
async fn nothing_goes_to_addresses_that_are_not_public() {
    let (here, count) = server("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n".to_owned());
    let port = here.trim_end_matches('/').rsplit(':').next().unwrap();
    let hosts = [
        // this machine
        "127.0.0.1",
        "127.0.0.2",
        "127.255.255.254",
        "0.0.0.0",
        "0.1.2.3",
        "localhost",
        "LOCALHOST",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        // in decimal, octal, hex, and with parts left out
        "2130706433",
        "0x7f000001",
        "0x7F.0.0.1",
        "0177.0.0.1",
        "017700000001",
        "127.1",
        "127.0.1",
        "0x7f.1",
        "127.0.0x1",
        "0x7f.0x0.0x0.0x1",
        "00000177.0.0.1",
        "127.000.000.001",
        "0",
        "1",
        "167772161",
        "0xa000001",
        "012.1",
        "0300.0250.1.1",
        "3232235777",
        "2852039166",
        "0xa9fea9fe",
        "169.254.43518",
        "0251.0376.0251.0376",
        // private, link-local, carriers' NAT, unique-local
        "10.0.0.1",
        "10.255.255.255",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "192.168.255.255",
        "169.254.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "[fc00::1]",
        "[fdff::1]",
        "[fe80::1]",
        "[febf::1]",
        "[fec0::1]",
        // metadata
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "192.0.0.192",
        "[fd00:ec2::254]",
        "[::ffff:169.254.169.254]",
        // documentation, benchmarks, multicast, reserved
        "192.0.2.1",
        "198.51.100.1",
        "203.0.113.1",
        "198.18.0.1",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "[2001:db8::1]",
        "[ff02::1]",
        "[3fff::1]",
        "[100::1]",
        // what stands for another address
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:10.0.0.1]",
        "[::127.0.0.1]",
        "[::ffff:0:127.0.0.1]",
        "[2002:7f00:1::]",
        "[2002:a00:1::1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::7f00:1]",
        "[2001::7f00:1]",
    ];
    assert!(hosts.len() >= 60);
    let transport = HyperTransport::new(clock()).only_to(Arc::new(is_public));
    let transport: Arc<dyn Transport> = Arc::new(transport);
    for host in hosts {
        let url = format!("https://{host}:{port}/hooks");
        let lists = Lists::of(vec![notice("bot", 1, &url)]);
        let sender = deliverer(&lists, Arc::clone(&transport), 0);
        sender.deliver(&AgentName::parse("bot").unwrap(), || true).await.unwrap();
        let recorded = lists.recorded.lock().unwrap();
        let said = &recorded[0].3;
        assert!(said.starts_with("nothing was sent: "), "{host}: {said}");
        // A number alone is no name that TLS would ask for.
        let refused = ["to which nothing is sent", "invalid dns name"];
        assert!(refused.iter().any(|words| said.contains(words)), "{host}: {said}");
    }
    assert_eq!(count.load(Ordering::SeqCst), 0, "nobody was connected to");
}
