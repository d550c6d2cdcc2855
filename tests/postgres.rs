//! Several gateways on one PostgreSQL act as one.

use futures_util::future::join_all;
use gate_cluster::{Cluster, Database};
use serde_json::{Value, json};

use crate::client::Call;
use crate::crashes::{SHORT, repeated};
use crate::parallel::{RATE, policy_at_noon};
use crate::process::{Home, POLICY, Server};

/// Nothing is wrong with the records.
fn all_is_well(home: &Home, sandbox: &Server) {
    let stripe = format!("http://{}", sandbox.at);
    let variables = [
        ("GATEWAY_EPHEMERAL", "1"),
        ("STRIPE_API_BASE", stripe.as_str()),
        ("STRIPE_SECRET_KEY", crate::process::KEY),
    ];
    let checked = home.run_with(&["check", "--invariants"], &variables);
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
}

/// 200 requests of 10.00 USD, half of them to each of two gateways, against 100.00 a day.
#[tokio::test]
async fn a_cap_holds_across_two_gateways() {
    let sandbox = Server::sandbox();
    let database = Cluster::shared().database();
    let (home, other) = (Home::on(&database.url), Home::on(&database.url));
    let key = home.furnish(&policy_at_noon());
    let gateways =
        [home.serve_embedded(&sandbox, &[RATE]), other.serve_embedded(&sandbox, &[RATE])];
    let charges: Vec<Value> = (0..200).map(|n| json!({ "id": format!("ch_{n}") })).collect();
    join_all(charges.iter().map(|charge| sandbox.control("/_sandbox/charges", charge))).await;
    let asks: Vec<Value> = (0..200)
        .map(|n| json!({ "target": format!("ch_{n}"), "idempotencyKey": format!("k-{n}") }))
        .collect();
    let asked = asks.iter().enumerate().map(|(n, body)| gateways[n % 2].ask(&key, body));
    let answers = join_all(asked).await;
    let count = |line: &str| answers.iter().filter(|answer| answer.line() == line).count();
    assert_eq!((count("200 refunded"), count("200 denied")), (10, 190));
    assert_eq!(sandbox.refunds().await.len(), 10);
    // What one has done the other knows.
    for (n, body) in asks.iter().enumerate().filter(|(n, _)| answers[*n].line() == "200 refunded") {
        let again = gateways[(n + 1) % 2].ask(&key, body).await;
        assert_eq!((again.line().as_str(), again.replayed()), ("200 refunded", true));
        assert_eq!(again.text("/refund/id"), answers[n].text("/refund/id"));
    }
    assert_eq!(sandbox.refunds().await.len(), 10);
    all_is_well(&home, &sandbox);
}

/// A gateway is killed while Stripe's answer is under way, and the other takes over.
#[tokio::test]
async fn another_gateway_takes_over_from_one_that_is_killed() {
    let sandbox = Server::sandbox();
    let database = Cluster::shared().database();
    let (home, other) = (Home::on(&database.url), Home::on(&database.url));
    let key = home.furnish(POLICY);
    let (first, second) =
        (home.serve_embedded(&sandbox, &SHORT), other.serve_embedded(&sandbox, &SHORT));
    sandbox.control("/_sandbox/charges", &json!({ "id": "ch_1" })).await;
    sandbox.fault("delay", 1, 900).await;
    let body = json!({ "target": "ch_1", "idempotencyKey": "k" });
    let ask = Call::post(crate::world::REFUND, &body).key(&key);
    let at = first.at;
    let kill = async {
        sandbox.attempted(1).await;
        first.kill();
    };
    tokio::join!(async { ask.attempt(at).await }, kill);
    let last = repeated(&second, &key, &body).await;
    assert_eq!((last.line().as_str(), last.replayed()), ("200 refunded", true));
    assert_eq!(sandbox.refunds().await.len(), 1);
    all_is_well(&other, &sandbox);
}

#[test]
fn check_says_how_the_database_is() {
    let cluster = Cluster::shared();
    let Database { name, url, tcp_url } = cluster.database();
    // Whatever the password is: this server asks for none.
    let secret = |url: &str| url.replace("//gate@", "//gate:canary@");
    let home = Home::on(&secret(&url));
    let said = |home: &Home| {
        let checked = home.run_with(&["check"], &[("GATEWAY_EPHEMERAL", "1")]);
        assert!(!format!("{checked:?}").contains("canary"), "{checked:?}");
        (checked.code, format!("{}{}", checked.out, checked.err))
    };
    let (code, words) = said(&home);
    assert!(code == 0 && words.contains("can be reached and is empty"), "{words}");
    assert_eq!(
        cluster.sql(&name, "SELECT COUNT(*) FROM pg_tables WHERE tablename = 'agents'"),
        "0\n"
    );
    home.done(&["user", "list"]);
    let (code, words) = said(&home);
    assert!(code == 0 && words.contains("has the schema of migration "), "{words}");
    cluster.sql(&name, "INSERT INTO migrations VALUES (1000, 'x')");
    let (code, words) = said(&home);
    assert!(code == 3 && words.contains("start the newer version"), "{words}");
    let (code, words) = said(&Home::on(&secret(&tcp_url.replace("127.0.0.1", "127.0.0.2"))));
    assert!(code == 3 && words.contains("see that PostgreSQL runs and can be reached"), "{words}");
}
