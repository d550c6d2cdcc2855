//! One approval: what is asked and why, who said yes, who still has to; and asking again after a no.

use gate_api::{AmountView, ApprovalView, rfc3339};
use gate_authority::{Need, Waiting};
use gate_core::{ApprovalId, ApprovalState, Approver, Intent, RefundReason, UserName, Vote};
use serde_json::{Value, json};

use super::{Failed, Work, failed, required, text, usage, worth};

impl Work<'_> {
    pub(super) async fn show_approval(&self) -> Result<(), Failed> {
        let id = ApprovalId::parse(required(self.given, "id")).map_err(usage("the approval"))?;
        let waiting = self.admin.approval(&id).await.map_err(failed)?;
        self.out.either(&as_json(&waiting), || as_text(&waiting));
        Ok(())
    }

    pub(super) async fn reopen(&self, user: Option<&UserName>) -> Result<(), Failed> {
        let id = ApprovalId::parse(required(self.given, "id")).map_err(usage("the approval"))?;
        let user = user.ok_or_else(|| Failed::Usage("name yourself with --as USER".to_owned()))?;
        let note = text(self.given, "note");
        let intent = self.admin.reopen(&id, user, note).await.map_err(failed)?;
        self.intent(&intent);
        self.out.say("Reopened. Asked again, the same refund is decided anew.");
        Ok(())
    }
}

/// The object of `GET /v1/approvals/{id}`, with what only people see.
fn as_json(waiting: &Waiting) -> Value {
    let intent = &waiting.intent;
    let view = ApprovalView::new(intent).map(|view| json!(view)).unwrap_or_default();
    let mut shown = view.as_object().cloned().unwrap_or_default();
    let approval = intent.approval.as_ref();
    let votes = approval.map_or(&[][..], |approval| &approval.votes);
    let vote = |vote: &Vote| {
        json!({
            "by": vote.by.as_str(),
            "roles": vote.roles,
            "at": rfc3339(vote.at),
            "note": vote.note,
        })
    };
    let need = |need: &Need| {
        json!({
            "code": need.reason.code.as_str(),
            "rule": need.reason.rule,
            "message": need.reason.message,
            "roles": need.requires.roles,
            "people": need.requires.people,
            "missing": need.missing,
            "could": need.could.iter().map(|user| user.as_str()).collect::<Vec<_>>(),
        })
    };
    shown.insert("agent".to_owned(), json!(intent.agent_name.as_str()));
    shown.insert("charge".to_owned(), json!(intent.charge.as_str()));
    shown.insert("reason".to_owned(), json!(intent.reason.map(RefundReason::as_str)));
    if let Some(seen) = &intent.seen {
        let amount = |amount| json!(AmountView::new(amount, None));
        shown.insert("charged".to_owned(), amount(seen.amount));
        shown.insert("refundedBefore".to_owned(), amount(seen.amount_refunded));
    }
    shown.insert("justifications".to_owned(), json!(approval.map(|a| &a.justifications)));
    shown.insert("votes".to_owned(), votes.iter().map(vote).collect());
    shown.insert("needs".to_owned(), waiting.needs.iter().map(need).collect());
    Value::Object(shown)
}

fn as_text(waiting: &Waiting) -> String {
    let intent = &waiting.intent;
    let Some(approval) = &intent.approval else { return String::new() };
    let mut lines = vec![format!(
        "{}  {}  {}{} of {} for {}, until {}",
        approval.id,
        approval.state.as_str(),
        intent.amount,
        worth(intent),
        intent.charge,
        intent.agent_name,
        rfc3339(approval.expires_at),
    )];
    lines.extend(charge_lines(intent));
    for reason in &intent.reasons {
        lines.push(format!("  {}: {}", reason.code.as_str(), reason.message));
    }
    for vote in &approval.votes {
        let note = vote.note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
        let roles = vote.roles.join(", ");
        lines.push(format!("  {} ({roles}) said yes at {}{note}", vote.by, rfc3339(vote.at)));
    }
    // What the agent says may have been put into its mouth: it stands in quotes.
    for words in &approval.justifications {
        lines.push(format!("  agent says: {words:?}"));
    }
    match (approval.state, approval.approver, &approval.hold_url) {
        (ApprovalState::Pending, Approver::Authority, _) => {
            lines.push(format!("  {}", still_missing(&waiting.needs)));
        }
        (ApprovalState::Pending, Approver::Stripe, Some(url)) => {
            lines.push(format!("  It is decided at Stripe: {url}"));
        }
        (ApprovalState::Pending, Approver::Stripe, None) => {
            lines.push("  It is decided at Stripe, under Settings, Approvals.".to_owned());
        }
        _ => {}
    }
    lines.join("\n")
}

/// What the charge had been when this was decided, and what the refund does besides.
fn charge_lines(intent: &Intent) -> Vec<String> {
    let seen = intent.seen.as_ref().map(|seen| {
        format!("  Of {} charged, {} were refunded before.", seen.amount, seen.amount_refunded)
    });
    let reason = intent.reason.map(|reason| {
        let does = match reason {
            RefundReason::Fraudulent => {
                ": Stripe puts the customer's card and e-mail on your block lists"
            }
            RefundReason::Duplicate | RefundReason::RequestedByCustomer => "",
        };
        format!("  The reason for Stripe is {}{does}.", reason.as_str())
    });
    seen.into_iter().chain(reason).collect()
}

/// Who still has to say yes, in words.
pub(super) fn still_missing(needs: &[Need]) -> String {
    let missing = needs.iter().filter(|need| need.missing > 0).map(|need| {
        let could: Vec<&str> = need.could.iter().map(|user| user.as_str()).collect();
        let could = if could.is_empty() { "there is nobody".to_owned() } else { could.join(", ") };
        format!("{} ({could}) for {}", need.in_words(), need.reason.code.as_str())
    });
    let missing: Vec<String> = missing.collect();
    if missing.is_empty() {
        return "Nobody else has to say yes.".to_owned();
    }
    format!("It still takes {}.", missing.join(", and "))
}
