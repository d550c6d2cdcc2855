//! Reads what a transaction asked for. Whoever calls has begun a transaction, so that all of it is
//! of one state.

use futures_util::future::try_join_all;
use futures_util::try_join;
use gate_core::{
    AccountId, AgentId, AgentName, CustomerId, GatewayId, Intent, IntentId, KeyMark, Source, State,
    Target, Timestamp, Wanted,
};
use gate_money::{Currency, Decimal, RateTable};

use crate::audit::{AuditEntry, AuditRange, AuditRow, Head};
use crate::database::{Cells, Database, Value, params};
use crate::port::{
    AgentBy, AgentRow, Books, CUSTOMER_HISTORY, Due, GatewayKeyRow, GatewayRow, IntentBy,
    IntentQuery, KeyHash, KeyRow, Money, Nonce, PolicyRow, Prior, RECENT, Reads, Refunded, Refused,
    Reservation, Scope, Snapshot, SpendWindow, Spent, StopRow, StoreError, USABLE_AFTER_APPROVAL,
    UserRow, WebhookRow,
};
use crate::rows::{self, row, rows};

/// Sorts after the id of every intent.
const AFTER_EVERY_INTENT: &str = "int~";

/// Everything that `reads` names, and the head of the audit chain. What does not hang on each other
/// is asked together, so that a database which is far away is not waited for again and again.
pub(crate) async fn snapshot(
    connection: &impl Database,
    now: Timestamp,
    reads: &Reads,
) -> Result<Snapshot, StoreError> {
    let intents = async {
        match (&reads.intents, &reads.due) {
            (Some(query), _) => listed(connection, query).await,
            (None, Some((due, limit))) => {
                work(connection, now, due, reads.due_of.as_ref(), *limit).await
            }
            (None, None) => Ok(Vec::new()),
        }
    };
    let event = async {
        match &reads.event {
            Some(id) => event_noted_at(connection, id).await,
            None => Ok(None),
        }
    };
    let of_customer = async {
        match &reads.customer {
            Some(customer) => refunded(connection, now, customer).await,
            None => Ok(Refunded::default()),
        }
    };
    let of_audit = async {
        match reads.audit {
            Some(range) => audit(connection, range).await,
            None => Ok(Vec::new()),
        }
    };
    let (head, seen, intents, event_noted_at, refunded, audit) = try_join!(
        head(connection),
        intent_and_agent(connection, now, reads),
        intents,
        event,
        of_customer,
        of_audit,
    )?;
    let gateway = async {
        match &reads.gateway {
            Some(id) => gateway(connection, id).await,
            None => Ok(None),
        }
    };
    let nonce_used = async {
        match &reads.nonce {
            Some(nonce) => nonce_used(connection, nonce).await,
            None => Ok(false),
        }
    };
    let (gateway, gateways, nonce_used) =
        try_join!(gateway, asked(reads.gateways, gateways(connection)), nonce_used)?;
    let (agents, policy, policies, stops, agent_tagged_keys, rates, users, webhooks, books) = try_join!(
        asked(reads.agents, agents(connection)),
        asked(reads.policy, policy(connection)),
        asked(reads.policies, policies(connection)),
        asked(reads.policy, stops(connection)),
        asked(reads.policy, agent_tagged_keys(connection)),
        asked(reads.rates, rates(connection)),
        asked(reads.users, users(connection)),
        asked(reads.webhooks, webhooks(connection)),
        asked(reads.books, books(connection)),
    )?;
    Ok(Snapshot {
        head,
        intents,
        event_noted_at,
        refunded,
        audit,
        agents,
        gateway,
        gateways,
        nonce_used,
        policy,
        policies,
        stops,
        agent_tagged_keys,
        rates,
        users,
        webhooks,
        books,
        ..seen
    })
}

/// What `read` answers with, if it was asked for.
async fn asked<T: Default>(
    is: bool,
    read: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    if is { read.await } else { Ok(T::default()) }
}

/// The intent, the agent, and what is read of that agent.
async fn intent_and_agent(
    connection: &impl Database,
    now: Timestamp,
    reads: &Reads,
) -> Result<Snapshot, StoreError> {
    let mut seen = Snapshot::default();
    if let Some(by) = &reads.intent {
        seen.intent = intent_by(connection, by).await?;
    }
    if let Some(by) = &reads.agent {
        seen.agent = agent_by(connection, by, seen.intent.as_ref()).await?;
    }
    let Some(AgentRow { id, .. }) = &seen.agent else { return Ok(seen) };
    let prior = async {
        match &reads.prior {
            Some(asked) => prior(connection, id, asked).await,
            None => Ok(None),
        }
    };
    let refused = async {
        match &reads.refused {
            Some(asked) => refused(connection, id, asked).await,
            None => Ok(None),
        }
    };
    let own = Scope::Agent(id.clone());
    let customers =
        reads.customer.clone().map(|customer| Scope::Customer { agent: id.clone(), customer });
    let of_customer = async {
        match (&customers, reads.policy) {
            (Some(scope), true) => open_windows(connection, now, scope).await,
            (Some(_) | None, _) => Ok(Vec::new()),
        }
    };
    let (prior, refused, own, of_customer, of_teams, recent_refunds) = try_join!(
        prior,
        refused,
        asked(reads.policy, open_windows(connection, now, &own)),
        of_customer,
        asked(reads.policy, open_windows_of_teams(connection, now)),
        asked(reads.policy, recent_refunds(connection, now, id)),
    )?;
    (seen.prior, seen.refused, seen.recent_refunds) = (prior, refused, recent_refunds);
    seen.spent = [own, of_customer, of_teams].concat();
    // Sorted as the types are: a scope's text has another order than the scope.
    seen.spent.sort_by(|a, b| a.window.cmp(&b.window));
    Ok(seen)
}

async fn event_noted_at(
    connection: &impl Database,
    id: &str,
) -> Result<Option<Timestamp>, StoreError> {
    const SQL: &str = include_str!("sql/stripe_event.sql");
    row(connection, SQL, "stripe_events", params![id], |cells| cells.time("noted_at")).await
}

async fn head(connection: &impl Database) -> Result<Head, StoreError> {
    const SQL: &str = include_str!("sql/head.sql");
    let head = row(connection, SQL, "audit", params![], |cells| {
        Ok(Head { n: cells.count("n")?, hash: cells.bytes("hash")? })
    })
    .await?;
    Ok(head.unwrap_or_default())
}

pub(crate) async fn audit(
    connection: &impl Database,
    range: AuditRange,
) -> Result<Vec<AuditRow>, StoreError> {
    const SQL: &str = include_str!("sql/audit.sql");
    // What was put in before the first is seen, too.
    let after = if range.after == 0 { i64::MIN.into() } else { rows::integer(range.after)? };
    rows(connection, SQL, "audit", [after, range.limit.into()], |cells| {
        Ok(AuditRow {
            n: cells.count("n")?,
            entry: AuditEntry {
                at: cells.time("at")?,
                actor: cells.owned("actor")?,
                action: cells.owned("action")?,
                subject: cells.owned("subject")?,
                details: cells.owned("details")?,
                salt: cells.bytes("salt")?,
            },
            marks: cells.bytes("marks")?,
            digest: cells.bytes("digest")?,
            hash: cells.bytes("hash")?,
        })
    })
    .await
}

async fn intent_by(
    connection: &impl Database,
    by: &IntentBy,
) -> Result<Option<Intent>, StoreError> {
    match by {
        IntentBy::Id(id) => intent(connection, id).await,
        IntentBy::Approval(id) => {
            let Some((of, approval)) = approval(connection, id.as_str()).await? else {
                return Ok(None);
            };
            let intent = intent(connection, &of).await?;
            Ok(intent.map(|intent| Intent { approval: Some(approval), ..intent }))
        }
    }
}

async fn intent(connection: &impl Database, id: &IntentId) -> Result<Option<Intent>, StoreError> {
    const SQL: &str = include_str!("sql/intent.sql");
    let found = row(connection, SQL, "intents", params![id.as_str()], rows::intent).await?;
    let Some((mut intent, approval_id)) = found else {
        return Ok(None);
    };
    if let Some(approval_id) = approval_id {
        let Some((_, approval)) = approval(connection, &approval_id).await? else {
            return Err(StoreError::Corrupt(format!(
                "table intents, row {id}, column approval_id; there is no such approval"
            )));
        };
        intent.approval = Some(approval);
    }
    Ok(Some(intent))
}

async fn approval(
    connection: &impl Database,
    id: &str,
) -> Result<Option<(IntentId, gate_core::Approval)>, StoreError> {
    const SQL: &str = include_str!("sql/approval.sql");
    row(connection, SQL, "approvals", params![id], rows::approval).await
}

/// The intents whose ids a statement answers with, in its order.
async fn intents(
    connection: &impl Database,
    sql: &'static str,
    params: impl AsRef<[Value<'_>]>,
) -> Result<Vec<Intent>, StoreError> {
    let ids = rows(connection, sql, "intents", params, |cells| cells.parsed("id", IntentId::parse))
        .await?;
    let found = try_join_all(ids.iter().map(|id| intent(connection, id))).await?;
    Ok(found.into_iter().flatten().collect())
}

async fn prior(
    connection: &impl Database,
    agent: &AgentId,
    asked: &Prior,
) -> Result<Option<Intent>, StoreError> {
    const BY_KEY: &str = include_str!("sql/prior_by_key.sql");
    const BY_CHARGE: &str = include_str!("sql/prior_by_charge.sql");
    const BY_PAYMENT_INTENT: &str = include_str!("sql/prior_by_payment_intent.sql");
    let agent = agent.as_str();
    let found = match asked {
        Prior::Key(key) => intents(connection, BY_KEY, params![agent, key.as_str()]).await?,
        Prior::Keyless { target, wanted, settled_since } => {
            let sql = match target {
                Target::Charge(_) => BY_CHARGE,
                Target::PaymentIntent(_) => BY_PAYMENT_INTENT,
            };
            let (wanted, since) = (minor(*wanted), settled_since.millis());
            intents(connection, sql, params![agent, target.as_str(), wanted, since]).await?
        }
    };
    Ok(found.into_iter().next())
}

async fn refused(
    connection: &impl Database,
    agent: &AgentId,
    asked: &Refused,
) -> Result<Option<Intent>, StoreError> {
    const BY_CHARGE: &str = include_str!("sql/refused_by_charge.sql");
    const BY_PAYMENT_INTENT: &str = include_str!("sql/refused_by_payment_intent.sql");
    let sql = match asked.target {
        Target::Charge(_) => BY_CHARGE,
        Target::PaymentIntent(_) => BY_PAYMENT_INTENT,
    };
    let found = intents(
        connection,
        sql,
        params![
            agent.as_str(),
            asked.target.as_str(),
            minor(asked.wanted),
            asked.minor,
            asked.since.millis()
        ],
    )
    .await?;
    Ok(found.into_iter().next())
}

/// `None` stands for "in full".
const fn minor(wanted: Wanted) -> Option<i64> {
    match wanted {
        Wanted::Full => None,
        Wanted::Minor(minor) => Some(minor),
    }
}

async fn listed(
    connection: &impl Database,
    query: &IntentQuery,
) -> Result<Vec<Intent>, StoreError> {
    const ALL: &str = include_str!("sql/intents.sql");
    const BY_AGENT: &str = include_str!("sql/intents_by_agent.sql");
    const BY_KEY: &str = include_str!("sql/intents_by_key.sql");
    const BY_STATE: &str = include_str!("sql/intents_by_state.sql");
    let agent = query.agent.as_ref().map(AgentId::as_str);
    let key = query.key.as_ref().map(|key| key.as_str());
    let state = query.state.map(|state| state.as_str());
    let before = query.before.as_ref().map_or(AFTER_EVERY_INTENT, |id| id.as_str());
    let limit = query.limit;
    match (key, agent, state) {
        (Some(key), ..) => {
            intents(connection, BY_KEY, params![key, before, agent, state, limit]).await
        }
        (None, Some(agent), _) => {
            intents(connection, BY_AGENT, params![agent, before, state, limit]).await
        }
        (None, None, Some(state)) => {
            intents(connection, BY_STATE, params![state, before, limit]).await
        }
        (None, None, None) => intents(connection, ALL, params![before, limit]).await,
    }
}

async fn work(
    connection: &impl Database,
    now: Timestamp,
    due: &Due,
    of: Option<&Money>,
    limit: u16,
) -> Result<Vec<Intent>, StoreError> {
    const APPROVED: &str = include_str!("sql/due_approved.sql");
    const ATTEMPT: &str = include_str!("sql/due_attempt.sql");
    const EXPIRED: &str = include_str!("sql/due_expired.sql");
    const FOLLOWED: &str = include_str!("sql/due_followed.sql");
    const HOLD: &str = include_str!("sql/due_hold.sql");
    const ONE: &str = include_str!("sql/due_one.sql");
    const SUBMITTED: &str = include_str!("sql/due_submitted.sql");
    let unused_since = now.before(USABLE_AFTER_APPROVAL).millis();
    let now = now.millis();
    // Without a mode, work of every mode and account.
    let mode = of.map(|money| i64::from(money.livemode));
    let account = of.and_then(|money| money.account.as_ref()).map(AccountId::as_str);
    let followed = |state: State| {
        intents(connection, FOLLOWED, params![now, state.as_str(), mode, account, limit])
    };
    match due {
        Due::Approved => {
            let params = params![now, unused_since, mode, account, limit];
            intents(connection, APPROVED, params).await
        }
        Due::Attempt(id) => {
            intents(connection, ATTEMPT, params![id.as_str(), mode, account, limit]).await
        }
        Due::Expired => {
            let params = params![now, unused_since, mode, account, limit];
            intents(connection, EXPIRED, params).await
        }
        Due::Awaiting(None) => followed(State::AwaitingStripe).await,
        Due::Awaiting(Some(id)) => {
            intents(connection, HOLD, params![id.as_str(), now, mode, account, limit]).await
        }
        Due::Followed => followed(State::Settled).await,
        Due::One(id) => {
            intents(connection, ONE, params![id.as_str(), now, mode, account, limit]).await
        }
        Due::Submitted => intents(connection, SUBMITTED, params![now, mode, account, limit]).await,
    }
}

async fn agent_by(
    connection: &impl Database,
    by: &AgentBy,
    intent: Option<&Intent>,
) -> Result<Option<AgentRow>, StoreError> {
    const BY_KEY: &str = include_str!("sql/agent_by_key.sql");
    const BY_NAME: &str = include_str!("sql/agent_by_name.sql");
    let id = match by {
        AgentBy::Key(hash) => {
            row(connection, BY_KEY, "agent_keys", params![&hash.0], |cells| {
                cells.parsed("agent_id", AgentId::parse)
            })
            .await?
        }
        AgentBy::Name(name) => {
            row(connection, BY_NAME, "agents", params![name], |cells| {
                cells.parsed("id", AgentId::parse)
            })
            .await?
        }
        AgentBy::OfIntent => intent.map(|intent| intent.agent.clone()),
    };
    match id {
        Some(id) => agent(connection, &id).await,
        None => Ok(None),
    }
}

async fn agents(connection: &impl Database) -> Result<Vec<AgentRow>, StoreError> {
    const SQL: &str = include_str!("sql/agents.sql");
    let ids =
        rows(connection, SQL, "agents", params![], |cells| cells.parsed("id", AgentId::parse))
            .await?;
    let found = try_join_all(ids.iter().map(|id| agent(connection, id))).await?;
    Ok(found.into_iter().flatten().collect())
}

async fn agent(connection: &impl Database, id: &AgentId) -> Result<Option<AgentRow>, StoreError> {
    const AGENT: &str = include_str!("sql/agent.sql");
    const KEYS: &str = include_str!("sql/agent_keys.sql");
    let found = row(connection, AGENT, "agents", params![id.as_str()], |cells| {
        Ok(AgentRow {
            id: cells.parsed("id", AgentId::parse)?,
            name: cells.parsed("name", AgentName::parse)?,
            created_at: cells.time("created_at")?,
            revoked_at: cells.time_if("revoked_at")?,
            sources: cells.parsed("sources", sources)?,
            keys: Vec::new(),
        })
    })
    .await?;
    let Some(agent) = found else { return Ok(None) };
    let keys = rows(connection, KEYS, "agent_keys", params![id.as_str()], |cells| {
        Ok(KeyRow {
            hash: KeyHash(cells.bytes("hash")?),
            hint: cells.owned("hint")?,
            created_at: cells.time("created_at")?,
            expires_at: cells.time_if("expires_at")?,
        })
    })
    .await?;
    Ok(Some(AgentRow { keys, ..agent }))
}

async fn gateways(connection: &impl Database) -> Result<Vec<GatewayRow>, StoreError> {
    const SQL: &str = include_str!("sql/gateways.sql");
    let ids =
        rows(connection, SQL, "gateways", params![], |cells| cells.parsed("id", GatewayId::parse))
            .await?;
    let found = try_join_all(ids.iter().map(|id| gateway(connection, id))).await?;
    Ok(found.into_iter().flatten().collect())
}

async fn gateway(
    connection: &impl Database,
    id: &GatewayId,
) -> Result<Option<GatewayRow>, StoreError> {
    const GATEWAY: &str = include_str!("sql/gateway.sql");
    const KEYS: &str = include_str!("sql/gateway_keys.sql");
    let found = row(connection, GATEWAY, "gateways", params![id.as_str()], |cells| {
        Ok(GatewayRow {
            id: cells.parsed("id", GatewayId::parse)?,
            name: cells.parsed("name", AgentName::parse)?,
            created_at: cells.time("created_at")?,
            revoked_at: cells.time_if("revoked_at")?,
            keys: Vec::new(),
        })
    })
    .await?;
    let Some(gateway) = found else { return Ok(None) };
    let keys = rows(connection, KEYS, "gateway_keys", params![id.as_str()], |cells| {
        let version = cells.count("version")?;
        Ok(GatewayKeyRow {
            version: u32::try_from(version).map_err(|_| cells.corrupt("version"))?,
            public_key: cells.bytes("public_key")?,
            created_at: cells.time("created_at")?,
            expires_at: cells.time_if("expires_at")?,
            last_used_at: cells.time_if("last_used_at")?,
        })
    })
    .await?;
    Ok(Some(GatewayRow { keys, ..gateway }))
}

/// Whether a call with this nonce was made.
async fn nonce_used(connection: &impl Database, nonce: &Nonce) -> Result<bool, StoreError> {
    const SQL: &str = include_str!("sql/nonce.sql");
    let params = params![&nonce.keyid, &nonce.nonce];
    Ok(row(connection, SQL, "nonces", params, |_| Ok(())).await?.is_some())
}

/// The sources in a cell.
fn sources(text: &str) -> Option<Vec<Source>> {
    let texts: Vec<String> = serde_json::from_str(text).ok()?;
    texts.iter().map(|text| Source::parse(text).ok()).collect()
}

async fn policies(connection: &impl Database) -> Result<Vec<PolicyRow>, StoreError> {
    const SQL: &str = include_str!("sql/policies.sql");
    rows(connection, SQL, "policies", params![], policy_row).await
}

async fn policy(connection: &impl Database) -> Result<Option<PolicyRow>, StoreError> {
    const SQL: &str = include_str!("sql/policy.sql");
    row(connection, SQL, "policies", params![], policy_row).await
}

fn policy_row(cells: &mut Cells<'_>) -> Result<PolicyRow, StoreError> {
    Ok(PolicyRow {
        version: cells.count("version")?,
        text: cells.owned("text")?,
        author: cells.owned("author")?,
        created_at: cells.time("created_at")?,
    })
}

async fn stops(connection: &impl Database) -> Result<Vec<StopRow>, StoreError> {
    const SQL: &str = include_str!("sql/stops.sql");
    rows(connection, SQL, "stops", params![], |cells| {
        Ok(StopRow {
            scope: cells.parsed("scope", Scope::parse)?,
            by: cells.owned("stopped_by")?,
            note: cells.owned_if("note")?,
            at: cells.time("stopped_at")?,
        })
    })
    .await
}

async fn agent_tagged_keys(connection: &impl Database) -> Result<Vec<KeyMark>, StoreError> {
    const SQL: &str = include_str!("sql/agent_tagged_keys.sql");
    rows(connection, SQL, "agent_tagged_keys", params![], |cells| {
        cells.parsed("mark", KeyMark::parse)
    })
    .await
}

async fn open_windows(
    connection: &impl Database,
    now: Timestamp,
    scope: &Scope,
) -> Result<Vec<Spent>, StoreError> {
    const SQL: &str = include_str!("sql/open_windows.sql");
    let params = params![scope.text(), now.millis()];
    rows(connection, SQL, "windows", params, spent).await
}

async fn open_windows_of_teams(
    connection: &impl Database,
    now: Timestamp,
) -> Result<Vec<Spent>, StoreError> {
    const SQL: &str = include_str!("sql/open_windows_of_teams.sql");
    rows(connection, SQL, "windows", params![now.millis()], spent).await
}

async fn recent_refunds(
    connection: &impl Database,
    now: Timestamp,
    agent: &AgentId,
) -> Result<u32, StoreError> {
    const SQL: &str = include_str!("sql/recent_refunds.sql");
    let params = params![agent.as_str(), now.before(RECENT).millis()];
    Ok(row(connection, SQL, "intents", params, refund_count).await?.unwrap_or_default())
}

async fn refunded(
    connection: &impl Database,
    now: Timestamp,
    customer: &CustomerId,
) -> Result<Refunded, StoreError> {
    const SQL: &str = include_str!("sql/refunded.sql");
    let params = params![customer.as_str(), now.before(CUSTOMER_HISTORY).millis()];
    let found = row(connection, SQL, "intents", params, |cells| {
        Ok(Refunded { count: refund_count(cells)?, usd: cells.dollars("usd_micros")? })
    });
    Ok(found.await?.unwrap_or_default())
}

fn refund_count(cells: &mut Cells<'_>) -> Result<u32, StoreError> {
    Ok(u32::try_from(cells.count("refunds")?).unwrap_or(u32::MAX))
}

fn spent(cells: &mut Cells<'_>) -> Result<Spent, StoreError> {
    Ok(Spent { window: spend_window(cells)?, usd: cells.dollars("spent_micros")? })
}

fn spend_window(cells: &mut Cells<'_>) -> Result<SpendWindow, StoreError> {
    Ok(SpendWindow {
        scope: cells.parsed("scope", Scope::parse)?,
        period: cells.owned("period")?,
        starts_at: cells.time("starts_at")?,
        ends_at: cells.time("ends_at")?,
    })
}

async fn books(connection: &impl Database) -> Result<Books, StoreError> {
    const WINDOWS: &str = include_str!("sql/windows.sql");
    const RESERVATIONS: &str = include_str!("sql/reservations.sql");
    const KEY_HOLDERS: &str = include_str!("sql/key_holders.sql");
    // Sorted as the types are: a scope's text has another order than the scope.
    let mut windows = rows(connection, WINDOWS, "windows", params![], spent).await?;
    windows.sort_by(|a, b| a.window.cmp(&b.window));
    let mut reservations = rows(connection, RESERVATIONS, "reservations", params![], |cells| {
        Ok(Reservation {
            intent: cells.parsed("intent_id", IntentId::parse)?,
            window: spend_window(cells)?,
            usd: cells.dollars("usd_micros")?,
        })
    })
    .await?;
    reservations.sort_by(|a, b| (&a.intent, &a.window).cmp(&(&b.intent, &b.window)));
    let key_holders = rows(connection, KEY_HOLDERS, "intents", params![], |cells| {
        cells.parsed("id", IntentId::parse)
    })
    .await?;
    Ok(Books { windows, reservations, key_holders })
}

async fn rates(connection: &impl Database) -> Result<Option<RateTable>, StoreError> {
    const SQL: &str = include_str!("sql/rates.sql");
    let figures = rows(connection, SQL, "rates", params![], |cells: &mut Cells<'_>| {
        Ok((
            cells.owned("date")?,
            cells.parsed("currency", Currency::parse)?,
            cells.parsed("units_per_eur", Decimal::from_str_exact)?,
        ))
    })
    .await?;
    let Some((date, ..)) = figures.first() else {
        return Ok(None);
    };
    let figures_of_day = figures.iter().map(|(_, currency, figure)| (*currency, *figure));
    RateTable::new(date, figures_of_day).map(Some).map_err(|_| {
        StoreError::Corrupt(format!(
            "table rates, rows of {date}; delete them, and fetch the rates again"
        ))
    })
}

async fn users(connection: &impl Database) -> Result<Vec<UserRow>, StoreError> {
    const SQL: &str = include_str!("sql/users.sql");
    rows(connection, SQL, "users", params![], |cells| {
        Ok(UserRow {
            name: cells.parsed("name", gate_core::UserName::parse)?,
            roles: cells.parsed("roles", |text| serde_json::from_str(text))?,
            created_at: cells.time("created_at")?,
        })
    })
    .await
}

async fn webhooks(connection: &impl Database) -> Result<Vec<WebhookRow>, StoreError> {
    const SQL: &str = include_str!("sql/webhooks.sql");
    rows(connection, SQL, "webhooks", params![], |cells| {
        let agent = cells.parsed("agent", AgentName::parse)?;
        let url = cells.owned_if("url")?;
        let generation = cells.count("generation")?;
        let generation = u32::try_from(generation).map_err(|_| cells.corrupt("generation"))?;
        let (rotated_at, done_to) = (cells.time_if("rotated_at")?, cells.count("done_to")?);
        let attempts = u32::try_from(cells.count("attempts")?).unwrap_or(u32::MAX);
        Ok(WebhookRow {
            agent,
            url,
            generation,
            rotated_at,
            done_to,
            attempts,
            next_try_at: cells.time_if("next_try_at")?,
            failing_since: cells.time_if("failing_since")?,
            disabled_at: cells.time_if("disabled_at")?,
            last_try_at: cells.time_if("last_try_at")?,
            last_result: cells.owned_if("last_result")?,
            given_up: cells.count("given_up")?,
        })
    })
    .await
}
