//! Stripe's own approvals: refunds of an agent-tagged key are held there, followed to their end,
//! and never sent again; and whose approval is asked for then.

use std::time::Duration;

use gate_core::{Approver, Decision, State};
use serde_json::{Value, json};

use crate::client::{Answer, Call};
use crate::process::{Home, KEY, POLICY, Server};
use crate::world::{AGENT, HOUR, STRIPE_KEY, Setup, World};

const HOOK: &str = "/webhooks/stripe";
const SECRET: &str = "whsec_ofTheHolds";
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Longer than what Stripe holds is left alone at first.
const A_LOOK: Duration = Duration::from_secs(61);
/// How long a condition is waited for that must come.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// Has Stripe hold the refunds of the gateway's key.
fn tag(world: &World) {
    world.control("/_sandbox/keys", &json!({ "key": STRIPE_KEY, "agentTagged": true }));
}

/// A world whose key is tagged, with a charge of 50.00 USD.
async fn tagged(setup: Setup) -> World {
    let world = setup.start().await;
    tag(&world);
    world.charge(&json!({ "id": "ch_1", "amount": 5000 }));
    world
}

/// Asks for 30.00 USD of it.
fn body(key: &str) -> Value {
    json!({
        "target": "ch_1", "amountMinor": 3000, "idempotencyKey": key,
        "justification": "ticket 7: parcel lost",
    })
}

/// The approval requests at Stripe, newest first.
fn requests(world: &World) -> Vec<Value> {
    let reply = world.sandbox.handle(&gate_sandbox::Request {
        method: "GET".to_owned(),
        path: "/v2/core/approval_requests".to_owned(),
        headers: vec![
            ("Authorization".to_owned(), "Bearer sk_test_aPerson".to_owned()),
            ("Stripe-Version".to_owned(), "2026-09-30.preview".to_owned()),
        ],
        ..gate_sandbox::Request::default()
    });
    let page: Value = serde_json::from_slice(&reply.body).unwrap();
    page["data"].as_array().unwrap().clone()
}

/// Somebody decides the newest request at Stripe.
fn decide(world: &World, decision: &Value) {
    let id = requests(world)[0]["id"].as_str().unwrap().to_owned();
    world.control(&format!("/_sandbox/approval_requests/{id}"), decision);
}

/// Where an intent stands, as its agent reads it.
async fn told(world: &World, of: &Answer) -> Answer {
    world.get(&format!("/v1/intents/{}", of.text("/intentId"))).await
}

/// Waits until it is looked at again, and has that done.
async fn look(world: &World) {
    world.clock.advance(A_LOOK);
    world.gateway.round().await.unwrap();
}

fn status(status: &str) -> Value {
    json!({ "status": status })
}

#[tokio::test]
async fn stripes_decision_is_followed_to_its_end() {
    let no = json!({ "status": "rejected", "reason": "ask finance first" });
    let executed = status("requires_execution");
    let approved = status("approved");
    #[rustfmt::skip]
    let table: [(&str, &[&Value], &str, &str, &str, usize); 7] = [
        // what happens at Stripe                               told            code                 spent        refunds
        ("nothing",        &[],                                 "200 pending_approval", "",           "30.00",     0),
        ("approved",       &[&approved],                        "200 refunded", "",                   "30.00",     1),
        ("in two steps",   &[&executed, &approved],             "200 refunded", "",                   "30.00",     1),
        ("rejected",       &[&no],                              "200 failed",   "approval_rejected",  "0.00",      0),
        ("withdrawn",      &[&status("canceled")],              "200 failed",   "approval_canceled",  "0.00",      0),
        ("out of time",    &[&status("expired")],               "200 failed",   "approval_expired",   "0.00",      0),
        ("cannot be made", &[&executed, &status("failed")],     "200 failed",   "approval_failed",    "0.00",      0),
    ];
    for (name, steps, line, code, spent, refunds) in table {
        let world = tagged(Setup::default()).await;
        let held = world.ask(&body("k")).await;
        assert_eq!(
            (held.line(), held.text("/state")),
            ("202 pending_approval".into(), "awaiting_stripe")
        );
        assert_eq!(held.text("/approver"), "stripe", "{name}");
        let request = requests(&world)[0].clone();
        assert_eq!(held.text("/dashboardUrl"), request["dashboard_url"], "{name}");
        assert_eq!(request["reason"], "ticket 7: parcel lost", "{name}: the agent is heard");
        let approval = world.get(&format!("/v1/approvals/{}", held.text("/approvalId"))).await;
        assert_eq!(approval.text("/dashboardUrl"), request["dashboard_url"], "{name}");
        assert_eq!(world.spent().await, "30.00", "{name}: it counts");
        for step in steps {
            look(&world).await;
            assert_eq!(told(&world, &held).await.text("/state"), "awaiting_stripe", "{name}");
            decide(&world, step);
        }
        look(&world).await;
        let now = told(&world, &held).await;
        assert_eq!((now.line().as_str(), now.text("/code")), (line, code), "{name}");
        assert_eq!(world.spent().await, spent, "{name}");
        if name == "rejected" {
            assert!(now.text("/message").ends_with("ask finance first"), "{}", now.json);
        }
        // Asked again it stays what it is, and nothing is ever sent a second time.
        let again = world.ask(&body("k")).await;
        assert_eq!(again.text("/state"), now.text("/state"), "{name}");
        world.clock.advance(30 * DAY);
        look(&world).await;
        world.check(name, 1, refunds);
    }
}

/// After fourteen days Stripe lets it expire by itself; what Stripe does not tell the end of, a
/// person is called for, and what comes of it later is taken all the same.
#[tokio::test]
async fn what_nobody_decides_ends_by_stripes_word_or_a_persons() {
    let world = tagged(Setup::default()).await;
    let held = world.ask(&body("k")).await;
    world.clock.advance(14 * DAY - HOUR);
    look(&world).await;
    assert_eq!(told(&world, &held).await.text("/state"), "awaiting_stripe");
    world.clock.advance(HOUR);
    look(&world).await;
    assert_eq!(told(&world, &held).await.text("/code"), "approval_expired");
    world.check("expired", 1, 0);

    // A key that may not read approvals leaves only the listing.
    let world = tagged(Setup::default()).await;
    let may = json!({ "charges": "read", "customers": "read", "refunds": "write" });
    let key = json!({ "key": STRIPE_KEY, "permissions": may, "agentTagged": true });
    world.control("/_sandbox/keys", &key);
    let held = world.ask(&body("k")).await;
    assert_eq!(held.text("/approver"), "stripe");
    decide(&world, &status("rejected"));
    for (days, needs_person) in [(14, false), (1, true), (60, true)] {
        world.clock.advance(days * DAY);
        look(&world).await;
        let now = told(&world, &held).await;
        assert_eq!(now.text("/state"), "awaiting_stripe", "{days}");
        assert_eq!(now.json["needsPerson"] == true, needs_person, "{days}");
    }
    world.check("unreadable", 1, 0);
}

/// Found by the metadata of a listing although Stripe's approval cannot be read.
#[tokio::test]
async fn a_refund_is_found_without_the_request() {
    let world = tagged(Setup::default()).await;
    let may = json!({ "charges": "read", "customers": "read", "refunds": "write" });
    let key = json!({ "key": STRIPE_KEY, "permissions": may, "agentTagged": true });
    world.control("/_sandbox/keys", &key);
    let held = world.ask(&body("k")).await;
    decide(&world, &status("approved"));
    look(&world).await;
    assert_eq!(told(&world, &held).await.line(), "200 refunded");
    world.check("listed", 1, 1);
}

/// The seven events are taken, and one is enough: nobody waits for the next look.
#[tokio::test]
async fn events_have_it_looked_at_at_once() {
    for (decision, state) in [
        ("approved", State::Settled),
        ("rejected", State::Failed),
        ("canceled", State::Failed),
        ("expired", State::Failed),
        ("failed", State::Failed),
    ] {
        let setup = Setup { webhook_secrets: Some(SECRET), ..Setup::default() };
        let world = tagged(setup).await;
        let held = world.ask(&body("k")).await;
        // From here on, so that no other event than the decision's is sent.
        let url = format!("http://{}{HOOK}", world.at);
        world.control("/_sandbox/webhook", &json!({ "url": url, "secret": SECRET }));
        decide(&world, &status(decision));
        world.until(&held, |intent| intent.state == state).await;
        world.check(decision, 1, usize::from(state == State::Settled));
    }
}

/// Whose approval is asked for: by the policy, by what is known of the key, and by the amount. Ours
/// comes first where both are asked; what denies denies, whoever is asked.
#[tokio::test]
async fn whose_approval_is_asked_for() {
    let small = 500;
    let large = 3000;
    #[rustfmt::skip]
    let table = [
        // when_stripe_asks, told to be tagged, cents, the approver (or denial) at first, and after our yes; reasons at Stripe
        ("both",   true,  small, "stripe",     "",       "stripe_approval"),
        ("both",   true,  large, "authority",  "stripe", "stripe_approval,approval_threshold"),
        ("both",   false, large, "authority",  "stripe", "stripe_approval,approval_threshold"),
        ("stripe", true,  small, "stripe",     "",       "stripe_approval"),
        ("stripe", true,  large, "stripe",     "",       "stripe_approval,approval_threshold"),
        // Until the first is held nobody knows.
        ("stripe", false, large, "authority",  "stripe", "stripe_approval,approval_threshold"),
        ("stripe", true,  4900,  "denied",     "",       ""),
        ("both",   true,  4900,  "denied",     "",       ""),
    ];
    for (when, agent_tagged, minor, first, then, reasons) in table {
        let name = format!("{when} {agent_tagged} {minor}");
        let lines = "daily_cap = \"48.00\"\napproval_threshold = \"20.00\"";
        let policy = policy(when, lines);
        let world = tagged(Setup { policy, agent_tagged, ..Setup::default() }).await;
        let ask = json!({ "target": "ch_1", "amountMinor": minor, "idempotencyKey": "k" });
        let mut now = world.ask(&ask).await;
        if first == "denied" {
            assert_eq!(now.line(), "200 denied", "{name}");
            assert!(now.reasons().starts_with("daily_cap"), "{name}: {}", now.reasons());
            world.check(&name, 0, 0);
            continue;
        }
        assert_eq!(now.text("/approver"), first, "{name}");
        if !then.is_empty() {
            world.check(&name, 0, 0);
            world.approve(&now).await;
            world.gateway.round().await.unwrap();
            now = told(&world, &now).await;
            assert_eq!(now.text("/approver"), then, "{name}");
        }
        assert_eq!(now.reasons(), reasons, "{name}");
        decide(&world, &status("approved"));
        look(&world).await;
        assert_eq!(told(&world, &now).await.line(), "200 refunded", "{name}");
        world.check(&name, 1, 1);
    }
}

/// A policy with its words on whose approval is asked for.
fn policy(when: &str, lines: &str) -> String {
    format!(
        "[organization]\nwhen_stripe_asks = \"{when}\"\n\n[agents.{AGENT}]\nmethods = \
         [\"stripe_refund\"]\nallowed_hosts = [\"stripe-refund.action\"]\n\
         tools = [\"finance_refund\"]\n{lines}\n"
    )
}

/// The first refund that is held tells of the key: then the policy's word holds, also for the tool of
/// staff, and a dry run says so.
#[tokio::test]
async fn the_first_hold_is_remembered() {
    let lines = "daily_cap = \"100.00\"\napproval_threshold = \"20.00\"";
    let setup = Setup { policy: policy("stripe", lines), ..Setup::default() };
    let world = tagged(setup).await;
    world.charge(&json!({ "id": "ch_2", "amount": 5000, "payment_intent": "pi_2" }));
    let dry = json!({ "target": "ch_2", "amountMinor": 3000, "dryRun": true });
    assert_eq!(world.ask(&dry).await.text("/decision"), "pending_approval");
    let small = json!({ "target": "ch_1", "amountMinor": 500 });
    assert_eq!(world.ask(&small).await.text("/approver"), "stripe");
    let dry = world.ask(&dry).await;
    assert_eq!((dry.text("/decision"), dry.reasons()), ("allow", "approval_threshold".to_owned()));
    let large = json!({ "target": "ch_2", "amountMinor": 3000 });
    assert_eq!(world.ask(&large).await.text("/approver"), "stripe");
    let staff = json!({ "payment_intent": "pi_2", "amount": 10 });
    let staff = Call::post("/v1/tools/finance_refund", &staff).key(&world.key).send(world.at).await;
    assert_eq!(staff.text("/approver"), "stripe", "{}", staff.json);
    assert_eq!(staff.reasons(), "stripe_approval,connector_write");
    world.check("remembered", 3, 0);
}

/// What was decided is decided again with the same key's facts: the two words of the policy differ, and
/// each agrees with itself.
#[tokio::test]
async fn a_replay_knows_of_the_key() {
    let lines = "daily_cap = \"100.00\"\napproval_threshold = \"20.00\"";
    for decided in ["both", "stripe"] {
        let policy_of = |when| policy(when, lines);
        let setup = Setup { policy: policy_of(decided), agent_tagged: true, ..Setup::default() };
        let world = tagged(setup).await;
        let mut now = world.ask(&body("k")).await;
        if decided == "both" {
            world.approve(&now).await;
            world.gateway.round().await.unwrap();
            now = told(&world, &now).await;
        }
        assert_eq!(now.text("/approver"), "stripe");
        for again in ["both", "stripe"] {
            let replayed = world.admin().replay(&policy_of(again), DAY).await.unwrap();
            assert_eq!((replayed.decided, replayed.left_out), (1, 0), "{decided} {again}");
            let (asks, allows) = (Decision::RequireApproval, Decision::Allow);
            let expected = match (decided, again) {
                ("both", "stripe") => vec![(asks, allows)],
                ("stripe", "both") => vec![(allows, asks)],
                _ => vec![],
            };
            let changed: Vec<_> = replayed.changed.iter().map(|it| (it.was, it.would)).collect();
            assert_eq!(changed, expected, "{decided} {again}");
        }
    }
}

/// With a key that is known to be tagged, what may have been sent is only looked for: its approval is
/// not known, and what comes of it is found by its metadata. Without a trace a person is called, and
/// the spend stays.
#[tokio::test]
async fn an_unclear_attempt_with_a_tagged_key_is_never_made_again() {
    for (fault, arrives) in [("drop_after", true), ("drop_before", false)] {
        let world = tagged(Setup { agent_tagged: true, ..Setup::default() }).await;
        world.fault(fault, 1);
        let unclear = world.ask(&body("k")).await;
        assert_eq!(unclear.line(), "202 in_progress", "{fault}");
        for _ in 0..3 {
            world.clock.advance(HOUR);
            look(&world).await;
            assert_eq!(told(&world, &unclear).await.text("/state"), "submitted", "{fault}");
        }
        assert_eq!(requests(&world).len(), usize::from(arrives), "{fault}");
        if arrives {
            decide(&world, &status("approved"));
            world.clock.advance(HOUR);
            look(&world).await;
            assert_eq!(told(&world, &unclear).await.line(), "200 refunded", "{fault}");
        } else {
            world.clock.advance(23 * HOUR);
            look(&world).await;
            let now = told(&world, &unclear).await;
            assert_eq!((now.text("/state"), &now.json["needsPerson"]), ("submitted", &json!(true)));
            world.clock.advance(16 * DAY);
            look(&world).await;
            assert_eq!(told(&world, &unclear).await.text("/code"), "not_found_at_stripe");
        }
        assert_eq!(world.wire.sent.lock().unwrap().len(), 1, "{fault}: sent once");
        world.check(fault, 1, usize::from(arrives));
    }
}

/// Of a key that nobody knows to be tagged the same bytes are sent again, and Stripe answers as it
/// did: that is how it becomes known.
#[tokio::test]
async fn a_lost_first_hold_is_told_again_under_its_key() {
    let world = tagged(Setup::default()).await;
    world.fault("drop_after", 1);
    let held = world.ask(&body("k")).await;
    assert_eq!(held.text("/state"), "awaiting_stripe");
    assert_eq!(requests(&world).len(), 1, "one request for approval");
    decide(&world, &status("approved"));
    look(&world).await;
    assert_eq!(told(&world, &held).await.line(), "200 refunded");
    world.check("told again", 2, 1);
}

/// It is held at Stripe by a request that the record names, and cannot be withdrawn here.
#[tokio::test]
async fn a_held_refund_counts_until_its_end_and_is_its_agents_own() {
    let world = tagged(Setup::default()).await;
    let held = world.ask(&body("k")).await;
    let intent = world.intent(&held).await;
    let approval = intent.approval.unwrap();
    assert_eq!(approval.approver, Approver::Stripe);
    assert_eq!(approval.hold_id.unwrap().as_str(), requests(&world)[0]["id"]);
    // It cannot be withdrawn here: Stripe may be making it already.
    let path = format!("/v1/intents/{}/cancel", held.text("/intentId"));
    assert_eq!(Call::post(&path, "").key(&world.key).send(world.at).await.status, 409);
    world.check("held", 1, 0);
}

/// Killed while Stripe holds it, and killed before the answer came: the next process knows, and sends
/// nothing.
#[tokio::test]
async fn a_gateway_that_is_killed_meanwhile_sends_nothing_again() {
    for before_the_answer in [false, true] {
        let sandbox = Server::sandbox();
        let tag = json!({ "key": KEY, "agentTagged": true });
        sandbox.control("/_sandbox/keys", &tag).await;
        sandbox.control("/_sandbox/charges", &json!({ "id": "ch_1" })).await;
        let (home, key) = Home::with_agent(POLICY);
        let variables = [("STRIPE_WEBHOOK_SECRET", SECRET), ("STRIPE_KEY_AGENT_TAGGED", "1")];
        let gateway = home.serve(&sandbox, &variables);
        let ask = json!({ "target": "ch_1", "idempotencyKey": "k" });
        if before_the_answer {
            sandbox.fault("delay", 1, 60_000).await;
            let asked = Call::post(crate::world::REFUND, &ask).key(&key);
            asked.hang_up(gateway.at, sandbox.attempted(1)).await;
        } else {
            let held = gateway.ask(&key, &ask).await;
            assert_eq!(held.text("/state"), "awaiting_stripe");
        }
        assert_eq!(gateway.kill().code, None);
        let gateway = home.serve(&sandbox, &variables);
        let url = format!("http://{}{HOOK}", gateway.at);
        sandbox.control("/_sandbox/webhook", &json!({ "url": url, "secret": SECRET })).await;
        let page = Call::get("/v2/core/approval_requests")
            .key("sk_test_aPerson")
            .with("stripe-version", "2026-09-30.preview");
        let page = page.send(sandbox.at).await;
        let request = page.text("/data/0/id").to_owned();
        let path = format!("/_sandbox/approval_requests/{request}");
        sandbox.control(&path, &status("approved")).await;
        let waiting = async {
            loop {
                let answer = gateway.ask(&key, &ask).await;
                if answer.status == 200 {
                    return answer;
                }
            }
        };
        let made = tokio::time::timeout(WAIT_MAX, waiting).await.expect("it was never found");
        assert_eq!(made.line(), "200 refunded");
        assert_eq!(sandbox.attempts().await.len(), 1, "{before_the_answer}");
        assert_eq!(sandbox.refunds().await.len(), 1, "{before_the_answer}");
    }
}
