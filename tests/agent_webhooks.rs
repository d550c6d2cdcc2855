//! Webhooks of agents, from the real binary to a receiver: what they are told, signed, in order and at
//! least once, whatever the receiver does and wherever the gateway is killed.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gate_cluster::Cluster;
use ring::hmac;
use serde_json::{Value, json};

use crate::process::{Home, POLICY, Server};

const WAIT_MAX: Duration = Duration::from_secs(20);

/// A request that the receiver got.
#[derive(Clone, Debug)]
struct Got {
    id: String,
    at: String,
    signatures: String,
    body: String,
}

impl Got {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    fn event(&self) -> String {
        self.json()["type"].as_str().unwrap().to_owned()
    }

    /// Checks the signature as the specification of Standard Webhooks tells receivers to.
    fn is_signed_with(&self, secret: &str) -> bool {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let signed = format!("{}.{}.{}", self.id, self.at, self.body);
        self.signatures.split(' ').any(|one| {
            let tag = STANDARD.decode(one.strip_prefix("v1,").unwrap()).unwrap();
            hmac::verify(&key, signed.as_bytes(), &tag).is_ok()
        })
    }
}

/// What the receiver does with the next requests; afterwards it takes everything.
#[derive(Clone, Copy)]
enum Step {
    Answer(u16),
    /// Answers that it is elsewhere.
    Redirect,
    /// Never answers.
    Hang,
}

/// An agent's server.
struct Receiver {
    port: u16,
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Default)]
struct State {
    got: Vec<Got>,
    steps: VecDeque<Step>,
    hanging: Vec<TcpStream>,
}

impl Receiver {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared: Arc<(Mutex<State>, Condvar)> = Arc::default();
        let state = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let state = Arc::clone(&state);
                std::thread::spawn(
                    move || while serve(stream.as_ref().unwrap(), &state).is_some() {},
                );
            }
        });
        Self { port, shared }
    }

    fn url(&self) -> String {
        format!("https://hooks.test:{}/hooks", self.port)
    }

    fn script(&self, steps: &[Step]) {
        self.shared.0.lock().unwrap().steps.extend(steps);
    }

    /// Everything that it got, once that fits.
    fn until(&self, fits: impl Fn(&[Got]) -> bool) -> Vec<Got> {
        let (state, changed) = &*self.shared;
        let state = state.lock().unwrap();
        let waiting = |state: &mut State| !fits(&state.got);
        let (state, timeout) = changed.wait_timeout_while(state, WAIT_MAX, waiting).unwrap();
        assert!(!timeout.timed_out(), "it never came to that: {:?}", state.got);
        state.got.clone()
    }

    fn got(&self, count: usize) -> Vec<Got> {
        self.until(|got| got.len() >= count)
    }
}

/// Reads one request and answers it; none when there was none.
fn serve(mut stream: &TcpStream, shared: &(Mutex<State>, Condvar)) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut got = Got {
        id: String::new(),
        at: String::new(),
        signatures: String::new(),
        body: String::new(),
    };
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let (name, value) = line.trim_end().split_once(": ").unwrap_or(("", ""));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap(),
            "webhook-id" => value.clone_into(&mut got.id),
            "webhook-timestamp" => value.clone_into(&mut got.at),
            "webhook-signature" => value.clone_into(&mut got.signatures),
            _ => {}
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    got.body = String::from_utf8(body).unwrap();
    let mut state = shared.0.lock().unwrap();
    state.got.push(got);
    let step = state.steps.pop_front().unwrap_or(Step::Answer(204));
    shared.1.notify_all();
    let head = match step {
        Step::Answer(status) => format!("{status} Said"),
        Step::Redirect => "307 Elsewhere\r\nlocation: /elsewhere".to_owned(),
        Step::Hang => {
            state.hanging.push(stream.try_clone().unwrap());
            return None;
        }
    };
    drop(state);
    write!(stream, "HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n").ok()
}

/// A policy in which the agent has a webhook, and another agent none.
fn policy(url: &str, lines: &str) -> String {
    let other = POLICY.split_once("\n\n").unwrap().1.replace("support-bot", "other-bot");
    format!("{POLICY}webhook = \"{url}\"\n{lines}\n{other}")
}

/// How the webhook fares, as its owner is told.
fn shown(home: &Home, more: &[&str]) -> Value {
    home.done(&[&["agent", "webhook", "support-bot", "--json"], more].concat()).json()
}

/// The same, once it fits.
fn shown_until(home: &Home, fits: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..400 {
        let state = shown(home, &[]);
        if fits(&state) {
            return state;
        }
    }
    panic!("it never came to that: {}", shown(home, &[]));
}

fn events(got: &[Got]) -> Vec<String> {
    got.iter().map(Got::event).collect()
}

#[tokio::test]
async fn an_agent_is_told_of_its_own_and_of_nothing_else() {
    let (receiver, sandbox) = (Receiver::start(), Server::sandbox());
    let policy = policy(&receiver.url(), "approval_threshold = \"5.00\"");
    let (home, key) = Home::with_agent(&policy);
    let other = home.done(&["agent", "create", "other-bot", "--json"]).json();
    let gateway = home.serve(&sandbox, &[]);
    for id in ["ch_1", "ch_2", "ch_3"] {
        sandbox.control("/_sandbox/charges", &json!({ "id": id })).await;
    }
    let ask = |key: String, target: &'static str, minor: i64| {
        let body = json!({ "target": target, "amountMinor": minor, "idempotencyKey": target });
        let gateway = &gateway;
        async move { gateway.ask(&key, &body).await }
    };
    let others = other["key"].as_str().unwrap().to_owned();
    assert_eq!(ask(others, "ch_2", 300).await.line(), "200 refunded");
    assert_eq!(ask(key.clone(), "ch_1", 400).await.line(), "200 refunded");
    let pending = ask(key.clone(), "ch_3", 600).await;
    assert_eq!(pending.line(), "202 pending_approval");
    // One after the other, so that the notice of each shows the intent as it stood then.
    receiver.got(2);
    home.done(&["approval", "approve", pending.text("/approvalId"), "--as", "maria"]);
    let got = receiver.got(4);
    assert_eq!(
        events(&got),
        ["refund.settled", "approval.requested", "approval.approved", "refund.settled"]
    );
    let state =
        shown_until(&home, |state| state["lastResult"] == "204" && state["state"] == "active");
    let secret = state["secrets"][0].as_str().unwrap();
    assert_eq!(state["secrets"].as_array().unwrap().len(), 1);
    for (n, notice) in got.iter().enumerate() {
        assert!(notice.is_signed_with(secret), "{notice:?}");
        let tampered = Got { body: notice.body.replace("livemode", "liveMode"), ..notice.clone() };
        assert!(!tampered.is_signed_with(secret));
        let told = notice.json();
        assert_eq!(told["data"]["agent"], "support-bot", "{told}");
        assert_eq!(told["data"]["livemode"], false, "{told}");
        assert_eq!(told["data"]["charge"], if n == 0 { "ch_1" } else { "ch_3" }, "{told}");
        if n > 0 {
            assert_eq!(told["data"]["approvalId"], pending.text("/approvalId"), "{told}");
        }
    }
    // The object is the one that the HTTP API shows.
    let path = format!("/v1/intents/{}", pending.text("/intentId"));
    let read = crate::client::Call::get(&path).key(&key).send(gateway.at).await.json;
    let mut told = got[3].json()["data"].take();
    assert_eq!(
        told.as_object_mut().unwrap().remove("approvalId").unwrap(),
        pending.text("/approvalId")
    );
    assert_eq!(told, read);
    // Nothing that could be turned into the secret lies with the records.
    for file in std::fs::read_dir(home.data()).unwrap().map(|file| file.unwrap().path()) {
        let bytes = std::fs::read(&file).unwrap();
        let key = STANDARD.decode(&secret[6..]).unwrap();
        let has = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
        assert!(!has(&key) && !has(&secret.as_bytes()[6..]), "{}", file.display());
    }
    let log = gateway.kill().words;
    assert!(!log.contains(secret) && !log.contains(&secret[6..]), "the secret is in the log");
}

/// Two secrets sign for a day; the receiver may know either.
#[tokio::test]
async fn a_secret_is_rotated() {
    let (receiver, sandbox) = (Receiver::start(), Server::sandbox());
    let (home, key) = Home::with_agent(&policy(&receiver.url(), ""));
    let gateway = home.serve(&sandbox, &[]);
    let old = shown(&home, &[])["secrets"][0].as_str().unwrap().to_owned();
    let rotated = shown(&home, &["--rotate"]);
    let new = rotated["secrets"][0].as_str().unwrap().to_owned();
    assert_eq!(rotated["secrets"], json!([new, old]));
    assert_ne!(new, old);
    sandbox.control("/_sandbox/charges", &json!({ "id": "ch_1" })).await;
    gateway.ask(&key, &json!({ "target": "ch_1", "amountMinor": 100 })).await;
    let got = receiver.got(1);
    assert!(got[0].is_signed_with(&new) && got[0].is_signed_with(&old));
    assert!(!got[0].is_signed_with(&format!("whsec_{}", STANDARD.encode([7; 32]))));
}

/// Whatever the receiver does, refunds go on, its state is shown, and a person can have it sent again.
#[tokio::test]
async fn what_a_receiver_does_holds_up_nobody() {
    let (receiver, sandbox) = (Receiver::start(), Server::sandbox());
    let (home, key) = Home::with_agent(&policy(&receiver.url(), ""));
    let gateway = home.serve(&sandbox, &[]);
    #[rustfmt::skip]
    let table = [
        // what it does          state      in words
        (Step::Answer(500),      "failing",  "500"),
        (Step::Redirect,         "failing",  "307, and redirects are not followed"),
        (Step::Answer(410),      "disabled", "410"),
    ];
    let mut ids = Vec::new();
    for (n, (step, state, words)) in table.into_iter().enumerate() {
        let charge = format!("ch_{n}");
        // It may try again by itself before anybody looks.
        receiver.script(&[step; 3][..if state == "failing" { 3 } else { 1 }]);
        sandbox.control("/_sandbox/charges", &json!({ "id": charge })).await;
        let asked = gateway.ask(&key, &json!({ "target": charge, "amountMinor": 100 })).await;
        assert_eq!(asked.line(), "200 refunded", "{words}");
        let shown_as = shown_until(&home, |shown| shown["lastResult"] == words);
        assert_eq!(shown_as["state"], state, "{shown_as}");
        assert!(shown_as["failingSince"].is_string(), "{shown_as}");
        let checked = home.run_with(&["check"], &[("GATEWAY_EPHEMERAL", "1")]);
        let found = checked.out.lines().find(|line| line.contains("webhook of support-bot"));
        let says = found.unwrap().starts_with("warning") && found.unwrap().contains(state);
        assert!(says, "{checked:?}");
        receiver.shared.0.lock().unwrap().steps.clear();
        shown(&home, &["--resume"]);
        shown_until(&home, |shown| shown["state"] == "active" && shown["lastResult"] == "204");
        let newest = receiver.got(1).last().unwrap().clone();
        assert_eq!(newest.json()["data"]["charge"], charge);
        ids.push(newest.id);
    }
    // Sent again, from one on, under the same ids.
    let before = receiver.got(1).len();
    shown(&home, &["--resend", &ids[1]]);
    let again: Vec<String> =
        receiver.got(before + 2)[before..].iter().map(|got| got.id.clone()).collect();
    assert_eq!(again, ids[1..]);
    for wrong in ["msg_", "msg_x_int_1", "-1", "999999"] {
        let ran = home.run(&["agent", "webhook", "support-bot", &format!("--resend={wrong}")]);
        assert_eq!(ran.code, 2, "{wrong}: {ran:?}");
    }
}

/// The gateway is killed while the receiver has a notice and has not answered, and started again:
/// everything arrives, the first of each in its order, and what came twice under the same id.
#[tokio::test]
async fn killed_in_the_middle_of_a_delivery() {
    let (receiver, sandbox) = (Receiver::start(), Server::sandbox());
    let (home, key) = Home::with_agent(&policy(&receiver.url(), ""));
    let count = 12;
    for n in 0..count {
        sandbox.control("/_sandbox/charges", &json!({ "id": format!("ch_{n}") })).await;
    }
    let mut gateway = Some(home.serve_embedded(&sandbox, &[]));
    // Taken and not answered: the first, and one in between.
    receiver.script(&[Step::Hang]);
    for n in 0..count {
        let serving = gateway.take().unwrap();
        let body = json!({ "target": format!("ch_{n}"), "amountMinor": 100 });
        assert_eq!(serving.ask(&key, &body).await.line(), "200 refunded");
        gateway = Some(if n % 5 == 0 {
            let known = receiver.got(1).len();
            assert_eq!(serving.kill().code, None);
            let serving = home.serve_embedded(&sandbox, &[]);
            // Whoever was killed had taken it for half a minute.
            receiver.script(&[Step::Answer(204), Step::Hang]);
            shown(&home, &["--resume"]);
            receiver.got(known + 1);
            serving
        } else {
            serving
        });
    }
    {
        let mut state = receiver.shared.0.lock().unwrap();
        state.steps.clear();
        state.hanging.clear();
    }
    shown(&home, &["--resume"]);
    let charges = |got: &[Got]| -> Vec<String> {
        let mut seen: Vec<String> = Vec::new();
        for got in got {
            let charge = got.json()["data"]["charge"].as_str().unwrap().to_owned();
            if !seen.contains(&charge) {
                seen.push(charge);
            }
        }
        seen
    };
    let got = receiver.until(|got| charges(got).len() == count);
    let expected: Vec<String> = (0..count).map(|n| format!("ch_{n}")).collect();
    assert_eq!(charges(&got), expected, "in order");
    for one in &got {
        let twins = got.iter().filter(|other| other.id == one.id);
        assert!(
            twins.clone().all(|twin| twin.json()["data"]["charge"] == one.json()["data"]["charge"])
        );
        assert!(got.iter().all(|other| (other.id == one.id) == (other.body == one.body)));
    }
}

/// The product sends nothing to this machine, whatever the policy says.
#[tokio::test]
async fn nothing_is_sent_to_addresses_that_are_not_public() {
    let (receiver, sandbox) = (Receiver::start(), Server::sandbox());
    let url = format!("https://127.0.0.1:{}/hooks", receiver.port);
    let (home, key) = Home::with_agent(&policy(&url, ""));
    let gateway = home.serve(&sandbox, &[]);
    sandbox.control("/_sandbox/charges", &json!({ "id": "ch_1" })).await;
    let asked = gateway.ask(&key, &json!({ "target": "ch_1", "amountMinor": 100 })).await;
    assert_eq!(asked.line(), "200 refunded");
    let shown = shown_until(&home, |shown| shown["state"] == "failing");
    let said = shown["lastResult"].as_str().unwrap();
    assert!(said.ends_with("the address 127.0.0.1, to which nothing is sent"), "{said}");
    assert!(receiver.shared.0.lock().unwrap().got.is_empty());
}

/// Two gateways over one database: each event is sent once, by one of them.
#[tokio::test]
async fn two_gateways_do_not_send_the_same() {
    let (receiver, sandbox) = (Receiver::start(), Server::sandbox());
    let database = Cluster::shared().database();
    let (home, other) = (Home::on(&database.url), Home::on(&database.url));
    let key = home.furnish(&policy(&receiver.url(), ""));
    let gateways = [home.serve_embedded(&sandbox, &[]), other.serve_embedded(&sandbox, &[])];
    let count = 30;
    for n in 0..count {
        sandbox.control("/_sandbox/charges", &json!({ "id": format!("ch_{n}") })).await;
        let body = json!({ "target": format!("ch_{n}"), "amountMinor": 100 });
        assert_eq!(gateways[n % 2].ask(&key, &body).await.line(), "200 refunded");
    }
    let got = receiver.got(count);
    let charges: Vec<String> =
        got.iter().map(|got| got.json()["data"]["charge"].as_str().unwrap().to_owned()).collect();
    let expected: Vec<String> = (0..count).map(|n| format!("ch_{n}")).collect();
    assert_eq!(charges, expected);
    let secret = shown(&other, &[])["secrets"][0].as_str().unwrap().to_owned();
    assert!(got.iter().all(|got| got.is_signed_with(&secret)), "both have the same master key");
}
