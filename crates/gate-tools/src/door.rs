//! `POST /mcp`: one message, one answer, and nothing kept between two of them. Whoever mounts it
//! has checked host, origin, size and key before; the key comes in here beside the request, and
//! its header is taken off, so that no trace of what lies below shows it.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use gate_core::AgentKey;
use http::request::Parts;
use http::{Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use rmcp::model::ClientJsonRpcMessage;
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
pub struct McpDoor(StreamableHttpService<McpServer, NeverSessionManager>);

impl McpDoor {
    /// A door to `toolbox` of a program of this `version`.
    #[must_use]
    pub fn new(toolbox: Arc<dyn Toolbox>, version: &'static str) -> Self {
        let server = McpServer { toolbox, key: None, version };
        let config = StreamableHttpServerConfig::default()
            // Checked before, by the gateway's own list.
            .disable_allowed_hosts()
            .with_legacy_session_mode(false)
            .with_json_response(true);
        let make = move || Ok(server.clone());
        Self(StreamableHttpService::new(make, Arc::default(), config))
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
        self.0.handle(Request::from_parts(head, Full::new(body))).await
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
