//! The gateway's HTTP API: guards first, then one handler a route, and one place that turns every
//! answer and every problem into a response.

mod guard;
mod patient;
mod routes;

use std::net::SocketAddr;
use std::sync::Arc;

use gate_api::{Concern, Problem, SurfaceError, request_id};
use gate_core::{Actions, Authority, Clock, Ids, Records};
use gate_tools::{LocalTools, McpDoor};
use hyper::body::Incoming;
use hyper::header::{self, HeaderValue};
use hyper::{Request, Response, StatusCode};
use serde::Serialize;

pub use guard::{Hosts, Limits};
pub use patient::Patient;
pub(crate) use routes::api_document;

use crate::listen::{Body, Outgoing, whole};
use crate::readiness::Readiness;
use crate::webhooks::Webhooks;

/// What every request is served with.
pub struct Service {
    /// Refunds.
    pub actions: Arc<dyn Actions>,
    /// Who holds a key.
    pub authority: Arc<dyn Authority>,
    /// The agents' records.
    pub records: Arc<dyn Records>,
    /// The same as tools.
    pub tools: Arc<LocalTools>,
    /// The tools over MCP.
    pub mcp: McpDoor,
    /// Whether the gateway can work.
    pub readiness: Arc<Readiness>,
    /// Stripe's webhooks.
    pub webhooks: Arc<Webhooks>,
    /// Hosts that requests may come for.
    pub hosts: Hosts,
    /// How many requests are let through.
    pub limits: Limits,
    /// Times requests, for the log.
    pub clock: Arc<dyn Clock>,
    /// Makes request ids.
    pub ids: Arc<dyn Ids>,
    /// Whether the gateway is ending.
    pub stopping: tokio_util::sync::CancellationToken,
}

/// A response in the making.
struct Reply {
    response: Response<Body>,
    /// What the log calls it: a status or a code, and ids.
    outcome: String,
    intent: Option<String>,
}

impl Service {
    /// Answers one request.
    pub async fn answer(self: Arc<Self>, request: Request<Incoming>, peer: SocketAddr) -> Outgoing {
        let started = self.clock.uptime();
        let request_id = request_id(self.ids.as_ref());
        let method = request.method().clone();
        let concern = self.concern(request.uri().path());
        let quiet = routes::is_probe(request.uri().path());
        let route = routes::name(request.uri().path());
        let reply = match self.route(request, peer).await {
            Ok(reply) => reply,
            Err(error) => problem(error, concern, &request_id),
        };
        let took = self.clock.uptime().saturating_sub(started);
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        if !quiet {
            tracing::info!(
                request.id = request_id,
                http.method = %method,
                http.route = route,
                http.status = reply.response.status().as_u16(),
                outcome = reply.outcome,
                intent.id = reply.intent,
                took_ms,
                "answered"
            );
        }
        Some(finished(reply, &request_id))
    }
}

fn json(status: u16, body: &impl Serialize) -> Result<Reply, SurfaceError> {
    let mut body = serde_json::to_vec(body).map_err(|error| {
        gate_core::ActionError::AuthorityError { detail: format!("unwritable answer: {error}") }
    })?;
    // So that an answer in a terminal ends its line.
    body.push(b'\n');
    let response = response(status, "application/json", body);
    Ok(Reply { response, outcome: "ok".to_owned(), intent: None })
}

/// Every problem becomes a response here, and is logged with its inside here.
fn problem(error: SurfaceError, concern: Concern, request_id: &str) -> Reply {
    if let SurfaceError::Action(gate_core::ActionError::AuthorityError { detail }) = &error {
        tracing::error!(request.id = request_id, error.detail = detail, "the authority failed");
    }
    let problem = Problem::new(error, concern, request_id);
    let body = [serde_json::to_vec(&problem).unwrap_or_default(), vec![b'\n']].concat();
    let mut response = response(problem.status, Problem::MEDIA_TYPE, body);
    for (name, value) in &problem.headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(*name, value);
        }
    }
    Reply { response, outcome: problem.code.to_owned(), intent: problem.intent_id }
}

fn response(status: u16, media_type: &'static str, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(whole(body));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// What every answer carries.
fn finished(reply: Reply, request_id: &str) -> Response<Body> {
    let mut response = reply.response;
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if let Ok(id) = HeaderValue::from_str(request_id) {
        headers.insert("request-id", id);
    }
    response
}
