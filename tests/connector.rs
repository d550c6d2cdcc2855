//! What staff read of a Stripe with much in it: whole sets page by page, customers with names that
//! look like queries, and on the real binary the grants, the records and a stop.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Call;

use crate::process::{Home, Server};
use crate::rpc::{Called, call};
use crate::world::{World, outside};

/// Longest answer, in characters.
const CHARS_MAX: usize = 12_000;
/// Most rows that an answer has.
const ROWS_MAX: usize = 100;
/// Most pages that a set of this size comes in.
const PAGES_MAX: usize = 400;
/// The day before and the day on which worlds begin, by their first second.
const DAY_BEFORE: i64 = 1_773_014_400;
const FIRST_DAY: i64 = 1_773_100_800;

/// A policy in which the agent may read everything.
pub(crate) const READS: &str = "tools = [\"customers_search\", \"finance_balance\", \"finance_disputes\", \
                     \"finance_payments\"]";

/// Every object of a kind, newest first, as Stripe itself tells it.
async fn listed(stripe: std::net::SocketAddr, path: &str) -> Vec<Value> {
    let mut rows: Vec<Value> = Vec::new();
    loop {
        let after =
            rows.last().map(|row| format!("&starting_after={}", row["id"].as_str().unwrap()));
        let path = format!("{path}?limit=100{}", after.unwrap_or_default());
        let page = Call::get(&path).key("sk_test_tests").send(stripe).await.json;
        rows.extend(page["data"].as_array().unwrap().iter().cloned());
        if page["has_more"] == false {
            return rows;
        }
    }
}

fn ids(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|row| row["id"].as_str().unwrap().to_owned()).collect()
}

fn rows(page: &Called) -> Vec<Value> {
    page.body["data"].as_array().unwrap_or_else(|| panic!("{page:?}")).clone()
}

/// `arguments` with one more.
fn and(arguments: &Value, name: &str, value: impl Into<Value>) -> Value {
    let mut arguments = arguments.clone();
    arguments[name] = value.into();
    arguments
}

/// Calls a tool over the plain door.
async fn plain(at: std::net::SocketAddr, key: &str, tool: &str, arguments: &Value) -> Called {
    let answer = Call::post(&format!("/v1/tools/{tool}"), arguments).key(key).send(at).await;
    Called { is_error: answer.status != 200, body: answer.json }
}

/// Every page of a list, joined, each held against what an answer may be.
async fn joined(
    name: &str,
    mut page: impl AsyncFnMut(&Value) -> Called,
    arguments: &Value,
) -> Vec<Value> {
    let limit = arguments["limit"].as_u64().unwrap_or(20) as usize;
    let (mut all, mut ask) = (Vec::new(), arguments.clone());
    for _ in 0..PAGES_MAX {
        let found = page(&ask).await;
        let (text, data) = (found.body.to_string(), rows(&found));
        assert!(text.chars().count() <= CHARS_MAX, "{name}: {} characters", text.len());
        assert!(data.len() <= limit.min(ROWS_MAX), "{name}: {} rows", data.len());
        all.extend(data);
        let advice = found.text("/advice");
        if found.text("/nextCursor").is_empty() {
            assert!(!advice.contains("cursor"), "{name}: {advice}");
            return all;
        }
        assert!(advice.contains("`cursor` set to nextCursor"), "{name}: {advice}");
        ask = and(arguments, "cursor", found.text("/nextCursor"));
    }
    panic!("{name}: there is no end");
}

/// A dispute that may still be lost, or whose status nobody knows.
fn is_open(row: &Value) -> bool {
    !["lost", "prevented", "warning_closed", "won"].contains(&row["status"].as_str().unwrap())
}

fn made_within(row: &Value, from: i64, until: i64) -> bool {
    (from..until).contains(&row["created"].as_i64().unwrap())
}

/// Each set, in pages of each size: everything once, in order, and nothing else, although payments
/// and disputes are made while it is read.
#[tokio::test]
async fn every_page_joined_is_the_whole_set() {
    const PAYMENTS: &str = "/v1/payment_intents";
    const DISPUTES: &str = "/v1/disputes";
    let two_days = json!({ "date_from": "2026-03-09", "date_to": "2026-03-10" });
    let one_day = json!({ "date_from": "2026-03-09", "date_to": "2026-03-09" });
    let before = json!({ "date_to": "2026-03-09" });
    #[rustfmt::skip]
    let table: [(&str, Value, &[usize], &str, fn(&Value) -> bool, usize); 7] = [
        // tool               arguments                    page sizes         what it holds                                              how many
        ("finance_payments", json!({}),                    &[20, 100],        PAYMENTS, |_| true,                                        1000),
        ("finance_payments", two_days,                     &[1, 7, 100],      PAYMENTS, |row| made_within(row, DAY_BEFORE, i64::MAX),    69),
        ("finance_payments", one_day,                      &[47, 48, 49],     PAYMENTS, |row| made_within(row, DAY_BEFORE, FIRST_DAY),   48),
        ("finance_payments", before,                       &[99],             PAYMENTS, |row| made_within(row, 0, FIRST_DAY),            979),
        ("finance_disputes", json!({ "status": "all" }),   &[7, 49, 100],     DISPUTES, |_| true,                                        350),
        ("finance_disputes", json!({ "status": "open" }),  &[3, 20, 100],     DISPUTES, is_open,                                         210),
        ("finance_disputes", json!({}),                    &[99],             DISPUTES, is_open,                                         210),
    ];
    for (tool, arguments, sizes, path, belongs, count) in table {
        for size in sizes {
            let name = format!("{tool} {arguments} by {size}");
            let world = World::with_policy(READS).await;
            let seed = json!({ "payments": 1000, "disputes": 350, "spacingSeconds": 1800 });
            world.control("/_sandbox/seed", &seed);
            let mut expected = listed(world.stripe_at, path).await;
            expected.retain(belongs);
            assert_eq!(expected.len(), count, "{name}");
            let mut pages = 0;
            let page = async |ask: &Value| {
                // So that no figure of the guard's is reached.
                world.clock.pass(Duration::from_secs(10));
                pages += 1;
                if pages > 1 {
                    let late = json!({ "payment_intent": format!("pi_{pages}"), "disputed": true });
                    world.charge(&late);
                }
                if pages % 2 == 0 {
                    plain(world.at, &world.key, tool, ask).await
                } else {
                    call(world.at, &world.key, tool, ask).await
                }
            };
            let found = joined(&name, page, &and(&arguments, "limit", *size)).await;
            assert_eq!(ids(&found), ids(&expected), "{name}");
        }
    }
}

/// What was made in one second has no order by its time: the pages are the whole set all the same.
#[tokio::test]
async fn rows_of_one_second_come_once_and_in_order() {
    #[rustfmt::skip]
    let table = [
        // tool               arguments                    path                   sizes          how many
        ("finance_payments", json!({ "date_to": "2026-03-10" }), "/v1/payment_intents", [1, 7, 100], 120),
        ("finance_disputes", json!({ "status": "all" }),   "/v1/disputes",        [1, 7, 100],   70),
    ];
    for (tool, arguments, path, sizes, count) in table {
        let world = World::with_policy(READS).await;
        let seed = json!({ "payments": 120, "disputes": 70, "spacingSeconds": 0 });
        world.control("/_sandbox/seed", &seed);
        let expected = listed(world.stripe_at, path).await;
        let seconds = expected.iter().map(|row| row["created"].as_i64().unwrap());
        assert_eq!(seconds.collect::<std::collections::BTreeSet<_>>().len(), 1, "{tool}");
        assert_eq!(expected.len(), count, "{tool}");
        for size in sizes {
            let name = format!("{tool} by {size}");
            let page = async |ask: &Value| {
                world.clock.pass(Duration::from_secs(10));
                call(world.at, &world.key, tool, ask).await
            };
            let found = joined(&name, page, &and(&arguments, "limit", size)).await;
            assert_eq!(ids(&found), ids(&expected), "{name}");
        }
    }
}

/// Free text as long as it may be, in letters of several bytes: cut between two rows, and told.
#[tokio::test]
async fn a_long_answer_is_cut_between_two_rows() {
    let world = World::with_policy(READS).await;
    let mut expected = Vec::new();
    for place in 0..120 {
        let (id, letter) = (format!("pi_{place}"), ["ü", "\"", "\\", "伟"][place % 4]);
        let text = letter.repeat(300);
        world.charge(
            &json!({ "id": format!("ch_{place}"), "payment_intent": id, "description": text }),
        );
        expected.insert(0, id);
    }
    let mut sizes = Vec::new();
    let page = async |ask: &Value| {
        world.clock.pass(Duration::from_secs(10));
        let page = call(world.at, &world.key, "finance_payments", ask).await;
        sizes.push(page.body["data"].as_array().unwrap().len());
        let cut = page.text("/advice").contains("was cut at 12000 characters");
        assert_eq!(cut, !page.text("/nextCursor").is_empty(), "{page:?}");
        page
    };
    let found = joined("long texts", page, &json!({ "limit": 100 })).await;
    assert_eq!(ids(&found), expected);
    // Stripe was asked for a hundred each time; what did not fit came with the next page.
    let asked = world.received().into_iter().filter(|it| it.path == "/v1/payment_intents");
    assert!(asked.into_iter().all(|it| it.form["limit"] == "100"));
    assert!(sizes.len() > 3 && sizes[..sizes.len() - 1].iter().all(|size| *size < 40), "{sizes:?}");
}

/// What is asked of Stripe for each `limit`, and what is refused before it is asked.
#[tokio::test]
async fn limits() {
    let world = World::with_policy(READS).await;
    world.control("/_sandbox/seed", &json!({ "payments": 3, "disputes": 3, "customers": 3 }));
    let keyword = json!({ "keyword": "Customer" });
    let tools = [
        ("finance_payments", json!({})),
        ("finance_disputes", json!({ "status": "all" })),
        ("customers_search", keyword),
    ];
    #[rustfmt::skip]
    let table = [
        // limit         asked of Stripe
        (Value::Null,    Some("20")),
        (json!(1),       Some("1")),
        (json!(100),     Some("100")),
        (json!(101),     Some("100")),
        (json!(1000000), Some("100")),
        (json!(0),       None),
        (json!(-1),      None),
        (json!(1.5),     None),
        (json!("20"),    None),
    ];
    for (tool, arguments) in tools {
        for (limit, asked) in &table {
            let name = format!("{tool} {limit}");
            world.clock.pass(Duration::from_secs(10));
            let before = world.received().len();
            let ask = match limit {
                Value::Null => arguments.clone(),
                limit => and(&arguments, "limit", limit.clone()),
            };
            let found = call(world.at, &world.key, tool, &ask).await;
            let mut received = world.received().split_off(before).into_iter();
            let limit = received.next().map(|it| it.form["limit"].as_str().unwrap().to_owned());
            assert_eq!(limit.as_deref(), *asked, "{name}");
            if asked.is_none() {
                let refused = (found.line(), found.text("/field").to_owned());
                let expected = ("error invalid_request".to_owned(), "limit".to_owned());
                assert_eq!(refused, expected, "{name}");
                assert!(found.text("/detail").contains("at least 1"), "{name}: {found:?}");
            }
        }
    }
}

/// A cursor goes on with the list that it came from, and with no other.
#[tokio::test]
async fn a_cursor_belongs_to_its_arguments() {
    let world = World::with_policy(READS).await;
    world.control("/_sandbox/seed", &json!({ "payments": 10, "disputes": 10 }));
    let ask = async |tool: &str, arguments: Value| {
        world.clock.pass(Duration::from_secs(10));
        call(world.at, &world.key, tool, &arguments).await
    };
    let days = json!({ "date_from": "2026-03-09", "date_to": "2026-03-10", "limit": 2 });
    let payments = ask("finance_payments", days.clone()).await.text("/nextCursor").to_owned();
    let disputes = ask("finance_disputes", json!({ "limit": 2 })).await;
    let disputes = disputes.text("/nextCursor").to_owned();
    let id = listed(world.stripe_at, "/v1/payment_intents").await.remove(1)["id"].clone();
    let (cut, longer) = (&payments[..payments.len() - 2], format!("{payments}AA"));
    let open = json!({ "status": "open" });
    #[rustfmt::skip]
    let table = [
        // tool              arguments                                                   cursor         goes on
        ("finance_payments", days.clone(),                                               json!(payments), true),
        ("finance_payments", and(&days, "limit", 5),                                     json!(payments), true),
        ("finance_payments", and(&days, "date_from", "2026-03-08"),                      json!(payments), false),
        ("finance_payments", and(&days, "date_to", "2026-03-09"),                        json!(payments), false),
        ("finance_payments", json!({ "limit": 2 }),                                      json!(payments), false),
        ("finance_payments", days.clone(),                                               json!(disputes), false),
        ("finance_payments", days.clone(),                                               json!(cut),      false),
        ("finance_payments", days.clone(),                                               json!(longer),   false),
        ("finance_payments", days.clone(),                                               id,              false),
        ("finance_payments", days,                                                       json!(""),       false),
        // `open` is what it is when nothing is said.
        ("finance_disputes", open.clone(),                                               json!(disputes), true),
        ("finance_disputes", json!({ "status": "all" }),                                 json!(disputes), false),
        ("finance_disputes", open,                                                       json!(payments), false),
    ];
    for (tool, arguments, cursor, goes_on) in table {
        let name = format!("{tool} {arguments} {cursor}");
        let before = world.received().len();
        let found = ask(tool, and(&arguments, "cursor", cursor)).await;
        if goes_on {
            assert!(!found.is_error && !rows(&found).is_empty(), "{name}: {found:?}");
        } else {
            assert_eq!(found.line(), "error invalid_request", "{name}");
            assert_eq!(found.text("/field"), "cursor", "{name}");
            assert!(found.text("/detail").contains("leave it out to start"), "{name}: {found:?}");
            assert_eq!(world.received().len(), before, "{name}: Stripe was asked");
        }
    }
}

/// A form, whatever its values hold.
fn form(fields: &[(&str, &str)]) -> String {
    let escaped = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let pairs = fields.iter().map(|(name, value)| format!("{name}={}", escaped(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Customers, a letter each, and what each keyword finds of them: what stands there, and no query.
#[tokio::test]
async fn names_that_look_like_queries() {
    #[rustfmt::skip]
    let people = [
        // letter, name,                     e-mail
        ("a", r#"Ann "Annie" O'Neil"#,       "ann+tag@example.com"),
        ("b", r"back\slash Bob",             "o'neil@example.com"),
        ("c", r#"x" OR name:"y"#,            "jo.ann+tag@example.com"),
        ("d", r"Robert'); DROP TABLE --",    r#""quoted"@example.com"#),
        ("e", "-AND OR null",                r#"x@y" OR email~"ann"#),
        ("f", r#"name~"Eve" AND created>0"#, "eve@example.com"),
        ("g", "王小明",                       "小明@example.com"),
        ("h", "Zoë Müller",                  "zoë@example.com"),
        ("i", "ZOË MUELLER",                 "zoe@example.com"),
        ("j", "Li",                          "li@example.com"),
        ("k", "Lisa Marie",                  "lisa@example.com"),
        ("l", r"trailing\",                  r"back\slash@example.com"),
        ("m", "100% & Söhne #1 ?x=y+z",      "a&b=c%40@example.com"),
        ("n", "😀 Emoji",                     "emoji@example.com"),
        ("o", "metadata[\"k\"]:\"v\"",       "meta@example.com"),
    ];
    #[rustfmt::skip]
    let table = [
        // keyword                     finds
        (r#""Annie""#,                 "a"),
        ("O'Neil",                     "a"),
        ("o'neil",                     "a"),
        (r#"Ann "Annie" O'Neil"#,      "a"),
        (r#"""#,                       ""),
        (r#"""""#,                     ""),
        (r"k\s",                       "b"),
        (r"\slash",                    "b"),
        (r"\\slash",                   ""),
        (r"ing\",                      "l"),
        (r#"ing\""#,                   ""),
        (r#"" OR name"#,               "c"),
        (r#"x" OR name:"y"#,           "c"),
        (r#"" OR created>"0"#,         ""),
        (r#"zzz" OR name~"Zo"#,        ""),
        (r#"zzz' OR name~'Zoë"#,       ""),
        ("') ; DROP",                  ""),
        ("'); DROP",                   "d"),
        ("-AND",                       "e"),
        ("null",                       "e"),
        (" OR ",                       "ce"),
        (r#"name~"Eve""#,              "f"),
        ("created>0",                  "f"),
        ("王小明",                      "g"),
        ("zoë",                        "hi"),
        ("müller",                     "h"),
        ("Li",                         "j"),
        ("isa",                        "k"),
        ("li ma",                      ""),
        ("% & Söhne #1 ?x=y+z",        "m"),
        ("😀 E",                        "n"),
        (r#"["k"]:"v"#,                "o"),
        ("***",                        ""),
        ("nam",                        "cf"),
        ("ann+tag@example.com",        "a"),
        ("Ann+Tag@Example.COM",        "a"),
        ("ann@example.com",            ""),
        ("@example.com",               ""),
        ("o'neil@example.com",         "b"),
        (r#""quoted"@example.com"#,    "d"),
        (r#"x@y" OR email~"ann"#,      "e"),
        (r#"x@y" OR email~"eve"#,      ""),
        ("小明@example.com",            "g"),
        (r"back\slash@example.com",    "l"),
        ("a&b=c%40@example.com",       "m"),
    ];
    let world = World::with_policy(READS).await;
    let mut letters = std::collections::BTreeMap::new();
    for (letter, name, email) in people {
        outside(&world.sandbox, "/v1/customers", &form(&[("name", name), ("email", email)]));
        let made = listed(world.stripe_at, "/v1/customers").await.remove(0);
        assert_eq!(made["name"], name);
        letters.insert(made["id"].as_str().unwrap().to_owned(), letter);
    }
    for (keyword, expected) in table {
        world.clock.pass(Duration::from_secs(10));
        let found =
            call(world.at, &world.key, "customers_search", &json!({ "keyword": keyword })).await;
        assert!(!found.is_error, "{keyword}: {found:?}");
        let mut who: Vec<&str> = ids(&rows(&found)).iter().map(|id| letters[id]).collect();
        who.sort_unstable();
        assert_eq!(who.concat(), expected, "{keyword}");
    }
    let searches = world.received().into_iter().filter(|it| it.path == "/v1/customers/search");
    assert!(searches.into_iter().all(|it| it.status == Some(200)));
}

/// Two agents of a team that reads payments and customers, one of them with grants of its own, and
/// one of no team.
const TEAM: &str = r#"
[teams.support]
methods = ["stripe_refund"]
allowed_hosts = ["stripe-refund.action"]
tools = ["finance_payments", "customers_search"]
daily_budget = "100.00"

[agents.support-bot]
team = "support"

[agents.books-bot]
team = "support"
tools = ["finance_balance", "finance_disputes"]

[agents.night-bot]
methods = ["stripe_refund"]
allowed_hosts = ["stripe-refund.action"]
"#;

/// What `audit export` says of tools: agent, tool, first day, last day and number of rows.
fn uses(home: &Home) -> Vec<String> {
    let agents = home.done(&["agent", "list", "--json"]).json();
    let name = |id: &str| {
        let agent = agents.as_array().unwrap().iter().find(|agent| agent["id"] == id).unwrap();
        agent["name"].as_str().unwrap().to_owned()
    };
    let exported = home.done(&["audit", "export"]).out;
    let entries = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let used = entries.filter(|entry| entry["action"] == "tool.used");
    used.map(|entry| {
        let text = |name: &str| entry[name].as_str().unwrap();
        let details: Value = serde_json::from_str(text("details")).unwrap();
        let kept: Vec<&String> = details.as_object().unwrap().keys().collect();
        assert_eq!(kept, ["agent", "from", "to", "rows"]);
        let id = details["agent"].as_str().unwrap();
        assert_eq!(text("actor"), format!("agent:{id}"));
        assert!(text("at").ends_with('Z'), "{entry}");
        let day = |name: &str| details[name].as_str().unwrap_or("-").to_owned();
        let (from, to) = (day("from"), day("to"));
        format!("{} {} {from} {to} {}", name(id), text("subject"), details["rows"])
    })
    .collect()
}

/// On the real binary: who may read what, what is kept of it, and that a stop holds refunds and no
/// reads.
#[tokio::test]
async fn grants_records_and_a_stop() {
    let sandbox = Server::sandbox();
    let (home, support) = Home::with_agent(TEAM);
    let key = |name: &str| {
        let made = home.done(&["agent", "create", name, "--json"]).json();
        made["key"].as_str().unwrap().to_owned()
    };
    let (books, night) = (key("books-bot"), key("night-bot"));
    let gateway = home.serve(&sandbox, &[("GATEWAY_STRIPE_CALLS_PER_MINUTE", "8")]);
    let seed = json!({ "payments": 1000, "disputes": 350, "customers": 20 });
    sandbox.control("/_sandbox/seed", &seed).await;
    let customer = json!({ "name": "Canary Person", "email": "canary@example.com" });
    let charge = json!({ "id": "ch_1", "customer": customer, "description": "canary" });
    sandbox.control("/_sandbox/charges", &charge).await;
    let keyword = json!({ "keyword": "Canary" });
    let days = json!({ "date_from": "2026-01-01", "date_to": "9999-12-30", "limit": 3 });
    let since = json!({ "date_from": "1999-01-01", "limit": 1 });
    #[rustfmt::skip]
    let table = [
        // key      tool                arguments          what is kept of it; nothing where it is not granted
        (&support, "finance_payments", days,              "support-bot finance_payments 2026-01-01 9999-12-30 3"),
        (&support, "finance_payments", since,             "support-bot finance_payments 1999-01-01 - 1"),
        (&support, "customers_search", keyword.clone(),   "support-bot customers_search - - 1"),
        (&support, "finance_balance",  json!({}),         ""),
        (&support, "finance_disputes", json!({}),         ""),
        // An agent's own line stands in place of its team's.
        (&books,   "finance_balance",  json!({}),         "books-bot finance_balance - - 8"),
        (&books,   "finance_disputes", json!({ "limit": 2 }), "books-bot finance_disputes - - 2"),
        (&books,   "finance_payments", json!({}),         ""),
        (&night,   "finance_payments", json!({}),         ""),
        (&night,   "customers_search", keyword.clone(),   ""),
    ];
    let mut expected = Vec::new();
    for (key, tool, arguments, kept) in table {
        let name = format!("{tool} {arguments}");
        let over_http = plain(gateway.at, key, tool, &arguments).await;
        let listed = Call::get("/v1/tools").key(key).send(gateway.at).await;
        let listed = listed.json["tools"].as_array().unwrap().iter().any(|it| it["name"] == tool);
        assert_eq!(listed, !kept.is_empty(), "{name}");
        if kept.is_empty() {
            let over_mcp = call(gateway.at, key, tool, &arguments).await;
            assert_eq!(over_mcp.line(), "error tool_not_granted", "{name}");
            assert_eq!(over_http.text("/code"), "tool_not_granted", "{name}");
            continue;
        };
        assert!(!over_http.is_error, "{name}: {over_http:?}");
        expected.push(kept);
    }
    assert_eq!(uses(&home), expected);
    let exported = home.done(&["audit", "export", "--format", "csv"]).out.to_lowercase();
    assert!(!exported.contains("canary"), "rows, a name or the keyword are kept");

    // A stop holds what would be a refund, and lets people see what is going on.
    home.done(&["stop", "--everybody"]);
    let ask = json!({ "target": "ch_1" });
    let held = call(gateway.at, &support, "stripe_refund", &ask).await;
    assert_eq!(
        (held.line().as_str(), held.text("/reasons/0/code")),
        ("denied", "organization_stopped")
    );
    for _ in 0..3 {
        assert!(!call(gateway.at, &support, "customers_search", &keyword).await.is_error);
    }
    assert_eq!(uses(&home).len(), expected.len() + 3);
    // Those were the eight reads of this minute that the operator allows.
    let refused = call(gateway.at, &support, "customers_search", &keyword).await;
    assert_eq!(refused.line(), "error rate_limited");
    home.done(&["resume", "--everybody"]);
    // A denial stands: whoever asks once more takes another key.
    let again = and(&ask, "idempotencyKey", "after-the-stop");
    assert_eq!(call(gateway.at, &support, "stripe_refund", &again).await.line(), "refunded");
    assert_eq!(uses(&home).len(), expected.len() + 3);
    assert_eq!(sandbox.refunds().await.len(), 1);
}
