//! Customers, charges, payment intents and disputes: how what is refunded comes about.

use super::{Rig, text};

#[test]
fn charges_are_checked() {
    let mut rig = Rig::new();
    let customer = rig.ok("POST /v1/customers email=a@example.com");
    let bare = format!("POST /v1/charges amount=5&currency=usd&customer={}", text(&customer, "id"));
    rig.check(&[
        ("POST /v1/charges currency=usd&source=tok_visa", 400, "parameter_missing", "param: amount."),
        ("POST /v1/charges amount=5&source=tok_visa", 400, "parameter_missing", "param: currency."),
        ("POST /v1/charges amount=5&currency=usd", 400, "parameter_missing", "source or customer"),
        ("POST /v1/charges amount=0&currency=usd&source=tok_visa", 400, "parameter_invalid_integer", "equal to 1."),
        ("POST /v1/charges amount=5&currency=xyz&source=tok_visa", 400, "-", "Invalid currency: xyz"),
        ("POST /v1/charges amount=5&currency=bgn&source=tok_visa", 400, "-", "Invalid currency: bgn"),
        ("POST /v1/charges amount=550&currency=UGX&source=tok_visa", 400, "-", "Currency UGX"),
        ("POST /v1/charges amount=1000000000000&currency=usd&source=tok_visa", 400, "amount_too_large", "$9,999,999,999.99"),
        ("POST /v1/charges amount=5&currency=usd&source=tok_nope", 404, "resource_missing", "No such token"),
        ("POST /v1/charges amount=5&currency=usd&customer=cus_nope", 404, "resource_missing", "No such customer"),
        (&bare, 402, "missing", "no active card"),
        ("POST /v1/charges amount=5&currency=usd&source=tok_chargeDeclined", 402, "card_declined", "generic_decline"),
        ("POST /v1/charges amount=5&currency=usd&source=tok_visa_chargeDeclinedInsufficientFunds", 402, "card_declined", "insufficient_funds"),
        ("POST /v1/charges amount=5&currency=usd&source=tok_visa&application_fee=1", 400, "parameter_unknown", "application_fee"),
        ("GET /v1/charges/ch_nope", 404, "resource_missing", "No such charge: 'ch_nope'"),
    ]);
    assert!(rig.sandbox.charges().iter().all(|charge| charge["status"] == "failed"));
}

#[test]
fn a_charge_by_token_or_by_customer() {
    let mut rig = Rig::new();
    let customer = rig.ok("POST /v1/customers source=tok_mastercard&metadata[k]=v&name=Jo");
    let id = text(&customer, "id");
    assert_eq!((text(&customer, "name"), text(&customer["metadata"], "k")), ("Jo", "v"));
    for form in ["source=tok_visa".to_owned(), format!("customer={id}")] {
        let charge = rig.ok(&format!("POST /v1/charges amount=700&currency=EUR&{form}"));
        assert_eq!(text(&charge, "currency"), "eur");
        assert_eq!(charge["captured"], true);
        assert_eq!(charge["amount_captured"], 700);
        assert!(charge.get("refunds").is_none(), "refunds are shown only when expanded");
        assert!(charge.get("dispute").is_none(), "this version has no such field");
    }
}

#[test]
fn a_payment_intent_from_creation_to_its_end() {
    //   requests on the new intent; status, received, captured, refunded after each
    type Step<'a> = (&'a str, &'a str, i64, i64, i64);
    let table: [(&str, &[Step<'_>]); 5] = [
        ("payment_method=pm_card_visa&confirm=true", &[("", "succeeded", 1000, 1000, 0)]),
        (
            "payment_method=pm_card_visa",
            &[("", "requires_confirmation", 0, 0, 0), ("confirm", "succeeded", 1000, 1000, 0)],
        ),
        (
            "capture_method=manual&payment_method=pm_card_visa&confirm=true",
            &[
                ("", "requires_capture", 0, 0, 0),
                ("capture amount_to_capture=700", "succeeded", 700, 700, 300),
            ],
        ),
        (
            "capture_method=manual&payment_method=pm_card_visa&confirm=true",
            &[("", "requires_capture", 0, 0, 0), ("cancel", "canceled", 0, 0, 1000)],
        ),
        (
            "description=late",
            &[
                ("", "requires_payment_method", 0, 0, 0),
                ("confirm payment_method=pm_card_amex", "succeeded", 1000, 1000, 0),
            ],
        ),
    ];
    for (form, steps) in table {
        let mut rig = Rig::new();
        let mut line = format!("POST /v1/payment_intents amount=1000&currency=usd&{form}");
        let mut path = String::new();
        for (step, status, received, captured, refunded) in steps {
            if let Some((verb, rest)) = step.split_once(' ') {
                line = format!("POST {path}/{verb} {rest}");
            } else if !step.is_empty() {
                line = format!("POST {path}/{step}");
            }
            let intent = rig.ok(&line);
            path = format!("/v1/payment_intents/{}", text(&intent, "id"));
            assert_eq!(text(&intent, "status"), *status, "{line}");
            assert_eq!(intent["amount_received"], *received, "{line}");
            let seen = rig.ok(&format!("GET {path}?expand[]=latest_charge"));
            let charge = &seen["latest_charge"];
            assert_eq!(charge["amount_captured"].as_i64().unwrap_or(0), *captured, "{line}");
            assert_eq!(charge["amount_refunded"].as_i64().unwrap_or(0), *refunded, "{line}");
        }
    }
}

#[test]
fn a_payment_intent_refuses() {
    let mut rig = Rig::new();
    let make = "POST /v1/payment_intents amount=1000&currency=usd";
    let bare = rig.ok(make);
    let bare = format!("/v1/payment_intents/{}", text(&bare, "id"));
    let paid = rig.ok(&format!("{make}&payment_method=pm_card_visa&confirm=true"));
    let paid = format!("/v1/payment_intents/{}", text(&paid, "id"));
    let held =
        rig.ok(&format!("{make}&payment_method=pm_card_visa&confirm=true&capture_method=manual"));
    let held = format!("/v1/payment_intents/{}", text(&held, "id"));
    let state = "payment_intent_unexpected_state";
    rig.check(&[
        ("POST /v1/payment_intents amount=5", 400, "parameter_missing", "currency"),
        (&format!("{make}&foo=1"), 400, "parameter_unknown", "foo"),
        (&format!("{make}&capture_method=never"), 400, "-", "Invalid capture_method"),
        (&format!("{make}&customer=cus_nope"), 404, "resource_missing", "No such customer"),
        (
            &format!("{make}&payment_method=pm_nope"),
            404,
            "resource_missing",
            "No such PaymentMethod",
        ),
        (&format!("POST {bare}/confirm"), 400, state, "missing a payment method"),
        (&format!("POST {bare}/capture"), 400, state, "requires_payment_method"),
        (&format!("POST {paid}/capture"), 400, state, "status of succeeded"),
        (&format!("POST {paid}/confirm"), 400, state, "status of succeeded"),
        (&format!("POST {paid}/cancel"), 400, state, "status of succeeded"),
        (&format!("POST {held}/capture amount_to_capture=1001"), 400, "amount_too_large", "(1001)"),
        (
            &format!("POST {held}/capture amount_to_capture=0"),
            400,
            "parameter_invalid_integer",
            "1.",
        ),
        ("GET /v1/payment_intents/pi_nope", 404, "resource_missing", "No such payment_intent"),
    ]);
    let declined =
        rig.send(&format!("{make}&payment_method=pm_card_visa_chargeDeclined&confirm=true"));
    assert_eq!((declined.status, declined.code()), (402, "card_declined"));
    let intent = &declined.body["error"]["payment_intent"];
    assert_eq!(text(intent, "status"), "requires_payment_method");
    assert_eq!(intent["latest_charge"], declined.body["error"]["charge"]);
    let refund = format!("POST /v1/refunds payment_intent={}", text(intent, "id"));
    rig.check(&[(&refund, 400, "-", "does not have a successful charge to refund.")]);
}

#[test]
fn a_bare_charge_is_captured_once() {
    let mut rig = Rig::new();
    let make = "POST /v1/charges amount=1000&currency=usd&source=tok_visa&capture=false";
    let charge = rig.ok(make);
    assert_eq!((&charge["captured"], &charge["amount_captured"]), (&false.into(), &0.into()));
    let capture = format!("POST /v1/charges/{}/capture amount=600", text(&charge, "id"));
    let charge = rig.ok(&capture);
    assert_eq!(charge["amount_captured"], 600);
    assert_eq!(charge["amount_refunded"], 400);
    rig.check(&[(&capture, 400, "charge_already_captured", "already been captured")]);
}

#[test]
fn disputes_come_with_their_test_cards() {
    let table = [
        ("tok_createDispute", "needs_response", false),
        ("tok_createDisputeInquiry", "warning_needs_response", true),
    ];
    for (token, status, refundable) in table {
        let mut rig = Rig::new();
        let form = format!("amount=1000&currency=usd&source={token}");
        let charge = rig.ok(&format!("POST /v1/charges {form}"));
        assert_eq!(charge["disputed"], true, "{token}");
        let id = text(&charge, "id");
        let disputes = rig.ok(&format!("GET /v1/disputes?charge={id}&expand[]=data.charge"));
        let dispute = &disputes["data"][0];
        assert_eq!(text(dispute, "status"), status, "{token}");
        assert_eq!(dispute["is_charge_refundable"], refundable, "{token}");
        assert_eq!(dispute["charge"]["id"], charge["id"], "{token}");
        rig.ok(&format!("GET /v1/disputes/{}", text(dispute, "id")));
        let refund = rig.send(&format!("POST /v1/refunds charge={id}"));
        assert_eq!(refund.status, if refundable { 200 } else { 400 }, "{token}");
    }
}

#[test]
fn the_balance_is_what_was_kept() {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_1","amount":1000}"#);
    rig.charge(r#"{"id":"ch_2","amount":5000,"currency":"jpy"}"#);
    rig.charge(r#"{"id":"ch_3","amount":700,"captured":false}"#);
    rig.ok("POST /v1/refunds charge=ch_1&amount=300");
    let balance = rig.ok("GET /v1/balance");
    assert_eq!(balance["livemode"], false);
    let of = |place: usize| {
        (&balance["available"][place]["currency"], &balance["available"][place]["amount"])
    };
    assert_eq!(of(0), (&"jpy".into(), &5000.into()));
    assert_eq!(of(1), (&"usd".into(), &700.into()));
}
