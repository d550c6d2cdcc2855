//! What an agent may read of its own: intents in pages, approvals, and both as soon as they change.

use serde_json::{Value, json};

use crate::client::Call;
use crate::world::World;

#[tokio::test]
async fn intents_come_in_pages_newest_first() {
    let world = World::new().await;
    world.charge(&json!({ "id": "ch_1" }));
    let mut ids = Vec::new();
    for n in 0..5 {
        let ask =
            json!({ "target": "ch_1", "amountMinor": 100, "idempotencyKey": format!("k{n}") });
        ids.push(world.ask(&ask).await.text("/intentId").to_owned());
    }
    ids.reverse();
    let mut seen: Vec<String> = Vec::new();
    let mut path = "/v1/intents?limit=2".to_owned();
    for left in [3, 1, 0] {
        let page = world.get(&path).await;
        let data = page.json["data"].as_array().unwrap();
        seen.extend(data.iter().map(|row| row["intentId"].as_str().unwrap().to_owned()));
        let next = page.text("/nextCursor");
        assert_eq!(next.is_empty(), left == 0, "{left}");
        path = format!("/v1/intents?limit=2&cursor={next}");
    }
    assert_eq!(seen, ids);
    #[rustfmt::skip]
    let table = [
        // query                                  how many
        ("",                                      5),
        ("?state=settled",                        5),
        ("?state=denied",                         0),
        ("?idempotencyKey=k3",                    1),
        ("?idempotencyKey=k3&state=settled",      1),
        ("?idempotencyKey=unknown",               0),
    ];
    for (query, count) in table {
        let page = world.get(&format!("/v1/intents{query}")).await;
        assert_eq!(page.json["data"].as_array().unwrap().len(), count, "{query}");
    }
    let other = world.agent("other-bot").await;
    let page = Call::get("/v1/intents").key(&other).send(world.at).await;
    assert_eq!(page.json, json!({ "data": [], "nextCursor": null }), "another agent's");
}

/// A key that was taken over lists each intent that ever held it.
#[tokio::test]
async fn a_key_lists_all_its_holders() {
    let world = World::with_policy("daily_cap = \"1.00\"").await;
    world.charge(&json!({ "id": "ch_1" }));
    let body = json!({ "target": "ch_1", "idempotencyKey": "k" });
    let (first, second) = (world.ask(&body).await, world.ask(&body).await);
    let page = world.get("/v1/intents?idempotencyKey=k").await;
    let ids: Vec<&Value> =
        page.json["data"].as_array().unwrap().iter().map(|row| &row["intentId"]).collect();
    assert_eq!(ids, [second.text("/intentId"), first.text("/intentId")]);
}

#[tokio::test]
async fn a_read_that_waits_answers_with_the_change() {
    let world = World::with_policy("daily_cap = \"100.00\"\napproval_threshold = \"5.00\"").await;
    for (charge, state) in [("ch_1", "denied"), ("ch_2", "canceled")] {
        world.charge(&json!({ "id": charge }));
        let pending = world.ask(&json!({ "target": charge })).await;
        let intent = format!("/v1/intents/{}", pending.text("/intentId"));
        let approval = format!("/v1/approvals/{}", pending.text("/approvalId"));
        assert_eq!(world.get(&approval).await.text("/state"), "pending");
        // A minute is longer than any test may take: what comes, comes with the change.
        let waits = [format!("{intent}?wait=60"), format!("{approval}?wait=60")];
        let change = async {
            // Requests that came later are answered: those that wait are waiting by now.
            for _ in 0..3 {
                world.get("/v1/budget").await;
            }
            match state {
                "denied" => world.deny(&pending).await,
                _ => {
                    let path = format!("{intent}/cancel");
                    Call::post(&path, "").key(&world.key).send(world.at).await;
                }
            }
        };
        let (read, seen, ()) = tokio::join!(world.get(&waits[0]), world.get(&waits[1]), change);
        assert_eq!(read.text("/state"), state);
        assert_eq!(seen.text("/state"), state);
        assert_eq!(seen.text("/intentId"), pending.text("/intentId"));
        assert_eq!(seen.text("/amount/text"), "10.00 USD");
        assert!(seen.json["decidedAt"].is_string(), "{state}");
        let note = if state == "denied" { json!("the parcel arrived") } else { json!(null) };
        assert_eq!(seen.json["note"], note);
        // What is final does not change any more, so nobody waits for it.
        assert_eq!(world.get(&waits[0]).await.text("/state"), state);
    }
}

/// The document of the interface is served, and lists every route.
#[tokio::test]
async fn the_interface_describes_itself() {
    let world = World::new().await;
    let document = Call::get("/openapi.json").send(world.at).await.json;
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
    for path in ["/v1/actions/stripe.refund", "/v1/intents/{id}/cancel", "/readyz"] {
        assert!(document["paths"][path].is_object(), "{path}");
    }
}
