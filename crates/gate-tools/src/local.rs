//! The tools of a gateway in this process.

use std::sync::Arc;

use async_trait::async_trait;
use gate_api::{Concern, Problem, SurfaceError, request_id};
use gate_core::{ActionError, AgentKey, Grants, Ids, ToolUse};
use serde_json::Value;

use crate::describe::describe;
use crate::table::{Answered, Call, Looked, Ports, TABLE, Tool};
use crate::toolbox::{Called, NoSuchTool, Progress, Toolbox};

/// The tool of this name.
#[must_use]
pub fn tool(name: &str) -> Option<&'static Tool> {
    TABLE.iter().find(|tool| tool.name == name)
}

/// The table over a gateway's ports.
pub struct LocalTools {
    grants: Arc<dyn Grants>,
    ids: Arc<dyn Ids>,
    ports: Ports,
    table: &'static [Tool],
}

impl LocalTools {
    /// The whole table over `ports`. `ids` names requests that come through MCP.
    #[must_use]
    pub fn new(ports: Ports, grants: Arc<dyn Grants>, ids: Arc<dyn Ids>) -> Self {
        Self { grants, ids, ports, table: TABLE }
    }

    /// The tools of the agent, as they are listed.
    ///
    /// # Errors
    ///
    /// [`SurfaceError`] when the authority cannot say.
    pub async fn listed(&self, key: &AgentKey) -> Result<Vec<Value>, SurfaceError> {
        let granted = self.granted(key, self.table).await?;
        let has = |tool: &&Tool| !tool.granted || granted.iter().any(|name| name == tool.name);
        Ok(self.table.iter().filter(has).map(describe).collect())
    }

    /// What a problem with a call of this tool has to tell of.
    #[must_use]
    pub fn concern(&self, tool: &str) -> Concern {
        self.tool(tool).map_or(Concern::Records, |tool| tool.concern)
    }

    /// Calls a tool with arguments as they came. What a tool read for staff is in the audit log
    /// before it is answered.
    ///
    /// # Errors
    ///
    /// [`SurfaceError`]: of the tool itself, `ToolNotGranted`, or `NotFound` when there is no such
    /// tool.
    pub async fn run(
        &self,
        key: &AgentKey,
        tool: &str,
        arguments: &[u8],
        progress: Option<&Progress<'_>>,
    ) -> Result<Answered, SurfaceError> {
        let tool = self.tool(tool).ok_or(SurfaceError::NotFound)?;
        let granted = self.granted(key, std::slice::from_ref(tool)).await?;
        let not_granted = || SurfaceError::ToolNotGranted { tool: tool.name.to_owned() };
        if tool.granted && !granted.iter().any(|name| name == tool.name) {
            return Err(not_granted());
        }
        let call = Call { key, arguments, progress: progress.unwrap_or(&|_| {}) };
        let answered = (tool.run)(&self.ports, call).await?;
        if let Some(Looked { from, to, rows }) = answered.looked.clone() {
            let used = ToolUse { tool: tool.name.to_owned(), from, to, rows };
            if !self.grants.use_tool(key, &used).await.map_err(ActionError::from)? {
                return Err(not_granted());
            }
        }
        Ok(answered)
    }

    fn tool(&self, name: &str) -> Option<&'static Tool> {
        self.table.iter().find(|tool| tool.name == name)
    }

    /// The granted names, where one of `tools` asks for them.
    async fn granted(&self, key: &AgentKey, tools: &[Tool]) -> Result<Vec<String>, SurfaceError> {
        if !tools.iter().any(|tool| tool.granted) {
            return Ok(Vec::new());
        }
        Ok(self.grants.granted(key).await.map_err(ActionError::from)?)
    }
}

/// The problem that a request through MCP gets; written to the log with its inside.
fn problem(error: SurfaceError, concern: Concern, request_id: &str) -> Value {
    if let SurfaceError::Action(ActionError::AuthorityError { detail }) = &error {
        tracing::error!(request.id = request_id, error.detail = detail, "the authority failed");
    }
    // Our own views always serialise.
    serde_json::to_value(Problem::new(error, concern, request_id)).unwrap_or_default()
}

#[async_trait]
impl Toolbox for LocalTools {
    async fn list(&self, key: &AgentKey) -> Result<Vec<Value>, Value> {
        let listed = self.listed(key).await;
        listed.map_err(|error| problem(error, Concern::Records, &request_id(self.ids.as_ref())))
    }

    async fn call(
        &self,
        key: &AgentKey,
        tool: &str,
        arguments: &[u8],
        progress: Option<&Progress<'_>>,
    ) -> Result<Called, NoSuchTool> {
        let concern = self.tool(tool).ok_or(NoSuchTool)?.concern;
        let request_id = request_id(self.ids.as_ref());
        let (outcome, intent, called) = match self.run(key, tool, arguments, progress).await {
            Ok(answered) => (answered.outcome, answered.intent, Called::Answer(answered.body)),
            Err(error) => {
                let outcome = error.code().as_str();
                (outcome, None, Called::Problem(problem(error, concern, &request_id)))
            }
        };
        tracing::info!(request.id = request_id, tool, outcome, intent.id = intent, "called");
        Ok(called)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{Closed, ports};
    use crate::table::{Hints, Running};
    use serde_json::json;

    fn key(name: &str) -> AgentKey {
        AgentKey::new(format!("bb_agent_{name}"))
    }

    fn own(table: &'static [Tool]) -> LocalTools {
        LocalTools { table, ..LocalTools::new(ports(), Arc::new(Closed), Arc::new(Closed)) }
    }

    const fn tool(name: &'static str, granted: bool) -> Tool {
        Tool {
            name,
            title: "a.tool",
            description: "",
            hints: Hints {
                read_only: true,
                destructive: false,
                idempotent: true,
                open_world: true,
            },
            granted,
            concern: Concern::Records,
            input: || json!({}),
            output: || json!({}),
            run: |_, _| -> Running<'_> {
                Box::pin(async {
                    let body = json!({ "done": true });
                    Ok(Answered {
                        http_status: 200,
                        body,
                        outcome: "ok",
                        intent: None,
                        looked: None,
                    })
                })
            },
        }
    }

    static TWO: [Tool; 2] = [tool("for_all", false), tool("by_grant", true)];

    #[tokio::test]
    async fn a_granted_tool_is_for_those_it_is_granted_to() {
        let tools = own(&TWO);
        #[rustfmt::skip]
        let table = [
            // key       listed                calling both
            ("granted",  "for_all by_grant",   "ok",                     "ok"),
            ("other",    "for_all",            "ok",                     "tool_not_granted"),
            ("unknown",  "authority_unavailable", "ok",                  "authority_unavailable"),
        ];
        for (name, listed, open, granted) in table {
            let found = match tools.listed(&key(name)).await {
                Ok(tools) => {
                    let names = tools.iter().map(|tool| tool["name"].as_str().unwrap());
                    names.collect::<Vec<_>>().join(" ")
                }
                Err(error) => error.code().as_str().to_owned(),
            };
            assert_eq!(found, listed, "{name}");
            for (tool, expected) in [("for_all", open), ("by_grant", granted)] {
                let ran = tools.run(&key(name), tool, b"{}", None).await;
                let word = ran.map_or_else(|e| e.code().as_str(), |answered| answered.outcome);
                assert_eq!(word, expected, "{name} {tool}");
            }
        }
    }

    #[tokio::test]
    async fn problems_say_what_they_must_and_no_more() {
        let tools = own(TABLE);
        #[rustfmt::skip]
        let table = [
            // tool, arguments                                 code                 says that nothing was refunded
            ("stripe_refund", r#"{"target":"ch_1"}"#,          "shutting_down",     true),
            ("stripe_refund", r#"{"target":"ch_1","amount":5}"#, "invalid_request", true),
            ("stripe_refund", r#"{"target":"cus_1"}"#,         "invalid_target",    true),
            ("get_intent",    r#"{"intentId":"int_1"}"#,       "unauthenticated",   false),
            ("get_intent",    r#"{"idempotencyKey":"k"}"#,     "intent_not_found",  false),
            ("get_budget",    "{}",                            "authority_error",   false),
            ("cancel_refund", "{}",                            "invalid_request",   false),
        ];
        for (tool, arguments, code, nothing_refunded) in table {
            let called = tools.call(&key("x"), tool, arguments.as_bytes(), None).await.unwrap();
            let Called::Problem(problem) = called else { panic!("{tool}: {called:?}") };
            let detail = problem["detail"].as_str().unwrap();
            assert_eq!(problem["code"], code, "{tool} {arguments}");
            assert_eq!(detail.contains("Nothing was refunded."), nothing_refunded, "{detail}");
            assert!(!problem.to_string().contains("the disk is gone"), "{problem}");
        }
        let called = tools.call(&key("x"), "list_refunds", b"{}", None).await.unwrap();
        assert!(matches!(called, Called::Answer(body) if body["data"] == json!([])));
        assert!(tools.call(&key("x"), "stripe.refund", b"{}", None).await.is_err());
    }
}
