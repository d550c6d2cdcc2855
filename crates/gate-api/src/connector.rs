//! Reading Stripe for staff: what can be asked, what is answered, and the port behind which the
//! reading is done.
//!
//! The answers are lists that a model reads, so they are short: no more than
//! [`RESULT_CHARS_MAX`] characters of JSON, cut between two rows, with a cursor and advice where
//! something was left out. They never hold a card's number, how somebody paid, or where somebody
//! lives. Free text is data of customers' and is never more than that.

mod ask;
mod error;
mod text;
mod views;

use async_trait::async_trait;
use gate_core::Deadline;

pub use ask::{
    BalanceRequest, CustomersAsk, CustomersRequest, Day, DisputeStatus, DisputesAsk,
    DisputesRequest, Keyword, PaymentsAsk, PaymentsRequest, parse_balance, parse_customers,
    parse_disputes, parse_payments,
};
pub use error::ConnectorError;
pub use views::{
    BalanceView, CustomerRow, CustomerView, CustomersView, DisputeRow, DisputeView, DisputesView,
    MoneyView, More, PaymentRow, PaymentView, PaymentsView, RESULT_CHARS_MAX, Stopped, fitting,
    overflows,
};

/// Most pages of disputes that one call reads.
pub const DISPUTE_PAGES_MAX: u32 = 10;

/// Reads Stripe for staff. Nothing that it does changes anything at Stripe.
///
/// A read may be given up at any time by dropping its future. Each may be refused because the
/// gateway spares Stripe: the error then says how long to wait. A cursor goes with the arguments
/// that it was answered to, but for `limit`, which may change from page to page; joined, the pages
/// hold every row once, in order, whatever was made in the meantime.
#[async_trait]
pub trait Connector: Send + Sync {
    /// What is available and what is pending.
    ///
    /// # Errors
    ///
    /// [`ConnectorError`].
    async fn balance(&self, by: Deadline) -> Result<BalanceView, ConnectorError>;

    /// The customers of one page of a search, with that e-mail or with that in their name.
    ///
    /// # Errors
    ///
    /// [`ConnectorError`].
    async fn customers(
        &self,
        ask: &CustomersAsk,
        by: Deadline,
    ) -> Result<CustomersView, ConnectorError>;

    /// Disputes, newest first. Reads up to [`DISPUTE_PAGES_MAX`] pages and tells `progress` after
    /// each how many it has read. What was read before a later page failed is answered, with a
    /// cursor.
    ///
    /// # Errors
    ///
    /// [`ConnectorError`], when nothing could be read at all.
    async fn disputes(
        &self,
        ask: &DisputesAsk,
        by: Deadline,
        progress: &(dyn Fn(u32) + Send + Sync),
    ) -> Result<DisputesView, ConnectorError>;

    /// Payments, newest first.
    ///
    /// # Errors
    ///
    /// [`ConnectorError`].
    async fn payments(
        &self,
        ask: &PaymentsAsk,
        by: Deadline,
    ) -> Result<PaymentsView, ConnectorError>;
}

#[cfg(test)]
mod tests {
    use schemars::{JsonSchema, schema_for};
    use serde_json::Value;

    use super::*;

    fn schema<T: JsonSchema>() -> Value {
        serde_json::to_value(schema_for!(T)).unwrap()
    }

    /// Hosts refuse a root that is no object, and some refuse types that are lists.
    fn check(name: &str, schema: &Value) {
        assert_eq!(schema["type"], "object", "{name}");
        let text = schema.to_string();
        assert!(!text.contains(r#""type":["#) && !text.contains("null"), "{name}: {text}");
    }

    #[test]
    fn schemas_suit_every_host() {
        let requests = [
            ("balance", schema::<BalanceRequest>()),
            ("customers", schema::<CustomersRequest>()),
            ("disputes", schema::<DisputesRequest>()),
            ("payments", schema::<PaymentsRequest>()),
        ];
        let answers = [
            ("balance", schema::<BalanceView>()),
            ("customers", schema::<CustomersView>()),
            ("disputes", schema::<DisputesView>()),
            ("payments", schema::<PaymentsView>()),
        ];
        for (name, schema) in &requests {
            check(name, schema);
            assert_eq!(schema["additionalProperties"], false, "{name}");
        }
        for (name, schema) in &answers {
            check(name, schema);
        }
        let all = requests.iter().chain(&answers).map(|(_, schema)| schema.to_string().len());
        let bytes: usize = all.sum();
        assert!(bytes < 9_000, "all tools together may take 20 KB, these take {bytes}");
    }
}
