//! The binary `action-gateway` for its black-box tests: the same one call into the library. It differs
//! in one thing, which no setting of the product can bring about: agents' webhooks at
//! `https://hooks.test:PORT/` go to that port of this machine, in plain. All others go where the
//! product would send them.

use std::sync::Arc;

use async_trait::async_trait;
use gate_core::{Clock, Deadline};
use gate_http::{HyperTransport, Request, Response, Transport, TransportError};
use gate_server::{Seams, WebhookTransport};

fn main() -> std::process::ExitCode {
    let webhooks: WebhookTransport = |clock| Arc::new(Hooks::new(clock));
    gate_server::run_with(Seams { webhooks, ..Seams::default() })
}

struct Hooks {
    here: HyperTransport,
    elsewhere: Arc<dyn Transport>,
}

impl Hooks {
    fn new(clock: Arc<dyn Clock>) -> Self {
        let here = HyperTransport::new(Arc::clone(&clock));
        Self { here, elsewhere: gate_server::to_public_addresses(clock) }
    }
}

#[async_trait]
impl Transport for Hooks {
    async fn send(&self, request: Request, by: Deadline) -> Result<Response, TransportError> {
        match request.url.strip_prefix("https://hooks.test:") {
            None => self.elsewhere.send(request, by).await,
            Some(rest) => {
                let url = format!("http://127.0.0.1:{rest}");
                self.here.send(Request { url, ..request }, by).await
            }
        }
    }
}
