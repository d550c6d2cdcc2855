//! The API's own description, OpenAPI 3.1: routes from one table, schemas from the wire types.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::approval::ApprovalView;
use crate::ask::RefundRequest;
use crate::budget::BudgetView;
use crate::intent::{AnswerView, IntentView};
use crate::page::PageView;
use crate::problem::{Concern, Problem};
use crate::ready::{HealthView, ReadyView};
use crate::webhook::ReceivedView;

const JSON: &str = "application/json";

/// A tool, as it is described at its own address.
#[derive(Clone, Debug)]
pub struct ToolOperation {
    /// Its name, the last part of the address.
    pub name: &'static str,
    /// Its dotted name.
    pub title: &'static str,
    /// What it does.
    pub description: &'static str,
    /// What a problem with it tells of.
    pub concern: Concern,
    /// The schema of its arguments.
    pub input: Value,
    /// The schema of its answer.
    pub output: Value,
}

/// One operation.
struct Operation {
    method: &'static str,
    path: String,
    id: &'static str,
    summary: &'static str,
    description: &'static str,
    parameters: Vec<Value>,
    body: Option<Value>,
    /// HTTP status, what it means, what the body is.
    answers: Vec<(u16, &'static str, Value)>,
    /// HTTP statuses of the problems it can answer with.
    problems: &'static [u16],
    /// Whether an agent's key is needed.
    keyed: bool,
}

/// The document for the gateway of this `version`, with these tools. The same bytes each time.
#[must_use]
pub fn openapi(version: &str, tools: Vec<ToolOperation>) -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let problem = schema::<Problem>(&mut generator);
    let mut paths = Map::new();
    for operation in operations(&mut generator, tools) {
        let (path, method) = (operation.path.clone(), operation.method.to_owned());
        let item = paths.entry(path).or_insert_with(|| json!({}));
        if let Value::Object(item) = item {
            item.insert(method, operation.document(&problem));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Action gateway",
            "version": version,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
            "description": "Puts an agent's refunds under a spending policy. Times are RFC 3339 in \
                UTC, amounts integers in the currency's minor unit; members that are not known are \
                refused.",
        },
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": {
                "agentKey": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An agent's key, bb_agent_…",
                },
            },
        },
    })
}

fn operations(generator: &mut SchemaGenerator, tools: Vec<ToolOperation>) -> Vec<Operation> {
    let mut operations = refunds(generator);
    operations.extend(records(generator));
    operations.extend(toolbox(tools));
    operations.extend(service(generator));
    operations
}

fn refunds(generator: &mut SchemaGenerator) -> Vec<Operation> {
    let answer = schema::<AnswerView>(generator);
    let intent = schema::<IntentView>(generator);
    vec![
        Operation {
            method: "post",
            path: "/v1/actions/stripe.refund".to_owned(),
            id: "refund",
            summary: "Ask for a refund",
            description: "Makes the refund if the policy allows it, asks a person if the policy \
                says so, or denies it. It never waits for a person. Asking again with the same \
                idempotencyKey never refunds twice; `next` says what to do.",
            parameters: Vec::new(),
            body: Some(schema::<RefundRequest>(generator)),
            answers: vec![
                (
                    200,
                    "The refund was made, was denied, failed, or waits to be asked for again.",
                    answer.clone(),
                ),
                (202, "A person has to decide, or the refund may exist.", answer),
            ],
            problems: &[400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 502, 503],
            keyed: true,
        },
        Operation {
            method: "post",
            path: "/v1/intents/{id}/cancel".to_owned(),
            id: "cancelIntent",
            summary: "Withdraw what is pending or approved",
            description: "After this nothing is refunded under the intent's key.",
            parameters: vec![id_parameter("The intent's id, int_…")],
            body: None,
            answers: vec![(200, "The intent, withdrawn.", intent)],
            problems: &[401, 403, 404, 405, 409, 429, 502, 503],
            keyed: true,
        },
    ]
}

fn records(generator: &mut SchemaGenerator) -> Vec<Operation> {
    let optional = |name: &str, description: &str, schema: Value| json!({ "name": name, "in": "query", "description": description, "schema": schema });
    let wait = optional(
        "wait",
        "Answer as soon as the state changes, and after so many seconds at the latest",
        json!({ "type": "integer", "minimum": 0, "maximum": 60, "default": 0 }),
    );
    let read = |path: &'static str, id, summary, parameters, means, body| Operation {
        method: "get",
        path: path.to_owned(),
        id,
        summary,
        description: "Only this agent's own; another agent's is not found.",
        parameters,
        body: None,
        answers: vec![(200, means, body)],
        problems: if path.ends_with("{id}") {
            &[400, 401, 403, 404, 405, 429, 502, 503]
        } else {
            &[400, 401, 403, 405, 429, 502, 503]
        },
        keyed: true,
    };
    let filters = vec![
        optional("idempotencyKey", "Only the request of this key", json!({ "type": "string" })),
        optional("state", "Only in this state", crate::schema::state(generator).to_value()),
        optional(
            "limit",
            "At most so many",
            json!({ "type": "integer", "minimum": 1, "maximum": 100, "default": 20 }),
        ),
        optional("cursor", "The nextCursor of the page before", json!({ "type": "string" })),
    ];
    vec![
        read(
            "/v1/intents",
            "listIntents",
            "List this agent's intents, newest first",
            filters,
            "A page of intents.",
            schema::<PageView>(generator),
        ),
        read(
            "/v1/intents/{id}",
            "readIntent",
            "Where a refund stands",
            vec![id_parameter("The intent's id, int_…"), wait.clone()],
            "The intent.",
            schema::<IntentView>(generator),
        ),
        read(
            "/v1/approvals/{id}",
            "readApproval",
            "Where an approval stands",
            vec![id_parameter("The approval's id, apr_…"), wait],
            "The approval.",
            schema::<ApprovalView>(generator),
        ),
        read(
            "/v1/budget",
            "readBudget",
            "What this agent may still spend",
            Vec::new(),
            "The limits, and what is left of them.",
            schema::<BudgetView>(generator),
        ),
    ]
}

/// The tools over plain HTTP, and the same over MCP.
fn toolbox(tools: Vec<ToolOperation>) -> Vec<Operation> {
    let list = Operation {
        method: "get",
        path: "/v1/tools".to_owned(),
        id: "listTools",
        summary: "List this agent's tools",
        description: "Each as MCP's tools/list has it: name, description, schemas and hints.",
        parameters: Vec::new(),
        body: None,
        answers: vec![(
            200,
            "The tools.",
            json!({
                "type": "object",
                "properties": { "tools": { "type": "array", "items": { "type": "object" } } },
                "required": ["tools"],
            }),
        )],
        problems: &[401, 403, 405, 429, 502, 503],
        keyed: true,
    };
    let tools = tools.into_iter().map(|tool| {
        let refunds = tool.concern == Concern::Refund;
        let mut answers = vec![(200, "The tool's answer.", tool.output.clone())];
        if refunds {
            answers.push((202, "A person has to decide, or the refund may exist.", tool.output));
        }
        Operation {
            method: "post",
            path: format!("/v1/tools/{}", tool.name),
            id: tool.name,
            summary: tool.title,
            description: tool.description,
            parameters: Vec::new(),
            body: Some(tool.input),
            answers,
            problems: if refunds {
                &[400, 401, 403, 404, 405, 409, 413, 415, 422, 429, 502, 503]
            } else {
                &[400, 401, 403, 404, 405, 409, 413, 415, 429, 502, 503]
            },
            keyed: true,
        }
    });
    let message = json!({ "type": "object", "description": "A message of JSON-RPC 2.0." });
    let mcp = Operation {
        method: "post",
        path: "/mcp".to_owned(),
        id: "mcp",
        summary: "The tools over MCP",
        description: "The Model Context Protocol's streamable HTTP, without sessions, in its \
            revisions 2026-07-28, 2025-11-25 and 2025-06-18. Accept must list application/json \
            and text/event-stream.",
        parameters: Vec::new(),
        body: Some(message.clone()),
        answers: vec![
            (200, "The answer to a request.", message),
            (202, "A notification was taken.", json!({})),
        ],
        problems: &[400, 401, 403, 405, 413, 429, 502, 503],
        keyed: true,
    };
    std::iter::once(list).chain(tools).chain(std::iter::once(mcp)).collect()
}

fn service(generator: &mut SchemaGenerator) -> Vec<Operation> {
    let open = |path: &str, id, summary, description, answers| Operation {
        method: "get",
        path: path.to_owned(),
        id,
        summary,
        description,
        parameters: Vec::new(),
        body: None,
        answers,
        problems: &[],
        keyed: false,
    };
    let ready = schema::<ReadyView>(generator);
    vec![
        webhook(generator),
        open(
            "/healthz",
            "health",
            "Whether the process serves",
            "Touches nothing.",
            vec![(200, "It does.", schema::<HealthView>(generator))],
        ),
        open(
            "/readyz",
            "ready",
            "Whether refunds can be made",
            "What is degraded keeps some requests back, what is failing all of them.",
            vec![
                (200, "Nothing is failing.", ready.clone()),
                (503, "Something is failing.", ready),
            ],
        ),
        open(
            "/openapi.json",
            "openapi",
            "This document",
            "OpenAPI 3.1.",
            vec![(200, "This document.", json!({ "type": "object" }))],
        ),
    ]
}

/// Where Stripe calls.
fn webhook(generator: &mut SchemaGenerator) -> Operation {
    Operation {
        method: "post",
        path: "/webhooks/stripe".to_owned(),
        id: "stripeWebhook",
        summary: "Hear of an event from Stripe",
        description: "For Stripe, which signs what it sends with the endpoint's secret. An event \
            about a refund or a dispute has the charge's refunds read again from Stripe; what the \
            event itself says does not count. Without STRIPE_WEBHOOK_SECRET there is no such route.",
        parameters: vec![json!({
            "name": "Stripe-Signature",
            "in": "header",
            "required": true,
            "description": "t=…,v1=…: the time in seconds, and HMAC-SHA256 over time, point and body",
            "schema": { "type": "string" },
        })],
        body: Some(json!({ "type": "object", "description": "Stripe's event, as it was signed." })),
        answers: vec![(200, "It is genuine.", schema::<ReceivedView>(generator))],
        problems: &[400, 403, 404, 405, 413, 429, 503],
        keyed: false,
    }
}

impl Operation {
    fn document(self, problem: &Value) -> Value {
        let mut responses = Map::new();
        for (status, means, body) in self.answers {
            let content = json!({ JSON: { "schema": body } });
            let response = json!({ "description": means, "content": content });
            responses.insert(status.to_string(), response);
        }
        for status in self.problems {
            let content = json!({ Problem::MEDIA_TYPE: { "schema": problem } });
            let mut response = json!({ "description": means(*status), "content": content });
            if let (Some(name), Value::Object(response)) = (header(*status), &mut response) {
                let header = json!({ name: { "schema": { "type": "string" } } });
                response.insert("headers".to_owned(), header);
            }
            responses.insert(status.to_string(), response);
        }
        let mut document = json!({
            "operationId": self.id,
            "summary": self.summary,
            "description": self.description,
        });
        if let Value::Object(document) = &mut document {
            if !self.parameters.is_empty() {
                document.insert("parameters".to_owned(), Value::Array(self.parameters));
            }
            if let Some(body) = self.body {
                let content = json!({ JSON: { "schema": body } });
                let body = json!({ "required": true, "content": content });
                document.insert("requestBody".to_owned(), body);
            }
            document.insert("responses".to_owned(), Value::Object(responses));
            let keys = if self.keyed { json!([{ "agentKey": [] }]) } else { json!([]) };
            document.insert("security".to_owned(), keys);
        }
        document
    }
}

/// What a problem's HTTP status says.
const fn means(status: u16) -> &'static str {
    match status {
        400 => "The request is not as it must be.",
        401 => "The agent key is not valid.",
        403 => "The call is refused.",
        404 => "There is no such thing, or it is another agent's.",
        405 => "The route takes other methods.",
        409 => "It stands in the way of something else.",
        413 => "The body is too large.",
        415 => "The body is not JSON.",
        422 => "The payment cannot be refunded like this.",
        429 => "There were too many requests.",
        502 => "Stripe or the policy authority gave no usable answer.",
        _ => "The gateway, Stripe or the policy authority cannot work now.",
    }
}

/// The header that goes, or may go, with a problem's HTTP status.
const fn header(status: u16) -> Option<&'static str> {
    match status {
        401 => Some("WWW-Authenticate"),
        405 => Some("Allow"),
        409 | 429 | 503 => Some("Retry-After"),
        _ => None,
    }
}

fn id_parameter(description: &str) -> Value {
    json!({
        "name": "id",
        "in": "path",
        "required": true,
        "description": description,
        "schema": { "type": "string" },
    })
}

fn schema<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One that asks for refunds, and one that does not.
    fn tools() -> Vec<ToolOperation> {
        let tool = |name, concern| ToolOperation {
            name,
            title: "a.tool",
            description: "Does something.",
            concern,
            input: json!({ "type": "object" }),
            output: json!({ "type": "object" }),
        };
        vec![tool("stripe_refund", Concern::Refund), tool("get_budget", Concern::Records)]
    }

    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    if let ("$ref", Value::String(to)) = (key.as_str(), value) {
                        found.push(to.clone());
                    }
                    references(value, found);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| references(item, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn the_routes() {
        let document = openapi("1.2.3", tools());
        let mut found = Vec::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let answers: Vec<&str> = operation["responses"]
                    .as_object()
                    .unwrap()
                    .keys()
                    .map(String::as_str)
                    .collect();
                let keyed = operation["security"] == json!([{ "agentKey": [] }]);
                found.push(format!("{method} {path} {keyed} {}", answers.join(" ")));
            }
        }
        #[rustfmt::skip]
        let table = [
            // method, path, whether a key is needed, HTTP statuses
            "post /v1/actions/stripe.refund true 200 202 400 401 403 404 405 409 413 415 422 429 502 503",
            "post /v1/intents/{id}/cancel true 200 401 403 404 405 409 429 502 503",
            "get /v1/intents true 200 400 401 403 405 429 502 503",
            "get /v1/intents/{id} true 200 400 401 403 404 405 429 502 503",
            "get /v1/approvals/{id} true 200 400 401 403 404 405 429 502 503",
            "get /v1/budget true 200 400 401 403 405 429 502 503",
            "get /v1/tools true 200 401 403 405 429 502 503",
            "post /v1/tools/stripe_refund true 200 202 400 401 403 404 405 409 413 415 422 429 502 503",
            "post /v1/tools/get_budget true 200 400 401 403 404 405 409 413 415 429 502 503",
            "post /mcp true 200 202 400 401 403 405 413 429 502 503",
            "post /webhooks/stripe false 200 400 403 404 405 413 429 503",
            "get /healthz false 200",
            "get /readyz false 200 503",
            "get /openapi.json false 200",
        ];
        assert_eq!(found, table);
        assert_eq!(document["openapi"], "3.1.0");
        assert_eq!(document["info"]["version"], "1.2.3");
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = openapi("1", tools());
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 20, "{found:?}");
        for reference in found {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn the_document_is_the_same_each_time() {
        assert_eq!(openapi("1", tools()).to_string(), openapi("1", tools()).to_string());
    }

    /// What some readers of schemas refuse: `["integer", "null"]` and numbers that are floats.
    #[test]
    fn schemas_are_plain() {
        let text = openapi("1", tools()).to_string();
        for word in ["\"null\"]", "\"number\"", "float", "double"] {
            assert!(!text.contains(word), "{word}");
        }
    }

    #[test]
    fn the_schemas_are_those_of_the_wire() {
        let document = openapi("1", tools());
        let schemas = &document["components"]["schemas"];
        let mut names: Vec<&String> = schemas.as_object().unwrap().keys().collect();
        names.sort();
        assert_eq!(
            names,
            [
                "Amount",
                "Answer",
                "Approval",
                "Budget",
                "BudgetWindow",
                "Check",
                "DryRun",
                "Health",
                "Intent",
                "IntentPage",
                "Problem",
                "Ready",
                "Reason",
                "Received",
                "Refund",
                "RefundRequest",
            ]
        );
        let required = schemas["Intent"]["required"].to_string();
        assert_eq!(
            required,
            concat!(
                r#"["status","state","intentId","idempotencyKey","replayed","livemode","agent","#,
                r#""charge","paymentIntent","amount","refund","reported","reasons","#,
                r#""policyVersion","createdAt","updatedAt","retry","next"]"#
            )
        );
        assert_eq!(schemas["Intent"]["properties"].get("httpStatus"), None);
        assert_eq!(schemas["Problem"]["properties"].get("headers"), None);
        let codes = schemas["Problem"]["properties"]["code"]["enum"].as_array().unwrap();
        assert_eq!(codes.len(), crate::problem_code::ProblemCode::ALL.len());
    }
}
