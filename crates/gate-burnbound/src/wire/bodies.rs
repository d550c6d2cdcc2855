//! The bodies of the calls and of their answers.

use std::time::Duration;

use gate_core::{
    Agent, AgentId, AgentName, AttemptId, Budget, BudgetWindow, Claim, Decided, Decision, HoldId,
    IdempotencyKey, Intent, IntentFilter, IntentId, Lease, Page, Preview, ReasonCode, Source,
    State, Work,
};
use gate_money::MicroUsd;
use serde::{Deserialize, Serialize};

use super::intent::{ReasonBody, WorthBody};
use super::{
    AmountBody, AskBody, ChannelBody, ChargeBody, IntentBody, Malformed, WAIT_MILLIS_MAX, dollars,
    known, read, read_if, text_of, time, time_of,
};

/// `POST /intents`: decide; with `dryRun`, only say what would be decided.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecideAsk {
    /// What is asked.
    pub ask: AskBody,
    /// What Stripe says.
    pub charge: ChargeBody,
    /// The call's own id; none for a dry run.
    pub attempt_id: Option<String>,
}

/// `POST /intents/{id}/execute`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExecuteAsk {
    /// The fence of the claim.
    pub fence: u64,
    /// What Stripe says now.
    pub charge: ChargeBody,
}

/// `POST /intents/{id}/justification`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct JustifyAsk {
    /// The agent's words.
    pub justification: String,
}

/// The answer to `POST /intents` and `POST /intents/{id}/execute`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct DecidedBody {
    intent: IntentBody,
    lease: Option<LeaseBody>,
    replayed: bool,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct LeaseBody {
    fence: u64,
    /// Counted from before it was asked for.
    span_millis: u64,
}

impl From<&Lease> for LeaseBody {
    fn from(lease: &Lease) -> Self {
        let Lease { fence, span } = lease;
        Self { fence: *fence, span_millis: u64::try_from(span.as_millis()).unwrap_or(u64::MAX) }
    }
}

impl From<LeaseBody> for Lease {
    fn from(body: LeaseBody) -> Self {
        Self { fence: body.fence, span: Duration::from_millis(body.span_millis) }
    }
}

impl From<&Decided> for DecidedBody {
    fn from(decided: &Decided) -> Self {
        let Decided { intent, lease, replayed } = decided;
        Self { intent: intent.into(), lease: lease.as_ref().map(Into::into), replayed: *replayed }
    }
}

impl TryFrom<DecidedBody> for Decided {
    type Error = Malformed;

    fn try_from(body: DecidedBody) -> Result<Self, Malformed> {
        Ok(Self {
            intent: body.intent.try_into()?,
            lease: body.lease.map(Into::into),
            replayed: body.replayed,
        })
    }
}

/// The answer to a dry run.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreviewBody {
    decision: String,
    reasons: Vec<ReasonBody>,
    charge: ChargeBody,
    amount: AmountBody,
    worth: Option<WorthBody>,
    policy_version: u64,
}

const fn decision_name(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Deny => "denied",
        Decision::RequireApproval => "pending_approval",
    }
}

impl From<&Preview> for PreviewBody {
    fn from(preview: &Preview) -> Self {
        let Preview { decision, reasons, charge, amount, worth, policy_version } = preview;
        Self {
            decision: decision_name(*decision).to_owned(),
            reasons: reasons.iter().map(Into::into).collect(),
            charge: charge.into(),
            amount: (*amount).into(),
            worth: worth.as_ref().map(Into::into),
            policy_version: *policy_version,
        }
    }
}

impl TryFrom<PreviewBody> for Preview {
    type Error = Malformed;

    fn try_from(body: PreviewBody) -> Result<Self, Malformed> {
        let all = [Decision::Allow, Decision::Deny, Decision::RequireApproval];
        let decision = all.into_iter().find(|one| decision_name(*one) == body.decision);
        let reasons: Result<Vec<_>, _> = body.reasons.iter().map(TryInto::try_into).collect();
        Ok(Self {
            decision: known("decision", decision)?,
            reasons: reasons?,
            charge: body.charge.try_into()?,
            amount: body.amount.amount("amount")?,
            worth: body.worth.as_ref().map(TryInto::try_into).transpose()?,
            policy_version: body.policy_version,
        })
    }
}

/// `POST /claims`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ClaimAsk {
    /// Which work.
    pub work: WorkBody,
    /// At most so many.
    pub limit: u16,
    /// The Stripe account and mode that the gateway works for.
    pub channel: ChannelBody,
}

/// Which work is asked for.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(
    rename_all = "snake_case",
    rename_all_fields = "camelCase",
    tag = "kind",
    deny_unknown_fields
)]
pub enum WorkBody {
    /// Approved, to be executed.
    Approved,
    /// Waiting for an approval of Stripe's own, and due to be looked at.
    AwaitingStripe {
        /// Only what waits for this request of Stripe's, due or not, or for one that is not known.
        hold_id: Option<String>,
    },
    /// What a call decided whose answer never came.
    GivenUp {
        /// That call.
        attempt_id: String,
    },
    /// One intent.
    One {
        /// Which.
        intent_id: String,
    },
    /// Settled and still followed.
    Settled,
    /// Submitted, under no lease.
    Submitted,
}

impl From<&Work> for WorkBody {
    fn from(work: &Work) -> Self {
        match work {
            Work::Approved => Self::Approved,
            Work::AwaitingStripe(id) => Self::AwaitingStripe { hold_id: id.as_ref().map(text_of) },
            Work::GivenUp(attempt) => Self::GivenUp { attempt_id: text_of(attempt) },
            Work::One(id) => Self::One { intent_id: text_of(id) },
            Work::Settled => Self::Settled,
            Work::Submitted => Self::Submitted,
        }
    }
}

impl TryFrom<WorkBody> for Work {
    type Error = Malformed;

    fn try_from(body: WorkBody) -> Result<Self, Malformed> {
        Ok(match body {
            WorkBody::Approved => Self::Approved,
            WorkBody::AwaitingStripe { hold_id } => {
                Self::AwaitingStripe(read_if("holdId", hold_id.as_ref(), HoldId::parse)?)
            }
            WorkBody::GivenUp { attempt_id } => {
                Self::GivenUp(read("attemptId", AttemptId::parse(&attempt_id))?)
            }
            WorkBody::One { intent_id } => {
                Self::One(read("intentId", IntentId::parse(&intent_id))?)
            }
            WorkBody::Settled => Self::Settled,
            WorkBody::Submitted => Self::Submitted,
        })
    }
}

/// The answer to `POST /claims`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ClaimsBody {
    /// Intents with fresh leases.
    pub claims: Vec<ClaimBody>,
}

/// An intent with a fresh lease.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct ClaimBody {
    intent: IntentBody,
    lease: LeaseBody,
    stopped: bool,
    #[serde(default)]
    agent_tagged: bool,
    at: String,
}

impl From<&Claim> for ClaimBody {
    fn from(claim: &Claim) -> Self {
        let Claim { intent, lease, stopped, agent_tagged, at } = claim;
        Self {
            intent: intent.into(),
            lease: lease.into(),
            stopped: *stopped,
            agent_tagged: *agent_tagged,
            at: time(*at),
        }
    }
}

impl TryFrom<ClaimBody> for Claim {
    type Error = Malformed;

    fn try_from(body: ClaimBody) -> Result<Self, Malformed> {
        Ok(Self {
            intent: body.intent.try_into()?,
            lease: body.lease.into(),
            stopped: body.stopped,
            agent_tagged: body.agent_tagged,
            at: time_of("at", &body.at)?,
        })
    }
}

/// `GET /agent`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct AgentBody {
    id: String,
    name: String,
    /// From where alone its keys are taken; none: from everywhere.
    sources: Vec<String>,
    /// Connector tools that are granted.
    pub tools: Vec<String>,
    /// The stop in force.
    pub stopped: Option<String>,
}

impl AgentBody {
    /// An agent, the tools that are granted to it, and the stop that holds it.
    #[must_use]
    pub fn new(agent: &Agent, tools: Vec<String>, stopped: Option<ReasonCode>) -> Self {
        let Agent { id, name, sources } = agent;
        let stopped = stopped.map(|code| code.as_str().to_owned());
        let sources = sources.iter().map(text_of).collect();
        Self { id: text_of(id), name: text_of(name), sources, tools, stopped }
    }
}

impl TryFrom<AgentBody> for Agent {
    type Error = Malformed;

    fn try_from(body: AgentBody) -> Result<Self, Malformed> {
        let sources: Result<Vec<_>, _> = body.sources.iter().map(|it| Source::parse(it)).collect();
        Ok(Self {
            id: read("id", AgentId::parse(&body.id))?,
            name: read("name", AgentName::parse(&body.name))?,
            sources: read("sources", sources)?,
        })
    }
}

/// `GET /intents`.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct PageBody {
    data: Vec<IntentBody>,
    more: bool,
}

impl From<&Page> for PageBody {
    fn from(page: &Page) -> Self {
        let Page { intents, more } = page;
        Self { data: intents.iter().map(Into::into).collect(), more: *more }
    }
}

impl TryFrom<PageBody> for Page {
    type Error = Malformed;

    fn try_from(body: PageBody) -> Result<Self, Malformed> {
        let intents: Result<Vec<Intent>, _> =
            body.data.into_iter().map(TryInto::try_into).collect();
        Ok(Self { intents: intents?, more: body.more })
    }
}

/// `GET /budget`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetBody {
    stopped: Option<String>,
    max_per_payment_usd_micros: Option<i64>,
    approval_threshold_usd_micros: Option<i64>,
    windows: Vec<WindowBody>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct WindowBody {
    code: String,
    limit_usd_micros: i64,
    spent_usd_micros: i64,
    resets_at: String,
}

impl From<&Budget> for BudgetBody {
    fn from(budget: &Budget) -> Self {
        let Budget { stopped, max_per_payment, approval_threshold, windows } = budget;
        Self {
            stopped: stopped.map(|code| code.as_str().to_owned()),
            max_per_payment_usd_micros: max_per_payment.map(MicroUsd::micros),
            approval_threshold_usd_micros: approval_threshold.map(MicroUsd::micros),
            windows: windows.iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<BudgetBody> for Budget {
    type Error = Malformed;

    fn try_from(body: BudgetBody) -> Result<Self, Malformed> {
        let windows: Result<Vec<_>, _> = body.windows.iter().map(TryInto::try_into).collect();
        let code = |text: String| known("stopped", ReasonCode::parse(&text));
        Ok(Self {
            stopped: body.stopped.map(code).transpose()?,
            max_per_payment: dollars("maxPerPayment", body.max_per_payment_usd_micros)?,
            approval_threshold: dollars("approvalThreshold", body.approval_threshold_usd_micros)?,
            windows: windows?,
        })
    }
}

impl From<&BudgetWindow> for WindowBody {
    fn from(window: &BudgetWindow) -> Self {
        let BudgetWindow { code, limit, spent, resets_at } = window;
        Self {
            code: code.as_str().to_owned(),
            limit_usd_micros: limit.micros(),
            spent_usd_micros: spent.micros(),
            resets_at: time(*resets_at),
        }
    }
}

impl TryFrom<&WindowBody> for BudgetWindow {
    type Error = Malformed;

    fn try_from(body: &WindowBody) -> Result<Self, Malformed> {
        Ok(Self {
            code: known("windows", ReasonCode::parse(&body.code))?,
            limit: read("windows", MicroUsd::new(body.limit_usd_micros))?,
            spent: read("windows", MicroUsd::new(body.spent_usd_micros))?,
            resets_at: time_of("windows", &body.resets_at)?,
        })
    }
}

/// `POST /observations`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ObservationsAsk {
    /// An event of Stripe's that is taken up.
    pub event: String,
}

/// The answer to it.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotedBody {
    /// Whether nobody took it up before.
    pub is_new: bool,
}

/// `POST /tools/{tool}`: what of it the audit log keeps.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ToolAsk {
    /// The first UTC day that was asked for.
    pub from: Option<String>,
    /// The last UTC day that was asked for.
    pub to: Option<String>,
    /// How many rows were answered.
    pub rows: usize,
}

/// The answer to `POST /tools/{tool}`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub struct ToolBody {
    /// False: nothing was recorded, and nothing read may be told.
    pub granted: bool,
}

/// `GET /status`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StatusBody {
    /// The version of the protocol.
    pub protocol: u32,
    /// The authority's clock.
    pub now: String,
    /// The gateway that the credential is of.
    pub gateway: String,
    /// The version of the program.
    pub version: String,
}

/// A filter as the query of `GET /intents`, without the question mark.
#[must_use]
pub fn filter_query(filter: &IntentFilter) -> String {
    let IntentFilter { idempotency_key, state, limit, before } = filter;
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", &limit.to_string());
    if let Some(key) = idempotency_key {
        query.append_pair("idempotencyKey", key.as_str());
    }
    if let Some(state) = state {
        query.append_pair("state", state.as_str());
    }
    if let Some(before) = before {
        query.append_pair("before", before.as_str());
    }
    query.finish()
}

/// The inverse of [`filter_query`].
///
/// # Errors
///
/// [`Malformed`] naming the parameter.
pub fn filter_from(query: &str) -> Result<IntentFilter, Malformed> {
    let value = |name: &str| parameter(query, name);
    Ok(IntentFilter {
        idempotency_key: read_if(
            "idempotencyKey",
            value("idempotencyKey").as_ref(),
            IdempotencyKey::parse,
        )?,
        state: value("state").map(|text| known("state", State::parse(&text))).transpose()?,
        limit: match value("limit") {
            None => 20,
            Some(text) => {
                let limit = read("limit", text.parse())?;
                known("limit", (1..=100).contains(&limit).then_some(limit))?
            }
        },
        before: read_if("before", value("before").as_ref(), IntentId::parse)?,
    })
}

/// How long a read waits for a change, from its query.
///
/// # Errors
///
/// [`Malformed`] unless it is a number of milliseconds up to a minute.
pub fn wait_from(query: &str) -> Result<Duration, Malformed> {
    let Some(text) = parameter(query, "waitMillis") else { return Ok(Duration::ZERO) };
    let millis: u64 = read("waitMillis", text.parse())?;
    let millis = known("waitMillis", (millis <= WAIT_MILLIS_MAX).then_some(millis))?;
    Ok(Duration::from_millis(millis))
}

fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}
