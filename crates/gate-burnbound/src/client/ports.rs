//! The core's ports, each call one signed call.

use std::time::Duration;

use async_trait::async_trait;
use gate_core::{
    Agent, AgentKey, ApprovalId, Ask, AttemptId, Authority, AuthorityError, Budget, Charge, Claim,
    Decided, Grants, Intent, IntentFilter, IntentId, Justification, Notes, Outcome, Page, Preview,
    Records, ToolUse, Work,
};
use serde::de::DeserializeOwned;

use super::{Call, RemoteAuthority};
use crate::wire::{
    AgentBody, AskBody, BudgetBody, ClaimAsk, ClaimsBody, DecideAsk, DecidedBody, ExecuteAsk,
    IntentBody, JustifyAsk, Malformed, NotedBody, ObservationsAsk, OutcomeAsk, PageBody,
    PreviewBody, ToolAsk, ToolBody, WAIT_MILLIS_MAX, filter_query,
};

impl RemoteAuthority {
    /// A call whose answer becomes one of the core's types.
    async fn ask<B, T>(&self, call: Call<'_>) -> Result<T, AuthorityError>
    where
        B: DeserializeOwned,
        T: TryFrom<B, Error = Malformed>,
    {
        T::try_from(self.call::<B>(call).await?).map_err(unreadable)
    }

    /// A read that waits for a change.
    async fn read(
        &self,
        path: String,
        key: &AgentKey,
        wait: Duration,
    ) -> Result<Intent, AuthorityError> {
        let millis = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX).min(WAIT_MILLIS_MAX);
        let wait = Duration::from_millis(millis);
        let query = (millis > 0).then(|| format!("waitMillis={millis}"));
        self.ask::<IntentBody, _>(Call { query, wait, ..Call::get(path).by(key) }).await
    }
}

fn unreadable(fault: Malformed) -> AuthorityError {
    AuthorityError::Unavailable(format!("an unreadable answer: {fault}"))
}

#[async_trait]
impl Authority for RemoteAuthority {
    async fn agent(&self, key: &AgentKey) -> Result<Agent, AuthorityError> {
        self.ask::<AgentBody, _>(Call::get("/agent").by(key)).await
    }

    async fn find(&self, key: &AgentKey, ask: &Ask) -> Result<Option<Intent>, AuthorityError> {
        let call = Call::post("/intents/lookup", &AskBody::from(ask))?.by(key);
        let found: Option<IntentBody> = self.call(call).await?;
        found.map(Intent::try_from).transpose().map_err(unreadable)
    }

    async fn decide(
        &self,
        key: &AgentKey,
        ask: &Ask,
        seen: &Charge,
        attempt: &AttemptId,
    ) -> Result<Decided, AuthorityError> {
        let body = DecideAsk {
            ask: ask.into(),
            charge: seen.into(),
            attempt_id: Some(attempt.to_string()),
        };
        self.ask::<DecidedBody, _>(Call::post("/intents", &body)?.by(key)).await
    }

    async fn preview(
        &self,
        key: &AgentKey,
        ask: &Ask,
        seen: &Charge,
    ) -> Result<Preview, AuthorityError> {
        let ask = Ask { dry_run: true, ..ask.clone() };
        let body = DecideAsk { ask: (&ask).into(), charge: seen.into(), attempt_id: None };
        self.ask::<PreviewBody, _>(Call::post("/intents", &body)?.by(key)).await
    }

    async fn execute(&self, claim: &Claim, seen: &Charge) -> Result<Decided, AuthorityError> {
        let body = ExecuteAsk { fence: claim.lease.fence, charge: seen.into() };
        let path = format!("/intents/{}/execute", claim.intent.id);
        self.ask::<DecidedBody, _>(Call::post(path, &body)?).await
    }

    async fn claim(&self, work: Work, limit: u16) -> Result<Vec<Claim>, AuthorityError> {
        // Until it is known whose money this gateway moves, there is no work for it.
        let Some(channel) = (self.channel)() else { return Ok(Vec::new()) };
        let body = ClaimAsk { work: (&work).into(), limit, channel: (&channel).into() };
        // A lost answer's leases end by themselves; asked for again, more would be taken for nobody.
        let again = matches!(work, Work::GivenUp(_));
        let call = Call { again, ..Call::post("/claims", &body)? };
        let body: ClaimsBody = self.call(call).await?;
        let claims: Result<_, _> = body.claims.into_iter().map(Claim::try_from).collect();
        claims.map_err(unreadable)
    }

    async fn record(
        &self,
        id: &IntentId,
        fence: u64,
        news: &Outcome,
    ) -> Result<Intent, AuthorityError> {
        let body = OutcomeAsk { fence, outcome: news.into() };
        let path = format!("/intents/{id}/outcome");
        self.ask::<IntentBody, _>(Call::post(path, &body)?).await
    }

    async fn justify(
        &self,
        key: &AgentKey,
        id: &IntentId,
        words: &Justification,
    ) -> Result<Intent, AuthorityError> {
        let body = JustifyAsk { justification: words.as_str().to_owned() };
        let path = format!("/intents/{id}/justification");
        self.ask::<IntentBody, _>(Call::post(path, &body)?.by(key)).await
    }
}

#[async_trait]
impl Records for RemoteAuthority {
    async fn intent(
        &self,
        key: &AgentKey,
        id: &IntentId,
        wait: Duration,
    ) -> Result<Intent, AuthorityError> {
        self.read(format!("/intents/{id}"), key, wait).await
    }

    async fn intents(&self, key: &AgentKey, filter: &IntentFilter) -> Result<Page, AuthorityError> {
        let query = Some(filter_query(filter));
        self.ask::<PageBody, _>(Call { query, ..Call::get("/intents").by(key) }).await
    }

    async fn approval(
        &self,
        key: &AgentKey,
        id: &ApprovalId,
        wait: Duration,
    ) -> Result<Intent, AuthorityError> {
        self.read(format!("/approvals/{id}"), key, wait).await
    }

    async fn cancel(&self, key: &AgentKey, id: &IntentId) -> Result<Intent, AuthorityError> {
        let method = gate_http::Method::Post;
        let call = Call { method, ..Call::get(format!("/intents/{id}/cancel")) };
        self.ask::<IntentBody, _>(call.by(key)).await
    }

    async fn budget(&self, key: &AgentKey) -> Result<Budget, AuthorityError> {
        self.ask::<BudgetBody, _>(Call::get("/budget").by(key)).await
    }
}

#[async_trait]
impl Notes for RemoteAuthority {
    async fn note_event(&self, id: &str) -> Result<bool, AuthorityError> {
        let body = ObservationsAsk { event: id.to_owned() };
        // Asked again after a lost answer it would not be new any more, and nobody would act on it.
        let call = Call { again: false, ..Call::post("/observations", &body)? };
        Ok(self.call::<NotedBody>(call).await?.is_new)
    }
}

#[async_trait]
impl Grants for RemoteAuthority {
    async fn granted(&self, key: &AgentKey) -> Result<Vec<String>, AuthorityError> {
        Ok(self.call::<AgentBody>(Call::get("/agent").by(key)).await?.tools)
    }

    async fn use_tool(&self, key: &AgentKey, used: &ToolUse) -> Result<bool, AuthorityError> {
        let ToolUse { tool, from, to, rows } = used.clone();
        let call = Call::post(format!("/tools/{tool}"), &ToolAsk { from, to, rows })?;
        // Asked again after a lost answer it would be on record twice.
        let call = Call { again: false, ..call.by(key) };
        Ok(self.call::<ToolBody>(call).await?.granted)
    }
}
