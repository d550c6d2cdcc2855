//! Each problem, its status, its words and its extras.

use super::*;
use crate::problem_code::ProblemCode;
use gate_core::{IntentId, State};
use gate_money::{Amount, Currency, MoneyError};

fn eur(minor: i64) -> Amount {
    Amount::new(minor, Currency::EUR).unwrap()
}

fn intent_id() -> IntentId {
    IntentId::parse("int_1").unwrap()
}

/// Every error of the core.
fn actions() -> Vec<(ActionError, u16, &'static str, &'static str)> {
    use ActionError as E;
    let livemode = true;
    let account = Some("acct_1".to_owned());
    let kwd: MoneyError = Amount::new(1505, Currency::KWD).unwrap_err();
    #[rustfmt::skip]
    let table = vec![
        // error                                                        status  code                      retry
        (E::AmountOverRefundable { asked: eur(1001), left: eur(1000) },    422, "amount_over_refundable",  "never"),
        (E::ApprovalNotFound,                                              404, "approval_not_found",      "never"),
        (E::AuthorityError { detail: "row 17 is torn".to_owned() },        502, "authority_error",         "same_key"),
        (E::AuthorityUnavailable,                                          503, "authority_unavailable",   "same_key"),
        (E::ChargeAlreadyRefunded { by: Some(intent_id()) },               422, "charge_already_refunded", "never"),
        (E::ChargeAlreadyRefunded { by: None },                            422, "charge_already_refunded", "never"),
        (E::ChargeDisputed,                                                422, "charge_disputed",         "never"),
        (E::ChargeNotCaptured,                                             422, "charge_not_captured",     "never"),
        (E::ChargeNotFound { livemode, account },                          404, "charge_not_found",        "never"),
        (E::ChargeNotPaid,                                                 422, "charge_not_paid",         "never"),
        (E::ChargeNotReady,                                                409, "charge_not_ready",        "later"),
        (E::ChargeNotRefundable,                                           422, "charge_not_refundable",   "never"),
        (E::CurrencyMismatch { believed: Currency::USD, charged: Currency::JPY }, 400, "currency_mismatch", "never"),
        (E::IdempotencyKeyReused { argument: "reason", intent: intent_id() }, 409, "idempotency_key_reused", "never"),
        (E::IntentNotFound,                                                404, "intent_not_found",        "never"),
        (E::InvalidAmount(kwd),                                            400, "invalid_amount",          "never"),
        (E::LivemodeMismatch,                                              422, "livemode_mismatch",       "never"),
        (E::NotCancelable { state: State::Submitted },                     409, "not_cancelable",          "never"),
        (E::ShuttingDown,                                                  503, "shutting_down",           "same_key"),
        (E::StoreUnavailable,                                              503, "store_unavailable",       "same_key"),
        (E::StripeError { detail: "the answer could not be read" },        502, "stripe_error",            "same_key"),
        (E::StripeKeyMissing,                                              503, "stripe_key_missing",      "later"),
        (E::StripePermission { permission: "Charges Read".to_owned() },    502, "stripe_permission",       "never"),
        (E::StripeUnavailable,                                             503, "stripe_unavailable",      "same_key"),
        (E::Unauthenticated,                                               401, "unauthenticated",         "never"),
    ];
    table
}

/// Every error that does not reach the core.
fn surfaces() -> Vec<(SurfaceError, u16, &'static str, &'static str)> {
    use SurfaceError as E;
    let detail = || "`currency` must be …".to_owned();
    let after = Duration::from_millis(1500);
    #[rustfmt::skip]
    let table = vec![
        // error                                                     status  code                       retry
        (E::BodyTooLarge { bytes_max: 16_384 },                         413, "body_too_large",          "never"),
        (E::GatewayAnswerLost,                                          504, "gateway_answer_lost",     "same_key"),
        (E::GatewayNotConfigured { variable: "BURNBOUND_KEY" },         503, "gateway_not_configured",  "never"),
        (E::GatewayUnavailable,                                         503, "gateway_unavailable",     "same_key"),
        (E::HostRefused { host: "evil.example".to_owned() },            403, "host_refused",            "never"),
        (E::HttpMethodNotAllowed { allow: "GET" },                      405, "http_method_not_allowed", "never"),
        (E::InvalidAmount { field: "amountMinor", detail: detail() },   400, "invalid_amount",          "never"),
        (E::InvalidRequest { field: Some("currency".to_owned()), detail: detail() }, 400, "invalid_request", "never"),
        (E::InvalidTarget { detail: detail() },                         400, "invalid_target",          "never"),
        (E::NotFound,                                                   404, "not_found",               "never"),
        (E::OriginRefused { origin: "https://evil.example".to_owned() }, 403, "origin_refused",         "never"),
        (E::RateLimited { after },                                      429, "rate_limited",            "later"),
        (E::Recovering,                                                 503, "recovering",              "later"),
        (E::ToolNotGranted { tool: "finance_balance".to_owned() },      403, "tool_not_granted",        "never"),
        (E::UnsupportedMediaType,                                       415, "unsupported_media_type",  "never"),
    ];
    table
}

/// Everything that keeps Stripe from being read for staff.
fn connector() -> Vec<(ConnectorError, u16, &'static str, &'static str)> {
    use ConnectorError as E;
    let after = Duration::from_millis(1500);
    let permission = "Disputes: Read".to_owned();
    vec![
        // error                    status  code                  retry
        (E::Busy { after }, 429, "rate_limited", "later"),
        (E::CursorRefused, 400, "invalid_request", "never"),
        (E::KeyMissing, 503, "stripe_key_missing", "later"),
        (E::KeyRefused, 502, "stripe_permission", "never"),
        (E::Paused { after }, 503, "stripe_unavailable", "same_key"),
        (E::Permission { permission }, 502, "stripe_permission", "never"),
        (E::Unavailable, 503, "stripe_unavailable", "same_key"),
        (E::Unreadable, 502, "stripe_error", "same_key"),
    ]
}

fn all() -> Vec<(SurfaceError, u16, &'static str, &'static str)> {
    let actions = actions().into_iter();
    let actions = actions.map(|(error, status, code, retry)| (error.into(), status, code, retry));
    let connector = connector().into_iter();
    let connector =
        connector.map(|(error, status, code, retry)| (error.into(), status, code, retry));
    actions.chain(surfaces()).chain(connector).collect()
}

#[test]
fn every_error_has_its_status_code_and_retry() {
    for (error, status, code, retry) in all() {
        let found = error.code();
        let problem = Problem::new(error.clone(), Concern::Refund, "req_1");
        assert_eq!((problem.status, problem.code, problem.retry), (status, code, retry));
        assert_eq!(found.retry().as_str(), retry, "the manual's {code}");
        if let SurfaceError::Action(error) = &error {
            assert_eq!(error.code(), code, "the core's name");
        }
    }
    for code in ProblemCode::ALL {
        let listed = all().iter().any(|(_, _, listed, _)| *listed == code.as_str());
        assert!(listed, "{code:?} is never a problem");
    }
}

#[test]
fn details_say_what_happened_to_the_money_and_what_to_do() {
    for (error, _, code, _) in all() {
        let refund = Problem::new(error.clone(), Concern::Refund, "req_1").detail;
        let records = Problem::new(error.clone(), Concern::Records, "req_1").detail;
        let nothing = match code {
            "authority_unavailable" => {
                "Nothing has been sent to Stripe. Ask again with the same key before you refund in \
                 another way."
            }
            "gateway_answer_lost" => "The refund may have been made;",
            _ => "Nothing was refunded.",
        };
        assert!(refund.contains(nothing), "{code}: {refund}");
        let lost = code == "gateway_answer_lost";
        assert!(!(lost && refund.contains("Nothing")), "{code}: {refund}");
        // A failed read knows nothing of the refund it was to read.
        assert!(!records.contains("Nothing "), "{code}: {records}");
        for detail in [&refund, &records] {
            assert!(detail.ends_with(['.', '…']) && !detail.contains(".."), "{code}: {detail}");
            assert!(!detail.contains("  "), "{code}: {detail}");
            assert!(!detail.starts_with(char::is_lowercase), "{code}: {detail}");
        }
    }
}

#[test]
fn details_name_the_facts() {
    #[rustfmt::skip]
    let table = [
        ("amount_over_refundable", "10.01 EUR were asked and 10.00 EUR can still be refunded"),
        ("charge_not_found",       "in live mode of account acct_1"),
        ("currency_mismatch",      "says USD and the charge is in JPY"),
        ("idempotency_key_reused", "intent int_1, which was asked with another `reason`"),
        ("invalid_amount",         "nearest amounts that would are 1500 and 1510"),
        ("charge_not_captured",    "cancel the payment, do not refund it"),
        ("not_cancelable",         "the intent is submitted"),
        ("stripe_permission",      "Charges Read"),
        ("host_refused",           "`evil.example`; use its own name, or have the operator add this one to GATEWAY_ALLOWED_HOSTS"),
        ("origin_refused",         "`https://evil.example`"),
        ("rate_limited",           "wait 2 seconds"),
        ("body_too_large",         "16384 bytes"),
    ];
    for (code, fact) in table {
        let (error, ..) = all().into_iter().find(|(_, _, listed, _)| *listed == code).unwrap();
        let detail = Problem::new(error, Concern::Refund, "req_1").detail.to_lowercase();
        assert!(detail.contains(&fact.to_lowercase()), "{code}: {detail}");
    }
}

#[test]
fn what_is_for_the_log_stays_there() {
    let detail = "row 17 is torn".to_owned();
    let problem = Problem::new(ActionError::AuthorityError { detail }, Concern::Refund, "req_1");
    assert!(!serde_json::to_string(&problem).unwrap().contains("row 17"));
}

#[test]
fn headers_go_with_it() {
    for (error, _, code, retry) in all() {
        let paused = matches!(error, SurfaceError::Connector(ConnectorError::Paused { .. }));
        let headers = Problem::new(error, Concern::Refund, "req_1").headers;
        let headers: Vec<(&str, &str)> = headers.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let expected: &[(&str, &str)] = match (code, retry) {
            ("unauthenticated", _) => &[("WWW-Authenticate", "Bearer")],
            ("http_method_not_allowed", _) => &[("Allow", "GET")],
            ("rate_limited", _) => &[("Retry-After", "2")],
            _ if paused => &[("Retry-After", "2")],
            (_, "later") => &[("Retry-After", "60")],
            _ => &[],
        };
        assert_eq!(headers, expected, "{code}");
    }
}

#[test]
fn golden() {
    let left = eur(1000);
    let error = ActionError::AmountOverRefundable { asked: eur(1001), left };
    assert_eq!(
        serde_json::to_string(&Problem::new(error, Concern::Refund, "req_1")).unwrap(),
        concat!(
            r#"{"title":"More was asked than is left","status":422,"#,
            r#""detail":"10.01 EUR were asked and 10.00 EUR can still be refunded of this charge. "#,
            r#"Nothing was refunded. Ask for no more than what is left, or leave the amount out "#,
            r#"to refund all of it.","code":"amount_over_refundable","retry":"never","#,
            r#""requestId":"req_1","left":{"minor":1000,"currency":"eur","decimals":2,"#,
            r#""text":"10.00 EUR"}}"#
        )
    );
}

#[test]
fn a_cursor_that_is_refused_is_named() {
    let problem = Problem::new(ConnectorError::CursorRefused, Concern::Records, "req_1");
    assert_eq!(problem.field.as_deref(), Some("cursor"));
    assert!(problem.detail.contains("leave it out to start with the newest"), "{}", problem.detail);
}

#[test]
fn fields_and_intents_are_named() {
    #[rustfmt::skip]
    let table = [
        // code                     field               intent
        ("invalid_target",          Some("target"),     None),
        ("idempotency_key_reused",  Some("reason"),     Some("int_1")),
        ("charge_already_refunded", None,               Some("int_1")),
        ("invalid_request",         Some("currency"),   None),
        ("unauthenticated",         None,               None),
    ];
    for (code, field, intent) in table {
        let (error, ..) = all().into_iter().find(|(_, _, listed, _)| *listed == code).unwrap();
        let problem = Problem::new(error, Concern::Refund, "req_1");
        assert_eq!(problem.field.as_deref(), field, "{code}");
        assert_eq!(problem.intent_id.as_deref(), intent, "{code}");
    }
}
