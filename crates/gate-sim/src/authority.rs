//! The authority as a gateway's core sees it: the shipped one, with the witness listening to what
//! is told under which fence.

use std::sync::Arc;

use async_trait::async_trait;
use gate_authority::LocalAuthority;
use gate_core::{
    Agent, AgentKey, Ask, AttemptId, Authority, AuthorityError, Charge, Claim, Decided, Intent,
    IntentId, Justification, Outcome, Preview, Work,
};

use crate::executor::Node;
use crate::witness::{Pending, Witness};

/// See the module.
pub(crate) struct SimAuthority {
    pub(crate) node: Node,
    pub(crate) inner: Arc<LocalAuthority>,
    pub(crate) witness: Witness,
}

#[async_trait]
impl Authority for SimAuthority {
    async fn agent(&self, key: &AgentKey) -> Result<Agent, AuthorityError> {
        self.inner.agent(key).await
    }

    async fn find(&self, key: &AgentKey, ask: &Ask) -> Result<Option<Intent>, AuthorityError> {
        self.inner.find(key, ask).await
    }

    async fn decide(
        &self,
        key: &AgentKey,
        ask: &Ask,
        seen: &Charge,
        attempt: &AttemptId,
    ) -> Result<Decided, AuthorityError> {
        self.inner.decide(key, ask, seen, attempt).await
    }

    async fn preview(
        &self,
        key: &AgentKey,
        ask: &Ask,
        seen: &Charge,
    ) -> Result<Preview, AuthorityError> {
        self.inner.preview(key, ask, seen).await
    }

    async fn execute(&self, claim: &Claim, seen: &Charge) -> Result<Decided, AuthorityError> {
        self.inner.execute(claim, seen).await
    }

    async fn claim(&self, work: Work, limit: u16) -> Result<Vec<Claim>, AuthorityError> {
        // Whoever gave a call up may take what it decided from under its lease.
        let own = match &work {
            Work::GivenUp(attempt) => Some(Pending::Reclaim(attempt.clone())),
            _ => None,
        };
        let _reclaiming = own.map(|own| self.witness.begin(self.node, own));
        self.inner.claim(work, limit).await
    }

    async fn record(
        &self,
        id: &IntentId,
        fence: u64,
        news: &Outcome,
    ) -> Result<Intent, AuthorityError> {
        {
            let mut seen = self.witness.seen();
            seen.line(|| {
                format!("node {}: tells of {id} under fence {fence}: {news:?}", self.node.0)
            });
            if matches!(news, Outcome::Refused(_)) {
                seen.refused(self.node, id);
            }
        }
        let _telling = self.witness.begin(self.node, Pending::Tell(id.clone(), fence));
        let result = self.inner.record(id, fence, news).await;
        let taken = !matches!((news, &result), (Outcome::Seen(_), Err(AuthorityError::Stale)));
        self.witness
            .seen()
            .law("F23", taken, || format!("{id}: a refund that was seen is not taken"));
        result
    }

    async fn justify(
        &self,
        key: &AgentKey,
        id: &IntentId,
        words: &Justification,
    ) -> Result<Intent, AuthorityError> {
        self.inner.justify(key, id, words).await
    }
}
