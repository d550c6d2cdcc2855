//! Standard input and output: one client, one key. Only protocol is written there.
//!
//! When the client closes its end, calls under way are waited for and answered. (Left to itself
//! the SDK gives them five seconds.)

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gate_core::AgentKey;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::service::{RoleServer, ServerInitializeError, serve_server};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;

use crate::mcp::McpServer;
use crate::toolbox::Toolbox;

/// Longest line that is read, in bytes. A longer one is dropped, and the client told.
const LINE_BYTES_MAX: usize = 256 * 1024;

/// How long calls under way may take once the client has closed its end. Longer than any deadline
/// that a toolbox has for a call, so that it only ends what would never end.
const FINISH_TIMEOUT: Duration = Duration::from_secs(150);

/// Why a client could not be served.
#[derive(Debug)]
pub struct StdioEnded(String);

impl fmt::Display for StdioEnded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StdioEnded {}

/// Serves the client at the other end of the process's standard input and output, as the agent of
/// `key`, until it closes its end and its calls are answered.
///
/// # Errors
///
/// [`StdioEnded`] when what came was not MCP from the start.
pub async fn serve_stdio(
    toolbox: Arc<dyn Toolbox>,
    key: AgentKey,
    version: &'static str,
) -> Result<(), StdioEnded> {
    let (read, write) = rmcp::transport::stdio();
    serve_lines(read, write, McpServer::new(toolbox, version).of(key)).await
}

async fn serve_lines(
    read: impl AsyncRead + Send + Unpin + 'static,
    write: impl AsyncWrite + Send + Unpin + 'static,
    server: McpServer,
) -> Result<(), StdioEnded> {
    let inner = AsyncRwTransport::new_server(read, write).with_max_line_length(LINE_BYTES_MAX);
    let transport = Finishing { inner, open: Arc::default(), ended: false };
    let running = match serve_server(server, transport).await {
        Ok(running) => running,
        // Gone before it said anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(StdioEnded(error.to_string())),
    };
    running.waiting().await.map(|_| ()).map_err(|error| StdioEnded(error.to_string()))
}

/// A transport that ends once what it took in is answered.
struct Finishing<T> {
    inner: T,
    open: Arc<Open>,
    /// Whether the client has closed its end.
    ended: bool,
}

/// The calls that are not answered yet. As many as the client likes: it waits for each.
#[derive(Default)]
struct Open {
    ids: Mutex<Vec<RequestId>>,
    changed: Notify,
}

impl Open {
    fn ids(&self) -> std::sync::MutexGuard<'_, Vec<RequestId>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&self, id: &RequestId) {
        self.ids().retain(|open| open != id);
        self.changed.notify_one();
    }

    async fn all_closed(&self) {
        while !self.ids().is_empty() {
            self.changed.notified().await;
        }
    }
}

impl<T: Transport<RoleServer, Error = io::Error>> Transport<RoleServer> for Finishing<T> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let answered = match &message {
            JsonRpcMessage::Response(response) => Some(response.id.clone()),
            JsonRpcMessage::Error(error) => error.id.clone(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        let (open, sending) = (Arc::clone(&self.open), self.inner.send(message));
        async move {
            let sent = sending.await;
            if let Some(id) = answered {
                open.close(&id);
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        if !self.ended {
            if let Some(message) = self.inner.receive().await {
                self.note(&message);
                return Some(message);
            }
            self.ended = true;
        }
        drop(tokio::time::timeout(FINISH_TIMEOUT, self.open.all_closed()).await);
        None
    }

    async fn close(&mut self) -> io::Result<()> {
        self.inner.close().await
    }
}

impl<T> Finishing<T> {
    fn note(&self, message: &ClientJsonRpcMessage) {
        match message {
            JsonRpcMessage::Request(request) => self.open.ids().push(request.id.clone()),
            // A call that is given up gets no answer.
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(gone) = &notification.notification
                    && let Some(id) = &gone.params.request_id
                {
                    self.open.close(id);
                }
            }
            JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => {}
        }
    }
}
