//! Stripe's own approvals: what a refund that is held says of its approval request, and how such a
//! request reads.
//!
//! The interface is a public preview that has moved several times, so it is read leniently: what is
//! not known is left out, and a status that nobody knows counts as open. Only an end that is known
//! to have made no refund is told as one.

use gate_core::{
    FailureCode, Hold, HoldId, HoldSeen, HoldStanding, HoldUrl, RefundId, Refusal, Timestamp,
};
use serde_json::{Map, Value};

use crate::problem::fit_to_show;

/// The version of Stripe's interface that has approval requests.
pub(crate) const HOLDS_VERSION: &str = "2026-09-30.preview";

/// The path of a request, or of what is done with it.
pub(crate) fn path(id: &HoldId, verb: &str) -> String {
    format!("/v2/core/approval_requests/{id}{verb}")
}

/// What an error says of the approval that is asked for, if it is about one. The code alone tells,
/// or the object alone.
pub(crate) fn held(error: &Map<String, Value>) -> Option<Hold> {
    let request = error.get("approval_request").filter(|request| request.is_object());
    let code = error.get("code").and_then(Value::as_str);
    if code != Some("approval_required") && request.is_none() {
        return None;
    }
    Some(request.map(hold).unwrap_or_default())
}

/// A request as it was read.
pub(crate) fn seen(request: &Value) -> HoldSeen {
    HoldSeen { hold: hold(request), standing: standing(request) }
}

fn hold(request: &Value) -> Hold {
    let text = |name| request.get(name).and_then(Value::as_str);
    Hold {
        id: text("id").and_then(|id| HoldId::parse(id).ok()),
        url: text("dashboard_url").and_then(|url| HoldUrl::parse(url).ok()),
        expires_at: text("expires_at").and_then(time),
        key: None,
    }
}

fn time(text: &str) -> Option<Timestamp> {
    let at = text.parse::<jiff::Timestamp>().ok()?;
    Some(Timestamp::from_millis(at.as_millisecond()))
}

/// Where it stands, by the names of now and those of before.
fn standing(request: &Value) -> HoldStanding {
    let text =
        |pointer| request.pointer(pointer).and_then(Value::as_str).filter(|it| !it.is_empty());
    let (code, what) = match text("/status").unwrap_or_default() {
        "succeeded" | "execution_succeeded" => {
            let result = text("/status_details/succeeded/result/id")
                .or_else(|| text("/status_details/execution_succeeded/result/id"));
            return HoldStanding::Made(result.and_then(|id| RefundId::parse(id).ok()));
        }
        "rejected" => (FailureCode::ApprovalRejected, "a person rejected the refund at Stripe"),
        "canceled" => {
            (FailureCode::ApprovalCanceled, "the request for approval was withdrawn at Stripe")
        }
        "expired" => (FailureCode::ApprovalExpired, "nobody approved the refund at Stripe in time"),
        "failed" | "execution_failed" => (
            FailureCode::ApprovalFailed,
            "the refund was approved at Stripe, which could not make it",
        ),
        _ => return HoldStanding::Open,
    };
    // A reviewer's words explain their own no, and not that Stripe could not make it.
    let why = if code == FailureCode::ApprovalFailed {
        ["/status_details/failed/error_message", "/status_details/execution_failed/message"]
    } else {
        ["/review/reason", "/status_details/rejected/reason"]
    };
    let why = why.into_iter().find_map(text);
    let message = match why {
        Some(why) => format!("{what}: {}", fit_to_show(why)),
        None => what.to_owned(),
    };
    HoldStanding::Over(Refusal { code, message })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn over(code: FailureCode, message: &str) -> HoldStanding {
        HoldStanding::Over(Refusal { code, message: message.to_owned() })
    }

    #[test]
    fn statuses_old_and_new() {
        use FailureCode::{ApprovalCanceled, ApprovalExpired, ApprovalFailed, ApprovalRejected};
        let made = |id: &str| HoldStanding::Made(RefundId::parse(id).ok());
        let result = json!({ "result": { "id": "re_1", "object": "refund" } });
        #[rustfmt::skip]
        let table = [
            // status,               its details,                                       what it comes to
            ("requires_review",      json!({}),                                         HoldStanding::Open),
            ("requires_execution",   json!({}),                                         HoldStanding::Open),
            ("pending",              json!({ "pending": {} }),                          HoldStanding::Open),
            ("approved",             json!({ "approved": { "reason": "fine" } }),       HoldStanding::Open),
            ("execution_started",    json!({}),                                         HoldStanding::Open),
            ("in_the_mail",          json!({}),                                         HoldStanding::Open),
            ("",                     json!({}),                                         HoldStanding::Open),
            ("succeeded",            json!({ "succeeded": result }),                    made("re_1")),
            ("execution_succeeded",  json!({ "execution_succeeded": result }),          made("re_1")),
            ("succeeded",            json!({}),                                         made("")),
            ("succeeded",            json!({ "succeeded": { "result": { "id": "x" } } }), made("")),
            ("rejected",             json!({}),
                over(ApprovalRejected, "a person rejected the refund at Stripe")),
            ("rejected",             json!({ "rejected": { "reason": "no\nsk_live_1" } }),
                over(ApprovalRejected, "a person rejected the refund at Stripe: no [key]")),
            ("canceled",             json!({ "canceled": {} }),
                over(ApprovalCanceled, "the request for approval was withdrawn at Stripe")),
            ("expired",              json!({ "expired": {} }),
                over(ApprovalExpired, "nobody approved the refund at Stripe in time")),
            ("failed",               json!({ "failed": { "error_message": "too late" } }),
                over(ApprovalFailed, "the refund was approved at Stripe, which could not make it: too late")),
            ("execution_failed",     json!({ "execution_failed": { "message": "too late" } }),
                over(ApprovalFailed, "the refund was approved at Stripe, which could not make it: too late")),
        ];
        for (status, details, expected) in table {
            let request = json!({ "id": "apreq_1", "status": status, "status_details": details });
            assert_eq!(seen(&request).standing, expected, "{status} {details}");
        }
        assert_eq!(seen(&json!([1])).standing, HoldStanding::Open);
    }

    /// What a person wrote is told; a person who approved says nothing of a failure.
    #[test]
    fn the_reviewer_is_heard_where_it_was_their_decision() {
        let of = |status: &str| {
            let review = json!({ "result": "rejected", "reason": "ask finance" });
            match seen(&json!({ "status": status, "review": review })).standing {
                HoldStanding::Over(refusal) => refusal.message,
                HoldStanding::Made(_) | HoldStanding::Open => String::new(),
            }
        };
        assert_eq!(of("rejected"), "a person rejected the refund at Stripe: ask finance");
    }

    #[test]
    fn what_is_held_is_told_by_its_code_or_its_object() {
        let at = Some(Timestamp::from_millis(1_767_225_600_000));
        let id = |id: &str| HoldId::parse(id).ok();
        let link = "https://dashboard.stripe.com/approvals/apreq_1";
        #[rustfmt::skip]
        let table = [
            // the error                                                        is held, id, link, expires
            (json!({ "code": "approval_required" }),                            Some((None, None, None))),
            (json!({ "code": "approval_required", "approval_request": "x" }),   Some((None, None, None))),
            (json!({ "approval_request": {} }),                                 Some((None, None, None))),
            (json!({ "code": "card_declined" }),                                None),
            (json!({ "code": "approval_required", "approval_request": {
                "id": "apreq_test_1", "dashboard_url": link, "expires_at": "2026-01-01T00:00:00.000Z",
            } }),                                                               Some((id("apreq_test_1"), Some(link), at))),
            (json!({ "approval_request": { "id": "areq_1", "expires_at": "2026-01-01T01:00:00+01:00" } }),
                                                                                Some((id("areq_1"), None, at))),
            (json!({ "approval_request": { "id": "../../v1", "dashboard_url": "javascript:1", "expires_at": "soon" } }),
                                                                                Some((None, None, None))),
            (json!({ "approval_request": { "id": 7, "dashboard_url": "https://x/<b>", "expires_at": {} } }),
                                                                                Some((None, None, None))),
        ];
        for (error, expected) in table {
            let found = held(error.as_object().unwrap());
            let expected = expected.map(|(id, url, expires_at)| Hold {
                id,
                url: url.and_then(|url| HoldUrl::parse(url).ok()),
                expires_at,
                key: None,
            });
            assert_eq!(found, expected, "{error}");
        }
    }
}
