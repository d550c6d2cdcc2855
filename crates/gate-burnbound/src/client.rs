//! The client: the core's ports over signed calls.
//!
//! Every call of the ports may be repeated, so one whose answer was lost is sent again within its
//! deadline, signed anew; a decision is the same decision then, by its attempt's id. What is not a
//! verified answer to this very call is no answer.

mod ports;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gate_core::bugs::{self, Bug};
use gate_core::{
    AgentKey, AuthorityError, Channel, Clock, Deadline, GatewayFault, GatewayId, Ids, Timestamp,
};
use gate_http::{HeaderText, Method, Request, Response, Transport, TransportError};
use secrecy::SecretString;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::SignedAnswer;
use crate::call::RequestParts;
use crate::keys::GatewaySecret;
use crate::signature::content_digest;
use crate::wire::{PREFIX, ProblemBody, StatusBody};

/// Most times that one call is sent.
const ATTEMPTS_MAX: u32 = 3;
/// Pause between two of them.
const PAUSE: Duration = Duration::from_millis(150);
/// How long the secret before a changed one is still tried, as long as the authority takes it.
const PREVIOUS_FOR: Duration = Duration::from_secs(24 * 3600);

/// Where the gateway's secret comes from. Asked before each call, so that a changed file is taken up.
pub trait SecretSource: Send + Sync {
    /// The secret as it is now; none when there is no usable one.
    fn secret(&self) -> Option<Arc<GatewaySecret>>;
}

/// Whom the client calls, and as whom.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// Scheme, host and port, without a path.
    pub origin: String,
    /// A path that a proxy takes off on the way, such as `/burnbound`; usually empty. It is not
    /// signed.
    pub stripped: String,
    /// The gateway.
    pub gateway: GatewayId,
    /// How long one call may take, all attempts together; a read that waits, as much longer.
    pub call_timeout: Duration,
}

/// What was seen of the authority lately.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// How far its clock is from ours, by the last answer.
    pub clock_apart: Option<Duration>,
    /// Why it last refused this gateway; none once it takes a call.
    pub refused: Option<GatewayFault>,
}

/// The remote authority.
pub struct RemoteAuthority {
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    settings: ClientSettings,
    secrets: Arc<dyn SecretSource>,
    channel: Box<dyn Fn() -> Option<Channel> + Send + Sync>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    health: Health,
    newest: Option<Arc<GatewaySecret>>,
    /// What was the newest before, and since when it is not.
    previous: Option<(Arc<GatewaySecret>, Timestamp)>,
}

/// One call, unsigned.
struct Call<'a> {
    method: Method,
    /// Behind the protocol's prefix.
    path: String,
    query: Option<String>,
    key: Option<&'a AgentKey>,
    body: Vec<u8>,
    /// Whether a lost answer is asked for again.
    again: bool,
    wait: Duration,
}

/// Why an attempt has no answer.
enum Lost {
    /// There is no secret to sign with, or what is to be signed cannot be.
    Unsigned(&'static str),
    /// The call reached nobody.
    Nowhere(TransportError),
    /// It may have reached somebody.
    Somewhere(String),
}

impl<'a> Call<'a> {
    fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::Get,
            path: path.into(),
            query: None,
            key: None,
            body: Vec::new(),
            again: true,
            wait: Duration::ZERO,
        }
    }

    fn post(path: impl Into<String>, body: &impl Serialize) -> Result<Self, AuthorityError> {
        let body = serde_json::to_vec(body)
            .map_err(|error| AuthorityError::Broken(format!("unwritable call: {error}")))?;
        Ok(Self { method: Method::Post, body, ..Self::get(path) })
    }

    fn by(self, key: &'a AgentKey) -> Self {
        Self { key: Some(key), ..self }
    }
}

impl RemoteAuthority {
    /// A client. `channel` says which Stripe account and mode this gateway works for, once that is
    /// known; until then it claims no work.
    #[must_use]
    pub fn new(
        transport: Arc<dyn Transport>,
        clock: Arc<dyn Clock>,
        ids: Arc<dyn Ids>,
        settings: ClientSettings,
        secrets: Arc<dyn SecretSource>,
        channel: impl Fn() -> Option<Channel> + Send + Sync + 'static,
    ) -> Self {
        let channel = Box::new(channel);
        Self { transport, clock, ids, settings, secrets, channel, known: Mutex::default() }
    }

    /// What was seen of the authority lately.
    #[must_use]
    pub fn health(&self) -> Health {
        self.known().health.clone()
    }

    /// Proves the credential, and compares the clocks.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`].
    pub async fn status(&self) -> Result<StatusBody, AuthorityError> {
        self.call(Call::get("/status")).await
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        // A panic elsewhere leaves whole values.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn call<T: DeserializeOwned>(&self, call: Call<'_>) -> Result<T, AuthorityError> {
        let by = self.clock.deadline(self.settings.call_timeout.saturating_add(call.wait));
        let answered = self.answered(&call, by).await;
        if let Err(error @ (AuthorityError::Unavailable(_) | AuthorityError::Gateway(_))) =
            &answered
        {
            tracing::warn!(authority.call = call.path, error.detail = %error, "no answer from the authority");
        }
        let body = answered?;
        serde_json::from_slice(&body)
            .map_err(|error| AuthorityError::Unavailable(format!("an unreadable answer: {error}")))
    }

    /// The body of a good answer, after as many attempts as it takes and the deadline has room for.
    async fn answered(&self, call: &Call<'_>, by: Deadline) -> Result<Vec<u8>, AuthorityError> {
        let (mut attempt, mut in_doubt) = (1, false);
        loop {
            let lost = match self.attempt(call, by).await {
                Ok(response) => {
                    return match result_of(response) {
                        // That it is not taken now does not say that it was not taken before.
                        Err(error @ AuthorityError::Gateway(_))
                            if in_doubt && !bugs::on(Bug::RefusalAfterDoubtBelieved) =>
                        {
                            Err(AuthorityError::Unavailable(format!(
                                "no answer, and then: {error}"
                            )))
                        }
                        result => result,
                    };
                }
                Err(lost) => lost,
            };
            let (detail, again) = match lost {
                Lost::Unsigned(detail) => (detail.to_owned(), false),
                Lost::Nowhere(error) => (error.to_string(), true),
                Lost::Somewhere(detail) => {
                    in_doubt = true;
                    (detail, call.again)
                }
            };
            let next = self.clock.deadline(PAUSE);
            if !again || attempt >= ATTEMPTS_MAX || next >= by {
                return Err(AuthorityError::Unavailable(detail));
            }
            self.clock.sleep_until(next).await;
            attempt = attempt.saturating_add(1);
        }
    }

    /// One attempt with the newest secret; where the authority does not know that one (it was put
    /// here before it was made there, or is of no use), one with the secret before it.
    async fn attempt(&self, call: &Call<'_>, by: Deadline) -> Result<Response, Lost> {
        let Some((newest, previous)) = self.secrets() else {
            return Err(Lost::Unsigned("there is no usable gateway secret"));
        };
        let response = self.signed_attempt(call, &newest, by).await?;
        let Some(fault) = refused(&response) else {
            self.known().health.refused = None;
            return Ok(response);
        };
        let stranger = matches!(fault, GatewayFault::Unknown | GatewayFault::Revoked);
        let previous = previous.filter(|_| !bugs::on(Bug::PreviousSecretNotTried));
        if let (true, Some(previous)) = (stranger, previous) {
            let response = self.signed_attempt(call, &previous, by).await?;
            self.known().health.refused = refused(&response);
            return Ok(response);
        }
        self.known().health.refused = Some(fault);
        Ok(response)
    }

    /// The secret as it is now, and the one before it while that may still be taken.
    fn secrets(&self) -> Option<(Arc<GatewaySecret>, Option<Arc<GatewaySecret>>)> {
        let current = self.secrets.secret();
        let now = self.clock.now();
        let mut known = self.known();
        if let Some(current) = current
            && known.newest.as_ref() != Some(&current)
        {
            let before = known.newest.replace(current);
            known.previous = before.map(|before| (before, now));
        }
        let previous = known.previous.as_ref();
        let previous = previous.filter(|(_, since)| now.since(*since) < PREVIOUS_FOR);
        let previous = previous.map(|(secret, _)| Arc::clone(secret));
        known.newest.clone().map(|newest| (newest, previous))
    }

    async fn signed_attempt(
        &self,
        call: &Call<'_>,
        secret: &GatewaySecret,
        by: Deadline,
    ) -> Result<Response, Lost> {
        let (request, signature) = self.signed(call, secret)?;
        let response = match self.transport.send(request, by).await {
            Ok(response) => response,
            Err(error @ TransportError::NotSent { .. }) => return Err(Lost::Nowhere(error)),
            Err(error) => return Err(Lost::Somewhere(error.to_string())),
        };
        let headers: Vec<(&str, &[u8])> = response
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()))
            .collect();
        let authority = secret.authority();
        let read =
            SignedAnswer::read(authority, &signature, response.status, &headers, &response.body);
        if read.is_none() && bugs::on(Bug::UnsignedAnswerTaken) {
            return Ok(response);
        }
        let Some(SignedAnswer { at }) = read else {
            let status = response.status;
            let detail = format!("an answer with status {status} that the authority did not sign");
            return Err(Lost::Somewhere(detail));
        };
        // Somebody brought a copy of this very call first, and its answer went elsewhere.
        if refused(&response) == Some(GatewayFault::NonceReused)
            && !bugs::on(Bug::ReusedNonceIsRefusal)
        {
            return Err(Lost::Somewhere("the call came twice".to_owned()));
        }
        let now = self.clock.now();
        // Signed to the second: up to one of them is rounding.
        let apart = now.since(at).max(at.since(now)).saturating_sub(Duration::from_secs(1));
        self.known().health.clock_apart = Some(apart);
        Ok(response)
    }

    fn signed(&self, call: &Call<'_>, secret: &GatewaySecret) -> Result<(Request, Vec<u8>), Lost> {
        let mut headers: Vec<(&'static str, HeaderText)> = Vec::new();
        if !call.body.is_empty() {
            headers.push(("content-type", "application/json".into()));
            headers.push(("content-digest", HeaderText::Plain(content_digest(&call.body))));
        }
        if let Some(key) = call.key {
            let bearer = SecretString::from(format!("Bearer {}", key.expose()));
            headers.push(("authorization", HeaderText::Secret(bearer)));
        }
        let path = format!("{PREFIX}{}", call.path);
        let mut nonce = [0; 16];
        self.ids.fill(&mut nonce);
        let plain: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (*name, value.expose().as_bytes())).collect();
        let parts = RequestParts {
            method: match call.method {
                Method::Get => "GET",
                Method::Post => "POST",
            },
            authority: &authority_of(&self.settings.origin),
            path: &path,
            query: call.query.as_deref(),
            headers: &plain,
            body: &call.body,
        };
        let signed = secret
            .sign_call(&self.settings.gateway, &parts, self.clock.now(), nonce)
            .ok_or(Lost::Unsigned("the agent's key cannot stand in a header"))?;
        headers.push(("signature-input", HeaderText::Plain(signed.input)));
        headers.push(("signature", HeaderText::Plain(signed.signature)));
        let query = call.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
        let ClientSettings { origin, stripped, .. } = &self.settings;
        let url = format!("{origin}{stripped}{path}{query}");
        let request = Request { method: call.method, url, headers, body: call.body.clone() };
        Ok((request, signed.bytes))
    }
}

/// What the Host header of requests to `origin` says: host and port, the scheme's own left out.
fn authority_of(origin: &str) -> String {
    let (scheme, host) = origin.split_once("://").unwrap_or(("", origin));
    let own_port = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    host.strip_suffix(own_port).unwrap_or(host).to_ascii_lowercase()
}

fn problem(response: &Response) -> Option<ProblemBody> {
    serde_json::from_slice(&response.body).ok()
}

/// Why the authority refuses this gateway, if that is its answer.
fn refused(response: &Response) -> Option<GatewayFault> {
    if !matches!(response.status, 401 | 426) {
        return None;
    }
    GatewayFault::parse(&problem(response)?.code)
}

fn result_of(response: Response) -> Result<Vec<u8>, AuthorityError> {
    if response.status == 200 {
        return Ok(response.body);
    }
    match problem(&response) {
        Some(problem) => Err(problem.error()),
        None => {
            let status = response.status;
            Err(AuthorityError::Broken(format!("it answered with status {status}")))
        }
    }
}
