//! The authority on a socket: each call taken off the wire whole, in time and within its limit, and
//! answered by what [`gate_served`] makes of it. Nothing else is served on its address.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use gate_burnbound::wire::BODY_BYTES_MAX;
use gate_served::{Answer, Call, Served};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use tokio_util::sync::CancellationToken;

use crate::listen::{Body, Outgoing, whole};

/// How long a gateway may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// See the module.
pub struct AuthorityApi {
    /// What answers.
    pub served: Served,
    /// Whether the authority is ending.
    pub stopping: CancellationToken,
}

impl AuthorityApi {
    /// Answers one call.
    pub async fn answer(self: Arc<Self>, request: Request<Incoming>, _: SocketAddr) -> Outgoing {
        let answer = match came(request).await {
            Ok(call) => self.served.answer(call, pin!(self.stopping.cancelled())).await,
            // Whoever does not send a whole call cannot be told apart from a stranger.
            Err((status, code, detail)) => self.served.refused(status, code, detail),
        };
        Some(response(answer))
    }
}

fn response(answer: Answer) -> Response<Body> {
    let mut response = Response::new(whole(answer.body));
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.status_mut() = status;
    for (name, value) in answer.headers {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    response
}

/// Takes the whole call off the wire; else status, code and what to do.
async fn came(request: Request<Incoming>) -> Result<Call, (u16, &'static str, String)> {
    let (head, body) = request.into_parts();
    let whole = Limited::new(body, BODY_BYTES_MAX).collect();
    let cut = || (400, "invalid_request", "the body did not come whole; send it again".to_owned());
    let body = match tokio::time::timeout(BODY_TIMEOUT, whole).await {
        Err(_) => return Err(cut()),
        Ok(Ok(whole)) => whole.to_bytes().to_vec(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let detail = format!("a body has at most {BODY_BYTES_MAX} bytes");
            return Err((413, "body_too_large", detail));
        }
        Ok(Err(_)) => return Err(cut()),
    };
    let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let authority = head.uri.authority().map(|at| at.as_str()).or(host).unwrap_or_default();
    Ok(Call {
        method: head.method.as_str().to_owned(),
        authority: authority.to_ascii_lowercase(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().map(str::to_owned),
        headers: head
            .headers
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec()))
            .collect(),
        body,
    })
}
