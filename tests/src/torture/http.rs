//! One request, one connection, and the answer or none: a killed gateway leaves broken connections
//! and half answers, and neither may be taken for an answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longest wait for an answer; a gateway keeps nobody waiting longer than this is asked for here.
const ANSWER_SECS_MAX: u64 = 30;

/// What came back, whole.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) json: Value,
}

impl Answer {
    /// The text at a JSON pointer; empty when there is none.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        text(&self.json, pointer)
    }
}

/// The text at a JSON pointer; empty when there is none.
pub(crate) fn text<'a>(json: &'a Value, pointer: &str) -> &'a str {
    json.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn read(at: SocketAddr, path: &str, key: &str) -> Option<Answer> {
    call(at, "GET", path, key, None)
}

pub(crate) fn post(at: SocketAddr, path: &str, key: &str, body: &Value) -> Option<Answer> {
    call(at, "POST", path, key, Some(body))
}

/// One request; none when no whole answer in JSON came.
pub(crate) fn call(
    at: SocketAddr,
    method: &str,
    path: &str,
    key: &str,
    body: Option<&Value>,
) -> Option<Answer> {
    let patience = Some(Duration::from_secs(ANSWER_SECS_MAX));
    let mut stream = TcpStream::connect(at).ok()?;
    stream.set_read_timeout(patience).ok()?;
    stream.set_write_timeout(patience).ok()?;
    let body = body.map(Value::to_string).unwrap_or_default();
    // HTTP/1.0, so that the answer comes in one piece and ends with the connection.
    let request = format!(
        "{method} {path} HTTP/1.0\r\nhost: {at}\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).ok()?;
    let answer = String::from_utf8(bytes).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(Answer { status, json: serde_json::from_str(body).ok()? })
}
