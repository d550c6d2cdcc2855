//! The authority as a gateway's core sees it: the shipped one, here or elsewhere, with the witness
//! listening to what is told under which fence, and to what is answered.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gate_core::{
    Agent, AgentKey, ApprovalId, Ask, AttemptId, Authority, AuthorityError, Budget, Charge, Claim,
    Decided, GatewayFault, Intent, IntentFilter, IntentId, Justification, Outcome, Page, Preview,
    Records, Work,
};

use crate::calls::{PortCall, Request};
use crate::coverage::Hit;
use crate::executor::Node;
use crate::faults::Class;
use crate::wire::Wire;
use crate::witness::{Pending, Witness};

/// See the module.
pub(crate) struct SimAuthority {
    pub(crate) node: Node,
    pub(crate) inner: Arc<dyn Authority>,
    pub(crate) records: Arc<dyn Records>,
    pub(crate) witness: Witness,
    /// The way to an authority elsewhere.
    pub(crate) wire: Option<Arc<Wire>>,
}

/// What a call of the port is about.
#[derive(Clone, Copy)]
enum Kind<'a> {
    /// A decision.
    Decide,
    /// What becomes of an intent.
    Of(&'a IntentId),
    /// Taking back what an attempt came to.
    Reclaim(&'a AttemptId),
    /// Anything else.
    Read,
}

impl SimAuthority {
    /// A call of the port; where it goes over the wire, its answer is held against what came.
    async fn call<T>(
        &self,
        kind: Kind<'_>,
        work: impl Future<Output = Result<T, AuthorityError>>,
    ) -> Result<T, AuthorityError> {
        let Some(wire) = &self.wire else { return work.await };
        let call = PortCall::new(matches!(kind, Kind::Decide | Kind::Of(_)));
        let usable = wire.usable(self.node);
        if let (Kind::Decide, Some(request)) = (kind, Request::current()) {
            call.progress().hits.extend(request.asked().hits.iter().copied());
        }
        if let Kind::Reclaim(attempt) = kind {
            call.progress().reclaims = Some(attempt.clone());
        }
        let pending = self.witness.begin(self.node, Pending::Call(Arc::clone(&call)));
        let result = call.within(work).await;
        drop(pending);
        let still_usable = usable.filter(|_| wire.usable(self.node) == usable);
        let mut seen = self.witness.seen();
        let mut progress = call.progress();
        let lost = matches!(result, Err(AuthorityError::Unavailable(_)));
        let unsent = progress.content.is_none();
        seen.law("F5", lost || unsent || progress.answered, || {
            format!("gateway {}: an answer was taken that nobody gave", self.node.0)
        });
        if let Err(AuthorityError::Gateway(fault)) = &result {
            // A call that came too early, by its clock or its key, may come again in time.
            let early = matches!(fault, GatewayFault::SignatureExpired | GatewayFault::Unknown);
            progress.refused = !early;
            let moved = progress.moves.first().cloned();
            seen.law("F6", moved.is_none(), || {
                format!("{moved:?} was done for a call that was told {}", fault.as_str())
            });
            let stranger = matches!(fault, GatewayFault::Unknown | GatewayFault::Revoked);
            let altered = progress.hits.contains(&Hit::Wire(Class::CallAltered));
            seen.law("F27", !stranger || altered || still_usable.is_none(), || {
                let node = self.node.0;
                format!("gateway {node} has a secret that is taken, and is {}", fault.as_str())
            });
            seen.shut(self.node, stranger);
        } else if !lost && !unsent {
            seen.open(self.node);
        }
        if let (true, Kind::Of(id)) = (lost, kind) {
            for hit in &progress.hits {
                seen.hit(id, *hit);
            }
        }
        if let (true, Kind::Decide, Some(request)) = (lost, kind, Request::current()) {
            request.asked().hits.extend(progress.hits.iter().copied());
        }
        drop(progress);
        result
    }
}

#[async_trait]
impl Authority for SimAuthority {
    async fn agent(&self, key: &AgentKey) -> Result<Agent, AuthorityError> {
        self.call(Kind::Read, self.inner.agent(key)).await
    }

    async fn find(&self, key: &AgentKey, ask: &Ask) -> Result<Option<Intent>, AuthorityError> {
        self.call(Kind::Read, self.inner.find(key, ask)).await
    }

    async fn decide(
        &self,
        key: &AgentKey,
        ask: &Ask,
        seen: &Charge,
        attempt: &AttemptId,
    ) -> Result<Decided, AuthorityError> {
        if let Some(request) = Request::current() {
            let mut asked = request.asked();
            asked.attempts.insert(attempt.clone());
            self.witness.seen().law("F6", asked.attempts.len() == 1, || {
                format!("a decision was asked for as {:?}", asked.attempts)
            });
        }
        self.call(Kind::Decide, self.inner.decide(key, ask, seen, attempt)).await
    }

    async fn preview(
        &self,
        key: &AgentKey,
        ask: &Ask,
        seen: &Charge,
    ) -> Result<Preview, AuthorityError> {
        self.call(Kind::Read, self.inner.preview(key, ask, seen)).await
    }

    async fn execute(&self, claim: &Claim, seen: &Charge) -> Result<Decided, AuthorityError> {
        self.call(Kind::Of(&claim.intent.id), self.inner.execute(claim, seen)).await
    }

    async fn claim(&self, work: Work, limit: u16) -> Result<Vec<Claim>, AuthorityError> {
        // Whoever gave a call up may take what it decided from under its lease.
        let own = match &work {
            Work::GivenUp(attempt) => Some(Pending::Reclaim(attempt.clone())),
            _ => None,
        };
        let _reclaiming = own.map(|own| self.witness.begin(self.node, own));
        let given_up = match &work {
            Work::GivenUp(attempt) => Some(attempt.clone()),
            _ => None,
        };
        let kind = given_up.as_ref().map_or(Kind::Read, Kind::Reclaim);
        self.call(kind, self.inner.claim(work, limit)).await
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
        let result = self.call(Kind::Of(id), self.inner.record(id, fence, news)).await;
        let seen = matches!(news, Outcome::Named { .. } | Outcome::Seen(_));
        let taken = !(seen && matches!(result, Err(AuthorityError::Stale)));
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
        self.call(Kind::Read, self.inner.justify(key, id, words)).await
    }
}

#[async_trait]
impl Records for SimAuthority {
    async fn intent(
        &self,
        key: &AgentKey,
        id: &IntentId,
        wait: Duration,
    ) -> Result<Intent, AuthorityError> {
        self.call(Kind::Read, self.records.intent(key, id, wait)).await
    }

    async fn intents(&self, key: &AgentKey, filter: &IntentFilter) -> Result<Page, AuthorityError> {
        self.call(Kind::Read, self.records.intents(key, filter)).await
    }

    async fn approval(
        &self,
        key: &AgentKey,
        id: &ApprovalId,
        wait: Duration,
    ) -> Result<Intent, AuthorityError> {
        self.call(Kind::Read, self.records.approval(key, id, wait)).await
    }

    async fn cancel(&self, key: &AgentKey, id: &IntentId) -> Result<Intent, AuthorityError> {
        self.call(Kind::Of(id), self.records.cancel(key, id)).await
    }

    async fn budget(&self, key: &AgentKey) -> Result<Budget, AuthorityError> {
        self.call(Kind::Read, self.records.budget(key)).await
    }
}
