//! A shop that embeds the refund core: its own till instead of Stripe, its own clock and ids
//! (`shop.rs`), and the shipped authority over a store in memory. To see it:
//! `cargo run -p gate-authority --example embed`
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "an example shows what happens")]

mod shop;

use std::error::Error;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use gate_authority::{Actor, Admin, AuthorityConfig, LocalAuthority};
use gate_core::{
    Actions, AgentKey, AgentName, Answer, Ask, IdempotencyKey, Intent, Reconciler, Refunds,
    Settings, State, Target, UserName, Wanted,
};
use gate_store::MemStore;

use shop::{Noon, Till};

pub(crate) fn main() {
    block_on(day_in_the_shop()).unwrap();
}

async fn day_in_the_shop() -> Result<(), Box<dyn Error>> {
    // The authority decides and records, the till pays; the core sees to it that both agree.
    let (clock, till) = (Arc::new(Noon), Arc::new(Till::default()));
    let store = Arc::new(MemStore::new(clock.clone()));
    let config = AuthorityConfig::default();
    let authority = Arc::new(LocalAuthority::new(store, clock.clone(), clock.clone(), config));
    let refunds = Arc::new(Refunds::new(
        authority.clone(),
        authority.clone(),
        till.clone(),
        clock.clone(),
        clock.clone(),
        Settings::default(),
    ));

    // An agent with a starter policy: 200 dollars a day, and from 50 dollars on a person decides.
    let admin = Admin::new(&authority, Actor::cli("shopkeeper", None));
    let rita = UserName::parse("rita")?;
    admin.create_user(&rita, &["reviewer".to_owned()]).await?;
    let (_, key) = admin.create_agent(&AgentName::parse("clerk")?, None, true).await?;

    let paid = ask(&refunds, &key, "order-1", 3_000).await?;
    assert_eq!(paid.state, State::Settled);
    let replayed = ask(&refunds, &key, "order-1", 3_000).await?;
    assert_eq!((&replayed.id, till.given_back()), (&paid.id, 1), "asked twice, paid once");

    let denied = ask(&refunds, &key, "order-2", 18_000).await?;
    assert_eq!(denied.state, State::Denied, "210 dollars are more than 200");

    let held = ask(&refunds, &key, "order-3", 6_000).await?;
    assert_eq!(held.state, State::PendingApproval, "a person has to look at 60 dollars");
    let approval = held.approval.ok_or("nobody was asked")?;
    let approved = admin.approve(&approval.id, &rita, Some("the parcel came back")).await?;
    assert_eq!(approved.state, State::Approved);

    // What was approved, and what a crash left half-way, is driven to its end.
    let done = Reconciler::new(refunds, clock).step().await?;
    println!("reconciled: {:?}", done.driven);
    assert_eq!(done.driven, [(held.id, State::Settled)]);
    assert_eq!(till.given_back(), 2);
    Ok(())
}

type Asked = Result<Intent, Box<dyn Error>>;

/// Asks for so many cents, and prints the answer.
async fn ask(refunds: &Refunds, agent: &AgentKey, key: &str, minor: i64) -> Asked {
    let ask = Ask {
        target: Target::parse("ch_1")?,
        wanted: Wanted::Minor(minor),
        believed_currency: None,
        reason: None,
        justification: None,
        key: Some(IdempotencyKey::parse(key)?),
        dry_run: false,
    };
    let Answer::Intent { intent, replayed, .. } = refunds.refund(agent, ask).await? else {
        return Err("no dry run was asked for".into());
    };
    let why = intent.reasons.first().map_or("", |reason| &reason.message);
    println!("{key}: {} {}, replayed: {replayed}. {why}", intent.amount, intent.state.as_str());
    Ok(*intent)
}

/// The smallest executor: nothing here waits for anything. Any other will do.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let (mut future, mut context) = (pin!(future), Context::from_waker(Waker::noop()));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}
