//! Keys, permissions, accounts, headers and expansion.

use super::{Rig, text};

#[test]
fn keys_are_asked_for() {
    let mut rig = Rig::new();
    let get = "GET /v1/balance Authorization:";
    // "sk_test_basic:" in base64
    let basic = format!("{get}Basic+c2tfdGVzdF9iYXNpYzo=");
    rig.check(&[
        (&format!("{get}Bearer+sk_test_any"), 200, "-", ""),
        (&format!("{get}Bearer+rk_test_any"), 200, "-", ""),
        (&basic, 200, "-", ""),
        (&format!("{get}None"), 401, "-", "did not provide an API key"),
        (&format!("{get}Digest+x"), 401, "-", "did not provide an API key"),
        (
            &format!("{get}Bearer+sk_live_51Abcdefghijklmnop"),
            401,
            "-",
            "Invalid API Key provided: sk_live_********mnop",
        ),
        (&format!("{get}Bearer+rk_live_51Abcdefghijklmnop"), 401, "-", "rk_live_********mnop"),
        (&format!("{get}Bearer+pk_test_51Abcdefghijklmnop"), 401, "-", "pk_test_"),
        (&format!("{get}Bearer+whatever"), 401, "-", "Invalid API Key provided: ********"),
        ("GET /v1/nothing Authorization:None", 401, "-", ""),
        ("GET /v1/nothing", 404, "-", "Unrecognized request URL (GET: /v1/nothing)"),
        ("DELETE /v1/refunds", 404, "-", "Unrecognized request URL"),
        ("GET /v1/charges/ch_../../x", 404, "-", "Unrecognized request URL"),
        ("GET /", 404, "-", "Unrecognized request URL"),
    ]);
}

#[test]
fn restricted_keys_do_what_they_were_given() {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_1","payment_intent":"pi_1","customer":"cus_1"}"#);
    rig.order(
        "keys",
        r#"{"key":"rk_test_51Abcdefghijkl4242","permissions":
            {"charges":"read","refunds":"write","payment_intents":"read","balance":"none"}}"#,
    );
    let key = "Authorization:Bearer+rk_test_51Abcdefghijkl4242";
    let need = |id: &str| format!("Having the 'rak_{id}' permission would allow");
    //  request, and the permission that is missing, if any
    let table = [
        ("GET /v1/charges/ch_1", ""),
        ("GET /v1/refunds?charge=ch_1", ""),
        ("GET /v1/payment_intents/pi_1?expand[]=latest_charge", ""),
        ("POST /v1/refunds charge=ch_1&amount=1", ""),
        ("POST /v1/charges amount=5&currency=usd&source=tok_visa", "charge_write"),
        ("POST /v1/payment_intents amount=5&currency=usd", "payment_intent_write"),
        ("GET /v1/customers/cus_1", "customer_read"),
        ("GET /v1/charges/ch_1?expand[]=customer", "customer_read"),
        ("GET /v1/payment_intents/pi_1?expand[]=latest_charge.customer", "customer_read"),
        ("POST /v1/refunds charge=ch_1&amount=1&expand[]=charge.customer", "customer_read"),
        ("GET /v1/disputes?charge=ch_1", "dispute_read"),
        ("GET /v1/balance", "balance_read"),
        ("GET /v1/account", "account_read"),
    ];
    for (line, missing) in table {
        let answered = rig.send(&format!("{line} {key}"));
        if missing.is_empty() {
            assert_eq!(answered.status, 200, "{line}: {}", answered.body);
            continue;
        }
        assert_eq!((answered.status, answered.code()), (403, "-"), "{line}");
        let error = &answered.body["error"];
        assert_eq!(text(error, "type"), "invalid_request_error", "{line}");
        assert!(text(error, "message").contains(&need(missing)), "{line}: {error}");
        assert!(text(error, "message").contains("'rk_test_********4242'"), "{line}: {error}");
    }
    assert_eq!(rig.sandbox.refunds().len(), 1, "what lacked a permission was not executed");
}

#[test]
fn accounts_do_not_see_each_other() {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_mine"}"#);
    let there = "Stripe-Account:acct_other";
    let made = rig.ok(&format!("POST /v1/charges amount=900&currency=usd&source=tok_visa {there}"));
    let id = text(&made, "id");
    rig.order("keys", r#"{"key":"rk_test_no","permissions":{"charges":"read"}}"#);
    rig.order("keys", r#"{"key":"rk_test_yes","permissions":{"charges":"read","connect":"read"}}"#);
    rig.check(&[
        (&format!("GET /v1/charges/{id} {there}"), 200, "-", id),
        (&format!("GET /v1/charges/{id}"), 404, "resource_missing", "No such charge"),
        (&format!("GET /v1/charges/ch_mine {there}"), 404, "resource_missing", "No such charge"),
        (&format!("POST /v1/refunds charge={id}"), 404, "resource_missing", "\"param\":\"id\""),
        (&format!("POST /v1/refunds charge={id}&amount=1 {there}"), 200, "-", ""),
        (
            &format!("GET /v1/charges/{id} {there} Authorization:Bearer+rk_test_no"),
            403,
            "-",
            "does not have any Connect permissions",
        ),
        (&format!("GET /v1/charges/{id} {there} Authorization:Bearer+rk_test_yes"), 200, "-", ""),
        (&format!("GET /v1/charges/{id} Stripe-Account:other"), 403, "account_invalid", "'other'"),
        (&format!("GET /v1/account {there}"), 200, "-", "acct_other"),
    ]);
}

#[test]
fn every_answer_has_stripes_headers() {
    let mut rig = Rig::new();
    let plain = rig.send("GET /v1/balance");
    assert_eq!(plain.header("Content-Type"), "application/json");
    assert_eq!(plain.header("Date"), "Fri, 30 Oct 2026 12:00:00 GMT");
    assert_eq!(plain.header("Stripe-Version"), "2025-09-30.clover");
    assert!(plain.header("Request-Id").starts_with("req_"));
    rig.later(3600);
    let refused = rig.send("GET /v1/x Stripe-Version:2026-09-30.preview");
    assert_eq!(refused.header("Stripe-Version"), "2026-09-30.preview");
    assert_eq!(refused.header("Date"), "Fri, 30 Oct 2026 13:00:00 GMT");
    assert!(
        text(&refused.body["error"], "request_log_url").ends_with(refused.header("Request-Id"))
    );
}

#[test]
fn expansion_fills_in_what_exists() {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_1","payment_intent":"pi_1","customer":{"id":"cus_1","created":5}}"#);
    rig.charge(r#"{"id":"ch_2"}"#);
    rig.ok("POST /v1/refunds charge=ch_1&amount=1");
    let refund = rig.ok("POST /v1/refunds charge=ch_1&amount=2");
    let refund = text(&refund, "id");
    //   request, JSON pointer into the answer, what stands there
    let table = [
        ("/v1/charges/ch_1", "/customer", "\"cus_1\""),
        ("/v1/charges/ch_1?expand[]=customer", "/customer/created", "5"),
        (
            "/v1/charges/ch_1?expand[0]=customer&expand[1]=payment_intent",
            "/payment_intent/id",
            "\"pi_1\"",
        ),
        ("/v1/charges/ch_2?expand[]=customer.x", "/error/param", "\"expand\""),
        ("/v1/charges/ch_2?expand[]=customer", "/customer", "null"),
        ("/v1/charges/ch_1?expand[]=refunds", "/refunds/data/0/amount", "2"),
        ("/v1/charges/ch_1?expand[]=refunds.data.charge", "/refunds/data/1/charge/id", "\"ch_1\""),
        ("/v1/charges/ch_1?expand[]=dispute", "/error/param", "\"expand\""),
        (
            "/v1/payment_intents/pi_1?expand[]=latest_charge&expand[]=latest_charge.customer&expand[]=customer",
            "/latest_charge/customer/id",
            "\"cus_1\"",
        ),
        ("/v1/payment_intents/pi_1?expand[]=latest_charge.customer", "/customer", "\"cus_1\""),
        ("/v1/refunds?expand[]=data.charge.customer", "/data/0/charge/customer/id", "\"cus_1\""),
        ("/v1/refunds?expand[]=charge", "/error/param", "\"expand\""),
        (
            "/v1/refunds/RE?expand[]=payment_intent.latest_charge.payment_intent.customer",
            "/payment_intent/latest_charge/payment_intent/customer/id",
            "\"cus_1\"",
        ),
        (
            "/v1/refunds/RE?expand[]=payment_intent.latest_charge.payment_intent.latest_charge.customer",
            "/error/param",
            "\"expand\"",
        ),
        (
            "/v1/charges/ch_1?expand=customer",
            "/error/message",
            "\"Invalid array: send 'expand[]'\"",
        ),
    ];
    for (target, pointer, there) in table {
        let answered = rig.send(&format!("GET {}", target.replace("RE", refund)));
        let found = answered.body.pointer(pointer).map_or("absent".to_owned(), ToString::to_string);
        assert_eq!(found, there, "{target}");
    }
}

#[test]
fn rate_limits_hold_once_they_are_switched_on() {
    let mut rig = Rig::new();
    let (search, read) = ("GET /v1/customers/search?query=name:'x'", "GET /v1/balance");
    let there = "GET /v1/balance Stripe-Account:acct_other";
    for _ in 0..40 {
        rig.ok(read);
    }
    rig.order("settings", r#"{"rateLimits":true}"#);
    //  milliseconds later, request, how often it is let through, and what is said then
    let table = [
        (0, search, 20, "endpoint-rate"),
        (0, read, 5, "global-rate"),
        (0, search, 0, "global-rate"),
        (0, there, 25, "global-rate"),
        (999, read, 0, "global-rate"),
        (1, read, 25, "global-rate"),
        (1000, search, 20, "endpoint-rate"),
    ];
    for (place, (later_ms, line, many, reason)) in table.into_iter().enumerate() {
        rig.now_ms += later_ms;
        for _ in 0..many {
            rig.ok(line);
        }
        let refused = rig.send(line);
        let told = (refused.status, refused.code(), refused.header("Stripe-Rate-Limited-Reason"));
        assert_eq!(told, (429, "rate_limit", reason), "row {place}: {line}");
    }
    rig.order("settings", r#"{"rateLimits":false}"#);
    rig.ok(read);
}
