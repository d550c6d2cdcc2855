//! A gateway for tests, which answers nobody, and a Stripe with one row of each kind.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use gate_api::connector::{
    BalanceView, Connector, ConnectorError, CustomerRow, CustomerView, CustomersAsk, CustomersView,
    DisputeRow, DisputeView, DisputesAsk, DisputesView, MoneyView, PaymentRow, PaymentView,
    PaymentsAsk, PaymentsView,
};
use gate_core::{
    ActionError, Actions, AgentKey, Answer, ApprovalId, Ask, AuthorityError, Budget, Clock,
    Deadline, Grants, Ids, Intent, IntentFilter, IntentId, Page, Records, Timestamp, ToolUse,
};

use crate::table::Ports;

/// A gateway that answers nobody.
pub(crate) struct Closed;

/// Ports that are all closed, but for a Stripe that answers.
pub(crate) fn ports() -> Ports {
    Ports {
        actions: Arc::new(Closed),
        records: Arc::new(Closed),
        connector: Arc::new(OneOfEach),
        clock: Arc::new(Closed),
    }
}

#[async_trait]
impl Actions for Closed {
    async fn refund(&self, _: &AgentKey, _: Ask) -> Result<Answer, ActionError> {
        Err(ActionError::ShuttingDown)
    }

    async fn in_minor_units(&self, _: &AgentKey, _: Ask, _: &str) -> Result<Ask, ActionError> {
        let intent = IntentId::parse("int_1").unwrap();
        Err(ActionError::IdempotencyKeyReused { argument: "amountMinor", intent })
    }
}

type Read<T> = Result<T, AuthorityError>;

#[async_trait]
impl Records for Closed {
    async fn intent(&self, _: &AgentKey, _: &IntentId, _: Duration) -> Read<Intent> {
        Err(AuthorityError::Unauthenticated)
    }

    async fn intents(&self, _: &AgentKey, _: &IntentFilter) -> Read<Page> {
        Ok(Page::default())
    }

    async fn approval(&self, _: &AgentKey, _: &ApprovalId, _: Duration) -> Read<Intent> {
        Err(AuthorityError::Unauthenticated)
    }

    async fn cancel(&self, _: &AgentKey, _: &IntentId) -> Read<Intent> {
        Err(AuthorityError::Unauthenticated)
    }

    async fn budget(&self, _: &AgentKey) -> Read<Budget> {
        Err(AuthorityError::Broken("the disk is gone".to_owned()))
    }
}

impl Ids for Closed {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

impl Clock for Closed {
    fn now(&self) -> Timestamp {
        Timestamp::default()
    }

    fn uptime(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, _: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(std::future::ready(()))
    }
}

/// Grants one tool to whoever's key ends so.
#[async_trait]
impl Grants for Closed {
    async fn granted(&self, key: &AgentKey) -> Read<Vec<String>> {
        match key.expose() {
            "bb_agent_granted" => Ok(vec!["by_grant".to_owned()]),
            "bb_agent_unknown" => Err(AuthorityError::Unavailable("gone".to_owned())),
            _ => Ok(Vec::new()),
        }
    }

    async fn use_tool(&self, _: &AgentKey, _: &ToolUse) -> Read<bool> {
        Err(AuthorityError::Unavailable("gone".to_owned()))
    }
}

/// Grants everything, and keeps what was used. What is used by a key that ends in `late` was taken
/// away since, and the record of one that ends in `lost` fails.
#[derive(Default)]
pub(crate) struct Ledger(pub(crate) Mutex<Vec<ToolUse>>);

#[async_trait]
impl Grants for Ledger {
    async fn granted(&self, _: &AgentKey) -> Read<Vec<String>> {
        Ok(crate::TABLE.iter().map(|tool| tool.name.to_owned()).collect())
    }

    async fn use_tool(&self, key: &AgentKey, used: &ToolUse) -> Read<bool> {
        match key.expose() {
            "bb_agent_late" => Ok(false),
            "bb_agent_lost" => Err(AuthorityError::StoreUnavailable("full".to_owned())),
            _ => {
                self.0.lock().unwrap().push(used.clone());
                Ok(true)
            }
        }
    }
}

/// One row of each kind; whoever asks for one at most is told that Stripe is down.
pub(crate) struct OneOfEach;

#[async_trait]
impl Connector for OneOfEach {
    async fn balance(&self, by: Deadline) -> Result<BalanceView, ConnectorError> {
        assert_eq!(by, Deadline::at(Duration::from_secs(25)));
        let (usd, eur) = (MoneyView::new(1250, "usd"), MoneyView::new(-300, "eur"));
        Ok(BalanceView::new(vec![usd.clone()], vec![usd, eur], false))
    }

    async fn customers(
        &self,
        _: &CustomersAsk,
        _: Deadline,
    ) -> Result<CustomersView, ConnectorError> {
        let email = Some("ann@example.com");
        let row = CustomerRow { id: "cus_1", name: Some("Ann"), email, created_secs: 0 };
        Ok(CustomersView::new(vec![CustomerView::new(&row)], false, false))
    }

    async fn disputes(
        &self,
        _: &DisputesAsk,
        _: Deadline,
        _: &(dyn Fn(u32) + Send + Sync),
    ) -> Result<DisputesView, ConnectorError> {
        let row = DisputeRow {
            id: "dp_1",
            amount: 500,
            currency: "usd",
            reason: "fraudulent",
            status: "needs_response",
            charge: "ch_1",
            due_secs: None,
            created_secs: 0,
        };
        let rows = vec![DisputeView::new(&row)];
        Ok(DisputesView::new(rows, false, None, |id| id.to_owned()))
    }

    async fn payments(
        &self,
        ask: &PaymentsAsk,
        _: Deadline,
    ) -> Result<PaymentsView, ConnectorError> {
        if ask.limit == 1 {
            return Err(ConnectorError::Unavailable);
        }
        let row = PaymentRow {
            id: "pi_1",
            amount: 500,
            received: 500,
            currency: "usd",
            status: "succeeded",
            customer: None,
            description: Some("canary"),
            created_secs: 0,
        };
        let rows = vec![PaymentView::new(&row)];
        Ok(PaymentsView::new(rows, false, None, |id| id.to_owned()))
    }
}
