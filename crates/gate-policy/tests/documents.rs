//! What a document may say, what it is told when it may not, and how it reads in words.
#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "tests compute freely and fail by panicking"
)]

use gate_core::{AgentName, UserName};
use gate_policy::{NEW_STORE_TEXT, NewAgent, Policy, diff, with_agent};

fn agent(name: &str) -> AgentName {
    AgentName::parse(name).unwrap()
}

fn entry(owner: Option<&UserName>, starter: bool) -> NewAgent {
    NewAgent { team: None, owner: owner.cloned(), starter }
}

fn policy(text: &str) -> Policy {
    Policy::parse(text).unwrap_or_else(|faults| panic!("{faults:?} in {text}"))
}

/// Every fault of `text`, one a line.
fn faults(text: &str) -> String {
    let faults = Policy::parse(text).err().unwrap_or_default();
    let lines: Vec<_> = faults.iter().map(ToString::to_string).collect();
    lines.join("\n")
}

#[test]
fn faults_say_where_and_what_instead() {
    let table = [
        // text, place and message
        ("a =", "line 1, column 4: this is not TOML: "),
        ("\n[organization", "line 2, column 14: this is not TOML: "),
        (
            "[agents.a]\nowner = 'x'\nowner = 'y'",
            "line 3, column 1: this is not TOML: duplicate key",
        ),
        // Keys.
        (
            "[organisation]",
            "line 1, column 2: the document has no key \"organisation\": did you mean \"organization\"?",
        ),
        (
            "colour = 1",
            "line 1, column 1: the document has no key \"colour\": remove it, or use one of \"agents\", \"organization\", \"rules\", \"teams\"",
        ),
        (
            "[agents.a]\n  dayly_cap = '1'",
            "line 2, column 3: [agents.a] has no key \"dayly_cap\": did you mean \"daily_cap\"?",
        ),
        (
            "[organization]\nzone = 'UTC'",
            "line 2, column 1: [organization] has no key \"zone\": remove it, or use one of \"approval_timeout\", \"timezone\", \"when_stripe_asks\"",
        ),
        (
            "[agents.a.limits]",
            "line 1, column 11: [agents.a] has no key \"limits\": remove it, or use one of ",
        ),
        // Webhooks.
        (
            "[agents.a]\nwebhook = ''",
            "line 2, column 11: webhook: \"\" will not do: it is not https; write one like ",
        ),
        (
            "[teams.t]\n  webhook = 'https://a@b/'",
            "line 2, column 13: webhook: \"https://a@b/\" will not do: it has a name or password",
        ),
        (
            "[agents.a]\nwebhook = ['https://b/']",
            "line 2, column 11: webhook: array will not do: write a string",
        ),
        (
            "[organization]\nwhen_stripe_asks = 'never'",
            "line 2, column 20: when_stripe_asks: no \"never\": there are only \"both\", \"stripe\"",
        ),
        // Teams.
        (
            "[agents.a]\ndaily_budget = '1'",
            "line 2, column 1: daily_budget is a team's: write it under [teams.NAME], or cap the agent",
        ),
        ("[teams.t]\nteam = 'x'", "line 2, column 1: [teams.t] has no key \"team\""),
        ("[teams.T]", "line 1, column 8: \"T\" is no team's name: expected 1 to 64 of a-z"),
        (
            "[agents.a]\nteam = 'suport'\n[teams.support]",
            "line 2, column 8: team: no team \"suport\": did you mean \"support\"?",
        ),
        (
            "[agents.a]\nteam = 'x'",
            "line 2, column 8: team: no team \"x\": add [teams.x], or use another name",
        ),
        // Counts.
        (
            "[agents.a]\nrefunds_per_hour = '20'",
            "line 2, column 20: refunds_per_hour: write a whole number from 0 to 100000",
        ),
        (
            "[agents.a]\nrefunds_per_hour = -1",
            "line 2, column 20: refunds_per_hour: write a whole number from 0 to 100000",
        ),
        (
            "[agents.a]\napprovals_required = 0",
            "line 2, column 22: approvals_required: write a whole number from 1 to 10",
        ),
        (
            "[agents.a]\nreviewers = ['Leads']",
            "line 2, column 14: reviewers: \"Leads\" will not do: expected 1 to 64 of a-z",
        ),
        (
            "[agents.a]\ntags = 'chat'",
            "line 2, column 8: tags: write a list of strings, each a tag",
        ),
        (
            "[agents.a]\ntools = ['finance_payment']",
            "line 2, column 10: tools: no \"finance_payment\": did you mean \"finance_payments\"?",
        ),
        // Rules.
        ("[rules]", "line 1, column 1: rules: write each rule as a [[rules]] table"),
        (
            "[[rules]]\ncontrol = 'block'\nwhen = 'true'",
            "line 1, column 1: this rule has no id: add id = \"a-name\"",
        ),
        (
            "[[rules]]\nid = 'a'\nwhen = 'true'",
            "line 1, column 1: the rule \"a\" has no control: add control = \"block\"",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'",
            "line 1, column 1: the rule \"a\" has no condition: add a field",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'blok'\nwhen = 'true'",
            "line 3, column 11: control: no \"blok\": did you mean \"block\"?",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\nreviewers = ['risk']\nwhen = 'true'",
            "line 1, column 1: the rule \"a\" blocks, so it asks nobody",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\ncustomer_older = 3",
            "line 4, column 1: [[rules]] has no key \"customer_older\"",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\nwhen = 'true'\n[[rules]]\nid = 'a'\ncontrol = 'block'\nwhen = 'true'",
            "line 5, column 1: there are two rules \"a\": rename one",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\nwhen = 'true'\nagents = ['bott']\n[agents.bot]",
            "line 5, column 11: agents: no agent \"bott\": did you mean \"bot\"?",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\nwhen = 'true'\nagents = ['team:x']",
            "line 5, column 11: agents: no team \"x\": add [teams.x], or use another name",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\nwhen = 'true'\nagents = []",
            "line 5, column 10: agents: an empty list matches nothing: name agents",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\namount_over = 50",
            "line 4, column 15: amount_over: money is never a float, write \"50.00\"",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\ncurrency_in = ['euro']",
            "line 4, column 16: currency_in: no currency \"euro\"",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\nrisk_level_in = ['elevatd']",
            "line 4, column 18: risk_level_in: no \"elevatd\": did you mean \"elevated\"?",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\nreason_in = ['fraud']",
            "line 4, column 14: reason_in: no \"fraud\": there are only",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\ndisputed = 'yes'",
            "line 4, column 12: disputed: write true or false, without quotes",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\ncharge_metadata = {}",
            "line 4, column 19: charge_metadata: write pairs, { key = \"value\" }",
        ),
        // Cedar, where it stands in the document.
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\nwhen = 'context.amountMinor >'",
            "line 4, column 30: when: unexpected end of input",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\nwhen = 'true && context.customrAgeDays < 3'",
            "line 4, column 17: when: attribute `customrAgeDays`",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\nwhen = 'context.currency > 3'",
            "line 4, column 9: when: unexpected type: expected Long but saw String",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\nwhen = 'context.amountMinor'",
            "line 4, column 9: when: unexpected type: expected Bool but saw Long",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\nwhen = \"\"\"\n  context.reason == \\\"none\\\"\n  && context.x\n\"\"\"",
            "line 6, column 6: when: attribute `x`",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\nwhen = 'true } unless { false'",
            "line 4, column 14: when: unexpected token `}`",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\nwhen = ''",
            "line 4, column 9: when: unexpected end of input",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\nwhen = '(if context.livemode then context else context) has riskScore'",
            "line 4, column 8: when: context is read as a whole: read its facts by name, such as context.amountMinor",
        ),
        (
            "[[rules]]\nid = 'a'\ncontrol = 'block'\nwhen = '[{Var: context}].contains({Var: context})'",
            "line 4, column 8: when: context is read as a whole: read its facts by name, such as context.amountMinor",
        ),
        // Shapes.
        (
            "organization = 1",
            "line 1, column 16: [organization] has to be a table with keys of its own, not integer",
        ),
        (
            "agents = []",
            "line 1, column 10: [agents] has to be a table with keys of its own, not array",
        ),
        (
            "[[agents.a]]",
            "line 1, column 1: [agents.a] has to be a table with keys of its own, not array",
        ),
        ("[agents.Bot]", "line 1, column 9: \"Bot\" is no agent's name: expected 1 to 64 of a-z"),
        // Money.
        (
            "[agents.a]\ndaily_cap = 500.0",
            "line 2, column 13: daily_cap: money is never a float, write \"500.00\"",
        ),
        (
            "[agents.a]\ndaily_cap = 500",
            "line 2, column 13: daily_cap: money is never a float, write \"500.00\"",
        ),
        (
            "[agents.a]\ndaily_cap = 0x10",
            "line 2, column 13: daily_cap: money is never a float, write \"100.00\"",
        ),
        (
            "[agents.a]\ndaily_cap = nan",
            "line 2, column 13: daily_cap: money is never a float, write \"100.00\"",
        ),
        (
            "[agents.a]\nmax_per_payment = -1",
            "line 2, column 19: max_per_payment: money is never a float, write \"100.00\"",
        ),
        (
            "[agents.a]\napproval_threshold = true",
            "line 2, column 22: approval_threshold: boolean will not do: write a string",
        ),
        (
            "[agents.a]\ndaily_cap = '-5'",
            "line 2, column 13: daily_cap: the number is not written plainly",
        ),
        (
            "[agents.a]\ndaily_cap = '1,000.00'",
            "line 2, column 13: daily_cap: the number is not written plainly",
        ),
        (
            "[agents.a]\ndaily_cap = '$5'",
            "line 2, column 13: daily_cap: the number is not written plainly",
        ),
        (
            "[agents.a]\ndaily_cap = '0.0000001'",
            "line 2, column 13: daily_cap: the number has too many decimals",
        ),
        (
            "[agents.a]\ndaily_cap = '9999999999999999'",
            "line 2, column 13: daily_cap: the number has more digits than fit",
        ),
        // Lists.
        (
            "[agents.a]\nmethods = 'stripe_refund'",
            "line 2, column 11: methods: write a list of strings, of \"stripe_refund\", \"stripe_refund_fraudulent\"",
        ),
        (
            "[agents.a]\nmethods = ['stripe_refunds']",
            "line 2, column 12: methods: no \"stripe_refunds\": did you mean \"stripe_refund\"?",
        ),
        (
            "[agents.a]\nmethods = ['payout', 1]",
            "line 2, column 12: methods: no \"payout\": there are only \"stripe_refund\", \"stripe_refund_fraudulent\"\nline 2, column 22: methods: no integer: write strings, of \"stripe_refund\"",
        ),
        (
            "[agents.a]\nallowed_hosts = ['*']",
            "line 2, column 18: allowed_hosts: no \"*\": there are only \"stripe-refund.action\"",
        ),
        // Words.
        (
            "[agents.a]\nowner = 'Maria M.'",
            "line 2, column 9: owner: \"Maria M.\" is no user's name: expected 1 to 64 of a-z",
        ),
        (
            "[agents.a]\non_approval = 'wait'",
            "line 2, column 15: on_approval: \"wait\" will not do: write \"execute\"",
        ),
        (
            "[organization]\ntimezone = 'America/NewYork'",
            "line 2, column 12: timezone: no time zone \"America/NewYork\": did you mean \"America/New_York\"?",
        ),
        ("[organization]\ntimezone = 'EDT'", "line 2, column 12: timezone: no time zone \"EDT\": "),
        (
            "[organization]\ntimezone = 'Etc/Unknown'",
            "line 2, column 12: timezone: no time zone \"Etc/Unknown\"",
        ),
        (
            "[organization]\napproval_timeout = '59s'",
            "line 2, column 20: approval_timeout: \"59s\" will not do: write \"1m\" to \"14d\"",
        ),
        (
            "[organization]\napproval_timeout = '15d'",
            "line 2, column 20: approval_timeout: \"15d\" will not do",
        ),
        (
            "[organization]\napproval_timeout = '1h30m'",
            "line 2, column 20: approval_timeout: \"1h30m\" will not do",
        ),
        (
            "[organization]\napproval_timeout = '+5m'",
            "line 2, column 20: approval_timeout: \"+5m\" will not do",
        ),
        (
            "[organization]\napproval_timeout = 'm'",
            "line 2, column 20: approval_timeout: \"m\" will not do",
        ),
        (
            "[organization]\napproval_timeout = 24",
            "line 2, column 20: approval_timeout: integer will not do: write a string",
        ),
        // All together, in the order of the text, in columns of characters.
        (
            "[agents.b]\nownr = 'ä'\n[agents.a]\nx = 1\nmethods = ['ä', 'y']",
            "line 2, column 1: [agents.b] has no key \"ownr\": did you mean \"owner\"?\n\
             line 4, column 1: [agents.a] has no key \"x\": remove it, or use one of \"allowed_hosts\", \
             \"approval_threshold\", \"approvals_required\", \"daily_cap\", \"max_per_payment\", \"methods\", \
             \"monthly_cap\", \"on_approval\", \"owner\", \"per_customer_daily_cap\", \"refunds_per_hour\", \
             \"reviewers\", \"tags\", \"team\", \"tools\", \"webhook\", \"weekly_cap\"\n\
             line 5, column 12: methods: no \"ä\": there are only \"stripe_refund\", \"stripe_refund_fraudulent\"\n\
             line 5, column 17: methods: no \"y\": there are only ",
        ),
    ];
    let mut wrong = Vec::new();
    for (text, expected) in table {
        let faults = faults(text);
        if !faults.starts_with(expected) {
            wrong.push(format!("{text}\n  is told {faults}\n  not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let long = "#".repeat(256 * 1024 + 1);
    assert_eq!(
        faults(&long),
        "line 1, column 1: the document is longer than 262144 bytes: shorten it"
    );
}

#[test]
fn what_is_said_is_what_is_meant() {
    let text = r#"
        [organization]
        timezone = "america/new_york"
        approval_timeout = "90m"

        [agents."bot.eu"]
        owner = "maria"
        max_per_payment = "0.000001"
        daily_cap = "500"
    "#;
    let policy = policy(text);
    assert_eq!(policy.timezone(), "America/New_York");
    assert_eq!(policy.approval_timeout().as_secs(), 90 * 60);
    let names: Vec<_> = policy.agents().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["bot.eu"]);
    let limits = policy.agent(&agent("bot.eu")).unwrap();
    assert_eq!(limits.owner, UserName::parse("maria").ok());
    assert_eq!(limits.max_per_payment.unwrap().micros(), 1);
    assert_eq!(limits.daily_cap.unwrap().micros(), 500_000_000);

    assert_eq!(self::policy("").timezone(), "UTC");
    assert_eq!(self::policy("").approval_timeout().as_secs(), 24 * 3600);
}

const EXAMPLE: &str = r#"
[organization]
timezone = "America/New_York"
approval_timeout = "36h"

[agents.support-bot]
owner = "maria"
methods = ["stripe_refund"]
allowed_hosts = ["stripe-refund.action"]
max_per_payment = "100.00"
daily_cap = "500.00"
approval_threshold = "50.00"

[agents.fraud-desk]
methods = ["stripe_refund", "stripe_refund_fraudulent"]
allowed_hosts = ["stripe-refund.action"]
daily_cap = "2000.00"
approval_threshold = "0.00"
on_approval = "agent"

[agents.night-bot]
methods = ["stripe_refund_fraudulent"]
allowed_hosts = ["stripe-refund.action"]
daily_cap = "20.00"

[agents.quiet-bot]
owner = "lee"
webhook = "https://bot.example.com/hooks"
"#;

#[test]
fn the_policy_words() {
    let expected = "\
Days begin at midnight in America/New_York, weeks on Monday. A request that waits for a person expires after 36 hours.

fraud-desk may make refunds, also as fraudulent, which blocks the customer at Stripe, up to \
2000.00 USD a day. From 0.00 USD on a person decides; after a yes the refund is made when the \
agent asks again.

night-bot may make refunds as fraudulent only, which blocks the customer at Stripe, up to \
20.00 USD a day. No person is asked, unless a rule does.

quiet-bot may do nothing: it has no methods. lee owns it and never approves for it. What becomes \
of its requests is sent to https://bot.example.com/hooks.

support-bot may make refunds, but not as fraudulent, up to 100.00 USD each and 500.00 USD a day. \
From 50.00 USD on a person decides; after a yes the refund is made at once. maria owns it and \
never approves for it.";
    let policy = policy(EXAMPLE);
    assert_eq!(policy.words(), expected);
    assert!(expected.ends_with(&policy.words_of(&agent("support-bot"))));
    assert_eq!(policy.words_of(&agent("stranger")), "stranger has no entry and may do nothing.");
}

#[test]
fn warnings_name_what_was_probably_not_meant() {
    let full = "methods = ['stripe_refund']\nallowed_hosts = ['stripe-refund.action']\napproval_threshold = '1'\n";
    let table = [
        // entry, warning or nothing
        (format!("{full}daily_cap = '500'"), ""),
        (format!("{full}daily_cap = '500'\nmax_per_payment = '500'"), ""),
        (format!("{full}daily_cap = '500'\ntools = ['finance_balance']"), ""),
        (
            format!("{full}daily_cap = '500'\ntools = ['finance_refund']"),
            "it may ask for refunds by stripe_refund, which counts in minor units, and by finance_refund, which counts in whole ones: see that its model does not mix them up",
        ),
        (
            String::new(),
            "there are no methods, so it may refund nothing: add methods = [\"stripe_refund\"]",
        ),
        (
            "methods = ['stripe_refund']\ndaily_cap = '5'".to_owned(),
            "it has methods but no host, so it may refund nothing: add allowed_hosts = [\"stripe-refund.action\"]",
        ),
        (
            full.to_owned(),
            "it has methods but no daily_cap, and nothing else bounds it, so every refund is denied: add one, such as daily_cap = \"200.00\"",
        ),
        (
            format!("{full}daily_cap = '5'\nmax_per_payment = '6'"),
            "max_per_payment (6.00 USD) is over daily_cap (5.00 USD) and never decides: lower it",
        ),
        (
            format!("{full}daily_cap = '5'\n").replace("'1'", "'6'"),
            "approval_threshold (6.00 USD) is over the largest refund that is possible (5.00 USD), so no person is ever asked: lower it",
        ),
        (
            format!("{full}daily_cap = '9'\nmax_per_payment = '5'\n").replace("'1'", "'6'"),
            "approval_threshold (6.00 USD) is over the largest refund that is possible (5.00 USD), so no person is ever asked: lower it",
        ),
    ];
    for (entry, expected) in table {
        let warnings = policy(&format!("[agents.a]\n{entry}")).warnings();
        let expected: Vec<String> = match expected {
            "" => vec![],
            text => vec![format!("agents.a: {text}")],
        };
        assert_eq!(warnings, expected, "{entry}");
    }
}

/// Whose approval is asked for with an agent-tagged key: in words, as a change, as a warning.
#[test]
fn what_is_left_to_stripe_is_said() {
    let entry = "[agents.a]\nmethods = ['stripe_refund']\n\
                 allowed_hosts = ['stripe-refund.action']\ndaily_cap = '5'\napproval_threshold = '1'\n";
    let with = |when: &str| policy(&format!("organization.when_stripe_asks = '{when}'\n{entry}"));
    let (both, stripe) = (with("both"), with("stripe"));
    assert_eq!(both, policy(entry), "the default");
    assert!(!both.words().contains("tagged"), "{}", both.words());
    assert!(
        stripe.words().contains(
            "\n\nWith a Stripe key that is tagged for agents nobody is asked here: Stripe's own \
             approval rules decide who looks at a refund. What denies one denies it all the same.\n\n"
        ),
        "{}",
        stripe.words()
    );
    let change = "The organization: when_stripe_asks was both and is now stripe.";
    assert_eq!(gate_policy::diff(&both, &stripe), [change]);
    assert_eq!(both.warnings(), [""; 0]);
    let warnings = stripe.warnings();
    assert!(warnings.len() == 1 && warnings[0].starts_with("organization.when_stripe_asks: "));
}

#[test]
fn what_a_rule_comes_to_without_a_fact() {
    let matched = ["rules.r: reads customerAgeDays, which nobody knows, so it counts as matched \
                    wherever it depends on it"];
    let passes =
        ["rules.r: reads customerAgeDays, which nobody knows, so it passes what it lets pass \
                   unknown"];
    let table: [(&str, &[&str]); 5] = [
        // rule, what is said
        ("customer_younger_than_days = 30", &matched),
        ("when = 'context.customerAgeDays < 30'", &matched),
        ("when = 'context has customerAgeDays && context.customerAgeDays < 30'", &passes),
        ("customer_younger_than_days = 30\nenabled = false", &[]),
        ("amount_over = '5.00'", &[]),
    ];
    for (rule, expected) in table {
        let policy = policy(&format!("[[rules]]\nid = 'r'\ncontrol = 'block'\n{rule}"));
        assert_eq!(policy.without("customerAgeDays"), expected, "{rule}");
    }
}

#[test]
fn a_new_store_allows_nothing_and_shows_how() {
    let policy = policy(NEW_STORE_TEXT);
    assert_eq!(policy.agents().count(), 0);
    assert_eq!(
        policy.words(),
        "Days begin at midnight in UTC, weeks on Monday. A request that waits for a person expires \
         after 24 hours.\n\nNo agent has an entry, so none may do anything.\n\n\
         Rule old-charge asks for a person for refunds where the charge is older than 180 days.\n\n\
         Rule refunded-before asks for a person for refunds where the charge was refunded before, \
         or its customer within 30 days."
    );
    // The example in its comments is a right one.
    let (_, example) = NEW_STORE_TEXT.split_once("yes:\n#\n").unwrap();
    let example = example.replace("# [", "[").replace("\n# ", "\n");
    let policy = self::policy(&example);
    assert_eq!(policy.warnings(), [""; 0]);
    assert!(policy.agent(&agent("support-bot")).is_some());
}

#[test]
fn an_entry_is_appended() {
    let maria = UserName::parse("maria").unwrap();
    let table = [
        // name, starter, words
        (
            "bot",
            true,
            "bot may make refunds, but not as fraudulent, up to 200.00 USD a day. From 50.00 USD \
             on a person decides; after a yes the refund is made at once. maria owns it and never \
             approves for it.",
        ),
        (
            "bot.eu-1",
            false,
            "bot.eu-1 may do nothing: it has no methods. maria owns it and never approves for it.",
        ),
    ];
    for (name, starter, words) in table {
        let name = agent(name);
        let text = with_agent(NEW_STORE_TEXT, &name, &entry(Some(&maria), starter)).unwrap();
        assert_eq!(policy(&text).words_of(&name), words);
    }
    assert_eq!(
        with_agent("# no newline", &agent("bot"), &entry(None, true)).unwrap(),
        "# no newline\n\n[agents.bot]\nmethods = [\"stripe_refund\"]\nallowed_hosts = \
         [\"stripe-refund.action\"]\ndaily_cap = \"200.00\"\napproval_threshold = \"50.00\"\n"
    );
    assert_eq!(
        with_agent("", &agent("bot"), &entry(None, false)).unwrap(),
        "[agents.bot]\n# methods = [\"stripe_refund\"]\n# allowed_hosts = \
         [\"stripe-refund.action\"]\n# daily_cap = \"200.00\"\n# approval_threshold = \"50.00\"\n"
    );
}

#[test]
fn an_entry_is_not_appended_where_it_would_not_belong() {
    let table = [
        (
            "[agents.bot]",
            "line 1, column 1: the policy has an entry for bot already: change it there, or use another name",
        ),
        ("[agents.a]\nx = 1", "line 2, column 1: [agents.a] has no key \"x\""),
        (
            "agents = { a = {} }",
            "line 1, column 1: no entry can be appended to this policy: write its agents as [agents.NAME] tables",
        ),
    ];
    for (text, expected) in table {
        let faults = with_agent(text, &agent("bot"), &entry(None, true)).unwrap_err();
        let message = faults[0].to_string();
        assert!(message.starts_with(expected), "{text}: {message}");
    }
}

#[test]
fn an_agent_has_a_webhook_of_its_own_or_its_teams() {
    let text = "[teams.t]\nwebhook = 'https://t.example/'\n[agents.a]\nteam = 't'\n\
                [agents.b]\nteam = 't'\nwebhook = 'https://b.example/'\n[agents.c]\n";
    let both = policy(text);
    let of = |name: &str| both.agent(&agent(name)).unwrap().webhook.clone();
    let table = [("a", Some("https://t.example/")), ("b", Some("https://b.example/")), ("c", None)];
    for (name, expected) in table {
        assert_eq!(of(name).as_ref().map(|url| url.as_str()), expected, "{name}");
    }
    let moved = policy(&text.replace("b.example", "c.example").replace("team = 't'\n[", "["));
    assert_eq!(
        diff(&both, &moved),
        [
            "a: team is not set any more; it was t.",
            "a: webhook is not set any more; it was https://t.example/.",
            "b: webhook was https://b.example/ and is now https://c.example/.",
        ]
    );
}
