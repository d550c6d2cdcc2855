//! Reads `[[rules]]`.

use std::collections::{BTreeMap, BTreeSet};

use gate_core::{AgentName, RefundReason, TeamName};
use gate_money::Currency;
use toml::de::DeTable;

use super::cedar::{self, Blame};
use super::facts::NO_REASON;
use super::{Control, Field, Rule, Rules, Selector};
use crate::document::Policy;
use crate::fault::echo;
use crate::parse::absent;
use crate::reader::{Key, Keys, Reader, Value, choice, place_in, word};

/// Most rules of a document.
const RULES_MAX: usize = 200;
/// Longest Cedar condition, in bytes.
const WHEN_BYTES_MAX: usize = 4096;
/// A hundred years.
const DAYS_RANGE: [u32; 2] = [0, 36_500];
/// Stripe's words for what Radar found.
const RISK_LEVELS: [&str; 5] = ["elevated", "highest", "normal", "not_assessed", "unknown"];

const RULE_KEYS: Keys = Keys {
    kept: &[
        "agents",
        "amount_over",
        "approvals_required",
        "charge_metadata",
        "charge_older_than_days",
        "control",
        "currency_in",
        "customer_younger_than_days",
        "disputed",
        "enabled",
        "full_refund",
        "id",
        "livemode",
        "payment_method_in",
        "reason_in",
        "refunded_before",
        "reviewers",
        "risk_level_in",
        "when",
    ],
};

impl Reader<'_> {
    pub(crate) fn rules(&mut self, value: &Value<'_>, policy: &Policy) -> Rules {
        let Some(list) = value.get_ref().as_array() else {
            let message = "rules: write each rule as a [[rules]] table".to_owned();
            self.fault(value.span().start, message);
            return Rules::default();
        };
        let mut rules: BTreeMap<String, Rule> = BTreeMap::new();
        for (place, value) in list.iter().enumerate() {
            if place >= RULES_MAX {
                let message = format!("there are more than {RULES_MAX} rules: join some");
                self.fault(value.span().start, message);
                break;
            }
            let Some(table) = self.table(value, "[[rules]]") else {
                continue;
            };
            if let Some(rule) = self.rule(table, value.span().start, policy) {
                if rules.contains_key(&rule.id) {
                    let message = format!("there are two rules {:?}: rename one", rule.id);
                    self.fault(value.span().start, message);
                }
                rules.insert(rule.id.clone(), rule);
            }
        }
        Rules::of(rules.into_values().collect())
    }

    fn rule(&mut self, table: &DeTable<'_>, at: usize, policy: &Policy) -> Option<Rule> {
        let mut rule = Rule {
            id: String::new(),
            agents: BTreeSet::from([Selector::Everybody]),
            fields: Vec::new(),
            when: None,
            control: Control::Block,
            reviewers: None,
            approvals_required: None,
            enabled: true,
            reads: BTreeSet::new(),
            excuses: BTreeSet::new(),
            doubts: Vec::new(),
        };
        let faults_before = self.faults.len();
        let (mut id, mut control, mut when) = (None, None, None);
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "agents" => {
                    rule.agents = self.some(key, value, "agents", |text| selector(text, policy));
                }
                "approvals_required" => rule.approvals_required = self.people(key, value),
                "control" => {
                    control = Some(self.parsed(key, value, |text| choice(text, &Control::ALL)));
                }
                "enabled" => rule.enabled = self.switch(key, value).unwrap_or(true),
                "id" => id = Some(self.parsed(key, value, word)),
                "reviewers" => {
                    rule.reviewers = Some(self.list(key, value, "of reviewer roles", word));
                }
                "when" => {
                    rule.when = self.parsed(key, value, condition);
                    when = Some(value);
                }
                _ => match self.field(key, value) {
                    Some(field) => rule.fields.extend(field),
                    None => self.unknown(key, "[[rules]]", &RULE_KEYS),
                },
            }
        }
        rule.fields.sort();
        match id {
            None => self.fault(at, "this rule has no id: add id = \"a-name\"".to_owned()),
            Some(id) => rule.id = id.unwrap_or_default(),
        }
        let place = format!("the rule {:?}", rule.id);
        match control {
            None => {
                let message = format!(
                    "{place} has no control: add control = \"block\" or \"require_approval\""
                );
                self.fault(at, message);
            }
            Some(control) => rule.control = control.unwrap_or(Control::Block),
        }
        if rule.fields.is_empty() && rule.when.is_none() && self.faults.len() == faults_before {
            let message = format!(
                "{place} has no condition: add a field such as amount_over, or when = \"true\" to \
                 match every refund"
            );
            self.fault(at, message);
        }
        if rule.control == Control::Block
            && (rule.reviewers.is_some() || rule.approvals_required.is_some())
        {
            let message = format!(
                "{place} blocks, so it asks nobody: remove reviewers and approvals_required, or \
                 set control = \"require_approval\""
            );
            self.fault(at, message);
        }
        if self.faults.len() != faults_before {
            return None;
        }
        match cedar::check(&rule) {
            Ok(checked) => {
                rule.reads = checked.reads;
                rule.excuses = checked.excuses;
                rule.doubts = checked.doubts;
                Some(rule)
            }
            Err(blames) => {
                self.blame(blames, when, at);
                None
            }
        }
    }

    fn blame(&mut self, blames: Vec<Blame>, when: Option<&Value<'_>>, at: usize) {
        for Blame { offset, message } in blames {
            let place = match (when, offset) {
                (Some(value), Some(offset)) => place_in(self.text, value, offset),
                (Some(value), None) => value.span().start,
                (None, _) => at,
            };
            self.fault(place, format!("when: {message}"));
        }
    }

    /// A field of a rule, absent where it is at fault; none when the key is no field.
    fn field(&mut self, key: &Key<'_>, value: &Value<'_>) -> Option<Option<Field>> {
        Some(match key.get_ref().as_ref() {
            "amount_over" => self.dollars(key, value).map(Field::AmountOver),
            "charge_metadata" => self.metadata(key, value).map(Field::ChargeMetadata),
            "charge_older_than_days" => {
                self.count(key, value, DAYS_RANGE).map(Field::ChargeOlderThanDays)
            }
            "currency_in" => Some(Field::CurrencyIn(self.some(key, value, "currencies", currency))),
            "customer_younger_than_days" => {
                self.count(key, value, DAYS_RANGE).map(Field::CustomerYoungerThanDays)
            }
            "disputed" => self.switch(key, value).map(Field::Disputed),
            "full_refund" => self.switch(key, value).map(Field::FullRefund),
            "livemode" => self.switch(key, value).map(Field::Livemode),
            "payment_method_in" => {
                let list = self.some(key, value, "payment methods", payment_method);
                Some(Field::PaymentMethodIn(list))
            }
            "reason_in" => Some(Field::ReasonIn(self.some(key, value, "reasons", reason))),
            "refunded_before" => self.switch(key, value).map(Field::RefundedBefore),
            "risk_level_in" => {
                Some(Field::RiskLevelIn(self.some(key, value, "risk levels", risk_level)))
            }
            _ => return None,
        })
    }

    fn metadata(&mut self, key: &Key<'_>, value: &Value<'_>) -> Option<BTreeMap<String, String>> {
        let table = self.table(value, "charge_metadata")?;
        let mut pairs = BTreeMap::new();
        for (name, value) in table {
            if let Some(text) = self.parsed(name, value, |text| Ok(text.to_owned())) {
                pairs.insert(name.get_ref().to_string(), text);
            }
        }
        if pairs.is_empty() {
            let message = format!("{}: write pairs, {{ key = \"value\" }}", key.get_ref());
            self.fault(value.span().start, message);
        }
        Some(pairs)
    }
}

fn selector(text: &str, policy: &Policy) -> Result<Selector, String> {
    if text == "*" {
        return Ok(Selector::Everybody);
    }
    if let Some(tag) = text.strip_prefix("tag:") {
        return word(tag).map(Selector::Tag);
    }
    if let Some(name) = text.strip_prefix("team:") {
        let team = TeamName::parse(name).ok().filter(|team| policy.teams.contains_key(team));
        let known = policy.teams.keys().map(TeamName::as_str);
        return team.map(Selector::Team).ok_or_else(|| absent("team", name, known, "[teams."));
    }
    let agent = AgentName::parse(text).ok().filter(|name| policy.agents.contains_key(name));
    let known = policy.agents.keys().map(AgentName::as_str);
    agent.map(Selector::Agent).ok_or_else(|| absent("agent", text, known, "[agents."))
}

fn condition(text: &str) -> Result<String, String> {
    if text.len() > WHEN_BYTES_MAX {
        return Err(format!("the condition is longer than {WHEN_BYTES_MAX} bytes: shorten it"));
    }
    Ok(text.to_owned())
}

fn currency(text: &str) -> Result<String, String> {
    Currency::parse(text)
        .map(|currency| currency.lower().to_owned())
        .map_err(|_| format!("no currency {}: write a code such as \"eur\"", echo(text)))
}

fn payment_method(text: &str) -> Result<String, String> {
    let like = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if (1..=64).contains(&text.len()) && text.bytes().all(like) {
        return Ok(text.to_owned());
    }
    Err(format!("{} will not do: write Stripe's type, such as \"card\"", echo(text)))
}

fn reason(text: &str) -> Result<String, String> {
    let mut choices: Vec<_> =
        RefundReason::ALL.map(|reason| (reason.as_str(), reason.as_str())).to_vec();
    choices.push((NO_REASON, NO_REASON));
    choice(text, &choices).map(str::to_owned)
}

fn risk_level(text: &str) -> Result<String, String> {
    choice(text, &RISK_LEVELS.map(|level| (level, level))).map(str::to_owned)
}
