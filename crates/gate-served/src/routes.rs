//! The calls of the protocol: which there are, and what each asks of the authority.

use std::pin::pin;
use std::sync::LazyLock;
use std::time::Duration;

use futures_util::future::{Either, select};
use gate_burnbound::wire::{
    AgentBody, AskBody, BudgetBody, ClaimAsk, ClaimsBody, DecideAsk, DecidedBody, ExecuteAsk,
    IntentBody, JustifyAsk, Malformed, NotedBody, ObservationsAsk, OutcomeAsk, PREFIX, PageBody,
    PreviewBody, StatusBody, ToolAsk, ToolBody, VERSION, filter_from, wait_from,
};
use gate_core::{
    ActionError, AgentKey, ApprovalId, Ask, AttemptId, Authority, AuthorityError, Channel, Charge,
    Grants as _, Intent, IntentId, Justification, Notes, Outcome, Records, ToolUse, Work,
};
use gate_store::Money;
use matchit::Router;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{Call, Ending, Proven, Refused, Served};

/// A call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Route {
    Agent,
    Approval,
    Budget,
    Cancel,
    Claims,
    Decide,
    Execute,
    Intent,
    Intents,
    Justify,
    Lookup,
    Observations,
    Outcome,
    Status,
    Tool,
}

/// Every call: its method, and where it is behind the protocol's prefix.
const ROUTES: [(&str, &str, Route); 15] = [
    ("GET", "/agent", Route::Agent),
    ("GET", "/approvals/{id}", Route::Approval),
    ("GET", "/budget", Route::Budget),
    ("POST", "/intents/{id}/cancel", Route::Cancel),
    ("POST", "/claims", Route::Claims),
    ("POST", "/intents", Route::Decide),
    ("POST", "/intents/{id}/execute", Route::Execute),
    ("GET", "/intents/{id}", Route::Intent),
    ("GET", "/intents", Route::Intents),
    ("POST", "/intents/{id}/justification", Route::Justify),
    ("POST", "/intents/lookup", Route::Lookup),
    ("POST", "/observations", Route::Observations),
    ("POST", "/intents/{id}/outcome", Route::Outcome),
    ("GET", "/status", Route::Status),
    ("POST", "/tools/{tool}", Route::Tool),
];

impl Route {
    /// Whether the call may change something: it then uses its nonce up in its own transaction.
    const fn changes(self) -> bool {
        match self {
            Self::Cancel
            | Self::Claims
            | Self::Decide
            | Self::Execute
            | Self::Justify
            | Self::Observations
            | Self::Outcome
            | Self::Tool => true,
            Self::Agent
            | Self::Approval
            | Self::Budget
            | Self::Intent
            | Self::Intents
            | Self::Lookup
            | Self::Status => false,
        }
    }
}

/// Method, pattern and call.
type Found = (&'static str, &'static str, Route);

/// Each pattern with the calls that it has, one a method.
static ROUTER: LazyLock<Router<Vec<Found>>> = LazyLock::new(|| {
    let mut router = Router::new();
    let mut patterns: Vec<&str> = ROUTES.iter().map(|(_, pattern, _)| *pattern).collect();
    patterns.sort_unstable();
    patterns.dedup();
    for pattern in patterns {
        let calls = ROUTES.iter().filter(|found| found.1 == pattern).copied().collect();
        // Two patterns of one shape would be a fault of the table; a test looks each one up.
        drop(router.insert(pattern, calls));
    }
    router
});

/// The call's own pattern, for the log: a path may carry anything.
pub(super) fn name(path: &str) -> &'static str {
    let path = path.strip_prefix(PREFIX).unwrap_or_default();
    let found = ROUTER.at(path).ok().and_then(|found| found.value.first().copied());
    found.map_or("none", |found| found.1)
}

impl Served {
    pub(super) async fn route(
        &self,
        proven: &Proven,
        ending: Ending<'_>,
    ) -> Result<Vec<u8>, Refused> {
        let Proven { caller, call } = proven;
        let path = call.path.strip_prefix(PREFIX).unwrap_or_default();
        let found = ROUTER
            .at(path)
            .map_err(|_| Refused::Plain(404, "not_found", "there is no such call".to_owned()))?;
        let route = found.value.iter().find(|(method, ..)| *method == call.method);
        let Some((_, _, route)) = route else {
            let detail = "this call takes another method".to_owned();
            return Err(Refused::Plain(405, "http_method_not_allowed", detail));
        };
        let id = found.params.get("id").or_else(|| found.params.get("tool")).unwrap_or_default();
        if route.changes() {
            self.change(*route, id, proven).await
        } else {
            self.authority.take_read(caller).await?;
            self.read(*route, id, proven, ending).await
        }
    }

    async fn read(
        &self,
        route: Route,
        id: &str,
        proven: &Proven,
        ending: Ending<'_>,
    ) -> Result<Vec<u8>, Refused> {
        let (at, call) = (self.authority.as_ref(), &proven.call);
        let query = call.query.as_deref().unwrap_or_default();
        match route {
            Route::Agent => {
                let standing = at.standing(&agent_key(call)?).await?;
                json(&AgentBody::new(&standing.agent, standing.tools, standing.stopped))
            }
            Route::Approval => {
                let wait = wait_from(query)?;
                let (key, id) = (agent_key(call)?, approval_id(id)?);
                json(&IntentBody::from(
                    &waiting(|w| at.approval(&key, &id, w), wait, ending).await?,
                ))
            }
            Route::Budget => json(&BudgetBody::from(&at.budget(&agent_key(call)?).await?)),
            Route::Intent => {
                let wait = wait_from(query)?;
                let (key, id) = (agent_key(call)?, intent_id(id)?);
                json(&IntentBody::from(&waiting(|w| at.intent(&key, &id, w), wait, ending).await?))
            }
            Route::Intents => {
                let page = at.intents(&agent_key(call)?, &filter_from(query)?).await?;
                json(&PageBody::from(&page))
            }
            Route::Lookup => {
                let ask: Ask = body::<AskBody>(call)?.try_into()?;
                let found = at.find(&agent_key(call)?, &ask).await?;
                json(&found.as_ref().map(IntentBody::from))
            }
            Route::Status => json(&StatusBody {
                protocol: VERSION,
                now: gate_api::rfc3339(at.time().await?),
                gateway: proven.caller.gateway.to_string(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            }),
            Route::Cancel
            | Route::Claims
            | Route::Decide
            | Route::Execute
            | Route::Justify
            | Route::Observations
            | Route::Outcome
            | Route::Tool => Err(Refused::Plain(404, "not_found", String::new())),
        }
    }

    async fn change(&self, route: Route, id: &str, proven: &Proven) -> Result<Vec<u8>, Refused> {
        let Proven { caller, call } = proven;
        let at = &self.authority.serving(caller.clone());
        match route {
            Route::Cancel => {
                let intent = at.cancel(&agent_key(call)?, &intent_id(id)?).await?;
                json(&IntentBody::from(&intent))
            }
            Route::Claims => {
                let ClaimAsk { work, limit, channel } = body(call)?;
                let (work, channel): (Work, Channel) = (work.try_into()?, channel.try_into()?);
                let of = Money { account: channel.account, livemode: channel.livemode };
                let claims = at.claim_of(work, limit, Some(of)).await?;
                json(&ClaimsBody { claims: claims.iter().map(Into::into).collect() })
            }
            Route::Decide => {
                let DecideAsk { ask, charge, attempt_id } = body(call)?;
                let (ask, charge): (Ask, Charge) = (ask.try_into()?, charge.try_into()?);
                let key = agent_key(call)?;
                if ask.dry_run {
                    self.authority.take_read(caller).await?;
                    return json(&PreviewBody::from(&at.preview(&key, &ask, &charge).await?));
                }
                let attempt = attempt_id.unwrap_or_default();
                let attempt = AttemptId::parse(&attempt).map_err(|_| Malformed("attemptId"))?;
                json(&DecidedBody::from(&at.decide(&key, &ask, &charge, &attempt).await?))
            }
            Route::Execute => {
                let ExecuteAsk { fence, charge } = body(call)?;
                let charge: Charge = charge.try_into()?;
                json(&DecidedBody::from(&at.execute_under(&intent_id(id)?, fence, &charge).await?))
            }
            Route::Justify => {
                let JustifyAsk { justification } = body(call)?;
                let words = Justification::parse(&justification);
                let words = words.map_err(|_| Malformed("justification"))?;
                let intent = at.justify(&agent_key(call)?, &intent_id(id)?, &words).await?;
                json(&IntentBody::from(&intent))
            }
            Route::Observations => {
                let ObservationsAsk { event } = body(call)?;
                json(&NotedBody { is_new: at.note_event(&event).await? })
            }
            Route::Outcome => {
                let OutcomeAsk { fence, outcome } = body(call)?;
                let news: Outcome = outcome.try_into()?;
                json(&IntentBody::from(&at.record(&intent_id(id)?, fence, &news).await?))
            }
            Route::Tool => {
                let ToolAsk { from, to, rows } = body(call)?;
                let used = ToolUse { tool: id.to_owned(), from, to, rows };
                json(&ToolBody { granted: at.use_tool(&agent_key(call)?, &used).await? })
            }
            Route::Agent
            | Route::Approval
            | Route::Budget
            | Route::Intent
            | Route::Intents
            | Route::Lookup
            | Route::Status => Err(Refused::Plain(404, "not_found", String::new())),
        }
    }
}

/// A read that waits for a change, but not past the authority's end: then it answers as it is.
async fn waiting<F>(
    read: impl Fn(Duration) -> F,
    wait: Duration,
    ending: Ending<'_>,
) -> Result<Intent, AuthorityError>
where
    F: Future<Output = Result<Intent, AuthorityError>>,
{
    match select(ending, pin!(read(wait))).await {
        Either::Left(_) => read(Duration::ZERO).await,
        Either::Right((read, _)) => read,
    }
}

impl From<Malformed> for Refused {
    fn from(fault: Malformed) -> Self {
        Self::Plain(400, "invalid_request", fault.to_string())
    }
}

impl From<ActionError> for Refused {
    fn from(error: ActionError) -> Self {
        Self::Authority(AuthorityError::Asked(error))
    }
}

fn json(body: &impl Serialize) -> Result<Vec<u8>, Refused> {
    serde_json::to_vec(body).map_err(|error| {
        Refused::Authority(AuthorityError::Broken(format!("unwritable answer: {error}")))
    })
}

fn body<T: DeserializeOwned>(call: &Call) -> Result<T, Refused> {
    if call.header("content-type") != Some("application/json") {
        let detail = "a body is application/json".to_owned();
        return Err(Refused::Plain(415, "unsupported_media_type", detail));
    }
    // What is wrong is named; what stands there may be a justification, and is not repeated.
    serde_json::from_slice(&call.body).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let detail = format!("the body is not as it should be at line {line}, column {column}");
        Refused::Plain(400, "invalid_request", detail)
    })
}

fn agent_key(call: &Call) -> Result<AgentKey, Refused> {
    let key = call.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    match key.filter(|key| !key.is_empty()) {
        Some(key) => Ok(AgentKey::new(key.to_owned())),
        None => Err(Refused::Authority(AuthorityError::Unauthenticated)),
    }
}

fn intent_id(text: &str) -> Result<IntentId, Refused> {
    IntentId::parse(text).map_err(|_| ActionError::IntentNotFound.into())
}

fn approval_id(text: &str) -> Result<ApprovalId, Refused> {
    ApprovalId::parse(text).map_err(|_| ActionError::ApprovalNotFound.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_is_found() {
        for (method, pattern, route) in ROUTES {
            let path = pattern.replace("{id}", "x_1").replace("{tool}", "customers_search");
            let found = ROUTER.at(&path).unwrap();
            let call = found.value.iter().find(|(known, ..)| *known == method).unwrap();
            assert_eq!((call.1, call.2), (pattern, route), "{method} {path}");
            assert_eq!(name(&format!("{PREFIX}{path}")), pattern);
        }
        assert_eq!(name("/authority/v1/x"), "none");
        assert_eq!(name("/x"), "none");
    }
}
