//! F8: requests that race on a cap, through two stores on one database.

use std::sync::Arc;

use gate_core::State;
use gate_store::{Reads, Snapshot, Store, StoreError, Write, verify};

use crate::world::{Says, audit, day, insert, intent_with, of_agent, reserve};

/// Has `requests` reserve a micro-dollar each, as long as fewer than `cap` are spent, half of them
/// through each store; answers with how each ended.
pub(crate) async fn race(
    stores: &[Arc<dyn Store>; 2],
    requests: usize,
    cap: i64,
) -> Vec<Result<(), StoreError>> {
    let one_more = |n: usize| {
        let judge = Says(move |_, seen: &Snapshot| {
            if seen.spent.iter().any(|spent| spent.usd.micros() >= cap) {
                return vec![];
            }
            let id = format!("int_{n}");
            vec![
                insert(intent_with(&id, State::Submitted, |_| {})),
                reserve(&id, 1, vec![day(1, 0)]),
                audit(1),
            ]
        });
        let reads = Reads { policy: true, ..of_agent(1) };
        stores[n % 2].transact(reads, Arc::new(judge))
    };
    futures_util::future::join_all((0..requests).map(one_more)).await
}

/// What is spent, by each store's account; what it is the sum of holds together.
pub(crate) async fn spent(stores: &[Arc<dyn Store>; 2]) -> [i64; 2] {
    let mut all = [0; 2];
    for (store, all) in stores.iter().zip(&mut all) {
        let reads = Reads {
            policy: true,
            audit: Some(gate_store::AuditRange::WHOLE),
            books: true,
            ..of_agent(1)
        };
        let seen = store.read(reads).await.unwrap();
        *all = seen.spent.iter().map(|spent| spent.usd.micros()).sum();
        let each = i64::try_from(seen.books.reservations.len()).unwrap();
        let entries = i64::try_from(seen.head.n).unwrap();
        assert_eq!((each, entries), (*all, *all), "a reservation and an entry for each");
        assert_eq!(seen.books.key_holders.len(), seen.books.reservations.len());
        assert_eq!(verify(&seen.audit), Ok(seen.head));
    }
    all
}

pub(crate) async fn write(store: &dyn Store, writes: Vec<Write>) -> Result<(), StoreError> {
    let judge = Says(move |_, _: &Snapshot| writes.clone());
    store.transact(Reads::default(), Arc::new(judge)).await
}
