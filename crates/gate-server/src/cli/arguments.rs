//! What the command line takes.

use clap::{Arg, ArgAction, Command, value_parser};

use crate::config::{clap_args, clap_store_args};

/// The whole command line.
pub(crate) fn command() -> Command {
    Command::new("action-gateway")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Puts an AI agent's Stripe refunds under a spending policy")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            server("serve", "Serve the gateway, with the policy authority in it").args(clap_args()),
            demo(),
            server("stripe-sandbox", "Serve a stateful Stripe for tests")
                .arg(number("port", "Port to listen on; 0 takes a free one").default_value("0"))
                .arg(seed()),
            Command::new("mcp").about(
                "Serve one MCP client on standard input and output, for the gateway at \
                 BURNBOUND_GATEWAY_URL, as the agent of BURNBOUND_KEY or BURNBOUND_KEY_FILE",
            ),
            server("check", "Check the configuration and the policy")
                .args(clap_args())
                .arg(switch("online", "Also ask Stripe what the key may do, and look at the store"))
                .arg(switch(
                    "invariants",
                    "Also hold the whole record against what the manual promises and, when a \
                     Stripe key is configured, against the refunds at Stripe",
                )),
            agent(),
            user(),
            policy(),
            approval(),
            intent(),
            stop("stop", "Stop an agent, or everybody, from the next request on")
                .arg(text("note", "Why")),
            stop("resume", "Lift a stop"),
            server("reconcile", "Finish once what was left half-way, and tell what was found")
                .args(clap_args()),
            print(),
        ])
}

fn demo() -> Command {
    server("demo", "Play everything on loopback, with nothing to sign up for")
        .arg(switch("once", "Play the tour, print each step, and end"))
        .arg(number("port", "Port of the gateway; 0 takes a free one").default_value("0"))
        .arg(seed())
}

fn agent() -> Command {
    group(
        "agent",
        "Agents and their keys",
        [
            admin("create", "Make an agent; its key is printed once")
                .arg(name("name", "Its name in the policy"))
                .arg(text("owner", "User who answers for it, and never approves for it"))
                .arg(switch("starter", "Also write a careful first entry into the policy")),
            admin("list", "All agents"),
            admin("rotate", "Make a new key; the old one is taken for 24 more hours")
                .arg(name("agent", "Name or id"))
                .arg(switch("now", "End the old key at once: after a leak")),
            admin("revoke", "End an agent for good").arg(name("agent", "Name or id")),
        ],
    )
}

fn user() -> Command {
    group(
        "user",
        "People",
        [
            admin("create", "Make a user").arg(name("name", "The name")).arg(
                Arg::new("role").long("role").required(true).action(ArgAction::Append).help(
                    "owner, policy-editor, auditor, viewer, or a reviewer role of your naming",
                ),
            ),
            admin("list", "All users"),
        ],
    )
}

fn policy() -> Command {
    group(
        "policy",
        "What agents may do",
        [
            admin("apply", "Put a policy in force").arg(file()),
            admin("export", "The text of the policy in force"),
            Command::new("check").about("Check a policy file").arg(file()).arg(json()),
            admin("show", "The policy in force, in plain sentences"),
        ],
    )
}

fn approval() -> Command {
    let decide = |name_, about| {
        admin(name_, about)
            .arg(name("id", "The approval: apr_…"))
            .arg(text("as", "User who decides").required(true))
    };
    group(
        "approval",
        "What waits for a person",
        [
            admin("list", "Pending approvals, oldest first"),
            decide("approve", "Allow it").arg(text("note", "A note for the record")),
            decide("deny", "Refuse it").arg(text("note", "Why; the agent is told").required(true)),
        ],
    )
}

fn intent() -> Command {
    group(
        "intent",
        "Requests and what became of them",
        [
            admin("list", "Intents, newest first")
                .arg(text("agent", "Only of this agent"))
                .arg(text("state", "Only in this state"))
                .arg(
                    Arg::new("limit")
                        .long("limit")
                        .value_name("NUMBER")
                        .value_parser(value_parser!(u32).range(1..=10_000))
                        .default_value("100")
                        .help("At most so many"),
                ),
            admin("show", "One intent").arg(name("id", "The intent: int_…")),
            admin("cancel", "Withdraw what is pending or approved")
                .arg(name("id", "The intent: int_…")),
            admin("resolve", "Say what became of a refund that nobody could find out about")
                .arg(name("id", "The intent: int_…"))
                .arg(text("as", "User who found out").required(true))
                .arg(text("refund", "The refund at Stripe: re_…"))
                .arg(switch("not-executed", "There is none"))
                .arg(text("note", "How it was found out").required(true))
                .group(
                    clap::ArgGroup::new("found").args(["refund", "not-executed"]).required(true),
                ),
        ],
    )
}

fn print() -> Command {
    Command::new("print").about("Print a document that the program knows").arg(
        Arg::new("what")
            .required(true)
            .value_parser(["config", "errors", "openapi", "schema"])
            .help("The configuration's reference, the codes, the API, the configuration file's schema"),
    )
}

fn group<const COUNT: usize>(
    name: &'static str,
    about: &'static str,
    commands: [Command; COUNT],
) -> Command {
    Command::new(name).about(about).subcommand_required(true).subcommands(commands)
}

/// A command over the store.
fn admin(name: &'static str, about: &'static str) -> Command {
    Command::new(name).about(about).arg(json()).args(clap_store_args())
}

fn stop(name_: &'static str, about: &'static str) -> Command {
    admin(name_, about)
        .arg(Arg::new("agent").help("The agent, by name or id"))
        .arg(switch("everybody", "The whole organization").conflicts_with("agent"))
        .group(clap::ArgGroup::new("whom").args(["agent", "everybody"]).required(true))
}

fn server(name: &'static str, about: &'static str) -> Command {
    Command::new(name).about(about).arg(json())
}

fn name(id: &'static str, help: &'static str) -> Arg {
    Arg::new(id).required(true).help(help)
}

fn text(id: &'static str, help: &'static str) -> Arg {
    Arg::new(id).long(id).value_name("TEXT").help(help)
}

fn number(id: &'static str, help: &'static str) -> Arg {
    Arg::new(id).long(id).value_name("NUMBER").value_parser(value_parser!(u16)).help(help)
}

fn seed() -> Arg {
    Arg::new("seed")
        .long("seed")
        .value_name("NUMBER")
        .value_parser(value_parser!(u64))
        .default_value("0")
        .help("What the sandbox's ids follow from")
}

fn switch(id: &'static str, help: &'static str) -> Arg {
    Arg::new(id).long(id).action(ArgAction::SetTrue).help(help)
}

fn file() -> Arg {
    Arg::new("file")
        .required(true)
        .value_name("FILE")
        .help("The policy's file; - is standard input")
}

fn json() -> Arg {
    switch("json", "Results as JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_holds_together() {
        command().debug_assert();
    }
}
