//! The authority as it is served to gateways: each call verified, admitted and routed, each answer
//! signed.
//!
//! [`Served`] takes a whole call and gives a whole answer, both as bytes; sockets, limits and
//! time-outs are whoever's that brings the calls, and so is the end of a wait. Promised is: a call
//! whose signature is not that of a gateway's key reads and changes nothing, and what a call changes
//! is written together with its nonce, and so once.

mod call;
mod routes;

use std::pin::Pin;
use std::sync::Arc;

use gate_authority::{Caller, LocalAuthority};
use gate_burnbound::wire::{PREFIX, ProblemBody};
use gate_burnbound::{AuthorityKey, SignedCall};
use gate_core::{AuthorityError, Clock, GatewayFault, GatewayId, Ids};
use gate_store::Nonce;

pub use call::{Answer, Call};

/// What paths of every version of the protocol start with.
const ANY_VERSION: &str = "/authority/";

/// Completes when the authority ends: whoever waits for a change is answered as things are then.
pub type Ending<'a> = Pin<&'a mut (dyn Future<Output = ()> + Send)>;

/// What every call is served with.
pub struct Served {
    /// Who decides.
    pub authority: Arc<LocalAuthority>,
    /// What answers are signed with.
    pub key: AuthorityKey,
    /// Times calls, for the log.
    pub clock: Arc<dyn Clock>,
    /// Makes request ids.
    pub ids: Arc<dyn Ids>,
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

/// A call whose signature is proven.
struct Proven {
    caller: Caller,
    call: Call,
}

impl Served {
    /// Answers one call. `ending` ends its wait, if it has one.
    pub async fn answer(&self, call: Call, ending: Ending<'_>) -> Answer {
        let started = self.clock.uptime();
        let request_id = self.request_id();
        let (method, route) = (call.method.clone(), routes::name(&call.path));
        let signature = call.with(SignedCall::signature_of);
        let mut gateway = None;
        let answered = self.answered(call, ending, &mut gateway).await;
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
        let mut answer = Answer::unsigned(status, body);
        if let (Some(signature), Ok(now)) = (signature, self.authority.time().await) {
            let (digest, signed) = self.key.sign_answer(status, &answer.body, &signature, now);
            answer.headers.extend([
                ("content-digest", digest),
                ("signature-input", signed.input),
                ("signature", signed.signature),
            ]);
        }
        answer
    }

    /// The answer to a call that did not come whole: nobody signed it, so nobody is answered by a
    /// signature.
    #[must_use]
    pub fn refused(&self, status: u16, code: &'static str, detail: String) -> Answer {
        let refused = Refused::Plain(status, code, detail);
        let (status, body, _) = told(Err(refused), &self.request_id());
        Answer::unsigned(status, body)
    }

    async fn answered(
        &self,
        call: Call,
        ending: Ending<'_>,
        gateway: &mut Option<GatewayId>,
    ) -> Result<Vec<u8>, Refused> {
        let ours = call.path.strip_prefix(PREFIX).is_some_and(|rest| rest.starts_with('/'));
        if !ours && call.path.starts_with(ANY_VERSION) {
            return Err(AuthorityError::Gateway(GatewayFault::ProtocolVersion).into());
        }
        let proven = self.proven(call, gateway).await?;
        self.route(&proven, ending).await
    }

    /// Who signed the call, if anybody did whose key is taken.
    async fn proven(
        &self,
        call: Call,
        gateway: &mut Option<GatewayId>,
    ) -> Result<Proven, AuthorityError> {
        let refused = AuthorityError::Gateway;
        let now = self.authority.time().await?;
        let signed = call.with(|parts| SignedCall::read(parts, now)).map_err(refused)?;
        let keyid = signed.keyid();
        let known = self
            .authority
            .gateway_key(keyid.gateway(), |public_key| keyid.is_of(public_key))
            .await?;
        if !signed.is_by(&known.public_key) {
            return Err(refused(GatewayFault::SignatureInvalid));
        }
        *gateway = Some(keyid.gateway().clone());
        let caller = Caller {
            gateway: keyid.gateway().clone(),
            version: known.version,
            nonce: Nonce { keyid: keyid.to_string(), nonce: signed.nonce().to_owned() },
        };
        Ok(Proven { caller, call })
    }

    fn request_id(&self) -> String {
        let mut random = [0_u8; 12];
        self.ids.fill(&mut random);
        let hex: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("req_{hex}")
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
