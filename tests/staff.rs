//! The tools for staff, over MCP and over plain HTTP: what they answer, who may call them, what the
//! audit log keeps of it, and a refund in whole units from asking to the end.

use serde_json::{Value, json};

use crate::client::{Answer, Call};
use crate::rpc::{MCP, call, post, request, result};
use crate::world::{AGENT, STRIPE_KEY, Setup, World, policy};

/// The connector's tools; a policy that names another would be refused.
const TOOLS: [&str; 5] = [
    "customers_search",
    "finance_balance",
    "finance_disputes",
    "finance_payments",
    "finance_refund",
];

/// Every tool of the connector's, and caps that hold nothing back.
fn granted() -> String {
    format!("daily_cap = \"100000.00\"\ntools = {TOOLS:?}")
}

async fn plain(world: &World, tool: &str, arguments: &Value) -> Answer {
    let call = Call::post(&format!("/v1/tools/{tool}"), arguments);
    call.key(&world.key).send(world.at).await
}

/// The uses that the audit log has: tool and details, but for the agent.
async fn uses(world: &World) -> Vec<String> {
    let rows = world.audit().await.into_iter().filter(|row| row.entry.action == "tool.used");
    rows.map(|row| {
        let details: Value = serde_json::from_str(&row.entry.details).unwrap();
        assert_eq!(row.entry.actor, format!("agent:{}", details["agent"].as_str().unwrap()));
        let day = |name: &str| details[name].as_str().unwrap_or("-").to_owned();
        format!("{} {} {} {}", row.entry.subject, day("from"), day("to"), details["rows"])
    })
    .collect()
}

#[tokio::test]
async fn what_staff_read_is_the_same_at_each_door_and_on_record() {
    let world = World::with_policy(&granted()).await;
    let seed = json!({ "payments": 30, "disputes": 12, "customers": 8 });
    world.control("/_sandbox/seed", &seed);
    let secret = "canary.person@example.com";
    #[rustfmt::skip]
    let table = [
        // tool               arguments                                               rows are at  on record
        ("finance_payments", json!({ "limit": 5 }),                                   "/data",     "finance_payments - - 5"),
        ("finance_payments", json!({ "date_from": "2026-03-01", "date_to": "2026-03-10", "limit": 2 }), "/data", "finance_payments 2026-03-01 2026-03-10 2"),
        ("finance_payments", json!({ "date_to": "1999-01-01" }),                      "/data",     "finance_payments - 1999-01-01 0"),
        ("finance_balance",  json!({}),                                               "/available", ""),
        ("customers_search", json!({ "keyword": secret }),                            "/data",     "customers_search - - 0"),
        ("finance_disputes", json!({ "status": "all", "limit": 3 }),                  "/data",     "finance_disputes - - 3"),
    ];
    for (tool, arguments, rows, recorded) in table {
        let before = uses(&world).await.len();
        let over_mcp = call(world.at, &world.key, tool, &arguments).await;
        let over_http = plain(&world, tool, &arguments).await;
        assert_eq!((over_mcp.is_error, over_http.status), (false, 200), "{tool}: {over_mcp:?}");
        assert_eq!(over_mcp.body, over_http.json, "{tool}");
        let rows = over_http.json.pointer(rows).unwrap().as_array().unwrap();
        let found = uses(&world).await;
        assert_eq!(found.len(), before + 2, "one entry a read: {found:?}");
        if !recorded.is_empty() {
            assert_eq!(found[before..], [recorded, recorded], "{tool}");
            assert!(recorded.ends_with(&format!(" {}", rows.len())), "{tool}: {rows:?}");
        }
    }
    let kept = world.audit().await;
    assert!(kept.iter().all(|row| !row.entry.details.contains("canary")), "{kept:?}");
    world.check("reads", 0, 0);
}

/// A page and the next one, over MCP; and what is refused or fails tells no rows and leaves no entry.
#[tokio::test]
async fn pages_and_problems() {
    let world = World::with_policy(&granted()).await;
    world.control("/_sandbox/seed", &json!({ "payments": 6, "disputes": 0, "customers": 0 }));
    let page = |arguments: Value| {
        let (at, key) = (world.at, world.key.clone());
        async move { call(at, &key, "finance_payments", &arguments).await }
    };
    let first = page(json!({ "limit": 2 })).await;
    let cursor = first.text("/nextCursor").to_owned();
    let second = page(json!({ "limit": 2, "cursor": cursor })).await;
    assert_ne!(first.body["data"], second.body["data"]);
    assert_eq!(second.body["data"].as_array().unwrap().len(), 2);
    let other = page(json!({ "date_to": "2026-03-10", "cursor": cursor })).await;
    assert_eq!(other.line(), "error invalid_request");
    assert_eq!(other.text("/field"), "cursor");
    let before = uses(&world).await.len();
    let may = json!({ "charges": "read" });
    world.control("/_sandbox/keys", &json!({ "key": STRIPE_KEY, "permissions": may }));
    let refused = call(world.at, &world.key, "finance_disputes", &json!({})).await;
    assert_eq!(refused.line(), "error stripe_permission");
    assert!(!refused.text("/detail").contains("refunded"), "{refused:?}");
    assert_eq!(plain(&world, "finance_disputes", &json!({})).await.line(), "502 stripe_permission");
    assert_eq!(uses(&world).await.len(), before);
}

#[tokio::test]
async fn a_tool_is_there_with_its_grant_alone() {
    let names = |answer: &Answer| -> Vec<String> {
        let tools = answer.json["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let world = World::with_policy(&granted()).await;
    let listed = || async {
        post(request(1, "tools/list", &json!({}))).key(&world.key).send(world.at).await
    };
    let (all, again) = (listed().await, listed().await);
    assert_eq!(all.body, again.body);
    assert!(all.body.len() < 20_000, "{} bytes", all.body.len());
    assert_eq!(result(&all)["tools"], world.get("/v1/tools").await.json["tools"]);
    let mut connector = names(&world.get("/v1/tools").await).split_off(6);
    connector.sort();
    assert_eq!(connector, TOOLS);

    let two = "tools = [\"finance_payments\", \"customers_search\"]\ndaily_cap = \"1.00\"";
    world.apply(&policy(two)).await;
    assert_eq!(names(&world.get("/v1/tools").await)[6..], ["finance_payments", "customers_search"]);
    let stranger = world.agent("stranger").await;
    #[rustfmt::skip]
    let table = [
        // whose              tool                arguments                             HTTP
        (&world.key, "finance_payments", json!({}),                             "200"),
        (&world.key, "finance_balance",  json!({}),                             "403"),
        (&world.key, "finance_refund",   json!({ "payment_intent": "pi_1" }),   "403"),
        (&stranger,  "customers_search", json!({ "keyword": "ann" }),           "403"),
        (&stranger,  "finance_refund",   json!({ "payment_intent": "pi_1" }),   "403"),
    ];
    for (key, tool, arguments, status) in table {
        let over_http = Call::post(&format!("/v1/tools/{tool}"), &arguments).key(key);
        let over_http = over_http.send(world.at).await;
        let over_mcp = call(world.at, key, tool, &arguments).await;
        assert_eq!(over_http.status.to_string(), status, "{tool}: {over_http:?}");
        if status == "403" {
            assert_eq!(over_mcp.line(), "error tool_not_granted", "{tool}");
            assert_eq!(over_http.text("/code"), "tool_not_granted", "{tool}");
            assert!(over_mcp.text("/detail").contains("a policy owner can add it"), "{over_mcp:?}");
        }
    }
    world.check("without grants", 0, 0);
    let unknown = Call::post(MCP, request(1, "tools/list", &json!({}))).key("bb_agent_nobody");
    assert_eq!(unknown.send(world.at).await.status, 401);
}

/// In whole units, in each kind of currency; with a key and without one.
#[tokio::test]
async fn a_person_decides_and_the_gateway_refunds() {
    #[rustfmt::skip]
    let table = [
        // currency, charged  asked           again           minor  with a key
        ("eur",      2050,    json!("10.50"), json!(10.5),    1050,  true),
        ("eur",      2050,    json!(20),      json!("20.00"), 2000,  false),
        ("jpy",      9000,    json!("500"),   json!(500),     500,   false),
        ("kwd",      9000,    json!("1.500"), json!("1.5"),   1500,  true),
        ("eur",      2050,    Value::Null,    Value::Null,    2050,  true),
        ("eur",      2050,    Value::Null,    Value::Null,    2050,  false),
    ];
    for (currency, charged, asked, again, minor, keyed) in table {
        let name = format!("{asked} {currency}, with a key: {keyed}");
        let policy = policy(&granted());
        let world = Setup { pins: "KWD=3.25", policy, ..Setup::default() }.start().await;
        world.charge(&json!({ "id": "ch_1", "payment_intent": "pi_1", "amount": charged, "currency": currency }));
        let arguments = |amount: &Value| {
            let mut arguments = json!({ "payment_intent": "pi_1", "justification": "it broke" });
            if keyed {
                arguments["idempotencyKey"] = json!("k");
            }
            if !amount.is_null() {
                arguments["amount"] = amount.clone();
            }
            arguments
        };
        let pending = plain(&world, "finance_refund", &arguments(&asked)).await;
        assert_eq!(pending.line(), "202 pending_approval", "{name}: {pending:?}");
        assert_eq!(pending.text("/reasons/0/code"), "connector_write", "{name}");
        assert_eq!(pending.json["amount"]["minor"], minor, "{name}");
        let over_mcp = call(world.at, &world.key, "finance_refund", &arguments(&again)).await;
        assert_eq!((over_mcp.line().as_str(), over_mcp.replayed()), ("pending_approval", true));
        world.check(&name, 0, 0);

        world.run_by_itself();
        world.approve(&pending).await;
        world.until(&pending, |intent| intent.refund.is_some()).await;
        assert!(world.wire.last_form().contains(&format!("&amount={minor}&")), "{name}");
        // What was asked before is answered without Stripe.
        let before = world.received().len();
        for amount in [&asked, &again] {
            let made = call(world.at, &world.key, "finance_refund", &arguments(amount)).await;
            assert_eq!((made.line().as_str(), made.replayed()), ("refunded", true), "{name}");
        }
        assert_eq!(world.received().len(), before, "{name}");
        world.check(&name, 1, 1);
        // It left the audit entries of a refund, and none of a read.
        assert_eq!(uses(&world).await, Vec::<String>::new(), "{name}");
    }
}

#[tokio::test]
async fn what_finance_refund_does_not_take() {
    let world = World::with_policy(&granted()).await;
    for (id, currency) in [("1", "eur"), ("2", "jpy"), ("3", "kwd")] {
        let charge = json!({ "id": format!("ch_{id}"), "payment_intent": format!("pi_{id}"), "amount": 5000, "currency": currency });
        world.charge(&charge);
    }
    let first = json!({ "payment_intent": "pi_1", "amount": "10.00", "idempotencyKey": "k" });
    assert_eq!(plain(&world, "finance_refund", &first).await.line(), "202 pending_approval");
    #[rustfmt::skip]
    let table = [
        // arguments                                                          code                      says
        (json!({ "payment_intent": "pi_1", "amount": "10.505" }),             "invalid_amount",         "are 10.50 EUR and 10.51 EUR."),
        (json!({ "payment_intent": "pi_2", "amount": 5.5 }),                  "invalid_amount",         "are 5 JPY and 6 JPY."),
        (json!({ "payment_intent": "pi_3", "amount": "1.505" }),              "invalid_amount",         "are 1.500 KWD and 1.510 KWD."),
        (json!({ "payment_intent": "pi_1", "amount": "50.01" }),              "amount_over_refundable", "leave the amount out"),
        (json!({ "payment_intent": "pi_1", "amount": "ten" }),                "invalid_amount",         "written like \"20\""),
        (json!({ "payment_intent": "pi_9", "amount": "10" }),                 "charge_not_found",       "Check the id"),
        (json!({ "payment_intent": "ch_1" }),                                 "invalid_request",        "of a payment intent, pi_…"),
        (json!({ "payment_intent": "pi_1", "amount": "10.01", "idempotencyKey": "k" }), "idempotency_key_reused", "another `amount`"),
        (json!({ "payment_intent": "pi_1", "idempotencyKey": "k" }),          "idempotency_key_reused", "another `amount`"),
        (json!({ "payment_intent": "pi_2", "amount": "10", "idempotencyKey": "k" }), "idempotency_key_reused", "another `payment_intent`"),
    ];
    for (arguments, code, says) in table {
        let over_http = plain(&world, "finance_refund", &arguments).await;
        let over_mcp = call(world.at, &world.key, "finance_refund", &arguments).await;
        assert_eq!(over_http.text("/code"), code, "{arguments}: {over_http:?}");
        assert_eq!(over_mcp.line(), format!("error {code}"), "{arguments}");
        for detail in [over_http.text("/detail"), over_mcp.text("/detail")] {
            assert!(detail.contains(says), "{arguments}: {detail}");
            assert!(detail.contains("Nothing was refunded."), "{arguments}: {detail}");
        }
    }
    // The grant lets it ask; whether it may refund at all is the same line as ever.
    let no_method = format!("[agents.{AGENT}]\ntools = [\"finance_refund\"]\n");
    world.apply(&no_method).await;
    let denied = plain(&world, "finance_refund", &json!({ "payment_intent": "pi_2" })).await;
    assert_eq!(denied.text("/reasons/0/code"), "method_not_allowed", "{denied:?}");
    world.check("refused", 0, 0);
}

/// What bounds refunds bounds these too: when they are asked for, and when they are made.
#[tokio::test]
async fn every_cap_counts() {
    let ask = json!({ "payment_intent": "pi_1", "amount": "6.00" });
    let bounded = |lines: &str| policy(&format!("tools = [\"finance_refund\"]\n{lines}"));
    #[rustfmt::skip]
    let table = [
        // lines                                                       why six dollars are denied
        ("",                                                           "daily_cap"),
        ("daily_cap = \"5.99\"",                                       "daily_cap"),
        ("weekly_cap = \"5.99\"",                                      "weekly_cap"),
        ("monthly_cap = \"5.99\"",                                     "monthly_cap"),
        ("daily_cap = \"6.00\"\nmax_per_payment = \"5.99\"",           "max_per_payment"),
        ("daily_cap = \"6.00\"\nper_customer_daily_cap = \"5.99\"",    "customer_cap"),
        ("daily_cap = \"6.00\"",                                       ""),
    ];
    for (lines, why) in table {
        let world = Setup { policy: bounded(lines), ..Setup::default() }.start().await;
        let customer = json!({ "name": "Ann", "email": "ann@example.com" });
        let charge = json!({ "id": "ch_1", "payment_intent": "pi_1", "customer": customer });
        world.charge(&charge);
        let answer = plain(&world, "finance_refund", &ask).await;
        let (line, codes) = match why {
            "" => ("202 pending_approval", "connector_write".to_owned()),
            why => ("200 denied", format!("{why},connector_write")),
        };
        assert_eq!((answer.line().as_str(), answer.reasons()), (line, codes), "{lines}");
        // Whoever is denied is sent to nobody who was not asked.
        let told = answer.json["reasons"].to_string().contains("Wait for a reviewer");
        assert_eq!(told, why.is_empty(), "{answer:?}");
        world.check(lines, 0, 0);
    }
    // Approved, and no longer within the cap when it is to be made.
    let world =
        Setup { policy: bounded("daily_cap = \"10.00\""), ..Setup::default() }.start().await;
    for place in [1, 2] {
        let (charge, payment) = (format!("ch_{place}"), format!("pi_{place}"));
        world.charge(&json!({ "id": charge, "payment_intent": payment }));
    }
    let pending = plain(&world, "finance_refund", &ask).await;
    assert_eq!(pending.line(), "202 pending_approval");
    let other = json!({ "target": "ch_2", "amountMinor": 500 });
    assert_eq!(plain(&world, "stripe_refund", &other).await.line(), "200 refunded");
    world.run_by_itself();
    world.approve(&pending).await;
    let ended = world.until(&pending, |intent| intent.state == gate_core::State::Denied).await;
    let codes: Vec<&str> = ended.reasons.iter().map(|reason| reason.code.as_str()).collect();
    assert_eq!(codes, ["approval_stale", "daily_cap"]);
    assert_eq!(world.spent().await, "5.00");
    world.check("overtaken", 1, 1);
}
