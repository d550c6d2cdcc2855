//! Reads a document: every key is known, or it is a fault.
//!
//! Nothing is guessed, ignored or rounded. A key of the full product that this version does not
//! keep is refused like a typo, because a limit that is written down and not kept is worse than
//! none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use gate_core::{AgentName, OnApproval, UserName};
use gate_money::MicroUsd;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use crate::document::{AgentLimits, Method, Policy, REFUND_HOST};
use crate::fault::{Fault, echo, listed, nearest};

/// Longest document, in bytes: some thousand agents.
const TEXT_BYTES_MAX: usize = 256 * 1024;
/// How long a request waits for a person where the document does not say.
const APPROVAL_TIMEOUT: Duration = Duration::from_hours(24);
/// The shortest and the longest such wait.
const APPROVAL_TIMEOUT_RANGE: [Duration; 2] = [Duration::from_mins(1), Duration::from_hours(336)];

/// The keys of one table: those that are kept, and those of the full product that are not yet.
struct Keys {
    kept: &'static [&'static str],
    later: &'static [&'static str],
}

const DOCUMENT_KEYS: Keys = Keys { kept: &["agents", "organization"], later: &["rules", "teams"] };
const ORGANIZATION_KEYS: Keys =
    Keys { kept: &["approval_timeout", "timezone"], later: &["when_stripe_asks"] };
const AGENT_KEYS: Keys = Keys {
    kept: &[
        "allowed_hosts",
        "approval_threshold",
        "daily_cap",
        "max_per_payment",
        "methods",
        "on_approval",
        "owner",
    ],
    later: &[
        "approvals_required",
        "daily_budget",
        "monthly_budget",
        "monthly_cap",
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

impl Policy {
    /// Reads a document.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with it, in the order of the text. A text that is not TOML is not
    /// looked at further than that.
    pub fn parse(text: &str) -> Result<Self, Vec<Fault>> {
        let mut reader = Reader { text, faults: Vec::new() };
        let policy = reader.document();
        if reader.faults.is_empty() {
            return Ok(policy);
        }
        reader.faults.sort();
        Err(reader.faults)
    }
}

type Key<'t> = Spanned<DeString<'t>>;
type Value<'t> = Spanned<DeValue<'t>>;

/// Collects faults on the way; what is at fault reads as absent.
struct Reader<'t> {
    text: &'t str,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    fn document(&mut self) -> Policy {
        let mut policy = Policy {
            timezone: TimeZone::UTC,
            approval_timeout: APPROVAL_TIMEOUT,
            agents: BTreeMap::new(),
        };
        if self.text.len() > TEXT_BYTES_MAX {
            let message = format!("the document is longer than {TEXT_BYTES_MAX} bytes: shorten it");
            self.fault(0, message);
            return policy;
        }
        let (table, errors) = DeTable::parse_recoverable(self.text);
        for error in &errors {
            let offset = error.span().map_or(0, |span| span.start);
            self.fault(offset, format!("this is not TOML: {}", error.message()));
        }
        if !errors.is_empty() {
            return policy;
        }
        for (key, value) in table.get_ref() {
            match key.get_ref().as_ref() {
                "agents" => policy.agents = self.agents(value),
                "organization" => self.organization(value, &mut policy),
                _ => self.unknown(key, "the document", &DOCUMENT_KEYS),
            }
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
                _ => self.unknown(key, "[organization]", &ORGANIZATION_KEYS),
            }
        }
    }

    fn agents(&mut self, value: &Value<'_>) -> BTreeMap<AgentName, AgentLimits> {
        let mut agents = BTreeMap::new();
        for (key, value) in self.table(value, "[agents]").into_iter().flatten() {
            match AgentName::parse(key.get_ref()) {
                Ok(name) => {
                    let limits = self.agent(&name, value);
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

    fn agent(&mut self, name: &AgentName, value: &Value<'_>) -> AgentLimits {
        let mut limits = AgentLimits::nothing();
        let place = format!("[agents.{name}]");
        for (key, value) in self.table(value, &place).into_iter().flatten() {
            match key.get_ref().as_ref() {
                "allowed_hosts" => {
                    limits.allowed_hosts = self.choices(key, value, &[(REFUND_HOST, REFUND_HOST)]);
                }
                "approval_threshold" => limits.approval_threshold = self.dollars(key, value),
                "daily_cap" => limits.daily_cap = self.dollars(key, value),
                "max_per_payment" => limits.max_per_payment = self.dollars(key, value),
                "methods" => {
                    let methods = Method::ALL.map(|method| (method.as_str(), method));
                    limits.methods = self.choices(key, value, &methods);
                }
                "on_approval" => {
                    if let Some(next) = self.parsed(key, value, on_approval) {
                        limits.on_approval = next;
                    }
                }
                "owner" => limits.owner = self.parsed(key, value, user),
                _ => self.unknown(key, &place, &AGENT_KEYS),
            }
        }
        limits
    }

    fn fault(&mut self, offset: usize, message: String) {
        self.faults.push(Fault::at(self.text, offset, message));
    }

    fn unknown(&mut self, key: &Key<'_>, place: &str, keys: &Keys) {
        let name: &str = key.get_ref();
        let message = if keys.later.contains(&name) {
            format!(
                "\"{name}\" is not supported by this version: remove it, since nothing would keep it"
            )
        } else {
            let name = echo(name);
            match nearest(key.get_ref(), keys.kept.iter().copied()) {
                Some(meant) => format!("{place} has no key {name}: did you mean \"{meant}\"?"),
                None => format!(
                    "{place} has no key {name}: remove it, or use one of {}",
                    listed(keys.kept)
                ),
            }
        };
        self.fault(key.span().start, message);
    }

    fn table<'v, 't>(&mut self, value: &'v Value<'t>, place: &str) -> Option<&'v DeTable<'t>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let kind = value.get_ref().type_str();
            let message = format!("{place} has to be a table with keys of its own, not {kind}");
            self.fault(value.span().start, message);
        }
        table
    }

    /// A string that `read` takes; its error says what is wrong and what would be right.
    fn parsed<T>(
        &mut self,
        key: &Key<'_>,
        value: &Value<'_>,
        read: fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        let name = key.get_ref();
        let result = match value.get_ref().as_str() {
            Some(text) => read(text),
            None => Err(format!("{} will not do: write a string", value.get_ref().type_str())),
        };
        result.map_err(|message| self.fault(value.span().start, format!("{name}: {message}"))).ok()
    }

    fn dollars(&mut self, key: &Key<'_>, value: &Value<'_>) -> Option<MicroUsd> {
        let number = match (value.get_ref().as_integer(), value.get_ref().as_float()) {
            (Some(integer), _) => integer.to_string(),
            (None, Some(float)) => float.to_string(),
            (None, None) => return self.parsed(key, value, dollars),
        };
        let meant = MicroUsd::parse_dollars(&number).map_or("100.00".to_owned(), in_quotes);
        let message = format!("{}: money is never a float, write \"{meant}\"", key.get_ref());
        self.fault(value.span().start, message);
        None
    }

    /// A list of strings, each of which names one of `choices`.
    fn choices<T: Copy + Ord>(
        &mut self,
        key: &Key<'_>,
        value: &Value<'_>,
        choices: &[(&'static str, T)],
    ) -> BTreeSet<T> {
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        let name = key.get_ref();
        let Some(list) = value.get_ref().as_array() else {
            let message = format!("{name}: write a list of strings, of {}", listed(&names));
            self.fault(value.span().start, message);
            return BTreeSet::new();
        };
        let mut chosen = BTreeSet::new();
        for item in list.iter() {
            let text = item.get_ref().as_str();
            match choices.iter().find(|(name, _)| text == Some(*name)) {
                Some((_, choice)) => {
                    chosen.insert(*choice);
                }
                None => {
                    let given = text.map_or_else(|| item.get_ref().type_str().to_owned(), echo);
                    let message = match nearest(text.unwrap_or(""), names.iter().copied()) {
                        Some(meant) => format!("{name}: no {given}: did you mean \"{meant}\"?"),
                        None => format!("{name}: no {given}: there are only {}", listed(&names)),
                    };
                    self.fault(item.span().start, message);
                }
            }
        }
        chosen
    }
}

fn dollars(text: &str) -> Result<MicroUsd, String> {
    MicroUsd::parse_dollars(text)
        .map_err(|error| format!("{error}; these are US dollars, such as \"100.00\""))
}

/// As it is written in the document.
fn in_quotes(dollars: MicroUsd) -> String {
    dollars.to_string().trim_end_matches(" USD").to_owned()
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
        return Ok(zone);
    }
    let names: Vec<String> = zones.available().map(|name| name.to_string()).collect();
    let given = echo(text);
    Err(match nearest(text, names.iter().map(String::as_str)) {
        Some(meant) => format!("no time zone {given}: did you mean \"{meant}\"?"),
        None => format!("no time zone {given}: write an IANA name such as \"America/New_York\""),
    })
}

fn user(text: &str) -> Result<UserName, String> {
    UserName::parse(text)
        .map_err(|invalid| format!("{} is no user's name: expected {}", echo(text), invalid.form()))
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
