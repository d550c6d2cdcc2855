//! The way between the gateways and an authority elsewhere: the byte-level Transport over the shipped
//! served side, in two processes that may die and come back over the same store.
//!
//! A call goes its way in a task that belongs to nobody: its gateway may time out or die, and it
//! arrives all the same. What each signed call is answered is held against the law where it is
//! answered.

use std::collections::BTreeMap;
use std::future::pending;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use gate_authority::LocalAuthority;
use gate_burnbound::KeyId;
use gate_core::{Deadline, Timestamp};
use gate_http::{Method, Request, Response, Transport, TransportError};
use gate_served::{Answer, Call, Served};
use gate_store::{MemStore, Store as _};
use serde_json::Value;

use crate::calls::PortCall;
use crate::coverage::Hit;
use crate::credentials::Credentials;
use crate::draw::{Draw, mixed};
use crate::executor::{Give, Handle, Node, hand_over};
use crate::faults::{Class, Fault, Faults, Place};
use crate::witness::Witness;

/// Where the gateways believe the authority to be.
pub(crate) const ORIGIN: &str = "https://authority.sim";
/// How far the clocks may be apart for sure, in seconds; the authority takes a second more.
const APART_SECS: i64 = 59;
/// How old a call may get for sure, and how old it is too old for sure, in seconds.
const AGE_SECS: (i64, i64) = (118, 121);
/// What says that a call was not taken.
const FAULTS: [&str; 6] = [
    "gateway_unknown",
    "gateway_revoked",
    "nonce_reused",
    "protocol_version",
    "signature_expired",
    "signature_invalid",
];

/// One process that serves the authority.
pub(crate) struct Replica {
    pub(crate) node: Node,
    /// Counts its lives.
    pub(crate) life: u64,
    pub(crate) served: Served,
    pub(crate) authority: Arc<LocalAuthority>,
}

/// See the module.
pub(crate) struct Wire {
    pub(crate) seed: u64,
    pub(crate) handle: Handle,
    pub(crate) faults: Arc<Faults>,
    pub(crate) witness: Witness,
    pub(crate) store: Arc<MemStore>,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) state: Mutex<State>,
}

/// What is known of the way.
#[derive(Default)]
pub(crate) struct State {
    replicas: [Option<Arc<Replica>>; 2],
    lives: u64,
    sent: u64,
    down_until_ms: u64,
    /// How far the authority's clock was from the world's, in milliseconds, whenever that changed.
    offs_ms: Vec<i64>,
    /// The last answers that were given, by what was asked.
    answers: BTreeMap<&'static str, Vec<Answer>>,
    /// By signature: how often it came, and who took it when.
    came: BTreeMap<String, Came>,
}

#[derive(Default)]
struct Came {
    times: u32,
    taken: Vec<(Node, u64, Standing)>,
}

/// A signed call on its way.
#[derive(Clone)]
struct Sent {
    call: Call,
    keyid: String,
    signature: String,
    created: i64,
    kind: &'static str,
    changes: bool,
    from: Node,
}

/// How a call stands with the authority at one moment.
#[derive(Clone, Copy)]
struct Standing {
    /// Whether its key is taken.
    taken: bool,
    now: Timestamp,
    /// How often the authority's clock was seen to be another distance from the world's.
    offs: usize,
    /// How often its gateway's keys were changed.
    change: u64,
}

impl Wire {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A process is there, or gone.
    pub(crate) fn set(&self, node: Node, replica: Option<Replica>) {
        let which = usize::from(node == Node::REPLICAS[1]);
        self.state().replicas[which] = replica.map(Arc::new);
    }

    /// A number for a process that starts.
    pub(crate) fn new_life(&self) -> u64 {
        let mut state = self.state();
        state.lives += 1;
        state.lives
    }

    /// The authority that a process serves, if it is up.
    pub(crate) fn authority(&self, which: usize) -> Option<Arc<LocalAuthority>> {
        self.state().replicas[which].as_ref().map(|replica| Arc::clone(&replica.authority))
    }

    /// The authority can be reached again.
    pub(crate) fn up(&self) {
        self.state().down_until_ms = 0;
    }

    fn now(&self) -> Timestamp {
        self.store.now().now_or_never().and_then(Result::ok).unwrap_or_default()
    }

    /// The public half of a secret that a gateway tries and the authority takes.
    pub(crate) fn usable(&self, node: Node) -> Option<[u8; 32]> {
        let which = usize::from(node.0);
        let held = self.credentials.of(which)?;
        let tried = self.credentials.tried(which);
        let now = self.now();
        let seen = self.witness.seen();
        let taken = |key: &[u8; 32]| seen.ledger.takes(&held.id, |of| of == key, now);
        tried.into_iter().find(taken)
    }

    fn standing(&self, keyid: &str) -> Standing {
        let now = self.now();
        let off_ms = now.millis() - self.handle.now_ms() as i64;
        let mut state = self.state();
        if state.offs_ms.last() != Some(&off_ms) {
            state.offs_ms.push(off_ms);
        }
        let offs = state.offs_ms.len();
        drop(state);
        let seen = self.witness.seen();
        let Some(keyid) = KeyId::parse(keyid) else {
            return Standing { taken: false, now, offs, change: 0 };
        };
        let taken = seen.ledger.takes(keyid.gateway(), |key| keyid.is_of(key), now);
        let change = seen.ledger.gateway_changes.get(keyid.gateway()).map_or(0, |(n, _)| *n);
        Standing { taken, now, offs, change }
    }

    /// Brings a call to a process; no answer when there is none, or it dies over it.
    async fn brings(self: &Arc<Self>, sent: &Sent, call: Call, which: usize) -> Option<Answer> {
        let replica = {
            let state = self.state();
            let up = self.handle.now_ms() >= state.down_until_ms;
            state.replicas[which].clone().filter(|_| up)?
        };
        let (give, slot) = hand_over();
        let (wire, sent) = (Arc::clone(self), sent.clone());
        self.handle.spawn(replica.node, async move {
            let whole = same(&call, &sent.call);
            let arrived = wire.standing(&sent.keyid);
            wire.state().came.entry(sent.signature.clone()).or_default().times += 1;
            let answer = replica.served.answer(call, pin!(pending())).await;
            wire.judges(&sent, whole, &arrived, &replica, &answer);
            let mut state = wire.state();
            let answers = state.answers.entry(sent.kind).or_default();
            answers.insert(0, answer.clone());
            answers.truncate(4);
            drop(state);
            give.give(answer);
        });
        slot.await
    }

    /// Holds what a call was answered against the law.
    fn judges(
        &self,
        sent: &Sent,
        whole: bool,
        arrived: &Standing,
        replica: &Replica,
        answer: &Answer,
    ) {
        let code = code(answer);
        let after = self.standing(&sent.keyid);
        let refused = FAULTS.contains(&code.as_str());
        let unable = code == "store_unavailable";
        let (kind, from) = (sent.kind, sent.from.0);
        let age = |at: &Standing| at.now.millis().div_euclid(1000) - sent.created;
        let ages = [age(arrived), age(&after)];
        let alone = self.state().came.get(&sent.signature).is_none_or(|came| came.times < 2);
        let mut seen = self.witness.seen();
        seen.line(|| format!("{kind} of gateway {from} by {} is answered {code}", sent.keyid));
        seen.trace(10, u64::from(answer.status), answer.body.len() as u64);
        seen.law("F5", whole || refused || unable, || {
            format!("{kind} of gateway {from} was changed on its way and answered {code}")
        });
        if !whole {
            return;
        }
        let taken = answer.status == 200;
        // Changed more than once meanwhile, it may have been taken in between.
        let between = after.change > arrived.change + 1;
        seen.law("F27", arrived.taken || after.taken || between || !taken, || {
            format!("{kind} of gateway {from} was taken, and its key is not")
        });
        let too_old = ages.iter().all(|age| *age > AGE_SECS.1)
            || ages.iter().all(|age| *age < -(APART_SECS + 2));
        seen.law("F5", !(taken && too_old), || {
            format!("{kind} of gateway {from} was taken {ages:?} s after it was signed")
        });
        let in_time = ages.iter().all(|age| (-APART_SECS..=AGE_SECS.0).contains(age));
        let fine = arrived.taken && after.taken && in_time && alone;
        seen.law("F27", !(fine && refused), || {
            format!("{kind} of gateway {from} is as it should be, and was told {code}")
        });
        seen.credential(sent.from, &sent.keyid, &code, arrived.change != after.change);
        drop(seen);
        if taken {
            self.took(sent, replica, &after);
        }
    }

    /// A call is taken once: what changes something by anybody, a read by each process.
    fn took(&self, sent: &Sent, replica: &Replica, after: &Standing) {
        let mut state = self.state();
        let offs_ms = state.offs_ms.clone();
        let came = state.came.entry(sent.signature.clone()).or_default();
        let again = came.taken.iter().any(|(node, life, before)| {
            let same = sent.changes || (*node == replica.node && *life == replica.life);
            // Where the clock was set back, what was forgotten may be in time again.
            let now_ms = offs_ms[after.offs - 1];
            same && offs_ms[before.offs - 1..after.offs].iter().all(|off_ms| *off_ms <= now_ms)
        });
        came.taken.push((replica.node, replica.life, *after));
        drop(state);
        let kind = sent.kind;
        self.witness.seen().law("F5", !again, || format!("the same {kind} was taken twice"));
    }
}

fn same(call: &Call, sent: &Call) -> bool {
    let parts = |of: &Call| {
        (of.method.clone(), of.path.clone(), of.query.clone(), of.headers.clone(), of.body.clone())
    };
    parts(call) == parts(sent)
}

fn code(answer: &Answer) -> String {
    if answer.status == 200 {
        return "ok".to_owned();
    }
    let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    body["code"].as_str().unwrap_or_default().to_owned()
}

impl Sent {
    fn of(request: &Request, from: Node) -> Self {
        let rest = request.url.strip_prefix(ORIGIN).expect("a URL of the authority's");
        let (path, query) = rest.split_once('?').map_or((rest, None), |(p, q)| (p, Some(q)));
        let header = |name: &str| request.header(name).map_or("", |value| value.expose());
        let input = header("signature-input");
        let param = |name: &str| {
            let rest = input.split_once(name).map_or("", |(_, rest)| rest);
            rest.split(['"', ';']).find(|part| !part.is_empty()).unwrap_or_default().to_owned()
        };
        let is_post = request.method == Method::Post;
        let kind = kind(is_post, path);
        let dry = String::from_utf8_lossy(&request.body).contains("\"dryRun\":true");
        let headers = request
            .headers
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.expose().as_bytes().to_vec()));
        Self {
            keyid: param("keyid="),
            signature: header("signature").to_owned(),
            created: param("created=").parse().unwrap_or_default(),
            changes: is_post && kind != "lookup" && !(kind == "decide" && dry),
            kind,
            from,
            call: Call {
                method: if is_post { "POST" } else { "GET" }.to_owned(),
                authority: "authority.sim".to_owned(),
                path: path.to_owned(),
                query: query.map(str::to_owned),
                headers: headers.collect(),
                body: request.body.clone(),
            },
        }
    }

    fn nonce(&self) -> String {
        let input = self.call.headers.iter().find(|(name, _)| name == "signature-input");
        let input = input.map_or(String::new(), |(_, v)| String::from_utf8_lossy(v).into_owned());
        let rest = input.split_once("nonce=\"").map_or("", |(_, rest)| rest);
        rest.split('"').next().unwrap_or_default().to_owned()
    }
}

fn kind(is_post: bool, path: &str) -> &'static str {
    let last = path.rsplit('/').next().unwrap_or_default();
    match (is_post, last) {
        (true, "intents") => "decide",
        (true, "lookup") => "lookup",
        (true, "claims") => "claims",
        (true, "execute") => "execute",
        (true, "outcome") => "outcome",
        (true, "cancel") => "cancel",
        (true, "justification") => "justify",
        (true, _) => "post",
        (false, "intents") => "intents",
        (false, "agent" | "budget" | "status") => "get",
        (false, _) => "intent",
    }
}

/// The transport of one gateway.
pub(crate) struct WireTransport {
    pub(crate) node: Node,
    pub(crate) wire: Arc<Wire>,
}

/// What comes back to a gateway: an answer, and whether it is the authority's to this call.
type Back = Result<(Answer, bool), TransportError>;

#[async_trait]
impl Transport for WireTransport {
    async fn send(&self, request: Request, by: Deadline) -> Result<Response, TransportError> {
        let wire = &self.wire;
        let sent = Sent::of(&request, self.node);
        let call = PortCall::current();
        let place = match sent.kind {
            "decide" => Place::Call,
            "execute" | "outcome" | "cancel" => Place::Late,
            _ => Place::Ask,
        };
        let fault = wire.faults.at(place, self.node);
        {
            let mut seen = wire.witness.seen();
            if let Some(fault) = &fault {
                seen.faulted(fault);
            }
            if let Some(call) = &call {
                let mut progress = call.progress();
                progress.hits.extend(fault.map(|fault| Hit::Wire(fault.class)));
                let content = (request.url.clone(), request.body.clone());
                let same = progress.content.get_or_insert_with(|| content.clone()) == &content;
                seen.law("F6", same, || {
                    format!("{} was sent again, and is another call", sent.kind)
                });
                seen.calls.insert(sent.nonce(), Arc::clone(call));
            }
        }
        let n = {
            let mut state = wire.state();
            state.sent += 1;
            state.sent
        };
        let (give, slot) = hand_over();
        wire.handle.spawn(Node::STRIPE, goes(Arc::clone(wire), sent, fault, n, call.clone(), give));
        let timeout = wire.handle.sleep_until(by.uptime().as_millis() as u64);
        let back = match select(pin!(slot), pin!(timeout)).await {
            Either::Left((Some(back), _)) => back,
            Either::Left((None, timeout)) => {
                timeout.await;
                Err(TransportError::TimedOut)
            }
            Either::Right(((), _)) => Err(TransportError::TimedOut),
        };
        let (answer, genuine) = back?;
        if let Some(call) = call {
            call.progress().answered |= genuine;
        }
        let headers =
            answer.headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        Ok(Response { status: answer.status, headers, body: answer.body })
    }
}

/// The way of one call: there, what the authority makes of it, and back.
async fn goes(
    wire: Arc<Wire>,
    sent: Sent,
    fault: Option<Fault>,
    n: u64,
    of: Option<Arc<PortCall>>,
    give: Give<Back>,
) {
    let handle = wire.handle.clone();
    let class = fault.map(|fault| fault.class);
    let mut draw = Draw::of(mixed(wire.seed, 42, n, 0), 0, 0);
    let which = draw.below(2) as usize;
    handle.sleep(1 + draw.below(12)).await;
    match class {
        Some(Class::CallNotSent) => {
            give.give(Err(TransportError::NotSent { detail: "no connection".to_owned() }));
            return;
        }
        Some(Class::AuthorityDown) => {
            let span = *draw.pick(&[300, 1_000, 3_000, 30_000, 400_000, 7_200_000]);
            wire.state().down_until_ms = handle.now_ms() + draw.below(span);
        }
        Some(Class::CallLost) => {
            if draw.permille(500) {
                give.give(Err(TransportError::Broken { detail: "reset".to_owned() }));
            }
            return;
        }
        Some(Class::CallSlow) => handle.sleep(draw.below(200_000)).await,
        _ => {}
    }
    let mut call = sent.call.clone();
    if class == Some(Class::CallAltered) {
        alter(&mut call, &mut draw);
    }
    let untouched = signature_of(&call) == signature_of(&sent.call);
    if class == Some(Class::CallTwice) {
        return twice(&wire, &sent, which, &mut draw, give).await;
    }
    let Some(mut answer) = wire.brings(&sent, call, which).await else {
        if let Some(of) = of {
            of.progress().hits.insert(Hit::Wire(Class::AuthorityDown));
        }
        // A refused connection is told at once; one that broke over the call, too.
        give.give(Err(TransportError::Broken { detail: "closed".to_owned() }));
        return;
    };
    let mut genuine = untouched;
    match class {
        Some(Class::AnswerLost) => {
            if draw.permille(500) {
                give.give(Err(TransportError::Broken { detail: "reset".to_owned() }));
            }
            return;
        }
        Some(Class::AnswerSlow) => handle.sleep(draw.below(15_000)).await,
        Some(Class::AnswerAltered) => {
            alter_answer(&mut answer, &mut draw);
            genuine = false;
        }
        Some(Class::AnswerUnsigned) => {
            answer.headers.retain(|(name, _)| !name.starts_with("signature"));
            genuine = false;
        }
        Some(Class::AnswerOther) => {
            let others = wire.state().answers.get(sent.kind).cloned().unwrap_or_default();
            // The first is this one's own.
            let other = others.into_iter().skip(1).find(|other| *other != answer);
            genuine = other.is_none() && untouched;
            answer = other.unwrap_or(answer);
        }
        _ => {}
    }
    handle.sleep(draw.below(12)).await;
    give.give(Ok((answer, genuine)));
}

/// The same call comes twice, at once or later, here or there; the first answer is the one.
async fn twice(wire: &Arc<Wire>, sent: &Sent, which: usize, draw: &mut Draw, give: Give<Back>) {
    let late_ms = *draw.pick(&[0, 2, 10, 500, 20_000, 100_000, 179_000, 182_000, 4_000_000]);
    let other = draw.below(2) as usize;
    let back_ms = [draw.below(30), draw.below(30)];
    let first = async {
        let answer = wire.brings(sent, sent.call.clone(), which).await;
        wire.handle.sleep(back_ms[0]).await;
        answer
    };
    let second = async {
        wire.handle.sleep(late_ms).await;
        let answer = wire.brings(sent, sent.call.clone(), other).await;
        wire.handle.sleep(back_ms[1]).await;
        answer
    };
    let told = |answer: Option<Answer>| match answer {
        Some(answer) => Ok((answer, true)),
        None => Err(TransportError::Broken { detail: "closed".to_owned() }),
    };
    match select(pin!(first), pin!(second)).await {
        Either::Left((answer, second)) => {
            give.give(told(answer));
            second.await;
        }
        Either::Right((answer, first)) => {
            give.give(told(answer));
            first.await;
        }
    }
}

fn signature_of(call: &Call) -> Option<&Vec<u8>> {
    call.headers.iter().find(|(name, _)| name == "signature").map(|(_, value)| value)
}

/// Puts another letter or figure in the place of one.
fn alter_bytes(bytes: &mut [u8], draw: &mut Draw) -> bool {
    let places: Vec<usize> =
        (0..bytes.len()).filter(|place| bytes[*place].is_ascii_alphanumeric()).collect();
    if places.is_empty() {
        return false;
    }
    let byte = &mut bytes[*draw.pick(&places)];
    *byte = match *byte {
        b'9' => b'0',
        b'z' => b'a',
        b'Z' => b'A',
        other => other + 1,
    };
    true
}

fn alter_text(text: &mut String, draw: &mut Draw) -> bool {
    let mut bytes = std::mem::take(text).into_bytes();
    let altered = alter_bytes(&mut bytes, draw);
    *text = String::from_utf8(bytes).expect("letters stay letters");
    altered
}

/// Alters something of a call, wherever it is: it is another call then.
fn alter(call: &mut Call, draw: &mut Draw) {
    let body = draw.permille(400) && alter_bytes(&mut call.body, draw);
    let query = !body && call.query.as_mut().is_some_and(|query| alter_text(query, draw));
    if body || query {
        return;
    }
    if draw.permille(250) {
        alter_text(&mut call.path, draw);
        return;
    }
    let place = draw.below(call.headers.len() as u64) as usize;
    alter_bytes(&mut call.headers[place].1, draw);
}

fn alter_answer(answer: &mut Answer, draw: &mut Draw) {
    if draw.permille(500) && alter_bytes(&mut answer.body, draw) {
        return;
    }
    if draw.permille(500) {
        answer.status = if answer.status == 200 { 404 } else { 200 };
        return;
    }
    let signed = ["content-digest", "signature-input", "signature"];
    let name = draw.word(&signed);
    if let Some((_, value)) = answer.headers.iter_mut().find(|(known, _)| *known == name) {
        alter_text(value, draw);
    } else {
        answer.status = 404;
    }
}
