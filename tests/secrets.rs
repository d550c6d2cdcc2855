//! No key appears where it does not belong: not in a log line, however much is logged, nor in an
//! answer, nor in the store.

use serde_json::json;

use crate::client::Call;
use crate::crashes::whole_chain;
use crate::process::{Home, KEY, POLICY, Server};
use crate::world::remote;

/// What a stranger tries, and a key of somebody else's that an agent sends by mistake.
const GUESSED: [&str; 2] = ["bb_agent_guessedByAStranger", "sk_live_sentByMistake"];

#[tokio::test]
async fn no_key_is_logged_answered_or_stored() {
    let sandbox = Server::sandbox();
    let (home, key) = Home::with_agent(POLICY);
    let gateway = home.serve(&sandbox, &[("GATEWAY_LOG", "trace")]);
    for (id, amount) in [("ch_1", 1000), ("ch_2", 90_000), ("ch_3", 1000), ("ch_4", 1000)] {
        sandbox.control("/_sandbox/charges", &json!({ "id": id, "amount": amount })).await;
    }
    let mut answers = Vec::new();
    let mut ask = async |target: &str| {
        let body = json!({ "target": target, "idempotencyKey": format!("k-{target}") });
        let answer = gateway.ask(&key, &body).await;
        let line = answer.line();
        answers.push(String::from_utf8(answer.body).unwrap());
        line
    };
    assert_eq!(ask("ch_1").await, "200 refunded");
    assert_eq!(ask("ch_1").await, "200 refunded");
    assert_eq!(ask("ch_2").await, "200 denied");
    assert_eq!(ask("ch_unknown").await, "404 charge_not_found");
    sandbox.fault("drop_after", 1, 0).await;
    assert_eq!(ask("ch_3").await, "200 refunded");
    // Stripe's own text names the key, masked.
    let may = json!({ "charges": "read", "refunds": "read", "customers": "read" });
    sandbox.control("/_sandbox/keys", &json!({ "key": KEY, "permissions": may })).await;
    assert_eq!(ask("ch_4").await, "200 not_executed");
    sandbox.control("/_sandbox/keys", &json!({ "key": KEY, "permissions": {} })).await;
    assert_eq!(ask("ch_4").await, "502 stripe_permission");
    for guessed in GUESSED {
        let answer = Call::get("/v1/budget").key(guessed).send(gateway.at).await;
        assert_eq!(answer.line(), "401 unauthenticated");
        answers.push(String::from_utf8(answer.body).unwrap());
    }
    gateway.terminate();
    let ended = gateway.end();
    assert_eq!(ended.code, Some(0), "{}", ended.words);
    assert!(ended.words.contains("\"TRACE\"") || ended.words.contains("\"DEBUG\""), "trace is on");
    assert!(ended.words.contains("int_"), "ids are logged");

    let masked = format!("rk_test_********{}", &KEY[KEY.len() - 4..]);
    let secrets = [key.as_str(), KEY, GUESSED[0], GUESSED[1], &masked];
    for secret in secrets {
        assert!(!ended.words.contains(secret), "{secret} is in the log");
        assert!(!answers.concat().contains(secret), "{secret} is in an answer");
    }
    for entry in std::fs::read_dir(home.data()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        for secret in secrets {
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} is in {}", path.display());
        }
    }
    let expected = [
        ("intent.submitted", 3),
        ("intent.settled", 2),
        ("intent.denied", 1),
        ("intent.not_executed", 1),
        ("agent.created", 1),
        ("policy.applied", 1),
        ("user.created", 1),
        ("gateway.created", usize::from(remote())),
    ];
    let chain = whole_chain(&home.database(), &expected).await;
    assert_eq!(chain.len(), expected.iter().map(|(_, count)| count).sum::<usize>());
}
