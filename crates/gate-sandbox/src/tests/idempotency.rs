//! What is kept under an idempotency key, for how long, and what a key refuses.

use super::Rig;

fn stocked() -> Rig {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_1","amount":1000}"#);
    rig.charge(r#"{"id":"ch_gone","refunded":true}"#);
    rig.charge(r#"{"id":"ch_real","disputed":true}"#);
    rig.order("keys", r#"{"key":"rk_test_read","permissions":{"refunds":"read"}}"#);
    rig
}

#[test]
fn what_was_begun_is_kept() {
    //   request                                                     status  kept
    let table = [
        ("POST /v1/refunds charge=ch_1&amount=100", 200, true),
        ("POST /v1/refunds charge=ch_1&amount=5000", 400, true),
        ("POST /v1/refunds charge=ch_gone", 400, true),
        ("POST /v1/refunds charge=ch_real", 400, true),
        ("POST /v1/refunds charge=ch_nope", 404, true),
        ("POST /v1/charges amount=5&currency=usd&source=tok_chargeDeclined", 402, true),
        ("POST /v1/refunds charge=ch_1&amount=0", 400, false),
        ("POST /v1/refunds charge=ch_1&foo=1", 400, false),
        ("POST /v1/refunds", 400, false),
        ("POST /v1/refunds charge=ch_1&expand[]=nope", 400, false),
        ("POST /v1/refunds charge=ch_1 Authorization:Bearer+rk_test_read", 403, false),
        ("POST /v1/refunds charge=ch_1 Authorization:Bearer+nobody", 401, false),
        ("GET /v1/refunds", 200, false),
    ];
    for (line, status, kept) in table {
        let mut rig = stocked();
        let keyed = format!("{line} Idempotency-Key:k1");
        let first = rig.send(&keyed);
        assert_eq!(first.status, status, "{line}: {}", first.body);
        assert_eq!(first.header("Idempotent-Replayed"), "-", "{line}");
        let second = rig.send(&keyed);
        assert_eq!(second.status, status, "{line}");
        assert_eq!(second.header("Idempotent-Replayed"), if kept { "true" } else { "-" }, "{line}");
        if kept {
            assert_eq!(second.reply.body, first.reply.body, "{line}");
            assert_eq!(second.header("Original-Request"), first.header("Request-Id"), "{line}");
            assert_ne!(second.header("Request-Id"), first.header("Request-Id"), "{line}");
        }
    }
}

#[test]
fn a_key_belongs_to_one_request() {
    let mut rig = stocked();
    let made = rig.ok("POST /v1/refunds charge=ch_1&amount=100 Idempotency-Key:k1");
    let long = "k".repeat(256);
    let refund = "POST /v1/refunds charge=ch_1&amount=100";
    rig.check(&[
        (
            "POST /v1/refunds charge=ch_1&amount=101 Idempotency-Key:k1",
            400,
            "-",
            "only be used with the same parameters",
        ),
        (
            "POST /v1/refunds charge=ch_1&amount=101 Idempotency-Key:k1",
            400,
            "-",
            "idempotency_error",
        ),
        (
            "POST /v1/refunds charge=ch_1&amount=100&metadata[a]=1 Idempotency-Key:k1",
            400,
            "-",
            "idempotency_error",
        ),
        ("POST /v1/charges charge=ch_1&amount=100 Idempotency-Key:k1", 400, "-", "same endpoint"),
        // another order of the same parameters is the same request
        (
            "POST /v1/refunds amount=100&charge=ch_1 Idempotency-Key:k1",
            200,
            "-",
            made["id"].as_str().unwrap(),
        ),
        // keys are an account's own, and another account has no such charge
        (
            &format!("{refund} Idempotency-Key:k1 Stripe-Account:acct_b"),
            404,
            "resource_missing",
            "",
        ),
        (&format!("{refund} Idempotency-Key:{long}"), 400, "-", "255"),
        (&format!("{refund} Idempotency-Key:"), 400, "-", "255"),
    ]);
    assert_eq!(rig.sandbox.refunds().len(), 1);
    rig.ok(&format!("{refund} Idempotency-Key:{}", &long[..255]));
    rig.ok(refund);
    rig.ok(refund);
    assert_eq!(rig.sandbox.refunds().len(), 4, "without a key every request is a new one");
}

#[test]
fn keys_are_forgotten_after_a_day() {
    //   seconds in between, refunds afterwards
    for (secs, refunds) in [(24 * 3600 - 1, 1), (24 * 3600, 2)] {
        let mut rig = stocked();
        let line = "POST /v1/refunds charge=ch_1&amount=100 Idempotency-Key:k1";
        rig.ok(line);
        rig.later(secs);
        rig.ok(line);
        assert_eq!(rig.sandbox.refunds().len(), refunds, "after {secs} seconds");
    }
}

#[test]
fn a_key_in_flight_waits_in_real_time() {
    let mut rig = stocked();
    rig.order("faults", r#"{"method":"POST","path":"/v1/refunds","kind":"delay","delayMs":800}"#);
    let line = "POST /v1/refunds charge=ch_1&amount=100 Idempotency-Key:k1";
    let first = rig.send(line);
    rig.now_ms += 799;
    rig.check(&[
        (line, 409, "idempotency_key_in_use", "currently another in-progress request"),
        // other keys are not held up
        ("POST /v1/refunds charge=ch_1&amount=1 Idempotency-Key:k2", 200, "-", ""),
    ]);
    // The sandbox's own clock does not make a socket faster.
    rig.later(60);
    assert_eq!(rig.send(line).status, 409);
    rig.now_ms += 1;
    let replayed = rig.send(line);
    assert_eq!((replayed.status, &replayed.body), (200, &first.body));
    assert_eq!(replayed.header("Idempotent-Replayed"), "true");
}

#[test]
fn different_keys_are_different_refunds() {
    let mut rig = stocked();
    let refund = "POST /v1/refunds charge=ch_1&amount";
    rig.check(&[
        (&format!("{refund}=300 Idempotency-Key:a"), 200, "-", "succeeded"),
        (&format!("{refund}=300 Idempotency-Key:b"), 200, "-", "succeeded"),
        (
            &format!("{refund}=600 Idempotency-Key:c"),
            400,
            "-",
            "unrefunded amount on charge ($4.00)",
        ),
        (&format!("{refund}=400 Idempotency-Key:d"), 200, "-", "succeeded"),
    ]);
    assert_eq!(rig.sandbox.refunds().len(), 3);
}
