//! The command line, on the real binary: each command beside a gateway that runs, what it prints,
//! and the code that it ends with.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use gate_core::Timestamp;
use gate_server::system::SystemClock;
use gate_store::{AuditEntry, Judge, Reads, Snapshot, SqliteStore, Store as _, Write};
use serde_json::{Value, json};

use crate::client::Call;
use crate::process::{Home, KEY, POLICY, Ran, Server};

/// A policy in which a person decides from 5.00 USD on.
fn policy_with_person() -> String {
    format!("{POLICY}approval_threshold = \"5.00\"\n")
}

fn members(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

async fn charges(sandbox: &Server, ids: &[&str]) {
    for id in ids {
        sandbox.control("/_sandbox/charges", &json!({ "id": id })).await;
    }
}

#[test]
fn the_first_line_is_where_it_listens() {
    let sandbox = Server::sandbox();
    assert_eq!(sandbox.first_line, format!("listening on http://{}\n", sandbox.at));
    let gateway = Home::new().serve(&sandbox, &[]);
    assert_eq!(gateway.first_line, format!("listening on http://{}\n", gateway.at));
    assert!(gateway.at.ip().is_loopback());
    assert_ne!(gateway.at.port(), 0);
    let json = Server::of(&["stripe-sandbox", "--port", "0", "--json"]);
    assert_eq!(json.first_line, format!("{{\"listening\":\"http://{}\"}}\n", json.at));
}

/// How each client of MCP is set up, those over HTTP first.
const CLIENTS: [&str; 7] = [
    "claude mcp add --transport http",
    "Cursor, in .cursor/mcp.json",
    "VS Code, in .vscode/mcp.json",
    "Codex, in ~/.codex/config.toml",
    "Any other that takes an address",
    "Claude Desktop, in claude_desktop_config.json",
    "\"args\":[\"mcp\"]",
];

/// The demo says where it listens, and how each client is connected to it.
#[test]
fn the_demo_says_how_clients_are_set_up() {
    let mut demo = Server::of(&["demo"]);
    let address = format!("http://{}/mcp", demo.at);
    let words = demo.printed("/_sandbox/faults");
    let places: Vec<_> = CLIENTS.iter().map(|client| words.find(client)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
    assert!(words.matches(&address).count() > 4, "{words}");
}

#[tokio::test]
async fn agents_and_their_keys() {
    let sandbox = Server::sandbox();
    let (home, first) = Home::with_agent(POLICY);
    let gateway = home.serve(&sandbox, &[]);
    let budget = async |key: &str| Call::get("/v1/budget").key(key).send(gateway.at).await.status;
    assert!(first.starts_with("bb_agent_"));

    let made = home.done(&["agent", "create", "other-bot", "--json"]);
    assert_eq!(members(&made.json()), ["id", "name", "key"]);
    let places: Vec<_> = CLIENTS.iter().map(|client| made.err.find(client)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?} {}", made.err);
    assert!(!made.err.contains(made.json()["key"].as_str().unwrap()), "a key is a result alone");
    assert!(made.json()["id"].as_str().unwrap().starts_with("agt_"));
    assert_eq!(budget(made.json()["key"].as_str().unwrap()).await, 200);
    assert_eq!(home.run(&["agent", "create", "other-bot"]).code, 1, "it is there already");

    // Into a team, whose lines it takes then; one that the policy does not have is a fault.
    let team = ["agent", "create", "team-bot", "--team", "support", "--owner", "maria"];
    let refused = home.run(&team);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("the policy has no team support"), "{refused:?}");
    let with_team = format!("{POLICY}\n[teams.support]\nmethods = [\"stripe_refund\"]\n");
    std::fs::write(home.path("policy.toml"), with_team).unwrap();
    home.done(&["policy", "apply", home.path("policy.toml").to_str().unwrap()]);
    home.done(&team);
    let shown = home.done(&["policy", "export"]).out;
    assert!(shown.contains("team = \"support\"") && shown.contains("owner = \"maria\""), "{shown}");
    home.done(&["agent", "revoke", "team-bot"]);

    // A rotation leaves the key before it for a day; one with --now leaves none.
    let rotate = |arguments: &[&str]| {
        let rotated =
            home.done(&[&["agent", "rotate", "support-bot", "--json"], arguments].concat());
        rotated.json()["key"].as_str().unwrap().to_owned()
    };
    let second = rotate(&[]);
    assert_eq!((budget(&first).await, budget(&second).await), (200, 200));
    let third = rotate(&["--now"]);
    assert_eq!((budget(&second).await, budget(&third).await), (401, 200));
    assert_eq!(budget(&first).await, 401);

    let listed = home.done(&["agent", "list", "--json"]);
    let agents = listed.json();
    assert_eq!(agents.as_array().unwrap().len(), 3);
    assert_eq!(
        (&agents[0]["name"], &agents[1]["name"]),
        (&json!("other-bot"), &json!("support-bot"))
    );
    assert!(!listed.out.contains(&third), "a key is shown once");

    home.done(&["agent", "revoke", "support-bot"]);
    assert_eq!(budget(&third).await, 401);
    assert_eq!(home.run(&["agent", "rotate", "support-bot"]).code, 1, "revoked for good");
}

/// From elsewhere a key is like one that there is not.
#[tokio::test]
async fn keys_that_end_and_keys_from_somewhere() {
    let sandbox = Server::sandbox();
    let (home, _) = Home::with_agent(POLICY);
    let gateway = home.serve(&sandbox, &[]);
    let key = |ran: Ran| ran.json()["key"].as_str().unwrap().to_owned();
    let create = |name: &str, more: &[&str]| {
        home.run(&[&["agent", "create", name, "--json"], more].concat())
    };
    let answer = async |key: &str| {
        let answer = Call::get("/v1/budget").key(key).send(gateway.at).await;
        let mut told = answer.json.clone();
        told["requestId"] = Value::Null;
        (answer.status, told)
    };
    let near = key(create("near", &["--from", "127.0.0.0/8", "::1", "--expires", "90d"]));
    assert_eq!(answer(&near).await.0, 200);
    let far = key(create("far", &["--from", "10.0.0.0/8", "--from", "2001:db8::/32"]));
    let unknown = answer("bb_agent_of-nobody").await;
    assert_eq!(unknown.0, 401);
    assert_eq!(answer(&far).await, unknown, "the same answer, to the letter");
    home.done(&["agent", "rotate", "far", "--from", "127.0.0.1"]);
    assert_eq!(answer(&far).await.0, 200, "for the old key, too");

    let shown = home.done(&["agent", "show", "near", "--json"]).json();
    assert_eq!(shown["sources"], json!(["127.0.0.0/8", "::1/128"]));
    let (made, ends) = (&shown["keys"][0]["createdAt"], &shown["keys"][0]["expiresAt"]);
    let millis = |text: &Value| gate_api::parse_time(text.as_str().unwrap()).unwrap().millis();
    assert_eq!(millis(ends) - millis(made), 90 * 24 * 3_600_000);
    assert_eq!(shown["policy"], "near has no entry and may do nothing.");
    let said = home.done(&["agent", "show", "near"]).out;
    assert!(said.contains(" until ") && said.contains("from 127.0.0.0/8, ::1/128"), "{said}");
    for (arguments, told) in [
        (["--expires", "soon"], "--expires is `soon`: write a span of time"),
        (["--expires", "0d"], "a key lasts longer than nothing"),
        (["--from", "10.1.2.3/8"], "--from: `10.1.2.3/8` has bits set behind its length"),
    ] {
        let ran = create("none", &arguments);
        assert_eq!((ran.code, ran.err.contains(told)), (2, true), "{ran:?}");
    }
    assert_eq!(home.run(&["agent", "show", "none"]).code, 1, "none of them was made");
}

/// What a revoked agent had pending is withdrawn.
#[tokio::test]
async fn revoking_withdraws() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(&policy_with_person());
    let gateway = home.serve(&sandbox, &[]);
    charges(&sandbox, &["ch_1"]).await;
    let pending = gateway.ask(&key, &json!({ "target": "ch_1" })).await;
    assert_eq!(pending.line(), "202 pending_approval");
    home.done(&["agent", "revoke", "support-bot"]);
    let shown = home.done(&["intent", "show", pending.text("/intentId"), "--json"]).json();
    assert_eq!(shown["state"], "canceled");
    assert_eq!(gateway.ask(&key, &json!({ "target": "ch_1" })).await.line(), "401 unauthenticated");
}

#[tokio::test]
async fn policies() {
    let home = Home::new();
    let file = |name: &str, text: &str| {
        std::fs::write(home.path(name), text).unwrap();
        home.path(name).to_str().unwrap().to_owned()
    };
    let good = file("good.toml", POLICY);
    let bad = file("bad.toml", &format!("{POLICY}dialy_cap = \"5.00\"\nmethods = 7\n"));
    let unread = home.path("nowhere.toml").to_str().unwrap().to_owned();

    assert_eq!(home.done(&["policy", "show", "--json"]).json()["version"], 0);
    let checked = home.run(&["policy", "check", &good, "--json"]);
    assert_eq!((checked.code, checked.json()["faults"].clone()), (0, json!([])));

    // A key that is there twice is no TOML; so the fault that is ours stands alone.
    let typo = file("typo.toml", &format!("{POLICY}dialy_cap = \"5.00\"\n"));
    let checked = home.run(&["policy", "check", &typo, "--json"]);
    assert_eq!(checked.code, 3);
    let fault = &checked.json()["faults"][0];
    assert_eq!((&fault["line"], &fault["column"]), (&json!(7), &json!(1)));
    assert!(fault["message"].as_str().unwrap().contains("daily_cap"), "{fault}");
    assert_eq!(home.run(&["policy", "check", &bad]).code, 3);

    let refused = home.run(&["policy", "apply", &typo]);
    assert_eq!((refused.code, refused.out.as_str()), (2, ""));
    assert!(refused.err.contains("line 7, column 1"), "{}", refused.err);
    assert_eq!(home.run(&["policy", "apply", &unread]).code, 2);
    assert_eq!(home.done(&["policy", "show", "--json"]).json()["version"], 0, "still the first");

    assert_eq!(home.done(&["policy", "apply", &good, "--json"]).json()["version"], 1);
    let exported = home.done(&["policy", "export", "--json"]).json();
    assert_eq!(exported, json!({ "version": 1, "text": POLICY }));
    assert_eq!(home.done(&["policy", "export"]).out.trim_end(), POLICY.trim_end());
    let words = home.done(&["policy", "show"]).out;
    assert!(words.contains("support-bot") && words.contains("100.00"), "{words}");
}

/// `agent create --starter --owner` writes a careful entry, at which the agent can refund.
#[tokio::test]
async fn a_starter_can_start() {
    let sandbox = Server::sandbox();
    let home = Home::new();
    home.done(&["user", "create", "maria", "--role", "owner"]);
    let create = ["agent", "create", "new-bot", "--starter", "--owner", "maria", "--json"];
    let key = home.done(&create).json()["key"].as_str().unwrap().to_owned();
    let gateway = home.serve(&sandbox, &[]);
    charges(&sandbox, &["ch_1"]).await;
    let ask = json!({ "target": "ch_1" });
    assert_eq!(gateway.ask(&key, &ask).await.line(), "200 refunded");
    let text = home.done(&["policy", "export"]).out;
    assert!(text.contains("[agents.new-bot]\nowner = \"maria\""), "{text}");
}

#[tokio::test]
async fn approvals() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(&policy_with_person());
    let gateway = home.serve(&sandbox, &[]);
    charges(&sandbox, &["ch_1", "ch_2"]).await;
    let user = home.done(&["user", "create", "vera", "--role", "viewer", "--json"]).json();
    assert_eq!(user, json!({ "id": "vera", "name": "vera", "setupLink": null }));
    assert_eq!(home.done(&["approval", "list", "--json"]).json(), json!([]));

    let pending = gateway.ask(&key, &json!({ "target": "ch_1" })).await;
    assert_eq!(pending.line(), "202 pending_approval");
    let approval = pending.text("/approvalId");
    let listed = home.done(&["approval", "list", "--json"]).json();
    assert_eq!(members(&listed[0]), ["id", "intentId", "state", "amount", "agent", "expiresAt"]);
    assert_eq!((&listed[0]["id"], &listed[0]["state"]), (&json!(approval), &json!("pending")));

    #[rustfmt::skip]
    let table: [(&str, &[&str], i32, &str); 8] = [
        // name               arguments                                             code what is said
        ("nobody",            &["approve", approval],                               2,   "--as"),
        ("a stranger",        &["approve", approval, "--as", "nobody"],             1,   "no user nobody"),
        ("no reviewer",       &["approve", approval, "--as", "vera"],               1,   "may not decide"),
        ("no name",           &["approve", approval, "--as", "Vera!"],              2,   "not a user's name"),
        ("no approval",       &["approve", "apr_unknown", "--as", "maria"],         1,   "no approval"),
        ("no approval's id",  &["approve", "int_1", "--as", "maria"],               2,   "apr_"),
        ("no without why",    &["deny", approval, "--as", "maria"],                 2,   "--note"),
        ("no without words",  &["deny", approval, "--as", "maria", "--note", " "],  2,   "say why"),
    ];
    for (name, arguments, code, said) in table {
        let ran = home.run(&[&["approval"], arguments].concat());
        assert_eq!(ran.code, code, "{name}: {}", ran.err);
        assert!(ran.err.contains(said), "{name}: {}", ran.err);
    }

    // Nobody acts for a person on a store that others can read.
    let approve = ["approval", "approve", approval, "--as", "maria", "--note", "photo seen"];
    std::fs::set_permissions(home.database(), Permissions::from_mode(0o644)).unwrap();
    let open = home.run(&approve);
    assert_eq!(open.code, 1, "{}", open.err);
    assert!(open.err.contains("chmod 600"), "{}", open.err);
    std::fs::set_permissions(home.database(), Permissions::from_mode(0o600)).unwrap();
    assert_eq!(sandbox.attempts().await.len(), 0, "nobody has said yes yet");

    home.done(&approve);
    assert_eq!(home.run(&approve).code, 1, "there is nothing left to decide");
    // The gateway makes the refund by itself.
    let path = format!("/v1/intents/{}?wait=20", pending.text("/intentId"));
    for _ in 0..3 {
        let now = Call::get(&path).key(&key).send(gateway.at).await;
        if now.text("/state") == "settled" {
            break;
        }
    }
    assert_eq!(gateway.ask(&key, &json!({ "target": "ch_1" })).await.line(), "200 refunded");
    assert_eq!(sandbox.refunds().await.len(), 1);

    let second = gateway.ask(&key, &json!({ "target": "ch_2" })).await;
    let deny = ["approval", "deny", second.text("/approvalId"), "--as", "maria", "--note", "no"];
    home.done(&deny);
    let told = gateway.ask(&key, &json!({ "target": "ch_2" })).await;
    assert_eq!(told.line(), "200 denied");
    assert_eq!(told.text("/reasons/0/code"), "approval_denied");
    assert!(told.text("/reasons/0/message").contains("no"), "the agent is told why");
    assert_eq!(sandbox.refunds().await.len(), 1);
}

#[tokio::test]
async fn intents() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(&policy_with_person());
    let gateway = home.serve(&sandbox, &[]);
    charges(&sandbox, &["ch_1", "ch_2"]).await;
    let made = gateway.ask(&key, &json!({ "target": "ch_1", "amountMinor": 400 })).await;
    let held = gateway.ask(&key, &json!({ "target": "ch_2" })).await;
    assert_eq!((made.line(), held.line()), ("200 refunded".into(), "202 pending_approval".into()));

    // The same objects as over HTTP.
    let id = made.text("/intentId");
    let shown = home.done(&["intent", "show", id, "--json"]).json();
    let read = Call::get(&format!("/v1/intents/{id}")).key(&key).send(gateway.at).await;
    assert_eq!(shown, read.json);
    let listed = home.done(&["intent", "list", "--json"]).json();
    let page = Call::get("/v1/intents").key(&key).send(gateway.at).await;
    assert_eq!(listed, page.json["data"]);

    let held = held.text("/intentId");
    #[rustfmt::skip]
    let table: [(&[&str], i32, usize); 8] = [
        // arguments                                    code intents
        (&["list", "--state", "settled"],               0,   1),
        (&["list", "--state", "pending_approval"],      0,   1),
        (&["list", "--agent", "support-bot"],           0,   2),
        (&["list", "--limit", "1"],                     0,   1),
        (&["list", "--limit", "0"],                     2,   0),
        (&["list", "--state", "done"],                  2,   0),
        (&["list", "--agent", "nobody"],                1,   0),
        (&["show", "ch_1"],                             2,   0),
    ];
    for (arguments, code, intents) in table {
        let ran = home.run(&[&["intent"], arguments, &["--json"]].concat());
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
        if code == 0 {
            assert_eq!(ran.json().as_array().unwrap().len(), intents, "{arguments:?}");
        }
    }
    assert_eq!(home.run(&["intent", "show", "int_unknown"]).code, 1);
    assert_eq!(home.done(&["intent", "cancel", held, "--json"]).json()["state"], "canceled");
    assert_eq!(home.run(&["intent", "cancel", held]).code, 1, "it is withdrawn already");
    assert_eq!(home.run(&["intent", "cancel", id]).code, 1, "it is made already");
}

/// Stops act on the very next request, and lifting them too.
#[tokio::test]
async fn stops_act_on_the_next_request() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(POLICY);
    let gateway = home.serve(&sandbox, &[]);
    charges(&sandbox, &["ch_1"]).await;
    #[rustfmt::skip]
    let table: [(&[&str], &str, &str); 6] = [
        // command                            told           reasons
        (&["stop", "support-bot"],            "200 denied",   "agent_stopped"),
        (&["resume", "support-bot"],          "200 refunded", ""),
        (&["stop", "--everybody"],            "200 denied",   "organization_stopped"),
        (&["stop", "support-bot"],            "200 denied",   "organization_stopped,agent_stopped"),
        (&["resume", "--everybody"],          "200 denied",   "agent_stopped"),
        (&["resume", "support-bot"],          "200 refunded", ""),
    ];
    for (round, (command, told, reasons)) in (0..).zip(table) {
        home.done(command);
        let key_of_round = format!("k-{round}");
        let ask = json!({ "target": "ch_1", "amountMinor": 100, "idempotencyKey": key_of_round });
        let answer = gateway.ask(&key, &ask).await;
        assert_eq!(answer.line(), told, "{command:?}");
        assert_eq!(answer.reasons(), reasons, "{command:?}");
        let budget = Call::get("/v1/budget").key(&key).send(gateway.at).await;
        let widest = reasons.split(',').next().unwrap_or_default();
        assert_eq!(budget.text("/stopped"), widest, "{command:?}");
    }
    assert_eq!(sandbox.refunds().await.len(), 2);
    assert_eq!(home.run(&["stop"]).code, 2, "whom?");
    assert_eq!(home.run(&["stop", "nobody"]).code, 1, "there is no such agent");
}

#[test]
fn codes_of_bad_usage_and_configuration() {
    let home = Home::new();
    let stripe = ("STRIPE_API_BASE", "http://127.0.0.1:9");
    #[rustfmt::skip]
    let table: [(&str, &[&str], &[(&str, &str)], i32, &[&str]); 9] = [
        // name               arguments                  variables                                  code what is said
        ("no command",        &[],                       &[],                                       2,   &["serve"]),
        ("no such command",   &["refund"],               &[],                                       2,   &["refund"]),
        ("help",              &["--help"],               &[],                                       0,   &[]),
        ("version",           &["--version"],            &[],                                       0,   &[]),
        ("a live key",        &["check"],                &[("STRIPE_SECRET_KEY", "rk_live_canary")], 2,  &["STRIPE_SECRET_KEY", "GATEWAY_ALLOW_LIVE=1"]),
        ("a live key, elsewhere", &["check"],            &[("STRIPE_SECRET_KEY", "rk_live_canary"), ("GATEWAY_ALLOW_LIVE", "1"), stripe], 2, &["STRIPE_API_BASE"]),
        ("all faults at once", &["serve"],               &[("STRIPE_SECRET_KEY", "rk_live_canary"), ("GATEWAY_PORT", "many"), ("GATEWAY_STRIPE_TIMEOUT", "1h"), ("FIAT_USD_RATES", "KWD")],
                                                                                                    2,   &["GATEWAY_ALLOW_LIVE=1", "GATEWAY_PORT", "GATEWAY_STRIPE_TIMEOUT", "FIAT_USD_RATES"]),
        ("a publishable key", &["check"],                &[("STRIPE_SECRET_KEY", "pk_test_canary")], 2,  &["publishable"]),
        ("an authority that is elsewhere", &["stop", "--everybody"], &[("BURNBOUND_API", "https://a.example")], 2, &["BURNBOUND_API"]),
    ];
    for (name, arguments, variables, code, said) in table {
        let more = [variables, &[("GATEWAY_EPHEMERAL", "1")]].concat();
        let ran = home.run_with(arguments, &more);
        assert_eq!(ran.code, code, "{name}: {}{}", ran.out, ran.err);
        for part in said {
            assert!(ran.err.contains(part), "{name}: {part}: {}", ran.err);
        }
        assert!(!format!("{ran:?}").contains("canary"), "{name}: {ran:?}");
    }
}

#[tokio::test]
async fn checks() {
    let sandbox = Server::sandbox();
    let (home, _) = Home::with_agent(POLICY);
    let stripe = format!("http://{}", sandbox.at);
    let feed = format!("{stripe}/_sandbox/rates/eurofxref-daily.xml");
    let base = [
        ("GATEWAY_EPHEMERAL", "1"),
        ("STRIPE_API_BASE", stripe.as_str()),
        ("GATEWAY_FX_URL", feed.as_str()),
    ];
    // A key's file ends in a newline, as editors leave it.
    std::fs::write(home.path("key"), format!("{KEY}\n")).unwrap();
    std::fs::set_permissions(home.path("key"), Permissions::from_mode(0o600)).unwrap();
    let file = home.path("key").to_str().unwrap().to_owned();
    let with_key = [&base[..], &[("STRIPE_SECRET_KEY_FILE", file.as_str())]].concat();

    let offline = home.run_with(&["check", "--json"], &with_key);
    assert_eq!(offline.code, 0, "{offline:?}");
    let online = home.run_with(&["check", "--online", "--json"], &with_key);
    assert_eq!(online.code, 0, "{online:?}");
    let level = |found: &Value, what: &str| {
        let mut rows = found.as_array().unwrap().iter();
        let row = rows.find(|row| row["what"] == what);
        row.map(|row| row["level"].as_str().unwrap().to_owned()).unwrap_or_default()
    };
    for what in ["store", "authority", "stripe_key", "rates", "Stripe, Charges", "Stripe, Refunds"]
    {
        assert_eq!(level(&online.json(), what), "ok", "{what}: {}", online.out);
    }
    assert!(online.out.contains("9876") && !online.out.contains(KEY), "{}", online.out);

    // What the key may not do is a warning, which names what does not work.
    let tools = [
        ("Balance", "balance", "finance_balance"),
        ("PaymentIntents", "payment_intents", "finance_payments"),
        ("Customers", "customers", "customers_search"),
        ("Disputes", "disputes", "finance_disputes"),
    ];
    for (resource, missing, tool) in tools {
        let held = tools.iter().filter(|(_, name, _)| *name != missing);
        let mut may: serde_json::Map<_, _> =
            held.map(|(_, name, _)| ((*name).to_owned(), json!("read"))).collect();
        may.extend([("charges".to_owned(), json!("read")), ("refunds".to_owned(), json!("write"))]);
        sandbox.control("/_sandbox/keys", &json!({ "key": KEY, "permissions": may })).await;
        let limited = home.run_with(&["check", "--online", "--json"], &with_key);
        assert_eq!(limited.code, 0, "{limited:?}");
        let found = limited.json();
        let mut rows = found.as_array().unwrap().iter().filter(|row| row["level"] == "warning");
        let row = rows.find(|row| row["what"] == format!("Stripe, {resource}")).unwrap();
        assert!(row["detail"].as_str().unwrap().contains(tool), "{row}");
        assert!(row["fix"].as_str().unwrap().contains(&format!("`{resource}: Read`")), "{row}");
        assert!(rows.all(|row| row["what"] == "configuration"), "{found}");
    }
    let may = json!({ "charges": "read", "refunds": "write", "balance": "read" });
    sandbox.control("/_sandbox/keys", &json!({ "key": KEY, "permissions": may })).await;
    let rule = "[[rules]]\nid = 'newcomers'\ncontrol = 'block'\ncustomer_younger_than_days = 30\n";
    let ruled = home.path("ruled.toml");
    std::fs::write(&ruled, format!("{POLICY}\n{rule}")).unwrap();
    home.done(&["policy", "apply", ruled.to_str().unwrap()]);
    let limited = home.run_with(&["check", "--online", "--json"], &with_key);
    assert_eq!(limited.code, 0, "{limited:?}");
    assert_eq!(level(&limited.json(), "Stripe, Customers"), "warning");
    assert!(limited.out.contains("rules.newcomers: reads customerAgeDays"), "{}", limited.out);
    assert_eq!(level(&limited.json(), "Stripe, Charges"), "ok");

    let without = home.run_with(&["check", "--online", "--json"], &base);
    assert_eq!(without.code, 3, "{without:?}");
    assert_eq!(level(&without.json(), "stripe_key"), "fault");
}

/// Says that an intent was settled that nobody knows.
struct Forger;

impl Judge for Forger {
    fn judge(&self, at: Timestamp, _: &Snapshot) -> Vec<Write> {
        vec![Write::Audit(AuditEntry {
            at,
            actor: "nobody".to_owned(),
            action: "intent.settled".to_owned(),
            subject: "int_0123456789".to_owned(),
            details: "{}".to_owned(),
            salt: [0; 48],
        })]
    }
}

#[tokio::test]
async fn the_record_is_checked() {
    let sandbox = Server::sandbox();
    let (home, _) = Home::with_agent(POLICY);
    let stripe = format!("http://{}", sandbox.at);
    let base = [("GATEWAY_EPHEMERAL", "1"), ("STRIPE_API_BASE", stripe.as_str())];
    let with_key = [&base[..], &[("STRIPE_SECRET_KEY", KEY)]].concat();
    let check =
        |variables: &[(&str, &str)]| home.run_with(&["check", "--invariants", "--json"], variables);
    let said = |ran: &Ran, level: &str| {
        let found = ran.json();
        let rows = found.as_array().unwrap().iter().filter(|row| row["level"] == level);
        rows.cloned().collect::<Vec<Value>>()
    };
    let sound = check(&with_key);
    assert_eq!(sound.code, 0, "{sound:?}");
    assert!(sound.out.contains("the record holds together"), "{}", sound.out);
    let offline = check(&base);
    assert_eq!(offline.code, 0, "{offline:?}");
    assert!(offline.out.contains("Stripe was not looked at"), "{}", offline.out);

    let store = SqliteStore::open(&home.database(), Arc::new(SystemClock::start())).unwrap();
    store.transact(Reads::default(), Arc::new(Forger)).await.unwrap();
    drop(store);
    let broken = check(&with_key);
    assert_eq!(broken.code, 3, "{broken:?}");
    let faults = said(&broken, "fault");
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert_eq!(faults[0]["what"], "invariant I9");
    assert_eq!(faults[0]["intent"], "int_0123456789");
    assert!(!faults[0]["fix"].as_str().unwrap().is_empty());
}

/// Without a Stripe key it serves, says what is missing, and refunds nothing.
#[tokio::test]
async fn without_a_stripe_key() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(POLICY);
    let gateway = home.serve_without_key(&sandbox, &[]);
    let ready = Call::get("/readyz").send(gateway.at).await;
    assert_eq!(ready.status, 503);
    assert_eq!(ready.text("/checks/stripe_key/status"), "failing", "{}", ready.json);
    assert_eq!(Call::get("/healthz").send(gateway.at).await.status, 200);
    let answer = gateway.ask(&key, &json!({ "target": "ch_1" })).await;
    assert_eq!(answer.line(), "503 stripe_key_missing");
    assert_ne!(answer.header("retry-after"), "");
    assert_eq!(Call::get("/v1/budget").key(&key).send(gateway.at).await.status, 200);
}

/// F29: a key that does not see what was refunded last is of another account.
#[tokio::test]
async fn a_key_of_another_account_makes_not_ready() {
    let (ours, another) = (Server::sandbox(), Server::sandbox());
    let (home, key) = Home::with_agent(POLICY);
    let charge = json!({ "id": "ch_ours", "amount": 500, "currency": "usd" });
    ours.control("/_sandbox/charges", &charge).await;
    let gateway = home.serve_embedded(&ours, &[]);
    assert_eq!(gateway.ask(&key, &json!({ "target": "ch_ours" })).await.line(), "200 refunded");
    drop(gateway);
    for (stripe, status, expected) in [(&another, 503, "failing"), (&ours, 200, "ok")] {
        let gateway = home.serve_embedded(stripe, &[]);
        // It looks while it serves already.
        stripe.received("GET", "/v1/charges/ch_ours").await;
        let ready = gateway.ready(status).await;
        assert_eq!(ready["checks"]["stripe_key"]["status"], expected, "{ready}");
        if status == 503 {
            let detail = ready["checks"]["stripe_key"]["detail"].as_str().unwrap();
            assert!(detail.contains("does not see ch_ours"), "{detail}");
        }
    }
}

#[test]
fn the_demo_plays_its_tour() {
    let ran = Home::new().run(&["demo", "--once", "--json"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let steps: Vec<Value> =
        ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<(&str, bool)> = steps
        .iter()
        .map(|step| (step["status"].as_str().unwrap(), step["replayed"] == true))
        .collect();
    assert_eq!(
        told,
        [
            ("refunded", false),
            ("refunded", true),
            ("refunded", false),
            ("denied", false),
            ("pending_approval", false),
            ("refunded", true),
            ("refunded", false),
            ("denied", false),
        ]
    );
    assert!(steps.iter().all(|step| step["ok"] == true), "{}", ran.out);
}
