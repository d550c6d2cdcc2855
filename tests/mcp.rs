//! The tools over MCP's HTTP door and over plain HTTP, on a gateway in this process: what is let
//! in, what arguments are taken, and that a reply which is lost costs nobody a second refund.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Call;
use crate::rpc::{
    Called, MCP, VERSIONS, call, events, initialize, post, progress, request, result, tool_call,
};
use crate::world::World;

/// How long Stripe takes where replies are lost, and how long the client waits for it.
const SLOW_MILLIS: u64 = 3000;
const PATIENCE: Duration = Duration::from_millis(500);
/// What is at once, for a person.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Most repetitions of a request while it is in progress.
const REPEATS_MAX: usize = 10;

/// A message that is answered for anybody who gets in.
fn list() -> Value {
    request(1, "tools/list", &json!({}))
}

/// What revision 2026-07-28 wants with each request.
fn meta(version: &str) -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": { "name": "tests", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

#[tokio::test]
async fn who_and_what_is_let_in() {
    let world = World::new().await;
    let open = || post(list());
    let keyed = || open().key(&world.key);
    let versioned = |version: &str| keyed().with("mcp-protocol-version", version);
    let modern = json!({ "_meta": meta("2026-07-28") });
    let modern = || post(request(1, "tools/list", &modern)).key(&world.key);
    let big = "x".repeat(16 * 1024);
    #[rustfmt::skip]
    let table = [
        // call                                                          status  code
        ("a key",              keyed(),                                  200, ""),
        ("a local page",       keyed().with("origin", "http://localhost:3000"), 200, ""),
        ("another page",       keyed().with("origin", "https://evil.example"), 403, "origin_refused"),
        ("no page",            keyed().with("origin", "null"),           403, "origin_refused"),
        ("another host",       keyed().with("host", "evil.example"),     403, "host_refused"),
        ("no key",             open(),                                   401, "unauthenticated"),
        ("nobody's key",       open().key("bb_agent_nobody"),            401, "unauthenticated"),
        ("a key in the URL",   Call::post(&format!("{MCP}?key={}", world.key), list()), 401, "unauthenticated"),
        ("GET",                Call::get(MCP).key(&world.key),           405, "http_method_not_allowed"),
        ("DELETE",             Call::new("DELETE", MCP).key(&world.key), 405, "http_method_not_allowed"),
        ("another path",       Call::post("/mcp/sse", list()).key(&world.key), 404, "not_found"),
        ("too much",           post(json!({ "x": big })).key(&world.key), 413, "body_too_large"),
        ("a known revision",   versioned("2025-11-25"),                  200, ""),
        ("an unknown one",     versioned("1999-01-01"),                  400, ""),
        ("two revisions",      modern().with("mcp-protocol-version", "2025-11-25"), 400, ""),
        ("another method",     modern().with("mcp-protocol-version", "2026-07-28").with("mcp-method", "tools/call"), 400, ""),
        ("another tool",       post(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "get_budget", "arguments": {}, "_meta": meta("2026-07-28") } })).key(&world.key).with("mcp-protocol-version", "2026-07-28").with("mcp-method", "tools/call").with("mcp-name", "stripe_refund"), 400, ""),
        ("the newest",         modern().with("mcp-protocol-version", "2026-07-28").with("mcp-method", "tools/list"), 200, ""),
        ("no stream taken",    keyed().with("accept", "application/json"), 406, ""),
        ("a form",             keyed().with("content-type", "text/plain"), 415, ""),
        ("half a message",     post("{\"jsonrpc\":").key(&world.key),    400, ""),
        ("no message",         post("[]").key(&world.key),               400, ""),
        ("an argument twice",  post(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"stripe_refund","arguments":{"target":"ch_1","amountMinor":1,"amountMinor":100}}}"#).key(&world.key), 400, ""),
        ("a notification",     post(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).key(&world.key), 202, ""),
    ];
    for (name, call, status, code) in table {
        let answer = call.send(world.at).await;
        assert_eq!((answer.status, answer.text("/code")), (status, code), "{name}: {answer:?}");
        match status {
            401 => assert_eq!(answer.header("www-authenticate"), "Bearer", "{name}"),
            405 => assert_eq!(answer.header("allow"), "POST", "{name}"),
            _ => {}
        }
        assert!(!String::from_utf8_lossy(&answer.body).contains(&world.key), "{name}");
    }
}

#[tokio::test]
async fn each_revision_is_spoken() {
    let world = World::new().await;
    // Before 2026-07-28 there is a handshake; whoever names another revision is told one of ours.
    for (asked, told) in [
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2024-11-05", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ] {
        let answer = post(initialize(asked)).key(&world.key).send(world.at).await;
        assert_eq!(result(&answer)["protocolVersion"], told, "{asked}");
        assert_eq!(answer.header("mcp-session-id"), "", "{asked}");
    }
    let discover = request(1, "server/discover", &json!({ "_meta": meta("2026-07-28") }));
    let discover = post(discover)
        .with("mcp-protocol-version", "2026-07-28")
        .with("mcp-method", "server/discover");
    let answer = discover.key(&world.key).send(world.at).await;
    let mut versions: Vec<&str> = result(&answer)["supportedVersions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|version| version.as_str().unwrap())
        .collect();
    versions.sort_unstable();
    assert_eq!(versions, VERSIONS);
}

#[tokio::test]
async fn the_list_is_the_same_at_each_door() {
    let world = World::new().await;
    let listed = || async { post(list()).key(&world.key).send(world.at).await };
    let (first, second) = (listed().await, listed().await);
    assert_eq!(first.body, second.body);
    assert!(first.body.len() < 8 * 1024, "{} bytes", first.body.len());
    let plain = world.get("/v1/tools").await;
    assert_eq!(result(&first)["tools"], plain.json["tools"]);
    assert_eq!(plain.json["tools"].as_array().unwrap().len(), 6);
}

/// The same arguments at both doors: an error that says that nothing was refunded and what to do.
#[tokio::test]
async fn bad_arguments_refund_nothing_and_say_how_to_mend_it() {
    let world = World::new().await;
    world.charge(&json!({ "id": "ch_1", "currency": "eur" }));
    #[rustfmt::skip]
    let table = [
        // arguments                                            code                says
        (r#"{}"#,                                               "invalid_request",  "`target` is missing; give the id"),
        (r#"{"target":"re_1"}"#,                                "invalid_target",   "must be the id of a charge"),
        (r#"{"target":"ch_../x"}"#,                             "invalid_target",   "must be the id of a charge"),
        (r#"{"target":"ch_none"}"#,                             "charge_not_found", "Check the id"),
        (r#"{"target":"ch_1","amountMinor":0}"#,                "invalid_amount",   "a whole number from 1"),
        (r#"{"target":"ch_1","amountMinor":-5}"#,               "invalid_amount",   "and is `-5`"),
        (r#"{"target":"ch_1","amountMinor":1e20}"#,             "invalid_amount",   "a whole number from 1"),
        (r#"{"target":"ch_1","amountMinor":3.5}"#,              "invalid_amount",   "and is `3.5`"),
        (r#"{"target":"ch_1","amountMinor":3.00}"#,             "invalid_amount",   "written in digits alone"),
        (r#"{"target":"ch_1","amountMinor":"3.00"}"#,           "invalid_amount",   "leave it out to refund everything"),
        (r#"{"target":"ch_1","amountMinor":9007199254740993}"#, "invalid_amount",   "to 9007199254740991"),
        (r#"{"target":"ch_1","amountMinor":null}"#,             "invalid_amount",   "leave it out to refund everything"),
        (r#"{"target":"ch_1","amount":3}"#,                     "invalid_request",  "`amount` is not known here; there are target"),
        (r#"{"target":"ch_1","approvalId":"apr_1"}"#,           "invalid_request",  "`approvalId` is not known here"),
        (r#"{"target":"ch_1","currency":"usd"}"#,               "currency_mismatch", "says USD and the charge is in EUR"),
        (r#"{"target":"ch_1","currency":"euros"}"#,             "invalid_request",  "leave it out if you do not know it"),
        (r#"{"target":"ch_1","reason":"angry"}"#,               "invalid_request",  "put your own words into `justification`"),
        (r#"{"target":"ch_1","idempotencyKey":""}"#,            "invalid_request",  "`idempotencyKey` must be"),
        (r#"{"target":"ch_1","dryRun":"yes"}"#,                 "invalid_request",  "must be true or false"),
    ];
    for (arguments, code, says) in table {
        let message = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"stripe_refund","arguments":{arguments}}}}}"#
        );
        let over_mcp = post(message).key(&world.key).send(world.at).await;
        let called = crate::rpc::Called::of(&over_mcp.json);
        let plain = Call::post("/v1/tools/stripe_refund", arguments).key(&world.key);
        let plain = plain.send(world.at).await;
        assert_eq!(called.line(), format!("error {code}"), "{arguments}");
        assert_eq!(plain.text("/code"), code, "{arguments}");
        for detail in [called.text("/detail"), plain.text("/detail")] {
            assert!(detail.contains("Nothing was refunded."), "{arguments}: {detail}");
            assert!(detail.contains(says), "{arguments}: {detail}");
        }
    }
    world.check("bad arguments", 0, 0);
    // No arguments at all are none; another tool is a fault of the protocol.
    let bare = request(1, "tools/call", &json!({ "name": "get_budget" }));
    let bare = post(bare).key(&world.key).send(world.at).await;
    assert_eq!(result(&bare)["structuredContent"]["stopped"], Value::Null);
    for name in ["stripe.refund", "finance_payout", ""] {
        let answer = post(tool_call(1, name, &json!({}))).key(&world.key).send(world.at).await;
        assert_eq!(answer.json["error"]["code"], -32602, "{name}");
        let plain = Call::post(&format!("/v1/tools/{name}"), "{}").key(&world.key);
        assert_eq!(plain.send(world.at).await.line(), "404 not_found", "{name}");
    }
}

/// Every tool, in the order in which an agent comes to use them.
#[tokio::test]
async fn a_refund_from_asking_to_the_end() {
    let world = World::with_policy("daily_cap = \"1000.00\"\napproval_threshold = \"5.00\"").await;
    world.charge(&json!({ "id": "ch_1", "amount": 2000 }));
    let tool = |name: &'static str, arguments: Value| {
        let (at, key) = (world.at, world.key.clone());
        async move { call(at, &key, name, &arguments).await }
    };
    let dry = tool("stripe_refund", json!({ "target": "ch_1", "dryRun": true })).await;
    assert_eq!((dry.line().as_str(), dry.text("/decision")), ("dry_run", "pending_approval"));
    let small = json!({ "target": "ch_1", "amountMinor": 400, "idempotencyKey": "small" });
    assert_eq!(tool("stripe_refund", small).await.line(), "refunded");
    let large = json!({ "target": "ch_1", "amountMinor": 900, "idempotencyKey": "large" });
    let pending = tool("stripe_refund", large.clone()).await;
    assert_eq!(pending.line(), "pending_approval");

    let approval = pending.text("/approvalId").to_owned();
    let status = tool("get_approval_status", json!({ "approvalId": approval })).await;
    assert_eq!(status.text("/state"), "pending");
    // Whoever waits hears of the decision at once.
    let waiting = tool("get_approval_status", json!({ "approvalId": approval, "waitSeconds": 25 }));
    let deciding = async {
        let as_http = world.ask(&large).await;
        world.approve(&as_http).await;
    };
    let both = async { tokio::join!(waiting, deciding) };
    let (status, ()) = tokio::time::timeout(AT_ONCE, both).await.expect("it was not told at once");
    assert_eq!(status.text("/state"), "approved");

    world.run_by_itself();
    let by_key = || tool("get_intent", json!({ "idempotencyKey": "large" }));
    let settled = world.until(&world.ask(&large).await, |intent| intent.refund.is_some()).await;
    assert_eq!(by_key().await.line(), "refunded");
    let by_id = tool("get_intent", json!({ "intentId": settled.id.as_str() })).await;
    assert_eq!(by_id.body, by_key().await.body);

    let withdrawn = json!({ "target": "ch_1", "amountMinor": 600, "idempotencyKey": "withdrawn" });
    let pending = tool("stripe_refund", withdrawn).await;
    let canceled = tool("cancel_refund", json!({ "intentId": pending.text("/intentId") })).await;
    assert_eq!((canceled.line().as_str(), canceled.text("/state")), ("denied", "canceled"));
    let again = tool("cancel_refund", json!({ "intentId": settled.id.as_str() })).await;
    assert_eq!(again.line(), "error not_cancelable");

    let listed = tool("list_refunds", json!({ "limit": 2 })).await;
    let keys = |listed: &crate::rpc::Called| {
        let data = listed.body["data"].as_array().unwrap();
        data.iter()
            .map(|row| row["idempotencyKey"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&listed), ["withdrawn", "large"]);
    let cursor = listed.text("/nextCursor");
    let rest = tool("list_refunds", json!({ "cursor": cursor, "limit": 2 })).await;
    assert_eq!(keys(&rest), ["small"]);
    let budget = tool("get_budget", json!({})).await;
    assert_eq!(budget.text("/windows/0/spent"), "13.00");
    world.check("a refund from asking to the end", 2, 2);
    // Another agent finds none of it.
    let stranger = world.agent("stranger").await;
    let found =
        call(world.at, &stranger, "get_intent", &json!({ "idempotencyKey": "large" })).await;
    assert_eq!(found.line(), "error intent_not_found");
    let approval = json!({ "approvalId": approval });
    let found = call(world.at, &stranger, "get_approval_status", &approval).await;
    assert_eq!(found.line(), "error approval_not_found");
}

/// Gives up a call after half a second, while Stripe takes three, and says so.
async fn lose(world: &World, arguments: &Value) {
    world.delay(SLOW_MILLIS);
    let lost = post(tool_call(1, "stripe_refund", arguments)).key(&world.key);
    let patience = tokio::time::timeout(PATIENCE, std::future::pending::<()>());
    let given_up = async { drop(tokio::join!(patience, world.attempted(1))) };
    lost.hang_up(world.at, given_up).await;
    let given_up = json!({ "requestId": 1, "reason": "timeout" });
    let given_up =
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": given_up });
    assert_eq!(post(given_up).key(&world.key).send(world.at).await.status, 202, "{arguments}");
}

/// Asks until there is a definite answer.
async fn definite(world: &World, arguments: &Value) -> Called {
    for _ in 0..REPEATS_MAX {
        let called = call(world.at, &world.key, "stripe_refund", arguments).await;
        if called.line() != "in_progress" {
            return called;
        }
    }
    panic!("{arguments}: no definite answer");
}

/// The client gives up while Stripe works, and asks again in each way that clients do.
#[tokio::test]
async fn a_lost_reply_is_one_refund() {
    let table = [
        json!({ "target": "ch_1", "idempotencyKey": "k" }),
        json!({ "target": "ch_1" }),
        json!({ "target": "ch_1", "amountMinor": 300, "idempotencyKey": "k" }),
        json!({ "target": "ch_1", "amountMinor": 300 }),
    ];
    // Beside each other: each waits for a slow Stripe of its own.
    let cases = table.iter().map(async |arguments| {
        let (name, world) = (arguments.to_string(), World::new().await);
        world.charge(&json!({ "id": "ch_1" }));
        lose(&world, arguments).await;
        let again = (0..20).map(|_| definite(&world, arguments));
        for called in futures_util::future::join_all(again).await {
            assert_eq!((called.line().as_str(), called.replayed()), ("refunded", true), "{name}");
        }
        let plain = Call::post("/v1/tools/stripe_refund", arguments).key(&world.key);
        assert_eq!(plain.send(world.at).await.line(), "200 refunded", "{name}");
        world.check(&name, 1, 1);
    });
    futures_util::future::join_all(cases).await;
}

/// A new key is a new refund: one that there is nothing left for, or that a person looks at first.
#[tokio::test]
async fn a_fresh_key_after_a_lost_refund() {
    let rule = "[[rules]]\nid = \"refunded-before\"\nrefunded_before = true\n\
                control = \"require_approval\"";
    #[rustfmt::skip]
    let table = [
        // what is asked for, lost and again   what the fresh key comes to
        (json!({}),                            "error charge_already_refunded"),
        (json!({ "amountMinor": 300 }),        "pending_approval"),
    ];
    let cases = table.iter().map(async |(amount, expected)| {
        let world = World::with_policy(&format!("daily_cap = \"1000.00\"\n{rule}")).await;
        world.charge(&json!({ "id": "ch_1" }));
        let asking = |key: &str| {
            let mut arguments = json!({ "target": "ch_1", "idempotencyKey": key });
            arguments.as_object_mut().unwrap().extend(amount.as_object().unwrap().clone());
            arguments
        };
        lose(&world, &asking("first")).await;
        let made = definite(&world, &asking("first")).await;
        assert_eq!((made.line().as_str(), made.replayed()), ("refunded", true), "{expected}");
        let fresh = definite(&world, &asking("fresh")).await;
        assert_eq!(fresh.line(), *expected, "{fresh:?}");
        if fresh.is_error {
            assert_eq!(fresh.text("/intentId"), made.text("/intentId"));
        } else {
            assert_eq!(fresh.text("/reasons/0/rule"), "refunded-before", "{fresh:?}");
        }
        world.check(expected, 1, 1);
    });
    futures_util::future::join_all(cases).await;
}

#[tokio::test]
async fn twenty_at_once_are_one_refund() {
    let table = [json!({ "target": "ch_1", "idempotencyKey": "k" }), json!({ "target": "ch_1" })];
    let cases = table.iter().map(async |arguments| {
        let world = World::new().await;
        world.charge(&json!({ "id": "ch_1" }));
        world.delay(SLOW_MILLIS);
        let calls = (0..20).map(|_| definite(&world, arguments));
        for called in futures_util::future::join_all(calls).await {
            assert_eq!(called.line(), "refunded", "{arguments}");
        }
        world.check("twenty at once", 1, 1);
    });
    futures_util::future::join_all(cases).await;
}

/// A listing that reads several pages tells how far it is, whoever gave a token, and answers the
/// same as in one piece.
#[tokio::test]
async fn a_long_listing_tells_how_far_it_is() {
    let world = World::with_policy("tools = [\"finance_disputes\"]").await;
    // Three pages without one that is open.
    for number in 0..210 {
        let lost = json!({ "status": "lost" });
        world.charge(&json!({ "id": format!("ch_{number}"), "dispute": lost }));
    }
    let arguments = json!({ "limit": 100 });
    let params = |version: Option<&str>| {
        let mut known = version.map_or(json!({}), meta);
        known["progressToken"] = json!("mine");
        json!({ "name": "finance_disputes", "arguments": arguments, "_meta": known })
    };
    let whole = post(tool_call(1, "finance_disputes", &arguments)).key(&world.key);
    let whole = whole.send(world.at).await;
    assert_eq!(whole.header("content-type"), "application/json");
    let slow = json!({ "path": "/v1/disputes", "kind": "delay", "delayMs": 50, "times": 3 });
    for version in [None, Some(VERSIONS[2])] {
        let told = post(request(1, "tools/call", &params(version))).key(&world.key);
        let told = match version {
            None => told,
            Some(version) => told
                .with("mcp-protocol-version", version)
                .with("mcp-method", "tools/call")
                .with("mcp-name", "finance_disputes"),
        };
        world.control("/_sandbox/faults", &slow);
        let mut told = events(&told.send(world.at).await);
        let answer = told.pop().unwrap();
        assert_eq!(Called::of(&answer), Called::of(&whole.json), "{version:?}");
        assert_eq!(progress(&told, "mine"), [1, 2, 3], "{version:?}");
    }
    // What is done at once has nothing to tell.
    let budget = json!({ "name": "get_budget", "_meta": { "progressToken": "mine" } });
    let budget = post(request(1, "tools/call", &budget)).key(&world.key).send(world.at).await;
    assert_eq!(budget.header("content-type"), "application/json");
}

/// Whoever sits at the agent is no reviewer: a client may say that it can ask its user, and that the
/// user said yes to everything, and still nothing is approved.
#[tokio::test]
async fn the_agents_own_user_approves_nothing() {
    let world = World::with_policy("daily_cap = \"1000.00\"\napproval_threshold = \"5.00\"").await;
    world.charge(&json!({ "id": "ch_1" }));
    let yes = json!({ "action": "accept", "content": { "approved": true } });
    let mut known = meta(VERSIONS[2]);
    known["io.modelcontextprotocol/clientCapabilities"] = json!({ "elicitation": {} });
    let with_yes = |tool: &str, arguments: Value| {
        let answers = json!({ "approval": yes, "confirm": yes, "user": yes });
        let params = json!({
            "name": tool, "arguments": arguments, "_meta": known,
            "inputResponses": answers, "requestState": "approved",
        });
        let call = post(request(1, "tools/call", &params)).key(&world.key);
        call.with("mcp-protocol-version", VERSIONS[2])
            .with("mcp-method", "tools/call")
            .with("mcp-name", tool)
            .send(world.at)
    };
    let asked = json!({ "target": "ch_1", "idempotencyKey": "k" });
    let mut approval = String::new();
    for replayed in [false, true] {
        let pending = with_yes("stripe_refund", asked.clone());
        let pending =
            tokio::time::timeout(AT_ONCE, pending).await.expect("a person was waited for");
        let pending = Called::of(&pending.json);
        assert_eq!((pending.line().as_str(), pending.replayed()), ("pending_approval", replayed));
        approval = pending.text("/approvalId").to_owned();
    }
    let arguments = json!({ "approvalId": approval });
    let status = Called::of(&with_yes("get_approval_status", arguments).await.json);
    assert_eq!(status.text("/state"), "pending");
    world.check("the agent's own user", 0, 0);
}
