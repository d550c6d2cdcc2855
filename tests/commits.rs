//! What a request costs on the disk: two commits for a refund, one for a denial, none for a read.

use serde_json::json;

use crate::client::Call;
use crate::world::{Setup, policy};

#[tokio::test]
async fn a_refund_is_two_commits() {
    let policy = policy("max_per_payment = \"50.00\"\ndaily_cap = \"100.00\"");
    let world = Setup { policy, sqlite: true, ..Setup::default() }.start().await;
    world.charge(&json!({ "id": "ch_1" }));
    world.charge(&json!({ "id": "ch_2", "amount": 90_000 }));
    let refund = json!({ "target": "ch_1", "amountMinor": 500, "idempotencyKey": "k" });
    let denied = json!({ "target": "ch_2" });
    let dry = json!({ "target": "ch_1", "dryRun": true });
    let over = json!({ "target": "ch_1", "amountMinor": 600, "idempotencyKey": "k2" });
    let reused = json!({ "target": "ch_2", "idempotencyKey": "k" });
    #[rustfmt::skip]
    let table = [
        // what                  asked    told                           commits
        ("allowed",              &refund, "200 refunded",                2),
        ("replayed",             &refund, "200 refunded",                0),
        ("denied",               &denied, "200 denied",                  1),
        ("a dry run",            &dry,    "200 dry_run",                 0),
        ("more than is left",    &over,   "422 amount_over_refundable",  0),
        ("a key used before",    &reused, "409 idempotency_key_reused",  0),
    ];
    for (what, body, told, commits) in table {
        let before = world.store.commits();
        assert_eq!(world.ask(body).await.line(), told, "{what}");
        assert_eq!(world.store.commits() - before, commits, "{what}");
    }
    let before = world.store.commits();
    let intent = world.ask(&refund).await.text("/intentId").to_owned();
    for path in [
        "/v1/budget".to_owned(),
        "/v1/intents".to_owned(),
        format!("/v1/intents/{intent}?wait=1"),
        "/healthz".to_owned(),
        "/readyz".to_owned(),
        "/openapi.json".to_owned(),
    ] {
        assert_eq!(world.get(&path).await.status, 200, "{path}");
    }
    assert_eq!(world.store.commits(), before, "reads commit nothing");
}

/// The longer ways: each step of a person is one commit, and the words of an agent are one.
#[tokio::test]
async fn an_approval_is_one_commit_more() {
    let lines = "daily_cap = \"100.00\"\napproval_threshold = \"5.00\"\non_approval = \"agent\"";
    let world = Setup { policy: policy(lines), sqlite: true, ..Setup::default() }.start().await;
    world.charge(&json!({ "id": "ch_1" }));
    let body = json!({ "target": "ch_1", "idempotencyKey": "k" });
    let begin = world.store.commits();
    let pending = world.ask(&body).await;
    assert_eq!(world.store.commits() - begin, 1, "held");
    world.approve(&pending).await;
    assert_eq!(world.store.commits() - begin, 2, "approved");
    // Leased, submitted, settled.
    assert_eq!(world.ask(&body).await.line(), "200 refunded");
    assert_eq!(world.store.commits() - begin, 5, "executed");
    let path = format!("/v1/intents/{}/cancel", pending.text("/intentId"));
    let late = Call::post(&path, "").key(&world.key).send(world.at).await;
    assert_eq!(late.line(), "409 not_cancelable");
    assert_eq!(world.store.commits() - begin, 5, "too late to withdraw");
}
