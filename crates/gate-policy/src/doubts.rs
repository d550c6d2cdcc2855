//! What is legal and probably not meant.

use std::collections::BTreeSet;

use gate_core::{AgentName, Tool};

use crate::document::{AgentLimits, Policy, REFUND_HOST, WhenStripeAsks};
use crate::rules::{Control, Field, Rule, Selector};
use crate::words::{and, largest};

/// Roles that look at things or change them, and never approve.
const NOT_REVIEWING: [&str; 4] = ["auditor", "owner", "policy-editor", "viewer"];
/// Stripe's types of payment methods, as far as this version knows them.
const PAYMENT_METHODS: [&str; 46] = [
    "acss_debit",
    "affirm",
    "afterpay_clearpay",
    "alipay",
    "alma",
    "amazon_pay",
    "au_becs_debit",
    "bacs_debit",
    "bancontact",
    "billie",
    "blik",
    "boleto",
    "card",
    "card_present",
    "cashapp",
    "crypto",
    "customer_balance",
    "eps",
    "fpx",
    "giropay",
    "grabpay",
    "ideal",
    "interac_present",
    "kakao_pay",
    "klarna",
    "konbini",
    "kr_card",
    "link",
    "mobilepay",
    "multibanco",
    "naver_pay",
    "oxxo",
    "p24",
    "pay_by_bank",
    "payco",
    "paynow",
    "paypal",
    "pix",
    "promptpay",
    "revolut_pay",
    "samsung_pay",
    "sepa_debit",
    "swish",
    "twint",
    "us_bank_account",
    "wechat_pay",
];

impl Policy {
    /// What is legal and probably not meant, one sentence each.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        if self.agents.is_empty() {
            return vec!["no agent has an entry, so no agent may do anything".to_owned()];
        }
        let agents = self.agents.iter().flat_map(|(name, limits)| self.doubts(name, limits));
        let teams = self
            .teams
            .keys()
            .filter(|team| !self.agents.values().any(|limits| limits.team.as_ref() == Some(*team)));
        let teams = teams.map(|team| {
            format!("teams.{team}: no agent is in it: add team = \"{team}\" to an agent's entry")
        });
        let rules = self.rules.list.iter().flat_map(|rule| self.rule_doubts(rule));
        let roles = self.roles();
        let idle: Vec<_> = roles.iter().filter(|r| NOT_REVIEWING.contains(&r.as_str())).collect();
        let idle = (!idle.is_empty()).then(|| {
            format!(
                "reviewers: nobody approves by the role {}, so what asks for it alone expires: name \
                 a role of your own",
                and(idle)
            )
        });
        let left = (self.when_stripe_asks == WhenStripeAsks::Stripe).then(|| {
            "organization.when_stripe_asks: with an agent-tagged key nobody is asked here, so an \
             approval rule at Stripe has to cover every refund that a person is to see: look there \
             under Settings, Approvals"
                .to_owned()
        });
        agents.chain(teams).chain(rules).chain(idle).chain(left).collect()
    }

    /// What becomes of each rule that is on and reads `fact`, one sentence each, where nobody can
    /// know that fact.
    #[must_use]
    pub fn without(&self, fact: &str) -> Vec<String> {
        let rules = self.rules.list.iter().filter(|it| it.enabled && it.reads.contains(fact));
        rules
            .map(|rule| {
                let comes_to = if rule.excuses.contains(fact) {
                    "passes what it lets pass unknown"
                } else {
                    "counts as matched wherever it depends on it"
                };
                format!("rules.{}: reads {fact}, which nobody knows, so it {comes_to}", rule.id)
            })
            .collect()
    }

    fn doubts(&self, name: &AgentName, limits: &AgentLimits) -> Vec<String> {
        let mut doubts = Vec::new();
        let mut doubt = |applies: bool, text: String| {
            if applies {
                doubts.push(format!("agents.{name}: {text}"));
            }
        };
        let refunds = !limits.methods.is_empty();
        let finance = limits.tools.contains(Tool::FinanceRefund.as_str());
        doubt(
            !refunds && (limits.tools.is_empty() || finance),
            "there are no methods, so it may refund nothing: add methods = [\"stripe_refund\"]"
                .to_owned(),
        );
        doubt(
            refunds && !limits.allowed_hosts.contains(REFUND_HOST),
            format!(
                "it has methods but no host, so it may refund nothing: add allowed_hosts = \
                 [\"{REFUND_HOST}\"]"
            ),
        );
        doubt(
            refunds && !self.bounds(limits),
            "it has methods but no daily_cap, and nothing else bounds it, so every refund is \
             denied: add one, such as daily_cap = \"200.00\""
                .to_owned(),
        );
        doubt(
            refunds && finance,
            "it may ask for refunds by stripe_refund, which counts in minor units, and by \
             finance_refund, which counts in whole ones: see that its model does not mix them up"
                .to_owned(),
        );
        doubt(
            self.allowed(limits).is_ok() && !self.asks(name, limits),
            "nothing ever asks a person for its refunds: set approval_threshold, or a rule with \
             control = \"require_approval\""
                .to_owned(),
        );
        if let (Some(most), Some(cap)) = (limits.max_per_payment, limits.daily_cap) {
            doubt(
                most > cap,
                format!(
                    "max_per_payment ({most}) is over daily_cap ({cap}) and never decides: lower it"
                ),
            );
        }
        let caps = [
            ("daily_cap", limits.daily_cap),
            ("weekly_cap", limits.weekly_cap),
            ("monthly_cap", limits.monthly_cap),
        ];
        let caps: Vec<_> = caps.into_iter().filter_map(|(key, cap)| Some((key, cap?))).collect();
        for ((shorter, one), (longer, other)) in caps.iter().zip(caps.iter().skip(1)) {
            doubt(
                one > other,
                format!("{shorter} ({one}) is over {longer} ({other}) and never decides: lower it"),
            );
        }
        if let (Some(threshold), Some(most)) = (limits.approval_threshold, largest(limits)) {
            doubt(
                threshold > most,
                format!(
                    "approval_threshold ({threshold}) is over the largest refund that is possible \
                     ({most}), so no person is ever asked: lower it"
                ),
            );
        }
        doubts
    }

    /// Whether anything can ask a person for a refund of the agent.
    fn asks(&self, name: &AgentName, limits: &AgentLimits) -> bool {
        let rule = |rule: &Rule| {
            rule.enabled
                && rule.control == Control::RequireApproval
                && rule.looks_at(name, Some(limits))
        };
        limits.approval_threshold.is_some() || self.rules.list.iter().any(rule)
    }

    fn rule_doubts(&self, rule: &Rule) -> Vec<String> {
        let tags: BTreeSet<&String> = self.agents.values().flat_map(|it| &it.tags).collect();
        let mut doubts = rule.doubts.clone();
        if !rule.enabled {
            doubts.push("it is switched off and decides nothing: set enabled = true".to_owned());
        }
        for selector in &rule.agents {
            if let Selector::Tag(tag) = selector
                && !tags.contains(tag)
            {
                doubts.push(format!("no agent is tagged {tag}: add it to an agent's tags"));
            }
        }
        for fact in &rule.excuses {
            doubts.push(format!(
                "`context has {fact}` lets a refund pass whose {fact} is unknown: leave it out, \
                 unless that is meant"
            ));
        }
        for field in &rule.fields {
            if let Field::PaymentMethodIn(list) = field {
                let strange = list.iter().filter(|it| !PAYMENT_METHODS.contains(&it.as_str()));
                doubts.extend(strange.map(|it| {
                    format!("payment_method_in: this version knows no {it:?} of Stripe's")
                }));
            }
        }
        doubts.into_iter().map(|text| format!("rules.{}: {text}", rule.id)).collect()
    }
}
