//! Every key of the policy changes a decision, and every denial says what was met, what is left
//! and when it resets.

use gate_core::Work;
use gate_server::gateway::Gateway;
use serde_json::{Value, json};

use crate::client::Answer;
use crate::world::{AGENT, Setup, World, policy};

/// An entry with these keys, and an organisation with those.
fn text(organization: &str, entry: &str) -> String {
    format!("[organization]\n{organization}\n\n[agents.{AGENT}]\n{entry}\n")
}

async fn world(policy: String) -> World {
    let world = Setup { policy, ..Setup::default() }.start().await;
    world.charge(&json!({ "id": "ch_1" }));
    world
}

/// What a refund of 10.00 USD comes to under a policy, and the time that it names, to the minute.
async fn told(policy: String, reason: Option<&str>) -> String {
    let world = world(policy).await;
    let mut body = json!({ "target": "ch_1" });
    if let Some(reason) = reason {
        body["reason"] = json!(reason);
    }
    let answer = world.ask(&body).await;
    let time = [answer.text("/expiresAt"), answer.text("/reasons/0/resetsAt")].concat();
    let minute = time.get(..16).unwrap_or_default();
    format!("{} {} {minute}", answer.text("/status"), answer.reasons()).trim().to_owned()
}

#[tokio::test]
async fn every_key_changes_a_decision() {
    let methods = "methods = [\"stripe_refund\"]\n";
    let hosts = "allowed_hosts = [\"stripe-refund.action\"]\n";
    let cap = "daily_cap = \"100.00\"\n";
    let entry = |lines: &str| text("", &format!("{methods}{hosts}{lines}"));
    let zone = |zone: &str| {
        let small = "daily_cap = \"9.99\"\n";
        text(&format!("timezone = \"{zone}\""), &format!("{methods}{hosts}{small}"))
    };
    let timeout = |span: &str| {
        let threshold = "approval_threshold = \"1.00\"";
        let organization = format!("approval_timeout = \"{span}\"");
        text(&organization, &format!("{methods}{hosts}{cap}{threshold}"))
    };
    let fraud = Some("fraudulent");
    let frauds = "methods = [\"stripe_refund_fraudulent\"]\n";
    #[rustfmt::skip]
    let table = [
        // key                  policy                                      reason told
        ("no entry",            "[organization]\n".to_owned(),              None,  "denied method_not_allowed"),
        ("nothing",             text("", ""),                               None,  "denied method_not_allowed,host_not_allowed,daily_cap"),
        ("methods, without",    text("", &format!("{hosts}{cap}")),         None,  "denied method_not_allowed"),
        ("methods, with",       text("", &format!("{methods}{hosts}{cap}")), None, "refunded"),
        ("fraudulent, without", text("", &format!("{methods}{hosts}{cap}")), fraud, "denied method_not_allowed"),
        ("fraudulent, with",    text("", &format!("{frauds}{hosts}{cap}")), fraud, "refunded"),
        ("fraudulent alone",    text("", &format!("{frauds}{hosts}{cap}")), None,  "denied method_not_allowed"),
        ("hosts, without",      text("", &format!("{methods}{cap}")),       None,  "denied host_not_allowed"),
        ("one payment, over",   entry(&format!("{cap}max_per_payment = \"9.99\"")),  None, "denied max_per_payment"),
        ("one payment, at",     entry(&format!("{cap}max_per_payment = \"10.00\"")), None, "refunded"),
        ("day, without",        entry(""),                                  None,  "denied daily_cap"),
        ("day, over",           entry("daily_cap = \"9.99\""),              None,  "denied daily_cap 2026-03-11T00:00"),
        ("day, at",             entry("daily_cap = \"10.00\""),             None,  "refunded"),
        ("threshold, at",       entry(&format!("{cap}approval_threshold = \"10.00\"")), None, "pending_approval approval_threshold 2026-03-11T10:00"),
        ("threshold, below",    entry(&format!("{cap}approval_threshold = \"10.01\"")), None, "refunded"),
        ("timeout of an hour",  timeout("1h"),                              None,  "pending_approval approval_threshold 2026-03-10T11:00"),
        ("timeout of days",     timeout("14d"),                             None,  "pending_approval approval_threshold 2026-03-24T10:00"),
        ("a day in New York",   zone("America/New_York"),                   None,  "denied daily_cap 2026-03-11T04:00"),
        ("a day in Tokyo",      zone("Asia/Tokyo"),                         None,  "denied daily_cap 2026-03-10T15:00"),
    ];
    for (name, policy, reason, expected) in table {
        assert_eq!(told(policy, reason).await, expected, "{name}");
    }
}

/// `on_approval` says who goes on: with `execute` it is work for the gateway, with `agent` it waits.
#[tokio::test]
async fn on_approval_says_who_goes_on() {
    for (value, due) in [("execute", 1), ("agent", 0)] {
        let lines = format!(
            "daily_cap = \"100.00\"\napproval_threshold = \"1.00\"\non_approval = \"{value}\""
        );
        let world = world(policy(&lines)).await;
        let pending = world.ask(&json!({ "target": "ch_1" })).await;
        world.approve(&pending).await;
        let gateway: &Gateway = &world.gateway;
        let claims = gateway.authority.claim(Work::Approved, 10).await.unwrap();
        assert_eq!(claims.len(), due, "{value}");
    }
}

/// The owner of an agent answers for it, and never approves for it.
#[tokio::test]
async fn an_owner_does_not_approve() {
    for (owner, may) in [("maria", false), ("somebody-else", true)] {
        let lines =
            format!("daily_cap = \"100.00\"\napproval_threshold = \"1.00\"\nowner = \"{owner}\"");
        let world = world(policy(&lines)).await;
        let pending = world.ask(&json!({ "target": "ch_1" })).await;
        assert_eq!(world.try_to_approve(&pending).await.is_ok(), may, "{owner}");
    }
}

/// A denial by a limit says which, what was left of it, and when it starts anew.
#[tokio::test]
async fn a_denial_says_what_is_left() {
    let world = world(policy("daily_cap = \"15.00\"\nmax_per_payment = \"8.00\"")).await;
    world.charge(&json!({ "id": "ch_2", "amount": 1200 }));
    let ask = async |minor: i64, key: &str| {
        let body = json!({ "target": "ch_2", "amountMinor": minor, "idempotencyKey": key });
        world.ask(&body).await
    };
    assert_eq!(ask(800, "a").await.line(), "200 refunded");
    let denied: Answer = world.ask(&json!({ "target": "ch_1", "idempotencyKey": "b" })).await;
    let mut reasons: Value = denied.json["reasons"].clone();
    for reason in reasons.as_array_mut().unwrap() {
        let message = reason.as_object_mut().unwrap().remove("message").unwrap();
        assert!(message.as_str().unwrap().contains("ask a policy owner"), "{message}");
    }
    assert_eq!(
        reasons,
        json!([
            { "code": "max_per_payment", "limit": "8.00" },
            {
                "code": "daily_cap", "limit": "15.00", "left": "7.00",
                "resetsAt": "2026-03-11T00:00:00.000Z",
            },
        ])
    );
    assert_eq!(denied.text("/retry"), "later");
    let budget = world.get("/v1/budget").await.json;
    assert_eq!(
        budget,
        json!({
            "stopped": null, "maxPerPayment": "8.00", "approvalThreshold": null,
            "windows": [{
                "code": "daily_cap", "limit": "15.00", "spent": "8.00", "left": "7.00",
                "resetsAt": "2026-03-11T00:00:00.000Z",
            }],
        })
    );
}

/// The same of a count: how many, that none are left, and by when it is over at the latest.
#[tokio::test]
async fn a_denial_by_a_count_says_how_many() {
    let world = world(policy("daily_cap = \"100.00\"\nrefunds_per_hour = 2")).await;
    let ask = async |key: &str| {
        let body = json!({ "target": "ch_1", "amountMinor": 100, "idempotencyKey": key });
        world.ask(&body).await
    };
    for key in ["a", "b"] {
        assert_eq!(ask(key).await.line(), "200 refunded");
    }
    let denied = ask("c").await;
    assert_eq!((denied.line().as_str(), denied.text("/retry")), ("200 denied", "later"));
    let figures = ["code", "limit", "left"].map(|name| denied.text(&format!("/reasons/0/{name}")));
    assert_eq!(figures, ["rate_count", "2", "0"]);
    let resets_at = denied.text("/reasons/0/resetsAt");
    assert!(resets_at.starts_with("2026-03-10T11:00:0"), "{resets_at}");
    let id = denied.text("/intentId");
    assert_eq!(
        world.get(&format!("/v1/intents/{id}")).await.json["reasons"],
        denied.json["reasons"]
    );
}

/// What is pending or denied has spent nothing; what is made has.
#[tokio::test]
async fn only_what_was_sent_is_spent() {
    let world = world(policy("daily_cap = \"100.00\"\napproval_threshold = \"5.00\"")).await;
    let pending = world.ask(&json!({ "target": "ch_1" })).await;
    assert_eq!(pending.line(), "202 pending_approval");
    assert_eq!(world.spent().await, "0.00", "pending");
    world.deny(&pending).await;
    assert_eq!(world.spent().await, "0.00", "denied");
    let part = world.ask(&json!({ "target": "ch_1", "amountMinor": 400 })).await;
    assert_eq!(part.line(), "200 refunded");
    assert_eq!(world.spent().await, "4.00", "made");
}

/// A policy that changed after an approval is asked once more before the refund.
#[tokio::test]
async fn an_approval_that_the_policy_overtook() {
    let lines = |more: &str| {
        policy(&format!(
            "daily_cap = \"100.00\"\napproval_threshold = \"5.00\"\non_approval = \"agent\"\n{more}"
        ))
    };
    let world = world(lines("")).await;
    let body = json!({ "target": "ch_1", "idempotencyKey": "k" });
    let pending = world.ask(&body).await;
    world.approve(&pending).await;
    world.apply(&lines("max_per_payment = \"9.00\"")).await;
    let answer = world.ask(&body).await;
    assert_eq!(answer.line(), "200 denied");
    assert_eq!(answer.reasons(), "approval_stale,max_per_payment");
    world.check("overtaken", 0, 0);
}

/// Spend counts against the day in which it was made, and the next day starts with nothing.
#[tokio::test]
async fn a_new_day_starts_with_nothing() {
    let world = world(policy("daily_cap = \"10.00\"")).await;
    world.charge(&json!({ "id": "ch_2" }));
    assert_eq!(world.ask(&json!({ "target": "ch_1" })).await.line(), "200 refunded");
    let second = json!({ "target": "ch_2", "idempotencyKey": "k" });
    assert_eq!(world.ask(&second).await.line(), "200 denied");
    world.clock.advance(13 * crate::world::HOUR);
    assert_eq!(world.ask(&second).await.line(), "200 denied", "an hour before midnight");
    world.clock.advance(2 * crate::world::HOUR);
    assert_eq!(world.ask(&second).await.line(), "200 refunded", "an hour after");
    world.check("two days", 2, 2);
}
