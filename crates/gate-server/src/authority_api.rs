//! The authority served to gateways: each call verified, admitted and routed, each answer signed.
//! Nothing else is served on its address.

mod routes;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gate_authority::{Caller, LocalAuthority};
use gate_burnbound::wire::{BODY_BYTES_MAX, PREFIX, ProblemBody};
use gate_burnbound::{AuthorityKey, RequestParts, SignedCall};
use gate_core::{AuthorityError, Clock, GatewayFault, GatewayId, Ids};
use gate_store::Nonce;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Request, Response, StatusCode};
use tokio_util::sync::CancellationToken;

use crate::listen::{Outgoing, whole};

/// How long a gateway may take to send a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// What paths of every version of the protocol start with.
const ANY_VERSION: &str = "/authority/";

/// What every call is served with.
pub struct AuthorityApi {
    /// Who decides.
    pub authority: Arc<LocalAuthority>,
    /// What answers are signed with.
    pub key: AuthorityKey,
    /// Times calls, for the log.
    pub clock: Arc<dyn Clock>,
    /// Makes request ids.
    pub ids: Arc<dyn Ids>,
    /// Whether the authority is ending.
    pub stopping: CancellationToken,
}

/// A call that came to no answer of its own.
enum Refused {
    /// By the authority.
    Authority(AuthorityError),
    /// Because of what it is: status, code, what to do.
    Plain(u16, &'static str, String),
}

impl From<AuthorityError> for Refused {
    fn from(error: AuthorityError) -> Self {
        Self::Authority(error)
    }
}

/// A call as it came.
struct Came {
    method: String,
    authority: String,
    path: String,
    query: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Came {
    fn with<T>(&self, this: impl FnOnce(&RequestParts<'_>) -> T) -> T {
        let headers: Vec<(&str, &[u8])> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        this(&RequestParts {
            method: &self.method,
            authority: &self.authority,
            path: &self.path,
            query: self.query.as_deref(),
            headers: &headers,
            body: &self.body,
        })
    }

    fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.and_then(|(_, value)| std::str::from_utf8(value).ok())
    }
}

/// A call whose signature is proven.
struct Proven {
    caller: Caller,
    came: Came,
}

impl AuthorityApi {
    /// Answers one call.
    pub async fn answer(self: Arc<Self>, request: Request<Incoming>, _: SocketAddr) -> Outgoing {
        let started = self.clock.uptime();
        let request_id = request_id(self.ids.as_ref());
        let came = match came(request).await {
            Ok(came) => came,
            // Whoever does not send a whole call cannot be told apart from a stranger.
            Err(refused) => {
                let (status, body, _) = told(Err(refused), &request_id);
                return Some(response(status, body));
            }
        };
        let (method, route) = (came.method.clone(), routes::name(&came.path));
        let signature = came.with(SignedCall::signature_of);
        let mut gateway = None;
        let answered = self.answered(came, &mut gateway).await;
        let (status, body, code) = told(answered, &request_id);
        let took = self.clock.uptime().saturating_sub(started);
        let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        let gateway = gateway.map(|id: GatewayId| id.to_string());
        if code == "ok" {
            tracing::debug!(
                request.id = request_id,
                gateway.id = gateway,
                http.method = method,
                http.route = route,
                took_ms,
                "answered a gateway"
            );
        } else {
            tracing::info!(
                request.id = request_id,
                gateway.id = gateway,
                http.method = method,
                http.route = route,
                http.status = status,
                outcome = code,
                took_ms,
                "answered a gateway"
            );
        }
        let mut response = response(status, body.clone());
        if let (Some(signature), Ok(now)) = (signature, self.authority.time().await) {
            let (digest, signed) = self.key.sign_answer(status, &body, &signature, now);
            for (name, value) in [
                ("content-digest", digest),
                ("signature-input", signed.input),
                ("signature", signed.signature),
            ] {
                if let Ok(value) = HeaderValue::from_str(&value) {
                    response.headers_mut().insert(HeaderName::from_static(name), value);
                }
            }
        }
        Some(response)
    }

    async fn answered(
        &self,
        came: Came,
        gateway: &mut Option<GatewayId>,
    ) -> Result<Vec<u8>, Refused> {
        let ours = came.path.strip_prefix(PREFIX).is_some_and(|rest| rest.starts_with('/'));
        if !ours && came.path.starts_with(ANY_VERSION) {
            return Err(AuthorityError::Gateway(GatewayFault::ProtocolVersion).into());
        }
        let proven = self.proven(came, gateway).await?;
        self.route(&proven).await
    }

    /// Who signed the call, if anybody did whose key is taken.
    async fn proven(
        &self,
        came: Came,
        gateway: &mut Option<GatewayId>,
    ) -> Result<Proven, AuthorityError> {
        let refused = AuthorityError::Gateway;
        let now = self.authority.time().await?;
        let call = came.with(|parts| SignedCall::read(parts, now)).map_err(refused)?;
        let keyid = call.keyid();
        let known = self
            .authority
            .gateway_key(keyid.gateway(), |public_key| keyid.is_of(public_key))
            .await?;
        if !call.is_by(&known.public_key) {
            return Err(refused(GatewayFault::SignatureInvalid));
        }
        *gateway = Some(keyid.gateway().clone());
        let caller = Caller {
            gateway: keyid.gateway().clone(),
            version: known.version,
            nonce: Nonce { keyid: keyid.to_string(), nonce: call.nonce().to_owned() },
        };
        Ok(Proven { caller, came })
    }
}

/// Status, body and what the log calls it.
fn told(answered: Result<Vec<u8>, Refused>, request_id: &str) -> (u16, Vec<u8>, String) {
    let problem = match answered {
        Ok(body) => return (200, body, "ok".to_owned()),
        Err(Refused::Authority(error)) => {
            if let AuthorityError::Broken(detail)
            | AuthorityError::StoreUnavailable(detail)
            | AuthorityError::Unavailable(detail) = &error
            {
                tracing::error!(request.id = request_id, error.detail = detail, "cannot answer");
            }
            ProblemBody::new(&error, request_id)
        }
        Err(Refused::Plain(status, code, detail)) => {
            ProblemBody::plain(status, code, &detail, request_id)
        }
    };
    let body = serde_json::to_vec(&problem).unwrap_or_default();
    (problem.status, body, problem.code)
}

fn response(status: u16, body: Vec<u8>) -> Response<crate::listen::Body> {
    let mut response = Response::new(whole(body));
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.status_mut() = status;
    let media_type =
        if status == StatusCode::OK { "application/json" } else { gate_api::Problem::MEDIA_TYPE };
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Takes the whole call off the wire.
async fn came(request: Request<Incoming>) -> Result<Came, Refused> {
    let (head, body) = request.into_parts();
    let whole = Limited::new(body, BODY_BYTES_MAX).collect();
    let cut = || {
        let detail = "the body did not come whole; send it again".to_owned();
        Refused::Plain(400, "invalid_request", detail)
    };
    let body = match tokio::time::timeout(BODY_TIMEOUT, whole).await {
        Err(_) => return Err(cut()),
        Ok(Ok(whole)) => whole.to_bytes().to_vec(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let detail = format!("a body has at most {BODY_BYTES_MAX} bytes");
            return Err(Refused::Plain(413, "body_too_large", detail));
        }
        Ok(Err(_)) => return Err(cut()),
    };
    let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let authority = head.uri.authority().map(|at| at.as_str()).or(host).unwrap_or_default();
    Ok(Came {
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

fn request_id(ids: &dyn Ids) -> String {
    let mut random = [0_u8; 12];
    ids.fill(&mut random);
    let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("req_{hex}")
}
