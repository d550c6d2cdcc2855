//! From the bytes of a request to what the core is asked. Everything is checked here, whatever a
//! schema promised before; a doubt is refused by name.

mod major;

pub use major::{FinanceRefundRequest, parse_finance_refund};

use gate_core::{Ask, Justification, RefundReason, Target, Tool, Wanted};
use gate_money::{Amount, Currency};
use schemars::JsonSchema;
use serde::Serialize;

use crate::members::Members;
use crate::query::parse_key;
use crate::schema;
use crate::surface::{SurfaceError, shown};

/// The members that a request for a refund may have.
const MEMBERS: [&str; 7] =
    ["target", "amountMinor", "currency", "reason", "justification", "idempotencyKey", "dryRun"];

/// A request for a refund.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("additionalProperties" = false))]
pub struct RefundRequest {
    /// The payment to give back: a charge (ch_… or py_…) or a payment intent (pi_…).
    #[schemars(regex(pattern = r"^(ch|py|pi)_[A-Za-z0-9_]+$"), length(max = 255))]
    pub target: String,
    /// How much, in the currency's minor unit: 1250 is 12.50 EUR, and 500 is 500 JPY. Leave it out
    /// to refund everything that is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::amount_minor")]
    pub amount_minor: Option<i64>,
    /// The currency you believe the payment is in. If Stripe says otherwise nothing is refunded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = r"^[A-Za-z]{3}$"))]
    pub currency: Option<String>,
    /// Stripe's reason. `fraudulent` also puts the customer on Stripe's block lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::refund_reason")]
    pub reason: Option<String>,
    /// Why, for the people who review it. Decides nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 500))]
    pub justification: Option<String>,
    /// What makes this refund this refund, such as a ticket's number: the same key never refunds
    /// twice, another key is another refund. Keep it when you ask again.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = r"^[!-~]+$"), length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
    /// Only say what would be decided; nothing is recorded or refunded.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub dry_run: Option<bool>,
}

/// Reads a request for a refund from a JSON body.
///
/// # Errors
///
/// [`SurfaceError::InvalidRequest`], [`SurfaceError::InvalidAmount`] or
/// [`SurfaceError::InvalidTarget`]. A member that is `null` is refused too: whether it was meant as
/// "none" or as "all of it" is not ours to guess.
pub fn parse_ask(body: &[u8]) -> Result<Ask, SurfaceError> {
    let members = Members::parse(body, &MEMBERS)?;
    let key = members.string("idempotencyKey")?;
    Ok(Ask {
        tool: Tool::StripeRefund,
        target: target(&members)?,
        wanted: members.raw("amountMinor").map_or(Ok(Wanted::Full), amount_minor)?,
        believed_currency: currency(&members)?,
        reason: reason(&members)?,
        justification: justification(&members)?,
        key: key.as_deref().map(parse_key).transpose()?,
        dry_run: members.boolean("dryRun")?.unwrap_or(false),
    })
}

fn target(members: &Members<'_>) -> Result<Target, SurfaceError> {
    let invalid = |found: &str| SurfaceError::InvalidTarget {
        detail: format!(
            "`target` must be the id of a charge (ch_… or py_…) or of a payment intent (pi_…), and \
             is {found}"
        ),
    };
    let Some(raw) = members.raw("target") else {
        return Err(SurfaceError::invalid(
            "target",
            "is missing; give the id of a charge (ch_… or py_…) or of a payment intent (pi_…)",
        ));
    };
    let text = members.string("target").ok().flatten();
    text.and_then(|text| Target::parse(&text).ok()).ok_or_else(|| invalid(&shown(raw)))
}

/// An amount in minor units, from the digits of a JSON number. `1e2` and `1.0` are refused, though
/// they are whole: no writer of money writes them, and a float did.
fn amount_minor(raw: &str) -> Result<Wanted, SurfaceError> {
    match raw.parse() {
        Ok(minor @ 1..=Amount::MINOR_MAX) => Ok(Wanted::Minor(minor)),
        Ok(_) | Err(_) => Err(SurfaceError::InvalidAmount {
            field: "amountMinor",
            detail: format!(
                "must be a whole number from 1 to {}, written in digits alone, in the currency's \
                 minor unit, and is {}; leave it out to refund everything that is left",
                Amount::MINOR_MAX,
                shown(raw)
            ),
        }),
    }
}

fn currency(members: &Members<'_>) -> Result<Option<Currency>, SurfaceError> {
    let Some(code) = members.string("currency")? else {
        return Ok(None);
    };
    match Currency::parse(&code) {
        Ok(currency) => Ok(Some(currency)),
        Err(_) => Err(SurfaceError::invalid(
            "currency",
            &format!(
                "must be the code of a currency that Stripe knows, such as eur, and is {}; leave \
                 it out if you do not know it",
                shown(&code)
            ),
        )),
    }
}

fn reason(members: &Members<'_>) -> Result<Option<RefundReason>, SurfaceError> {
    let Some(name) = members.string("reason")? else {
        return Ok(None);
    };
    RefundReason::parse(&name).map(Some).ok_or_else(|| {
        let names = RefundReason::ALL.map(RefundReason::as_str).join(", ");
        SurfaceError::invalid(
            "reason",
            &format!(
                "must be one of {names}, and is {}; put your own words into `justification`",
                shown(&name)
            ),
        )
    })
}

/// Free text; an empty one says nothing and is none.
fn justification(members: &Members<'_>) -> Result<Option<Justification>, SurfaceError> {
    let text = members.string("justification")?;
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    Justification::parse(&text).map(Some).map_err(|count| {
        SurfaceError::invalid(
            "justification",
            &format!("has {count} characters and may have 500; shorten it"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Concern, Problem};
    use proptest::prelude::*;

    /// What a body is refused for: its code, and the member that is named.
    fn refusal(body: &[u8]) -> (&'static str, String) {
        let error = parse_ask(body).expect_err(&String::from_utf8_lossy(body));
        let problem = Problem::new(error, Concern::Refund, "req_1");
        (problem.code, problem.field.unwrap_or_default())
    }

    #[test]
    fn a_whole_request() {
        let ask = parse_ask(
            br#"{ "target": "ch_1", "amountMinor": 1250, "currency": "eur",
                  "reason": "requested_by_customer", "justification": "ticket 4821: parcel lost",
                  "idempotencyKey": "ticket-4821", "dryRun": false }"#,
        )
        .unwrap();
        assert_eq!(ask.target, Target::parse("ch_1").unwrap());
        assert_eq!(ask.wanted, Wanted::Minor(1250));
        assert_eq!(ask.believed_currency, Some(Currency::EUR));
        assert_eq!(ask.reason, Some(RefundReason::RequestedByCustomer));
        assert_eq!(ask.justification.unwrap().as_str(), "ticket 4821: parcel lost");
        assert_eq!(ask.key.unwrap().as_str(), "ticket-4821");
        assert!(!ask.dry_run);
    }

    #[test]
    fn target_alone_is_required() {
        for target in ["ch_1", "py_1", "pi_1"] {
            let ask = parse_ask(format!(r#"{{"target":"{target}"}}"#).as_bytes()).unwrap();
            let expected = Ask {
                tool: Tool::StripeRefund,
                target: Target::parse(target).unwrap(),
                wanted: Wanted::Full,
                believed_currency: None,
                reason: None,
                justification: None,
                key: None,
                dry_run: false,
            };
            assert_eq!(ask, expected);
        }
    }

    #[test]
    fn amounts_are_integers_from_1_to_2_to_the_53_less_1() {
        #[rustfmt::skip]
        let table = [
            // value                 amount, or the code
            ("1",                    "1"),
            ("1250",                 "1250"),
            ("9007199254740991",     "9007199254740991"),
            ("9007199254740992",     "invalid_amount"),
            ("9007199254740993.0",   "invalid_amount"),
            ("99999999999999999999", "invalid_amount"),
            ("0",                    "invalid_amount"),
            ("-0",                   "invalid_amount"),
            ("-5",                   "invalid_amount"),
            ("-9223372036854775809", "invalid_amount"),
            ("1.0",                  "invalid_amount"),
            ("100.0",                "invalid_amount"),
            ("3.5",                  "invalid_amount"),
            ("0.001",                "invalid_amount"),
            ("1e2",                  "invalid_amount"),
            ("1E2",                  "invalid_amount"),
            ("1e20",                 "invalid_amount"),
            ("1e400",                "invalid_amount"),
            ("\"3\"",                "invalid_amount"),
            ("\"\"",                 "invalid_amount"),
            ("true",                 "invalid_amount"),
            ("null",                 "invalid_amount"),
            ("[1]",                  "invalid_amount"),
            ("{\"minor\":1}",        "invalid_amount"),
            ("01",                   "invalid_request"),
            ("+1",                   "invalid_request"),
            ("1,000",                "invalid_request"),
            ("1_000",                "invalid_request"),
            ("NaN",                  "invalid_request"),
            ("Infinity",             "invalid_request"),
        ];
        for (value, expected) in table {
            let body = format!(r#"{{"target":"ch_1","amountMinor":{value}}}"#);
            let found = match parse_ask(body.as_bytes()) {
                Ok(ask) => match ask.wanted {
                    Wanted::Full => "everything".to_owned(),
                    Wanted::Minor(minor) => minor.to_string(),
                },
                Err(_) => refusal(body.as_bytes()).0.to_owned(),
            };
            assert_eq!(found, expected, "{value}");
        }
    }

    #[test]
    fn what_will_not_do_is_refused_by_name() {
        let long =
            |name: &str, count| format!(r#"{{"target":"ch_1","{name}":"{}"}}"#, "x".repeat(count));
        let (too_many_words, long_key) = (long("justification", 501), long("idempotencyKey", 256));
        #[rustfmt::skip]
        let table: [(&[u8], &str, &str); 41] = [
            // body                                             code               member
            (b"",                                               "invalid_request", ""),
            (b" \n",                                            "invalid_request", ""),
            (b"{",                                              "invalid_request", ""),
            (b"[]",                                             "invalid_request", ""),
            (b"null",                                           "invalid_request", ""),
            (b"\"ch_1\"",                                       "invalid_request", ""),
            (b"target=ch_1",                                    "invalid_request", ""),
            (b"{\"target\":\"ch_1\"} {}",                       "invalid_request", ""),
            (b"{\"target\":\"ch_1\",}",                         "invalid_request", ""),
            (b"\xef\xbb\xbf{\"target\":\"ch_1\"}",              "invalid_request", ""),
            (b"{\"target\":\"ch_\xff\"}",                       "invalid_request", ""),
            (b"{}",                                             "invalid_request", "target"),
            (br#"{"target":"ch_1","amount":5}"#,                "invalid_request", "amount"),
            (br#"{"target":"ch_1","amount_minor":5}"#,          "invalid_request", "amount_minor"),
            (br#"{"target":"ch_1","Target":"ch_1"}"#,           "invalid_request", "Target"),
            (br#"{"target":"ch_1","":1}"#,                      "invalid_request", ""),
            (br#"{"target":"ch_1","target":"ch_1"}"#,           "invalid_request", "target"),
            (br#"{"target":"ch_1","t\u0061rget":"ch_2"}"#,      "invalid_request", "target"),
            (br#"{"target":"ch_1","dryRun":true,"dryRun":false}"#, "invalid_request", "dryRun"),
            (br#"{"target":""}"#,                               "invalid_target",  "target"),
            (br#"{"target":" "}"#,                              "invalid_target",  "target"),
            (br#"{"target":"re_1"}"#,                           "invalid_target",  "target"),
            (br#"{"target":"ch_../../x"}"#,                     "invalid_target",  "target"),
            (br#"{"target":"ch_1\u0000"}"#,                     "invalid_target",  "target"),
            (br#"{"target":"\ud800"}"#,                         "invalid_target",  "target"),
            (br#"{"target":null}"#,                             "invalid_target",  "target"),
            (br#"{"target":["ch_1"]}"#,                         "invalid_target",  "target"),
            (br#"{"target":"ch_1","currency":"xyz"}"#,          "invalid_request", "currency"),
            (br#"{"target":"ch_1","currency":" eur"}"#,         "invalid_request", "currency"),
            (br#"{"target":"ch_1","currency":978}"#,            "invalid_request", "currency"),
            (br#"{"target":"ch_1","currency":null}"#,           "invalid_request", "currency"),
            (br#"{"target":"ch_1","reason":"lost parcel"}"#,    "invalid_request", "reason"),
            (br#"{"target":"ch_1","reason":null}"#,             "invalid_request", "reason"),
            (br#"{"target":"ch_1","justification":7}"#,         "invalid_request", "justification"),
            (too_many_words.as_bytes(),                         "invalid_request", "justification"),
            (br#"{"target":"ch_1","idempotencyKey":""}"#,       "invalid_request", "idempotencyKey"),
            (br#"{"target":"ch_1","idempotencyKey":"a b"}"#,    "invalid_request", "idempotencyKey"),
            (long_key.as_bytes(),                               "invalid_request", "idempotencyKey"),
            (br#"{"target":"ch_1","dryRun":"false"}"#,          "invalid_request", "dryRun"),
            (br#"{"target":"ch_1","dryRun":0}"#,                "invalid_request", "dryRun"),
            (br#"{"target":"ch_1","dryRun":null}"#,             "invalid_request", "dryRun"),
        ];
        for (body, code, member) in table {
            let found = refusal(body);
            let text = String::from_utf8_lossy(body);
            assert_eq!((found.0, found.1.as_str()), (code, member), "{text}");
        }
    }

    #[test]
    fn what_is_just_within_its_bounds_is_taken() {
        let body = |name: &str, value: &str| format!(r#"{{"target":"ch_1","{name}":"{value}"}}"#);
        let words = "ü".repeat(500);
        let ask = parse_ask(body("justification", &words).as_bytes()).unwrap();
        assert_eq!(ask.justification.unwrap().as_str(), words);
        let ask = parse_ask(body("justification", "").as_bytes()).unwrap();
        assert_eq!(ask.justification, None);
        let ask = parse_ask(body("idempotencyKey", &"k".repeat(255)).as_bytes()).unwrap();
        assert_eq!(ask.key.unwrap().as_str().len(), 255);
        let ask = parse_ask(body("currency", "JPY").as_bytes()).unwrap();
        assert_eq!(ask.believed_currency, Some(Currency::JPY));
    }

    #[test]
    fn bodies_that_are_not_json_say_where() {
        let error = parse_ask(b"{\n \"target\": ch_1}").unwrap_err();
        assert_eq!(error.to_string(), "the body is not JSON: expected value at line 2 column 12");
    }

    #[test]
    fn deep_nesting_is_refused_like_anything_else() {
        let body = format!(r#"{{"target":{}1{}}}"#, "[".repeat(8000), "]".repeat(8000));
        assert_eq!(refusal(body.as_bytes()).0, "invalid_target");
    }

    /// The schema that callers see and the parser agree on every name and on what is required.
    #[test]
    fn the_schema_is_the_parsers() {
        let schema = schemars::generate::SchemaSettings::draft2020_12()
            .for_serialize()
            .into_generator()
            .into_root_schema_for::<RefundRequest>();
        let names: Vec<&String> =
            schema.get("properties").unwrap().as_object().unwrap().keys().collect();
        assert_eq!(names, MEMBERS);
        assert_eq!(schema.get("required").unwrap(), &serde_json::json!(["target"]));
        assert_eq!(schema.get("additionalProperties").unwrap(), false);
        let text = serde_json::to_string(&schema).unwrap();
        assert!(!text.contains("null"), "{text}");
    }

    #[test]
    fn what_the_struct_writes_the_parser_reads() {
        let request = RefundRequest {
            target: "ch_1".to_owned(),
            amount_minor: Some(5),
            currency: Some("eur".to_owned()),
            reason: Some("duplicate".to_owned()),
            justification: Some("…".to_owned()),
            idempotency_key: Some("k".to_owned()),
            dry_run: Some(true),
        };
        let ask = parse_ask(&serde_json::to_vec(&request).unwrap()).unwrap();
        assert_eq!((ask.wanted, ask.dry_run), (Wanted::Minor(5), true));
        let least = RefundRequest { target: "pi_1".to_owned(), ..RefundRequest::default() };
        assert_eq!(serde_json::to_string(&least).unwrap(), r#"{"target":"pi_1"}"#);
    }

    /// Values that are right, nearly right and wrong, for any member.
    fn value() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<i64>().prop_map(|minor| minor.to_string()),
            (1..=Amount::MINOR_MAX).prop_map(|minor| minor.to_string()),
            (any::<i32>(), -20..20).prop_map(|(digits, power)| format!("{digits}e{power}")),
            (any::<u32>(), any::<u16>()).prop_map(|(whole, rest)| format!("{whole}.{rest}")),
            "\\PC{0,8}".prop_map(|text| serde_json::to_string(&text).unwrap()),
            Just("\"ch_1\"".to_owned()),
            Just("null".to_owned()),
            Just("true".to_owned()),
            "\\PC{0,4}",
        ]
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_ask(&body);
        }

        #[test]
        fn what_is_taken_has_an_amount_in_range(
            members in proptest::collection::vec((0..MEMBERS.len(), value()), 0..6),
        ) {
            let mut text = r#"{"target":"ch_1""#.to_owned();
            for (index, value) in members {
                text.push_str(&format!(r#","{}":{value}"#, MEMBERS[index]));
            }
            text.push('}');
            if let Ok(ask) = parse_ask(text.as_bytes())
                && let Wanted::Minor(minor) = ask.wanted
            {
                prop_assert!((1..=Amount::MINOR_MAX).contains(&minor), "{}", text);
            }
        }

        /// Whatever an agent writes as its justification changes nothing else.
        #[test]
        fn words_decide_nothing(words in "\\PC{1,500}", minor in 1..=Amount::MINOR_MAX) {
            let with = |words: &str| {
                let words = serde_json::to_string(words).unwrap();
                let body = format!(
                    r#"{{"justification":{words},"target":"ch_1","amountMinor":{minor}}}"#
                );
                parse_ask(body.as_bytes()).unwrap()
            };
            let (mut one, other) = (with(&words), with("plain"));
            prop_assert_eq!(one.justification.as_ref().unwrap().as_str(), words.as_str());
            one.justification.clone_from(&other.justification);
            prop_assert_eq!(one, other);
        }
    }
}
