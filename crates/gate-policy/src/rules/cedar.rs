//! The bridge to Cedar: the schema, a request, what a rule's condition says of it.
//!
//! Every fact is declared as required, and a request is built without the schema's check. So both
//! `context.x` and `context has x` pass the check, and a condition that reaches for an absent fact
//! ends in an error of its rule: that error is a match.

use std::collections::BTreeSet;
use std::str::FromStr as _;
use std::sync::LazyLock;

use cedar_policy::{
    Entities, Entity, EntityId, EntityTypeName, EntityUid, EvalResult, Expression, Policy,
    PolicySet, Request, RestrictedExpression, Schema, ValidationMode, Validator,
};
use gate_core::AgentName;
use jiff::tz::TimeZone;
use miette::Diagnostic;

use super::facts::{self, METADATA, string};
use super::{Control, Matched, Rule};
use crate::decide::Facts;
use crate::document::AgentLimits;

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

/// What never changes; none only if the schema had a fault, and then every rule has one.
struct World {
    validator: Validator,
    action: EntityUid,
    charge: EntityUid,
    metadata: EntityUid,
    agent: EntityTypeName,
}

static WORLD: LazyLock<Option<World>> = LazyLock::new(|| {
    Some(World {
        validator: Validator::new(Schema::from_str(SCHEMA).ok()?),
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

/// A rule's condition, made ready once a document. One that Cedar refused would be unclear: a match.
#[derive(Clone, Debug)]
pub(crate) struct Condition(Option<Expression>);

/// A request as Cedar takes it.
pub(crate) struct Question {
    request: Request,
    entities: Entities,
}

/// A rule's condition in Cedar's words, and where `when` begins in it.
struct Source {
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

impl Condition {
    /// Of a rule that [`check`] found right.
    pub(crate) fn of(rule: &Rule) -> Self {
        Self(Expression::from_str(&Source::of(rule).text).ok())
    }

    /// Whether, and how, it matches what is asked.
    pub(crate) fn matches(
        &self,
        rule: &Rule,
        question: Option<&Question>,
        context: &Context<'_>,
    ) -> Option<Matched> {
        let (Some(condition), Some(question)) = (&self.0, question) else {
            return Some(Matched::Unclear);
        };
        match cedar_policy::eval_expression(&question.request, &question.entities, condition) {
            Ok(EvalResult::Bool(false)) => None,
            Ok(EvalResult::Bool(true)) => Some(Matched::Holds),
            Ok(
                EvalResult::EntityUid(_)
                | EvalResult::ExtensionValue(_)
                | EvalResult::Long(_)
                | EvalResult::Record(_)
                | EvalResult::Set(_)
                | EvalResult::String(_),
            ) => Some(Matched::Unclear),
            Err(error) => Some(missing(rule, &error.to_string(), context)),
        }
    }
}

/// The fact that an error of a rule's condition is about.
fn missing(rule: &Rule, error: &str, context: &Context<'_>) -> Matched {
    let absent = |fact: &&String| facts::known(fact, context).is_none();
    let named = |fact: &&String| error.contains(&format!("`{fact}`"));
    let found = rule.reads.iter().filter(absent).find(named);
    found.map_or(Matched::Unclear, |fact| Matched::Unknown(fact.clone()))
}

impl Source {
    fn of(rule: &Rule) -> Self {
        let fields = rule.fields.iter().map(|field| format!("({}) && ", field.cedar()));
        let mut text: String = fields.collect();
        text.push_str("(\n");
        let when_at = text.len();
        // On lines of its own, so that a comment in it ends.
        text.push_str(rule.when.as_deref().unwrap_or("true"));
        text.push_str("\n)");
        Self { text, when_at }
    }
}

/// What makes a policy of a condition, for the schema's check.
const POLICY: &str = "forbid (principal, action, resource) when { ";

/// Holds a rule against the schema.
pub(crate) fn check(rule: &Rule) -> Result<Checked, Vec<Blame>> {
    let world = WORLD.as_ref().ok_or_else(|| whole("the schema has a fault"))?;
    if let Some(when) = &rule.when {
        // By itself first: `true } when { true` is no condition.
        Expression::from_str(when)
            .map_err(|errors| errors.iter().map(|error| blame(error, 0)).collect::<Vec<_>>())?;
    }
    let source = Source::of(rule);
    let when_at = POLICY.len().saturating_add(source.when_at);
    let policy = Policy::parse(None, format!("{POLICY}{}}};", source.text))
        .map_err(|errors| errors.iter().map(|error| blame(error, when_at)).collect::<Vec<_>>())?;
    let tree = policy.to_json().map_err(|error| whole(&error.to_string()))?;
    let set = PolicySet::from_policies([policy]).map_err(|error| whole(&error.to_string()))?;
    let result = world.validator.validate(&set, ValidationMode::Strict);
    let blames: Vec<_> = result.validation_errors().map(|error| blame(error, when_at)).collect();
    if !blames.is_empty() {
        return Err(blames);
    }
    let doubts = result.validation_warnings().map(|warning| without_id(&warning.to_string()));
    let mut checked = Checked { doubts: doubts.collect(), ..Checked::default() };
    if walk(&tree, &mut checked) {
        Ok(checked)
    } else {
        Err(whole(
            "context is read as a whole: read its facts by name, such as context.amountMinor",
        ))
    }
}

/// What no place in the condition is to blame for.
fn whole(message: &str) -> Vec<Blame> {
    vec![Blame { offset: None, message: message.to_owned() }]
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

/// Finds each `context.x` and `context has x` in a policy's tree. False where `context` is used in
/// any other way, by which a rule could read what it is not seen to read.
fn walk(tree: &serde_json::Value, checked: &mut Checked) -> bool {
    let of_context = |node: &serde_json::Value| {
        let is_context = node.pointer("/left/Var").is_some_and(|var| var == "context");
        let name = node.get("attr").and_then(|attr| attr.as_str());
        name.filter(|_| is_context).map(str::to_owned)
    };
    let mut operators = tree.as_object().into_iter().flatten();
    let seen = operators.all(|(operator, node)| match (operator.as_str(), of_context(node)) {
        (".", Some(fact)) => {
            checked.reads.insert(fact);
            true
        }
        ("has", Some(fact)) => {
            checked.excuses.insert(fact);
            true
        }
        ("Var", _) if node.is_string() => node != "context",
        _ => walk(node, checked),
    });
    seen && tree.as_array().into_iter().flatten().all(|node| walk(node, checked))
}

impl Question {
    /// Of what `rules` read, and no more; none only where the schema has a fault.
    pub(crate) fn of<'r>(
        context: &Context<'_>,
        rules: impl Iterator<Item = &'r Rule>,
    ) -> Option<Self> {
        let world = WORLD.as_ref()?;
        let reads: BTreeSet<&str> =
            rules.flat_map(|rule| rule.reads.iter().chain(&rule.excuses)).map(|it| &**it).collect();
        let name = EntityId::new(context.facts.agent.as_str());
        let agent = EntityUid::from_type_name_and_id(world.agent.clone(), name);
        let mut entities = vec![principal(agent.clone(), context.facts.agent, context.limits)?];
        if reads.contains(METADATA) {
            entities.push(metadata_of(world.metadata.clone(), context.facts)?);
        }
        let fact = |fact: &str| Some((fact.to_owned(), facts::known(fact, context)?));
        let known = cedar_policy::Context::from_pairs(reads.into_iter().filter_map(fact)).ok()?;
        let (action, charge) = (world.action.clone(), world.charge.clone());
        Some(Self {
            request: Request::new(agent, action, charge, known, None).ok()?,
            entities: Entities::from_entities(entities, None).ok()?,
        })
    }
}

/// The entity that a charge's metadata is told as.
pub(super) fn metadata() -> Option<EntityUid> {
    WORLD.as_ref().map(|world| world.metadata.clone())
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

fn metadata_of(uid: EntityUid, facts: &Facts<'_>) -> Option<Entity> {
    let pairs = facts.charge.facts.metadata.iter();
    let tags = pairs.map(|(key, value)| (key.clone(), string(value)));
    Entity::new_with_tags(uid, [], [], tags).ok()
}

impl Control {
    /// As it stands in the document.
    pub(crate) const ALL: [(&'static str, Self); 2] =
        [("block", Self::Block), ("require_approval", Self::RequireApproval)];
}
