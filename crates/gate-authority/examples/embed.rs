//! Embeds the refund core in a shop: its own till instead of Stripe, and the shipped authority over
//! a store in memory. Run it with `cargo run -p gate-authority --example embed`.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example shows what happens")]

use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_trait::async_trait;
use gate_authority::{Actor, Admin, AuthorityConfig, LocalAuthority};
use gate_core::*;
use gate_money::{Amount, Currency};
use gate_store::MemStore;
use ring::rand::{SecureRandom as _, SystemRandom};

/// The shop's till sold everything for 500 dollars, and keeps what it gave back.
#[derive(Default)]
struct Till(Mutex<Vec<ListedRefund>>);

#[async_trait]
impl Processor for Till {
    async fn channel(&self) -> Result<Channel, ReadError> {
        Ok(Channel {
            account: None,
            livemode: false,
            version: "till-1".to_owned(),
            key: None,
            agent_tagged: false,
        })
    }
    async fn charge(&self, _: &Target, _: Deadline) -> Result<Charge, ReadError> {
        let price = Amount::new(50_000, Currency::USD).unwrap();
        let paid = Charge::paid(ChargeId::parse("ch_1").unwrap(), price, self.channel().await?);
        let yesterday = Timestamp::from_millis(1_793_275_200_000);
        Ok(Charge { created_at: yesterday, ..paid.unwrap() })
    }
    /// An intent is paid once, however often it is sent.
    async fn refund(&self, ticket: &Ticket, _: Deadline) -> Result<Refund, SendError> {
        let (mut given, intent) = (self.0.lock().unwrap(), Some(ticket.intent().clone()));
        if let Some(made) = given.iter().find(|made| made.refund.intent == intent) {
            return Ok(made.refund.clone());
        }
        let id = RefundId::parse(&format!("re_{}", given.len())).unwrap();
        let refund = Refund { id, status: RefundStatus::Succeeded, intent };
        let minor = ticket.amount().minor();
        let (created_at, audit_head) = (Shop.now(), None);
        given.push(ListedRefund { refund: refund.clone(), minor, created_at, audit_head });
        Ok(refund)
    }
    async fn refunds_of(&self, _: &ChargeId, _: Deadline) -> Result<Vec<ListedRefund>, ReadError> {
        Ok(self.0.lock().unwrap().clone())
    }
}

/// The shop's clock stands at noon, so that the example is the same each time.
struct Shop;
impl Clock for Shop {
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
impl Ids for Shop {
    fn fill(&self, bytes: &mut [u8]) {
        SystemRandom::new().fill(bytes).unwrap();
    }
}

async fn day() {
    let (shop, till) = (Arc::new(Shop), Arc::new(Till::default()));
    let (store, config) = (Arc::new(MemStore::new(shop.clone())), AuthorityConfig::default());
    let desk = Arc::new(LocalAuthority::new(store, shop.clone(), shop.clone(), config));
    let (ports, ids) = ((desk.clone(), desk.clone(), till.clone()), shop.clone());
    let refunds = Refunds::new(ports.0, ports.1, ports.2, shop.clone(), ids, Settings::default());
    let refunds = Arc::new(refunds);
    // The starter policy: 200 dollars a day, and from 50 dollars on a person decides.
    let admin = Admin::new(&desk, Actor::cli("shop", None));
    let (rita, clerk) = (UserName::parse("rita").unwrap(), AgentName::parse("clerk").unwrap());
    admin.create_user(&rita, &["reviewer".to_owned()]).await.unwrap();
    let (_, key) = admin.create_agent(&clerk, None, true).await.unwrap();
    let ask = async |order: &str, cents| {
        let order = IdempotencyKey::parse(order).ok();
        let ask = Ask::new(Target::parse("ch_1").unwrap(), Wanted::Minor(cents));
        let answer = refunds.refund(&key, Ask { key: order, ..ask }).await.unwrap();
        let Answer::Intent { intent, .. } = answer else { unreachable!("not a dry run") };
        println!("{}: {}, {}", intent.key, intent.amount, intent.state.as_str());
        *intent
    };
    assert_eq!(ask("order-1", 3_000).await.state, State::Settled);
    assert_eq!(ask("order-1", 3_000).await.state, State::Settled, "asked twice, paid once");
    assert_eq!(ask("order-2", 18_000).await.state, State::Denied, "210 dollars are over 200");
    let held = ask("order-3", 6_000).await;
    admin.approve(&held.approval.unwrap().id, &rita, None).await.unwrap();
    let done = Reconciler::new(refunds.clone(), shop).step().await.unwrap();
    assert_eq!((done.driven, till.0.lock().unwrap().len()), (vec![(held.id, State::Settled)], 2));
}

pub(crate) fn main() {
    let (mut day, mut context) = (pin!(day()), Context::from_waker(Waker::noop()));
    while day.as_mut().poll(&mut context) == Poll::Pending {}
}
