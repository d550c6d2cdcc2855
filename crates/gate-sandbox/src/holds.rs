//! Stripe's own approvals: what an agent-tagged key asks for is held, and made by the sandbox itself
//! once somebody approved it over the control API.
//!
//! The requests have the shape of the interface's preview; the error that tells of one has the older
//! shape that is documented for it. Each step is a thin event.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    account::{Account, Call, Settings},
    clock,
    failure::Failure,
    form::Params,
    ids::Random,
    list::Object,
    refunds::Wish,
};

/// How long an approval request waits, in seconds: fourteen days.
const HELD_SECS: i64 = 14 * 24 * 60 * 60;

/// A refund that waits for an approval.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    id: String,
    created: i64,
    charge: String,
    amount: i64,
    wish: Wish,
    /// The key that asked, masked.
    asked_by: String,
    /// What the agent said.
    reason: Option<String>,
    status: Status,
    /// What the reviewer said.
    note: Option<String>,
    reviewed_at: Option<i64>,
    ended_at: Option<i64>,
    /// Why it could not be made.
    fault: Option<String>,
    refund: Option<String>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Status {
    Canceled,
    Expired,
    Failed,
    Rejected,
    RequiresExecution,
    RequiresReview,
    Succeeded,
}

impl Status {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Canceled => "canceled",
            Self::Expired => "expired",
            Self::Failed => "failed",
            Self::Rejected => "rejected",
            Self::RequiresExecution => "requires_execution",
            Self::RequiresReview => "requires_review",
            Self::Succeeded => "succeeded",
        }
    }

    const fn is_open(self) -> bool {
        matches!(self, Self::RequiresExecution | Self::RequiresReview)
    }
}

/// `POST /_sandbox/approval_requests/{id}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HoldOrder {
    status: Decision,
    reason: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    /// A person approves, and the refund is made.
    #[serde(alias = "succeeded")]
    Approved,
    Canceled,
    Expired,
    /// A person approves, and the refund cannot be made.
    Failed,
    Rejected,
    /// A person approves; the refund is made by a later `approved`.
    RequiresExecution,
}

impl Hold {
    const fn expires(&self) -> i64 {
        self.created.saturating_add(HELD_SECS)
    }

    fn url(&self) -> String {
        format!("https://dashboard.stripe.com/test/approvals/{}", self.id)
    }

    /// As the error shows it that tells of it.
    fn in_error(&self) -> Value {
        json!({
            "id": self.id,
            "object": "approval_request",
            "action": "create_refund",
            "status": "pending",
            "dashboard_url": self.url(),
            "expires_at": clock::rfc3339(self.expires()),
        })
    }

    fn details(&self) -> Value {
        match (self.status, &self.refund, &self.fault) {
            (Status::Succeeded, Some(refund), _) => {
                json!({ "succeeded": { "result": { "id": refund, "object": "refund" } } })
            }
            (Status::Failed, _, fault) => json!({ "failed": {
                "error_code": "charge_not_refundable",
                "error_message": fault,
                "error_type": "invalid_request_error",
            } }),
            (Status::Rejected, ..) => json!({ "rejected": { "reason": self.note } }),
            _ => Value::Null,
        }
    }

    fn review(&self) -> Value {
        let (Some(at), false) = (self.reviewed_at, self.status == Status::Canceled) else {
            return Value::Null;
        };
        let result = if self.status == Status::Rejected { "rejected" } else { "approved" };
        json!({
            "reason": self.note,
            "result": result,
            "reviewed_at": clock::rfc3339(at),
            "reviewed_by": { "type": "user", "user": { "email": "reviewer@example.com" } },
        })
    }
}

impl Object for Hold {
    const NOUN: &'static str = "approval_request";

    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.created
    }

    fn render(&self) -> Value {
        let ended =
            |status: Status| self.ended_at.filter(|_| self.status == status).map(clock::rfc3339);
        let approved = self.reviewed_at.filter(|_| self.status != Status::Rejected);
        json!({
            "id": self.id,
            "object": "v2.core.approval_request",
            "action": "refund.create",
            "created": clock::rfc3339(self.created),
            "dashboard_url": self.url(),
            "expires_at": clock::rfc3339(self.expires()),
            "livemode": false,
            "reason": self.reason,
            "requested_by": { "type": "api_key", "api_key": { "id": self.asked_by, "name": null } },
            "review": self.review(),
            "rule": { "name": "Refunds of agents" },
            "status": self.status.as_str(),
            "status_details": self.details(),
            "status_transitions": {
                "approved_at": approved.map(clock::rfc3339),
                "canceled_at": ended(Status::Canceled),
                "expired_at": ended(Status::Expired),
                "failed_at": ended(Status::Failed),
                "rejected_at": ended(Status::Rejected),
                "succeeded_at": ended(Status::Succeeded),
            },
        })
    }
}

impl Call<'_> {
    /// Stripe's answer to a key that is tagged for agents; the refund waits.
    pub(crate) fn hold_refund(&mut self, charge: String, amount: i64, wish: Wish) -> Failure {
        let hold = Hold {
            id: self.random.id("apreq_test_", 24),
            created: self.now_secs,
            charge,
            amount,
            wish,
            asked_by: self.caller.shown().to_owned(),
            reason: None,
            status: Status::RequiresReview,
            note: None,
            reviewed_at: None,
            ended_at: None,
            fault: None,
            refund: None,
        };
        let (shown, rendered) = (hold.in_error(), hold.render());
        self.account.note(self.now_secs, "v2.core.approval_request.created", &rendered, None);
        self.account.holds.add(hold);
        Failure::refused("This action requires approval before it is executed.")
            .code("approval_required")
            .with("approval_request", shown)
    }

    pub(crate) fn read_hold(&mut self, id: &str) -> Result<Value, Failure> {
        self.params.check_known(&[])?;
        Ok(self.account.holds.need(id, "id")?.render())
    }

    /// Lists as the second version of Stripe's interface does: without a cursor of the caller's.
    pub(crate) fn list_holds(&mut self, _id: &str) -> Result<Value, Failure> {
        self.params.check_known(&["limit", "page", "status"])?;
        let url = "/v2/core/approval_requests";
        let status = self.params.text("status")?;
        let found = self.account.holds.search(url, self.params, |hold| {
            status.is_none_or(|status| hold.status.as_str() == status)
        })?;
        let next = found.get("next_page").and_then(Value::as_str);
        Ok(json!({
            "data": found.get("data"),
            "next_page_url": next.map(|page| format!("{url}?page={page}")),
            "previous_page_url": null,
        }))
    }

    /// Takes what the agent says, under each of the names that the call has had.
    pub(crate) fn explain_hold(&mut self, id: &str) -> Result<Value, Failure> {
        self.params.check_known(&["reason"])?;
        let reason = self.params.required("reason")?.to_owned();
        let hold = self.account.holds.need_mut(id, "id")?;
        if !hold.status.is_open() {
            return Err(Failure::refused("This approval request has ended."));
        }
        hold.reason = Some(reason);
        Ok(hold.render())
    }
}

impl Account {
    /// Lets a person decide, or time. Approved, the refund is made as it was asked for, or not any
    /// more.
    ///
    /// # Errors
    ///
    /// A sentence for the person who ordered it.
    pub(crate) fn decide_hold(
        &mut self,
        id: &str,
        order: HoldOrder,
        now_secs: i64,
        settings: &Settings,
        random: &mut Random,
    ) -> Result<Value, String> {
        let account = self.id.clone();
        let hold = self
            .holds
            .find_mut(id)
            .ok_or_else(|| format!("there is no approval request {id} in account {account}"))?;
        let approves = matches!(
            order.status,
            Decision::Approved | Decision::Failed | Decision::RequiresExecution
        );
        let waits = hold.status == Status::RequiresReview;
        let goes_on = approves && hold.status == Status::RequiresExecution;
        if !(waits || goes_on) {
            let status = hold.status.as_str();
            return Err(format!("approval request {id} is {status} already; ask for a new one"));
        }
        if approves && waits {
            hold.status = Status::RequiresExecution;
            hold.note = order.reason.clone();
            hold.reviewed_at = Some(now_secs);
            let rendered = hold.render();
            self.note(now_secs, "v2.core.approval_request.approved", &rendered, None);
        }
        match order.status {
            Decision::Approved => self.make_held(id, now_secs, settings, random),
            Decision::Canceled => self.end_hold(id, Status::Canceled, order.reason, now_secs),
            Decision::Expired => self.end_hold(id, Status::Expired, None, now_secs),
            Decision::Failed => {
                let why = order.reason.unwrap_or_else(|| "It was ordered to fail.".to_owned());
                self.end_hold(id, Status::Failed, Some(why), now_secs);
            }
            Decision::Rejected => self.end_hold(id, Status::Rejected, order.reason, now_secs),
            Decision::RequiresExecution => {}
        }
        Ok(self.holds.find(id).map(Object::render).unwrap_or_default())
    }

    /// Makes the refund of an approved request, if its charge still has the amount.
    fn make_held(&mut self, id: &str, now_secs: i64, settings: &Settings, random: &mut Random) {
        let Some(Hold { charge, amount, wish, .. }) = self.holds.find(id).cloned() else { return };
        let made = self
            .check_refundable(&charge, amount)
            .and_then(|()| self.make_refund(&charge, amount, wish, now_secs, settings, random));
        match made {
            Ok(refund) => {
                let refund = refund.get("id").and_then(Value::as_str).map(str::to_owned);
                if let Some(hold) = self.holds.find_mut(id) {
                    hold.refund = refund;
                }
                self.end_hold(id, Status::Succeeded, None, now_secs);
            }
            Err(failure) => {
                self.end_hold(id, Status::Failed, Some(failure.text().to_owned()), now_secs);
            }
        }
    }

    fn end_hold(&mut self, id: &str, status: Status, why: Option<String>, now_secs: i64) {
        let Some(hold) = self.holds.find_mut(id) else { return };
        hold.status = status;
        hold.ended_at = Some(now_secs);
        let kind = match status {
            Status::Canceled => "v2.core.approval_request.canceled",
            Status::Expired => "v2.core.approval_request.expired",
            Status::Rejected => {
                (hold.note, hold.reviewed_at) = (why, Some(now_secs));
                "v2.core.approval_request.rejected"
            }
            Status::Failed => {
                hold.fault = why;
                "v2.core.approval_request.failed"
            }
            Status::Succeeded | Status::RequiresExecution | Status::RequiresReview => {
                "v2.core.approval_request.succeeded"
            }
        };
        let rendered = hold.render();
        self.note(now_secs, kind, &rendered, None);
    }

    /// Lets expire what nobody decided in time.
    pub(crate) fn expire_holds(&mut self, now_secs: i64) {
        let due =
            |hold: &&Hold| hold.status == Status::RequiresReview && hold.expires() <= now_secs;
        let due: Vec<(String, i64)> =
            self.holds.iter().filter(due).map(|it| (it.id.clone(), it.expires())).collect();
        for (id, at_secs) in due {
            self.end_hold(&id, Status::Expired, None, at_secs);
        }
    }

    /// When the next request expires, in the sandbox's seconds.
    pub(crate) fn next_expiry(&self) -> Option<i64> {
        let open = self.holds.iter().filter(|hold| hold.status == Status::RequiresReview);
        open.map(Hold::expires).min()
    }
}

/// The parameters of a call of the second version: JSON in the body, of texts alone.
pub(crate) fn params(query: &str, body: &[u8]) -> Params {
    let given: Value = serde_json::from_slice(body).unwrap_or_default();
    let texts = given.as_object().into_iter().flatten();
    let texts = texts.map(|(name, value)| {
        (name.clone(), value.as_str().map_or_else(|| value.to_string(), str::to_owned))
    });
    Params::parse(query, &[]).with(texts)
}
