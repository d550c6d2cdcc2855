//! `action-gateway mcp`: one MCP client on standard input and output, and a gateway elsewhere that
//! does the work. No money is moved and nothing kept here: a call is one request to the gateway,
//! which goes on with it whatever becomes of this process.

mod telling;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use gate_api::{Concern, Problem, SurfaceError, request_id};
use gate_core::{AgentKey, Clock, Ids};
use gate_http::{HeaderText, HyperTransport, Method, Request, Transport, TransportError};
use gate_tools::{Called, NoSuchTool, Progress, Toolbox, own_tools, serve_stdio, tool};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use self::telling::Listening;
use crate::cli::{Failed, faults};
use crate::config::{ClientConfig, Lookup, load_client};
use crate::system::{SystemClock, SystemIds};

/// How long the gateway may take for a call. Its own work on a refund ends well before; past this
/// the answer counts as lost, which never means that nothing was refunded.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// How long it may take to list the tools.
const LIST_TIMEOUT: Duration = Duration::from_secs(10);

/// Serves the client until it closes its end and its calls are answered.
pub(crate) async fn run(lookup: &dyn Lookup) -> Result<(), Failed> {
    let config = load_client(lookup).map_err(|found| faults(&found))?;
    let key = config.key.map(|key| key.current(lookup)).transpose();
    let key = key.map_err(|fault| faults(&[fault]))?;
    let key = key.map(|key| AgentKey::new(key.expose_secret().to_owned()));
    let ids: Arc<dyn Ids> = Arc::new(SystemIds::default());
    let toolbox: Arc<dyn Toolbox> = match (config.gateway, &key) {
        (Some(gateway), Some(_)) => {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
            let transport = Arc::new(HyperTransport::new(Arc::clone(&clock)));
            Arc::new(Forwarding { gateway: gateway.to_string(), transport, clock, ids })
        }
        (None, _) => Arc::new(Unconnected { variable: ClientConfig::VARIABLES.0, ids }),
        (Some(_), None) => Arc::new(Unconnected { variable: ClientConfig::VARIABLES.1, ids }),
    };
    let key = key.unwrap_or_else(|| AgentKey::new(String::new()));
    let served = serve_stdio(toolbox, key, env!("CARGO_PKG_VERSION")).await;
    served.map_err(|error| Failed::Work(format!("the client could not be served: {error}")))
}

/// The problem of a call that no gateway answered.
fn problem(tool_name: &str, error: SurfaceError, ids: &dyn Ids) -> Called {
    // Of a tool that only the gateway knows, the worst is thought.
    let concern = tool(tool_name).map_or(Concern::Refund, |tool| tool.concern);
    let problem = Problem::new(error, concern, &request_id(ids));
    // Our own views always serialise.
    Called::Problem(serde_json::to_value(problem).unwrap_or_default())
}

/// No gateway, or no key for it: each tool says so.
struct Unconnected {
    variable: &'static str,
    ids: Arc<dyn Ids>,
}

#[async_trait]
impl Toolbox for Unconnected {
    async fn list(&self, _: &AgentKey) -> Result<Vec<Value>, Value> {
        Ok(own_tools())
    }

    async fn call(
        &self,
        _: &AgentKey,
        name: &str,
        _: &[u8],
        _: Option<&Progress<'_>>,
    ) -> Result<Called, NoSuchTool> {
        tool(name).ok_or(NoSuchTool)?;
        let error = SurfaceError::GatewayNotConfigured { variable: self.variable };
        Ok(problem(name, error, self.ids.as_ref()))
    }
}

/// A gateway at an address.
struct Forwarding {
    gateway: String,
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl Forwarding {
    fn request(&self, key: &AgentKey, method: Method, path: &str, body: &[u8]) -> Request {
        let bearer = SecretString::from(format!("Bearer {}", key.expose()));
        Request {
            method,
            url: format!("{}{path}", self.gateway),
            headers: vec![
                ("accept", "application/json, text/event-stream".into()),
                ("authorization", HeaderText::Secret(bearer)),
                ("content-type", "application/json".into()),
            ],
            body: body.to_vec(),
        }
    }

    /// A call that tells how far it is.
    async fn telling(
        &self,
        key: &AgentKey,
        name: &str,
        arguments: &[u8],
        progress: &Progress<'_>,
    ) -> Result<Called, NoSuchTool> {
        let message = telling::message(name, arguments);
        let request = self.request(key, Method::Post, "/mcp", &message);
        let listening = Listening::new(progress);
        let by = self.clock.deadline(CALL_TIMEOUT);
        let hear = |piece: &[u8]| listening.hear(piece);
        match self.transport.send_seen(request, by, &hear).await {
            Ok(answer) => telling::outcome(&answer).unwrap_or_else(|| Ok(self.lost(name))),
            Err(error) => Ok(self.unanswered(name, &error)),
        }
    }

    fn lost(&self, name: &str) -> Called {
        problem(name, SurfaceError::GatewayAnswerLost, self.ids.as_ref())
    }

    fn unanswered(&self, name: &str, error: &TransportError) -> Called {
        match error {
            TransportError::NotSent { .. } => {
                problem(name, SurfaceError::GatewayUnavailable, self.ids.as_ref())
            }
            TransportError::Broken { .. }
            | TransportError::TimedOut
            | TransportError::TooLarge { .. } => self.lost(name),
        }
    }
}

#[async_trait]
impl Toolbox for Forwarding {
    /// As the gateway lists them; while it does not, those that every agent has, so that a client
    /// which starts first has tools that can say what is wrong.
    async fn list(&self, key: &AgentKey) -> Result<Vec<Value>, Value> {
        let request = self.request(key, Method::Get, "/v1/tools", b"");
        let sent = self.transport.send(request, self.clock.deadline(LIST_TIMEOUT)).await;
        let listed = sent.ok().filter(|answer| answer.status == 200).and_then(|answer| {
            let body: Value = serde_json::from_slice(&answer.body).ok()?;
            body.get("tools")?.as_array().cloned()
        });
        Ok(listed.unwrap_or_else(own_tools))
    }

    async fn call(
        &self,
        key: &AgentKey,
        name: &str,
        arguments: &[u8],
        progress: Option<&Progress<'_>>,
    ) -> Result<Called, NoSuchTool> {
        // The name becomes part of an address.
        let plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
        if name.is_empty() || !name.bytes().all(plain) {
            return Err(NoSuchTool);
        }
        // What moves money takes the way on which every problem says whether any was moved.
        let reads = tool(name).is_some_and(|tool| tool.hints.read_only);
        if let Some(progress) = progress.filter(|_| reads) {
            return self.telling(key, name, arguments, progress).await;
        }
        let request = self.request(key, Method::Post, &format!("/v1/tools/{name}"), arguments);
        let answer = match self.transport.send(request, self.clock.deadline(CALL_TIMEOUT)).await {
            Ok(answer) => answer,
            Err(error) => return Ok(self.unanswered(name, &error)),
        };
        let Ok(body @ Value::Object(_)) = serde_json::from_slice(&answer.body) else {
            // Whoever said this, such as a proxy on the way, it was not the gateway.
            return Ok(self.lost(name));
        };
        match (answer.status, body.get("code").and_then(Value::as_str)) {
            (200..=299, _) => Ok(Called::Answer(body)),
            (_, Some("not_found")) => Err(NoSuchTool),
            (_, Some(_)) => Ok(Called::Problem(body)),
            (_, None) => Ok(self.lost(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use gate_core::Deadline;
    use gate_http::Response;
    use serde_json::json;

    use super::*;

    /// A way to the gateway on which this happens.
    struct Way(Result<(u16, &'static str), TransportError>);

    #[async_trait]
    impl Transport for Way {
        async fn send(&self, request: Request, _: Deadline) -> Result<Response, TransportError> {
            let key = request.header("authorization").unwrap();
            assert!(key.is_secret() && key.expose() == "Bearer bb_agent_1", "{request:?}");
            assert!(request.url.starts_with("https://gate.example.com/v1/tools"));
            let (status, body) = self.0.clone()?;
            Ok(Response { status, body: body.as_bytes().to_vec(), ..Response::default() })
        }
    }

    fn forwarding(way: Way) -> (Forwarding, AgentKey) {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let ids: Arc<dyn Ids> = Arc::new(SystemIds::default());
        let gateway = "https://gate.example.com".to_owned();
        let key = AgentKey::new("bb_agent_1".to_owned());
        (Forwarding { gateway, transport: Arc::new(way), clock, ids }, key)
    }

    fn broken() -> TransportError {
        TransportError::Broken { detail: "reset".to_owned() }
    }

    #[tokio::test]
    async fn what_a_call_comes_to() {
        let not_sent = || TransportError::NotSent { detail: "refused".to_owned() };
        let nothing = "Nothing was refunded.";
        let perhaps = "The refund may have been made;";
        #[rustfmt::skip]
        let table = [
            // what came back                                  code                    says
            (Ok((200, r#"{"status":"refunded"}"#)),            "answer",               ""),
            (Ok((202, r#"{"status":"in_progress"}"#)),         "answer",               ""),
            (Ok((400, r#"{"code":"invalid_amount"}"#)),        "invalid_amount",       ""),
            (Ok((404, r#"{"code":"charge_not_found"}"#)),      "charge_not_found",     ""),
            (Ok((404, r#"{"code":"not_found"}"#)),             "no such tool",         ""),
            (Ok((200, "<html>")),                              "gateway_answer_lost",  perhaps),
            (Ok((200, "[]")),                                  "gateway_answer_lost",  perhaps),
            (Ok((502, "bad gateway")),                         "gateway_answer_lost",  perhaps),
            (Ok((500, r#"{"error":"proxy"}"#)),                "gateway_answer_lost",  perhaps),
            (Err(broken()),                                    "gateway_answer_lost",  perhaps),
            (Err(TransportError::TimedOut),                    "gateway_answer_lost",  perhaps),
            (Err(TransportError::TooLarge { limit_bytes: 1 }), "gateway_answer_lost",  perhaps),
            (Err(not_sent()),                                  "gateway_unavailable",  nothing),
        ];
        for (back, code, says) in table {
            let told = format!("{back:?}");
            let (forwarding, key) = forwarding(Way(back));
            let found = match forwarding.call(&key, "stripe_refund", b"{}", None).await {
                Ok(Called::Answer(_)) => ("answer".to_owned(), String::new()),
                Ok(Called::Problem(problem)) => {
                    let text = |name: &str| problem[name].as_str().unwrap_or_default().to_owned();
                    (text("code"), text("detail"))
                }
                Err(NoSuchTool) => ("no such tool".to_owned(), String::new()),
            };
            assert_eq!(found.0, code, "{told}");
            assert!(found.1.contains(says), "{told}: {}", found.1);
        }
    }

    #[tokio::test]
    async fn a_name_is_not_a_way_to_other_addresses() {
        for name in ["", "../actions/stripe.refund", "a/b", "a?b", "a%2fb", "Stripe_refund"] {
            let (forwarding, key) = forwarding(Way(Ok((200, "{}"))));
            assert!(forwarding.call(&key, name, b"{}", None).await.is_err(), "{name}");
        }
    }

    #[tokio::test]
    async fn tools_are_those_of_the_gateway_and_its_own_without_it() {
        let one = r#"{"tools":[{"name":"finance_balance"}]}"#;
        let table = [
            (Ok((200, one)), vec![json!({ "name": "finance_balance" })]),
            (Ok((401, "{}")), own_tools()),
            (Ok((200, "{}")), own_tools()),
            (Err(broken()), own_tools()),
        ];
        for (back, expected) in table {
            let (forwarding, key) = forwarding(Way(back));
            assert_eq!(forwarding.list(&key).await.unwrap(), expected);
        }
    }
}
