//! Ordered faults: what is executed, what is answered, and what the same key gets afterwards.

use super::{Delivery, Rig};

#[test]
fn each_kind_does_what_it_says() {
    use Delivery::{Delay, Drop, Normal, Reset, SlowBody};
    //   kind                 delivery            status  refunds; second try: status, replayed
    let table = [
        ("drop_before", Drop, 500, 0, 200, "-"),
        ("drop_after", Drop, 200, 1, 200, "true"),
        ("reset", Reset, 500, 0, 200, "-"),
        ("delay", Delay { ms: 500 }, 200, 1, 409, "-"),
        ("slow_body", SlowBody { ms: 500 }, 200, 1, 200, "true"),
        ("malformed", Normal, 200, 1, 200, "true"),
        ("status_409", Normal, 409, 0, 200, "-"),
        ("status_429", Normal, 429, 0, 200, "-"),
        ("status_500_stored", Normal, 500, 0, 500, "true"),
        ("status_500_done", Normal, 500, 1, 500, "true"),
    ];
    for (kind, delivery, status, refunds, again, replayed) in table {
        let mut rig = Rig::new();
        rig.charge(r#"{"id":"ch_1"}"#);
        let order = format!(
            r#"{{"method":"POST","path":"/v1/refunds","kind":"{kind}","times":1,"delayMs":500}}"#
        );
        assert_eq!(rig.order("faults", &order).status, 200, "{kind}");
        // Another method is not touched.
        rig.ok("GET /v1/refunds");
        let line = "POST /v1/refunds charge=ch_1&amount=100 Idempotency-Key:k1";
        let first = rig.send(line);
        assert_eq!(first.reply.delivery, delivery, "{kind}");
        assert_eq!(first.status, status, "{kind}");
        let wait = if kind == "status_429" { "1" } else { "-" };
        assert_eq!(first.header("Retry-After"), wait, "{kind}");
        assert_eq!(rig.sandbox.refunds().len(), refunds, "{kind}");
        let second = rig.send(line);
        assert_eq!(second.reply.delivery, Normal, "{kind}");
        assert_eq!(second.status, again, "{kind}");
        assert_eq!(second.header("Idempotent-Replayed"), replayed, "{kind}");
        assert!(rig.sandbox.refunds().len() <= 1, "{kind}: the same key never pays twice");
        let seen = rig.sandbox.requests().nth(1).unwrap();
        let untouched = matches!(kind, "drop_before" | "reset");
        assert_eq!(seen.status, if untouched { None } else { Some(status) }, "{kind}");
    }
}

#[test]
fn the_bodies_of_faults() {
    let mut rig = Rig::new();
    for kind in ["status_429", "status_409", "status_500_stored", "malformed"] {
        rig.order("faults", &format!(r#"{{"kind":"{kind}"}}"#));
    }
    rig.check(&[
        ("GET /v1/balance", 429, "rate_limit", "rate limit"),
        (
            "POST /v1/refunds charge=x Idempotency-Key:k",
            409,
            "idempotency_key_in_use",
            "Idempotent Key: k",
        ),
        ("GET /v1/balance", 500, "-", "api_error"),
    ]);
    let malformed = rig.send("GET /v1/balance");
    assert!(malformed.reply.body.starts_with(b"{\"object\":\"balance\""));
    assert!(serde_json::from_slice::<serde_json::Value>(&malformed.reply.body).is_err());
}

#[test]
fn a_500_does_not_hide_a_faulty_request() {
    for kind in ["status_500_done", "drop_after", "malformed", "delay"] {
        let mut rig = Rig::new();
        rig.charge(r#"{"id":"ch_1"}"#);
        rig.order("faults", &format!(r#"{{"kind":"{kind}","delayMs":5}}"#));
        let refused = rig.send("POST /v1/refunds charge=ch_1&amount=0 Idempotency-Key:k1");
        assert_eq!(refused.status, 400, "{kind}");
        rig.ok("POST /v1/refunds charge=ch_1&amount=1 Idempotency-Key:k1");
    }
}

#[test]
fn orders_match_by_method_and_path_and_wear_out() {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_1"}"#);
    rig.order("faults", r#"{"method":"get","path":"/v1/ch*","kind":"status_429","times":2}"#);
    rig.order("faults", r#"{"path":"/v1/charges/ch_1","kind":"status_409"}"#);
    rig.order("faults", r#"{"path":"/v1/balance","kind":"status_429","times":9}"#);
    rig.check(&[
        ("GET /v1/refunds", 200, "-", ""),
        ("POST /v1/charges amount=5&currency=usd&source=tok_visa", 200, "-", ""),
        ("GET /v1/charges", 429, "rate_limit", ""),
        ("GET /v1/charges/ch_1", 429, "rate_limit", ""),
        ("GET /v1/charges/ch_1", 409, "idempotency_key_in_use", ""),
        ("GET /v1/charges/ch_1", 200, "-", ""),
        ("GET /v1/balance", 429, "rate_limit", ""),
        ("DELETE /_sandbox/faults", 200, "-", ""),
        ("GET /v1/balance", 200, "-", ""),
    ]);
}

#[test]
fn orders_are_checked() {
    let mut rig = Rig::new();
    for (order, text) in [
        (r#"{"kind":"explode"}"#, "unknown variant `explode`"),
        (r#"{"path":"/v1/refunds"}"#, "missing field `kind`"),
        (r#"{"kind":"reset","when":1}"#, "unknown field `when`"),
        (r#"{"kind":"delay"}"#, "needs `delayMs`"),
        (r#"{"kind":"webhook_late"}"#, "needs `delayMs`"),
        (r#"{"kind":"webhook_before_answer"}"#, "needs `delayMs`"),
        (r#"{"kind":"delay","delayMs":600001}"#, "at most 600000"),
        (r#"{"kind":"reset","times":0}"#, "at least 1"),
        ("nonsense", "not what is expected"),
    ] {
        let answered = rig.order("faults", order);
        assert_eq!(answered.status, 400, "{order}");
        let message = answered.body["error"]["message"].as_str().unwrap();
        assert!(message.contains(text), "{order}: {message}");
    }
    for _ in 0..crate::faults::FAULTS_MAX {
        rig.order("faults", r#"{"kind":"reset"}"#);
    }
    assert_eq!(rig.order("faults", r#"{"kind":"reset"}"#).status, 400);
}
