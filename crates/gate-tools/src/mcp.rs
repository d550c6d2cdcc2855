//! MCP over any toolbox: what the server says of itself, the list, and calls. Nothing outside of
//! this module and its doors knows the SDK.

use std::borrow::Cow;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use gate_core::AgentKey;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProgressToken,
    ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tokio::sync::watch;

use crate::toolbox::{Called, NoSuchTool, Progress, Toolbox};

/// The revisions of the protocol that are spoken, oldest first.
const VERSIONS: &[ProtocolVersion] =
    &[ProtocolVersion::V_2025_06_18, ProtocolVersion::V_2025_11_25, ProtocolVersion::V_2026_07_28];

/// What a model is told of all tools together.
const INSTRUCTIONS: &str = "Refunds under a spending policy. Ask with stripe_refund and do what \
    the answer's `next` says. Give each refund its own idempotencyKey, such as the ticket's \
    number, and keep it when you ask again; a lost answer is no reason for a new key. A denial or \
    a pending approval is an answer, not a failure: tell the user, and do not try another way.";

/// One server; cheap, made anew for each request over HTTP.
#[derive(Clone)]
pub struct McpServer {
    toolbox: Arc<dyn Toolbox>,
    /// The key of whoever calls, where one client is served; else each request carries its own.
    key: Option<AgentKey>,
    /// The program's version.
    version: &'static str,
}

impl McpServer {
    /// A server of `toolbox`, of a program of this `version`, to callers whose requests carry their
    /// keys as [`McpDoor`](crate::McpDoor) hands them on.
    #[must_use]
    pub fn new(toolbox: Arc<dyn Toolbox>, version: &'static str) -> Self {
        Self { toolbox, key: None, version }
    }

    /// The same, to the holder of `key` alone.
    pub(crate) fn of(self, key: AgentKey) -> Self {
        Self { key: Some(key), ..self }
    }

    fn key(&self, context: &RequestContext<RoleServer>) -> Result<AgentKey, ErrorData> {
        let sent = || context.extensions.get::<http::request::Parts>()?.extensions.get();
        let key = self.key.as_ref().or_else(sent);
        key.cloned().ok_or_else(|| ErrorData::internal_error("no key came with the call", None))
    }
}

impl ServerHandler for McpServer {
    fn get_info(&self) -> ServerConfig {
        let server = Implementation::new("action-gateway", self.version);
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(server.with_title("Action gateway"))
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(VERSIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let unlisted = |problem: Value| {
            let detail = problem.get("detail").and_then(Value::as_str).unwrap_or_default();
            ErrorData::internal_error(detail.to_owned(), Some(problem))
        };
        let listed = self.toolbox.list(&self.key(&context)?).await.map_err(unlisted)?;
        let tools: Result<Vec<Tool>, _> = listed.into_iter().map(serde_json::from_value).collect();
        let odd = |error| ErrorData::internal_error(format!("a tool of no form: {error}"), None);
        Ok(ListToolsResult::with_all_items(tools.map_err(odd)?))
    }

    /// Problems are results with `isError`, whose document stands in the text alone: some clients
    /// hold whatever is structured against the tool's output schema.
    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let key = self.key(&context)?;
        // A number keeps whether it was written as a whole one; the tool judges it by its digits.
        let arguments = Value::Object(request.arguments.unwrap_or_default()).to_string();
        let (done, steps) = watch::channel(0);
        let tell: &Progress<'_> = &move |step| {
            done.send_replace(step);
        };
        let token = context.meta.get_progress_token();
        let progress = token.as_ref().map(|_| tell);
        let call = self.toolbox.call(&key, &request.name, arguments.as_bytes(), progress);
        let called = match token {
            None => call.await,
            Some(token) => Telling { token, steps, context: &context }.beside(call).await,
        };
        let result = match called {
            Ok(Called::Answer(answer)) => CallToolResult::structured(answer),
            Ok(Called::Problem(problem)) => {
                CallToolResult::error(vec![ContentBlock::text(problem.to_string())])
            }
            Err(NoSuchTool) => {
                let told = "there is no tool of this name; tools/list says which there are";
                return Err(ErrorData::invalid_params(told, None));
            }
        };
        Ok(result.into())
    }
}

/// Tells a client that gave a token how far its call is.
struct Telling<'a> {
    token: ProgressToken,
    /// The last step that was done; steps that follow each other closely are told as one.
    steps: watch::Receiver<u32>,
    context: &'a RequestContext<RoleServer>,
}

impl Telling<'_> {
    /// Waits for `call`, and tells of each step of it before its answer.
    async fn beside<T>(mut self, call: impl Future<Output = T>) -> T {
        let mut call = pin!(call);
        let called = loop {
            tokio::select! {
                biased;
                called = &mut call => break called,
                Ok(()) = self.steps.changed() => self.tell().await,
            }
        };
        if self.steps.has_changed().is_ok_and(|changed| changed) {
            self.tell().await;
        }
        called
    }

    /// A client that has gone, or given up, is told no more.
    async fn tell(&mut self) {
        let done = f64::from(*self.steps.borrow_and_update());
        if !self.context.ct.is_cancelled() {
            let progress = ProgressNotificationParam::new(self.token.clone(), done);
            drop(self.context.peer.notify_progress(progress).await);
        }
    }
}
