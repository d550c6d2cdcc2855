//! The table of the API: which request goes where, and which permission it needs.

use serde_json::Value;

use crate::{
    account::Call,
    expand::Shape,
    failure::Failure,
    keys::{Access, Resource},
};

/// Where a request goes.
pub(crate) struct Route<'c> {
    pub(crate) access: Access,
    /// What the answer is.
    pub(crate) answer: Shape,
    pub(crate) run: Handler<'c>,
}

/// Executes a call; the text is the id in the path.
pub(crate) type Handler<'c> = fn(&mut Call<'c>, &str) -> Result<Value, Failure>;

/// The route of a request and the id in its path.
pub(crate) fn find<'c, 'p>(method: &str, path: &'p str) -> Option<(Route<'c>, &'p str)> {
    use Access::{Read, Write};
    use Resource::{
        Account, Balance, Charges, Customers, Disputes, Events, PaymentIntents, Refunds,
    };
    use Shape::{Many, One};
    if let Some(rest) = path.strip_prefix("/v2/core/") {
        return find_second(method, rest);
    }
    let segments: Vec<&str> = path.strip_prefix("/v1/")?.split('/').collect();
    let (access, answer, run, id): (Access, Shape, Handler<'c>, &str) =
        match (method, segments.as_slice()) {
            ("GET", ["account"]) => (Read, One(Account), Call::read_account, ""),
            ("GET", ["balance"]) => (Read, One(Balance), Call::read_balance, ""),
            ("GET", ["charges"]) => (Read, Many(Charges), Call::list_charges, ""),
            ("POST", ["charges"]) => (Write, One(Charges), Call::create_charge, ""),
            ("GET", ["charges", id]) => (Read, One(Charges), Call::read_charge, id),
            ("POST", ["charges", id, "capture"]) => (Write, One(Charges), Call::capture_charge, id),
            ("GET", ["customers"]) => (Read, Many(Customers), Call::list_customers, ""),
            ("POST", ["customers"]) => (Write, One(Customers), Call::create_customer, ""),
            ("GET", ["customers", "search"]) => (Read, Many(Customers), Call::search_customers, ""),
            ("GET", ["customers", id]) => (Read, One(Customers), Call::read_customer, id),
            ("GET", ["disputes"]) => (Read, Many(Disputes), Call::list_disputes, ""),
            ("GET", ["disputes", id]) => (Read, One(Disputes), Call::read_dispute, id),
            ("GET", ["events"]) => (Read, Many(Events), Call::list_events, ""),
            ("GET", ["events", id]) => (Read, One(Events), Call::read_event, id),
            ("GET", ["payment_intents"]) => (Read, Many(PaymentIntents), Call::list_intents, ""),
            ("POST", ["payment_intents"]) => (Write, One(PaymentIntents), Call::create_intent, ""),
            ("GET", ["payment_intents", id]) => (Read, One(PaymentIntents), Call::read_intent, id),
            ("POST", ["payment_intents", id, "cancel"]) => {
                (Write, One(PaymentIntents), Call::cancel_intent, id)
            }
            ("POST", ["payment_intents", id, "capture"]) => {
                (Write, One(PaymentIntents), Call::capture_intent, id)
            }
            ("POST", ["payment_intents", id, "confirm"]) => {
                (Write, One(PaymentIntents), Call::confirm_intent, id)
            }
            ("GET", ["refunds"]) => (Read, Many(Refunds), Call::list_refunds, ""),
            ("POST", ["refunds"]) => (Write, One(Refunds), Call::create_refund, ""),
            ("GET", ["refunds", id]) => (Read, One(Refunds), Call::read_refund, id),
            ("POST", ["refunds", id]) => (Write, One(Refunds), Call::update_refund, id),
            ("POST", ["refunds", id, "cancel"]) => (Write, One(Refunds), Call::cancel_refund, id),
            _ => return None,
        };
    Some((Route { access, answer, run }, id))
}

/// The same, for what follows `/v2/core/`.
fn find_second<'c, 'p>(method: &str, path: &'p str) -> Option<(Route<'c>, &'p str)> {
    use Access::{Read, Write};
    use Resource::ApprovalRequests;
    use Shape::{Many, One};
    let segments: Vec<&str> = path.split('/').collect();
    let (access, answer, run, id): (Access, Shape, Handler<'c>, &str) =
        match (method, segments.as_slice()) {
            ("GET", ["approval_requests"]) => (Read, Many(ApprovalRequests), Call::list_holds, ""),
            ("GET", ["approval_requests", id]) => {
                (Read, One(ApprovalRequests), Call::read_hold, id)
            }
            (
                "POST",
                ["approval_requests", id] | ["approval_requests", id, "submit" | "update"],
            ) => (Write, One(ApprovalRequests), Call::explain_hold, id),
            _ => return None,
        };
    Some((Route { access, answer, run }, id))
}
