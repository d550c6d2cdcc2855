//! A call through the gateway's own MCP door, which tells how far it is before it answers. The plain
//! door, which every other call takes, answers in one piece.

use std::sync::{Mutex, PoisonError};

use gate_http::Response;
use gate_tools::{Called, NoSuchTool, Progress};
use serde_json::{Value, json};

/// What the one call is called on the way, and its progress too.
const ID: u32 = 1;
/// JSON-RPC: there is no such tool.
const INVALID_PARAMS: i64 = -32_602;

/// The call as a message, with arguments that are an object as JSON.
pub(super) fn message(tool: &str, arguments: &[u8]) -> Vec<u8> {
    let arguments = String::from_utf8_lossy(arguments);
    let (name, meta) = (json!(tool), json!({ "progressToken": ID }));
    let params = format!(r#"{{"name":{name},"arguments":{arguments},"_meta":{meta}}}"#);
    let message =
        format!(r#"{{"jsonrpc":"2.0","id":{ID},"method":"tools/call","params":{params}}}"#);
    message.into_bytes()
}

/// Reads notices of progress out of an answer while it comes.
pub(super) struct Listening<'a> {
    progress: &'a Progress<'a>,
    /// The line that is not whole yet. Bounded by what is read of an answer.
    line: Mutex<Vec<u8>>,
}

impl<'a> Listening<'a> {
    pub(super) fn new(progress: &'a Progress<'a>) -> Self {
        Self { progress, line: Mutex::default() }
    }

    pub(super) fn hear(&self, piece: &[u8]) {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        for byte in piece {
            if *byte != b'\n' {
                line.push(*byte);
                continue;
            }
            let done = event(&line).and_then(|notice| done(&notice));
            line.clear();
            if let Some(done) = done {
                (self.progress)(done);
            }
        }
    }
}

/// What the gateway's answer came to; none when it is no answer of a gateway's.
pub(super) fn outcome(response: &Response) -> Option<Result<Called, NoSuchTool>> {
    let whole = serde_json::from_slice(&response.body).ok();
    let mut events = response.body.split(|byte| *byte == b'\n').filter_map(event);
    let message = whole.or_else(|| events.find(|event| event.get("id").is_some()))?;
    if response.status != 200 {
        return message.get("code").is_some().then_some(Ok(Called::Problem(message)));
    }
    if let Some(error) = message.get("error") {
        let unknown = error.get("code").and_then(Value::as_i64) == Some(INVALID_PARAMS);
        return unknown.then_some(Err(NoSuchTool));
    }
    let result = message.get("result")?;
    if result.get("isError").and_then(Value::as_bool) == Some(true) {
        let text = result.pointer("/content/0/text")?.as_str()?;
        return Some(Ok(Called::Problem(serde_json::from_str(text).ok()?)));
    }
    let answer = result.get("structuredContent")?;
    answer.is_object().then(|| Ok(Called::Answer(answer.clone())))
}

/// The message in a line of an event stream.
fn event(line: &[u8]) -> Option<Value> {
    serde_json::from_slice(line.strip_prefix(b"data:")?).ok()
}

fn done(notice: &Value) -> Option<u32> {
    // The gateway counts in whole steps, and the SDK writes them as floats.
    let progress = notice.pointer("/params/progress")?.to_string();
    progress.trim_end_matches(".0").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(status: u16, body: &str) -> Response {
        Response { status, body: body.as_bytes().to_vec(), ..Response::default() }
    }

    #[test]
    fn what_an_answer_comes_to() {
        #[rustfmt::skip]
        let table = [
            // status, body                                                                      comes to
            (200, r#"{"id":1,"result":{"structuredContent":{"a":1},"content":[]}}"#,             r#"answer {"a":1}"#),
            (200, "data: {\"params\":{\"progress\":1.0}}\n\ndata: {\"id\":1,\"result\":{\"structuredContent\":{}}}\n\n", "answer {}"),
            (200, "retry: 3000\n\ndata:\n\ndata: {\"id\":1,\"result\":{\"isError\":true,\"content\":[{\"text\":\"{\\\"code\\\":\\\"x\\\"}\"}]}}\n", r#"problem {"code":"x"}"#),
            (200, r#"{"id":1,"error":{"code":-32602,"message":"no tool"}}"#,                     "no such tool"),
            (401, r#"{"code":"unauthenticated"}"#,                                               r#"problem {"code":"unauthenticated"}"#),
            (200, r#"{"id":1,"error":{"code":-32603,"message":"broken"}}"#,                      "lost"),
            (200, r#"{"id":1,"result":{"structuredContent":[]}}"#,                               "lost"),
            (200, "data: {\"params\":{\"progress\":1.0}}\n\n",                                   "lost"),
            (502, "bad gateway",                                                                 "lost"),
            (502, r#"{"error":"proxy"}"#,                                                        "lost"),
        ];
        for (status, body, expected) in table {
            let found = match outcome(&response(status, body)) {
                Some(Ok(Called::Answer(answer))) => format!("answer {answer}"),
                Some(Ok(Called::Problem(problem))) => format!("problem {problem}"),
                Some(Err(NoSuchTool)) => "no such tool".to_owned(),
                None => "lost".to_owned(),
            };
            assert_eq!(found, expected, "{status} {body}");
        }
    }

    #[test]
    fn progress_is_heard_however_it_is_cut() {
        let stream = "id: 0\ndata: {\"method\":\"notifications/progress\",\"params\":{\"progress\":1.0}}\n\n\
                      data: {\"params\":{\"progress\":12}}\r\n\ndata: {\"id\":1,\"result\":{}}\n\n";
        for size in [1, 7, stream.len()] {
            let heard = Mutex::new(Vec::new());
            let progress = |done| heard.lock().unwrap().push(done);
            let listening = Listening::new(&progress);
            stream.as_bytes().chunks(size).for_each(|piece| listening.hear(piece));
            assert_eq!(*heard.lock().unwrap(), [1, 12], "in pieces of {size}");
        }
    }

    #[test]
    fn arguments_go_out_as_they_came() {
        let sent = String::from_utf8(message("a_tool", br#"{"n":3.00}"#)).unwrap();
        assert!(sent.contains(r#""arguments":{"n":3.00}"#), "{sent}");
        assert_eq!(serde_json::from_str::<Value>(&sent).unwrap()["params"]["name"], "a_tool");
    }
}
