//! Makes one write. Whoever calls holds a savepoint, and gives it up when a write fails.

use gate_core::{Intent, IntentId, State, Timestamp, UserName};
use gate_money::{MicroUsd, RateTable};

use crate::audit::{AuditEntry, AuditField, AuditRange, EMPTIED, Head};
use crate::database::{Database, Value, params};
use crate::port::{
    AgentRow, GatewayRow, Nonce, PolicyRow, Scope, SpendWindow, StopRow, StoreError, UserRow,
    WebhookRow, Write,
};
use crate::read;
use crate::rows::{approval_values, integer, intent_values, json, row};

/// Makes `write`; `head` is the audit chain's before and after it.
///
/// # Errors
///
/// [`StoreError::Conflict`] when what is stored is not what the write expects;
/// [`StoreError::Corrupt`] when spend would fall below nothing, or not fit;
/// [`StoreError::Unavailable`] when the database could not do it.
pub(crate) async fn make(
    connection: &impl Database,
    head: &mut Head,
    write: &Write,
) -> Result<(), StoreError> {
    let to = Target { connection, write: write.name() };
    match write {
        Write::Audit(entry) => *head = to.append(*head, entry).await?,
        Write::EmptyAudit { n, fields } => to.empty_audit(*n, fields).await?,
        Write::GatewayUsed { gateway, version, at } => {
            const SQL: &str = include_str!("sql/gateway_used.sql");
            to.run(SQL, params![at.millis(), gateway.as_str(), i64::from(*version)]).await?;
        }
        Write::InsertIntent(intent) => to.insert_intent(intent).await?,
        Write::InsertPolicy(policy) => to.insert_policy(policy).await?,
        Write::InsertUser(user) => to.insert_user(user).await?,
        Write::LiftStop(scope) => to.lift_stop(scope).await?,
        Write::NoteEvent { id, at, keep_since } => to.note_event(id, *at, *keep_since).await?,
        Write::PutAgent(agent) => to.put_agent(agent).await?,
        Write::PutGateway(gateway) => to.put_gateway(gateway).await?,
        Write::PutRates(rates) => to.put_rates(rates).await?,
        Write::PutStop(stop) => to.put_stop(stop).await?,
        Write::PutWebhook(webhook) => to.put_webhook(webhook).await?,
        Write::Release(intent) => to.release(intent).await?,
        Write::Reserve { intent, usd, windows } => to.reserve(intent, *usd, windows).await?,
        Write::SetRoles { user, roles } => to.set_roles(user, roles).await?,
        Write::SurrenderKey(intent) => to.surrender_key(intent).await?,
        Write::TagKey { key, at } => {
            const SQL: &str = include_str!("sql/tag_key.sql");
            to.run(SQL, params![key.as_str(), at.millis()]).await?;
        }
        Write::UpdateIntent { was, intent } => to.update_intent(*was, intent).await?,
        Write::UseNonce { nonce, at, keep_since } => to.use_nonce(nonce, *at, *keep_since).await?,
    }
    Ok(())
}

/// Where a write goes, and what it is called when it cannot be made.
struct Target<'a, D> {
    connection: &'a D,
    write: &'static str,
}

impl<D: Database> Target<'_, D> {
    async fn append(&self, head: Head, entry: &AuditEntry) -> Result<Head, StoreError> {
        const SQL: &str = include_str!("sql/insert_audit.sql");
        let (head, row) = head.append(entry.clone());
        let entry = &row.entry;
        self.run(
            SQL,
            params![
                integer(row.n)?,
                entry.at.millis(),
                &entry.actor,
                &entry.action,
                &entry.subject,
                &entry.details,
                &entry.salt,
                &row.marks,
                &row.digest,
                &row.hash
            ],
        )
        .await?;
        Ok(head)
    }

    async fn empty_audit(&self, n: u64, fields: &[AuditField]) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/empty_audit.sql");
        let range = AuditRange { after: n.saturating_sub(1), limit: 1 };
        let found = read::audit(self.connection, range).await?.pop();
        let mut row = found.filter(|row| row.n == n).ok_or_else(|| self.conflict())?;
        if row.entry.action == EMPTIED && fields.contains(&AuditField::Details) {
            return Err(self.conflict());
        }
        fields.iter().for_each(|field| row.empty(*field));
        let AuditEntry { actor, subject, details, salt, .. } = &row.entry;
        self.must_change(SQL, params![actor, subject, details, salt, integer(n)?]).await
    }

    async fn insert_intent(&self, intent: &Intent) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/insert_intent.sql");
        self.run(SQL, intent_values(intent)?).await?;
        self.put_approval(intent).await
    }

    async fn update_intent(&self, was: State, intent: &Intent) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/update_intent.sql");
        let mut values = intent_values(intent)?;
        values.push(was.as_str().to_owned().into());
        self.must_change(SQL, values).await?;
        self.put_approval(intent).await
    }

    async fn put_approval(&self, intent: &Intent) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/put_approval.sql");
        match &intent.approval {
            Some(approval) => self.must_change(SQL, approval_values(&intent.id, approval)?).await,
            None => Ok(()),
        }
    }

    async fn surrender_key(&self, intent: &IntentId) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/surrender_key.sql");
        self.run(SQL, params![intent.as_str()]).await.map(drop)
    }

    async fn insert_policy(&self, policy: &PolicyRow) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/insert_policy.sql");
        let version = integer(policy.version)?;
        let created_at = policy.created_at.millis();
        self.must_change(SQL, params![version, &policy.text, &policy.author, created_at]).await
    }

    async fn insert_user(&self, user: &UserRow) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/insert_user.sql");
        let roles = json(&user.roles)?;
        let created_at = user.created_at.millis();
        self.run(SQL, params![user.name.as_str(), roles, created_at]).await.map(drop)
    }

    async fn set_roles(&self, user: &UserName, roles: &[String]) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/set_roles.sql");
        self.must_change(SQL, params![json(&roles)?, user.as_str()]).await
    }

    async fn put_stop(&self, stop: &StopRow) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/put_stop.sql");
        let at = stop.at.millis();
        self.run(SQL, params![stop.scope.text(), &stop.by, stop.note.as_deref(), at])
            .await
            .map(drop)
    }

    async fn put_webhook(&self, row: &WebhookRow) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/put_webhook.sql");
        let values = params![
            row.agent.as_str(),
            row.url.as_deref(),
            row.generation,
            millis(row.rotated_at),
            integer(row.done_to)?,
            row.attempts,
            millis(row.next_try_at),
            millis(row.failing_since),
            millis(row.disabled_at),
            millis(row.last_try_at),
            row.last_result.as_deref(),
            integer(row.given_up)?,
        ];
        self.run(SQL, values).await.map(drop)
    }

    async fn lift_stop(&self, scope: &Scope) -> Result<(), StoreError> {
        const SQL: &str = include_str!("sql/lift_stop.sql");
        self.run(SQL, params![scope.text()]).await.map(drop)
    }

    async fn note_event(
        &self,
        id: &str,
        at: Timestamp,
        keep_since: Timestamp,
    ) -> Result<(), StoreError> {
        const NOTE: &str = include_str!("sql/insert_stripe_event.sql");
        const FORGET: &str = include_str!("sql/delete_stripe_events.sql");
        self.run(NOTE, params![id, at.millis()]).await?;
        self.run(FORGET, params![keep_since.millis()]).await.map(drop)
    }

    async fn put_agent(&self, agent: &AgentRow) -> Result<(), StoreError> {
        const AGENT: &str = include_str!("sql/put_agent.sql");
        const NO_KEYS: &str = include_str!("sql/delete_agent_keys.sql");
        const KEY: &str = include_str!("sql/insert_agent_key.sql");
        let id = agent.id.as_str();
        let (created_at, revoked_at) = (agent.created_at.millis(), millis(agent.revoked_at));
        let sources: Vec<String> = agent.sources.iter().map(ToString::to_string).collect();
        let sources = json(&sources)?;
        self.run(AGENT, params![id, agent.name.as_str(), created_at, revoked_at, sources]).await?;
        self.run(NO_KEYS, params![id]).await?;
        for (place, key) in (0_i64..).zip(&agent.keys) {
            let (created_at, expires_at) = (key.created_at.millis(), millis(key.expires_at));
            self.run(KEY, params![&key.hash.0, id, place, &key.hint, created_at, expires_at])
                .await?;
        }
        Ok(())
    }

    async fn put_gateway(&self, gateway: &GatewayRow) -> Result<(), StoreError> {
        const GATEWAY: &str = include_str!("sql/put_gateway.sql");
        const NO_KEYS: &str = include_str!("sql/delete_gateway_keys.sql");
        const KEY: &str = include_str!("sql/insert_gateway_key.sql");
        let id = gateway.id.as_str();
        let (created_at, revoked_at) = (gateway.created_at.millis(), millis(gateway.revoked_at));
        self.run(GATEWAY, params![id, gateway.name.as_str(), created_at, revoked_at]).await?;
        self.run(NO_KEYS, params![id]).await?;
        for key in &gateway.keys {
            let (version, created_at) = (i64::from(key.version), key.created_at.millis());
            let (expires_at, used_at) = (millis(key.expires_at), millis(key.last_used_at));
            let row = params![id, version, &key.public_key, created_at, expires_at, used_at];
            self.run(KEY, row).await?;
        }
        Ok(())
    }

    async fn use_nonce(
        &self,
        nonce: &Nonce,
        at: Timestamp,
        keep_since: Timestamp,
    ) -> Result<(), StoreError> {
        const USE: &str = include_str!("sql/insert_nonce.sql");
        const FORGET: &str = include_str!("sql/delete_nonces.sql");
        self.run(USE, params![&nonce.keyid, &nonce.nonce, at.millis()]).await?;
        self.run(FORGET, params![keep_since.millis()]).await.map(drop)
    }

    async fn put_rates(&self, rates: &RateTable) -> Result<(), StoreError> {
        const NONE: &str = include_str!("sql/delete_rates.sql");
        const RATE: &str = include_str!("sql/insert_rate.sql");
        self.run(NONE, params![rates.date()]).await?;
        for (currency, units_per_eur) in rates.rows() {
            let figure = units_per_eur.to_string();
            self.run(RATE, params![rates.date(), currency.code(), figure]).await?;
        }
        Ok(())
    }

    async fn reserve(
        &self,
        intent: &IntentId,
        usd: MicroUsd,
        windows: &[SpendWindow],
    ) -> Result<(), StoreError> {
        const RESERVED: &str = include_str!("sql/reserved.sql");
        const SPEND: &str = include_str!("sql/spend.sql");
        const RESERVE: &str = include_str!("sql/reserve.sql");
        let (id, micros) = (intent.as_str(), usd.micros());
        let reserved =
            row(self.connection, RESERVED, "reservations", params![id], |_| Ok(())).await?;
        if reserved.is_some() {
            return Err(self.conflict());
        }
        for window in windows {
            let (scope, period) = (&window.scope.text(), &window.period);
            let (starts_at, ends_at) = (window.starts_at.millis(), window.ends_at.millis());
            self.run(SPEND, params![scope, period, starts_at, ends_at, micros]).await?;
            self.run(RESERVE, params![id, scope, period, starts_at, ends_at, micros]).await?;
        }
        Ok(())
    }

    async fn release(&self, intent: &IntentId) -> Result<(), StoreError> {
        const GIVE_BACK: &str = include_str!("sql/give_back.sql");
        const RELEASE: &str = include_str!("sql/release.sql");
        self.run(GIVE_BACK, params![intent.as_str()]).await?;
        self.run(RELEASE, params![intent.as_str()]).await.map(drop)
    }

    /// Runs a statement that states the old state it expects.
    async fn must_change(
        &self,
        sql: &'static str,
        params: impl AsRef<[Value<'_>]>,
    ) -> Result<(), StoreError> {
        match self.run(sql, params).await? {
            0 => Err(self.conflict()),
            _ => Ok(()),
        }
    }

    async fn run(
        &self,
        sql: &'static str,
        params: impl AsRef<[Value<'_>]>,
    ) -> Result<u64, StoreError> {
        self.connection.run(self.write, sql, params.as_ref()).await
    }

    fn conflict(&self) -> StoreError {
        StoreError::Conflict(self.write.to_owned())
    }
}

fn millis(time: Option<Timestamp>) -> Option<i64> {
    time.map(Timestamp::millis)
}
