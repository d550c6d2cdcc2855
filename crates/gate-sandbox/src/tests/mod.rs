//! The sandbox through its one door: tables of requests and answers.

mod access;
mod control;
mod events;
mod faults;
mod holds;
mod idempotency;
mod laws;
mod lists;
mod payments;
mod refunds;
mod search;
mod seed;
mod webhooks;

use serde_json::Value;

use crate::{Delivery, Reply, Request, Sandbox};

/// Friday 30 October 2026, noon, in milliseconds.
const NOON_MS: i64 = 1_793_361_600_000;

/// A sandbox and the time of day.
struct Rig {
    sandbox: Sandbox,
    now_ms: i64,
}

/// An answer, parsed.
struct Answered {
    status: u16,
    body: Value,
    reply: Reply,
}

impl Rig {
    fn new() -> Self {
        Self { sandbox: Sandbox::new(7), now_ms: NOON_MS }
    }

    /// Sends a request written as `METHOD PATH[?QUERY] [BODY] [Header:value …]`, with a full key
    /// unless a header says otherwise.
    fn send(&mut self, line: &str) -> Answered {
        let reply = self.sandbox.handle(self.now_ms, &request(line));
        let body = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
        Answered { status: reply.status, body, reply }
    }

    /// Sends a request that must succeed, and answers its body.
    fn ok(&mut self, line: &str) -> Value {
        let answered = self.send(line);
        assert_eq!(answered.status, 200, "{line}: {}", answered.body);
        answered.body
    }

    /// Sends a control request with a JSON body that may contain spaces.
    fn order(&mut self, path: &str, body: &str) -> Answered {
        let mut request = request(&format!("POST /_sandbox/{path}"));
        request.body = body.as_bytes().to_vec();
        let reply = self.sandbox.handle(self.now_ms, &request);
        let body = serde_json::from_slice(&reply.body).unwrap_or(Value::Null);
        Answered { status: reply.status, body, reply }
    }

    /// Makes a charge over the control API.
    fn charge(&mut self, fields: &str) -> Value {
        let answered = self.order("charges", fields);
        assert_eq!(answered.status, 200, "{fields}: {}", answered.body);
        answered.body
    }

    fn later(&mut self, secs: i64) {
        self.ok(&format!("POST /_sandbox/clock {{\"advanceSeconds\":{secs}}}"));
    }

    /// Sends each row's request and compares status, code (`-` for none) and a part of the text.
    fn check(&mut self, rows: &[(&str, u16, &str, &str)]) {
        for (line, status, code, text) in rows {
            let answered = self.send(line);
            let shown = format!("{line}: {}", answered.body);
            assert_eq!(answered.status, *status, "{shown}");
            assert_eq!(answered.code(), *code, "{shown}");
            assert!(answered.body.to_string().contains(text), "{shown}");
        }
    }
}

impl Answered {
    fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or("-")
    }

    fn header(&self, name: &str) -> &str {
        let found = self.reply.headers.iter().find(|(held, _)| held == name);
        found.map_or("-", |(_, value)| value)
    }
}

fn request(line: &str) -> Request {
    let mut words = line.split_whitespace();
    let method = words.next().unwrap().to_owned();
    let target = words.next().unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut request = Request {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        headers: Vec::new(),
        body: Vec::new(),
    };
    for word in words {
        match word.split_once(':') {
            Some((name, value)) if name.starts_with(|first: char| first.is_ascii_uppercase()) => {
                let value = value.replace('+', " ");
                request.headers.push((name.to_owned(), value));
            }
            _ => request.body = word.as_bytes().to_vec(),
        }
    }
    if request.header("authorization").is_none() {
        request.headers.push(("Authorization".to_owned(), "Bearer sk_test_full".to_owned()));
    }
    request
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or("-")
}
