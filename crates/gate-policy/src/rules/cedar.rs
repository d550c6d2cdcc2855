//! The bridge to Cedar: the schema, a request's facts, what a set of rules says of them.
//!
//! Every fact is declared as required, and a request is built without the schema's check. So both
//! `context.x` and `context has x` pass the check, and a condition that reaches for an absent fact
//! ends in an error of its rule: that error is a match.

use std::collections::{BTreeSet, HashMap};
use std::str::FromStr as _;
use std::sync::{Arc, LazyLock};

use cedar_policy::{
    AuthorizationError, Authorizer, Entities, Entity, EntityId, EntityTypeName, EntityUid, Policy,
    PolicyId, PolicySet, Request, RestrictedExpression, Schema, ValidationMode, Validator,
};
use gate_core::{AgentName, CustomerFact, Dispute, RefundReason, Timestamp};
use jiff::tz::TimeZone;
use miette::Diagnostic;

use super::{Control, Matched, Rule, Selector};
use crate::decide::{Facts, NoRate};
use crate::document::AgentLimits;
use crate::rules::fields::joined;
use crate::window;

/// Who asks, and what is known. The names are the policy language's, and forever.
const SCHEMA: &str = r"
entity Agent = { name: String, team: String, tags: Set<String> };
entity Charge;
entity Metadata tags String;
action refund appliesTo {
    principal: Agent,
    resource: Charge,
    context: {
        amountMinor: Long,
        currency: String,
        usdMicros: Long,
        isFullRefund: Bool,
        chargeAmountMinor: Long,
        refundedMinor: Long,
        refundCount: Long,
        chargeAgeDays: Long,
        disputed: Bool,
        livemode: Bool,
        reason: String,
        paymentMethodType: String,
        cardCountry: String,
        riskLevel: String,
        riskScore: Long,
        customerId: String,
        customerAgeDays: Long,
        customerRefunds30d: Long,
        customerRefundedUsdMicros30d: Long,
        chargeMetadata: Metadata,
        hourOfDay: Long,
        dayOfWeek: Long,
    },
};
";
/// What `context.reason` is where the agent gave none.
pub(crate) const NO_REASON: &str = "none";
const DAY_MILLIS: i64 = 24 * 3600 * 1000;

/// What never changes; none only if the schema had a fault, and then every rule has one.
struct World {
    validator: Validator,
    authorizer: Authorizer,
    action: EntityUid,
    charge: EntityUid,
    metadata: EntityUid,
    agent: EntityTypeName,
}

static WORLD: LazyLock<Option<World>> = LazyLock::new(|| {
    Some(World {
        validator: Validator::new(Schema::from_str(SCHEMA).ok()?),
        authorizer: Authorizer::new(),
        action: EntityUid::from_str(r#"Action::"refund""#).ok()?,
        charge: EntityUid::from_str(r#"Charge::"charge""#).ok()?,
        metadata: EntityUid::from_str(r#"Metadata::"metadata""#).ok()?,
        agent: EntityTypeName::from_str("Agent").ok()?,
    })
});

/// One request, and in which light rules see it.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) facts: &'a Facts<'a>,
    pub(crate) limits: Option<&'a AgentLimits>,
    pub(crate) zone: &'a TimeZone,
}

/// Rules made ready once a document.
#[derive(Clone, Debug)]
pub(crate) struct Compiled(Arc<PolicySet>);

/// A rule's Cedar, and where `when` begins in it.
pub(crate) struct Source {
    text: String,
    when_at: usize,
}

/// What is wrong with a `when`: the byte in it, if one is to blame, and why.
pub(crate) struct Blame {
    pub(crate) offset: Option<usize>,
    pub(crate) message: String,
}

/// What a checked rule reads.
#[derive(Default)]
pub(crate) struct Checked {
    pub(crate) reads: BTreeSet<String>,
    pub(crate) excuses: BTreeSet<String>,
    pub(crate) doubts: Vec<String>,
}

impl Compiled {
    pub(crate) fn none() -> Self {
        Self(Arc::new(PolicySet::new()))
    }

    /// Of rules that [`check`] found right. A rule that is off is not among them.
    pub(crate) fn of(rules: &[Rule]) -> Self {
        let mut set = PolicySet::new();
        for (place, rule) in rules.iter().enumerate().filter(|(_, rule)| rule.enabled) {
            // One that were refused here would be missing in the set, and so be unclear: a match.
            if let Ok(policy) = Policy::parse(Some(id(place)), Source::of(rule).text) {
                drop(set.add(policy));
            }
        }
        Self(Arc::new(set))
    }

    /// For each rule whether, and how, it matches.
    pub(crate) fn matches(&self, rules: &[Rule], context: &Context<'_>) -> Vec<Option<Matched>> {
        if rules.is_empty() {
            return Vec::new();
        }
        let world = WORLD.as_ref();
        let asked = world.and_then(|world| Some((world, request(world, context)?)));
        let Some((world, (request, entities))) = asked else {
            return rules.iter().map(|rule| rule.enabled.then_some(Matched::Unclear)).collect();
        };
        let response = world.authorizer.is_authorized(&request, &self.0, &entities);
        let holds: BTreeSet<&PolicyId> = response.diagnostics().reason().collect();
        let errors: HashMap<&PolicyId, String> =
            response.diagnostics().errors().map(told).collect();
        let judge = |(place, rule): (usize, &Rule)| {
            let id = id(place);
            if !rule.enabled {
                None
            } else if let Some(error) = errors.get(&id) {
                Some(missing(rule, error, context))
            } else if holds.contains(&id) {
                Some(Matched::Holds)
            } else {
                self.0.policy(&id).is_none().then_some(Matched::Unclear)
            }
        };
        rules.iter().enumerate().map(judge).collect()
    }
}

fn told(error: &AuthorizationError) -> (&PolicyId, String) {
    match error {
        AuthorizationError::PolicyEvaluationError(error) => (error.policy_id(), error.to_string()),
    }
}

/// The fact that an error of a rule's condition is about.
fn missing(rule: &Rule, error: &str, context: &Context<'_>) -> Matched {
    let absent = |fact: &&String| is_unknown(fact, context.facts);
    let named = |fact: &&String| error.contains(&format!("`{fact}`"));
    let found = rule.reads.iter().filter(absent).find(named);
    found.map_or(Matched::Unclear, |fact| Matched::Unknown(fact.clone()))
}

impl Source {
    pub(crate) fn of(rule: &Rule) -> Self {
        let mut text = "forbid (principal, action, resource)".to_owned();
        if !rule.agents.contains(&Selector::Everybody) {
            let one = |selector: &Selector| match selector {
                Selector::Agent(name) => format!("principal.name == {:?}", name.as_str()),
                Selector::Everybody => "true".to_owned(),
                Selector::Tag(tag) => format!("principal.tags.contains({tag:?})"),
                Selector::Team(team) => format!("principal.team == {:?}", team.as_str()),
            };
            text.push_str(&clause(&joined(rule.agents.iter(), " || ", one)));
        }
        rule.fields.iter().for_each(|field| text.push_str(&clause(&field.cedar())));
        let when_at = text.len().saturating_add(WHEN.len());
        // On lines of its own, so that a comment in it ends.
        rule.when.iter().for_each(|when| text.push_str(&clause(when)));
        text.push(';');
        Self { text, when_at }
    }
}

const WHEN: &str = "\nwhen {\n";

fn clause(condition: &str) -> String {
    format!("{WHEN}{condition}\n}}")
}

fn id(place: usize) -> PolicyId {
    PolicyId::new(place.to_string())
}

/// Holds a rule against the schema.
pub(crate) fn check(rule: &Rule) -> Result<Checked, Vec<Blame>> {
    let Some(world) = WORLD.as_ref() else {
        return Err(vec![Blame { offset: None, message: "the schema has a fault".to_owned() }]);
    };
    if let Some(when) = &rule.when {
        // By itself first: `true } when { true` is no condition.
        cedar_policy::Expression::from_str(when)
            .map_err(|errors| errors.iter().map(|error| blame(error, 0)).collect::<Vec<_>>())?;
    }
    let source = Source::of(rule);
    let policy = Policy::parse(Some(id(0)), &source.text).map_err(|errors| {
        errors.iter().map(|error| blame(error, source.when_at)).collect::<Vec<_>>()
    })?;
    let mut checked = Checked::default();
    if let Ok(tree) = policy.to_json() {
        walk(&tree, &mut checked);
    }
    let mut set = PolicySet::new();
    if set.add(policy).is_err() {
        return Err(vec![Blame { offset: None, message: "it is no rule by itself".to_owned() }]);
    }
    let result = world.validator.validate(&set, ValidationMode::Strict);
    let blames: Vec<_> =
        result.validation_errors().map(|error| blame(error, source.when_at)).collect();
    checked.doubts =
        result.validation_warnings().map(|warning| without_id(&warning.to_string())).collect();
    if blames.is_empty() { Ok(checked) } else { Err(blames) }
}

fn blame(error: &dyn Diagnostic, when_at: usize) -> Blame {
    let label = error.labels().and_then(|mut labels| labels.next());
    let offset = label.and_then(|label| label.offset().checked_sub(when_at));
    let help = error.help().map_or(String::new(), |help| format!(" ({help})"));
    Blame { offset, message: without_id(&format!("{error}{help}")) }
}

/// What Cedar says, without the name it was given for the rule.
fn without_id(message: &str) -> String {
    let after = message.strip_prefix("for policy `").and_then(|rest| rest.split_once("`, "));
    after.map_or(message, |(_, rest)| rest).replace('\n', " ")
}

/// Finds each `context.x` and `context has x` in a policy's tree.
fn walk(tree: &serde_json::Value, checked: &mut Checked) {
    let of_context = |node: &serde_json::Value| {
        let is_context = node.pointer("/left/Var").and_then(|var| var.as_str()) == Some("context");
        let name = node.get("attr").and_then(|attr| attr.as_str());
        name.filter(|_| is_context).map(str::to_owned)
    };
    if let Some(object) = tree.as_object() {
        for (operator, node) in object {
            match operator.as_str() {
                "." => checked.reads.extend(of_context(node)),
                "has" => checked.excuses.extend(of_context(node)),
                _ => {}
            }
            walk(node, checked);
        }
    }
    tree.as_array().into_iter().flatten().for_each(|node| walk(node, checked));
}

fn request(world: &World, context: &Context<'_>) -> Option<(Request, Entities)> {
    let agent = EntityUid::from_type_name_and_id(
        world.agent.clone(),
        EntityId::new(context.facts.agent.as_str()),
    );
    let entities = [
        principal(agent.clone(), context.facts.agent, context.limits)?,
        metadata(world.metadata.clone(), context.facts)?,
    ];
    let given = cedar_policy::Context::from_pairs(pairs(world, context)).ok()?;
    let (action, charge) = (world.action.clone(), world.charge.clone());
    let request = Request::new(agent, action, charge, given, None).ok()?;
    Some((request, Entities::from_entities(entities, None).ok()?))
}

fn principal(uid: EntityUid, name: &AgentName, limits: Option<&AgentLimits>) -> Option<Entity> {
    let team = limits.and_then(|limits| limits.team.as_ref()).map_or("", |team| team.as_str());
    let tags = limits.into_iter().flat_map(|limits| &limits.tags).map(|tag| string(tag));
    let attributes = [
        ("name".to_owned(), string(name.as_str())),
        ("team".to_owned(), string(team)),
        ("tags".to_owned(), RestrictedExpression::new_set(tags)),
    ];
    Entity::new_with_tags(uid, attributes, [], []).ok()
}

fn metadata(uid: EntityUid, facts: &Facts<'_>) -> Option<Entity> {
    let pairs = facts.charge.facts.metadata.iter();
    let tags = pairs.map(|(key, value)| (key.clone(), string(value)));
    Entity::new_with_tags(uid, [], [], tags).ok()
}

fn string(text: &str) -> RestrictedExpression {
    RestrictedExpression::new_string(text.to_owned())
}

/// Everything that is known of a request. What is unknown is left out.
fn pairs(world: &World, context: &Context<'_>) -> Vec<(String, RestrictedExpression)> {
    let Facts { charge, amount, now, .. } = context.facts;
    let local = window::clock(context.zone, *now);
    let long = RestrictedExpression::new_long;
    let bool = RestrictedExpression::new_bool;
    let left = charge.left().ok().map(gate_money::Amount::minor);
    let known = &charge.facts;
    let days = |since: Timestamp| long(days_between(since, *now));
    let age = match charge.customer {
        CustomerFact::Known { created_at, .. } => Some(days(created_at)),
        CustomerFact::None | CustomerFact::Unreadable { .. } => None,
    };
    let disputed = match charge.dispute {
        Dispute::None => false,
        Dispute::Open | Dispute::Refundable => true,
    };
    let usd = context.facts.worth.ok().map(|worth| worth.usd.micros());
    let history = context.facts.customer;
    [
        ("amountMinor", Some(long(amount.minor()))),
        ("currency", Some(string(amount.currency().lower()))),
        ("usdMicros", usd.map(long)),
        ("isFullRefund", Some(bool(left == Some(amount.minor())))),
        ("chargeAmountMinor", Some(long(charge.amount.minor()))),
        ("refundedMinor", Some(long(charge.amount_refunded.minor()))),
        ("refundCount", refund_count(context.facts).map(|count| long(count.into()))),
        ("chargeAgeDays", Some(days(charge.created_at))),
        ("disputed", Some(bool(disputed))),
        ("livemode", Some(bool(charge.channel.livemode))),
        ("reason", Some(string(context.facts.reason.map_or(NO_REASON, RefundReason::as_str)))),
        ("paymentMethodType", known.payment_method_type.as_deref().map(string)),
        ("cardCountry", known.card_country.as_deref().map(string)),
        ("riskLevel", known.risk_level.as_deref().map(string)),
        ("riskScore", known.risk_score.map(|score| long(score.into()))),
        ("customerId", charge.customer.id().map(|id| string(id.as_str()))),
        ("customerAgeDays", age),
        ("customerRefunds30d", Some(long(history.refunds_30d.into()))),
        ("customerRefundedUsdMicros30d", Some(long(history.usd_30d.micros()))),
        ("chargeMetadata", Some(RestrictedExpression::new_entity_uid(world.metadata.clone()))),
        ("hourOfDay", Some(long(local.hour().into()))),
        ("dayOfWeek", Some(long(local.weekday().to_monday_one_offset().into()))),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect()
}

/// Whole days from `since` to `now`; none in the future.
fn days_between(since: Timestamp, now: Timestamp) -> i64 {
    let millis = now.millis().saturating_sub(since.millis()).max(0);
    millis.checked_div(DAY_MILLIS).unwrap_or(0)
}

/// As Stripe lists them; where nothing was given back there is nothing to list.
fn refund_count(facts: &Facts<'_>) -> Option<u32> {
    let none = (facts.charge.amount_refunded.minor() == 0).then_some(0);
    facts.charge.facts.refund_count.or(none)
}

/// Whether nobody knows a fact of this request.
fn is_unknown(fact: &str, facts: &Facts<'_>) -> bool {
    let known = &facts.charge.facts;
    match fact {
        "usdMicros" => facts.worth.is_err(),
        "refundCount" => refund_count(facts).is_none(),
        "paymentMethodType" => known.payment_method_type.is_none(),
        "cardCountry" => known.card_country.is_none(),
        "riskLevel" => known.risk_level.is_none(),
        "riskScore" => known.risk_score.is_none(),
        "customerId" => facts.charge.customer.id().is_none(),
        "customerAgeDays" => !matches!(facts.charge.customer, CustomerFact::Known { .. }),
        _ => false,
    }
}

/// Why nobody knows it.
pub(crate) fn why_unknown(fact: &str, facts: &Facts<'_>) -> String {
    let why = match fact {
        "usdMicros" => {
            let currency = facts.amount.currency();
            return match facts.worth {
                Err(NoRate::Stale) => format!("the exchange rate for {currency} is too old"),
                Err(NoRate::NotSupported) | Ok(_) => {
                    format!("there is no exchange rate for {currency}")
                }
            };
        }
        "refundCount" => "Stripe did not list the charge's refunds",
        "paymentMethodType" => "Stripe does not name the payment method",
        "cardCountry" => "Stripe names no country of a card for this charge",
        "riskLevel" | "riskScore" => "Stripe did not assess this charge's risk",
        _ => match facts.charge.customer {
            CustomerFact::Unreadable { .. } => "the Stripe key may not read customers",
            CustomerFact::None | CustomerFact::Known { .. } => "the charge has no customer",
        },
    };
    why.to_owned()
}

impl Control {
    /// As it stands in the document.
    pub(crate) const ALL: [(&'static str, Self); 2] =
        [("block", Self::Block), ("require_approval", Self::RequireApproval)];
}
