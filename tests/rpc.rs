//! A client of MCP written by hand: messages, the HTTP door, and the process that speaks on
//! standard input and output. It knows no SDK, so that both ends cannot share a mistake.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::client::{Answer, Call};

/// The door.
pub(crate) const MCP: &str = "/mcp";
/// The revisions that are spoken, oldest first.
pub(crate) const VERSIONS: [&str; 3] = ["2025-06-18", "2025-11-25", "2026-07-28"];

/// A request in JSON-RPC.
pub(crate) fn request(id: u64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// A call of a tool.
pub(crate) fn tool_call(id: u64, tool: &str, arguments: &Value) -> Value {
    request(id, "tools/call", &json!({ "name": tool, "arguments": arguments }))
}

/// What a client of this revision says first.
pub(crate) fn initialize(version: &str) -> Value {
    let client = json!({ "name": "tests", "version": "1" });
    let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client });
    request(0, "initialize", &params)
}

/// A message over HTTP, as SDKs send it.
pub(crate) fn post(message: impl ToString) -> Call {
    Call::post(MCP, message).with("accept", "application/json, text/event-stream")
}

/// What a tool answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Called {
    /// The answer, or the problem.
    pub(crate) body: Value,
    pub(crate) is_error: bool,
}

impl Called {
    /// Reads a response to `tools/call`, and holds its two forms against each other.
    pub(crate) fn of(response: &Value) -> Self {
        let result = &response["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}"));
        let body: Value = serde_json::from_str(text).unwrap_or_else(|_| panic!("{response}"));
        let is_error = result["isError"] == true;
        if is_error {
            assert_eq!(result.get("structuredContent"), None, "{response}");
        } else {
            assert_eq!(result["structuredContent"], body, "{response}");
        }
        Self { body, is_error }
    }

    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    /// `status`, or `error` and the problem's code, in one line for a table.
    pub(crate) fn line(&self) -> String {
        if self.is_error {
            format!("error {}", self.text("/code"))
        } else {
            self.text("/status").to_owned()
        }
    }

    pub(crate) fn replayed(&self) -> bool {
        self.body["replayed"] == true
    }
}

/// Calls a tool over HTTP.
pub(crate) async fn call(at: SocketAddr, key: &str, tool: &str, arguments: &Value) -> Called {
    Called::of(&post(tool_call(1, tool, arguments)).key(key).send(at).await.json)
}

/// A response over HTTP that must be one.
pub(crate) fn result(answer: &Answer) -> &Value {
    assert_eq!(answer.status, 200, "{answer:?}");
    &answer.json["result"]
}

/// The messages of an answer that came as a stream of events.
pub(crate) fn events(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.header("content-type"), "text/event-stream", "{answer:?}");
    let text = String::from_utf8(answer.body.clone()).unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}

/// How far a call was, as its notices told in order, and that they are its own.
pub(crate) fn progress(notices: &[Value], token: &str) -> Vec<u64> {
    let told = |notice: &Value| {
        assert_eq!(notice["method"], "notifications/progress", "{notice}");
        assert_eq!(notice["params"]["progressToken"], token, "{notice}");
        notice["params"]["progress"].as_f64().unwrap() as u64
    };
    notices.iter().map(told).collect()
}

/// `action-gateway mcp`, and its client's end of the pipes.
pub(crate) struct Pipe {
    child: Child,
    /// What it writes for people.
    log: NamedTempFile,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
}

impl Pipe {
    /// Starts it with these variables and no others.
    pub(crate) fn start(variables: &[(&str, &str)]) -> Self {
        let log = NamedTempFile::new().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_gateway-under-test"))
            .arg("mcp")
            .env_clear()
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.reopen().unwrap())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, log, stdin, stdout, next_id: 1 }
    }

    /// Starts it for a gateway, and shakes hands.
    pub(crate) fn of(gateway: SocketAddr, key: &str) -> Self {
        let url = format!("http://{gateway}");
        let mut pipe =
            Self::start(&[("BURNBOUND_GATEWAY_URL", url.as_str()), ("BURNBOUND_KEY", key)]);
        pipe.shake_hands("2025-11-25");
        pipe
    }

    pub(crate) fn shake_hands(&mut self, version: &str) -> Value {
        self.send(&initialize(version));
        let answer = self.receive().unwrap();
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        answer["result"].clone()
    }

    pub(crate) fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    /// The next line, which must be a message; none at the end.
    pub(crate) fn receive(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.stdout.read_line(&mut line).unwrap() {
            0 => None,
            _ => {
                let message: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
                    panic!("not protocol: {line:?}");
                });
                assert_eq!(message["jsonrpc"], "2.0", "{line}");
                Some(message)
            }
        }
    }

    pub(crate) fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&request(id, method, params));
        let answer = self.receive().unwrap();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Called {
        Called::of(&self.ask("tools/call", &json!({ "name": tool, "arguments": arguments })))
    }

    /// The client closes its end.
    pub(crate) fn close(&mut self) {
        self.stdin = None;
    }

    pub(crate) fn terminate(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Waits for the end; the exit code, none after a signal.
    pub(crate) fn end(mut self) -> Option<i32> {
        self.close();
        while self.receive().is_some() {}
        self.child.wait().unwrap().code()
    }

    /// Waits for the end; what it wrote for people.
    pub(crate) fn words(mut self) -> String {
        self.close();
        while self.receive().is_some() {}
        self.child.wait().unwrap();
        std::fs::read_to_string(self.log.path()).unwrap()
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
