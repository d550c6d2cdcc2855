//! The client against an authority that a test commands: what it believes, what it asks again.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

use async_trait::async_trait;
use gate_core::{ActionError, AgentId, AgentName, Authority, IntentId, Outcome, Records, Work};

use super::*;
use crate::call::SignedCall;
use crate::keys::AuthorityKey;

/// A clock that is there at once when somebody sleeps.
#[derive(Default)]
struct FakeClock(Mutex<(i64, Duration)>);

impl Clock for FakeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + self.0.lock().unwrap().0)
    }
    fn uptime(&self) -> Duration {
        self.0.lock().unwrap().1
    }
    fn sleep_until(&self, at: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let mut times = self.0.lock().unwrap();
        times.1 = times.1.max(at.uptime());
        Box::pin(async {})
    }
}

/// Counts up.
#[derive(Default)]
struct CountedIds(Mutex<u8>);

impl Ids for CountedIds {
    fn fill(&self, bytes: &mut [u8]) {
        let mut count = self.0.lock().unwrap();
        *count += 1;
        bytes.fill(*count);
    }
}

/// What becomes of one attempt.
#[derive(Clone, Debug)]
enum Fate {
    Nowhere,
    Lost,
    /// Answered and signed.
    Says(u16, String),
    /// Answered by whoever is on the way.
    Unsigned(u16, &'static str),
    /// Signed by another authority.
    Forged(String),
    /// The last good answer once more.
    Replayed,
    /// Signed, and then altered.
    Altered(String),
}

struct Wire {
    clock: Arc<FakeClock>,
    fates: Mutex<VecDeque<Fate>>,
    sent: Mutex<Vec<Request>>,
    last: Mutex<Response>,
    skew_millis: i64,
}

fn authority() -> AuthorityKey {
    AuthorityKey::from_seed(&[2; 32]).unwrap()
}

#[async_trait]
impl Transport for Wire {
    async fn send(&self, request: Request, _: Deadline) -> Result<Response, TransportError> {
        self.sent.lock().unwrap().push(request.clone());
        let fate = self.fates.lock().unwrap().pop_front().expect("one attempt too many");
        let signed = |key: &AuthorityKey, status: u16, body: &str| {
            let call = read(&request, self.clock.now()).unwrap();
            let now = Timestamp::from_millis(self.clock.now().millis() + self.skew_millis);
            let (digest, signed) = key.sign_answer(status, body.as_bytes(), call.signature(), now);
            let headers = [
                ("content-digest", digest),
                ("signature-input", signed.input),
                ("signature", signed.signature),
            ];
            let headers = headers.map(|(name, value)| (name.to_owned(), value)).to_vec();
            Response { status, headers, body: body.as_bytes().to_vec() }
        };
        match fate {
            Fate::Nowhere => Err(TransportError::NotSent { detail: "nowhere".to_owned() }),
            Fate::Lost => Err(TransportError::TimedOut),
            Fate::Says(status, body) => {
                let response = signed(&authority(), status, &body);
                *self.last.lock().unwrap() = response.clone();
                Ok(response)
            }
            Fate::Unsigned(status, body) => {
                Ok(Response { status, headers: Vec::new(), body: body.as_bytes().to_vec() })
            }
            Fate::Forged(body) => {
                Ok(signed(&AuthorityKey::from_seed(&[3; 32]).unwrap(), 200, &body))
            }
            Fate::Replayed => Ok(self.last.lock().unwrap().clone()),
            Fate::Altered(body) => {
                let mut response = signed(&authority(), 200, &body);
                response.body.push(b' ');
                Ok(response)
            }
        }
    }
}

fn read(request: &Request, now: Timestamp) -> Option<SignedCall> {
    let headers: Vec<(&str, &[u8])> =
        request.headers.iter().map(|(name, value)| (*name, value.expose().as_bytes())).collect();
    let (origin, rest) = request.url.split_at("https://authority.example".len());
    let (path, query) =
        rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    SignedCall::read(
        &RequestParts {
            method: if request.method == Method::Get { "GET" } else { "POST" },
            authority: origin.trim_start_matches("https://"),
            path: path.strip_prefix("/stripped").unwrap(),
            query,
            headers: &headers,
            body: &request.body,
        },
        now,
    )
    .ok()
}

struct Secrets(Mutex<u8>);

impl SecretSource for Secrets {
    fn secret(&self) -> Option<Arc<GatewaySecret>> {
        let seed = [*self.0.lock().unwrap(); 32];
        (seed[0] > 0)
            .then(|| Arc::new(GatewaySecret::make(&seed, &authority().public_key()).unwrap()))
    }
}

struct World {
    client: RemoteAuthority,
    clock: Arc<FakeClock>,
    wire: Arc<Wire>,
    secrets: Arc<Secrets>,
}

fn world(fates: &[Fate], skew_millis: i64) -> World {
    let clock = Arc::new(FakeClock::default());
    let wire = Arc::new(Wire {
        clock: Arc::clone(&clock),
        fates: Mutex::new(fates.iter().cloned().collect()),
        sent: Mutex::default(),
        last: Mutex::default(),
        skew_millis,
    });
    let secrets = Arc::new(Secrets(Mutex::new(1)));
    let settings = ClientSettings {
        origin: "https://authority.example".to_owned(),
        stripped: "/stripped".to_owned(),
        gateway: GatewayId::parse("gw_1").unwrap(),
        call_timeout: Duration::from_secs(10),
    };
    let channel = Channel {
        account: None,
        livemode: false,
        version: "v".to_owned(),
        key: None,
        agent_tagged: false,
    };
    let client = RemoteAuthority::new(
        Arc::<Wire>::clone(&wire),
        Arc::<FakeClock>::clone(&clock),
        Arc::new(CountedIds::default()),
        settings,
        Arc::<Secrets>::clone(&secrets),
        move || Some(channel.clone()),
    );
    World { client, clock, wire, secrets }
}

fn key() -> AgentKey {
    AgentKey::new("bb_agent_1".to_owned())
}

fn good() -> Fate {
    let agent = gate_core::Agent {
        id: AgentId::parse("agt_1").unwrap(),
        name: AgentName::parse("bot").unwrap(),
        sources: Vec::new(),
    };
    let body = crate::wire::AgentBody::new(&agent, Vec::new(), None);
    Fate::Says(200, serde_json::to_string(&body).unwrap())
}

fn body(fate: Fate) -> String {
    let Fate::Says(_, body) = fate else { panic!() };
    body
}

fn refusal(fault: GatewayFault) -> Fate {
    let problem = ProblemBody::new(&AuthorityError::Gateway(fault), "req_1");
    Fate::Says(problem.status, serde_json::to_string(&problem).unwrap())
}

fn code<T>(result: Result<T, AuthorityError>) -> &'static str {
    match result {
        Ok(_) => "ok",
        Err(error) => ActionError::from(error).code(),
    }
}

#[tokio::test]
async fn what_is_believed_and_what_is_asked_again() {
    let twice = Fate::Altered(body(good()));
    #[rustfmt::skip]
    let table: [(&str, &[Fate], &str, usize); 15] = [
        // what becomes of each attempt                          the agent hears          attempts
        ("good",      &[good()],                                 "ok",                    1),
        ("no route",  &[Fate::Nowhere, good()],                  "ok",                    2),
        ("lost",      &[Fate::Lost, good()],                     "ok",                    2),
        ("down",      &[Fate::Nowhere, Fate::Nowhere, Fate::Nowhere], "authority_unavailable", 3),
        ("unsigned",  &[Fate::Unsigned(200, "{}"), Fate::Unsigned(200, "{}"), Fate::Unsigned(200, "{}")], "authority_unavailable", 3),
        ("a proxy",   &[Fate::Unsigned(502, "<html>"), good()],  "ok",                    2),
        ("a redirect",&[Fate::Unsigned(302, ""), good()],        "ok",                    2),
        ("forged",    &[Fate::Forged(body(good())), Fate::Lost, Fate::Lost], "authority_unavailable", 3),
        ("altered",   &[twice.clone(), twice, Fate::Lost],       "authority_unavailable", 3),
        ("unreadable",&[Fate::Says(200, "{}".to_owned())],       "authority_unavailable", 1),
        ("no problem",&[Fate::Says(500, "x".to_owned())],        "authority_error",       1),
        ("came twice",&[refusal(GatewayFault::NonceReused), good()], "ok",                2),
        ("refused",   &[refusal(GatewayFault::SignatureInvalid)],"authority_error",       1),
        ("lost, then refused", &[Fate::Lost, refusal(GatewayFault::Revoked)], "authority_unavailable", 2),
        ("expired",   &[refusal(GatewayFault::SignatureExpired)],"authority_error",       1),
    ];
    for (name, fates, expected, attempts) in table {
        let world = world(fates, 0);
        assert_eq!(code(world.client.agent(&key()).await), expected, "{name}");
        let sent = world.wire.sent.lock().unwrap();
        assert_eq!(sent.len(), attempts, "{name}");
        let mut nonces: Vec<String> = sent
            .iter()
            .map(|request| read(request, world.clock.now()).unwrap().nonce().to_owned())
            .collect();
        nonces.dedup();
        assert_eq!(nonces.len(), attempts, "{name}: each attempt is signed anew");
        for request in sent.iter() {
            assert!(!format!("{request:?}").contains("bb_agent_1"), "{name}");
        }
    }
}

/// An answer to an earlier call is none to this one.
#[tokio::test]
async fn a_replayed_answer_is_refused() {
    let world = world(&[good(), Fate::Replayed, Fate::Replayed, Fate::Replayed], 0);
    assert_eq!(code(world.client.agent(&key()).await), "ok");
    assert_eq!(code(world.client.agent(&key()).await), "authority_unavailable");
}

/// Leases that nobody heard of end by themselves; more of them are not taken.
#[tokio::test]
async fn a_lost_claim_is_not_asked_again() {
    let world = world(&[Fate::Lost, Fate::Nowhere, Fate::Lost], 0);
    for attempts in [1, 3] {
        let claimed = world.client.claim(Work::Submitted, 5).await;
        assert_eq!(code(claimed), "authority_unavailable");
        assert_eq!(world.wire.sent.lock().unwrap().len(), attempts);
    }
}

#[tokio::test]
async fn clocks_that_differ_are_noticed() {
    let table = [(0, 0), (1000, 0), (31_000, 30), (-45_000, 44), (600_000, 599)];
    for (skew_millis, apart_secs) in table {
        let world = world(&[refusal(GatewayFault::SignatureExpired)], skew_millis);
        drop(world.client.agent(&key()).await);
        let health = world.client.health();
        assert_eq!(health.clock_apart, Some(Duration::from_secs(apart_secs)), "{skew_millis}");
        assert_eq!(health.refused, Some(GatewayFault::SignatureExpired));
    }
}

/// The newest secret first; the one before it while the authority takes that one and not yet the
/// newest; then neither.
#[tokio::test]
async fn a_changed_secret_is_taken_up() {
    let unknown = || refusal(GatewayFault::Unknown);
    let revoked = || refusal(GatewayFault::Revoked);
    let fates = [good(), unknown(), good(), good(), unknown(), revoked(), good(), unknown()];
    let world = world(&fates, 0);
    let ask = async || code(world.client.agent(&key()).await);
    assert_eq!(ask().await, "ok", "the first");
    *world.secrets.0.lock().unwrap() = 5;
    assert_eq!(ask().await, "ok", "not known there yet: the previous one");
    assert_eq!(ask().await, "ok", "the new one");
    assert_eq!(ask().await, "authority_error", "neither");
    assert_eq!(world.client.health().refused, Some(GatewayFault::Revoked));
    assert_eq!(ask().await, "ok");
    assert_eq!(world.client.health().refused, None);
    world.clock.0.lock().unwrap().0 += 25 * 3_600_000;
    assert_eq!(ask().await, "authority_error", "the previous one is over");
    let keys: Vec<bool> = world
        .wire
        .sent
        .lock()
        .unwrap()
        .iter()
        .map(|request| {
            let input = request.header("signature-input").unwrap().expose().to_owned();
            let id = input.split("keyid=\"").nth(1).unwrap().split('"').next().unwrap();
            let secret = GatewaySecret::make(&[5; 32], &[0; 32]).unwrap();
            crate::keys::KeyId::parse(id).unwrap().is_of(&secret.public_key())
        })
        .collect();
    assert_eq!(keys, [false, true, false, true, true, false, true, true], "new, or not");
    *world.secrets.0.lock().unwrap() = 0;
    world.wire.fates.lock().unwrap().push_back(good());
    assert_eq!(ask().await, "ok", "a file that cannot be read: what is known goes on");
}

#[tokio::test]
async fn where_calls_go() {
    let world = world(&[good(), Fate::Lost, Fate::Lost, Fate::Lost], 0);
    drop(world.client.agent(&key()).await);
    let id = IntentId::parse("int_1").unwrap();
    drop(world.client.record(&id, 3, &Outcome::NeedsPerson).await);
    let sent = world.wire.sent.lock().unwrap();
    let urls: Vec<&str> = sent.iter().map(|request| request.url.as_str()).collect();
    assert_eq!(urls[0], "https://authority.example/stripped/authority/v1/agent");
    assert_eq!(urls[1], "https://authority.example/stripped/authority/v1/intents/int_1/outcome");
    assert_eq!(sent[1].body, br#"{"fence":3,"outcome":{"kind":"needs_person"}}"#);
    assert!(sent[1].header("authorization").is_none());
    for (origin, authority) in [
        ("https://Host.example", "host.example"),
        ("https://host:443", "host"),
        ("http://127.0.0.1:80", "127.0.0.1"),
        ("http://127.0.0.1:443", "127.0.0.1:443"),
        ("https://[::1]:8788", "[::1]:8788"),
    ] {
        assert_eq!(authority_of(origin), authority);
    }
}

#[tokio::test]
async fn a_read_waits_no_longer_than_a_minute() {
    let world = world(&[Fate::Nowhere, Fate::Nowhere, Fate::Nowhere], 0);
    let id = IntentId::parse("int_1").unwrap();
    drop(world.client.intent(&key(), &id, Duration::from_secs(3600)).await);
    let sent = world.wire.sent.lock().unwrap();
    assert!(
        sent[0].url.ends_with("/authority/v1/intents/int_1?waitMillis=60000"),
        "{}",
        sent[0].url
    );
}
