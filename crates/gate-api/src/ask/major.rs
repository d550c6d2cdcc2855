//! A refund as staff ask for it: of a payment intent, and in whole units of its currency.

use gate_core::{Ask, Target, Tool, Wanted};
use gate_money::{Amount, Currency, MoneyError};
use schemars::JsonSchema;
use serde::Serialize;

use super::{justification, reason};
use crate::members::Members;
use crate::query::parse_key;
use crate::schema;
use crate::surface::{SurfaceError, shown};

const PAYMENT_INTENT: &str = "payment_intent";
const AMOUNT: &str = "amount";
const MEMBERS: [&str; 5] = [PAYMENT_INTENT, AMOUNT, "reason", "justification", "idempotencyKey"];

/// Most digits of an amount that is a JSON number: with as many, every reader on the way, be it one
/// that reads numbers into floats, writes the same digits again.
const NUMBER_DIGITS_MAX: usize = 15;

/// What `finance_refund` takes.
#[derive(Clone, Debug, Default, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(extend("additionalProperties" = false))]
pub struct FinanceRefundRequest {
    /// The payment to give back, pi_…
    #[schemars(regex(pattern = r"^pi_[A-Za-z0-9_]+$"), length(max = 255))]
    pub payment_intent: String,
    /// How much, in whole units of the payment's own currency, as text: "20" or "20.50". Leave it
    /// out to refund everything that is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = r"^[0-9]+(\.[0-9]+)?$"))]
    pub amount: Option<String>,
    /// Stripe's reason. `fraudulent` also puts the customer on Stripe's block lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::refund_reason")]
    pub reason: Option<String>,
    /// Why, for the people who decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", length(max = 500))]
    pub justification: Option<String>,
    /// What makes this refund this refund, such as a ticket's number. Keep it when you ask again.
    #[serde(rename = "idempotencyKey", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", regex(pattern = r"^[!-~]+$"), length(min = 1, max = 255))]
    pub idempotency_key: Option<String>,
}

/// Reads the arguments of `finance_refund` from JSON. The amount comes beside the ask, as it was
/// written: what it is in minor units only the payment's currency says. Without one, everything is
/// asked for.
///
/// # Errors
///
/// [`SurfaceError::InvalidRequest`] or [`SurfaceError::InvalidAmount`], naming the argument.
pub fn parse_finance_refund(body: &[u8]) -> Result<(Ask, Option<String>), SurfaceError> {
    let members = Members::parse(body, &MEMBERS)?;
    let key = members.string("idempotencyKey")?;
    let ask = Ask {
        tool: Tool::FinanceRefund,
        reason: reason(&members)?,
        justification: justification(&members)?,
        key: key.as_deref().map(parse_key).transpose()?,
        ..Ask::new(payment_intent(&members)?, Wanted::Full)
    };
    Ok((ask, amount(&members)?))
}

fn payment_intent(members: &Members<'_>) -> Result<Target, SurfaceError> {
    let Some(text) = members.string(PAYMENT_INTENT)? else {
        let detail = "is missing; give the id of the payment, pi_…";
        return Err(SurfaceError::invalid(PAYMENT_INTENT, detail));
    };
    match Target::parse(&text) {
        Ok(target @ Target::PaymentIntent(_)) => Ok(target),
        Ok(Target::Charge(_)) | Err(_) => Err(SurfaceError::invalid(
            PAYMENT_INTENT,
            &format!("must be the id of a payment intent, pi_…, and is {}", shown(&text)),
        )),
    }
}

/// The digits of an amount that some currency has.
fn amount(members: &Members<'_>) -> Result<Option<String>, SurfaceError> {
    let Some(raw) = members.raw(AMOUNT) else {
        return Ok(None);
    };
    let invalid = |what: String| {
        Err(SurfaceError::InvalidAmount {
            field: AMOUNT,
            detail: format!("{what}; leave it out to refund everything that is left"),
        })
    };
    let text = if raw.starts_with('"') { members.string(AMOUNT)? } else { Some(raw.to_owned()) };
    let Some(text) = text else {
        return Ok(None);
    };
    let digits = raw.bytes().filter(u8::is_ascii_digit).count();
    if !raw.starts_with('"') && digits > NUMBER_DIGITS_MAX {
        return invalid(format!(
            "has {digits} digits, and as a number it may have {NUMBER_DIGITS_MAX}; write it as text"
        ));
    }
    // No currency has more decimals than this one. Whether its own takes the amount is seen later.
    match Amount::parse_major(&text, Currency::KWD) {
        Ok(_) => Ok(Some(text)),
        Err(MoneyError::InvalidAmount { minor, .. }) if minor > 0 => Ok(Some(text)),
        Err(_) => invalid(format!(
            "must be above zero, in whole units of the payment's currency, written like \"20\" or \
             \"20.50\", and is {}",
            shown(raw)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Concern, Problem};

    #[test]
    fn amounts_keep_their_digits() {
        #[rustfmt::skip]
        let table = [
            // as it comes           what is asked
            (r#""20""#,              "20"),
            (r#""20.50""#,           "20.50"),
            (r#""20.005""#,          "20.005"),
            (r#""9007199254740.993""#, "9007199254740.993"),
            ("20",                   "20"),
            ("20.5",                 "20.5"),
            ("20.50",                "20.50"),
            ("2e1",                  "2e1"),
            ("0.1",                  "0.1"),
            ("123456789012.345",     "123456789012.345"),
            ("1234567890123.456",    "invalid_amount amount"),
            ("20.0005",              "invalid_amount amount"),
            (r#""20.000000""#,       "invalid_amount amount"),
            ("0",                    "invalid_amount amount"),
            (r#""0.00""#,            "invalid_amount amount"),
            ("-5",                   "invalid_amount amount"),
            (r#""-5""#,              "invalid_amount amount"),
            (r#""1,000""#,           "invalid_amount amount"),
            (r#""20 EUR""#,          "invalid_amount amount"),
            (r#""""#,                "invalid_amount amount"),
            (r#""NaN""#,             "invalid_amount amount"),
            ("1e-9",                 "invalid_amount amount"),
            ("null",                 "invalid_amount amount"),
            ("true",                 "invalid_amount amount"),
            ("[20]",                 "invalid_amount amount"),
        ];
        for (raw, expected) in table {
            let body = format!(r#"{{"payment_intent":"pi_1","amount":{raw}}}"#);
            let found = match parse_finance_refund(body.as_bytes()) {
                Ok((ask, amount)) => {
                    assert_eq!((ask.tool, ask.wanted), (Tool::FinanceRefund, Wanted::Full));
                    amount.unwrap_or_default()
                }
                Err(error) => {
                    let problem = Problem::new(error, Concern::Refund, "req_1");
                    format!("{} {}", problem.code, problem.field.unwrap_or_default())
                }
            };
            assert_eq!(found, expected, "{raw}");
        }
    }

    #[test]
    fn what_will_not_do_is_named() {
        #[rustfmt::skip]
        let table = [
            ("{}",                                                "payment_intent",   "is missing"),
            (r#"{"payment_intent":"ch_1"}"#,                      "payment_intent",   "pi_…, and is"),
            (r#"{"payment_intent":7}"#,                           "payment_intent",   "must be a string"),
            (r#"{"target":"pi_1"}"#,                              "target",           "payment_intent, amount"),
            (r#"{"payment_intent":"pi_1","amountMinor":5}"#,      "amountMinor",      "not known here"),
            (r#"{"payment_intent":"pi_1","reason":"angry"}"#,     "reason",           "justification"),
            (r#"{"payment_intent":"pi_1","idempotencyKey":"a b"}"#, "idempotencyKey", "must be"),
            (r#"{"payment_intent":"pi_1","dryRun":true}"#,        "dryRun",           "not known here"),
        ];
        for (body, field, said) in table {
            let error = parse_finance_refund(body.as_bytes()).unwrap_err();
            let problem = Problem::new(error, Concern::Refund, "req_1");
            assert_eq!(problem.field.as_deref(), Some(field), "{body}");
            assert!(problem.detail.contains(said), "{}", problem.detail);
        }
        let (ask, amount) = parse_finance_refund(
            br#"{"payment_intent":"pi_1","reason":"duplicate","idempotencyKey":"k","justification":"twice"}"#,
        )
        .unwrap();
        assert_eq!((amount, ask.wanted), (None, Wanted::Full));
        assert_eq!(ask.target.as_str(), "pi_1");
        assert!(ask.key.is_some() && ask.reason.is_some() && ask.justification.is_some());
    }
}
