//! Reads a document: every key is known, or it is a fault.
//!
//! Nothing is guessed, ignored or rounded: a limit that is written down and not kept is worse than
//! none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gate_core::{AgentName, OnApproval, TeamName, UserName};
use gate_money::MicroUsd;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use toml::de::DeTable;

use crate::document::{AgentLimits, Budgets, Method, Policy, REFUND_HOST, TOOLS, WhenStripeAsks};
use crate::fault::{Fault, echo, nearest};
use crate::reader::{Key, Keys, Reader, Value, choice, team, user, word};
use crate::rules::Rules;
use crate::webhook::WebhookUrl;

/// Longest document, in bytes: some thousand agents.
pub(crate) const TEXT_BYTES_MAX: usize = 256 * 1024;
/// How long a request waits for a person where the document does not say.
const APPROVAL_TIMEOUT: Duration = Duration::from_hours(24);
/// The shortest and the longest such wait.
const APPROVAL_TIMEOUT_RANGE: [Duration; 2] = [Duration::from_mins(1), Duration::from_hours(336)];
/// The fewest and the most people that one reason may ask for.
pub(crate) const APPROVALS_RANGE: [u32; 2] = [1, 10];
/// The fewest and the most refunds within an hour that can be set.
const REFUNDS_PER_HOUR_RANGE: [u32; 2] = [0, 100_000];

const DOCUMENT_KEYS: Keys = Keys { kept: &["agents", "organization", "rules", "teams"] };
const ORGANIZATION_KEYS: Keys =
    Keys { kept: &["approval_timeout", "timezone", "when_stripe_asks"] };
const AGENT_KEYS: Keys = Keys {
    kept: &[
        "allowed_hosts",
        "approval_threshold",
        "approvals_required",
        "daily_cap",
        "max_per_payment",
        "methods",
        "monthly_cap",
        "on_approval",
        "owner",
        "per_customer_daily_cap",
        "refunds_per_hour",
        "reviewers",
        "tags",
        "team",
        "tools",
        "webhook",
        "weekly_cap",
    ],
};
const TEAM_KEYS: Keys = Keys {
    kept: &[
        "allowed_hosts",
        "approval_threshold",
        "approvals_required",
        "daily_budget",
        "daily_cap",
        "max_per_payment",
        "methods",
        "monthly_budget",
        "monthly_cap",
        "on_approval",
        "owner",
        "per_customer_daily_cap",
        "refunds_per_hour",
        "reviewers",
        "tags",
        "tools",
        "webhook",
        "weekly_cap",
    ],
};

impl Policy {
    /// Reads a document.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, in the order of the text. A text that is not TOML is not
    /// looked at further than that.
    pub fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        let mut reader = Reader::new(text);
        let policy = reader.document();
        reader.done(policy)
    }
}

/// The lines that an agent has, or takes from its team.
#[derive(Default)]
struct Lines {
    methods: Option<BTreeSet<Method>>,
    allowed_hosts: Option<BTreeSet<&'static str>>,
    tools: Option<BTreeSet<&'static str>>,
    tags: Option<BTreeSet<String>>,
    max_per_payment: Option<MicroUsd>,
    daily_cap: Option<MicroUsd>,
    weekly_cap: Option<MicroUsd>,
    monthly_cap: Option<MicroUsd>,
    per_customer_daily_cap: Option<MicroUsd>,
    refunds_per_hour: Option<u32>,
    approval_threshold: Option<MicroUsd>,
    reviewers: Option<BTreeSet<String>>,
    approvals_required: Option<u16>,
    owner: Option<UserName>,
    on_approval: Option<OnApproval>,
    webhook: Option<WebhookUrl>,
}

impl Lines {
    /// The agent's own lines, and its team's where it has none.
    fn over(self, team: Option<&Self>, name: Option<TeamName>) -> AgentLimits {
        let none = Self::default();
        let team = team.unwrap_or(&none);
        AgentLimits {
            team: name,
            tags: either(self.tags, team.tags.as_ref()),
            methods: either(self.methods, team.methods.as_ref()),
            allowed_hosts: either(self.allowed_hosts, team.allowed_hosts.as_ref()),
            tools: either(self.tools, team.tools.as_ref()),
            max_per_payment: self.max_per_payment.or(team.max_per_payment),
            daily_cap: self.daily_cap.or(team.daily_cap),
            weekly_cap: self.weekly_cap.or(team.weekly_cap),
            monthly_cap: self.monthly_cap.or(team.monthly_cap),
            per_customer_daily_cap: self.per_customer_daily_cap.or(team.per_customer_daily_cap),
            refunds_per_hour: self.refunds_per_hour.or(team.refunds_per_hour),
            approval_threshold: self.approval_threshold.or(team.approval_threshold),
            reviewers: either(self.reviewers, team.reviewers.as_ref()),
            approvals_required: self.approvals_required.or(team.approvals_required).unwrap_or(1),
            owner: self.owner.or_else(|| team.owner.clone()),
            on_approval: self.on_approval.or(team.on_approval).unwrap_or(OnApproval::Execute),
            webhook: self.webhook.or_else(|| team.webhook.clone()),
        }
    }
}

fn either<T: Clone + Ord>(own: Option<BTreeSet<T>>, team: Option<&BTreeSet<T>>) -> BTreeSet<T> {
    own.or_else(|| team.cloned()).unwrap_or_default()
}

impl Reader<'_> {
    fn document(&mut self) -> Policy {
        let mut policy = Policy {
            timezone: TimeZone::UTC,
            approval_timeout: APPROVAL_TIMEOUT,
            when_stripe_asks: WhenStripeAsks::default(),
            teams: BTreeMap::new(),
            agents: BTreeMap::new(),
            rules: Rules::default(),
        };
        let Some(table) = self.toml(TEXT_BYTES_MAX) else {
            return policy;
        };
        let table: &DeTable<'_> = table.get_ref();
        let (mut agents, mut teams, mut rules) = (None, None, None);
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "agents" => agents = Some(value),
                "organization" => self.organization(value, &mut policy),
                "rules" => rules = Some(value),
                "teams" => teams = Some(value),
                _ => self.unknown(key, "the document", &DOCUMENT_KEYS),
            }
        }
        // Agents name teams, and rules name both.
        let teams = teams.map_or_else(BTreeMap::new, |value| self.teams(value));
        policy.teams = teams.iter().map(|(name, (budgets, _))| (name.clone(), *budgets)).collect();
        policy.agents = agents.map_or_else(BTreeMap::new, |value| self.agents(value, &teams));
        if let Some(value) = rules {
            policy.rules = self.rules(value, &policy);
        }
        policy
    }

    fn organization(&mut self, value: &Value<'_>, policy: &mut Policy) {
        let Some(table) = self.table(value, "[organization]") else {
            return;
        };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "approval_timeout" => {
                    if let Some(timeout) = self.parsed(key, value, timeout) {
                        policy.approval_timeout = timeout;
                    }
                }
                "timezone" => {
                    if let Some(zone) = self.parsed(key, value, zone) {
                        policy.timezone = zone;
                    }
                }
                "when_stripe_asks" => {
                    let choices = [WhenStripeAsks::Both, WhenStripeAsks::Stripe];
                    let choices = choices.map(|whose| (whose.as_str(), whose));
                    let whose = self.parsed(key, value, |text| choice(text, &choices));
                    policy.when_stripe_asks = whose.unwrap_or_default();
                }
                _ => self.unknown(key, "[organization]", &ORGANIZATION_KEYS),
            }
        }
    }

    fn teams(&mut self, value: &Value<'_>) -> BTreeMap<TeamName, (Budgets, Lines)> {
        let mut teams = BTreeMap::new();
        for (key, value) in self.table(value, "[teams]").into_iter().flatten() {
            match team(key.get_ref()) {
                Ok(name) => {
                    let read = self.team(&name, value);
                    teams.insert(name, read);
                }
                Err(message) => self.fault(key.span().start, message),
            }
        }
        teams
    }

    fn team(&mut self, name: &TeamName, value: &Value<'_>) -> (Budgets, Lines) {
        let (mut budgets, mut lines) = (Budgets::default(), Lines::default());
        let place = format!("[teams.{name}]");
        for (key, value) in self.table(value, &place).into_iter().flatten() {
            match key.get_ref().as_ref() {
                "daily_budget" => budgets.daily = self.dollars(key, value),
                "monthly_budget" => budgets.monthly = self.dollars(key, value),
                _ if self.line(key, value, &mut lines) => {}
                _ => self.unknown(key, &place, &TEAM_KEYS),
            }
        }
        (budgets, lines)
    }

    fn agents(
        &mut self,
        value: &Value<'_>,
        teams: &BTreeMap<TeamName, (Budgets, Lines)>,
    ) -> BTreeMap<AgentName, AgentLimits> {
        let mut agents = BTreeMap::new();
        for (key, value) in self.table(value, "[agents]").into_iter().flatten() {
            match AgentName::parse(key.get_ref()) {
                Ok(name) => {
                    let limits = self.agent(&name, value, teams);
                    agents.insert(name, limits);
                }
                Err(invalid) => {
                    let name = echo(key.get_ref());
                    let message = format!("{name} is no agent's name: expected {}", invalid.form());
                    self.fault(key.span().start, message);
                }
            }
        }
        agents
    }

    fn agent(
        &mut self,
        name: &AgentName,
        value: &Value<'_>,
        teams: &BTreeMap<TeamName, (Budgets, Lines)>,
    ) -> AgentLimits {
        let (mut lines, mut of) = (Lines::default(), None);
        let place = format!("[agents.{name}]");
        let known = |text: &str| {
            let name = team(text)?;
            match teams.contains_key(&name) {
                true => Ok(name),
                false => Err(absent("team", text, teams.keys().map(TeamName::as_str), "[teams.")),
            }
        };
        for (key, value) in self.table(value, &place).into_iter().flatten() {
            match key.get_ref().as_ref() {
                "team" => of = self.parsed(key, value, known),
                "daily_budget" | "monthly_budget" => {
                    let message = format!(
                        "{} is a team's: write it under [teams.NAME], or cap the agent with \
                         daily_cap or monthly_cap",
                        key.get_ref()
                    );
                    self.fault(key.span().start, message);
                }
                _ if self.line(key, value, &mut lines) => {}
                _ => self.unknown(key, &place, &AGENT_KEYS),
            }
        }
        let team = of.as_ref().and_then(|name| teams.get(name)).map(|(_, lines)| lines);
        lines.over(team, of)
    }

    /// Reads a line that agents and teams share; false when it is none.
    fn line(&mut self, key: &Key<'_>, value: &Value<'_>, lines: &mut Lines) -> bool {
        match key.get_ref().as_ref() {
            "allowed_hosts" => {
                lines.allowed_hosts = Some(self.choices(key, value, &[(REFUND_HOST, REFUND_HOST)]));
            }
            "approval_threshold" => lines.approval_threshold = self.dollars(key, value),
            "approvals_required" => lines.approvals_required = self.people(key, value),
            "daily_cap" => lines.daily_cap = self.dollars(key, value),
            "max_per_payment" => lines.max_per_payment = self.dollars(key, value),
            "methods" => {
                let methods = Method::ALL.map(|method| (method.as_str(), method));
                lines.methods = Some(self.choices(key, value, &methods));
            }
            "monthly_cap" => lines.monthly_cap = self.dollars(key, value),
            "on_approval" => lines.on_approval = self.parsed(key, value, on_approval),
            "owner" => lines.owner = self.parsed(key, value, user),
            "per_customer_daily_cap" => lines.per_customer_daily_cap = self.dollars(key, value),
            "refunds_per_hour" => {
                lines.refunds_per_hour = self.count(key, value, REFUNDS_PER_HOUR_RANGE);
            }
            "reviewers" => lines.reviewers = Some(self.list(key, value, "of reviewer roles", word)),
            "tags" => lines.tags = Some(self.list(key, value, "each a tag", word)),
            "tools" => {
                let tools = TOOLS.map(|tool| (tool, tool));
                lines.tools = Some(self.choices(key, value, &tools));
            }
            "webhook" => lines.webhook = self.parsed(key, value, WebhookUrl::parse),
            "weekly_cap" => lines.weekly_cap = self.dollars(key, value),
            _ => return false,
        }
        true
    }

    pub(crate) fn people(&mut self, key: &Key<'_>, value: &Value<'_>) -> Option<u16> {
        self.count(key, value, APPROVALS_RANGE).and_then(|count| u16::try_from(count).ok())
    }
}

/// What to say of a name that stands nowhere.
pub(crate) fn absent<'n>(
    what: &str,
    name: &str,
    known: impl IntoIterator<Item = &'n str>,
    table: &str,
) -> String {
    let given = echo(name);
    match nearest(name, known) {
        Some(meant) => format!("no {what} {given}: did you mean \"{meant}\"?"),
        None => format!("no {what} {given}: add {table}{name}], or use another name"),
    }
}

fn timeout(text: &str) -> Result<Duration, String> {
    let [least, most] = APPROVAL_TIMEOUT_RANGE;
    duration(text).filter(|span| (least..=most).contains(span)).ok_or_else(|| {
        let given = echo(text);
        format!("{given} will not do: write \"1m\" to \"14d\", with one unit of s, m, h, d")
    })
}

fn duration(text: &str) -> Option<Duration> {
    let (at, unit) = text.char_indices().next_back()?;
    let seconds_each: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return None,
    };
    let digits = text.get(..at)?;
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    count.checked_mul(seconds_each).map(Duration::from_secs)
}

fn zone(text: &str) -> Result<TimeZone, String> {
    let zones = TimeZoneDatabase::bundled();
    if let Some(zone) = zones.get(text).ok().filter(|zone| !zone.is_unknown()) {
        return Ok(if zone.iana_name() == Some("UTC") { TimeZone::UTC } else { zone });
    }
    let names: Vec<String> = zones.available().map(|name| name.to_string()).collect();
    let given = echo(text);
    Err(match nearest(text, names.iter().map(String::as_str)) {
        Some(meant) => format!("no time zone {given}: did you mean \"{meant}\"?"),
        None => format!("no time zone {given}: write an IANA name such as \"America/New_York\""),
    })
}

fn on_approval(text: &str) -> Result<OnApproval, String> {
    match text {
        "agent" => Ok(OnApproval::Agent),
        "execute" => Ok(OnApproval::Execute),
        _ => Err(format!(
            "{} will not do: write \"execute\" (the gateway goes on at once) or \"agent\" (when \
             the agent asks again)",
            echo(text)
        )),
    }
}
