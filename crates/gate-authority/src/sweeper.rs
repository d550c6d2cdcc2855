//! What the authority does by itself, when it is due: exchange rates and expiry.

use std::sync::Arc;
use std::time::Duration;

use gate_core::bugs::{self, Bug};
use gate_core::{AuthorityError, IntentId};
use gate_store::{Due, Reads, Snapshot, Write};

use crate::approval;
use crate::authority::LocalAuthority;
use crate::change::{Actor, Plan, transact};
use crate::decide::World;
use crate::keys::Seed;
use crate::rates::{FeedError, RatesFeed, is_stale, parse_feed, published};

/// Most intents that one step lets expire.
const EXPIRED_MAX: u16 = 100;
/// How far ahead of us the feed's day may be: its publisher's morning is our night.
const CLOCK_SKEW: Duration = Duration::from_secs(24 * 3600);

/// Does what is due.
pub struct Sweeper {
    authority: Arc<LocalAuthority>,
    feed: Arc<dyn RatesFeed>,
}

/// What one step did.
#[derive(Debug, Default)]
pub struct Swept {
    /// Intents whose approval was not given, or not used, in time.
    pub expired: Vec<IntentId>,
}

impl Sweeper {
    /// A sweeper for `authority`, with rates from `feed`.
    #[must_use]
    pub const fn new(authority: Arc<LocalAuthority>, feed: Arc<dyn RatesFeed>) -> Self {
        Self { authority, feed }
    }

    /// Lets expire what is past its time.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`]; nothing expired.
    pub async fn step(&self) -> Result<Swept, AuthorityError> {
        let authority = &self.authority;
        let reads = Reads { due: Some((Due::Expired, EXPIRED_MAX)), ..Reads::default() };
        if authority.read(reads.clone()).await?.intents.is_empty() {
            return Ok(Swept::default());
        }
        let seed = Seed::draw(authority.ids.as_ref());
        let config = Arc::clone(&authority.config);
        let judge = move |now, seen: &Snapshot| {
            let world = World { now, seen, config: &config, ids: &seed.stream() };
            let mut plan = Plan::nothing(Ok(Swept::default()));
            for intent in &seen.intents {
                match approval::expire(intent, &Actor::sweeper(), &world) {
                    Ok(mut ended) => {
                        plan.writes.append(&mut ended.writes);
                        if let Ok(swept) = &mut plan.reply {
                            swept.expired.push(ended.reply.id);
                        }
                    }
                    Err(error) => return Plan::nothing(Err(error)),
                }
            }
            plan
        };
        transact(authority.store.as_ref(), reads, judge).await?
    }

    /// Fetches the rates and keeps them, if they can be trusted; answers their day. (Weekends and
    /// holidays have none: the last day's stay.)
    ///
    /// # Errors
    ///
    /// [`FeedError`]; the old table stays.
    pub async fn refresh_rates(&self) -> Result<String, FeedError> {
        let xml = self.feed.fetch().await.map_err(FeedError::Unavailable)?;
        let table = parse_feed(&xml)?;
        let unavailable = |error: AuthorityError| FeedError::Unavailable(error.to_string());
        let reads = Reads { rates: true, ..Reads::default() };
        let max_age = self.authority.config.rates_max_age;
        let judge = move |now: gate_core::Timestamp, seen: &Snapshot| {
            let date = table.date().to_owned();
            let ahead = published(&table).is_none_or(|day| day > now.after(CLOCK_SKEW));
            if ahead {
                return Plan::nothing(Err(FeedError::Future(date)));
            }
            match &seen.rates {
                // What nothing is counted by any more is nothing to compare with either: so a
                // move that was refused at first is taken once the old table has run out.
                Some(old) if is_stale(old, now, max_age) && old.date() < table.date() => {
                    kept(&table, date)
                }
                Some(old) => match table.follows(old) {
                    Ok(()) if *old == table => Plan::nothing(Ok(date)),
                    Ok(()) => kept(&table, date),
                    Err(_) if bugs::on(Bug::MadTableTaken) => kept(&table, date),
                    Err(fault) => Plan::nothing(Err(FeedError::Untrusted(fault))),
                },
                None => kept(&table, date),
            }
        };
        transact(self.authority.store.as_ref(), reads, judge).await.map_err(unavailable)?
    }
}

fn kept(table: &gate_money::RateTable, date: String) -> Plan<Result<String, FeedError>> {
    Plan { writes: vec![Write::PutRates(table.clone())], reply: Ok(date) }
}
