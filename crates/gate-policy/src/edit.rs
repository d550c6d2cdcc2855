//! Texts that the gateway writes: the document of a new store, and an entry for a new agent.

use gate_core::{AgentName, TeamName, UserName};

use crate::document::{Policy, REFUND_HOST};
use crate::fault::Fault;

/// The document of a new store: no agent has an entry, so none may do anything, and two rules ask a
/// person about what is worth a look.
pub const NEW_STORE_TEXT: &str = r#"# The policy. Nothing is allowed that does not stand here. Amounts are US dollars in quotes.

[organization]
timezone = "UTC"           # an IANA name; days, weeks and months begin at its midnight
approval_timeout = "24h"   # how long a request waits for a person: "1m" to "14d"

# Two rules for every agent. Change them, switch them off (enabled = false), or take them out.

[[rules]]
id = "old-charge"
charge_older_than_days = 180
control = "require_approval"   # or "block"

[[rules]]
id = "refunded-before"         # the charge, or its customer within 30 days
refunded_before = true
control = "require_approval"

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

/// What `agent create` writes into the policy for a new agent.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NewAgent {
    /// The team it is in.
    pub team: Option<TeamName>,
    /// The person who answers for it.
    pub owner: Option<UserName>,
    /// Whether it may make refunds at once: a person from 50 dollars on, 200 dollars a day.
    pub starter: bool,
}

/// Appends an entry for an agent to a document; every byte of `text` stays as it is. Unless it is
/// a starter, the entry allows nothing.
///
/// # Errors
///
/// What is in the way: an entry that is there already, a team that is not, a document with faults,
/// or one whose agents are not written as tables.
pub fn with_agent(text: &str, name: &AgentName, entry: &NewAgent) -> Result<String, Vec<Fault>> {
    let policy = Policy::parse(text)?;
    if policy.agent(name).is_some() {
        let message = format!(
            "the policy has an entry for {name} already: change it there, or use another name"
        );
        return Err(vec![Fault::at(text, 0, message)]);
    }
    if let Some(team) = entry.team.as_ref().filter(|team| !policy.teams.contains_key(*team)) {
        let message = format!("the policy has no team {team}: add [teams.{team}] to it first");
        return Err(vec![Fault::at(text, 0, message)]);
    }
    let gap = match text {
        "" => "",
        _ if text.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let new = format!("{text}{gap}{}", written(name, entry));
    Policy::parse(&new).map(|_| new).map_err(|mut faults| {
        let message = "no entry can be appended to this policy: write its agents as [agents.NAME] \
                       tables"
            .to_owned();
        faults.insert(0, Fault::at(text, 0, message));
        faults
    })
}

fn written(name: &AgentName, entry: &NewAgent) -> String {
    // Names with a dot are two keys unless they are in quotes.
    let quote = if name.as_str().contains('.') { "\"" } else { "" };
    let line = |key: &str, value: &str| format!("{key} = \"{value}\"\n");
    let team = entry.team.as_ref().map_or(String::new(), |team| line("team", team.as_str()));
    let owner = entry.owner.as_ref().map_or(String::new(), |owner| line("owner", owner.as_str()));
    // What is not a starter's shows its keys as comments, ready to be switched on.
    let off = if entry.starter { "" } else { "# " };
    format!(
        "[agents.{quote}{name}{quote}]\n\
         {team}{owner}\
         {off}methods = [\"stripe_refund\"]\n\
         {off}allowed_hosts = [\"{REFUND_HOST}\"]\n\
         {off}daily_cap = \"200.00\"\n\
         {off}approval_threshold = \"50.00\"\n"
    )
}
