//! Stripe's own approvals: how they are asked after, what is taken from the answers, and what a held
//! refund tells of the key.

use std::sync::Arc;

use gate_core::{HoldId, HoldStanding, Processor, ReadError, SendError};
use gate_http::{Method, TransportError};
use serde_json::json;

use crate::authority::attempt;
use crate::world::{
    BY, Key, LIVE_KEY, TEST_KEY, Told, account, client, forbidden, problem, raw, says,
};

fn id() -> HoldId {
    HoldId::parse("apreq_1").unwrap()
}

#[tokio::test]
async fn what_is_read_of_an_approval() {
    let request = |status: &str| json!({ "id": "apreq_1", "status": status, "new": [1] });
    let missing = problem(404, json!({ "code": "resource_missing", "message": "No such" }));
    #[rustfmt::skip]
    let table = [
        ("open",        says(200, &request("requires_review")),            "open"),
        ("made",        says(200, &request("succeeded")),                  "made"),
        ("rejected",    says(200, &request("rejected")),                   "over approval_rejected"),
        ("unknown",     says(200, &request("on_the_moon")),                "open"),
        ("no id",       says(200, &json!({ "status": "canceled" })),       "over approval_canceled"),
        ("another's",   says(200, &json!({ "id": "apreq_2", "status": "canceled" })), "Unreadable"),
        ("not JSON",    raw(200, &[], b"<html>"),                          "Unreadable"),
        ("may not",     forbidden(),                                       "Permission { permission: \"Approval requests: Read\" }"),
        ("gone",        missing,                                           "NotFound { livemode: false, account: None }"),
        ("busy",        problem(429, json!({ "code": "rate_limit" })),     "Unavailable { after: None }"),
        ("no answer",   Err(TransportError::TimedOut),                     "Unavailable { after: None }"),
    ];
    for (name, answer, expected) in table {
        let transport = Told::answering(vec![answer]);
        let client = client(transport.clone(), Key::of(Some(TEST_KEY)), None);
        let told = match client.hold(&id(), BY).await.map(|seen| seen.standing) {
            Ok(HoldStanding::Open) => "open".to_owned(),
            Ok(HoldStanding::Made(_)) => "made".to_owned(),
            Ok(HoldStanding::Over(refusal)) => format!("over {}", refusal.code.as_str()),
            Err(error) => format!("{error:?}"),
        };
        assert_eq!(told, expected, "{name}");
        assert_eq!(transport.lines(), ["GET /v2/core/approval_requests/apreq_1"], "{name}");
    }
    let client = client(Told::answering(vec![]), Key::of(None), None);
    assert_eq!(client.hold(&id(), BY).await, Err(ReadError::KeyMissing));
}

/// A preview version, and the account under the name that the second interface has for it.
#[tokio::test]
async fn how_an_approval_is_asked_after() {
    let transport = Told::answering(vec![says(200, &json!({})), says(200, &json!({}))]);
    let client = client(transport.clone(), Key::of(Some(TEST_KEY)), Some(account()));
    client.hold(&id(), BY).await.unwrap();
    client.justify(&id(), "ticket \"7\"\n", BY).await;
    let asked = std::mem::take(&mut *transport.asked.lock().unwrap());
    for (request, method, body) in
        [(&asked[0], Method::Get, ""), (&asked[1], Method::Post, r#"{"reason":"ticket \"7\"\n"}"#)]
    {
        assert_eq!(request.method, method);
        assert_eq!(request.body, body.as_bytes());
        let header = |name: &str| {
            let found = request.headers.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| value.expose().to_owned())
        };
        assert_eq!(header("Stripe-Version").unwrap(), "2026-09-30.preview");
        assert_eq!(header("Stripe-Context").unwrap(), "acct_1");
        assert_eq!(header("Stripe-Account"), None);
        let json = (method == Method::Post).then(|| "application/json".to_owned());
        assert_eq!(header("Content-Type"), json);
    }
}

/// The agent's words go under whichever name the call has; that it fails is nobody's trouble.
#[tokio::test]
async fn the_agents_words_are_told_once() {
    let path = "POST /v2/core/approval_requests/apreq_1";
    let update = "POST /v2/core/approval_requests/apreq_1/update";
    let submit = "POST /v2/core/approval_requests/apreq_1/submit";
    let good = || says(200, &json!({}));
    let unknown = || problem(404, json!({ "message": "Unrecognized request URL" }));
    #[rustfmt::skip]
    let table = [
        (vec![good()],                                     vec![path]),
        (vec![unknown(), good()],                          vec![path, update]),
        (vec![unknown(), unknown(), good()],               vec![path, update, submit]),
        (vec![unknown(), unknown(), unknown()],            vec![path, update, submit]),
        (vec![forbidden()],                                vec![path]),
        (vec![Err(TransportError::TimedOut)],              vec![path]),
    ];
    for (answers, asked) in table {
        let transport = Told::answering(answers);
        let client = client(transport.clone(), Key::of(Some(TEST_KEY)), None);
        client.justify(&id(), "words", BY).await;
        assert_eq!(transport.lines(), asked);
    }
}

/// The first refund that is held tells of the key, and of that key alone. Its mark is not its text.
#[tokio::test]
async fn a_held_refund_tells_of_its_key() {
    let held = problem(400, json!({ "code": "approval_required" }));
    let transport = Told::answering(vec![held]);
    let key = Key::of(Some(TEST_KEY));
    let client = Arc::new(client(transport, key.clone(), Some(account())));
    let before = client.channel().await.unwrap();
    let mark = before.key.clone().unwrap();
    assert!(!before.agent_tagged);
    assert!(!TEST_KEY.contains(&mark.as_str()[4..]) && mark.as_str().len() == 28, "{mark}");
    let Err(SendError::Held(hold)) = attempt(Arc::clone(&client), before.clone()).await else {
        panic!("it is held")
    };
    assert_eq!(hold.key, Some(mark));
    assert!(client.channel().await.unwrap().agent_tagged);
    key.change(LIVE_KEY);
    let other = client.channel().await.unwrap();
    assert!(!other.agent_tagged && other.key != before.key);
}
