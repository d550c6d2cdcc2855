//! The policies of a world, and their documents.

use super::{AGENTS, RULE, RULE_ROLE, TEAM, Ways};
use crate::draw::Draw;

/// A policy for both agents.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    timezone: &'static str,
    approval_timeout: &'static str,
    entries: [Option<Entry>; 2],
    ways: Ways,
    /// The role that a rule asks for, where there is the rule.
    rule: Option<&'static str>,
    /// What the team may spend in a day and in a month.
    budgets: [Option<&'static str>; 2],
}

#[derive(Clone, Debug)]
struct Entry {
    daily_cap: &'static str,
    max_per_payment: Option<&'static str>,
    approval_threshold: Option<&'static str>,
    on_approval: &'static str,
    owner: Option<&'static str>,
    fraudulent: bool,
    /// A role, and how many people.
    panel: Option<(Option<&'static str>, u16)>,
    in_team: bool,
    weekly_cap: Option<&'static str>,
    monthly_cap: Option<&'static str>,
}

impl Rules {
    pub(crate) fn of(draw: &mut Draw, timezone: &'static str, ways: Ways) -> Self {
        let entry = |draw: &mut Draw| {
            (!draw.permille(40)).then(|| Entry {
                daily_cap: draw.word(&["60.00", "120.00", "1000.00", "1000.00"]),
                max_per_payment: *draw.pick(&[None, None, None, Some("90.00"), Some("40.00")]),
                approval_threshold: *draw.pick(&[
                    None,
                    None,
                    Some("0.01"),
                    Some("20.00"),
                    Some("45.00"),
                ]),
                on_approval: draw.word(&["execute", "agent"]),
                owner: *draw.pick(&[None, Some("mona"), Some("rita")]),
                fraudulent: draw.permille(800),
                panel: None,
                in_team: false,
                weekly_cap: None,
                monthly_cap: None,
            })
        };
        let rules = Self {
            timezone,
            approval_timeout: draw.word(&["1m", "10m", "2h", "24h", "24h", "14d"]),
            entries: [entry(draw), entry(draw)],
            ways,
            rule: None,
            budgets: [None, None],
        };
        rules.with_panel(draw).with_team(draw)
    }

    fn with_panel(mut self, draw: &mut Draw) -> Self {
        if !self.ways.panel {
            return self;
        }
        for entry in self.entries.iter_mut().flatten() {
            let role =
                *draw.pick(&[None, Some("support-leads"), Some("support-leads"), Some("risk")]);
            entry.panel = Some((role, *draw.pick(&[1, 2, 2])));
            entry.approval_threshold =
                *draw.pick(&[None, Some("0.01"), Some("0.01"), Some("20.00")]);
        }
        self.rule = draw.permille(500).then_some(RULE_ROLE);
        self
    }

    fn with_team(mut self, draw: &mut Draw) -> Self {
        if !self.ways.team {
            return self;
        }
        for entry in self.entries.iter_mut().flatten() {
            entry.in_team = draw.permille(850);
            entry.weekly_cap = *draw.pick(&[None, Some("90.00"), Some("150.00"), Some("2000.00")]);
            entry.monthly_cap = *draw.pick(&[None, None, Some("120.00"), Some("5000.00")]);
        }
        let daily = *draw.pick(&[None, Some("70.00"), Some("110.00"), Some("1000.00")]);
        let monthly = *draw.pick(&[None, Some("150.00"), Some("9000.00")]);
        self.budgets = [daily, monthly];
        self
    }

    /// The same, but every refund waits for a person.
    pub(crate) fn asking_a_person(mut self) -> Self {
        for entry in self.entries.iter_mut().flatten() {
            entry.approval_threshold = Some("0.01");
            entry.max_per_payment = None;
        }
        self
    }

    /// The time zone that days are counted in.
    pub(crate) const fn timezone(&self) -> &'static str {
        self.timezone
    }

    /// The document.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "[organization]\ntimezone = \"{}\"\napproval_timeout = \"{}\"\n",
            self.timezone, self.approval_timeout
        );
        if self.ways.team {
            text.push_str(&format!("[teams.{TEAM}]\n"));
            for (key, value) in ["daily_budget", "monthly_budget"].iter().zip(self.budgets) {
                if let Some(value) = value {
                    text.push_str(&format!("{key} = \"{value}\"\n"));
                }
            }
        }
        for (name, entry) in AGENTS.iter().zip(&self.entries) {
            let Some(entry) = entry else { continue };
            let methods = if entry.fraudulent {
                "\"stripe_refund\", \"stripe_refund_fraudulent\""
            } else {
                "\"stripe_refund\""
            };
            text.push_str(&format!(
                "[agents.{name}]\nmethods = [{methods}]\n\
                 allowed_hosts = [\"stripe-refund.action\"]\ndaily_cap = \"{}\"\non_approval = \"{}\"\n",
                entry.daily_cap, entry.on_approval
            ));
            let optional = [
                ("max_per_payment", entry.max_per_payment),
                ("approval_threshold", entry.approval_threshold),
                ("owner", entry.owner),
                ("team", entry.in_team.then_some(TEAM)),
                ("weekly_cap", entry.weekly_cap),
                ("monthly_cap", entry.monthly_cap),
            ];
            for (key, value) in optional {
                if let Some(value) = value {
                    text.push_str(&format!("{key} = \"{value}\"\n"));
                }
            }
            if let Some((role, people)) = entry.panel {
                text.push_str(&format!("approvals_required = {people}\n"));
                if let Some(role) = role {
                    text.push_str(&format!("reviewers = [\"{role}\"]\n"));
                }
            }
        }
        if let Some(role) = self.rule {
            text.push_str(&format!(
                "[[rules]]\nid = \"{RULE}\"\nagents = [\"*\"]\n\
                 reason_in = [\"requested_by_customer\"]\ncontrol = \"require_approval\"\n\
                 reviewers = [\"{role}\"]\n"
            ));
        }
        text
    }
}
