//! Reads for staff: payments, the balance, customers and disputes, behind the [`Guard`].
//!
//! [`StripeReads`] is gate-api's [`Connector`]. It asks Stripe for what the answers hold and for
//! nothing more, expands nothing, and logs no names, no rows and no keywords.

mod search;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gate_api::connector::{
    BalanceView, Connector, ConnectorError, CustomersAsk, CustomersView, DISPUTE_PAGES_MAX,
    DisputeStatus, DisputeView, DisputesAsk, DisputesView, More, PaymentsAsk, PaymentsView,
    Stopped, overflows,
};
use gate_core::{Deadline, ReadError};
use gate_http::Response;
use serde::de::DeserializeOwned;

use crate::client::StripeClient;
use crate::cursor::Cursors;
use crate::guard::{Ended, Guard, Pass, Refused, patience};
use crate::key::StripeKey;
use crate::permissions::Resource;
use crate::problem::Problem;
use crate::reads::read;
use crate::wire::List;
use wire::{Balance, ListedCustomer, ListedDispute, ListedPayment};

/// Disputes of one page; Stripe's own limit.
const DISPUTES_PAGE: u16 = 100;

/// Stripe, as staff read it.
pub struct StripeReads {
    client: Arc<StripeClient>,
    guard: Guard,
}

/// What the reading of disputes has found so far.
struct Found {
    /// Those that are shown.
    rows: Vec<DisputeView>,
    /// The last one that was looked at, shown or not.
    last: Option<String>,
}

impl StripeReads {
    /// Reads through `client`. There should be one for each client: it holds the guard.
    #[must_use]
    pub fn new(client: Arc<StripeClient>) -> Self {
        let guard = Guard::new(client.reads_per_minute());
        Self { client, guard }
    }

    /// The key, and the cursors of the question that `arguments` are.
    fn question(&self, arguments: &[&str]) -> Result<(StripeKey, Cursors), ConnectorError> {
        let key = self.client.key()?;
        let channel = self.client.channel_of(&key);
        let account = channel.account.as_ref().map_or("", |account| account.as_str());
        let mode = if key.livemode() { "live" } else { "test" };
        let cursors = Cursors::new(&[arguments, &[account, mode]].concat());
        Ok((key, cursors))
    }

    /// One call, if the guard lets it through.
    async fn call<T: DeserializeOwned>(
        &self,
        key: &StripeKey,
        path: &str,
        query: &[(&str, &str)],
        resource: Resource,
        by: Deadline,
    ) -> Result<T, ConnectorError> {
        let pass = self.pass(key, by).await?;
        let answer = self.client.fetch(key, path, query, by).await;
        let now = self.client.clock().uptime();
        if let Some(after) = answer.as_ref().ok().and_then(patience_asked) {
            pass.end(Ended::Patience { after }, now);
            return Err(ConnectorError::Paused { after });
        }
        let found = read(answer, resource, &self.client.channel_of(key));
        let failed = matches!(found, Err(ReadError::Unavailable { .. } | ReadError::Unreadable));
        pass.end(if failed { Ended::Failed } else { Ended::Answered }, now);
        Ok(found?)
    }

    /// Waits for the next second if that is all there is to wait for.
    async fn pass(&self, key: &StripeKey, by: Deadline) -> Result<Pass<'_>, ConnectorError> {
        let clock = self.client.clock();
        loop {
            let now = clock.uptime();
            match self.guard.admit(key, now) {
                Ok(pass) => return Ok(pass),
                Err(Refused::Soon { after }) if after < by.left(now) => {
                    clock.sleep_until(clock.deadline(after)).await;
                }
                Err(Refused::Busy { after } | Refused::Soon { after }) => {
                    return Err(ConnectorError::Busy { after });
                }
                Err(Refused::Paused { after }) => return Err(ConnectorError::Paused { after }),
            }
        }
    }

    async fn page<T: DeserializeOwned>(
        &self,
        key: &StripeKey,
        path: &str,
        query: &[(&str, &str)],
        resource: Resource,
        by: Deadline,
    ) -> Result<List<T>, ConnectorError> {
        let page: List<T> = self.call(key, path, query, resource, by).await?;
        if page.data.is_empty() && page.has_more {
            tracing::error!(resource = resource.name(), "an empty page with more after it");
            return Err(ConnectorError::Unreadable);
        }
        Ok(page)
    }

    /// Reads pages of disputes until there are as many as are asked for.
    async fn find_disputes(
        &self,
        key: &StripeKey,
        ask: &DisputesAsk,
        found: &mut Found,
        by: Deadline,
        progress: &(dyn Fn(u32) + Send + Sync),
    ) -> Result<Ending, ConnectorError> {
        let limit = usize::from(ask.limit);
        let size = match ask.status {
            DisputeStatus::All => ask.limit,
            DisputeStatus::Open => DISPUTES_PAGE,
        };
        let size = size.to_string();
        for pages in 1..=DISPUTE_PAGES_MAX {
            let mut query = vec![("limit", size.as_str())];
            query.extend(found.last.as_deref().map(|id| ("starting_after", id)));
            let page = self.page(key, "/v1/disputes", &query, Resource::Disputes, by).await;
            let page: List<ListedDispute> = match page {
                Ok(page) => page,
                Err(error) if pages > 1 => return Ok(Ending::Stopped(Stopped::Failed(error))),
                Err(error) => return Err(error),
            };
            progress(pages);
            let mut left = page.data.into_iter();
            while found.rows.len() < limit
                && let Some(dispute) = left.next()
            {
                if ask.status == DisputeStatus::All || is_open(&dispute.status) {
                    found.rows.push(dispute.view());
                }
                found.last = Some(dispute.id);
            }
            if left.len() == 0 && !page.has_more {
                return Ok(Ending::Nothing);
            }
            if found.rows.len() >= limit || overflows(&found.rows) {
                return Ok(Ending::Enough);
            }
        }
        Ok(Ending::Stopped(Stopped::PagesRead))
    }
}

/// How the reading of disputes ended.
enum Ending {
    /// There are as many as were asked for, and more at Stripe.
    Enough,
    /// There are no more at Stripe.
    Nothing,
    Stopped(Stopped),
}

#[async_trait]
impl Connector for StripeReads {
    async fn balance(&self, by: Deadline) -> Result<BalanceView, ConnectorError> {
        let key = self.client.key()?;
        let balance: Balance = self.call(&key, "/v1/balance", &[], Resource::Balance, by).await?;
        Ok(balance.view())
    }

    async fn customers(
        &self,
        ask: &CustomersAsk,
        by: Deadline,
    ) -> Result<CustomersView, ConnectorError> {
        let key = self.client.key()?;
        let (keyword, limit) = (ask.keyword.as_str(), ask.limit.to_string());
        let text = search::query(keyword);
        let query = [("query", text.as_str()), ("limit", limit.as_str())];
        let resource = Resource::Customers;
        let page: List<ListedCustomer> =
            self.call(&key, "/v1/customers/search", &query, resource, by).await?;
        let found = page.data.iter().filter(|it| search::is_meant(keyword, it.email.as_deref()));
        let rows = found.map(ListedCustomer::view).collect();
        Ok(CustomersView::new(rows, key.livemode(), page.has_more))
    }

    async fn disputes(
        &self,
        ask: &DisputesAsk,
        by: Deadline,
        progress: &(dyn Fn(u32) + Send + Sync),
    ) -> Result<DisputesView, ConnectorError> {
        let (key, cursors) = self.question(&["disputes", ask.status.as_str()])?;
        let last = start(&cursors, ask.cursor.as_deref())?;
        let mut found = Found { rows: Vec::new(), last };
        let ending = self.find_disputes(&key, ask, &mut found, by, progress).await?;
        let stopped = match ending {
            Ending::Nothing => None,
            Ending::Enough => Some(None),
            Ending::Stopped(stopped) => Some(Some(stopped)),
        };
        let next = found.last.map(|id| cursors.after(&id));
        let more = next.zip(stopped).map(|(next, stopped)| More { next, stopped });
        Ok(DisputesView::new(found.rows, key.livemode(), more, |id| cursors.after(id)))
    }

    async fn payments(
        &self,
        ask: &PaymentsAsk,
        by: Deadline,
    ) -> Result<PaymentsView, ConnectorError> {
        let days = [ask.from, ask.to].map(|day| day.map(|day| day.to_string()).unwrap_or_default());
        let [from, to] = &days;
        let (key, cursors) = self.question(&["payments", from, to])?;
        let after = start(&cursors, ask.cursor.as_deref())?;
        let limit = ask.limit.to_string();
        let at_least = ask.from.map(|day| day.first_secs().to_string());
        let at_most = ask.to.map(|day| day.last_secs().to_string());
        let mut query = vec![("limit", limit.as_str())];
        query.extend(at_least.as_deref().map(|secs| ("created[gte]", secs)));
        query.extend(at_most.as_deref().map(|secs| ("created[lte]", secs)));
        query.extend(after.as_deref().map(|id| ("starting_after", id)));
        let page: List<ListedPayment> =
            self.page(&key, "/v1/payment_intents", &query, Resource::PaymentIntents, by).await?;
        let last = page.data.last().filter(|_| page.has_more);
        let more = last.map(|last| More { next: cursors.after(&last.id), stopped: None });
        let rows = page.data.iter().map(ListedPayment::view).collect();
        Ok(PaymentsView::new(rows, key.livemode(), more, |id| cursors.after(id)))
    }
}

/// The row after which a list goes on.
fn start(cursors: &Cursors, cursor: Option<&str>) -> Result<Option<String>, ConnectorError> {
    let row = |cursor| cursors.row(cursor).ok_or(ConnectorError::CursorRefused);
    cursor.map(row).transpose()
}

/// Whether something may still be to be done about a dispute with this status. One that is not
/// known is shown: it is newer than this list.
fn is_open(status: &str) -> bool {
    !matches!(status, "lost" | "prevented" | "warning_closed" | "won")
}

/// How long Stripe is to be left alone, when it asks for that.
fn patience_asked(response: &Response) -> Option<Duration> {
    if response.status == 200 {
        return None;
    }
    let problem = Problem::of(response);
    let asked = problem.status == 429 || problem.is_about_load();
    asked.then(|| patience(problem.after))
}
