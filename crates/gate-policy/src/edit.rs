//! Texts that the gateway writes: the document of a new store, and an entry for a new agent.

use gate_core::{AgentName, UserName};

use crate::document::{Policy, REFUND_HOST};
use crate::fault::Fault;

/// The document of a new store. No agent has an entry, so none may do anything.
pub const NEW_STORE_TEXT: &str = r#"# The policy. Nothing is allowed that does not stand here. Amounts are US dollars in quotes.

[organization]
timezone = "UTC"           # an IANA name; a day begins and ends at its midnight
approval_timeout = "24h"   # how long a request waits for a person: "1m" to "14d"

# An agent that may refund up to 200 dollars a day, from 50 dollars on after a person's yes:
#
# [agents.support-bot]
# owner = "maria"                              # answers for the agent, never approves for it
# methods = ["stripe_refund"]                  # "stripe_refund_fraudulent" also blocks the customer
# allowed_hosts = ["stripe-refund.action"]     # the host of every refund
# max_per_payment = "100.00"                   # one refund; without it only the day is bounded
# daily_cap = "200.00"                         # a day's refunds together; needed
# approval_threshold = "50.00"                 # from here on a person decides
# on_approval = "execute"                      # or "agent": made when the agent asks again
"#;

/// Appends an entry for an agent to a document; every byte of `text` stays as it is. The entry
/// allows nothing, unless it is a `starter`: refunds, a person from 50 dollars on, 200 dollars a
/// day.
///
/// # Errors
///
/// What is in the way, one sentence: an entry that is there already, or a document with faults.
pub fn with_agent(
    text: &str,
    name: &AgentName,
    owner: Option<&UserName>,
    starter: bool,
) -> Result<String, String> {
    let old = Policy::parse(text)
        .map_err(|faults| format!("the policy has to be put right first: {}", joined(&faults)))?;
    if old.agent(name).is_some() {
        return Err(format!(
            "the policy has an entry for {name} already: change it there, or use another name"
        ));
    }
    let gap = match text {
        "" => "",
        _ if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let new = format!("{text}{gap}{}", entry(name, owner, starter));
    match Policy::parse(&new) {
        Ok(_) => Ok(new),
        Err(faults) => Err(format!(
            "no entry can be appended to this policy; write its agents as [agents.NAME] tables: {}",
            joined(&faults)
        )),
    }
}

fn joined(faults: &[Fault]) -> String {
    let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
    faults.join("; ")
}

fn entry(name: &AgentName, owner: Option<&UserName>, starter: bool) -> String {
    // Names with a dot are two keys unless they are in quotes.
    let quote = if name.as_str().contains('.') { "\"" } else { "" };
    let owner = owner.map_or(String::new(), |owner| format!("owner = \"{owner}\"\n"));
    // What is not a starter's shows its keys as comments, ready to be switched on.
    let off = if starter { "" } else { "# " };
    format!(
        "[agents.{quote}{name}{quote}]\n\
         {owner}\
         {off}methods = [\"stripe_refund\"]\n\
         {off}allowed_hosts = [\"{REFUND_HOST}\"]\n\
         {off}daily_cap = \"200.00\"\n\
         {off}approval_threshold = \"50.00\"\n"
    )
}
