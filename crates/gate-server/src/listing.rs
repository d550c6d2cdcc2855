//! How others list the gateway: the manifest of its MCP bundle, which hosts such as Claude Desktop
//! install with a click, and its entry in the MCP registry. Both are made from the table of tools and
//! this crate's version, and checked with the programs of those who read them.

use gate_tools::{TABLE, Tool};
use serde_json::{Value, json};

/// What it is, in one line; the registry takes 100 characters.
pub(crate) const ABOUT: &str = "Puts an AI agent's Stripe refunds under a spending policy";
const NAME: &str = "action-gateway";
const TITLE: &str = "Action gateway";
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Where a gateway on the same machine listens when nothing else is said.
const HERE: &str = "http://127.0.0.1:8787";
/// What the two variables of `action-gateway mcp` are asked for with.
const URL_ASKED: &str = "Where your gateway is: https://…, or http:// on this machine alone";
const KEY_ASKED: &str = "The agent's key, bb_agent_…, as `action-gateway agent create` printed it";

/// `manifest.json` of the bundle for the system that this program was built for. In the bundle it is
/// at `server/action-gateway`.
pub(crate) fn manifest() -> Value {
    let tools: Vec<Value> = TABLE
        .iter()
        .map(|tool| json!({ "name": tool.name, "description": first_sentence(tool) }))
        .collect();
    json!({
        "manifest_version": "0.3",
        "name": NAME,
        "display_name": TITLE,
        "version": VERSION,
        "description": ABOUT,
        "long_description": "The tools of your company's action gateway: ask for refunds, see what \
            became of them and what may still be refunded, and read Stripe where the policy grants \
            it. The gateway decides; nobody who uses this bundle holds the Stripe key.",
        "author": { "name": "The authors of the action gateway" },
        "license": "Apache-2.0",
        "keywords": ["stripe", "refunds", "approvals", "policy"],
        "server": {
            "type": "binary",
            "entry_point": "server/action-gateway",
            "mcp_config": {
                "command": "${__dirname}/server/action-gateway",
                "args": ["mcp"],
                "env": {
                    "BURNBOUND_GATEWAY_URL": "${user_config.gateway_url}",
                    "BURNBOUND_KEY": "${user_config.agent_key}",
                },
            },
        },
        "tools": tools,
        "compatibility": { "platforms": [platform()] },
        "user_config": {
            "gateway_url": {
                "type": "string",
                "title": "Gateway",
                "description": URL_ASKED,
                "default": HERE,
                "required": true,
            },
            "agent_key": {
                "type": "string",
                "title": "Agent key",
                "description": KEY_ASKED,
                "sensitive": true,
                "required": true,
            },
        },
    })
}

/// `server.json` for the registry: the bundle, and the door of a gateway that runs already. Whoever
/// publishes puts their own repository in place of the example's, and the digest of the bundle.
pub(crate) fn server() -> Value {
    let bundle = format!(
        "https://github.com/example/{NAME}/releases/download/v{VERSION}/{NAME}-{VERSION}.mcpb"
    );
    json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": format!("io.github.example/{NAME}"),
        "title": TITLE,
        "description": ABOUT,
        "version": VERSION,
        "packages": [{
            "registryType": "mcpb",
            "identifier": bundle,
            "version": VERSION,
            "transport": { "type": "stdio" },
            "environmentVariables": [
                {
                    "name": "BURNBOUND_GATEWAY_URL",
                    "description": URL_ASKED,
                    "default": HERE,
                    "isRequired": true,
                },
                {
                    "name": "BURNBOUND_KEY",
                    "description": KEY_ASKED,
                    "isRequired": true,
                    "isSecret": true,
                },
            ],
        }],
        "remotes": [{
            "type": "streamable-http",
            "url": "https://{gateway}/mcp",
            "variables": {
                "gateway": {
                    "description": "Host of your gateway, and its port if that is not 443",
                    "placeholder": "gateway.example.com",
                    "isRequired": true,
                },
            },
            "headers": [{
                "name": "Authorization",
                "description": "The agent's key as a bearer token",
                "value": "Bearer {agent_key}",
                "isRequired": true,
                "isSecret": true,
                "variables": {
                    "agent_key": { "description": KEY_ASKED, "isRequired": true, "isSecret": true },
                },
            }],
        }],
    })
}

/// The system, as manifests name it.
const fn platform() -> &'static str {
    if cfg!(target_os = "macos") {
        "darwin"
    } else if cfg!(windows) {
        "win32"
    } else {
        "linux"
    }
}

/// What a tool does; the rest of its description is for whoever calls it.
fn first_sentence(tool: &Tool) -> String {
    tool.description.split_inclusive(". ").next().unwrap_or_default().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_names_every_tool_in_a_sentence() {
        let manifest = manifest();
        let tools = manifest["tools"].as_array().unwrap();
        assert_eq!(tools.len(), TABLE.len());
        for (listed, tool) in tools.iter().zip(TABLE) {
            let sentence = listed["description"].as_str().unwrap();
            assert_eq!(listed["name"], tool.name);
            assert!(sentence.ends_with('.') && sentence.len() < 160, "{sentence}");
        }
    }

    /// What the registry refuses beyond the shape of things.
    #[test]
    fn a_registry_takes_the_entry() {
        let server = server();
        assert!(ABOUT.chars().count() <= 100);
        assert_eq!(server["name"].as_str().unwrap().matches('/').count(), 1);
        let package = &server["packages"][0];
        assert_eq!(package["version"], server["version"]);
        let file = package["identifier"].as_str().unwrap();
        assert!(file.starts_with("https://") && file.ends_with(&format!("-{VERSION}.mcpb")));
    }
}
