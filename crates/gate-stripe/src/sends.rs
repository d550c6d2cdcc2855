//! What the answer to an attempt at a refund comes to. The one place where a send's faults get
//! their class, and the words that the agent reads.
//!
//! Invariant *doubt-is-not-failure*: refused is only what Stripe refuses readably, in a way that
//! is known to mean that nothing moved. Whatever is unclear is unknown.

use gate_core::bugs::{self, Bug};
use gate_core::{Channel, Doubt, FailureCode, Hold, Refund, Refusal, SendError, Ticket};
use gate_http::{Response, TransportError};

use crate::permissions::Resource;
use crate::problem::{Problem, fit_to_show};
use crate::reads::missing_permission;
use crate::wire::RefundWire;

/// The class of an attempt.
pub(crate) fn outcome(
    answer: Result<Response, TransportError>,
    ticket: &Ticket,
    channel: &Channel,
) -> Result<Refund, SendError> {
    let refund = classify(answer, channel)?;
    match &refund.intent {
        // Another intent's refund under our key cannot be: claiming it would hide what happened.
        Some(intent) if intent != ticket.intent() => {
            Err(unknown("Stripe answered with a refund of another intent", true))
        }
        Some(_) | None => Ok(refund),
    }
}

fn classify(
    answer: Result<Response, TransportError>,
    channel: &Channel,
) -> Result<Refund, SendError> {
    let response = match answer {
        Ok(response) => response,
        Err(TransportError::NotSent { .. }) => {
            return Err(SendError::NotSent(Doubt {
                message: "Stripe could not be reached and nothing was sent; ask again later with \
                          the same key"
                    .to_owned(),
                after: None,
                give_up: false,
            }));
        }
        Err(TransportError::TimedOut) if bugs::on(Bug::TimeoutIsNotSent) => {
            return Err(SendError::NotSent(Doubt::default()));
        }
        Err(TransportError::Broken { .. }) if bugs::on(Bug::BrokenIsNotSent) => {
            return Err(SendError::NotSent(Doubt::default()));
        }
        Err(TransportError::TimedOut) => {
            return Err(unknown("Stripe did not answer in time", false));
        }
        Err(TransportError::Broken { .. }) => {
            return Err(unknown("the connection to Stripe broke", false));
        }
        Err(TransportError::TooLarge { .. }) => {
            return Err(unknown("Stripe's answer was too long to be read", false));
        }
    };
    let problem = Problem::of(&response);
    if let Some(hold) = problem.hold {
        return Err(SendError::Held(Hold { key: channel.key.clone(), ..hold }));
    }
    match problem.status {
        200..=299 => serde_json::from_slice::<RefundWire>(&response.body)
            .ok()
            .and_then(|refund| refund.into_refund().ok())
            .ok_or_else(|| unknown("Stripe's answer could not be read", false)),
        401 => Err(SendError::NotStored(Doubt {
            message: "Stripe refuses the gateway's key; nothing was refunded in this attempt; an \
                      operator has to replace the key"
                .to_owned(),
            after: None,
            give_up: true,
        })),
        403 => Err(SendError::NotStored(Doubt {
            message: format!(
                "the gateway's Stripe key lacks the permission {}; nothing was refunded in this \
                 attempt; an operator has to allow it",
                missing_permission(&problem, Resource::Refunds.write(), channel)
            ),
            after: None,
            give_up: true,
        })),
        429 => Err(SendError::NotStored(Doubt {
            message: "Stripe asks for patience (429); nothing was refunded in this attempt; ask \
                      again later with the same key"
                .to_owned(),
            after: problem.after,
            give_up: problem.should_retry == Some(false),
        })),
        500 if bugs::on(Bug::Stored500IsFailure) => Err(SendError::Refused(refusal(&problem))),
        400 | 402 | 404 if is_refusal(&problem) => Err(SendError::Refused(refusal(&problem))),
        _ => Err(SendError::Unknown(doubt(&problem))),
    }
}

fn unknown(seen: &str, give_up: bool) -> SendError {
    SendError::Unknown(Doubt { message: in_doubt(seen), after: None, give_up })
}

fn in_doubt(seen: &str) -> String {
    format!(
        "{seen}; whether the refund was made is not known yet; ask again with the same key to learn it"
    )
}

/// Whether a 400, 402 or 404 says that nothing moved and never will under this key.
fn is_refusal(problem: &Problem) -> bool {
    let business = ["invalid_request_error", "card_error"].contains(&problem.kind.as_str());
    let known = problem.kind.is_empty() && known_refusal(problem).is_some();
    problem.readable
        && (business || known)
        && !problem.is_about_load()
        && problem.should_retry != Some(true)
}

/// Doubt about an answer that is neither a refund nor a refusal.
fn doubt(problem: &Problem) -> Doubt {
    let request = problem.named_request();
    let status = problem.status;
    if problem.kind == "idempotency_error" && !problem.is_about_load() {
        // Only possible when other bytes were sent under this intent's key: somebody has to look.
        tracing::error!(
            http.status = status,
            stripe.request_id = problem.request_id,
            "Stripe holds another request under this intent's idempotency key"
        );
        return Doubt {
            message: in_doubt(&format!(
                "Stripe holds another request under this refund's key{request}"
            )),
            after: None,
            give_up: true,
        };
    }
    // A stored 5xx is replayed for ever, whatever its headers say of retrying.
    let stored_for_ever = problem.replayed && (500..=599).contains(&status);
    Doubt {
        message: in_doubt(&if problem.code == "idempotency_key_in_use" {
            format!("Stripe is still at an earlier attempt of this refund{request}")
        } else {
            format!("Stripe answered {status}{request}")
        }),
        after: problem.after,
        give_up: stored_for_ever || problem.should_retry == Some(false),
    }
}

/// The refusals that have words of ours, by code or, where Stripe is known to leave the code out,
/// by the parameter and text.
fn known_refusal(problem: &Problem) -> Option<(FailureCode, &'static str)> {
    let over = problem.param == "amount"
        && (problem.says("greater than unrefunded amount")
            || problem.says("greater than charge amount"));
    let uncaptured = problem.says("uncaptured charge") || problem.says("not been captured");
    let code = match problem.code.as_str() {
        "amount_too_large" => FailureCode::AmountOverRefundable,
        "charge_already_refunded" => FailureCode::ChargeAlreadyRefunded,
        "charge_disputed" | "refund_disputed_payment" => FailureCode::ChargeDisputed,
        "charge_not_refundable" => FailureCode::ChargeNotRefundable,
        "resource_missing" => FailureCode::RefundFailed,
        _ if over => FailureCode::AmountOverRefundable,
        _ if uncaptured => FailureCode::ChargeNotCaptured,
        _ => return None,
    };
    let words = match code {
        FailureCode::AmountOverRefundable => {
            "less than this amount is left to refund on the charge; ask for less with a new key"
        }
        FailureCode::ChargeAlreadyRefunded => {
            "the charge was already refunded in full; nothing more was refunded"
        }
        FailureCode::ChargeDisputed => {
            "the charge is disputed; its money is settled in the dispute and not by a refund"
        }
        FailureCode::ChargeNotCaptured => {
            "the charge was never captured; cancel the payment instead of refunding it"
        }
        FailureCode::ChargeNotRefundable => {
            "Stripe no longer refunds this charge; the money has to go back another way"
        }
        FailureCode::ApprovalCanceled
        | FailureCode::ApprovalExpired
        | FailureCode::ApprovalFailed
        | FailureCode::ApprovalRejected
        | FailureCode::NotFoundAtStripe
        | FailureCode::RefundCanceled
        | FailureCode::RefundFailed => {
            "Stripe knows no such charge in the gateway's account and mode; nothing was refunded"
        }
    };
    Some((code, words))
}

fn refusal(problem: &Problem) -> Refusal {
    if let Some((code, words)) = known_refusal(problem) {
        return Refusal { code, message: words.to_owned() };
    }
    let shown = fit_to_show(&problem.message);
    let said = if shown.is_empty() { "no reason given" } else { &shown };
    Refusal {
        code: FailureCode::RefundFailed,
        message: format!("Stripe refused the refund{}: {said}", problem.named_request()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn channel() -> Channel {
        Channel {
            account: None,
            livemode: false,
            version: String::new(),
            key: None,
            agent_tagged: false,
        }
    }

    /// Bodies near enough to Stripe's to reach every branch.
    fn bodies() -> impl Strategy<Value = Vec<u8>> {
        let word = "(id|re_1|error|type|code|param|amount|message|approval_request|\
                    approval_required|idempotency_error|invalid_request_error|card_error|[a-z_]{0,12})";
        let error = (word, word, word, word).prop_map(|(kind, code, name, value)| {
            format!(r#"{{"error":{{"type":"{kind}","code":"{code}","{name}":"{value}"}}}}"#)
        });
        let object = (word, word).prop_map(|(name, value)| format!(r#"{{"{name}":"{value}"}}"#));
        prop_oneof![
            any::<Vec<u8>>(),
            error.prop_map(String::into_bytes),
            object.prop_map(String::into_bytes),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1000))]

        /// Nothing panics, only a refund with an id is one, and only an error object is a refusal.
        #[test]
        fn garbage_is_neither_a_refund_nor_a_refusal(
            status in prop_oneof![0_u16..700, Just(200), Just(400), Just(402), Just(404)],
            body in bodies(),
            retry in prop_oneof![Just("true"), Just("false"), Just("")],
        ) {
            let json: Value = serde_json::from_slice(&body).unwrap_or_default();
            let headers = vec![("stripe-should-retry".to_owned(), retry.to_owned())];
            let response = Response { status, headers, body };
            match classify(Ok(response), &channel()) {
                Ok(refund) => {
                    prop_assert!((200..300).contains(&status));
                    prop_assert_eq!(json["id"].as_str(), Some(refund.id.as_str()));
                }
                Err(SendError::Refused(_)) => {
                    prop_assert!([400, 402, 404].contains(&status));
                    prop_assert!(json["error"]["type"].is_string());
                    prop_assert_ne!(&json["error"]["type"], "idempotency_error");
                    prop_assert_ne!(&json["error"]["code"], "approval_required");
                    prop_assert_ne!(retry, "true");
                }
                Err(SendError::Held(_)) => prop_assert!(json["error"].is_object()),
                Err(SendError::NotStored(_)) => prop_assert!([401, 403, 429].contains(&status)),
                Err(SendError::NotSent(_)) => prop_assert!(false, "an answer came"),
                Err(SendError::Unknown(_)) => {}
            }
        }
    }
}
