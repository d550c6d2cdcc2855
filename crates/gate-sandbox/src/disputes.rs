//! Disputes: enough of them to be in a refund's way.

use serde_json::{Map, Value, json};

use crate::{
    account::{Account, Call, lay_over},
    failure::Failure,
    form::Metadata,
    list::{Object, PAGE_PARAMS},
};

/// Seconds until evidence is due, from the dispute's opening: nine days.
const EVIDENCE_SECS: i64 = 9 * 24 * 60 * 60;

/// A dispute, or an inquiry, which is a dispute that has not taken the money yet.
#[derive(Clone, Debug)]
pub(crate) struct Dispute {
    pub(crate) id: String,
    pub(crate) amount: i64,
    pub(crate) charge: String,
    pub(crate) created: i64,
    pub(crate) currency: String,
    pub(crate) is_charge_refundable: bool,
    pub(crate) payment_intent: Option<String>,
    pub(crate) reason: String,
    /// As text, so that the control API can try statuses that nobody knows.
    pub(crate) status: String,
    /// What the control API said about other fields.
    pub(crate) overrides: Map<String, Value>,
}

impl Dispute {
    /// Whether a charge in this state may be refunded, when nothing else is said: inquiries and
    /// disputes that are over in the merchant's favour.
    pub(crate) fn refundable_by_status(status: &str) -> bool {
        status.starts_with("warning_") || matches!(status, "prevented" | "won")
    }

    fn is_closed(&self) -> bool {
        matches!(self.status.as_str(), "lost" | "prevented" | "warning_closed" | "won")
    }

    /// Whether it stands in the way of a refund. A status that means a real dispute does so even
    /// when the charge claims to be refundable.
    fn blocks_refunds(&self) -> bool {
        let real = matches!(
            self.status.as_str(),
            "appeal_needs_response"
                | "appeal_under_review"
                | "lost"
                | "needs_response"
                | "under_review"
        );
        real || !self.is_charge_refundable
    }
}

impl Object for Dispute {
    const NOUN: &'static str = "dispute";

    fn id(&self) -> &str {
        &self.id
    }

    fn created(&self) -> i64 {
        self.created
    }

    fn render(&self) -> Value {
        let inquiry = self.status.starts_with("warning_");
        let mut rendered = json!({
            "id": self.id,
            "object": "dispute",
            "amount": self.amount,
            "balance_transactions": [],
            "charge": self.charge,
            "created": self.created,
            "currency": self.currency,
            "enhanced_eligibility_types": [],
            "evidence": {},
            "evidence_details": {
                "due_by": self.created.saturating_add(EVIDENCE_SECS),
                "enhanced_eligibility": {},
                "has_evidence": false,
                "past_due": false,
                "submission_count": 0,
            },
            "is_charge_refundable": self.is_charge_refundable,
            "livemode": false,
            "metadata": Metadata::new(),
            "payment_intent": self.payment_intent,
            "payment_method_details": {
                "card": {
                    "brand": "visa",
                    "case_type": if inquiry { "inquiry" } else { "chargeback" },
                    "network_reason_code": "10.4",
                },
                "type": "card",
            },
            "reason": self.reason,
            "status": self.status,
        });
        lay_over(&mut rendered, &self.overrides);
        rendered
    }
}

impl Account {
    /// Whether a dispute stands in the way of refunding the charge.
    pub(crate) fn dispute_blocks_refunds(&self, charge: &str) -> bool {
        self.disputes.iter().any(|dispute| dispute.charge == charge && dispute.blocks_refunds())
    }

    /// Keeps a dispute and marks its charge.
    pub(crate) fn add_dispute(&mut self, dispute: Dispute, now_secs: i64) {
        if let Some(charge) = self.charges.find_mut(&dispute.charge) {
            charge.disputed = true;
        }
        self.note(now_secs, "charge.dispute.created", &dispute.render(), None);
        self.disputes.add(dispute);
    }

    /// Moves a dispute to another status, which decides anew whether its charge is refundable.
    ///
    /// # Errors
    ///
    /// A sentence for the person who ordered it.
    pub(crate) fn move_dispute(
        &mut self,
        id: &str,
        status: String,
        now_secs: i64,
    ) -> Result<Value, String> {
        let Some(dispute) = self.disputes.find_mut(id) else {
            return Err(format!(
                "there is no dispute {id} in account {}; name another account in Stripe-Account",
                self.id
            ));
        };
        let before = dispute.render();
        dispute.is_charge_refundable = Dispute::refundable_by_status(&status);
        dispute.status = status;
        let after = dispute.render();
        let kind =
            if dispute.is_closed() { "charge.dispute.closed" } else { "charge.dispute.updated" };
        self.note(now_secs, kind, &after, Some(&before));
        Ok(after)
    }
}

impl Call<'_> {
    /// Opens a dispute over the whole charge.
    pub(crate) fn open_dispute(&mut self, charge: &str, status: &str, reason: &str) {
        let id = self.random.id("dp_", 24);
        let Some(charge) = self.account.charges.find(charge) else {
            return;
        };
        let dispute = Dispute {
            id,
            amount: charge.amount_captured,
            charge: charge.id.clone(),
            created: self.now_secs,
            currency: charge.currency.clone(),
            is_charge_refundable: Dispute::refundable_by_status(status),
            payment_intent: charge.payment_intent.clone(),
            reason: reason.to_owned(),
            status: status.to_owned(),
            overrides: Map::new(),
        };
        self.account.add_dispute(dispute, self.now_secs);
    }

    pub(crate) fn read_dispute(&mut self, id: &str) -> Result<Value, Failure> {
        self.params.check_known(&[])?;
        Ok(self.account.disputes.need(id, "id")?.render())
    }

    pub(crate) fn list_disputes(&mut self, _id: &str) -> Result<Value, Failure> {
        self.params.check_known(&[&PAGE_PARAMS[..], &["charge", "payment_intent"]].concat())?;
        let charge = self.params.text("charge")?;
        let intent = self.params.text("payment_intent")?;
        self.account.disputes.page("/v1/disputes", self.params, |dispute| {
            charge.is_none_or(|id| dispute.charge == id)
                && intent.is_none_or(|id| dispute.payment_intent.as_deref() == Some(id))
        })
    }
}
