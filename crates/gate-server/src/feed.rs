//! The exchange rates' file, fetched over HTTP.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gate_authority::RatesFeed;
use gate_core::Clock;
use gate_http::{Method, Request, Transport};

/// How long fetching may take.
const FETCH_TIMEOUT: Duration = Duration::from_secs(20);

/// A feed at a URL.
pub(crate) struct HttpFeed {
    /// Carries the request.
    pub(crate) transport: Arc<dyn Transport>,
    /// Times it.
    pub(crate) clock: Arc<dyn Clock>,
    /// Where the file is.
    pub(crate) url: String,
}

#[async_trait]
impl RatesFeed for HttpFeed {
    async fn fetch(&self) -> Result<Vec<u8>, String> {
        let request = Request {
            method: Method::Get,
            url: self.url.clone(),
            headers: vec![("accept", "application/xml, text/xml".into())],
            body: Vec::new(),
        };
        let by = self.clock.deadline(FETCH_TIMEOUT);
        let response = self.transport.send(request, by).await.map_err(|error| error.to_string())?;
        match response.status {
            200 => Ok(response.body),
            status => Err(format!("the server answered {status}")),
        }
    }
}
