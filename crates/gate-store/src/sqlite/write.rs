//! Makes one write. Whoever calls holds a savepoint, and gives it up when a write fails.

use gate_core::{Intent, IntentId, State, Timestamp};
use gate_money::{MicroUsd, RateTable};
use rusqlite::{Connection, ErrorCode, Params, ffi, params, params_from_iter};

use super::rows::{approval_values, fault, integer, intent_values, json, row};
use crate::audit::{AuditEntry, Head};
use crate::port::{
    AgentRow, GatewayRow, Nonce, PolicyRow, Scope, SpendWindow, StopRow, StoreError, UserRow, Write,
};

/// Makes `write`; `head` is the audit chain's before and after it.
///
/// # Errors
///
/// [`StoreError::Conflict`] when what is stored is not what the write expects;
/// [`StoreError::Corrupt`] when spend would fall below nothing, or not fit;
/// [`StoreError::Unavailable`] when SQLite could not do it.
pub(super) fn make(
    connection: &Connection,
    head: &mut Head,
    write: &Write,
) -> Result<(), StoreError> {
    let to = Target { connection, write: write.name() };
    match write {
        Write::Audit(entry) => *head = to.append(*head, entry)?,
        Write::GatewayUsed { gateway, version, at } => {
            const SQL: &str = include_str!("sql/gateway_used.sql");
            to.run(SQL, params![at.millis(), gateway.as_str(), version])?;
        }
        Write::InsertIntent(intent) => to.insert_intent(intent)?,
        Write::InsertPolicy(policy) => to.insert_policy(policy)?,
        Write::InsertUser(user) => to.insert_user(user)?,
        Write::LiftStop(scope) => to.lift_stop(scope)?,
        Write::NoteEvent { id, at, keep_since } => to.note_event(id, *at, *keep_since)?,
        Write::PutAgent(agent) => to.put_agent(agent)?,
        Write::PutGateway(gateway) => to.put_gateway(gateway)?,
        Write::PutRates(rates) => to.put_rates(rates)?,
        Write::PutStop(stop) => to.put_stop(stop)?,
        Write::Release(intent) => to.release(intent)?,
        Write::Reserve { intent, usd, windows } => to.reserve(intent, *usd, windows)?,
        Write::SurrenderKey(intent) => to.surrender_key(intent)?,
        Write::UpdateIntent { was, intent } => to.update_intent(*was, intent)?,
        Write::UseNonce { nonce, at, keep_since } => to.use_nonce(nonce, *at, *keep_since)?,
    }
    Ok(())
}

/// Where a write goes, and what it is called when it cannot be made.
struct Target<'a> {
    connection: &'a Connection,
    write: &'static str,
}

impl Target<'_> {
    fn append(&self, head: Head, entry: &AuditEntry) -> Result<Head, StoreError> {
        const SQL: &str = include_str!("sql/insert_audit.sql");
        let (head, row) = head.append(entry.clone());
        let entry = &row.entry;
        self.run(
            SQL,
            params![
                integer(row.n)?,
                entry.at.millis(),
                entry.actor,
                entry.action,
                entry.subject,
                entry.details,
                entry.salt,
                row.digest,
                row.hash
            ],
        )?;
        Ok(head)
    }

    fn insert_intent(&self, intent: &Intent) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/insert_intent.sql");
        self.run(SQL, params_from_iter(intent_values(intent)?))?;
        self.put_approval(intent)
    }

    fn update_intent(&self, was: State, intent: &Intent) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/update_intent.sql");
        let mut values = intent_values(intent)?;
        values.push(was.as_str().to_owned().into());
        self.must_change(SQL, params_from_iter(values))?;
        self.put_approval(intent)
    }

    fn put_approval(&self, intent: &Intent) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/put_approval.sql");
        match &intent.approval {
            Some(approval) => {
                self.must_change(SQL, params_from_iter(approval_values(&intent.id, approval)?))
            }
            None => Ok(()),
        }
    }

    fn surrender_key(&self, intent: &IntentId) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/surrender_key.sql");
        self.run(SQL, [intent.as_str()]).map(drop)
    }

    fn insert_policy(&self, policy: &PolicyRow) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/insert_policy.sql");
        let version = integer(policy.version)?;
        let created_at = policy.created_at.millis();
        self.must_change(SQL, params![version, policy.text, policy.author, created_at])
    }

    fn insert_user(&self, user: &UserRow) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/insert_user.sql");
        let roles = json(&user.roles)?;
        let created_at = user.created_at.millis();
        self.run(SQL, params![user.name.as_str(), roles, created_at]).map(drop)
    }

    fn put_stop(&self, stop: &StopRow) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/put_stop.sql");
        let at = stop.at.millis();
        self.run(SQL, params![stop.scope.text(), stop.by, stop.note, at]).map(drop)
    }

    fn lift_stop(&self, scope: &Scope) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/lift_stop.sql");
        self.run(SQL, [scope.text()]).map(drop)
    }

    fn note_event(&self, id: &str, at: Timestamp, keep_since: Timestamp) -> Result<(), StoreError> {
        const NOTE: &str = include_str!("sql/insert_stripe_event.sql");
        const FORGET: &str = include_str!("sql/delete_stripe_events.sql");
        self.run(NOTE, params![id, at.millis()])?;
        self.run(FORGET, [keep_since.millis()]).map(drop)
    }

    fn put_agent(&self, agent: &AgentRow) -> Result<(), StoreError> {
        const AGENT: &str = include_str!("sql/put_agent.sql");
        const NO_KEYS: &str = include_str!("sql/delete_agent_keys.sql");
        const KEY: &str = include_str!("sql/insert_agent_key.sql");
        let id = agent.id.as_str();
        let (created_at, revoked_at) = (agent.created_at.millis(), millis(agent.revoked_at));
        self.run(AGENT, params![id, agent.name.as_str(), created_at, revoked_at])?;
        self.run(NO_KEYS, [id])?;
        for (place, key) in (0_i64..).zip(&agent.keys) {
            let (created_at, expires_at) = (key.created_at.millis(), millis(key.expires_at));
            self.run(KEY, params![key.hash.0, id, place, key.hint, created_at, expires_at])?;
        }
        Ok(())
    }

    fn put_gateway(&self, gateway: &GatewayRow) -> Result<(), StoreError> {
        const GATEWAY: &str = include_str!("sql/put_gateway.sql");
        const NO_KEYS: &str = include_str!("sql/delete_gateway_keys.sql");
        const KEY: &str = include_str!("sql/insert_gateway_key.sql");
        let id = gateway.id.as_str();
        let (created_at, revoked_at) = (gateway.created_at.millis(), millis(gateway.revoked_at));
        self.run(GATEWAY, params![id, gateway.name.as_str(), created_at, revoked_at])?;
        self.run(NO_KEYS, [id])?;
        for key in &gateway.keys {
            let created_at = key.created_at.millis();
            let (expires_at, used_at) = (millis(key.expires_at), millis(key.last_used_at));
            let row = params![id, key.version, key.public_key, created_at, expires_at, used_at];
            self.run(KEY, row)?;
        }
        Ok(())
    }

    fn use_nonce(
        &self,
        nonce: &Nonce,
        at: Timestamp,
        keep_since: Timestamp,
    ) -> Result<(), StoreError> {
        const USE: &str = include_str!("sql/insert_nonce.sql");
        const FORGET: &str = include_str!("sql/delete_nonces.sql");
        self.run(USE, params![nonce.keyid, nonce.nonce, at.millis()])?;
        self.run(FORGET, [keep_since.millis()]).map(drop)
    }

    fn put_rates(&self, rates: &RateTable) -> Result<(), StoreError> {
        const NONE: &str = include_str!("sql/delete_rates.sql");
        const RATE: &str = include_str!("sql/insert_rate.sql");
        self.run(NONE, [rates.date()])?;
        for (currency, units_per_eur) in rates.rows() {
            let figure = units_per_eur.to_string();
            self.run(RATE, params![rates.date(), currency.code(), figure])?;
        }
        Ok(())
    }

    fn reserve(
        &self,
        intent: &IntentId,
        usd: MicroUsd,
        windows: &[SpendWindow],
    ) -> Result<(), StoreError> {
        const RESERVED: &str = include_str!("sql/reserved.sql");
        const SPEND: &str = include_str!("sql/spend.sql");
        const RESERVE: &str = include_str!("sql/reserve.sql");
        let (id, micros) = (intent.as_str(), usd.micros());
        let reserved = row(self.connection, RESERVED, "reservations", [id], |_| Ok(()))?;
        if reserved.is_some() {
            return Err(self.conflict());
        }
        for window in windows {
            let (scope, period) = (window.scope.text(), &window.period);
            let (starts_at, ends_at) = (window.starts_at.millis(), window.ends_at.millis());
            self.run(SPEND, params![scope, period, starts_at, ends_at, micros])?;
            self.run(RESERVE, params![id, scope, period, starts_at, ends_at, micros])?;
        }
        Ok(())
    }

    fn release(&self, intent: &IntentId) -> Result<(), StoreError> {
        const GIVE_BACK: &str = include_str!("sql/give_back.sql");
        const RELEASE: &str = include_str!("sql/release.sql");
        self.run(GIVE_BACK, [intent.as_str()])?;
        self.run(RELEASE, [intent.as_str()]).map(drop)
    }

    /// Runs a statement that states the old state it expects.
    fn must_change(&self, sql: &str, params: impl Params) -> Result<(), StoreError> {
        match self.run(sql, params)? {
            0 => Err(self.conflict()),
            _ => Ok(()),
        }
    }

    fn run(&self, sql: &str, params: impl Params) -> Result<usize, StoreError> {
        let mut statement = self.connection.prepare_cached(sql).map_err(fault)?;
        statement.execute(params).map_err(|error| {
            match error.sqlite_error().map(|e| (e.code, e.extended_code)) {
                Some((ErrorCode::ConstraintViolation, extended)) => match extended {
                    ffi::SQLITE_CONSTRAINT_CHECK | ffi::SQLITE_CONSTRAINT_DATATYPE => {
                        StoreError::Corrupt(format!("{}: {error}", self.write))
                    }
                    _ => self.conflict(),
                },
                _ => fault(error),
            }
        })
    }

    fn conflict(&self) -> StoreError {
        StoreError::Conflict(self.write.to_owned())
    }
}

fn millis(time: Option<Timestamp>) -> Option<i64> {
    time.map(Timestamp::millis)
}
