//! What is read of Stripe's objects for staff: nothing of how somebody paid, or where they live.

use gate_api::connector::{
    BalanceView, CustomerRow, CustomerView, DisputeRow, DisputeView, MoneyView, PaymentRow,
    PaymentView,
};
use serde::Deserialize;

use crate::wire::{Expandable, Named};

#[derive(Debug, Deserialize)]
pub(super) struct Balance {
    available: Vec<Entry>,
    pending: Vec<Entry>,
    livemode: bool,
}

#[derive(Debug, Deserialize)]
struct Entry {
    amount: i64,
    currency: String,
}

impl Balance {
    pub(super) fn view(&self) -> BalanceView {
        let views = |entries: &[Entry]| {
            entries.iter().map(|entry| MoneyView::new(entry.amount, &entry.currency)).collect()
        };
        BalanceView::new(views(&self.available), views(&self.pending), self.livemode)
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ListedPayment {
    pub(super) id: String,
    amount: i64,
    amount_received: Option<i64>,
    created: i64,
    currency: String,
    customer: Option<Expandable<Named>>,
    description: Option<String>,
    status: String,
}

impl ListedPayment {
    pub(super) fn view(&self) -> PaymentView {
        PaymentView::new(&PaymentRow {
            id: &self.id,
            amount: self.amount,
            received: self.amount_received.unwrap_or(self.amount),
            currency: &self.currency,
            status: &self.status,
            customer: self.customer.as_ref().map(Expandable::id),
            description: self.description.as_deref(),
            created_secs: self.created,
        })
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ListedCustomer {
    id: String,
    created: i64,
    pub(super) email: Option<String>,
    name: Option<String>,
}

impl ListedCustomer {
    pub(super) fn view(&self) -> CustomerView {
        CustomerView::new(&CustomerRow {
            id: &self.id,
            name: self.name.as_deref(),
            email: self.email.as_deref(),
            created_secs: self.created,
        })
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ListedDispute {
    pub(super) id: String,
    amount: i64,
    charge: Expandable<Named>,
    created: i64,
    currency: String,
    evidence_details: Option<EvidenceDetails>,
    reason: String,
    pub(super) status: String,
}

#[derive(Debug, Deserialize)]
struct EvidenceDetails {
    due_by: Option<i64>,
}

impl ListedDispute {
    pub(super) fn view(&self) -> DisputeView {
        DisputeView::new(&DisputeRow {
            id: &self.id,
            amount: self.amount,
            currency: &self.currency,
            reason: &self.reason,
            status: &self.status,
            charge: self.charge.id(),
            due_secs: self.evidence_details.as_ref().and_then(|details| details.due_by),
            created_secs: self.created,
        })
    }
}
