//! What the command line takes.

use clap::{Arg, ArgAction, Command, value_parser};

use crate::config::{clap_args, clap_store_args};
use crate::listing;

/// The whole command line.
pub(crate) fn command() -> Command {
    Command::new("action-gateway")
        .version(env!("CARGO_PKG_VERSION"))
        .about(listing::ABOUT)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands([
            server("serve", "Serve the gateway, with the policy authority in it").args(clap_args()),
            server("authority", "Serve the policy authority alone, for a fleet of gateways")
                .args(clap_args()),
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
            gateway(),
            user(),
            policy(),
            approval(),
            intent(),
            audit(),
            stop("stop", "Stop an agent, a team or everybody, from the next request on"),
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
                .arg(text("team", "Team of the policy whose lines and budget it takes"))
                .arg(text("owner", "User who answers for it, and never approves for it"))
                .arg(switch("starter", "Also write a careful first entry into the policy"))
                .args(key_terms()),
            admin("list", "All agents"),
            admin("show", "One agent, its keys, and what it may do")
                .arg(name("agent", "Name or id")),
            admin("rotate", "Make a new key; the old one is taken for 24 more hours")
                .arg(name("agent", "Name or id"))
                .arg(switch("now", "End the old key at once: after a leak"))
                .args(key_terms()),
            admin("revoke", "End an agent for good").arg(name("agent", "Name or id")),
        ],
    )
}

fn key_terms() -> [Arg; 2] {
    [
        text("expires", "How long the new key lasts, such as 90d"),
        Arg::new("from")
            .long("from")
            .value_name("CIDR")
            .num_args(1..)
            .action(ArgAction::Append)
            .help("From where alone its keys are taken, such as 10.1.0.0/16 or 2001:db8::/32"),
    ]
}

fn gateway() -> Command {
    group(
        "gateway",
        "Gateways that ask this authority over the network",
        [
            admin("create", "Make a gateway; its id and secret are printed once")
                .arg(name("name", "A name for people")),
            admin("list", "All gateways, with the keys that are taken and when each was last used"),
            admin("rotate", "Make a new secret; the old one is taken for 24 more hours")
                .arg(name("gateway", "Name or id"))
                .arg(switch("now", "End the old secret at once: after a leak")),
            admin("revoke", "End a gateway for good").arg(name("gateway", "Name or id")),
        ],
    )
}

fn user() -> Command {
    group(
        "user",
        "People",
        [
            admin("create", "Make a user").arg(name("name", "The name")).arg(roles()).arg(acting()),
            admin("list", "All users, with their roles"),
            admin("set-roles", "Give a user these roles, and no others")
                .arg(name("name", "The name"))
                .arg(roles())
                .arg(acting()),
            admin("revoke", "Take all roles from a user; what they approved counts no more")
                .arg(name("name", "The name"))
                .arg(acting()),
        ],
    )
}

fn policy() -> Command {
    group(
        "policy",
        "What agents may do",
        [
            admin("apply", "Put a policy in force").arg(file()).arg(acting()),
            admin("export", "The text of the policy in force, or of an older version").arg(
                Arg::new("version")
                    .long("version")
                    .value_name("NUMBER")
                    .value_parser(value_parser!(u64))
                    .help("The version, as `policy history` counts them"),
            ),
            admin("history", "Every version, with its author, oldest first"),
            admin("replay", "What a policy would have decided of everything that was asked")
                .arg(file())
                .arg(
                    Arg::new("since")
                        .long("since")
                        .value_name("SPAN")
                        .default_value("30d")
                        .help("How far back: 12h, 30d"),
                ),
            Command::new("check")
                .about("Check a policy file, and run the table of cases beside it")
                .arg(file())
                .arg(
                    Arg::new("cases")
                        .long("cases")
                        .value_name("FILE")
                        .help("The table; without it FILE's name with .cases.toml at its end"),
                )
                .arg(json()),
            admin("diff", "What changes from one policy to another, in plain sentences")
                .arg(file())
                .arg(
                    Arg::new("new").value_name("NEW").help(
                        "The file to change to; without it, from the policy in force to FILE",
                    ),
                ),
            admin("show", "The policy in force, or a file's, in plain sentences")
                .arg(file().required(false)),
            admin("try", "What would be decided: facts in, decision out")
                .arg(
                    Arg::new("file")
                        .long("file")
                        .value_name("FILE")
                        .help("A policy file; without it the policy in force"),
                )
                .arg(
                    Arg::new("facts")
                        .value_name("KEY=VALUE")
                        .required(true)
                        .action(ArgAction::Append)
                        .num_args(1..)
                        .help("Facts, as in a table of cases: agent=bot amount=\"20.00 USD\" …"),
                ),
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
            admin("show", "One approval: why it was asked for, and who still has to say yes")
                .arg(name("id", "The approval: apr_…")),
            decide("approve", "Allow it").arg(text("note", "A note for the record")),
            decide("deny", "Refuse it").arg(text("note", "Why; the agent is told").required(true)),
            decide("reopen", "After a person's no, let the same refund be asked again")
                .arg(text("note", "A note for the record")),
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
                .arg(name("id", "The intent: int_…"))
                .arg(acting()),
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

fn audit() -> Command {
    group(
        "audit",
        "The record of every change",
        [
            server("verify", "Verify every entry, their order, and the heads that refunds carry")
                .args(clap_args())
                .arg(switch("online", "Also compare with the newest refunds at Stripe")),
            admin("export", "Write the audit log to standard output")
                .arg(
                    text("format", "json, an object a line, or csv")
                        .value_parser(["json", "csv"])
                        .default_value("json"),
                )
                .arg(text("since", "From this day or moment on"))
                .arg(text("until", "Before this day or moment")),
            admin("redact", "Empty what is personal, for good; the log still verifies")
                .arg(
                    Arg::new("entry")
                        .long("entry")
                        .value_name("NUMBER")
                        .value_parser(value_parser!(u64).range(1..))
                        .help("One entry"),
                )
                .arg(
                    text("field", "What of the entry: actor, subject, details")
                        .action(ArgAction::Append)
                        .value_parser(["actor", "subject", "details"])
                        .default_value("details")
                        .conflicts_with_all(["user", "charge"]),
                )
                .arg(text("user", "A person's name, in all entries"))
                .arg(text("charge", "What was written about refunds of this charge: ch_…"))
                .group(
                    clap::ArgGroup::new("whose").args(["entry", "user", "charge"]).required(true),
                )
                .arg(text("as", "Owner who does it").required(true))
                .arg(text("note", "Why, without anything personal; it stays").required(true)),
        ],
    )
}

fn print() -> Command {
    Command::new("print").about("Print a document that the program knows").arg(
        Arg::new("what")
            .required(true)
            .value_parser(["config", "errors", "openapi", "schema", "manifest", "server"])
            .help(
                "The configuration's reference, the codes, the API, the configuration file's \
                 schema, the manifest of the MCP bundle, the entry for the MCP registry",
            ),
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
        .arg(text("team", "All agents of this team of the policy"))
        .arg(switch("everybody", "The whole organization"))
        .group(clap::ArgGroup::new("whom").args(["agent", "team", "everybody"]).required(true))
        .arg(text("note", "Why"))
        .arg(acting())
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

/// For whom a command acts, whose roles then count.
fn acting() -> Arg {
    text("as", "User who does this; without one it is the store's owner")
}

fn roles() -> Arg {
    Arg::new("role")
        .long("role")
        .required(true)
        .action(ArgAction::Append)
        .help("owner, policy-editor, auditor, viewer, or a reviewer role of your naming")
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
