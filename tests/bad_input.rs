//! What will not do: each with its documented status and code, in words that say that nothing was
//! refunded, and without a trace in the store or at Stripe.

use serde_json::{Value, json};

use crate::client::{Answer, Call};
use crate::world::{REFUND, Setup, World};

async fn world() -> World {
    let world = Setup { sqlite: true, ..Setup::default() }.start().await;
    world.charge(&json!({ "id": "ch_1", "currency": "eur" }));
    world.charge(&json!({ "id": "ch_yen", "amount": 9899, "currency": "jpy" }));
    world
}

fn body(text: &str) -> Call {
    Call::post(REFUND, text)
}

fn target(text: &str) -> Call {
    body(&json!({ "target": text }).to_string())
}

fn amount(text: &str) -> Call {
    body(&format!(r#"{{"target":"ch_1","amountMinor":{text}}}"#))
}

/// What every problem has.
#[track_caller]
fn check_problem(name: &str, answer: &Answer) {
    assert_eq!(answer.header("content-type"), "application/problem+json", "{name}");
    assert_eq!(answer.json["status"], answer.status, "{name}");
    assert_eq!(answer.text("/requestId"), answer.header("request-id"), "{name}");
    assert!(answer.text("/requestId").starts_with("req_"), "{name}");
    for member in ["title", "detail", "code", "retry"] {
        assert!(
            answer.json[member].as_str().is_some_and(|text| !text.is_empty()),
            "{name}: {member}"
        );
    }
    assert_eq!(answer.header("cache-control"), "no-store", "{name}");
}

#[tokio::test]
async fn a_refund_that_is_badly_asked_for() {
    let world = world().await;
    let gone = world.agent("gone-bot").await;
    world.revoke("gone-bot").await;
    let good = || target("ch_1");
    let long = format!(r#"{{"target":"ch_1","justification":"{}"}}"#, "x".repeat(20 * 1024));
    let words = format!(r#"{{"target":"ch_1","justification":"{}"}}"#, "x".repeat(501));
    let mismatch =
        |target, currency| body(&json!({ "target": target, "currency": currency }).to_string());
    #[rustfmt::skip]
    let table: [(&str, Call, &str, &str); 51] = [
        // name                   the call                                              told                           field
        ("nothing",               amount("0"),                                          "400 invalid_amount",          "amountMinor"),
        ("less than nothing",     amount("-5"),                                         "400 invalid_amount",          "amountMinor"),
        ("too much",              amount("1e20"),                                       "400 invalid_amount",          "amountMinor"),
        ("past 2^53",             amount("9007199254740992"),                           "400 invalid_amount",          "amountMinor"),
        ("a fraction",            amount("3.5"),                                        "400 invalid_amount",          "amountMinor"),
        ("a tenth of a cent",     amount("0.001"),                                      "400 invalid_amount",          "amountMinor"),
        ("in words",              amount("\"3\""),                                      "400 invalid_amount",          "amountMinor"),
        ("null",                  amount("null"),                                       "400 invalid_amount",          "amountMinor"),
        ("true",                  amount("true"),                                       "400 invalid_amount",          "amountMinor"),
        ("more than there is",    amount("1001"),                                       "422 amount_over_refundable",  ""),
        ("unknown member",        body(r#"{"target":"ch_1","amount":5}"#),              "400 invalid_request",         "amount"),
        ("its name in snake",     body(r#"{"target":"ch_1","amount_minor":5}"#),        "400 invalid_request",         "amount_minor"),
        ("a forged approval",     body(r#"{"target":"ch_1","approvalId":"apr_1"}"#),    "400 invalid_request",         "approvalId"),
        ("a member twice",        body(r#"{"target":"ch_1","target":"ch_1"}"#),         "400 invalid_request",         "target"),
        ("20 KiB",                body(&long),                                          "413 body_too_large",          ""),
        ("too many words",        body(&words),                                         "400 invalid_request",         "justification"),
        ("another reason",        body(r#"{"target":"ch_1","reason":"lost parcel"}"#),  "400 invalid_request",         "reason"),
        ("a key with spaces",     body(r#"{"target":"ch_1","idempotencyKey":"a b"}"#),  "400 invalid_request",         "idempotencyKey"),
        ("an empty key",          body(r#"{"target":"ch_1","idempotencyKey":""}"#),     "400 invalid_request",         "idempotencyKey"),
        ("dry run in words",      body(r#"{"target":"ch_1","dryRun":"false"}"#),        "400 invalid_request",         "dryRun"),
        ("no target",             body("{}"),                                           "400 invalid_request",         "target"),
        ("an empty target",       target(""),                                           "400 invalid_target",          "target"),
        ("a blank target",        target(" "),                                          "400 invalid_target",          "target"),
        ("a path",                target("ch_../x"),                                    "400 invalid_target",          "target"),
        ("a longer path",         target("ch_../../refunds"),                           "400 invalid_target",          "target"),
        ("a query",               target("ch_1?expand[]=x"),                            "400 invalid_target",          "target"),
        ("a refund's id",         target("re_1"),                                       "400 invalid_target",          "target"),
        ("null for a target",     body(r#"{"target":null}"#),                           "400 invalid_target",          "target"),
        ("an unknown charge",     target("ch_unknown"),                                 "404 charge_not_found",        ""),
        ("an unknown intent",     target("pi_unknown"),                                 "404 charge_not_found",        ""),
        ("dollars for euros",     mismatch("ch_1", "usd"),                              "400 currency_mismatch",       ""),
        ("dollars for yen",       mismatch("ch_yen", "usd"),                            "400 currency_mismatch",       ""),
        ("no such currency",      mismatch("ch_1", "xyz"),                              "400 invalid_request",         "currency"),
        ("not JSON",              body("target=ch_1"),                                  "400 invalid_request",         ""),
        ("half of JSON",          body(r#"{"target":"#),                                "400 invalid_request",         ""),
        ("a list",                body("[]"),                                           "400 invalid_request",         ""),
        ("no body",               body(""),                                             "400 invalid_request",         ""),
        ("as a form",             good().with("content-type", "application/x-www-form-urlencoded"), "415 unsupported_media_type", ""),
        ("as text",               good().with("content-type", "text/plain"),            "415 unsupported_media_type",  ""),
        ("a foreign host",        good().with("host", "evil.example"),                  "403 host_refused",            ""),
        ("a host like ours",      good().with("host", "localhost.evil.example"),        "403 host_refused",            ""),
        ("a foreign page",        good().with("origin", "https://evil.example"),        "403 origin_refused",          ""),
        ("a page without origin", good().with("origin", "null"),                        "403 origin_refused",          ""),
        ("a revoked key",         good().key(&gone),                                    "401 unauthenticated",         ""),
        ("an unknown key",        good().key("bb_agent_unknown"),                       "401 unauthenticated",         ""),
        ("Stripe's key",          good().key("sk_test_1"),                              "401 unauthenticated",         ""),
        ("no key",                good().with("authorization", ""),                     "401 unauthenticated",         ""),
        ("an empty key",          good().with("authorization", "Bearer "),              "401 unauthenticated",         ""),
        ("another scheme",        good().with("authorization", "Basic YmI6"),           "401 unauthenticated",         ""),
        ("the key alone",         good().with("authorization", &world.key),             "401 unauthenticated",         ""),
        ("GET",                   Call::get(REFUND),                                    "405 http_method_not_allowed", ""),
    ];
    let (commits, key) = (world.store.commits(), world.key.clone());
    for (name, call, told, field) in table {
        let call = if call.has("authorization") { call } else { call.key(&key) };
        let answer = call.send(world.at).await;
        assert_eq!(answer.line(), told, "{name}: {}", answer.json);
        assert_eq!(answer.text("/field"), field, "{name}");
        check_problem(name, &answer);
        let detail = answer.text("/detail");
        assert!(detail.contains("Nothing was refunded."), "{name}: {detail}");
        let asks_for_a_key = answer.header("www-authenticate") == "Bearer";
        assert_eq!(asks_for_a_key, answer.status == 401, "{name}");
        assert_eq!(
            answer.header("allow"),
            if answer.status == 405 { "POST" } else { "" },
            "{name}"
        );
    }
    assert_eq!(world.store.commits(), commits, "something was recorded");
    world.check("bad input", 0, 0);
}

/// What is not about money says nothing of refunds.
#[tokio::test]
async fn a_read_that_is_badly_asked_for() {
    let world = world().await;
    let made = world.ask(&json!({ "target": "ch_1" })).await;
    let other = world.agent("other-bot").await;
    let own = format!("/v1/intents/{}", made.text("/intentId"));
    let get = |path: &str| Call::get(path).key(&world.key);
    let as_other = |call: Call| call.key(&other);
    let cancel = format!("{own}/cancel");
    #[rustfmt::skip]
    let table: [(&str, Call, &str, &str); 22] = [
        // name                    the call                                              told                           field
        ("another's intent",       as_other(get(&own)),                                  "404 intent_not_found",        ""),
        ("another's to withdraw",  as_other(Call::post(&cancel, "")),                    "404 intent_not_found",        ""),
        ("made already",           Call::post(&cancel, "").key(&world.key),              "409 not_cancelable",          ""),
        ("an unknown intent",      get("/v1/intents/int_unknown"),                       "404 intent_not_found",        ""),
        ("no intent's id",         get("/v1/intents/ch_1"),                              "404 intent_not_found",        ""),
        ("an unknown approval",    get("/v1/approvals/apr_unknown"),                     "404 approval_not_found",      ""),
        ("no approval's id",       get("/v1/approvals/x"),                               "404 approval_not_found",      ""),
        ("too long a wait",        get(&format!("{own}?wait=61")),                       "400 invalid_request",         "wait"),
        ("a negative wait",        get(&format!("{own}?wait=-1")),                       "400 invalid_request",         "wait"),
        ("a wait in words",        get(&format!("{own}?wait=long")),                     "400 invalid_request",         "wait"),
        ("another parameter",      get(&format!("{own}?full=1")),                        "400 invalid_request",         "full"),
        ("a bad cursor",           get("/v1/intents?cursor=xyz"),                        "400 invalid_request",         "cursor"),
        ("no limit",               get("/v1/intents?limit=0"),                           "400 invalid_request",         "limit"),
        ("too large a limit",      get("/v1/intents?limit=101"),                         "400 invalid_request",         "limit"),
        ("no such state",          get("/v1/intents?state=done"),                        "400 invalid_request",         "state"),
        ("a parameter twice",      get("/v1/intents?limit=1&limit=2"),                   "400 invalid_request",         "limit"),
        ("an unknown route",       get("/v1/refunds"),                                   "404 not_found",               ""),
        ("the root",               get("/"),                                             "404 not_found",               ""),
        ("POST to a read",         Call::post("/v1/budget", "{}").key(&world.key),       "405 http_method_not_allowed", ""),
        ("DELETE",                 Call::new("DELETE", &own).key(&world.key),            "405 http_method_not_allowed", ""),
        ("no key",                 Call::get("/v1/budget"),                              "401 unauthenticated",         ""),
        ("a foreign host",         get("/v1/budget").with("host", "evil.example"),       "403 host_refused",            ""),
    ];
    let commits = world.store.commits();
    for (name, call, told, field) in table {
        let answer = call.send(world.at).await;
        assert_eq!(answer.line(), told, "{name}: {}", answer.json);
        assert_eq!(answer.text("/field"), field, "{name}");
        check_problem(name, &answer);
        assert!(!answer.text("/detail").contains("efunded."), "{name}: {}", answer.text("/detail"));
    }
    assert_eq!(world.store.commits(), commits, "something was recorded");
    world.check("reads", 1, 1);
}

#[tokio::test]
async fn head_is_get_without_a_body() {
    let world = world().await;
    let table = [("/healthz", 200), ("/v1/budget", 200), (REFUND, 405), ("/nowhere", 404)];
    for (path, status) in table {
        let answer = Call::new("HEAD", path).key(&world.key).send(world.at).await;
        assert_eq!((answer.status, answer.body.len()), (status, 0), "{path}");
    }
}

/// Health and readiness answer anybody, whatever host they come for.
#[tokio::test]
async fn probes_answer_whatever_the_host() {
    let world = world().await;
    for path in ["/healthz", "/readyz"] {
        let answer = Call::get(path).with("host", "10.0.0.1:8787").send(world.at).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.json);
    }
    assert_eq!(Call::get("/healthz").send(world.at).await.json, json!({ "status": "ok" }));
}

/// A stranger who tries keys is told to wait; the agent at the same address goes on.
#[tokio::test]
async fn failed_keys_are_limited_by_address() {
    let world = world().await;
    let mut told = Vec::new();
    for n in 0..31 {
        let key = format!("bb_agent_guess{n}");
        told.push(Call::get("/v1/budget").key(&key).send(world.at).await);
    }
    assert!(told[..30].iter().all(|answer| answer.line() == "401 unauthenticated"));
    assert_eq!(told[30].line(), "429 rate_limited");
    let after: u64 = told[30].header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&after), "{after}");
    assert_eq!(world.get("/v1/budget").await.status, 200);
}

/// A dry run decides like a request, and does nothing.
#[tokio::test]
async fn a_dry_run_says_what_would_be() {
    let lines =
        "daily_cap = \"100.00\"\nmax_per_payment = \"50.00\"\napproval_threshold = \"20.00\"";
    let world = World::with_policy(lines).await;
    world.charge(&json!({ "id": "ch_1", "amount": 9000 }));
    #[rustfmt::skip]
    let table: [(&str, i64, &str, &[&str]); 3] = [
        // name      amount  decision            reasons
        ("allowed",  1000,   "allow",            &[]),
        ("held",     3000,   "pending_approval", &["approval_threshold"]),
        ("denied",   6000,   "denied",           &["max_per_payment", "approval_threshold"]),
    ];
    let commits = world.store.commits();
    for (name, minor, decision, reasons) in table {
        let body = json!({ "target": "ch_1", "amountMinor": minor, "dryRun": true });
        let answer = world.ask(&body).await;
        assert_eq!(answer.line(), "200 dry_run", "{name}");
        assert_eq!(answer.text("/decision"), decision, "{name}");
        assert_eq!(answer.reasons(), reasons.join(","), "{name}");
        assert_eq!(answer.json.get("intentId"), None::<&Value>, "{name}");
    }
    assert_eq!(world.store.commits(), commits);
    world.check("dry runs", 0, 0);
}
