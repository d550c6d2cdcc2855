//! Webhooks of agents: where they may go, and the secrets that follow from the master key.

use std::sync::Arc;

use async_trait::async_trait;
use gate_core::{AgentName, Clock};
use gate_http::{HyperTransport, Transport};
use gate_notify::{ANSWER_BYTES_MAX, Secret, Secrets, Wake, is_public};
use gate_store::Changes;

use crate::master_key::{MasterKey, Purpose};

/// Makes what carries webhooks, and so decides where they may go.
pub type WebhookTransport = fn(Arc<dyn Clock>) -> Arc<dyn Transport>;

/// To public addresses, and to no others.
#[must_use]
pub fn to_public_addresses(clock: Arc<dyn Clock>) -> Arc<dyn Transport> {
    let transport = HyperTransport::new(clock).with_response_bytes_max(ANSWER_BYTES_MAX);
    Arc::new(transport.only_to(Arc::new(is_public)))
}

/// The secret of an agent's webhook in one of its generations.
pub(crate) fn webhook_secret(master: &MasterKey, agent: &AgentName, generation: u32) -> Secret {
    Secret::new(&master.derive(Purpose::Webhook, agent.as_str(), generation))
}

/// All secrets of webhooks.
pub(crate) fn webhook_secrets(master: MasterKey) -> Secrets {
    Arc::new(move |agent, generation| webhook_secret(&master, agent, generation))
}

/// Wakes at each commit.
pub(crate) struct AtCommits(pub(crate) Changes);

#[async_trait]
impl Wake for AtCommits {
    fn mark(&mut self) {
        self.0.mark();
    }

    async fn woken(&mut self) {
        self.0.changed().await;
    }
}

#[cfg(test)]
mod tests {
    use gate_http::check_url;
    use gate_policy::WebhookUrl;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn any_url() -> impl Strategy<Value = String> {
        let pieces = select(vec![
            "https://",
            "http://",
            "a.example",
            "b",
            "1",
            "127.0.0.1",
            "[::1]",
            "[",
            "]",
            ":",
            "443",
            "0",
            "0x7f",
            ".",
            "-",
            "_",
            "@",
            "/",
            "?",
            "#",
            "%20",
            "\\",
            "\"",
            " ",
            "\t",
            "é",
            "\0",
        ]);
        let rest = proptest::collection::vec(pieces, 0..9).prop_map(|pieces| pieces.concat());
        (prop_oneof![4 => Just("https://a.example"), 4 => Just("https://"), 1 => Just("")], rest)
            .prop_map(|(start, rest)| format!("{start}{rest}"))
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(5000) })]

        /// Whoever reads the policy and whoever sends read a URL alike: what is taken can be sent to.
        #[test]
        fn what_the_policy_takes_can_be_sent_to(url in any_url()) {
            if WebhookUrl::parse(&url).is_ok() {
                prop_assert_eq!(check_url(&url), Ok(()), "{}", url);
            }
        }
    }

    /// What was given out never changes with a new version.
    #[test]
    fn secrets_follow_from_master_key_agent_and_generation() {
        let master = MasterKey::parse("07".repeat(32).as_bytes()).unwrap();
        let secret = |agent: &str, generation| {
            let agent = AgentName::parse(agent).unwrap();
            webhook_secret(&master, &agent, generation).expose().to_owned()
        };
        let first = secret("support-bot", 1);
        // Computed by another implementation of HKDF.
        assert_eq!(first, "whsec_QtmMLyI017gvEs3gsEkcDLsf0MY8X0vTqJEVO45hLOI=");
        for other in [secret("support-bot", 2), secret("support-bot2", 1)] {
            assert_ne!(first, other);
        }
    }
}
