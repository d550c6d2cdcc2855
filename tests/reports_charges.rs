//! Public reports of refunds of what cannot, or not so, be refunded: captures, disputes, modes,
//! reasons and permissions.

use serde_json::{Value, json};

use crate::world::{STRIPE_KEY, Setup, World, outside, policy};

fn ask(target: &str, minor: Option<i64>) -> Value {
    match minor {
        Some(minor) => json!({ "target": target, "amountMinor": minor }),
        None => json!({ "target": target }),
    }
}

#[tokio::test]
async fn what_of_a_charge_can_be_refunded() {
    let dispute = |status: &str, refundable: bool| {
        let dispute = json!({ "status": status, "is_charge_refundable": refundable });
        json!({ "dispute": dispute })
    };
    let none = json!({});
    let uncaptured = json!({ "captured": false });
    let part = json!({ "amount_captured": 700 });
    #[rustfmt::skip]
    let table = [
        // name                       the charge of 10.00                     asked                    told                          sent
        ("a part is a part",          none.clone(),                           ask("ch_1", Some(300)),  "200 refunded",               300),
        ("all of it",                 none.clone(),                           ask("ch_1", None),       "200 refunded",               1000),
        ("through its intent",        none.clone(),                           ask("pi_1", Some(300)),  "200 refunded",               300),
        ("one too many",              none,                                   ask("ch_1", Some(1001)), "422 amount_over_refundable", 0),
        ("captured in part: all",     part.clone(),                           ask("ch_1", None),       "200 refunded",               700),
        ("captured in part: 7.00",    part.clone(),                           ask("ch_1", Some(700)),  "200 refunded",               700),
        ("captured in part: 7.01",    part,                                   ask("ch_1", Some(701)),  "422 amount_over_refundable", 0),
        ("refunded in part: all",     json!({ "amount_refunded": 400 }),      ask("ch_1", None),       "200 refunded",               600),
        ("refunded in part: more",    json!({ "amount_refunded": 400 }),      ask("ch_1", Some(601)),  "422 amount_over_refundable", 0),
        ("refunded in full",          json!({ "refunded": true }),            ask("ch_1", None),       "422 charge_already_refunded", 0),
        ("never captured",            uncaptured.clone(),                     ask("ch_1", None),       "422 charge_not_captured",    0),
        ("never captured: a part",    uncaptured.clone(),                     ask("ch_1", Some(300)),  "422 charge_not_captured",    0),
        ("its intent waits",          uncaptured,                             ask("pi_1", None),       "422 charge_not_captured",    0),
        ("declined",                  json!({ "status": "failed" }),          ask("ch_1", None),       "422 charge_not_paid",        0),
        ("its intent is not paid",    json!({ "status": "failed" }),          ask("pi_1", None),       "422 charge_not_paid",        0),
        ("still pending",             json!({ "status": "pending" }),         ask("ch_1", None),       "409 charge_not_ready",       0),
        ("charged back",              dispute("needs_response", false),       ask("ch_1", None),       "422 charge_disputed",        0),
        ("says it is refundable",     dispute("needs_response", true),        ask("ch_1", None),       "422 charge_disputed",        0),
        ("under review",              dispute("under_review", false),         ask("ch_1", None),       "422 charge_disputed",        0),
        ("lost",                      dispute("lost", false),                 ask("ch_1", None),       "422 charge_disputed",        0),
        ("an unknown dispute",        dispute("in_the_mail", true),           ask("ch_1", None),       "422 charge_disputed",        0),
        ("an inquiry",                dispute("warning_needs_response", true), ask("ch_1", None),      "200 refunded",               1000),
        ("an inquiry, closed to us",  dispute("warning_needs_response", false), ask("ch_1", None),     "422 charge_disputed",        0),
        ("won",                       dispute("won", true),                   ask("ch_1", None),       "200 refunded",               1000),
    ];
    for (name, mut charge, asked, told, sent) in table {
        let world = World::new().await;
        charge["id"] = json!("ch_1");
        charge["payment_intent"] = json!("pi_1");
        world.charge(&charge);
        let answer = world.ask(&asked).await;
        assert_eq!(answer.line(), told, "{name}: {}", answer.json);
        let made = usize::from(sent > 0);
        world.check(name, made, made);
        if sent > 0 {
            let form = world.wire.last_form();
            assert!(form.starts_with(&format!("charge=ch_1&amount={sent}&")), "{name}: {form}");
        } else {
            assert!(answer.text("/detail").contains("Nothing was refunded."), "{name}");
            assert_eq!(world.get("/v1/intents").await.json["data"], json!([]), "{name}: an intent");
        }
        if told == "422 charge_not_captured" {
            assert!(answer.text("/detail").contains("cancel the payment"), "{name}");
        }
    }
}

/// What is left is told with the refusal, so that nobody has to guess.
#[tokio::test]
async fn what_is_left_is_told() {
    let world = World::new().await;
    world.charge(&json!({ "id": "ch_1", "amount_captured": 700 }));
    let over = world.ask(&ask("ch_1", Some(701))).await;
    assert_eq!(over.json["left"]["minor"], 700);
    assert_eq!(over.text("/left/text"), "7.00 USD");
}

/// A charge is read again each time: what was refused before it was captured is refunded after.
#[tokio::test]
async fn the_charge_is_read_anew() {
    let world = World::new().await;
    world.charge(&json!({ "id": "ch_1", "captured": false }));
    let body = json!({ "target": "ch_1", "idempotencyKey": "k" });
    assert_eq!(world.ask(&body).await.line(), "422 charge_not_captured");
    outside(&world.sandbox, "/v1/charges/ch_1/capture", "");
    let answer = world.ask(&body).await;
    assert_eq!((answer.line(), answer.replayed()), ("200 refunded".to_owned(), false));
    world.check("captured since", 1, 1);
}

/// A refund that Stripe has not finished is answered as it is, counts, and is not made again.
#[tokio::test]
async fn a_refund_that_is_pending_at_stripe() {
    let world = World::new().await;
    world.charge(&json!({ "id": "ch_1", "source": "tok_pendingRefund" }));
    for _ in 0..2 {
        let answer = world.ask(&ask("ch_1", None)).await;
        assert_eq!(answer.line(), "200 refunded");
        assert_eq!(answer.text("/refund/status"), "pending");
        assert!(answer.text("/next").contains("has not finished it"), "{}", answer.text("/next"));
    }
    assert_eq!(world.spent().await, "10.00");
    world.check("pending", 1, 1);
}

/// A reason goes to Stripe only if it is one of Stripe's; `fraudulent`, which also blocks the
/// customer, needs a method of its own.
#[tokio::test]
async fn reasons_are_stripes() {
    let both = policy("daily_cap = \"100.00\"")
        .replace("[\"stripe_refund\"]", "[\"stripe_refund\", \"stripe_refund_fraudulent\"]");
    let one = policy("daily_cap = \"100.00\"");
    #[rustfmt::skip]
    let table = [
        // policy  reason                   told                   why
        (&one,     "requested_by_customer", "200 refunded",        ""),
        (&one,     "duplicate",             "200 refunded",        ""),
        (&one,     "fraudulent",            "200 denied",          "method_not_allowed"),
        (&both,    "fraudulent",            "200 refunded",        ""),
        (&both,    "the parcel was lost",   "400 invalid_request", ""),
        (&both,    "expired_uncaptured_charge", "400 invalid_request", ""),
    ];
    for (policy, reason, told, why) in table {
        let world = Setup { policy: policy.clone(), ..Setup::default() }.start().await;
        world.charge(&json!({ "id": "ch_1" }));
        let body = json!({ "target": "ch_1", "reason": reason, "justification": "it was lost" });
        let answer = world.ask(&body).await;
        assert_eq!(answer.line(), told, "{reason}");
        assert_eq!(answer.reasons(), why, "{reason}");
        let made = usize::from(told == "200 refunded");
        world.check(reason, made, made);
        if made > 0 {
            let form = world.wire.last_form();
            assert!(form.contains(&format!("&reason={reason}&")), "{form}");
            assert!(!form.contains("lost"), "the agent's own words went to Stripe: {form}");
        }
    }
}

/// A charge of another account or mode is not found; the answer says where was looked.
#[tokio::test]
async fn a_charge_elsewhere_is_not_found_here() {
    #[rustfmt::skip]
    let table: [(Option<&'static str>, &[&str]); 2] = [
        (None,                &["test mode", "this account"]),
        (Some("acct_1Other"), &["test mode", "acct_1Other"]),
    ];
    for (account, named) in table {
        let world = Setup { account, ..Setup::default() }.start().await;
        if account.is_some() {
            world.charge(&json!({ "id": "ch_1" }));
        }
        let answer = world.ask(&ask("ch_1", None)).await;
        assert_eq!(answer.line(), "404 charge_not_found");
        for name in named {
            assert!(answer.text("/detail").contains(name), "{}", answer.text("/detail"));
        }
        world.check("elsewhere", 0, 0);
    }
}

/// What a restricted key lacks is named in the dashboard's words. No key, masked or not, is told.
#[tokio::test]
async fn a_missing_permission_is_named() {
    let all = || {
        json!({
            "charges": "read", "customers": "read", "disputes": "read",
            "payment_intents": "read", "refunds": "write",
        })
    };
    let without = |resource: &str, left: &str| {
        let mut may = all();
        may[resource] = json!(left);
        may
    };
    let inquiry = json!({ "dispute": { "status": "warning_needs_response" } });
    let customer = json!({ "customer": "cus_1" });
    #[rustfmt::skip]
    let table = [
        // the key may             the charge                told                      named
        (all(),                    customer.clone(),         "200 refunded",           ""),
        (without("customers", "none"), customer.clone(),     "200 refunded",           ""),
        (without("charges", "none"), customer.clone(),       "502 stripe_permission",  "Charges: Read"),
        (without("refunds", "read"), customer,               "200 not_executed",       "Refunds: Write"),
        (without("disputes", "none"), inquiry.clone(),       "422 charge_disputed",    ""),
        (all(),                    inquiry,                  "200 refunded",           ""),
    ];
    for (may, mut charge, told, named) in table {
        let world = World::new().await;
        world.control("/_sandbox/keys", &json!({ "key": STRIPE_KEY, "permissions": may }));
        charge["id"] = json!("ch_1");
        world.charge(&charge);
        let answer = world.ask(&ask("ch_1", None)).await;
        assert_eq!(answer.line(), told, "{may}: {}", answer.json);
        let text = String::from_utf8(answer.body).unwrap();
        assert!(text.contains(named), "{may}: {text}");
        for secret in ["rk_test", "4242", "***"] {
            assert!(!text.contains(secret), "{may}: {text}");
        }
        assert_eq!(world.refunds().len(), usize::from(told == "200 refunded"), "{may}");
    }
}
