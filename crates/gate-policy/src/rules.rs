//! Rules: conditions on the facts of one request, which block it or ask for a person.
//!
//! Fields and `when` mean Cedar conditions, checked by one schema. Invariant *unknown-is-not-innocent*:
//! a condition that meets a fact which nobody knows, or cannot be worked out at all, counts as
//! matched, so a rule can be got round by no gap in what is known.

mod cedar;
mod facts;
mod fields;
mod read;

use std::collections::BTreeSet;

use gate_core::{AgentName, DecisionReason, ReasonCode, Requirement, TeamName};

pub(crate) use cedar::Context;
pub(crate) use fields::Field;

use self::cedar::{Condition, Question};
use crate::decide::Facts;
use crate::document::AgentLimits;

/// The rules of a document, by id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    pub(crate) list: Vec<Rule>,
    /// What each asks of Cedar.
    conditions: Vec<Condition>,
}

impl PartialEq for Rules {
    fn eq(&self, other: &Self) -> bool {
        self.list == other.list
    }
}

/// One rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Rule {
    pub(crate) id: String,
    pub(crate) agents: BTreeSet<Selector>,
    /// All have to hold; in the order of their kinds, what is always known first.
    pub(crate) fields: Vec<Field>,
    /// Has to hold too: a Cedar condition, as it is written.
    pub(crate) when: Option<String>,
    pub(crate) control: Control,
    /// Absent: the agent's.
    pub(crate) reviewers: Option<BTreeSet<String>>,
    /// Absent: the agent's.
    pub(crate) approvals_required: Option<u16>,
    pub(crate) enabled: bool,
    /// The facts that it reads.
    pub(crate) reads: BTreeSet<String>,
    /// The facts that it lets pass when they are unknown, by `context has`.
    pub(crate) excuses: BTreeSet<String>,
    /// What the schema's check finds legal and odd.
    pub(crate) doubts: Vec<String>,
}

/// Whose refunds a rule looks at.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Selector {
    Agent(AgentName),
    Everybody,
    Tag(String),
    Team(TeamName),
}

/// What a rule does with what it matches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Control {
    Block,
    RequireApproval,
}

impl Rules {
    pub(crate) fn of(list: Vec<Rule>) -> Self {
        let conditions = list.iter().map(Condition::of).collect();
        Self { list, conditions }
    }

    /// The roles that rules name.
    pub(crate) fn reviewers(&self) -> impl Iterator<Item = &BTreeSet<String>> {
        self.list.iter().filter_map(|rule| rule.reviewers.as_ref())
    }

    /// The reasons of the rules that match: what blocks, and what asks. Cedar, which takes its
    /// time, is asked only about rules that may match.
    pub(crate) fn reasons(
        &self,
        context: &Context<'_>,
    ) -> (Vec<DecisionReason>, Vec<DecisionReason>) {
        let Context { facts, limits, .. } = *context;
        let (mut block, mut ask) = (Vec::new(), Vec::new());
        let may_match = |rule: &Rule| {
            rule.enabled && rule.looks_at(facts.agent, limits) && !rule.surely_passes(facts)
        };
        let rules = self.list.iter().zip(&self.conditions);
        let open: Vec<_> = rules.filter(|(rule, _)| may_match(rule)).collect();
        if open.is_empty() {
            return (block, ask);
        }
        let question = Question::of(context, open.iter().map(|(rule, _)| *rule));
        for (rule, condition) in open {
            let into = match rule.control {
                Control::Block => &mut block,
                Control::RequireApproval => &mut ask,
            };
            let matched = condition.matches(rule, question.as_ref(), context);
            into.extend(matched.map(|found| rule.reason(&found, facts, limits)));
        }
        (block, ask)
    }
}

/// How a rule came to match.
pub(crate) enum Matched {
    /// Its condition holds.
    Holds,
    /// It cannot be worked out, and not because of a fact.
    Unclear,
    /// It needs a fact that is unknown.
    Unknown(String),
}

impl Rule {
    /// Whether an agent's refunds are its business.
    pub(crate) fn looks_at(&self, agent: &AgentName, limits: Option<&AgentLimits>) -> bool {
        self.agents.iter().any(|selector| match selector {
            Selector::Agent(name) => name == agent,
            Selector::Everybody => true,
            Selector::Tag(tag) => limits.is_some_and(|limits| limits.tags.contains(tag)),
            Selector::Team(team) => limits.is_some_and(|limits| limits.team.as_ref() == Some(team)),
        })
    }

    /// Whether a field decides that it does not match, and none before that reads the unknown. Cedar
    /// would say the same, later; only Cedar says that a rule matches.
    fn surely_passes(&self, facts: &Facts<'_>) -> bool {
        let mut decided = self.fields.iter().map(|field| field.holds(facts));
        decided.find(|holds| *holds != Some(true)) == Some(Some(false))
    }

    fn reason(
        &self,
        matched: &Matched,
        facts: &Facts<'_>,
        limits: Option<&AgentLimits>,
    ) -> DecisionReason {
        let because = match matched {
            Matched::Holds => String::new(),
            Matched::Unclear => ", because its condition cannot be worked out here".to_owned(),
            Matched::Unknown(fact) => {
                format!(", because {fact} is unknown ({})", facts::why_unknown(fact, facts))
            }
        };
        let (id, condition) = (&self.id, self.condition());
        let (message, requires) = match self.control {
            Control::Block => (
                format!(
                    "The rule {id} ({condition}) blocks this refund{because}: ask a policy owner \
                     to make it, or to change the rule."
                ),
                None,
            ),
            Control::RequireApproval => (
                format!("The rule {id} ({condition}) asks for a person{because}."),
                Some(self.requirement(limits)),
            ),
        };
        DecisionReason {
            rule: Some(id.clone()),
            unknown_fact: match matched {
                Matched::Unknown(fact) => Some(fact.clone()),
                Matched::Holds | Matched::Unclear => None,
            },
            requires,
            ..DecisionReason::plain(ReasonCode::Rule, message)
        }
    }

    /// Whose approval it takes: its own lines, else the agent's.
    fn requirement(&self, limits: Option<&AgentLimits>) -> Requirement {
        let agents = limits.map_or(Requirement::ANYBODY, AgentLimits::requirement);
        Requirement {
            roles: match &self.reviewers {
                Some(roles) => roles.iter().cloned().collect(),
                None => agents.roles,
            },
            people: self.approvals_required.unwrap_or(agents.people),
        }
    }

    /// What has to hold, as a person reads it.
    pub(crate) fn condition(&self) -> String {
        let fields = self.fields.iter().map(Field::words);
        let when = self.when.iter().map(|when| {
            let words: Vec<&str> = when.split_whitespace().collect();
            words.join(" ")
        });
        fields.chain(when).collect::<Vec<_>>().join(" and ")
    }
}
