//! An authority for several gateways: signed calls, each taken once; one worker for each intent; and
//! an authority that is killed under load.

use futures_util::future::join_all;
use gate_core::{Clock, Deadline, State};
use gate_store::{IntentQuery, Reads};
use serde_json::{Value, json};
use std::time::Duration;

use crate::client::{Answer, Call};
use crate::process::{Home, POLICY, Server};
use crate::world::{Setup, World, policy};

/// Short enough that a lease of a killed process ends within a test.
const SHORT: [(&str, &str); 3] = [
    ("GATEWAY_STRIPE_TIMEOUT", "1s"),
    ("GATEWAY_RECONCILE_INTERVAL", "1s"),
    ("GATEWAY_AGENT_RATE", "1000/s burst 1000"),
];
/// Most repetitions of a request that has no definite answer yet.
const REPEATS_MAX: usize = 200;

/// Everything that is recorded, but for when a key was last used.
async fn everything(world: &World) -> String {
    let intents = IntentQuery { limit: 1000, ..IntentQuery::default() };
    let reads = Reads {
        agents: true,
        audit: Some(gate_store::AuditRange::WHOLE),
        books: true,
        intents: Some(intents),
        policy: true,
        users: true,
        ..Reads::default()
    };
    format!("{:?}", world.store.read(reads).await.unwrap())
}

/// A gateway's whole life, each of its signed calls sent once more: refused, and nothing changes.
#[tokio::test]
async fn a_recorded_call_sent_again_changes_nothing() {
    let lines = "daily_cap = \"100.00\"\napproval_threshold = \"20.00\"\n\
                 tools = [\"finance_payments\"]";
    let webhook_secrets = Some("whsec_ofTheTests");
    let setup = Setup { remote: true, policy: policy(lines), webhook_secrets, ..Setup::default() };
    let world = setup.start().await;
    for n in 1..5 {
        world.charge(&json!({ "id": format!("ch_{n}"), "amount": 900 * n }));
    }
    let ask = |n: u32| json!({ "target": format!("ch_{n}"), "idempotencyKey": format!("k-{n}") });
    let first = world.ask(&ask(1)).await;
    assert_eq!(first.line(), "200 refunded");
    assert_eq!(world.ask(&ask(1)).await.line(), "200 refunded");
    let dry = json!({ "target": "ch_2", "dryRun": true });
    assert_eq!(world.ask(&dry).await.line(), "200 dry_run");
    world.fault("drop_after", 1);
    assert_eq!(world.ask(&ask(2)).await.line(), "200 refunded");
    let approved = world.ask(&ask(3)).await;
    let canceled = world.ask(&ask(4)).await;
    assert_eq!(
        (approved.line(), canceled.line()),
        ("202 pending_approval".into(), "202 pending_approval".into())
    );
    let mut words = ask(3);
    words["justification"] = json!("the parcel was lost");
    assert_eq!(world.ask(&words).await.line(), "202 pending_approval");
    let cancel = format!("/v1/intents/{}/cancel", canceled.text("/intentId"));
    assert_eq!(Call::post(&cancel, "").key(&world.key).send(world.at).await.status, 200);
    world.approve(&approved).await;
    world.gateway.round().await.unwrap();
    assert_eq!(world.get("/v1/budget").await.status, 200);
    assert_eq!(world.get("/v1/intents?limit=2").await.status, 200);
    for (path, id) in [("intents", "/intentId"), ("approvals", "/approvalId")] {
        let path = format!("/v1/{path}/{}", approved.text(id));
        assert_eq!(world.get(&path).await.status, 200, "{path}");
    }
    let payments = Call::post("/v1/tools/finance_payments", json!({})).key(&world.key);
    assert_eq!(payments.send(world.at).await.status, 200);
    assert_eq!(world.refunds().len(), 3);
    // An event of Stripe's, which has the charge's refunds looked at and told once more.
    let url = format!("http://{}/webhooks/stripe", world.at);
    let hook = json!({ "url": url, "secret": "whsec_ofTheTests" });
    world.control("/_sandbox/webhook", &hook);
    let refund = format!("/_sandbox/refunds/{}", first.text("/refund/id"));
    world.control(&refund, &json!({ "status": "failed" }));
    world.until(&first, |intent| intent.state == State::Reversed).await;
    world.gateway.finish_money_work().await;

    let (before, attempts) = (everything(&world).await, world.attempts().len());
    let commits = world.store.commits();
    let calls = world.calls.sent.lock().unwrap().clone();
    let mut kinds: Vec<String> = calls
        .iter()
        .map(|call| {
            let path = call.url.split("/authority/v1/").nth(1).unwrap();
            let path = path.split('?').next().unwrap();
            let parts = path.split('/').map(|part| if part.contains('_') { "*" } else { part });
            format!("{:?} {}", call.method, parts.collect::<Vec<_>>().join("/"))
        })
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    let expected = [
        "Get agent",
        "Get approvals/*",
        "Get budget",
        "Get intents",
        "Get intents/*",
        "Get status",
        "Post claims",
        "Post intents",
        "Post intents/*/cancel",
        "Post intents/*/execute",
        "Post intents/*/justification",
        "Post intents/*/outcome",
        "Post intents/lookup",
        "Post observations",
        "Post tools/*",
    ];
    assert_eq!(kinds, expected);
    let by: Deadline = world.clock.deadline(Duration::from_secs(60));
    for call in calls {
        let url = call.url.clone();
        let answer = world.calls.again(call, by).await;
        let problem: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!((answer.status, &problem["code"]), (401, &json!("nonce_reused")), "{url}");
    }
    assert_eq!(world.store.commits(), commits);
    assert_eq!(everything(&world).await, before);
    assert_eq!(world.attempts().len(), attempts);
}

/// Nobody is answered on the authority's address who does not sign, and the agent is never told why
/// its gateway is refused.
#[tokio::test]
async fn strangers_and_revoked_gateways_are_refused() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(POLICY);
    let gateway = home.serve_remote(&sandbox, &[&SHORT[..], &[("GATEWAY_LOG", "trace")]].concat());
    sandbox.control("/_sandbox/charges", &json!({ "id": "ch_1" })).await;
    sandbox.control("/_sandbox/charges", &json!({ "id": "ch_2" })).await;
    let ask = |n: u32| json!({ "target": format!("ch_{n}"), "idempotencyKey": format!("k-{n}") });
    assert_eq!(gateway.ask(&key, &ask(1)).await.line(), "200 refunded");
    let ready = Call::get("/readyz").send(gateway.at).await;
    assert_eq!(ready.json["checks"]["authority"]["status"], "ok", "{}", ready.json);
    let at = home.authority_at();
    for (path, code) in [
        ("/authority/v1/status", "401 signature_invalid"),
        ("/authority/v1/intents", "401 signature_invalid"),
        ("/authority/v2/status", "426 protocol_version"),
        ("/v1/budget", "401 signature_invalid"),
        ("/healthz", "401 signature_invalid"),
    ] {
        assert_eq!(Call::get(path).key(&key).send(at).await.line(), code, "{path}");
    }
    let checked = home.check_remote(&sandbox);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert!(
        checked.out.contains("warning  policy: the policy is with the authority"),
        "{checked:?}"
    );
    home.done(&["gateway", "revoke", "east"]);
    let checked = home.check_remote(&sandbox);
    assert_eq!(checked.code, 3, "{checked:?}");
    let refused = gateway.ask(&key, &ask(2)).await;
    assert_eq!(refused.line(), "502 authority_error");
    assert!(!String::from_utf8_lossy(&refused.body).contains("revoked"), "{}", refused.json);
    let ready = Call::get("/readyz").send(gateway.at).await;
    assert_eq!(ready.status, 503);
    assert_eq!(ready.json["checks"]["authority"]["status"], "failing");
    assert_eq!(sandbox.refunds().await.len(), 1);
    let listed = home.done(&["gateway", "list", "--json"]).json();
    assert!(listed[0]["keys"][0]["lastUsedAt"].is_string(), "{listed}");
    assert!(listed[0]["revokedAt"].is_string(), "{listed}");

    // Neither the gateway's secret nor the agent's key is anywhere.
    gateway.terminate();
    let (secret, log) = home.secret_and_log();
    let words = gateway.end().words;
    for words in [&log, &words] {
        assert!(words.contains("\"TRACE\"") || words.contains("\"DEBUG\""), "trace is on");
    }
    for secret in [secret.as_str(), key.as_str()] {
        assert!(!log.contains(secret) && !words.contains(secret), "in a log");
        for entry in std::fs::read_dir(home.data()).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "in {}", path.display());
        }
    }
}

/// Twenty copies of one request over two gateways are one refund; and what one gateway was killed
/// in, the other finishes.
#[tokio::test]
async fn two_gateways_and_one_worker() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(POLICY);
    let gateways = [home.serve_remote(&sandbox, &SHORT), home.serve_remote(&sandbox, &SHORT)];
    sandbox.control("/_sandbox/charges", &json!({ "id": "ch_1" })).await;
    sandbox.control("/_sandbox/charges", &json!({ "id": "ch_2" })).await;
    let body = json!({ "target": "ch_1", "idempotencyKey": "k" });
    let asks = (0..20).map(|n| gateways[n % 2].ask(&key, &body));
    let answers = join_all(asks).await;
    for answer in &answers {
        assert_eq!(answer.line(), "200 refunded", "{}", answer.json);
        assert_eq!(answer.json["intentId"], answers[0].json["intentId"]);
    }
    assert_eq!(answers.iter().filter(|answer| !answer.replayed()).count(), 1);
    assert_eq!((sandbox.attempts().await.len(), sandbox.refunds().await.len()), (1, 1));

    sandbox.fault("drop_before", 1, 0).await;
    let body = json!({ "target": "ch_2", "idempotencyKey": "k2" });
    let [first, second] = gateways;
    let at = first.at;
    let call = Call::post(crate::world::REFUND, &body).key(&key);
    let client = async { call.attempt(at).await };
    let kill = async {
        sandbox.attempted(2).await;
        first.kill();
    };
    let (lost, ()) = tokio::join!(client, kill);
    assert!(lost.is_none_or(|answer| answer.line() == "200 refunded"));
    let last = definite(&second, &key, &body).await;
    assert_eq!(last, "200 refunded");
    assert_eq!(sandbox.refunds().await.len(), 2);
    let found = home.run(&["check", "--invariants"]);
    assert_eq!(found.code, 0, "{}{}", found.out, found.err);
}

/// F29: two Stripe accounts behind one authority. What was asked in one is work for that account's
/// gateways alone, whoever looks first, also where the other has a charge of the same id.
#[tokio::test]
async fn two_accounts_behind_one_authority() {
    let (of_east, of_west) = (Server::sandbox(), Server::sandbox());
    let (home, key) = Home::with_agent(&format!("{POLICY}approval_threshold = \"5.00\"\n"));
    let west_account = [&SHORT[..], &[("STRIPE_ACCOUNT", "acct_west")]].concat();
    let east = home.serve_remote(&of_east, &SHORT);
    let west = home.serve_remote(&of_west, &west_account);
    of_east.control("/_sandbox/charges", &json!({ "id": "ch_1" })).await;
    for id in ["ch_1", "ch_2"] {
        let charge = Call::post("/_sandbox/charges", json!({ "id": id }));
        let made = charge.with("stripe-account", "acct_west").send(of_west.at).await;
        assert_eq!(made.status, 200, "{}", made.json);
    }
    let ask = |n: u32| json!({ "target": format!("ch_{n}"), "idempotencyKey": format!("k-{n}") });
    let (first, second) = (east.ask(&key, &ask(1)).await, west.ask(&key, &ask(2)).await);
    assert_eq!(first.line(), "202 pending_approval");
    assert_eq!(second.line(), "202 pending_approval");
    east.kill();
    for pending in [&first, &second] {
        let id = pending.text("/approvalId");
        home.done(&["approval", "approve", id, "--as", "maria"]);
    }
    let settled = async |gateway: &Server, answer: &Answer| {
        let path = format!("/v1/intents/{}?wait=20", answer.text("/intentId"));
        for _ in 0..3 {
            let now = Call::get(&path).key(&key).send(gateway.at).await;
            if now.text("/state") == "settled" {
                return true;
            }
        }
        false
    };
    // The one that was approved last is made: so the first was passed over.
    assert!(settled(&west, &second).await);
    assert_eq!(west.ask(&key, &ask(1)).await.line(), "200 approved", "and waits");
    let state = home.done(&["intent", "show", first.text("/intentId"), "--json"]).json();
    assert_eq!(state["state"], "approved");
    assert_eq!((of_east.attempts().await.len(), of_west.attempts().await.len()), (0, 1));
    let east = home.serve_remote(&of_east, &SHORT);
    assert!(settled(&east, &first).await);
    assert_eq!((of_east.attempts().await.len(), of_west.attempts().await.len()), (1, 1));
}

/// Asks until the answer is definite.
async fn definite(gateway: &Server, key: &str, body: &Value) -> String {
    let mut last = String::new();
    for _ in 0..REPEATS_MAX {
        last = gateway.ask(key, body).await.line();
        let open = last == "202 in_progress" || last.starts_with("503") || last.starts_with("502");
        if !open && last != "200 not_executed" {
            break;
        }
    }
    last
}

/// The authority is killed while decisions and reports are under way, and started anew: every
/// request comes to its one answer, the cap holds, and the record agrees with Stripe.
#[tokio::test]
async fn an_authority_killed_under_load() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(&crate::parallel::policy_at_noon());
    let gateways = [home.serve_remote(&sandbox, &SHORT), home.serve_remote(&sandbox, &SHORT)];
    let charges: Vec<Value> = (0..40).map(|n| json!({ "id": format!("ch_{n}") })).collect();
    join_all(charges.iter().map(|charge| sandbox.control("/_sandbox/charges", charge))).await;
    let asks: Vec<Value> = (0..40)
        .map(|n| json!({ "target": format!("ch_{n}"), "idempotencyKey": format!("k-{n}") }))
        .collect();
    let load = join_all(asks.iter().enumerate().map(|(n, body)| gateways[n % 2].ask(&key, body)));
    let kills = async {
        for attempts in [1, 4] {
            sandbox.attempted(attempts).await;
            home.kill_authority(&sandbox, &SHORT);
        }
    };
    let (answers, ()) = tokio::join!(load, kills);
    for answer in answers {
        let line = answer.line();
        let clear = [
            "200 refunded",
            "200 denied",
            "202 in_progress",
            "503 authority_unavailable",
            "200 not_executed",
        ];
        assert!(clear.contains(&line.as_str()), "{line} {}", answer.json);
    }
    let mut refunded = 0;
    for (n, body) in asks.iter().enumerate() {
        let line = definite(&gateways[n % 2], &key, body).await;
        assert!(["200 refunded", "200 denied"].contains(&line.as_str()), "{n}: {line}");
        refunded += usize::from(line == "200 refunded");
    }
    assert_eq!(refunded, 10, "the cap of 100.00 dollars is used up and holds");
    assert_eq!(sandbox.refunds().await.len(), 10);
    let stripe = format!("http://{}", sandbox.at);
    let variables =
        [("STRIPE_API_BASE", stripe.as_str()), ("STRIPE_SECRET_KEY", crate::process::KEY)];
    let found = home.run_with(&["check", "--invariants"], &variables);
    assert_eq!(found.code, 0, "{}{}", found.out, found.err);
}
