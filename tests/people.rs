//! What people do at the command line, on the real binary: who may do what, whose yes counts, asking
//! again after a no, and the policy's own history.

use serde_json::{Value, json};

use crate::client::Call;
use crate::process::{Home, POLICY, Server};

/// A policy in which a person decides from 5.00 USD on, and the agent asks again then.
fn policy() -> String {
    format!("{POLICY}approval_threshold = \"5.00\"\non_approval = \"agent\"\n")
}

fn file(home: &Home, name: &str, text: &str) -> String {
    std::fs::write(home.path(name), text).unwrap();
    home.path(name).to_str().unwrap().to_owned()
}

/// Who may do what by their roles, each with `--as`.
#[tokio::test]
async fn roles() {
    let (home, _) = Home::with_agent(&policy());
    for (name, role) in
        [("olga", "owner"), ("paul", "policy-editor"), ("anna", "auditor"), ("vera", "viewer")]
    {
        home.done(&["user", "create", name, "--role", role]);
    }
    let policy = file(&home, "again.toml", &policy());
    let (apply, stop, resume, create, cancel): (&[&str], &[&str], &[&str], &[&str], &[&str]) = (
        &["policy", "apply", &policy],
        &["stop", "--everybody", "--note", "strange refunds"],
        &["resume", "--everybody"],
        &["user", "set-roles", "vera", "--role", "viewer"],
        &["intent", "cancel", "int_none"],
    );
    #[rustfmt::skip]
    let table = [
        // user      role             apply stop resume set-roles
        ("olga",  "owner",            0,    0,   0,     0),
        ("paul",  "policy-editor",    0,    0,   0,     1),
        ("maria", "reviewer",         1,    0,   1,     1),
        ("anna",  "auditor",          1,    1,   1,     1),
        ("vera",  "viewer",           1,    1,   1,     1),
        ("nobody", "no user",         1,    1,   1,     1),
    ];
    for (user, role, applies, stops, resumes, creates) in table {
        for (command, expected) in
            [(apply, applies), (stop, stops), (resume, resumes), (create, creates)]
        {
            let ran = home.run(&[command, &["--as", user]].concat());
            assert_eq!(ran.code, expected, "{role}: {command:?}: {}", ran.err);
        }
        home.done(&["resume", "--everybody"]);
        // Who may stop may withdraw too; here there is nothing to withdraw.
        let said = home.run(&[cancel, &["--as", user]].concat()).err;
        let expected = if stops == 0 { "there is no intent" } else { user };
        assert!(said.contains(expected), "{role}: {said}");
    }
    // Everything is recorded with the user of the operating system and the one acted for.
    let history = home.done(&["policy", "history", "--json"]).json();
    let authors: Vec<&str> =
        history.as_array().unwrap().iter().map(|row| row["author"].as_str().unwrap()).collect();
    assert_eq!(authors.len(), 3, "{history}");
    assert!(authors[1].starts_with("cli:") && authors[1].ends_with(" as user:olga"), "{authors:?}");
    assert!(authors[2].ends_with(" as user:paul"), "{authors:?}");
}

/// Shown, approved, refused to who lost their role, and used up.
#[tokio::test]
async fn an_approval_from_asking_to_refund() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(&policy());
    let gateway = home.serve(&sandbox, &[]);
    sandbox.control("/_sandbox/charges", &json!({ "id": "ch_1", "amount": 2000 })).await;
    let ask = json!({ "target": "ch_1", "justification": "parcel lost" });
    let pending = gateway.ask(&key, &ask).await;
    assert_eq!(pending.line(), "202 pending_approval");
    let id = pending.text("/approvalId");

    let shown = home.done(&["approval", "show", id, "--json"]).json();
    assert_eq!((&shown["state"], &shown["agent"]), (&json!("pending"), &json!("support-bot")));
    assert_eq!(shown["justifications"], json!(["parcel lost"]));
    assert_eq!((&shown["votes"], &shown["needs"][0]["missing"]), (&json!([]), &json!(1)));
    assert_eq!(shown["needs"][0]["could"], json!(["maria"]));
    let words = home.done(&["approval", "show", id]).out;
    for part in ["20.00 USD", "approval_threshold", "\"parcel lost\"", "1 person", "maria"] {
        assert!(words.contains(part), "{part}: {words}");
    }

    home.done(&["approval", "approve", id, "--as", "maria", "--note", "carrier confirmed"]);
    let shown = home.done(&["approval", "show", id, "--json"]).json();
    assert_eq!(shown["votes"][0]["by"], "maria");
    assert_eq!(shown["votes"][0]["note"], "carrier confirmed");
    assert_eq!(shown["needs"][0]["missing"], 0);

    // Whoever lost their role before the approval was used did not approve.
    home.done(&["user", "revoke", "maria"]);
    assert_eq!(home.run(&["approval", "deny", id, "--as", "maria", "--note", "x"]).code, 1);
    let stale = gateway.ask(&key, &ask).await;
    assert_eq!(stale.line(), "200 denied");
    assert_eq!(stale.reasons(), "approval_stale,approval_threshold");

    home.done(&["user", "set-roles", "maria", "--role", "reviewer"]);
    let again = gateway.ask(&key, &ask).await;
    assert_eq!(again.line(), "202 pending_approval", "no person said no: it is decided anew");
    home.done(&["approval", "approve", again.text("/approvalId"), "--as", "maria"]);
    assert_eq!(gateway.ask(&key, &ask).await.line(), "200 refunded");
    assert_eq!(sandbox.refunds().await.len(), 1);
}

/// Whoever decides sees what was refunded before, and what the reason does to the customer.
#[tokio::test]
async fn what_a_reviewer_is_shown() {
    let sandbox = Server::sandbox();
    let may =
        "methods = [\"stripe_refund\", \"stripe_refund_fraudulent\"]\ntools = [\"finance_refund\"]";
    let (home, key) = Home::with_agent(&policy().replace("methods = [\"stripe_refund\"]", may));
    let gateway = home.serve(&sandbox, &[]);
    let before = "Of 20.00 USD charged, 3.00 USD were refunded before.";
    let lists = "fraudulent: Stripe puts the customer's card and e-mail on your block lists.";
    #[rustfmt::skip]
    let table = [
        // tool             reason                         amount       is shown
        ("stripe_refund",  json!("duplicate"),             "6.00 USD",  vec![before, "The reason for Stripe is duplicate."]),
        ("stripe_refund",  json!("fraudulent"),            "6.00 USD",  vec![before, lists]),
        ("finance_refund", json!("fraudulent"),            "17.00 USD", vec![before, lists]),
        ("finance_refund", Value::Null,                    "17.00 USD", vec![before]),
    ];
    for (place, (tool, reason, amount, parts)) in table.into_iter().enumerate() {
        let name = format!("{tool} {reason}");
        let (charge, payment) = (format!("ch_{place}"), format!("pi_{place}"));
        let order = json!({ "id": charge, "payment_intent": payment, "amount": 2000 });
        sandbox.control("/_sandbox/charges", &order).await;
        let small = json!({ "target": charge, "amountMinor": 300 });
        assert_eq!(gateway.ask(&key, &small).await.line(), "200 refunded", "{name}");
        let mut arguments = match tool {
            "finance_refund" => json!({ "payment_intent": payment }),
            _ => json!({ "target": charge, "amountMinor": 600 }),
        };
        if !reason.is_null() {
            arguments["reason"] = reason.clone();
        }
        let pending = Call::post(&format!("/v1/tools/{tool}"), &arguments).key(&key);
        let pending = pending.send(gateway.at).await;
        assert_eq!(pending.line(), "202 pending_approval", "{name}: {pending:?}");
        let id = pending.text("/approvalId");
        let words = home.done(&["approval", "show", id]).out;
        for part in parts.into_iter().chain([amount]) {
            assert!(words.contains(part), "{name}: {part} in {words}");
        }
        assert_eq!(words.contains("block lists"), reason == "fraudulent", "{name}: {words}");
        let shown = home.done(&["approval", "show", id, "--json"]).json();
        let minor = |name: &str| shown[name]["minor"].as_i64();
        assert_eq!((minor("charged"), minor("refundedBefore")), (Some(2000), Some(300)), "{name}");
        assert_eq!(shown["reason"], reason, "{name}");
    }
}

/// A rule takes two people of risk beside the agent's own reviewer, and the gateway goes on by
/// itself; a stop of the team holds what they approved.
#[tokio::test]
async fn three_people_and_a_team() {
    const TEAM: &str = r#"
[teams.support]
methods = ["stripe_refund"]
allowed_hosts = ["stripe-refund.action"]
daily_budget = "100.00"

[agents.support-bot]
team = "support"
owner = "olga"
weekly_cap = "300.00"
approval_threshold = "5.00"
reviewers = ["leads"]

[[rules]]
id = "large"
agents = ["team:support"]
amount_over = "15.00"
control = "require_approval"
reviewers = ["risk"]
approvals_required = 2
"#;
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(TEAM);
    for (name, role) in
        [("olga", "owner"), ("lea", "leads"), ("ray", "risk"), ("rob", "risk"), ("ria", "risk")]
    {
        home.done(&["user", "create", name, "--role", role]);
    }
    let gateway = home.serve(&sandbox, &[]);
    sandbox.control("/_sandbox/charges", &json!({ "id": "ch_1", "amount": 2000 })).await;
    let pending = gateway.ask(&key, &json!({ "target": "ch_1" })).await;
    assert_eq!(pending.reasons(), "approval_threshold,rule");
    let id = pending.text("/approvalId");
    home.done(&["stop", "--team", "support", "--as", "olga", "--note", "looking into it"]);
    #[rustfmt::skip]
    let table = [
        // who    code  what is said
        ("maria", 1,    "cannot approve this"),
        ("olga",  1,    "owns agent support-bot"),
        ("ray",   0,    "1 person with the role leads (lea) for approval_threshold, and 1 person with the role risk (ria, rob) for rule"),
        ("ray",   1,    "has approved this already"),
        ("lea",   0,    "It still takes 1 person with the role risk (ria, rob) for rule."),
        ("ria",   0,    "Approved. A running gateway makes the refund now."),
        ("rob",   1,    "nothing left to decide"),
    ];
    for (who, code, said) in table {
        let ran = home.run(&["approval", "approve", id, "--as", who]);
        assert_eq!(ran.code, code, "{who}: {}", ran.err);
        assert!(ran.err.contains(said), "{who}: {}", ran.err);
    }
    let budget = Call::get("/v1/budget").key(&key).send(gateway.at).await.json;
    assert_eq!(budget["stopped"], "team_stopped");
    let codes: Vec<&Value> =
        budget["windows"].as_array().unwrap().iter().map(|window| &window["code"]).collect();
    assert_eq!(codes, ["weekly_cap", "team_budget"]);
    let path = format!("/v1/intents/{}", pending.text("/intentId"));
    assert_eq!(Call::get(&path).key(&key).send(gateway.at).await.text("/state"), "approved");
    assert_eq!(sandbox.attempts().await.len(), 0, "the stop holds it");

    home.done(&["resume", "--team", "support", "--as", "olga"]);
    for _ in 0..3 {
        let now = Call::get(&format!("{path}?wait=20")).key(&key).send(gateway.at).await;
        if now.text("/state") == "settled" {
            break;
        }
    }
    assert_eq!(gateway.ask(&key, &json!({ "target": "ch_1" })).await.line(), "200 refunded");
    assert_eq!(sandbox.refunds().await.len(), 1);
    assert_eq!(home.run(&["stop", "--team", "sales"]).code, 1, "there is no such team");
    assert_eq!(home.run(&["stop", "--team", "support", "--everybody"]).code, 2);
}

/// A person's no answers for the same refund under every key, until somebody reopens it.
#[tokio::test]
async fn a_denial_is_reopened() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(&policy());
    home.done(&["user", "create", "vera", "--role", "viewer"]);
    let gateway = home.serve(&sandbox, &[]);
    sandbox.control("/_sandbox/charges", &json!({ "id": "ch_1", "amount": 2000 })).await;
    let ask = |key: &str| json!({ "target": "ch_1", "idempotencyKey": key });
    let pending = gateway.ask(&key, &ask("one")).await;
    let id = pending.text("/approvalId");
    let early = home.run(&["approval", "reopen", id, "--as", "maria"]);
    assert_eq!(early.code, 1, "nobody denied it: {}", early.err);
    home.done(&["approval", "deny", id, "--as", "maria", "--note", "no"]);
    for name in ["one", "two"] {
        let told = gateway.ask(&key, &ask(name)).await;
        assert_eq!(
            (told.line(), told.text("/reasons/0/code")),
            ("200 denied".into(), "approval_denied")
        );
    }
    assert_eq!(home.run(&["approval", "reopen", id, "--as", "vera"]).code, 1);
    assert_eq!(home.run(&["approval", "reopen", id]).code, 2, "--as");
    home.done(&["approval", "reopen", id, "--as", "maria", "--note", "photo came"]);
    home.done(&["approval", "reopen", id, "--as", "maria"]);
    let shown = home.done(&["approval", "show", id, "--json"]).json();
    assert_eq!(shown["state"], "denied", "the no stays on record");
    for name in ["one", "two"] {
        let anew = gateway.ask(&key, &ask(name)).await;
        assert_eq!(anew.line(), "202 pending_approval", "{name}");
        assert_ne!(anew.text("/approvalId"), id);
    }
}

/// Versions are kept, and another policy is tried on what was asked.
#[tokio::test]
async fn the_policy_has_a_history() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(POLICY);
    let gateway = home.serve(&sandbox, &[]);
    sandbox.control("/_sandbox/charges", &json!({ "id": "ch_1", "amount": 20_000 })).await;
    // 40 and 40 of 100 a day; 30 more are denied; then 15.
    for (n, (minor, told)) in
        [(4000, "refunded"), (4000, "refunded"), (3000, "denied"), (1500, "refunded")]
            .into_iter()
            .enumerate()
    {
        let ask =
            json!({ "target": "ch_1", "amountMinor": minor, "idempotencyKey": n.to_string() });
        assert_eq!(gateway.ask(&key, &ask).await.line(), format!("200 {told}"), "{n}");
    }
    let replay = |text: &str| -> Value {
        let file = file(&home, "other.toml", text);
        home.done(&["policy", "replay", &file, "--since", "1d", "--json"]).json()
    };
    let with = |lines: &str| POLICY.replace("daily_cap = \"100.00\"\n", lines);
    #[rustfmt::skip]
    let table: [(&str, &str, &[(&str, &str, i64)]); 4] = [
        // policy            lines                                   was, would, millionths of a dollar, one by one
        ("the same",         "daily_cap = \"100.00\"\n",          &[]),
        ("more",             "daily_cap = \"200.00\"\n",          &[("denied", "allow", 30_000_000)]),
        ("less",             "daily_cap = \"60.00\"\n",           &[("allow", "denied", 40_000_000)]),
        ("a person from 40", "daily_cap = \"100.00\"\napproval_threshold = \"40.00\"\n",
            &[("allow", "pending_approval", 40_000_000), ("allow", "pending_approval", 40_000_000)]),
    ];
    for (name, lines, expected) in table {
        let replayed = replay(&with(lines));
        assert_eq!((&replayed["decided"], &replayed["leftOut"]), (&json!(4), &json!(0)), "{name}");
        let rows = replayed["changed"].as_array().unwrap();
        let found: Vec<(&str, &str, i64)> = rows
            .iter()
            .map(|row| {
                let text = |name: &str| row[name].as_str().unwrap();
                (text("was"), text("would"), row["usdMicros"].as_i64().unwrap())
            })
            .collect();
        assert_eq!(found, expected, "{name}: {replayed}");
    }
    let other = file(&home, "other.toml", &with("daily_cap = \"200.00\"\n"));
    let words = home.done(&["policy", "replay", &other]).out;
    assert!(words.contains("1 go from denied to allow ($30.00)"), "{words}");
    assert_eq!(home.run(&["policy", "replay", &other, "--since", "soon"]).code, 2);
    assert_eq!(home.done(&["policy", "show", "--json"]).json()["version"], 1, "nothing changed");

    home.done(&["policy", "apply", &other]);
    let versions = home.done(&["policy", "history", "--json"]).json();
    assert_eq!((&versions[0]["version"], &versions[1]["version"]), (&json!(1), &json!(2)));
    assert_eq!(home.done(&["policy", "export", "--version", "1", "--json"]).json()["text"], POLICY);
    assert_eq!(home.run(&["policy", "export", "--version", "9"]).code, 1);
}
