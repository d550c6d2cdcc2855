//! Deliveries of events: when, in which order, signed how, and how often.

use ring::hmac;
use serde_json::{Value, json};

use super::{NOON_MS, Rig, text};
use crate::{
    DELIVERIES_SHOWN_MAX, Delivery, WEBHOOK_RETRY_SECS, WEBHOOKS_WAITING_MAX, WebhookDelivery,
};

const URL: &str = "http://127.0.0.1:4242/webhooks/stripe";
const SECRET: &str = "whsec_test_of_the_sandbox";
const REFUND: &str = "POST /v1/refunds charge=ch_1&amount=100";

/// A charge `ch_1`, and an endpoint.
fn stocked() -> Rig {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_1","amount":100000}"#);
    let order = format!(r#"{{"url":"{URL}","secret":"{SECRET}"}}"#);
    assert_eq!(rig.order("webhook", &order).status, 200);
    rig
}

impl Rig {
    fn take(&mut self) -> Vec<WebhookDelivery> {
        self.sandbox.take_deliveries(self.now_ms)
    }

    /// Reports how each delivery went.
    fn report(&mut self, deliveries: &[WebhookDelivery], ok: bool) {
        for delivery in deliveries {
            self.sandbox.delivered(&delivery.event_id, delivery.attempt, ok, self.now_ms);
        }
    }
}

fn event(delivery: &WebhookDelivery) -> Value {
    serde_json::from_slice(&delivery.body).unwrap()
}

/// Types and attempts, such as `refund.created/1`.
fn kinds(deliveries: &[WebhookDelivery]) -> String {
    let kind = |it: &WebhookDelivery| format!("{}/{}", text(&event(it), "type"), it.attempt);
    deliveries.iter().map(kind).collect::<Vec<_>>().join(" ")
}

fn header<'a>(delivery: &'a WebhookDelivery, name: &str) -> &'a str {
    &delivery.headers.iter().find(|(held, _)| held == name).unwrap().1
}

/// The stamp, and whether the signature is the secret's.
fn signature(delivery: &WebhookDelivery) -> (i64, bool) {
    let (stamp, hex) = header(delivery, "Stripe-Signature").split_once(",v1=").unwrap();
    let stamp: i64 = stamp.strip_prefix("t=").unwrap().parse().unwrap();
    assert_eq!(hex.len(), 64);
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    let tag: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
    let signed = [format!("{stamp}.").as_bytes(), &delivery.body].concat();
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    (stamp, hmac::verify(&key, &signed, &tag).is_ok())
}

#[test]
fn a_delivery_is_signed_and_made_once() {
    let mut rig = stocked();
    assert!(rig.take().is_empty());
    rig.ok(REFUND);
    assert_eq!(rig.sandbox.next_delivery_ms(), Some(NOON_MS));
    let taken = rig.take();
    assert_eq!(kinds(&taken), "refund.created/1 charge.refunded/1");
    for delivery in &taken {
        assert_eq!(delivery.url, URL);
        assert_eq!(header(delivery, "Content-Type"), "application/json; charset=utf-8");
        assert_eq!(signature(delivery), (NOON_MS / 1000, true));
        assert_eq!(text(&event(delivery), "id"), delivery.event_id);
        assert_eq!(event(delivery)["pending_webhooks"], 1);
    }
    assert!(rig.take().is_empty(), "they are under way");
    rig.report(&taken, true);
    let (first, second) = (&rig.sandbox.events()[0], &rig.sandbox.events()[1]);
    assert_eq!((&first["pending_webhooks"], &second["pending_webhooks"]), (&json!(0), &json!(0)));
    rig.later(30 * 24 * 60 * 60);
    assert!(rig.take().is_empty());
    assert_eq!(
        rig.ok("GET /_sandbox/webhook"),
        json!({ "url": URL, "waiting": 0, "delivered": 2, "failed": 0, "givenUp": 0 })
    );
}

#[test]
fn the_stamp_is_real_time_whatever_the_sandbox_believes() {
    let mut rig = stocked();
    rig.later(90 * 24 * 60 * 60);
    rig.ok(REFUND);
    let taken = rig.take();
    assert_eq!(signature(&taken[0]), (NOON_MS / 1000, true));
    assert_eq!(event(&taken[0])["created"], NOON_MS / 1000 + 90 * 24 * 60 * 60);
}

#[test]
fn failed_deliveries_are_due_again_and_given_up_in_the_end() {
    // Reported as failed, and never reported: both come back.
    for reported in [true, false] {
        let mut rig = stocked();
        rig.ok(REFUND);
        let mut attempts = Vec::new();
        for retry_secs in WEBHOOK_RETRY_SECS.into_iter().chain([i64::from(u16::MAX)]) {
            let taken = rig.take();
            attempts.push(kinds(&taken));
            assert!(taken.iter().all(|it| signature(it).1), "signed anew each time");
            if reported {
                rig.report(&taken, false);
            }
            rig.later(retry_secs - 1);
            assert!(rig.take().is_empty(), "not before its time");
            rig.later(1);
        }
        assert_eq!(
            attempts,
            (1..=4).map(|n| format!("refund.created/{n} charge.refunded/{n}")).collect::<Vec<_>>()
        );
        assert!(rig.take().is_empty());
        let shown = rig.ok("GET /_sandbox/webhook");
        assert_eq!((&shown["waiting"], &shown["givenUp"]), (&json!(0), &json!(2)), "{reported}");
        assert_eq!(shown["failed"], if reported { 8 } else { 0 });
        assert_eq!(rig.sandbox.next_delivery_ms(), None);
        assert_eq!(rig.sandbox.events()[0]["pending_webhooks"], 1);
    }
}

#[test]
fn reports_come_late_twice_and_for_nothing() {
    let mut rig = stocked();
    rig.ok(REFUND);
    let first = rig.take();
    rig.later(WEBHOOK_RETRY_SECS[0]);
    let second = rig.take();
    assert_eq!(kinds(&second), "refund.created/2 charge.refunded/2");
    // The first attempt failed after all, which says nothing about the second.
    rig.report(&first, false);
    assert!(rig.take().is_empty());
    // Late or not, received is received.
    rig.report(&first[..1], true);
    rig.report(&first[..1], true);
    rig.sandbox.delivered("evt_nobody_knows", 1, false, rig.now_ms);
    rig.later(WEBHOOK_RETRY_SECS[1]);
    assert_eq!(kinds(&rig.take()), "charge.refunded/3");
}

#[test]
fn faults_of_deliveries() {
    let plain = "refund.created/1 charge.refunded/1";
    //   kind                     at once            after 500 ms      the reply
    let table = [
        (
            "webhook_twice",
            "refund.created/1 refund.created/2 charge.refunded/1 charge.refunded/2",
            "",
            Delivery::Normal,
        ),
        ("webhook_reorder", "charge.refunded/1 refund.created/1", "", Delivery::Normal),
        ("webhook_late", "", plain, Delivery::Normal),
        ("webhook_forged", plain, "", Delivery::Normal),
        ("webhook_before_answer", plain, "", Delivery::Delay { ms: 500 }),
        ("delay", "", plain, Delivery::Delay { ms: 500 }),
        ("drop_after", plain, "", Delivery::Drop),
    ];
    for (kind, at_once, after, reply) in table {
        let mut rig = stocked();
        let order =
            format!(r#"{{"method":"POST","path":"/v1/refunds","kind":"{kind}","delayMs":500}}"#);
        assert_eq!(rig.order("faults", &order).status, 200, "{kind}");
        // A call without events does not use a webhook's fault up.
        rig.ok("GET /v1/refunds");
        let line = format!("{REFUND} Idempotency-Key:k1");
        assert_eq!(rig.send(&line).reply.delivery, reply, "{kind}");
        let taken = rig.take();
        assert_eq!(kinds(&taken), at_once, "{kind}");
        let genuine = kind != "webhook_forged";
        assert!(taken.iter().all(|it| signature(it).1 == genuine), "{kind}");
        // Until the answer is out its key is in flight.
        let waits = matches!(reply, Delivery::Delay { .. });
        assert_eq!(rig.send(&line).status, if waits { 409 } else { 200 }, "{kind}");
        rig.now_ms += 499;
        assert!(rig.take().is_empty(), "{kind}");
        rig.now_ms += 1;
        assert_eq!(kinds(&rig.take()), after, "{kind}");
        // Used up.
        let next = rig.send(REFUND);
        assert_eq!((next.status, next.reply.delivery), (200, Delivery::Normal), "{kind}");
        let taken = rig.take();
        assert_eq!(kinds(&taken), plain, "{kind}");
        assert!(taken.iter().all(|it| signature(it).1), "{kind}");
    }
}

#[test]
fn reordered_events_overtake_those_of_earlier_calls() {
    let mut rig = stocked();
    let refund = rig.ok(REFUND);
    let path = format!("refunds/{}", text(&refund, "id"));
    // The events of control calls have faults as well.
    let order = format!(r#"{{"path":"/_sandbox/{path}","kind":"webhook_reorder"}}"#);
    rig.order("faults", &order);
    rig.now_ms += 5;
    rig.order(&path, r#"{"status":"failed"}"#);
    assert_eq!(
        kinds(&rig.take()),
        "refund.failed/1 charge.refund.updated/1 refund.updated/1 refund.created/1 \
         charge.refunded/1"
    );
}

#[test]
fn a_forged_delivery_is_followed_by_the_genuine_one() {
    let mut rig = stocked();
    rig.order("faults", r#"{"kind":"webhook_forged"}"#);
    rig.ok(REFUND);
    let forged = rig.take();
    assert!(!signature(&forged[0]).1);
    rig.report(&forged, false);
    rig.later(WEBHOOK_RETRY_SECS[0]);
    let genuine = rig.take();
    assert_eq!(kinds(&genuine), "refund.created/2 charge.refunded/2");
    assert!(signature(&genuine[0]).1);
    assert_eq!(forged[0].body, genuine[0].body);
}

#[test]
fn the_endpoint_is_set_shown_and_cleared() {
    let mut rig = Rig::new();
    rig.charge(r#"{"id":"ch_1","amount":100000}"#);
    rig.ok(REFUND);
    let none = json!({ "url": null, "waiting": 0, "delivered": 0, "failed": 0, "givenUp": 0 });
    assert_eq!(rig.ok("GET /_sandbox/webhook"), none);
    for (order, part) in [
        ("{}", ""),
        (r#"{"url":"x","secret":"whsec_a"}"#, "http://"),
        (r#"{"url":"http://x"}"#, "`secret`"),
        (r#"{"url":"http://x","secret":""}"#, "`secret`"),
        (r#"{"url":"http://x","secert":"whsec_a"}"#, "unknown field `secert`"),
    ] {
        let answered = rig.order("webhook", order);
        assert_eq!(answered.status, if part.is_empty() { 200 } else { 400 }, "{order}");
        assert!(answered.body.to_string().contains(part), "{order}: {}", answered.body);
    }
    let set = rig.order("webhook", r#"{"url":"https://a.example/hook","secret":"whsec_a"}"#);
    assert_eq!(text(&set.body, "url"), "https://a.example/hook");
    assert!(!format!("{:?}", rig.sandbox).contains("whsec_a"), "the secret does not show");
    assert!(rig.take().is_empty(), "what happened before is not sent");
    rig.ok(REFUND);
    assert_eq!(rig.ok("GET /_sandbox/webhook")["waiting"], 2);
    // What waits goes to the new endpoint.
    rig.order("webhook", r#"{"url":"https://b.example/hook","secret":"whsec_b"}"#);
    assert_eq!(rig.take()[0].url, "https://b.example/hook");
    assert_eq!(rig.order("webhook", r#"{"url":null}"#).body, none);
    rig.later(WEBHOOK_RETRY_SECS[0]);
    assert!(rig.take().is_empty());
}

#[test]
fn deliveries_are_shown_with_what_became_of_them() {
    let mut rig = stocked();
    rig.ok(REFUND);
    let states = |rig: &mut Rig| {
        let shown = rig.ok("GET /_sandbox/deliveries");
        let shown = shown.as_array().unwrap().clone();
        let line = |it: &Value| format!("{}/{}", text(it, "state"), it["attempt"]);
        (shown.iter().map(line).collect::<Vec<_>>().join(" "), shown)
    };
    let (line, due) = states(&mut rig);
    assert_eq!(line, "due/1 due/1");
    let taken = rig.take();
    let (line, sent) = states(&mut rig);
    assert_eq!(line, "sent/1 sent/1");
    // What was shown as due is what was then sent.
    for name in ["eventId", "url", "headers", "body"] {
        assert_eq!(due[0][name], sent[0][name], "{name}");
    }
    assert_eq!(sent[0]["headers"]["Stripe-Signature"], header(&taken[0], "Stripe-Signature"));
    assert_eq!(text(&sent[0], "body").as_bytes(), taken[0].body);
    rig.report(&taken[..1], true);
    rig.report(&taken[1..], false);
    assert_eq!(states(&mut rig).0, "received/1 failed/1");
    rig.later(WEBHOOK_RETRY_SECS[0]);
    assert_eq!(states(&mut rig).0, "received/1 failed/1 due/2");
    for _ in 0..DELIVERIES_SHOWN_MAX {
        rig.ok(REFUND);
        rig.take();
    }
    assert_eq!(states(&mut rig).1.len(), DELIVERIES_SHOWN_MAX);
}

#[test]
fn no_more_than_so_many_wait() {
    let mut rig = stocked();
    for _ in 0..=WEBHOOKS_WAITING_MAX / 2 {
        rig.ok("POST /v1/refunds charge=ch_1&amount=1");
    }
    let shown = rig.ok("GET /_sandbox/webhook");
    assert_eq!((&shown["waiting"], &shown["givenUp"]), (&json!(WEBHOOKS_WAITING_MAX), &json!(2)));
    assert_eq!(kinds(&rig.take()[..1]), "refund.created/1");
}
