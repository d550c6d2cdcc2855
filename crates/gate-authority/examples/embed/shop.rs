//! What the shop brings: who makes its refunds, what time it is, and where randomness comes from.

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use gate_core::{
    Channel, Charge, ChargeId, ChargeStatus, Clock, CustomerFact, Deadline, Dispute, Ids,
    Processor, ReadError, Refund, RefundId, RefundStatus, SendError, Target, Ticket, Timestamp,
};
use gate_money::{Amount, Currency};
use ring::rand::{SecureRandom, SystemRandom};

/// The shop's till. It sold one thing, for 500 dollars, and knows what it gave back of it.
#[derive(Default)]
pub(crate) struct Till(Mutex<Vec<Refund>>);

impl Till {
    pub(crate) fn given_back(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

#[async_trait]
impl Processor for Till {
    async fn channel(&self) -> Result<Channel, ReadError> {
        Ok(Channel { account: None, livemode: false, version: "till-1".to_owned() })
    }
    async fn charge(&self, _: &Target, _: Deadline) -> Result<Charge, ReadError> {
        let dollars = |minor| Amount::from_stripe(minor, Currency::USD).unwrap();
        Ok(Charge {
            id: ChargeId::parse("ch_1").unwrap(),
            payment_intent: None,
            amount: dollars(50_000),
            amount_captured: dollars(50_000),
            amount_refunded: dollars(0),
            captured: true,
            status: ChargeStatus::Succeeded,
            dispute: Dispute::None,
            customer: CustomerFact::None,
            created_at: Timestamp::default(),
            channel: self.channel().await?,
        })
    }
    /// Idempotent, as it must be: an intent is paid once, however often it is sent.
    async fn refund(&self, ticket: &Ticket, _: Deadline) -> Result<Refund, SendError> {
        let (mut given, intent) = (self.0.lock().unwrap(), Some(ticket.intent().clone()));
        if let Some(refund) = given.iter().find(|refund| refund.intent == intent) {
            return Ok(refund.clone());
        }
        let id = RefundId::parse(&format!("re_{}", given.len())).unwrap();
        given.push(Refund { id, status: RefundStatus::Succeeded, intent });
        Ok(given.last().cloned().unwrap())
    }
    async fn refunds_of(&self, _: &ChargeId, _: Deadline) -> Result<Vec<Refund>, ReadError> {
        Ok(self.0.lock().unwrap().clone())
    }
}

/// Noon of one day, so that the example is the same each time; and the system's randomness, which
/// keys are made of.
pub(crate) struct Noon;

impl Clock for Noon {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_793_361_600_000)
    }
    fn uptime(&self) -> Duration {
        Duration::ZERO
    }
    fn sleep_until(&self, _: Deadline) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(pending())
    }
}

impl Ids for Noon {
    fn fill(&self, bytes: &mut [u8]) {
        SystemRandom::new().fill(bytes).unwrap();
    }
}
