//! The routes: which there are, what each takes, and what it answers.

use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use gate_api::{
    AnswerView, ApprovalView, BODY_BYTES_MAX, BudgetView, Concern, HealthView, IntentView,
    PageView, ReceivedView, SurfaceError, ToolOperation, WEBHOOK_BYTES_MAX, openapi, parse_ask,
    parse_intent_filter, parse_wait,
};
use gate_core::{ActionError, AgentId, AgentKey, ApprovalId, Intent, IntentId};
use gate_tools::TABLE;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header;
use hyper::{Method, Request};
use matchit::Router;

use super::{Reply, Service, json};
/// How long a client may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// A route.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Route {
    Approval,
    Budget,
    Cancel,
    Health,
    Intent,
    Intents,
    Mcp,
    OpenApi,
    Ready,
    Refund,
    Tool,
    Tools,
    Webhook,
}

/// Every route: where it is, and the one method it takes.
const ROUTES: [(&str, &str, Route); 13] = [
    ("/v1/actions/stripe.refund", "POST", Route::Refund),
    ("/v1/intents", "GET", Route::Intents),
    ("/v1/intents/{id}", "GET", Route::Intent),
    ("/v1/intents/{id}/cancel", "POST", Route::Cancel),
    ("/v1/approvals/{id}", "GET", Route::Approval),
    ("/v1/budget", "GET", Route::Budget),
    ("/v1/tools", "GET", Route::Tools),
    ("/v1/tools/{id}", "POST", Route::Tool),
    ("/mcp", "POST", Route::Mcp),
    ("/webhooks/stripe", "POST", Route::Webhook),
    ("/openapi.json", "GET", Route::OpenApi),
    ("/healthz", "GET", Route::Health),
    ("/readyz", "GET", Route::Ready),
];

type Found = (&'static str, &'static str, Route);

static ROUTER: LazyLock<Router<Found>> = LazyLock::new(|| {
    let mut router = Router::new();
    for found in ROUTES {
        // Two routes of the same shape would be a fault of the table; a test looks each one up.
        drop(router.insert(found.0, found));
    }
    router
});

/// Whether it only asks after our health; those are not worth a line in the log.
pub(super) fn is_probe(path: &str) -> bool {
    ROUTER.at(path).is_ok_and(|found| matches!(found.value.2, Route::Health | Route::Ready))
}

/// The route's own pattern, for the log: a path may carry anything.
pub(super) fn name(path: &str) -> &'static str {
    ROUTER.at(path).map_or("none", |found| found.value.0)
}

impl Service {
    /// What a request for `path` is about.
    pub(super) fn concern(&self, path: &str) -> Concern {
        match ROUTER.at(path) {
            Ok(found) if found.value.2 == Route::Refund => Concern::Refund,
            Ok(found) if found.value.2 == Route::Tool => {
                self.tools.concern(found.params.get("id").unwrap_or_default())
            }
            Ok(_) | Err(_) => Concern::Records,
        }
    }

    pub(super) async fn route(
        &self,
        request: Request<Incoming>,
        peer: SocketAddr,
    ) -> Result<Reply, SurfaceError> {
        let path = request.uri().path().to_owned();
        let found = ROUTER.at(&path).map_err(|_| SurfaceError::NotFound)?;
        let (_, allow, route) = *found.value;
        let id = found.params.get("id").unwrap_or_default();
        let probe = matches!(route, Route::Health | Route::Ready);
        if !probe {
            self.hosts.check(request.uri(), request.headers())?;
        }
        let head = allow == "GET" && request.method() == Method::HEAD;
        if request.method().as_str() != allow && !head {
            return Err(SurfaceError::HttpMethodNotAllowed { allow });
        }
        let pairs = query(&request);
        match route {
            Route::Health => return json(200, &HealthView::OK),
            Route::Ready => return self.ready().await,
            Route::OpenApi => return json(200, &*OPENAPI),
            Route::Webhook => return self.webhook(request).await,
            Route::Approval
            | Route::Budget
            | Route::Cancel
            | Route::Intent
            | Route::Intents
            | Route::Mcp
            | Route::Refund
            | Route::Tool
            | Route::Tools => {}
        }
        let key = bearer(&request);
        // Who asks is known before anything that was sent is looked at.
        self.admit(key.as_ref(), peer).await?;
        let key = key.ok_or(ActionError::Unauthenticated)?;
        match route {
            Route::Refund => self.refund(&key, request).await,
            Route::Intents => {
                let filter = parse_intent_filter(pairs.iter().map(pair))?;
                let page = self.records.intents(&key, &filter).await.map_err(ActionError::from)?;
                json(200, &PageView::new(&page))
            }
            Route::Intent => {
                let wait = parse_wait(pairs.iter().map(pair))?;
                let id = IntentId::parse(id).map_err(|_| ActionError::IntentNotFound)?;
                let intent = self.records.intent(&key, &id, wait).await;
                intent_reply(&intent.map_err(ActionError::from)?)
            }
            Route::Cancel => {
                let id = IntentId::parse(id).map_err(|_| ActionError::IntentNotFound)?;
                let intent = self.records.cancel(&key, &id).await.map_err(ActionError::from)?;
                intent_reply(&intent)
            }
            Route::Approval => {
                let wait = parse_wait(pairs.iter().map(pair))?;
                let id = ApprovalId::parse(id).map_err(|_| ActionError::ApprovalNotFound)?;
                let intent = self.records.approval(&key, &id, wait).await;
                let view = ApprovalView::new(&intent.map_err(ActionError::from)?);
                json(200, &view.ok_or(ActionError::ApprovalNotFound)?)
            }
            Route::Budget => {
                let budget = self.records.budget(&key).await.map_err(ActionError::from)?;
                json(200, &BudgetView::new(&budget))
            }
            Route::Tools => {
                json(200, &serde_json::json!({ "tools": self.tools.listed(&key).await? }))
            }
            Route::Tool => self.tool(&key, id, request).await,
            Route::Mcp => self.mcp(key, request).await,
            Route::Health | Route::OpenApi | Route::Ready | Route::Webhook => {
                Err(SurfaceError::NotFound)
            }
        }
    }

    /// Whoever calls is known by the signature alone.
    async fn webhook(&self, request: Request<Incoming>) -> Result<Reply, SurfaceError> {
        let (head, raw) = request.into_parts();
        let signature = head.headers.get("stripe-signature").and_then(|text| text.to_str().ok());
        let raw = body(raw, WEBHOOK_BYTES_MAX).await?;
        self.webhooks.receive(signature, &raw).await?;
        json(200, &ReceivedView::RECEIVED)
    }

    async fn refund(
        &self,
        key: &AgentKey,
        request: Request<Incoming>,
    ) -> Result<Reply, SurfaceError> {
        let ask = parse_ask(&json_body(request).await?)?;
        let answer = AnswerView::new(&self.actions.refund(key, ask).await?);
        let mut reply = json(answer.http_status(), &answer)?;
        if let AnswerView::Intent(view) = &answer {
            reply.outcome = view.status.to_owned();
            reply.intent = Some(view.intent_id.clone());
        }
        Ok(reply)
    }

    async fn tool(
        &self,
        key: &AgentKey,
        tool: &str,
        request: Request<Incoming>,
    ) -> Result<Reply, SurfaceError> {
        let answered = self.tools.run(key, tool, &json_body(request).await?, None).await?;
        let mut reply = json(answered.http_status, &answered.body)?;
        reply.outcome = answered.outcome.to_owned();
        reply.intent = answered.intent;
        Ok(reply)
    }

    /// One message of MCP. What became of a call is logged beside this, by the tools.
    async fn mcp(&self, key: AgentKey, request: Request<Incoming>) -> Result<Reply, SurfaceError> {
        let (head, raw) = request.into_parts();
        let message = body(raw, BODY_BYTES_MAX).await?;
        let response = self.mcp.answer(key, head, message.into()).await;
        let response = response.map(BodyExt::boxed_unsync);
        let outcome = if response.status().is_success() { "ok" } else { "not_understood" };
        Ok(Reply { response, outcome: outcome.to_owned(), intent: None })
    }

    async fn ready(&self) -> Result<Reply, SurfaceError> {
        if self.stopping.is_cancelled() {
            return Err(ActionError::ShuttingDown.into());
        }
        let view = self.readiness.look().await;
        json(view.http_status(), &view)
    }

    /// Lets in whoever holds a key, as often as its agent may ask; counts failed keys by address.
    async fn admit(&self, key: Option<&AgentKey>, peer: SocketAddr) -> Result<(), SurfaceError> {
        let agent: Result<AgentId, ActionError> = match key {
            None => Err(ActionError::Unauthenticated),
            Some(key) => match self.authority.agent(key).await {
                Ok(agent) if agent.may_call_from(peer.ip()) => Ok(agent.id),
                // The caller is told what any wrong key is told.
                Ok(agent) => {
                    tracing::warn!(agent.id = %agent.id, peer = %peer.ip(), "its key is not taken from here");
                    Err(ActionError::Unauthenticated)
                }
                Err(error) => Err(error.into()),
            },
        };
        match agent {
            Ok(agent) => self.limits.agent(&agent),
            Err(ActionError::Unauthenticated) => {
                self.limits.failed_key(peer.ip())?;
                Err(ActionError::Unauthenticated.into())
            }
            Err(error) => Err(error.into()),
        }
    }
}

static OPENAPI: LazyLock<serde_json::Value> = LazyLock::new(api_document);

/// The API's description, with every tool of the table.
pub(crate) fn api_document() -> serde_json::Value {
    let tools = TABLE.iter().map(|tool| ToolOperation {
        name: tool.name,
        title: tool.title,
        description: tool.description,
        concern: tool.concern,
        input: (tool.input)(),
        output: (tool.output)(),
    });
    openapi(env!("CARGO_PKG_VERSION"), tools.collect())
}

fn intent_reply(intent: &Intent) -> Result<Reply, SurfaceError> {
    let view = IntentView::new(intent, false, true);
    let mut reply = json(200, &view)?;
    reply.intent = Some(view.intent_id);
    Ok(reply)
}

fn bearer(request: &Request<Incoming>) -> Option<AgentKey> {
    let value = request.headers().get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, key) = value.split_once(' ')?;
    let key = key.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !key.is_empty())
        .then(|| AgentKey::new(key.to_owned()))
}

fn query(request: &Request<Incoming>) -> Vec<(String, String)> {
    let query = request.uri().query().unwrap_or_default();
    form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

fn pair(pair: &(String, String)) -> (&str, &str) {
    (&pair.0, &pair.1)
}

/// Reads a body that must be declared as JSON.
async fn json_body(request: Request<Incoming>) -> Result<Vec<u8>, SurfaceError> {
    let media_type = request.headers().get(header::CONTENT_TYPE);
    let media_type = media_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(SurfaceError::UnsupportedMediaType);
    }
    body(request.into_body(), BODY_BYTES_MAX).await
}

/// Reads a body of at most `bytes_max` bytes.
async fn body(body: Incoming, bytes_max: usize) -> Result<Vec<u8>, SurfaceError> {
    let whole = Limited::new(body, bytes_max).collect();
    let cut = || SurfaceError::InvalidRequest {
        field: None,
        detail: "the body did not come whole; send it again".to_owned(),
    };
    match tokio::time::timeout(BODY_TIMEOUT, whole).await {
        Err(_) => Err(cut()),
        Ok(Ok(whole)) => Ok(whole.to_bytes().to_vec()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(SurfaceError::BodyTooLarge { bytes_max })
        }
        Ok(Err(_)) => Err(cut()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn each_route_is_found() {
        for (pattern, _, route) in ROUTES {
            let path = pattern.replace("{id}", "x_1");
            let found = ROUTER.at(&path).unwrap();
            assert_eq!(found.value.2, route, "{path}");
        }
    }

    #[test]
    fn the_api_document_has_each_route_and_no_other() {
        let document = api_document();
        let paths = document["paths"].as_object().unwrap();
        let listed: BTreeMap<String, String> = paths
            .iter()
            .map(|(path, item)| {
                let method = item.as_object().unwrap().keys().next().unwrap();
                // Each tool is described at its own address; one route serves them all.
                let tool = path.strip_prefix("/v1/tools/");
                let path = tool.map_or(path.as_str(), |_| "/v1/tools/{id}");
                (path.to_owned(), method.to_uppercase())
            })
            .collect();
        let served: BTreeMap<String, String> =
            ROUTES.map(|(path, method, _)| (path.to_owned(), method.to_owned())).into();
        assert_eq!(listed, served);
    }
}
