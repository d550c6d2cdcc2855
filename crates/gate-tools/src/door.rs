//! `POST /mcp`: one message, one answer, and nothing kept between two of them. Whoever mounts it
//! has checked host, origin, size and key before; the key comes in here beside the request, and
//! its header is taken off, so that no trace of what lies below shows it.

use std::convert::Infallible;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use gate_core::AgentKey;
use http::request::Parts;
use http::{Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::ServerHandler;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_server::SessionManager;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;

use crate::distinct::distinct;
use crate::mcp::McpServer;
use crate::toolbox::Toolbox;

/// JSON-RPC: the body is not JSON.
const PARSE_ERROR: i32 = -32_700;
/// JSON-RPC: the body is JSON and no message.
const INVALID_REQUEST: i32 = -32_600;

/// The HTTP door.
pub struct McpDoor(Box<dyn Messages>);

impl McpDoor {
    /// A door to `toolbox` of a program of this `version`.
    #[must_use]
    pub fn new(toolbox: Arc<dyn Toolbox>, version: &'static str) -> Self {
        let server = McpServer::new(toolbox, version);
        let sessions: Arc<NeverSessionManager> = Arc::default();
        Self::to(StreamableHttpService::new(move || Ok(server.clone()), sessions, Self::config()))
    }

    /// A door to another server, such as ours with what a test adds.
    #[must_use]
    pub fn to<S, M>(service: StreamableHttpService<S, M>) -> Self
    where
        S: ServerHandler + Send + 'static,
        M: SessionManager,
    {
        Self(Box::new(service))
    }

    /// How the SDK is to serve: without sessions, and in one piece of JSON unless there is more to
    /// tell than the answer.
    #[must_use]
    pub fn config() -> StreamableHttpServerConfig {
        StreamableHttpServerConfig::default()
            // Checked before, by the gateway's own list.
            .disable_allowed_hosts()
            .with_legacy_session_mode(false)
            .with_json_response(true)
    }

    /// Answers one message of whoever holds `key`.
    pub async fn answer(
        &self,
        key: AgentKey,
        mut head: Parts,
        body: Bytes,
    ) -> Response<BoxBody<Bytes, Infallible>> {
        let message = serde_json::from_slice::<ClientJsonRpcMessage>(&body).map(|_| ());
        if let Err(error) = message.and_then(|()| distinct(&body)) {
            return not_a_message(&error);
        }
        head.headers.remove(header::AUTHORIZATION);
        head.extensions.insert(key);
        self.0.answer(Request::from_parts(head, Full::new(body))).await
    }
}

/// Whatever server is behind the door.
#[async_trait]
trait Messages: Send + Sync {
    async fn answer(&self, request: Request<Full<Bytes>>) -> Response<BoxBody<Bytes, Infallible>>;
}

#[async_trait]
impl<S, M> Messages for StreamableHttpService<S, M>
where
    S: ServerHandler + Send + 'static,
    M: SessionManager,
{
    async fn answer(&self, request: Request<Full<Bytes>>) -> Response<BoxBody<Bytes, Infallible>> {
        self.handle(request).await
    }
}

fn not_a_message(error: &serde_json::Error) -> Response<BoxBody<Bytes, Infallible>> {
    let (code, message) = if error.is_data() {
        let told = "the body is not one JSON-RPC message of MCP, or gives a member twice";
        (INVALID_REQUEST, told.to_owned())
    } else {
        (PARSE_ERROR, format!("the body is not JSON: {error}"))
    };
    let body = json!({ "jsonrpc": "2.0", "error": { "code": code, "message": message } });
    let mut response = Response::new(Full::from(body.to_string()).boxed());
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use rmcp::model::{ListToolsResult, PaginatedRequestParams};
    use rmcp::service::RequestContext;
    use rmcp::{ErrorData, RoleServer};

    use super::*;

    /// Keeps what a request shows to whatever lies behind the door.
    #[derive(Clone, Default)]
    struct Curious(Arc<Mutex<String>>);

    impl ServerHandler for Curious {
        async fn list_tools(
            &self,
            _: Option<PaginatedRequestParams>,
            context: RequestContext<RoleServer>,
        ) -> Result<ListToolsResult, ErrorData> {
            let head = context.extensions.get::<Parts>().unwrap();
            let key = head.extensions.get::<AgentKey>().unwrap();
            assert_eq!(key.expose(), "bb_agent_canary");
            *self.0.lock().unwrap() = format!("{head:?} {key:?} {context:?}");
            Ok(ListToolsResult::default())
        }
    }

    #[tokio::test]
    async fn the_key_goes_in_beside_the_request_and_its_header_does_not() {
        let curious = Curious::default();
        let server = curious.clone();
        let sessions: Arc<NeverSessionManager> = Arc::default();
        let service =
            StreamableHttpService::new(move || Ok(server.clone()), sessions, McpDoor::config());
        let head = Request::post("/mcp")
            .header("host", "gate.example.com")
            .header("authorization", "Bearer bb_agent_canary")
            .header("authorization", "Basic bb_agent_canary")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("x-kept", "yes");
        let (head, ()) = head.body(()).unwrap().into_parts();
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
        let key = AgentKey::new("bb_agent_canary".to_owned());
        let answer = McpDoor::to(service).answer(key, head, body.into()).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let seen = curious.0.lock().unwrap().clone();
        assert!(seen.contains("x-kept"), "{seen}");
        for word in ["canary", "authorization"] {
            assert!(!seen.to_lowercase().contains(word), "{word} in {seen}");
        }
    }
}
