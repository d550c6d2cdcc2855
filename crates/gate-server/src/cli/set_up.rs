//! How clients of MCP are told of a gateway: the same words from `agent create`, from the demo and
//! in the manual. The door over HTTP comes first: it needs nothing on the agent's machine.

use std::path::PathBuf;

use serde_json::{Value, json};

/// What a client has to be told.
pub(crate) struct SetUp<'a> {
    /// Where the gateway listens, as agents see it.
    pub(crate) url: &'a str,
    /// Our program, for clients that start one.
    pub(crate) program: String,
    /// The key, where it may be shown; else it is in `BURNBOUND_KEY`, or in a file.
    pub(crate) key: Option<&'a str>,
}

/// This process's own program.
pub(crate) fn this_program() -> String {
    let path = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("action-gateway"));
    path.display().to_string()
}

impl SetUp<'_> {
    /// For each client, what it is and where its words go, and the words.
    pub(crate) fn snippets(&self) -> Vec<(&'static str, String)> {
        vec![
            ("Claude Code", self.claude_code()),
            ("Cursor, in .cursor/mcp.json", self.cursor().to_string()),
            ("VS Code, in .vscode/mcp.json; it asks for the key", self.vs_code().to_string()),
            ("Codex, in ~/.codex/config.toml", self.codex()),
            ("Any other that takes an address", self.any().to_string()),
            (
                "Claude Desktop, in claude_desktop_config.json, and others that only start programs",
                self.stdio().to_string(),
            ),
        ]
    }

    /// The snippets as text, every line behind `margin`.
    pub(crate) fn text(&self, margin: &str) -> String {
        let mut lines = Vec::new();
        for (client, snippet) in self.snippets() {
            lines.push(format!("{margin}{client}:"));
            lines.extend(snippet.lines().map(|line| format!("{margin}  {line}")));
        }
        lines.join("\n")
    }

    fn mcp(&self) -> String {
        format!("{}/mcp", self.url)
    }

    fn literal(&self) -> &str {
        self.key.unwrap_or("bb_agent_…")
    }

    fn claude_code(&self) -> String {
        format!(
            "claude mcp add --transport http action-gateway {} --header \"Authorization: Bearer $BURNBOUND_KEY\"",
            self.mcp()
        )
    }

    fn cursor(&self) -> Value {
        let headers = json!({ "Authorization": "Bearer ${env:BURNBOUND_KEY}" });
        json!({ "mcpServers": { "action-gateway": { "url": self.mcp(), "headers": headers } } })
    }

    fn vs_code(&self) -> Value {
        let (id, about) = ("gateway-key", "Agent key");
        let headers = json!({ "Authorization": "Bearer ${input:gateway-key}" });
        json!({
            "inputs": [
                { "type": "promptString", "id": id, "description": about, "password": true },
            ],
            "servers": {
                "action-gateway": { "type": "http", "url": self.mcp(), "headers": headers },
            },
        })
    }

    fn codex(&self) -> String {
        format!(
            "[mcp_servers.action-gateway]\nurl = \"{}\"\nbearer_token_env_var = \"BURNBOUND_KEY\"",
            self.mcp()
        )
    }

    fn any(&self) -> Value {
        let headers = json!({ "Authorization": format!("Bearer {}", self.literal()) });
        let server = json!({ "type": "http", "url": self.mcp(), "headers": headers });
        json!({ "mcpServers": { "action-gateway": server } })
    }

    fn stdio(&self) -> Value {
        let (name, key) = match self.key {
            Some(key) => ("BURNBOUND_KEY", key),
            None => ("BURNBOUND_KEY_FILE", "/home/you/agent.key"),
        };
        let env = json!({ "BURNBOUND_GATEWAY_URL": self.url, name: key });
        let server = json!({ "command": self.program, "args": ["mcp"], "env": env });
        json!({ "mcpServers": { "action-gateway": server } })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANUAL: &str = include_str!("../../../../docs/mcp.md");

    /// What stands between fences in the manual, with what is broken over lines joined.
    fn blocks() -> Vec<String> {
        let fenced = MANUAL.split("```").skip(1).step_by(2);
        let body = |block: &str| block.split_once('\n').unwrap().1.trim_end().to_owned();
        fenced.map(|block| body(block).replace(" \\\n  ", " ")).collect()
    }

    #[test]
    fn the_manual_says_the_same() {
        let program = "/usr/local/bin/action-gateway".to_owned();
        let set_up = SetUp { url: "http://127.0.0.1:8787", program, key: None };
        let blocks = blocks();
        let mut last = 0;
        for (client, snippet) in set_up.snippets() {
            let same = |block: &String| match serde_json::from_str::<Value>(&snippet) {
                Ok(snippet) => {
                    serde_json::from_str(block).is_ok_and(|block: Value| block == snippet)
                }
                Err(_) => *block == snippet,
            };
            let place = blocks.iter().position(same);
            let place = place.unwrap_or_else(|| panic!("{client}: {snippet}\n{blocks:#?}"));
            assert!(place >= last, "{client}: in the same order");
            last = place;
            let name = client.split(',').next().unwrap();
            assert!(MANUAL.contains(&format!("**{name}")), "{name}");
        }
    }

    #[test]
    fn a_key_that_may_be_shown_stands_where_no_variable_can() {
        let set_up = SetUp { url: "http://x", program: "p".to_owned(), key: Some("bb_agent_1") };
        let text = set_up.text("# ");
        assert!(text.lines().all(|line| line.starts_with("# ")), "{text}");
        assert_eq!(text.matches("bb_agent_1").count(), 2, "{text}");
        assert!(!text.contains('…'), "{text}");
    }
}
