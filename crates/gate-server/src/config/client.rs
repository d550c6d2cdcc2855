//! What `action-gateway mcp` needs to know, on the agent's machine: which gateway, and with which
//! key. Both may be missing, for then its tools say so; what is given must be right.

use std::path::PathBuf;

use super::fault::{ConfigFault, shown};
use super::lookup::Lookup;
use super::secret::Secret;
use super::value::WebUrl;

/// Where the gateway is.
const GATEWAY_URL: &str = "BURNBOUND_GATEWAY_URL";
/// The agent's key.
const KEY: &str = "BURNBOUND_KEY";
/// The file that it stands in.
const KEY_FILE: &str = "BURNBOUND_KEY_FILE";

/// Which gateway to ask, and as whom.
#[derive(Debug)]
pub struct ClientConfig {
    /// Where the gateway is: over TLS, or on this machine.
    pub gateway: Option<WebUrl>,
    /// The agent's key.
    pub key: Option<Secret>,
}

impl ClientConfig {
    /// The variables of the two, for those who miss one.
    pub const VARIABLES: (&'static str, &'static str) = (GATEWAY_URL, KEY);
}

/// Reads the variables and checks them. The key's file is named, but not read.
///
/// # Errors
///
/// Everything that is wrong with them, at once.
pub fn load_client(lookup: &dyn Lookup) -> Result<ClientConfig, Vec<ConfigFault>> {
    let gateway = lookup.variable(GATEWAY_URL).filter(|text| !text.is_empty());
    let gateway = gateway.map(|text| {
        WebUrl::parse_base(&text).map_err(|problem| {
            let problem = format!("holds {}, {problem}", shown(&text));
            ConfigFault::new(GATEWAY_URL, GATEWAY_URL, problem)
        })
    });
    let given = |name| lookup.variable(name).filter(|text| !text.is_empty());
    let key = match (given(KEY), given(KEY_FILE)) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => {
            Err(ConfigFault::new(KEY, KEY, format!("and {KEY_FILE} are both set: unset one")))
        }
        (Some(text), None) => Secret::value(KEY, KEY.to_owned(), &text).map(Some),
        (None, Some(path)) => {
            Ok(Some(Secret::file(KEY_FILE, KEY_FILE.to_owned(), PathBuf::from(path))))
        }
    };
    match (gateway.transpose(), key) {
        (Ok(gateway), Ok(key)) => Ok(ClientConfig { gateway, key }),
        (gateway, key) => Err(gateway.err().into_iter().chain(key.err()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::super::lookup::map::Map;
    use super::*;

    #[test]
    fn what_is_given_must_be_right() {
        let table: [(&[&str], &str); 13] = [
            (&[], "none, none"),
            (&["BURNBOUND_GATEWAY_URL=", "BURNBOUND_KEY="], "none, none"),
            (&["BURNBOUND_GATEWAY_URL=http://127.0.0.1:8787"], "http://127.0.0.1:8787, none"),
            (&["BURNBOUND_GATEWAY_URL=http://localhost:8787/"], "http://localhost:8787, none"),
            (&["BURNBOUND_GATEWAY_URL=https://gate.example.com"], "https://gate.example.com, none"),
            (&["BURNBOUND_KEY=bb_agent_1"], "none, bb_agent_1"),
            (&["BURNBOUND_KEY_FILE=/key"], "none, bb_agent_2"),
            (
                &["BURNBOUND_GATEWAY_URL=http://gate.example.com"],
                "which others on the way can read",
            ),
            (&["BURNBOUND_GATEWAY_URL=http://10.0.0.1:8787"], "which others on the way can read"),
            (&["BURNBOUND_GATEWAY_URL=gate.example.com"], "which is not a URL"),
            (&["BURNBOUND_GATEWAY_URL=https://a:b@gate.example.com"], "user or password"),
            (&["BURNBOUND_KEY=a", "BURNBOUND_KEY_FILE=/key"], "are both set"),
            (&["BURNBOUND_KEY_FILE=/none"], "does not exist"),
        ];
        for (variables, expected) in table {
            let map = Map::of(variables.iter().copied()).file("/key", "bb_agent_2\n");
            let found = match load_client(&map) {
                Ok(ClientConfig { gateway, key }) => {
                    let gateway = gateway.map_or("none".to_owned(), |url| url.to_string());
                    let key = key.map_or(Ok("none".to_owned()), |key| {
                        key.current(&map).map(|key| key.expose_secret().to_owned())
                    });
                    format!("{gateway}, {}", key.unwrap_or_else(|fault| fault.to_string()))
                }
                Err(faults) => faults.iter().map(ToString::to_string).collect(),
            };
            assert!(found.contains(expected), "{variables:?}: {found}");
        }
    }
}
