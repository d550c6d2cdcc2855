//! Webhooks: who is believed, and what is read from them.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests unwrap and compute freely"
)]

use gate_core::Timestamp;
use gate_stripe::{
    EventKind, WebhookError, WebhookEvent, WebhookSecrets, WebhookSecretsUnusable, verify,
};
use proptest::prelude::*;
use ring::hmac;
use serde_json::{Value, json};

/// When the deliveries here are signed, in seconds since 1970.
const SIGNED: i64 = 1_793_361_600;
const CURRENT: &str = "whsec_current";
const NEXT: &str = "whsec_next";
const BODY: &str = r#"{"id": "evt_1", "object": "event", "type": "refund.updated"}"#;
/// HMAC-SHA256 of `1793361600.` and [`BODY`] under [`CURRENT`], by another implementation.
const KNOWN: &str = "44454974d4e3d7c949268d5d716bfbef8494b8c51d12d8487b4d0dd1f49aaebf";

fn secrets(text: &str) -> WebhookSecrets {
    WebhookSecrets::parse(text).unwrap()
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_millis(secs * 1000)
}

/// The signature in hex.
fn sign(secret: &str, stamp: &str, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let tag = hmac::sign(&key, &[stamp.as_bytes(), b".", body].concat());
    tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What a genuine delivery of `event` is read as.
fn read(event: &Value) -> Result<WebhookEvent, WebhookError> {
    let body = event.to_string();
    let stamp = SIGNED.to_string();
    let header = format!("t={stamp},v1={}", sign(CURRENT, &stamp, body.as_bytes()));
    verify(&secrets(CURRENT), &header, body.as_bytes(), at(SIGNED))
}

#[test]
fn signatures() {
    use WebhookError::{BadSignature, MalformedHeader, NoSignature};
    let other = sign(NEXT, "1793361600", BODY.as_bytes());
    let rotating = "whsec_current, whsec_next";
    let genuine = format!("t=1793361600,v1={KNOWN}");
    let upper = KNOWN.to_uppercase();
    let created = BODY.replace("updated", "created");
    let rewritten = BODY.replace(": ", ":");
    let longer = format!("{BODY}\n");
    let good = Ok("evt_1");
    //   secrets, header, body, expected
    let table: Vec<(&str, String, &str, Result<&str, WebhookError>)> = vec![
        (CURRENT, genuine.clone(), BODY, good),
        (CURRENT, format!(" t=1793361600 , v1={KNOWN} "), BODY, good),
        (CURRENT, format!("t=1793361600, v1={KNOWN}"), BODY, good),
        (CURRENT, format!("v1={KNOWN},t=1793361600"), BODY, good),
        (CURRENT, format!("t=1793361600,v1={upper}"), BODY, good),
        // while a secret is being rotated, on our side and on Stripe's
        (rotating, genuine.clone(), BODY, good),
        (rotating, format!("t=1793361600,v1={other}"), BODY, good),
        (CURRENT, format!("t=1793361600,v1={other},v1={KNOWN}"), BODY, good),
        (CURRENT, format!("t=1793361600,v1={KNOWN},v1={other}"), BODY, good),
        (CURRENT, format!("t=1793361600,v1={KNOWN},v0={other}"), BODY, good),
        (CURRENT, format!("t=1793361600,v1={KNOWN},v2=new"), BODY, good),
        // forged
        (NEXT, genuine.clone(), BODY, Err(BadSignature)),
        (CURRENT, format!("t=1793361600,v1={other}"), BODY, Err(BadSignature)),
        (CURRENT, format!("t=1793361601,v1={KNOWN}"), BODY, Err(BadSignature)),
        (CURRENT, format!("t=01793361600,v1={KNOWN}"), BODY, Err(BadSignature)),
        (CURRENT, genuine.clone(), &created, Err(BadSignature)),
        (CURRENT, genuine.clone(), &rewritten, Err(BadSignature)),
        (CURRENT, genuine.clone(), &longer, Err(BadSignature)),
        (CURRENT, genuine.clone(), "", Err(BadSignature)),
        (CURRENT, format!("t=1793361600,v1={}", &KNOWN[..62]), BODY, Err(BadSignature)),
        (CURRENT, "t=1793361600,v1=".to_owned(), BODY, Err(BadSignature)),
        // no signature that counts
        (CURRENT, format!("t=1793361600,v0={KNOWN}"), BODY, Err(NoSignature)),
        (CURRENT, "t=1793361600".to_owned(), BODY, Err(NoSignature)),
        // not a header of Stripe's
        (CURRENT, String::new(), BODY, Err(MalformedHeader)),
        (CURRENT, KNOWN.to_owned(), BODY, Err(MalformedHeader)),
        (CURRENT, format!("v1={KNOWN}"), BODY, Err(MalformedHeader)),
        (CURRENT, format!("t=,v1={KNOWN}"), BODY, Err(MalformedHeader)),
        (CURRENT, format!("t=now,v1={KNOWN}"), BODY, Err(MalformedHeader)),
        (CURRENT, format!("t=-1793361600,v1={KNOWN}"), BODY, Err(MalformedHeader)),
        (CURRENT, format!("t=+1793361600,v1={KNOWN}"), BODY, Err(MalformedHeader)),
        (CURRENT, format!("t=99999999999999999999,v1={KNOWN}"), BODY, Err(MalformedHeader)),
        (CURRENT, format!("t=1793361600,t=1793361600,v1={KNOWN}"), BODY, Err(MalformedHeader)),
        (CURRENT, format!("t=1793361600,v1={KNOWN}0"), BODY, Err(BadSignature)),
        (CURRENT, format!("t=1793361600,v1={}", "xy".repeat(32)), BODY, Err(BadSignature)),
        (CURRENT, format!("t=1793361600,v1=ä,v1={KNOWN}"), BODY, good),
        (CURRENT, format!("{genuine},"), BODY, Err(MalformedHeader)),
        (CURRENT, format!("{genuine}{}", ",v0=0".repeat(200)), BODY, Err(MalformedHeader)),
    ];
    for (held, header, body, expected) in table {
        let found = verify(&secrets(held), &header, body.as_bytes(), at(SIGNED));
        assert_eq!(
            found.as_ref().map(|event| event.id.as_str()).map_err(|e| *e),
            expected,
            "{held} {header} {body}"
        );
    }
}

#[test]
fn ages() {
    use WebhookError::{TooEarly, TooOld};
    let header = format!("t={SIGNED},v1={KNOWN}");
    let table = [
        (0, None),
        (299, None),
        (300, None),
        (301, Some(TooOld)),
        (86_400, Some(TooOld)),
        (-299, None),
        (-300, None),
        (-301, Some(TooEarly)),
        (-86_400, Some(TooEarly)),
    ];
    for (age_secs, expected) in table {
        let found = verify(&secrets(CURRENT), &header, BODY.as_bytes(), at(SIGNED + age_secs));
        assert_eq!(found.err(), expected, "{age_secs} s old");
        // Only what is genuine is told its age.
        let forged = verify(&secrets(NEXT), &header, BODY.as_bytes(), at(SIGNED + age_secs));
        assert_eq!(forged.err(), Some(WebhookError::BadSignature), "{age_secs} s old, forged");
    }
}

#[test]
fn what_events_are_about() {
    let refund = json!({ "id": "re_1", "object": "refund", "charge": "ch_1" });
    let expanded = json!({ "id": "pyr_1", "charge": { "id": "py_1", "amount": 5 } });
    let charge = json!({ "id": "ch_1", "object": "charge", "payment_intent": "pi_1" });
    let dispute = json!({ "id": "dp_1", "object": "dispute", "charge": "ch_1" });
    let odd = json!({ "id": 7, "charge": ["ch_1"] });
    let foreign = json!({ "id": "re_1/../x", "charge": "ch 1" });
    //   type, object, expected kind, charge, refund
    let table = [
        ("refund.created", &refund, "refund", "ch_1", "re_1"),
        ("refund.updated", &refund, "refund", "ch_1", "re_1"),
        ("refund.failed", &refund, "refund", "ch_1", "re_1"),
        ("charge.refund.updated", &refund, "refund", "ch_1", "re_1"),
        ("refund.updated", &expanded, "refund", "py_1", "pyr_1"),
        ("refund.updated", &odd, "refund", "-", "-"),
        ("refund.updated", &foreign, "refund", "-", "-"),
        ("refund.updated", &Value::Null, "refund", "-", "-"),
        ("charge.refunded", &charge, "charge", "ch_1", "-"),
        ("charge.refunded", &odd, "charge", "-", "-"),
        ("charge.dispute.created", &dispute, "dispute", "ch_1", "-"),
        ("charge.dispute.updated", &dispute, "dispute", "ch_1", "-"),
        ("charge.dispute.closed", &dispute, "dispute", "ch_1", "-"),
        ("charge.dispute.funds_withdrawn", &dispute, "dispute", "ch_1", "-"),
        ("charge.updated", &charge, "other charge.updated", "-", "-"),
        ("plan.created", &json!({ "id": "price_1" }), "other plan.created", "-", "-"),
        ("refund", &refund, "other refund", "-", "-"),
        ("", &refund, "other ", "-", "-"),
    ];
    for (name, object, kind, charge, refund) in table {
        let event = json!({
            "id": "evt_1", "object": "event", "type": name, "livemode": true,
            "account": "acct_1", "brand_new": [1], "data": { "object": object },
        });
        let found = read(&event).unwrap();
        let told = match &found.kind {
            EventKind::ApprovalChanged => "approval".to_owned(),
            EventKind::ChargeRefunded => "charge".to_owned(),
            EventKind::DisputeChanged => "dispute".to_owned(),
            EventKind::Other(name) => format!("other {name}"),
            EventKind::RefundChanged => "refund".to_owned(),
        };
        let of = |id: Option<&str>| id.unwrap_or("-").to_owned();
        let seen = (
            told.as_str(),
            of(found.charge.as_ref().map(|id| id.as_str())),
            of(found.refund.as_ref().map(|id| id.as_str())),
        );
        assert_eq!(seen, (kind, charge.to_owned(), refund.to_owned()), "{name} {object}");
        assert!(found.livemode, "{name}");
        assert_eq!(found.account.unwrap().as_str(), "acct_1", "{name}");
    }
}

/// The seven events of Stripe's own approvals name the request, and nothing that counts.
#[test]
fn approvals_are_named_by_their_thin_events() {
    let steps =
        ["created", "approved", "rejected", "canceled", "expired", "succeeded", "failed", "new"];
    for step in steps {
        for (id, hold) in [("apreq_1", Some("apreq_1")), ("areq_1", Some("areq_1")), ("a/b", None)]
        {
            let event = json!({
                "id": "evt_1", "object": "v2.core.event", "livemode": true, "context": "acct_1",
                "type": format!("v2.core.approval_request.{step}"),
                "related_object": { "id": id, "type": "v2.core.approval_request" },
            });
            let found = read(&event).unwrap();
            assert_eq!(found.kind, EventKind::ApprovalChanged, "{step}");
            assert_eq!(found.hold.as_ref().map(|id| id.as_str()), hold, "{step} {id}");
            assert_eq!((found.charge, found.refund, found.livemode), (None, None, true));
            assert_eq!(found.account.unwrap().as_str(), "acct_1");
        }
    }
}

#[test]
fn thin_events_are_only_named() {
    let thin = json!({
        "id": "evt_test_65", "object": "v2.core.event", "livemode": false, "context": null,
        "type": "v2.core.account.updated", "created": "2026-10-30T12:00:00.000Z",
        "related_object": { "id": "acct_1", "type": "v2.core.account", "url": "/v2/x" },
    });
    let expected = WebhookEvent {
        id: "evt_test_65".to_owned(),
        kind: EventKind::Other("v2.core.account.updated".to_owned()),
        charge: None,
        refund: None,
        hold: None,
        livemode: false,
        account: None,
    };
    assert_eq!(read(&thin), Ok(expected));
    // An event of another generation is not read like one of this.
    let v2 = json!({
        "id": "evt_1", "object": "v2.core.event", "type": "refund.updated",
        "data": { "object": { "id": "re_1", "charge": "ch_1" } },
    });
    assert_eq!(read(&v2).unwrap().kind, EventKind::Other("refund.updated".to_owned()));
}

#[test]
fn genuine_but_not_an_event() {
    for event in [
        json!(null),
        json!([]),
        json!("evt_1"),
        json!({}),
        json!({ "id": 1 }),
        json!({ "id": "" }),
        json!({ "id": "evt_" }),
        json!({ "id": "re_1" }),
        json!({ "id": "evt_1\n" }),
        json!({ "id": format!("evt_{}", "x".repeat(252)) }),
    ] {
        assert_eq!(read(&event), Err(WebhookError::Unreadable), "{event}");
    }
    // The least that will do.
    let least = read(&json!({ "id": "evt_1" })).unwrap();
    assert_eq!((least.kind, least.livemode), (EventKind::Other(String::new()), false));
}

#[test]
fn secrets_are_checked_and_never_shown() {
    let unfit = |place, of| Some(WebhookSecretsUnusable::NotASecret { place, of });
    let nine = ["whsec_canary"; 9].join(",");
    let long = format!("whsec_{}", "x".repeat(250));
    let table = [
        ("whsec_canary", None),
        ("  whsec_canary\r\n", None),
        ("whsec_canary,whsec_canary2", None),
        (" whsec_canary , whsec_canary2 ", None),
        ("whsec_ca+na/ry=", None),
        ("", unfit(1, 1)),
        ("whsec_", unfit(1, 1)),
        ("canary", unfit(1, 1)),
        ("WHSEC_canary", unfit(1, 1)),
        ("sk_test_canary", unfit(1, 1)),
        ("whsec_ca nary", unfit(1, 1)),
        ("whsec_cänary", unfit(1, 1)),
        ("whsec_canary,", unfit(2, 2)),
        ("whsec_canary,,whsec_canary", unfit(2, 3)),
        ("whsec_canary;whsec_canary canary", unfit(1, 1)),
        (&long, unfit(1, 1)),
        (&nine, Some(WebhookSecretsUnusable::TooMany { count: 9 })),
    ];
    for (text, expected) in table {
        let found = WebhookSecrets::parse(text);
        let shown = match &found {
            Ok(secrets) => format!("{secrets:?}"),
            Err(error) => format!("{error:?} {error}"),
        };
        assert!(!shown.contains("canary"), "{shown}");
        assert_eq!(found.err(), expected, "{text:?}");
    }
    let unfit = WebhookSecrets::parse("whsec_a,b").unwrap_err().to_string();
    assert!(unfit.starts_with("webhook secret 2 of 2 is not one of Stripe's; needed is whsec_…"));
    assert_eq!(format!("{:?}", secrets("whsec_a,whsec_b")), "WebhookSecrets([redacted]; 2)");
}

#[test]
fn errors_say_what_to_check() {
    use WebhookError::{BadSignature, MalformedHeader, NoSignature, TooEarly, TooOld, Unreadable};
    let all = [BadSignature, MalformedHeader, NoSignature, TooEarly, TooOld, Unreadable];
    for error in all {
        let text = error.to_string();
        assert!(text.starts_with("the ") && !text.contains('\n'), "{text}");
        assert!(text.contains("; check "), "{text}");
        assert_eq!(all.iter().filter(|other| other.to_string() == text).count(), 1, "{text}");
    }
}

/// JSON of any form, with the names that events have among the keys.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "(evt_|re_|ch_|event|refund\\.|charge\\.refunded|\\PC){0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let key = "(id|object|type|data|charge|account|livemode|[a-z]{1,3})";
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_are_refused(
        header in "((t=|v1=|v0=|,|=|[0-9a-f]{2}|1793361600| )|\\PC){0,30}",
        body in prop::collection::vec(any::<u8>(), 0..200),
        now in any::<i64>(),
    ) {
        let found = verify(&secrets(CURRENT), &header, &body, Timestamp::from_millis(now));
        prop_assert!(found.is_err());
    }

    #[test]
    fn arbitrary_bytes_that_are_genuine_break_nothing(
        body in prop::collection::vec(any::<u8>(), 0..200),
        secs in 0..i64::MAX,
        now in any::<i64>(),
    ) {
        let header = format!("t={secs},v1={}", sign(CURRENT, &secs.to_string(), &body));
        let found = verify(&secrets(CURRENT), &header, &body, Timestamp::from_millis(now));
        prop_assert_ne!(found, Err(WebhookError::BadSignature));
    }

    #[test]
    fn arbitrary_events_are_read_or_refused(event in value()) {
        match read(&event) {
            Ok(found) => prop_assert_eq!(Some(found.id.as_str()), event["id"].as_str()),
            Err(error) => prop_assert_eq!(error, WebhookError::Unreadable),
        }
    }

    #[test]
    fn a_changed_bit_is_noticed(place in 0..BODY.len(), bit in 0..8_u8) {
        let mut body = BODY.as_bytes().to_vec();
        body[place] ^= 1 << bit;
        let header = format!("t={SIGNED},v1={KNOWN}");
        let found = verify(&secrets(CURRENT), &header, &body, at(SIGNED));
        prop_assert_eq!(found, Err(WebhookError::BadSignature));
    }
}
