//! An intent with everything that its record holds.

use gate_core::{
    AccountId, AgentId, AgentName, Approval, ApprovalId, ApprovalState, Approver, AttemptId,
    ChargeId, DecisionReason, Denier, Failure, FailureCode, FixedRequest, HoldId, HoldUrl,
    IdempotencyKey, Intent, IntentId, OnApproval, PaymentIntentId, ReasonCode, Refund, RefundId,
    RefundReason, RefundStatus, Requirement, State, TeamName, Tool, UserName, Valuation, Vote,
    Wanted,
};
use gate_money::{Currency, Decimal, MicroUsd, Rate, RateFigures};
use serde::{Deserialize, Serialize};

use super::charge::ChargeBody;
use super::{
    AmountBody, Malformed, dollars, known, read, read_if, text_of, time, time_if, time_of,
};

/// An intent.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct IntentBody {
    intent_id: String,
    agent_id: String,
    agent: String,
    team: Option<String>,
    tool: String,
    idempotency_key: String,
    keyless: bool,
    wanted_minor: Option<i64>,
    reason: Option<String>,
    charge: String,
    payment_intent: Option<String>,
    seen: Option<Box<ChargeBody>>,
    amount: AmountBody,
    worth: Option<WorthBody>,
    livemode: bool,
    account: Option<String>,
    state: String,
    denied_by: Option<String>,
    reasons: Vec<ReasonBody>,
    policy_version: u64,
    approval: Option<ApprovalBody>,
    refund: Option<RefundBody>,
    failure: Option<FailureBody>,
    needs_person: bool,
    request: Option<RequestBody>,
    submitted_at: Option<String>,
    attempt_id: String,
    fence: u64,
    lease_until: Option<String>,
    created_at: String,
    updated_at: String,
    settled_at: Option<String>,
    follow_at: Option<String>,
}

impl From<&Intent> for IntentBody {
    fn from(intent: &Intent) -> Self {
        let Intent {
            id,
            agent,
            agent_name,
            team,
            tool,
            key,
            keyless,
            wanted,
            reason,
            charge,
            payment_intent,
            seen,
            amount,
            worth,
            livemode,
            account,
            state,
            denied_by,
            reasons,
            policy_version,
            approval,
            refund,
            failure,
            needs_person,
            request,
            submitted_at,
            attempt,
            fence,
            lease_until,
            created_at,
            updated_at,
            settled_at,
            follow_at,
        } = intent;
        Self {
            intent_id: text_of(id),
            agent_id: text_of(agent),
            agent: text_of(agent_name),
            team: team.as_ref().map(text_of),
            tool: tool.as_str().to_owned(),
            idempotency_key: text_of(key),
            keyless: *keyless,
            wanted_minor: match wanted {
                Wanted::Full => None,
                Wanted::Minor(minor) => Some(*minor),
            },
            reason: reason.map(|reason| reason.as_str().to_owned()),
            charge: text_of(charge),
            payment_intent: payment_intent.as_ref().map(text_of),
            seen: seen.as_ref().map(|seen| Box::new(seen.as_ref().into())),
            amount: (*amount).into(),
            worth: worth.as_ref().map(Into::into),
            livemode: *livemode,
            account: account.as_ref().map(text_of),
            state: state.as_str().to_owned(),
            denied_by: denied_by.map(|by| denier(by).to_owned()),
            reasons: reasons.iter().map(Into::into).collect(),
            policy_version: *policy_version,
            approval: approval.as_ref().map(Into::into),
            refund: refund.as_ref().map(Into::into),
            failure: failure.as_ref().map(Into::into),
            needs_person: *needs_person,
            request: request.as_ref().map(Into::into),
            submitted_at: submitted_at.map(time),
            attempt_id: text_of(attempt),
            fence: *fence,
            lease_until: lease_until.map(time),
            created_at: time(*created_at),
            updated_at: time(*updated_at),
            settled_at: settled_at.map(time),
            follow_at: follow_at.map(time),
        }
    }
}

impl TryFrom<IntentBody> for Intent {
    type Error = Malformed;

    fn try_from(body: IntentBody) -> Result<Self, Malformed> {
        let reasons: Result<Vec<_>, _> = body.reasons.iter().map(TryInto::try_into).collect();
        Ok(Self {
            id: read("intentId", IntentId::parse(&body.intent_id))?,
            agent: read("agentId", AgentId::parse(&body.agent_id))?,
            agent_name: read("agent", AgentName::parse(&body.agent))?,
            team: read_if("team", body.team.as_ref(), TeamName::parse)?,
            tool: known("tool", Tool::parse(&body.tool))?,
            key: read("idempotencyKey", IdempotencyKey::parse(&body.idempotency_key))?,
            keyless: body.keyless,
            wanted: body.wanted_minor.map_or(Wanted::Full, Wanted::Minor),
            reason: reason_of(body.reason.as_deref())?,
            charge: read("charge", ChargeId::parse(&body.charge))?,
            payment_intent: read_if(
                "paymentIntent",
                body.payment_intent.as_ref(),
                PaymentIntentId::parse,
            )?,
            seen: body.seen.map(|seen| (*seen).try_into().map(Box::new)).transpose()?,
            amount: body.amount.amount("amount")?,
            worth: body.worth.as_ref().map(TryInto::try_into).transpose()?,
            livemode: body.livemode,
            account: read_if("account", body.account.as_ref(), AccountId::parse)?,
            state: known("state", State::parse(&body.state))?,
            denied_by: body.denied_by.as_deref().map(denier_of).transpose()?,
            reasons: reasons?,
            policy_version: body.policy_version,
            approval: body.approval.map(TryInto::try_into).transpose()?,
            refund: body.refund.as_ref().map(TryInto::try_into).transpose()?,
            failure: body.failure.map(TryInto::try_into).transpose()?,
            needs_person: body.needs_person,
            request: body.request.map(TryInto::try_into).transpose()?,
            submitted_at: time_if("submittedAt", body.submitted_at.as_ref())?,
            attempt: read("attemptId", AttemptId::parse(&body.attempt_id))?,
            fence: body.fence,
            lease_until: time_if("leaseUntil", body.lease_until.as_ref())?,
            created_at: time_of("createdAt", &body.created_at)?,
            updated_at: time_of("updatedAt", &body.updated_at)?,
            settled_at: time_if("settledAt", body.settled_at.as_ref())?,
            follow_at: time_if("followAt", body.follow_at.as_ref())?,
        })
    }
}

pub(super) fn reason_of(text: Option<&str>) -> Result<Option<RefundReason>, Malformed> {
    text.map(|text| known("reason", RefundReason::parse(text))).transpose()
}

const fn denier(by: Denier) -> &'static str {
    match by {
        Denier::Person => "person",
        Denier::Policy => "policy",
        Denier::Reopened => "reopened",
    }
}

fn denier_of(text: &str) -> Result<Denier, Malformed> {
    let all = [Denier::Person, Denier::Policy, Denier::Reopened];
    known("deniedBy", all.into_iter().find(|by| denier(*by) == text))
}

/// What an amount counts for, with the figures it comes from.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorthBody {
    usd_micros: i64,
    currency: String,
    rate: FiguresBody,
    date: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", rename_all_fields = "camelCase", tag = "kind")]
enum FiguresBody {
    Feed { units_per_eur: String, usd_per_eur: String },
    Pinned { usd_per_unit: String },
    Usd,
}

impl From<&Valuation> for WorthBody {
    fn from(worth: &Valuation) -> Self {
        let Valuation { usd, rate, date } = worth;
        let figures = match rate.figures() {
            RateFigures::Feed { units_per_eur, usd_per_eur } => FiguresBody::Feed {
                units_per_eur: units_per_eur.to_string(),
                usd_per_eur: usd_per_eur.to_string(),
            },
            RateFigures::Pinned { usd_per_unit } => {
                FiguresBody::Pinned { usd_per_unit: usd_per_unit.to_string() }
            }
            RateFigures::Usd => FiguresBody::Usd,
        };
        Self {
            usd_micros: usd.micros(),
            currency: rate.currency().lower().to_owned(),
            rate: figures,
            date: date.clone(),
        }
    }
}

impl TryFrom<&WorthBody> for Valuation {
    type Error = Malformed;

    fn try_from(body: &WorthBody) -> Result<Self, Malformed> {
        let figure = |text: &str| read("worth", Decimal::from_str_exact(text));
        let figures = match &body.rate {
            FiguresBody::Feed { units_per_eur, usd_per_eur } => RateFigures::Feed {
                units_per_eur: figure(units_per_eur)?,
                usd_per_eur: figure(usd_per_eur)?,
            },
            FiguresBody::Pinned { usd_per_unit } => {
                RateFigures::Pinned { usd_per_unit: figure(usd_per_unit)? }
            }
            FiguresBody::Usd => RateFigures::Usd,
        };
        let currency = read("worth", Currency::parse(&body.currency))?;
        Ok(Self {
            usd: read("worth", MicroUsd::new(body.usd_micros))?,
            rate: read("worth", Rate::from_figures(currency, figures))?,
            date: body.date.clone(),
        })
    }
}

/// One reason of a decision.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReasonBody {
    code: String,
    message: String,
    limit_usd_micros: Option<i64>,
    left_usd_micros: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    count_limit: Option<u32>,
    resets_at: Option<String>,
    rule: Option<String>,
    unknown_fact: Option<String>,
    requires: Option<RequirementBody>,
}

/// Whose approval a reason takes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct RequirementBody {
    roles: Vec<String>,
    people: u16,
}

impl From<&Requirement> for RequirementBody {
    fn from(requirement: &Requirement) -> Self {
        let Requirement { roles, people } = requirement.clone();
        Self { roles, people }
    }
}

impl From<RequirementBody> for Requirement {
    fn from(body: RequirementBody) -> Self {
        let RequirementBody { roles, people } = body;
        Self { roles, people }
    }
}

impl From<&DecisionReason> for ReasonBody {
    fn from(reason: &DecisionReason) -> Self {
        let DecisionReason {
            code,
            message,
            limit,
            left,
            count_limit,
            resets_at,
            rule,
            unknown_fact,
            requires,
        } = reason;
        Self {
            code: code.as_str().to_owned(),
            message: message.clone(),
            limit_usd_micros: limit.map(MicroUsd::micros),
            left_usd_micros: left.map(MicroUsd::micros),
            count_limit: *count_limit,
            resets_at: resets_at.map(time),
            rule: rule.clone(),
            unknown_fact: unknown_fact.clone(),
            requires: requires.as_ref().map(Into::into),
        }
    }
}

impl TryFrom<&ReasonBody> for DecisionReason {
    type Error = Malformed;

    fn try_from(body: &ReasonBody) -> Result<Self, Malformed> {
        Ok(Self {
            code: known("reasons", ReasonCode::parse(&body.code))?,
            message: body.message.clone(),
            limit: dollars("reasons", body.limit_usd_micros)?,
            left: dollars("reasons", body.left_usd_micros)?,
            count_limit: body.count_limit,
            resets_at: time_if("reasons", body.resets_at.as_ref())?,
            rule: body.rule.clone(),
            unknown_fact: body.unknown_fact.clone(),
            requires: body.requires.clone().map(Into::into),
        })
    }
}

/// The human part.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalBody {
    id: String,
    state: String,
    approver: String,
    expires_at: String,
    digest: String,
    votes: Vec<VoteBody>,
    decided_at: Option<String>,
    decided_by: Option<String>,
    note: Option<String>,
    justifications: Vec<String>,
    on_approval: String,
    #[serde(default)]
    hold_id: Option<String>,
    #[serde(default)]
    hold_url: Option<String>,
}

/// One person's yes.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
struct VoteBody {
    by: String,
    roles: Vec<String>,
    at: String,
    note: Option<String>,
}

impl From<&Vote> for VoteBody {
    fn from(vote: &Vote) -> Self {
        let Vote { by, roles, at, note } = vote;
        Self { by: text_of(by), roles: roles.clone(), at: time(*at), note: note.clone() }
    }
}

impl TryFrom<VoteBody> for Vote {
    type Error = Malformed;

    fn try_from(body: VoteBody) -> Result<Self, Malformed> {
        Ok(Self {
            by: read("votes", UserName::parse(&body.by))?,
            roles: body.roles,
            at: time_of("votes", &body.at)?,
            note: body.note,
        })
    }
}

impl From<&Approval> for ApprovalBody {
    fn from(approval: &Approval) -> Self {
        let Approval {
            id,
            state,
            approver,
            expires_at,
            digest,
            votes,
            decided_at,
            decided_by,
            note,
            justifications,
            on_approval,
            hold_id,
            hold_url,
        } = approval;
        Self {
            id: text_of(id),
            state: state.as_str().to_owned(),
            approver: approver.as_str().to_owned(),
            expires_at: time(*expires_at),
            digest: digest.clone(),
            votes: votes.iter().map(Into::into).collect(),
            decided_at: decided_at.map(time),
            decided_by: decided_by.as_ref().map(text_of),
            note: note.clone(),
            justifications: justifications.clone(),
            on_approval: goes_on(*on_approval).to_owned(),
            hold_id: hold_id.as_ref().map(text_of),
            hold_url: hold_url.as_ref().map(text_of),
        }
    }
}

impl TryFrom<ApprovalBody> for Approval {
    type Error = Malformed;

    fn try_from(body: ApprovalBody) -> Result<Self, Malformed> {
        let all = [OnApproval::Execute, OnApproval::Agent];
        let on_approval = all.into_iter().find(|who| goes_on(*who) == body.on_approval);
        let votes: Result<Vec<_>, _> = body.votes.into_iter().map(TryInto::try_into).collect();
        Ok(Self {
            id: read("approval", ApprovalId::parse(&body.id))?,
            state: known("approval", ApprovalState::parse(&body.state))?,
            approver: known("approval", Approver::parse(&body.approver))?,
            expires_at: time_of("approval", &body.expires_at)?,
            digest: body.digest,
            votes: votes?,
            decided_at: time_if("approval", body.decided_at.as_ref())?,
            decided_by: read_if("approval", body.decided_by.as_ref(), UserName::parse)?,
            note: body.note,
            justifications: body.justifications,
            on_approval: known("approval", on_approval)?,
            hold_id: read_if("approval", body.hold_id.as_ref(), HoldId::parse)?,
            hold_url: read_if("approval", body.hold_url.as_ref(), HoldUrl::parse)?,
        })
    }
}

const fn goes_on(who: OnApproval) -> &'static str {
    match who {
        OnApproval::Execute => "execute",
        OnApproval::Agent => "agent",
    }
}

/// A refund as seen at Stripe.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RefundBody {
    id: String,
    status: String,
    intent_id: Option<String>,
}

impl From<&Refund> for RefundBody {
    fn from(refund: &Refund) -> Self {
        let Refund { id, status, intent } = refund;
        Self {
            id: text_of(id),
            status: status.as_str().to_owned(),
            intent_id: intent.as_ref().map(text_of),
        }
    }
}

impl TryFrom<&RefundBody> for Refund {
    type Error = Malformed;

    fn try_from(body: &RefundBody) -> Result<Self, Malformed> {
        Ok(Self {
            id: read("refund", RefundId::parse(&body.id))?,
            status: RefundStatus::from_stripe(&body.status),
            intent: read_if("refund", body.intent_id.as_ref(), IntentId::parse)?,
        })
    }
}

/// Why a submitted refund did not come to be.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct FailureBody {
    code: Option<String>,
    message: String,
}

impl From<&Failure> for FailureBody {
    fn from(failure: &Failure) -> Self {
        let Failure { code, message } = failure;
        Self { code: code.map(|code| code.as_str().to_owned()), message: message.clone() }
    }
}

impl TryFrom<FailureBody> for Failure {
    type Error = Malformed;

    fn try_from(body: FailureBody) -> Result<Self, Malformed> {
        let code = body.code.map(|code| known("failure", FailureCode::parse(&code))).transpose()?;
        Ok(Self { code, message: body.message })
    }
}

/// What is sent to Stripe, byte for byte.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RequestBody {
    form: String,
    account: Option<String>,
    version: String,
}

impl From<&FixedRequest> for RequestBody {
    fn from(request: &FixedRequest) -> Self {
        let FixedRequest { form, account, version } = request;
        Self {
            form: form.clone(),
            account: account.as_ref().map(text_of),
            version: version.clone(),
        }
    }
}

impl TryFrom<RequestBody> for FixedRequest {
    type Error = Malformed;

    fn try_from(body: RequestBody) -> Result<Self, Malformed> {
        let account = read_if("request", body.account.as_ref(), AccountId::parse)?;
        Ok(Self { form: body.form, account, version: body.version })
    }
}
