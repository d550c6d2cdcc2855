//! Reads what a transaction asked for. Whoever calls has begun a transaction, so that all of it is
//! of one state.

use gate_core::{
    AccountId, AgentId, AgentName, GatewayId, Intent, IntentId, Target, Timestamp, Wanted,
};
use gate_money::{Currency, Decimal, RateTable};
use rusqlite::{Connection, Params, params};

use super::rows::{self, Cells, row, rows};
use crate::audit::{AuditEntry, AuditRow, Head};
use crate::port::{
    AgentBy, AgentRow, Books, Due, GatewayKeyRow, GatewayRow, IntentBy, IntentQuery, KeyHash,
    KeyRow, Money, PolicyRow, Prior, Reads, Refused, Reservation, Scope, Snapshot, SpendWindow,
    Spent, StopRow, StoreError, USABLE_AFTER_APPROVAL, UserRow,
};

/// Sorts after the id of every intent.
const AFTER_EVERY_INTENT: &str = "int~";

/// Everything that `reads` names, and the head of the audit chain.
pub(super) fn snapshot(
    connection: &Connection,
    now: Timestamp,
    reads: &Reads,
) -> Result<Snapshot, StoreError> {
    let mut seen = Snapshot { head: head(connection)?, ..Snapshot::default() };
    if let Some(by) = &reads.intent {
        seen.intent = intent_by(connection, by)?;
    }
    if let Some(by) = &reads.agent {
        seen.agent = agent_by(connection, by, seen.intent.as_ref())?;
    }
    if let Some(agent) = &seen.agent {
        if let Some(asked) = &reads.prior {
            seen.prior = prior(connection, &agent.id, asked)?;
        }
        if let Some(asked) = &reads.refused {
            seen.refused = refused(connection, &agent.id, asked)?;
        }
        if reads.policy {
            seen.spent = open_windows(connection, now, &Scope::Agent(agent.id.clone()))?;
        }
    }
    if let Some(query) = &reads.intents {
        seen.intents = listed(connection, query)?;
    } else if let Some((due, limit)) = &reads.due {
        seen.intents = work(connection, now, due, reads.due_of.as_ref(), *limit)?;
    }
    if let Some(id) = &reads.event {
        const SQL: &str = include_str!("sql/stripe_event.sql");
        seen.event_noted_at =
            row(connection, SQL, "stripe_events", [id], |cells| cells.time("noted_at"))?;
    }
    if reads.agents {
        seen.agents = agents(connection)?;
    }
    if reads.policy {
        seen.policy = policy(connection)?;
        seen.stops = stops(connection)?;
    }
    if reads.rates {
        seen.rates = rates(connection)?;
    }
    if let Some(id) = &reads.gateway {
        seen.gateway = gateway(connection, id)?;
    }
    if reads.gateways {
        seen.gateways = gateways(connection)?;
    }
    if let Some(nonce) = &reads.nonce {
        const SQL: &str = include_str!("sql/nonce.sql");
        let params = [&nonce.keyid, &nonce.nonce];
        seen.nonce_used = row(connection, SQL, "nonces", params, |_| Ok(()))?.is_some();
    }
    if reads.users {
        seen.users = users(connection)?;
    }
    if reads.audit {
        seen.audit = audit(connection)?;
    }
    if reads.books {
        seen.books = books(connection)?;
    }
    Ok(seen)
}

fn head(connection: &Connection) -> Result<Head, StoreError> {
    const SQL: &str = include_str!("sql/head.sql");
    let head = row(connection, SQL, "audit", [], |cells| {
        Ok(Head { n: cells.count("n")?, hash: cells.bytes("hash")? })
    })?;
    Ok(head.unwrap_or_default())
}

fn audit(connection: &Connection) -> Result<Vec<AuditRow>, StoreError> {
    const SQL: &str = include_str!("sql/audit.sql");
    rows(connection, SQL, "audit", [], |cells| {
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
            digest: cells.bytes("digest")?,
            hash: cells.bytes("hash")?,
        })
    })
}

fn intent_by(connection: &Connection, by: &IntentBy) -> Result<Option<Intent>, StoreError> {
    match by {
        IntentBy::Id(id) => intent(connection, id),
        IntentBy::Approval(id) => {
            let Some((of, approval)) = approval(connection, id.as_str())? else {
                return Ok(None);
            };
            let intent = intent(connection, &of)?;
            Ok(intent.map(|intent| Intent { approval: Some(approval), ..intent }))
        }
    }
}

fn intent(connection: &Connection, id: &IntentId) -> Result<Option<Intent>, StoreError> {
    const SQL: &str = include_str!("sql/intent.sql");
    let found = row(connection, SQL, "intents", [id.as_str()], rows::intent)?;
    let Some((mut intent, approval_id)) = found else {
        return Ok(None);
    };
    if let Some(approval_id) = approval_id {
        let Some((_, approval)) = approval(connection, &approval_id)? else {
            return Err(StoreError::Corrupt(format!(
                "table intents, row {id}, column approval_id; there is no such approval"
            )));
        };
        intent.approval = Some(approval);
    }
    Ok(Some(intent))
}

fn approval(
    connection: &Connection,
    id: &str,
) -> Result<Option<(IntentId, gate_core::Approval)>, StoreError> {
    const SQL: &str = include_str!("sql/approval.sql");
    row(connection, SQL, "approvals", [id], rows::approval)
}

/// The intents whose ids a statement answers with, in its order.
fn intents(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Vec<Intent>, StoreError> {
    let ids =
        rows(connection, sql, "intents", params, |cells| cells.parsed("id", IntentId::parse))?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(intent(connection, &id)?);
    }
    Ok(found)
}

fn prior(
    connection: &Connection,
    agent: &AgentId,
    asked: &Prior,
) -> Result<Option<Intent>, StoreError> {
    const BY_KEY: &str = include_str!("sql/prior_by_key.sql");
    const BY_CHARGE: &str = include_str!("sql/prior_by_charge.sql");
    const BY_PAYMENT_INTENT: &str = include_str!("sql/prior_by_payment_intent.sql");
    let agent = agent.as_str();
    let found = match asked {
        Prior::Key(key) => intents(connection, BY_KEY, [agent, key.as_str()])?,
        Prior::Keyless { target, wanted, settled_since } => {
            let sql = match target {
                Target::Charge(_) => BY_CHARGE,
                Target::PaymentIntent(_) => BY_PAYMENT_INTENT,
            };
            let (wanted, since) = (minor(*wanted), settled_since.millis());
            intents(connection, sql, params![agent, target.as_str(), wanted, since])?
        }
    };
    Ok(found.into_iter().next())
}

fn refused(
    connection: &Connection,
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
    )?;
    Ok(found.into_iter().next())
}

/// `None` stands for "in full".
const fn minor(wanted: Wanted) -> Option<i64> {
    match wanted {
        Wanted::Full => None,
        Wanted::Minor(minor) => Some(minor),
    }
}

fn listed(connection: &Connection, query: &IntentQuery) -> Result<Vec<Intent>, StoreError> {
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
        (Some(key), ..) => intents(connection, BY_KEY, params![key, before, agent, state, limit]),
        (None, Some(agent), _) => {
            intents(connection, BY_AGENT, params![agent, before, state, limit])
        }
        (None, None, Some(state)) => intents(connection, BY_STATE, params![state, before, limit]),
        (None, None, None) => intents(connection, ALL, params![before, limit]),
    }
}

fn work(
    connection: &Connection,
    now: Timestamp,
    due: &Due,
    of: Option<&Money>,
    limit: u16,
) -> Result<Vec<Intent>, StoreError> {
    const APPROVED: &str = include_str!("sql/due_approved.sql");
    const ATTEMPT: &str = include_str!("sql/due_attempt.sql");
    const EXPIRED: &str = include_str!("sql/due_expired.sql");
    const FOLLOWED: &str = include_str!("sql/due_followed.sql");
    const ONE: &str = include_str!("sql/due_one.sql");
    const SUBMITTED: &str = include_str!("sql/due_submitted.sql");
    let unused_since = now.before(USABLE_AFTER_APPROVAL).millis();
    let now = now.millis();
    // Without a mode, work of every mode and account.
    let mode = of.map(|money| money.livemode);
    let account = of.and_then(|money| money.account.as_ref()).map(AccountId::as_str);
    match due {
        Due::Approved => {
            intents(connection, APPROVED, params![now, unused_since, mode, account, limit])
        }
        Due::Attempt(id) => {
            intents(connection, ATTEMPT, params![id.as_str(), mode, account, limit])
        }
        Due::Expired => {
            intents(connection, EXPIRED, params![now, unused_since, mode, account, limit])
        }
        Due::Followed => intents(connection, FOLLOWED, params![now, mode, account, limit]),
        Due::One(id) => intents(connection, ONE, params![id.as_str(), now, mode, account, limit]),
        Due::Submitted => intents(connection, SUBMITTED, params![now, mode, account, limit]),
    }
}

fn agent_by(
    connection: &Connection,
    by: &AgentBy,
    intent: Option<&Intent>,
) -> Result<Option<AgentRow>, StoreError> {
    const BY_KEY: &str = include_str!("sql/agent_by_key.sql");
    const BY_NAME: &str = include_str!("sql/agent_by_name.sql");
    let id = match by {
        AgentBy::Key(hash) => row(connection, BY_KEY, "agent_keys", [&hash.0], |cells| {
            cells.parsed("agent_id", AgentId::parse)
        })?,
        AgentBy::Name(name) => {
            row(connection, BY_NAME, "agents", [name], |cells| cells.parsed("id", AgentId::parse))?
        }
        AgentBy::OfIntent => intent.map(|intent| intent.agent.clone()),
    };
    match id {
        Some(id) => agent(connection, &id),
        None => Ok(None),
    }
}

fn agents(connection: &Connection) -> Result<Vec<AgentRow>, StoreError> {
    const SQL: &str = include_str!("sql/agents.sql");
    let ids = rows(connection, SQL, "agents", [], |cells| cells.parsed("id", AgentId::parse))?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(agent(connection, &id)?);
    }
    Ok(found)
}

fn agent(connection: &Connection, id: &AgentId) -> Result<Option<AgentRow>, StoreError> {
    const AGENT: &str = include_str!("sql/agent.sql");
    const KEYS: &str = include_str!("sql/agent_keys.sql");
    let found = row(connection, AGENT, "agents", [id.as_str()], |cells| {
        Ok(AgentRow {
            id: cells.parsed("id", AgentId::parse)?,
            name: cells.parsed("name", AgentName::parse)?,
            created_at: cells.time("created_at")?,
            revoked_at: cells.time_if("revoked_at")?,
            keys: Vec::new(),
        })
    })?;
    let Some(agent) = found else { return Ok(None) };
    let keys = rows(connection, KEYS, "agent_keys", [id.as_str()], |cells| {
        Ok(KeyRow {
            hash: KeyHash(cells.bytes("hash")?),
            hint: cells.owned("hint")?,
            created_at: cells.time("created_at")?,
            expires_at: cells.time_if("expires_at")?,
        })
    })?;
    Ok(Some(AgentRow { keys, ..agent }))
}

fn gateways(connection: &Connection) -> Result<Vec<GatewayRow>, StoreError> {
    const SQL: &str = include_str!("sql/gateways.sql");
    let ids = rows(connection, SQL, "gateways", [], |cells| cells.parsed("id", GatewayId::parse))?;
    let mut found = Vec::with_capacity(ids.len());
    for id in ids {
        found.extend(gateway(connection, &id)?);
    }
    Ok(found)
}

fn gateway(connection: &Connection, id: &GatewayId) -> Result<Option<GatewayRow>, StoreError> {
    const GATEWAY: &str = include_str!("sql/gateway.sql");
    const KEYS: &str = include_str!("sql/gateway_keys.sql");
    let found = row(connection, GATEWAY, "gateways", [id.as_str()], |cells| {
        Ok(GatewayRow {
            id: cells.parsed("id", GatewayId::parse)?,
            name: cells.parsed("name", AgentName::parse)?,
            created_at: cells.time("created_at")?,
            revoked_at: cells.time_if("revoked_at")?,
            keys: Vec::new(),
        })
    })?;
    let Some(gateway) = found else { return Ok(None) };
    let keys = rows(connection, KEYS, "gateway_keys", [id.as_str()], |cells| {
        let version = cells.count("version")?;
        Ok(GatewayKeyRow {
            version: u32::try_from(version).map_err(|_| cells.corrupt("version"))?,
            public_key: cells.bytes("public_key")?,
            created_at: cells.time("created_at")?,
            expires_at: cells.time_if("expires_at")?,
            last_used_at: cells.time_if("last_used_at")?,
        })
    })?;
    Ok(Some(GatewayRow { keys, ..gateway }))
}

fn policy(connection: &Connection) -> Result<Option<PolicyRow>, StoreError> {
    const SQL: &str = include_str!("sql/policy.sql");
    row(connection, SQL, "policies", [], |cells| {
        Ok(PolicyRow {
            version: cells.count("version")?,
            text: cells.owned("text")?,
            author: cells.owned("author")?,
            created_at: cells.time("created_at")?,
        })
    })
}

fn stops(connection: &Connection) -> Result<Vec<StopRow>, StoreError> {
    const SQL: &str = include_str!("sql/stops.sql");
    rows(connection, SQL, "stops", [], |cells| {
        Ok(StopRow {
            scope: cells.parsed("scope", Scope::parse)?,
            by: cells.owned("stopped_by")?,
            note: cells.owned_if("note")?,
            at: cells.time("stopped_at")?,
        })
    })
}

fn open_windows(
    connection: &Connection,
    now: Timestamp,
    scope: &Scope,
) -> Result<Vec<Spent>, StoreError> {
    const SQL: &str = include_str!("sql/open_windows.sql");
    let params = params![scope.text(), now.millis()];
    rows(connection, SQL, "windows", params, spent)
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

fn books(connection: &Connection) -> Result<Books, StoreError> {
    const WINDOWS: &str = include_str!("sql/windows.sql");
    const RESERVATIONS: &str = include_str!("sql/reservations.sql");
    const KEY_HOLDERS: &str = include_str!("sql/key_holders.sql");
    // Sorted as the types are: a scope's text has another order than the scope.
    let mut windows = rows(connection, WINDOWS, "windows", [], spent)?;
    windows.sort_by(|a, b| a.window.cmp(&b.window));
    let mut reservations = rows(connection, RESERVATIONS, "reservations", [], |cells| {
        Ok(Reservation {
            intent: cells.parsed("intent_id", IntentId::parse)?,
            window: spend_window(cells)?,
            usd: cells.dollars("usd_micros")?,
        })
    })?;
    reservations.sort_by(|a, b| (&a.intent, &a.window).cmp(&(&b.intent, &b.window)));
    let key_holders =
        rows(connection, KEY_HOLDERS, "intents", [], |cells| cells.parsed("id", IntentId::parse))?;
    Ok(Books { windows, reservations, key_holders })
}

fn rates(connection: &Connection) -> Result<Option<RateTable>, StoreError> {
    const SQL: &str = include_str!("sql/rates.sql");
    let figures = rows(connection, SQL, "rates", [], |cells: &mut Cells<'_>| {
        Ok((
            cells.owned("date")?,
            cells.parsed("currency", Currency::parse)?,
            cells.parsed("units_per_eur", Decimal::from_str_exact)?,
        ))
    })?;
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

fn users(connection: &Connection) -> Result<Vec<UserRow>, StoreError> {
    const SQL: &str = include_str!("sql/users.sql");
    rows(connection, SQL, "users", [], |cells| {
        Ok(UserRow {
            name: cells.parsed("name", gate_core::UserName::parse)?,
            roles: cells.parsed("roles", |text| serde_json::from_str(text))?,
            created_at: cells.time("created_at")?,
        })
    })
}
