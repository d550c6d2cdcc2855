//! `action-gateway mcp`: the real binary between a client and a gateway, each of them ended in the
//! middle of a refund.

use serde_json::{Value, json};

use crate::client::Call;
use crate::process::{Home, POLICY, Server};
use crate::rpc::{Called, Pipe, VERSIONS, call, initialize, post, progress, request, tool_call};

/// How long Stripe takes where a reply is lost.
const SLOW_MILLIS: u64 = 3000;
/// The same, longer than the five seconds that the SDK itself gives calls once its client is gone.
const VERY_SLOW_MILLIS: u64 = 8000;
/// A wait in which a lease of a killed gateway ends.
const SHORT: [(&str, &str); 2] =
    [("GATEWAY_STRIPE_TIMEOUT", "1s"), ("GATEWAY_RECONCILE_INTERVAL", "1s")];
/// A key that is nobody's.
const STRANGER: &str = "bb_agent_strangersOwnKey";
/// What Rust programs usually take for their log's level.
const RUST_LOG: (&str, &str) = ("RUST_LOG", "trace");
/// Most repetitions of a request while it is in progress.
const REPEATS_MAX: usize = 10;

/// A Stripe with one charge, a gateway, and an agent.
struct Scene {
    sandbox: Server,
    home: Home,
    key: String,
    gateway: Server,
}

impl Scene {
    async fn new(variables: &[(&str, &str)]) -> Self {
        let sandbox = Server::sandbox();
        let (home, key) = Home::with_agent(POLICY);
        let gateway = home.serve(&sandbox, variables);
        sandbox.control("/_sandbox/charges", &json!({ "id": "ch_1" })).await;
        Self { sandbox, home, key, gateway }
    }

    /// One refund was made, by one attempt, and asked for again it is the same.
    async fn one_refund(&self, arguments: &Value) {
        let mut again = call(self.gateway.at, &self.key, "stripe_refund", arguments).await;
        for _ in 0..REPEATS_MAX {
            if again.line() != "in_progress" {
                break;
            }
            again = call(self.gateway.at, &self.key, "stripe_refund", arguments).await;
        }
        assert_eq!((again.line().as_str(), again.replayed()), ("refunded", true));
        assert_eq!(self.sandbox.attempts().await.len(), 1);
        assert_eq!(self.sandbox.refunds().await.len(), 1);
    }
}

fn with_key() -> Value {
    json!({ "target": "ch_1", "idempotencyKey": "k" })
}

fn without_key() -> Value {
    json!({ "target": "ch_1" })
}

#[tokio::test]
async fn from_the_handshake_to_the_end() {
    let scene = Scene::new(&[]).await;
    let (at, key) = (format!("http://{}", scene.gateway.at), scene.home.path("key"));
    std::fs::write(&key, format!("{}\n", scene.key)).unwrap();
    let key = key.to_str().unwrap();
    for version in &VERSIONS[..2] {
        let mut pipe =
            Pipe::start(&[("BURNBOUND_GATEWAY_URL", at.as_str()), ("BURNBOUND_KEY_FILE", key)]);
        assert_eq!(pipe.shake_hands(version)["protocolVersion"], *version);
        let lists = [(); 2].map(|()| pipe.ask("tools/list", &json!({}))["result"].to_string());
        assert_eq!(lists[0], lists[1]);
        let plain = Call::get("/v1/tools").key(&scene.key).send(scene.gateway.at).await.json;
        let listed: Value = serde_json::from_str(&lists[0]).unwrap();
        assert_eq!(listed["tools"], plain["tools"]);
        let made = pipe.call("stripe_refund", &with_key());
        assert_eq!((made.line().as_str(), made.replayed()), ("refunded", *version != VERSIONS[0]));
        let bad = pipe.call("stripe_refund", &json!({ "target": "ch_1", "amountMinor": 1e20 }));
        assert_eq!(bad.line(), "error invalid_amount");
        assert!(bad.text("/detail").contains("Nothing was refunded."), "{bad:?}");
        let unknown = pipe.ask("tools/call", &json!({ "name": "stripe.refund", "arguments": {} }));
        assert_eq!(unknown["error"]["code"], -32602);
        assert_eq!(pipe.end(), Some(0));
    }
    // The newest revision has no handshake.
    let mut pipe =
        Pipe::start(&[("BURNBOUND_GATEWAY_URL", at.as_str()), ("BURNBOUND_KEY", &scene.key)]);
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": VERSIONS[2],
        "io.modelcontextprotocol/clientInfo": { "name": "tests", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": "stripe_refund", "arguments": with_key(), "_meta": meta });
    let again = Called::of(&pipe.ask("tools/call", &params));
    assert_eq!((again.line().as_str(), again.replayed()), ("refunded", true));
    assert_eq!(pipe.end(), Some(0));
    scene.one_refund(&with_key()).await;
}

/// Without a gateway, or without a key for it, each tool says so, and what is wrong ends it before
/// anybody is served.
#[test]
fn without_a_gateway_nothing_is_refunded_and_each_tool_says_so() {
    let url = ("BURNBOUND_GATEWAY_URL", "http://127.0.0.1:9");
    let table: [(&[(&str, &str)], &str); 3] = [
        (&[], "BURNBOUND_GATEWAY_URL is not set"),
        (&[("BURNBOUND_KEY", "bb_agent_1")], "BURNBOUND_GATEWAY_URL is not set"),
        (&[url], "BURNBOUND_KEY is not set"),
    ];
    for (variables, says) in table {
        let mut pipe = Pipe::start(variables);
        pipe.shake_hands(VERSIONS[1]);
        let listed = pipe.ask("tools/list", &json!({}));
        assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 6);
        let called = pipe.call("stripe_refund", &with_key());
        assert_eq!(called.line(), "error gateway_not_configured");
        let detail = called.text("/detail");
        assert!(detail.contains(says) && detail.contains("Nothing was refunded."), "{detail}");
        assert_eq!(pipe.call("get_budget", &json!({})).line(), "error gateway_not_configured");
        assert_eq!(pipe.end(), Some(0));
    }
    // Nobody listens there.
    let mut pipe = Pipe::start(&[url, ("BURNBOUND_KEY", "bb_agent_1")]);
    pipe.shake_hands(VERSIONS[1]);
    let called = pipe.call("stripe_refund", &with_key());
    assert_eq!(called.line(), "error gateway_unavailable");
    assert!(called.text("/detail").contains("Nothing was refunded."), "{called:?}");
    assert_eq!(pipe.end(), Some(0));

    let home = Home::new();
    for (url, says) in [
        ("http://gate.example.com", "which others on the way can read and change: write https://"),
        ("gate.example.com", "which is not a URL"),
    ] {
        let ran = home.run_with(&["mcp"], &[("BURNBOUND_GATEWAY_URL", url)]);
        assert_eq!((ran.code, ran.out.as_str()), (2, ""), "{ran:?}");
        assert!(ran.err.contains("BURNBOUND_GATEWAY_URL") && ran.err.contains(says), "{ran:?}");
    }
}

/// The client closes its end while Stripe works: the refund is made, and its answer still comes.
#[tokio::test]
async fn standard_input_closes_during_a_refund() {
    // All of them wait beside each other.
    let mut closed = Vec::new();
    for arguments in [with_key(), without_key()] {
        let scene = Scene::new(&[]).await;
        scene.sandbox.fault("delay", 1, VERY_SLOW_MILLIS).await;
        let mut pipe = Pipe::of(scene.gateway.at, &scene.key);
        pipe.send(&tool_call(7, "stripe_refund", &arguments));
        scene.sandbox.attempted(1).await;
        pipe.close();
        closed.push((arguments, scene, pipe));
    }
    for (arguments, scene, mut pipe) in closed {
        let answer = pipe.receive().unwrap();
        assert_eq!(answer["id"], 7);
        assert_eq!(Called::of(&answer).line(), "refunded", "{arguments}");
        assert_eq!(pipe.receive(), None);
        assert_eq!(pipe.end(), Some(0));
        scene.one_refund(&arguments).await;
    }
}

/// A client that cancels gets no answer; the refund is made all the same, and can be found.
#[tokio::test]
async fn a_cancelled_call_is_one_refund() {
    // All of them wait beside each other.
    let mut cancelled = Vec::new();
    for arguments in [with_key(), without_key()] {
        let scene = Scene::new(&[]).await;
        scene.sandbox.fault("delay", 1, SLOW_MILLIS).await;
        let mut pipe = Pipe::of(scene.gateway.at, &scene.key);
        pipe.send(&tool_call(7, "stripe_refund", &arguments));
        scene.sandbox.attempted(1).await;
        let given_up = json!({ "requestId": 7, "reason": "timeout" });
        pipe.send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": given_up }),
        );
        cancelled.push((arguments, scene, pipe));
    }
    for (arguments, scene, mut pipe) in cancelled {
        let again = pipe.call("stripe_refund", &arguments);
        assert_eq!((again.line().as_str(), again.replayed()), ("refunded", true), "{arguments}");
        assert_eq!(pipe.end(), Some(0));
        scene.one_refund(&arguments).await;
    }
}

/// The client's process ends, gently or not, and another one asks again.
#[tokio::test]
async fn the_process_between_ends_during_a_refund() {
    let mut ended = Vec::new();
    for kill in [false, true] {
        for arguments in [with_key(), without_key()] {
            let scene = Scene::new(&[]).await;
            scene.sandbox.fault("delay", 1, SLOW_MILLIS).await;
            let mut pipe = Pipe::of(scene.gateway.at, &scene.key);
            pipe.send(&tool_call(7, "stripe_refund", &arguments));
            scene.sandbox.attempted(1).await;
            if kill {
                pipe.kill();
            } else {
                pipe.terminate();
            }
            assert_eq!(pipe.end(), None);
            ended.push((arguments, scene));
        }
    }
    for (arguments, scene) in ended {
        let mut pipe = Pipe::of(scene.gateway.at, &scene.key);
        let again = pipe.call("stripe_refund", &arguments);
        assert_eq!((again.line().as_str(), again.replayed()), ("refunded", true));
        scene.one_refund(&arguments).await;
    }
}

/// The gateway is killed: the client hears that the refund may have been made, and never that it
/// was not; asked again of the next gateway, it is found.
#[tokio::test]
async fn the_gateway_is_killed_during_a_refund() {
    for arguments in [with_key(), without_key()] {
        let mut scene = Scene::new(&SHORT).await;
        scene.sandbox.fault("delay", 1, SLOW_MILLIS).await;
        let mut pipe = Pipe::of(scene.gateway.at, &scene.key);
        pipe.send(&tool_call(7, "stripe_refund", &arguments));
        scene.sandbox.attempted(1).await;
        let next = scene.home.serve(&scene.sandbox, &SHORT);
        std::mem::replace(&mut scene.gateway, next).kill();
        let lost = Called::of(&pipe.receive().unwrap());
        assert_eq!(lost.line(), "error gateway_answer_lost", "{arguments}");
        let detail = lost.text("/detail");
        assert!(detail.contains("may have been made") && !detail.contains("Nothing"), "{detail}");
        scene.one_refund(&arguments).await;
    }
}

/// One client goes on over a restart of the gateway: in between it hears that nothing was refunded,
/// after that everything is as it was.
#[tokio::test]
async fn the_gateway_is_started_again_between_two_calls() {
    let mut scene = Scene::new(&[]).await;
    scene.sandbox.control("/_sandbox/charges", &json!({ "id": "ch_2" })).await;
    let at = scene.gateway.at;
    let mut pipe = Pipe::of(at, &scene.key);
    let mut refund = |arguments: &Value| {
        pipe.send(&tool_call(7, "stripe_refund", arguments));
        Called::of(&pipe.receive().unwrap())
    };
    assert_eq!(refund(&with_key()).line(), "refunded");
    scene.gateway.terminate();
    assert_eq!(scene.gateway.end().code, Some(0));
    let other = json!({ "target": "ch_2" });
    let unheard = refund(&other);
    assert_eq!(unheard.line(), "error gateway_unavailable");
    assert!(unheard.text("/detail").contains("Nothing was refunded"));
    let port = at.port().to_string();
    scene.gateway = scene.home.serve(&scene.sandbox, &[("GATEWAY_PORT", &port)]);
    assert_eq!(refund(&other).line(), "refunded");
    let again = refund(&with_key());
    assert_eq!((again.line().as_str(), again.replayed()), ("refunded", true));
    assert_eq!(scene.sandbox.refunds().await.len(), 2);
}

/// Asked to end, the gateway finishes what came over MCP, and answers it.
#[tokio::test]
async fn the_gateway_is_asked_to_end_during_a_refund() {
    let scene = Scene::new(&[]).await;
    scene.sandbox.fault("delay", 1, SLOW_MILLIS).await;
    let asked = post(tool_call(1, "stripe_refund", &with_key())).key(&scene.key);
    let told = async {
        scene.sandbox.attempted(1).await;
        scene.gateway.terminate();
    };
    let (answer, ()) = tokio::join!(asked.send(scene.gateway.at), told);
    assert_eq!(Called::of(&answer.json).line(), "refunded");
    let ended = scene.gateway.end();
    assert_eq!(ended.code, Some(0), "{}", ended.words);
    assert_eq!(scene.sandbox.refunds().await.len(), 1);
}

/// Somebody waits for a decision while the gateway is asked to end: it is answered as it is.
#[tokio::test]
async fn a_wait_does_not_keep_the_gateway_from_ending() {
    let policy = format!("{POLICY}approval_threshold = \"1.00\"\n");
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(&policy);
    let gateway = home.serve(&sandbox, &[]);
    sandbox.control("/_sandbox/charges", &json!({ "id": "ch_1" })).await;
    let pending = call(gateway.at, &key, "stripe_refund", &with_key()).await;
    let arguments = json!({ "approvalId": pending.text("/approvalId"), "waitSeconds": 25 });
    let waiting = post(tool_call(1, "get_approval_status", &arguments)).key(&key);
    let told = async {
        // A call that came later is answered: the one that waits is waiting by now.
        call(gateway.at, &key, "get_budget", &json!({})).await;
        gateway.terminate();
    };
    let (answer, ()) = tokio::join!(waiting.send(gateway.at), told);
    assert_eq!(Called::of(&answer.json).text("/state"), "pending");
    assert_eq!(gateway.end().code, Some(0));
}

/// The gateway's progress comes through to a client that gave a token, in front of the answer.
#[tokio::test]
async fn a_long_listing_tells_how_far_it_is() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(&format!("{POLICY}tools = [\"finance_disputes\"]\n"));
    let gateway = home.serve(&sandbox, &[]);
    // Three pages without one that is open.
    for number in 0..210 {
        let lost = json!({ "status": "lost" });
        let charge = json!({ "id": format!("ch_{number}"), "dispute": lost });
        sandbox.control("/_sandbox/charges", &charge).await;
    }
    let arguments = json!({ "limit": 100 });
    let mut pipe = Pipe::of(gateway.at, &key);
    let whole = pipe.call("finance_disputes", &arguments);
    let meta = json!({ "progressToken": "mine" });
    let params = json!({ "name": "finance_disputes", "arguments": arguments, "_meta": meta });
    let slow = json!({ "path": "/v1/disputes", "kind": "delay", "delayMs": 50, "times": 3 });
    sandbox.control("/_sandbox/faults", &slow).await;
    pipe.send(&request(7, "tools/call", &params));
    let mut told = vec![pipe.receive().unwrap()];
    while told.last().unwrap().get("id").is_none() {
        told.push(pipe.receive().unwrap());
    }
    assert_eq!(Called::of(&told.pop().unwrap()), whole);
    assert_eq!(progress(&told, "mine"), [1, 2, 3]);
    // Where there is an error instead, it is the same as without.
    let params = json!({ "name": "finance_disputes", "arguments": { "limit": 0 }, "_meta": meta });
    let wrong = Called::of(&pipe.ask("tools/call", &params));
    assert_eq!(wrong.line(), "error invalid_request");
    assert_eq!(pipe.end(), Some(0));
}

/// A client that says yes to whatever it may be asked, at once, approves nothing.
#[tokio::test]
async fn the_agents_own_user_approves_nothing() {
    let policy = format!("{POLICY}approval_threshold = \"1.00\"\n");
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(&policy);
    let gateway = home.serve(&sandbox, &[]);
    sandbox.control("/_sandbox/charges", &json!({ "id": "ch_1" })).await;
    let url = format!("http://{}", gateway.at);
    let mut pipe = Pipe::start(&[("BURNBOUND_GATEWAY_URL", url.as_str()), ("BURNBOUND_KEY", &key)]);
    let mut hello = initialize(VERSIONS[1]);
    hello["params"]["capabilities"] = json!({ "elicitation": { "form": {}, "url": {} } });
    pipe.send(&hello);
    pipe.receive().unwrap();
    pipe.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let mut yes = |tool: &str, arguments: &Value| {
        pipe.send(&tool_call(7, tool, arguments));
        loop {
            let message = pipe.receive().unwrap();
            if message.get("method").is_none() {
                return Called::of(&message);
            }
            let result = json!({ "action": "accept", "content": { "approved": true } });
            pipe.send(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }));
        }
    };
    let pending = yes("stripe_refund", &with_key());
    assert_eq!(pending.line(), "pending_approval");
    assert_eq!(yes("stripe_refund", &with_key()).line(), "pending_approval");
    let arguments = json!({ "approvalId": pending.text("/approvalId"), "waitSeconds": 1 });
    assert_eq!(yes("get_approval_status", &arguments).text("/state"), "pending");
    assert_eq!(sandbox.attempts().await.len(), 0);
}

/// Whatever is logged, on either side of the pipes, a key is not in it.
#[tokio::test]
async fn no_log_holds_the_key() {
    let trace = ("GATEWAY_LOG", "trace,rmcp=trace,hyper=trace");
    let scene = Scene::new(&[trace]).await;
    let listed = post(request(1, "tools/list", &json!({}))).key(&scene.key);
    assert_eq!(listed.send(scene.gateway.at).await.status, 200);
    let stranger = post(request(1, "tools/list", &json!({}))).key(STRANGER);
    assert_eq!(stranger.send(scene.gateway.at).await.status, 401);
    let in_url =
        Call::post(&format!("/mcp?key={}", scene.key), request(1, "tools/list", &json!({})));
    assert_eq!(in_url.send(scene.gateway.at).await.status, 401);
    let url = format!("http://{}", scene.gateway.at);
    let mut told = String::new();
    for (key, expected) in [(scene.key.as_str(), "refunded"), (STRANGER, "error unauthenticated")] {
        let variables =
            [("BURNBOUND_GATEWAY_URL", url.as_str()), ("BURNBOUND_KEY", key), trace, RUST_LOG];
        let mut pipe = Pipe::start(&variables);
        told.push_str(&pipe.shake_hands(VERSIONS[1]).to_string());
        let called = pipe.call("stripe_refund", &with_key());
        assert_eq!(called.line(), expected);
        told.push_str(&called.body.to_string());
        told.push_str(&pipe.words());
    }
    scene.gateway.terminate();
    let words = scene.gateway.end().words;
    assert!(words.contains("ListToolsRequest"), "the SDK was not heard");
    for secret in [scene.key.as_str(), STRANGER] {
        assert!(!words.contains(secret), "a key is in the gateway's log");
        assert!(!told.contains(secret), "a key is in what the forwarder wrote: {told}");
    }
}
