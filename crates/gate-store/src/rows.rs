//! What a row holds, as types and back, for every database.

use gate_core::{
    Approval, ApprovalState, Approver, Denier, Failure, FailureCode, FixedRequest, Intent,
    IntentId, OnApproval, Refund, RefundReason, RefundStatus, State, Timestamp, Tool, Valuation,
    Wanted,
};
use gate_money::{Amount, Currency, Decimal, MicroUsd, Rate, RateFigures};
use serde::Serialize;

use crate::database::{Cells, Database, Value};
use crate::json::{ReasonRow, SeenRow, VoteRow, reasons, seen, votes};
use crate::port::StoreError;

/// The rows that a statement answers with, each mapped.
pub(crate) async fn rows<'p, T: Send>(
    database: &impl Database,
    sql: &'static str,
    table: &'static str,
    params: impl AsRef<[Value<'p>]>,
    map: impl Fn(&mut Cells<'_>) -> Result<T, StoreError> + Send,
) -> Result<Vec<T>, StoreError> {
    database.rows(sql, table, params.as_ref(), map).await
}

/// The only row of a statement, if there is one.
pub(crate) async fn row<'p, T: Send>(
    database: &impl Database,
    sql: &'static str,
    table: &'static str,
    params: impl AsRef<[Value<'p>]>,
    map: impl Fn(&mut Cells<'_>) -> Result<T, StoreError> + Send,
) -> Result<Option<T>, StoreError> {
    Ok(rows(database, sql, table, params, map).await?.pop())
}

/// The intent in a row of `intent.sql`, and the id of its approval, which lies in another table.
pub(crate) fn intent(cells: &mut Cells<'_>) -> Result<(Intent, Option<String>), StoreError> {
    let id = cells.parsed("id", IntentId::parse)?;
    let agent = cells.parsed("agent_id", gate_core::AgentId::parse)?;
    let agent_name = cells.parsed("agent_name", gate_core::AgentName::parse)?;
    let team = cells.parsed_if("team", gate_core::TeamName::parse)?;
    let tool = cells.parsed("tool", Tool::parse)?;
    let key = cells.parsed("idempotency_key", gate_core::IdempotencyKey::parse)?;
    let keyless = cells.flag("keyless")?;
    let wanted = cells.integer_if("wanted_minor")?;
    let reason = cells.parsed_if("reason", RefundReason::parse)?;
    let charge = cells.parsed("charge_id", gate_core::ChargeId::parse)?;
    let payment_intent = cells.parsed_if("payment_intent_id", gate_core::PaymentIntentId::parse)?;
    // Only searched for: the charge that was seen holds it too.
    cells.text_if("customer_id")?;
    let seen = cells.parsed_if("seen", seen)?;
    let amount = amount(cells)?;
    let worth = valuation(cells, amount.currency())?;
    let livemode = cells.flag("livemode")?;
    let account = cells.parsed_if("account_id", gate_core::AccountId::parse)?;
    let state = cells.parsed("state", State::parse)?;
    let denied_by = cells.parsed_if("denied_by", denier)?;
    let reasons = cells.parsed("reasons", reasons)?;
    let policy_version = cells.count("policy_version")?;
    let approval = cells.owned_if("approval_id")?;
    let intent = Intent {
        id,
        agent,
        agent_name,
        team,
        tool,
        key,
        keyless,
        wanted: wanted.map_or(Wanted::Full, Wanted::Minor),
        reason,
        charge,
        payment_intent,
        seen: seen.map(Box::new),
        amount,
        worth,
        livemode,
        account,
        state,
        denied_by,
        reasons,
        policy_version,
        approval: None,
        refund: refund(cells)?,
        failure: failure(cells)?,
        needs_person: cells.flag("needs_person")?,
        request: request(cells)?,
        submitted_at: cells.time_if("submitted_at")?,
        attempt: cells.parsed("attempt_id", gate_core::AttemptId::parse)?,
        fence: cells.count("fence")?,
        lease_until: cells.time_if("lease_until")?,
        created_at: cells.time("created_at")?,
        updated_at: cells.time("updated_at")?,
        settled_at: cells.time_if("settled_at")?,
        follow_at: cells.time_if("follow_at")?,
    };
    Ok((intent, approval))
}

/// The parameters of `insert_intent.sql`, and all but the last of `update_intent.sql`. What never
/// changes comes last.
pub(crate) fn intent_values(intent: &Intent) -> Result<Vec<Value<'_>>, StoreError> {
    let figures = intent.worth.as_ref().map(|worth| worth.rate.figures());
    let (kind, units_per_eur, usd_per_eur, usd_per_unit) = match figures {
        None => (None, None, None, None),
        Some(RateFigures::Feed { units_per_eur, usd_per_eur }) => {
            (Some("feed"), Some(units_per_eur), Some(usd_per_eur), None)
        }
        Some(RateFigures::Pinned { usd_per_unit }) => {
            (Some("pinned"), None, None, Some(usd_per_unit))
        }
        Some(RateFigures::Usd) => (Some("usd"), None, None, None),
    };
    let (wanted, worth, refund, failure, request) = (
        match intent.wanted {
            Wanted::Full => None,
            Wanted::Minor(minor) => Some(minor),
        },
        intent.worth.as_ref(),
        intent.refund.as_ref(),
        intent.failure.as_ref(),
        intent.request.as_ref(),
    );
    Ok(vec![
        text(intent.agent_name.as_str()),
        text_if(intent.team.as_ref().map(|team| team.as_str())),
        text(intent.tool.as_str()),
        intent.keyless.into(),
        wanted.into(),
        text_if(intent.reason.map(RefundReason::as_str)),
        text_if(intent.payment_intent.as_ref().map(|id| id.as_str())),
        text_if(intent.seen.as_ref().and_then(|seen| seen.customer.id()).map(|id| id.as_str())),
        match &intent.seen {
            Some(seen) => json(&SeenRow::of(seen))?,
            None => Value::Null,
        },
        text(intent.amount.currency().code()),
        intent.amount.minor().into(),
        worth.map(|worth| worth.usd.micros()).into(),
        text_if(kind),
        units_per_eur.map(|figure| figure.to_string()).into(),
        usd_per_eur.map(|figure| figure.to_string()).into(),
        usd_per_unit.map(|figure| figure.to_string()).into(),
        text_if(worth.and_then(|worth| worth.date.as_deref())),
        intent.livemode.into(),
        text_if(intent.account.as_ref().map(|id| id.as_str())),
        text(intent.state.as_str()),
        text_if(intent.denied_by.map(denier_name)),
        json(&intent.reasons.iter().map(ReasonRow::of).collect::<Vec<_>>())?,
        integer(intent.policy_version)?,
        text_if(intent.approval.as_ref().map(|approval| approval.id.as_str())),
        text_if(refund.map(|refund| refund.id.as_str())),
        text_if(refund.map(|refund| refund.status.as_str())),
        text_if(refund.and_then(|refund| refund.intent.as_ref().map(|id| id.as_str()))),
        text_if(failure.and_then(|failure| failure.code.map(FailureCode::as_str))),
        text_if(failure.map(|failure| failure.message.as_str())),
        intent.needs_person.into(),
        text_if(request.map(|request| request.form.as_str())),
        text_if(request.and_then(|request| request.account.as_ref().map(|id| id.as_str()))),
        text_if(request.map(|request| request.version.as_str())),
        intent.submitted_at.map(Timestamp::millis).into(),
        text(intent.attempt.as_str()),
        integer(intent.fence)?,
        intent.lease_until.map(Timestamp::millis).into(),
        intent.created_at.millis().into(),
        intent.updated_at.millis().into(),
        intent.settled_at.map(Timestamp::millis).into(),
        intent.follow_at.map(Timestamp::millis).into(),
        text(intent.id.as_str()),
        text(intent.agent.as_str()),
        text(intent.key.as_str()),
        text(intent.charge.as_str()),
    ])
}

/// The approval in a row of `approval.sql`, and the intent it belongs to.
pub(crate) fn approval(cells: &mut Cells<'_>) -> Result<(IntentId, Approval), StoreError> {
    let id = cells.parsed("id", gate_core::ApprovalId::parse)?;
    let intent = cells.parsed("intent_id", IntentId::parse)?;
    let approval = Approval {
        id,
        state: cells.parsed("state", ApprovalState::parse)?,
        approver: cells.parsed("approver", Approver::parse)?,
        expires_at: cells.time("expires_at")?,
        digest: cells.owned("digest")?,
        votes: cells.parsed("votes", votes)?,
        decided_at: cells.time_if("decided_at")?,
        decided_by: cells.parsed_if("decided_by", gate_core::UserName::parse)?,
        note: cells.owned_if("note")?,
        justifications: cells.parsed("justifications", |text| serde_json::from_str(text))?,
        on_approval: cells.parsed("on_approval", on_approval)?,
        hold_id: cells.parsed_if("hold_id", gate_core::HoldId::parse)?,
        hold_url: cells.parsed_if("hold_url", gate_core::HoldUrl::parse)?,
    };
    Ok((intent, approval))
}

/// The parameters of `put_approval.sql`.
pub(crate) fn approval_values<'a>(
    intent: &'a IntentId,
    approval: &'a Approval,
) -> Result<Vec<Value<'a>>, StoreError> {
    Ok(vec![
        text(approval.id.as_str()),
        text(intent.as_str()),
        text(approval.state.as_str()),
        text(approval.approver.as_str()),
        approval.expires_at.millis().into(),
        text(&approval.digest),
        json(&approval.votes.iter().map(VoteRow::of).collect::<Vec<_>>())?,
        approval.decided_at.map(Timestamp::millis).into(),
        text_if(approval.decided_by.as_ref().map(|name| name.as_str())),
        text_if(approval.note.as_deref()),
        json(&approval.justifications)?,
        text(on_approval_name(approval.on_approval)),
        text_if(approval.hold_id.as_ref().map(|id| id.as_str())),
        text_if(approval.hold_url.as_ref().map(|url| url.as_str())),
    ])
}

/// A number as databases keep it.
pub(crate) fn integer(number: u64) -> Result<Value<'static>, StoreError> {
    i64::try_from(number)
        .map(Value::from)
        .map_err(|_| StoreError::Conflict(format!("{number} is more than the store can count")))
}

pub(crate) fn json(value: &impl Serialize) -> Result<Value<'static>, StoreError> {
    serde_json::to_string(value)
        .map(Value::from)
        .map_err(|error| StoreError::Conflict(format!("a value cannot be written: {error}")))
}

fn text(text: &str) -> Value<'_> {
    Value::from(text)
}

fn text_if(text: Option<&str>) -> Value<'_> {
    Value::from(text)
}

fn amount(cells: &mut Cells<'_>) -> Result<Amount, StoreError> {
    let currency = cells.parsed("currency", Currency::parse)?;
    let minor = cells.integer("amount_minor")?;
    Amount::from_stripe(minor, currency).map_err(|_| cells.corrupt("amount_minor"))
}

fn valuation(cells: &mut Cells<'_>, currency: Currency) -> Result<Option<Valuation>, StoreError> {
    let usd = cells.integer_if("usd_micros")?;
    let kind = cells.text_if("rate_kind")?;
    let units_per_eur = cells.parsed_if("rate_units_per_eur", Decimal::from_str_exact)?;
    let usd_per_eur = cells.parsed_if("rate_usd_per_eur", Decimal::from_str_exact)?;
    let usd_per_unit = cells.parsed_if("rate_usd_per_unit", Decimal::from_str_exact)?;
    let date = cells.owned_if("rate_date")?;
    let figures = match (kind.as_deref(), units_per_eur, usd_per_eur, usd_per_unit) {
        (None, None, None, None) => return Ok(None),
        (Some("feed"), Some(units_per_eur), Some(usd_per_eur), None) => {
            RateFigures::Feed { units_per_eur, usd_per_eur }
        }
        (Some("pinned"), None, None, Some(usd_per_unit)) => RateFigures::Pinned { usd_per_unit },
        (Some("usd"), None, None, None) => RateFigures::Usd,
        _ => return Err(cells.corrupt("rate_kind")),
    };
    let rate = Rate::from_figures(currency, figures).map_err(|_| cells.corrupt("rate_kind"))?;
    let usd = usd.and_then(|micros| MicroUsd::new(micros).ok());
    let usd = usd.ok_or_else(|| cells.corrupt("usd_micros"))?;
    Ok(Some(Valuation { usd, rate, date }))
}

fn refund(cells: &mut Cells<'_>) -> Result<Option<Refund>, StoreError> {
    let id = cells.parsed_if("refund_id", gate_core::RefundId::parse)?;
    let status = cells.text_if("refund_status")?;
    let intent = cells.parsed_if("refund_intent_id", IntentId::parse)?;
    match (id, status) {
        (None, None) => Ok(None),
        (Some(id), Some(status)) => {
            Ok(Some(Refund { id, status: RefundStatus::from_stripe(&status), intent }))
        }
        (Some(_), None) | (None, Some(_)) => Err(cells.corrupt("refund_status")),
    }
}

fn failure(cells: &mut Cells<'_>) -> Result<Option<Failure>, StoreError> {
    let code = cells.parsed_if("failure_code", FailureCode::parse)?;
    let message = cells.owned_if("failure_message")?;
    Ok(message.map(|message| Failure { code, message }))
}

fn request(cells: &mut Cells<'_>) -> Result<Option<FixedRequest>, StoreError> {
    let form = cells.owned_if("request_form")?;
    let account = cells.parsed_if("request_account_id", gate_core::AccountId::parse)?;
    let version = cells.owned_if("request_version")?;
    match (form, version) {
        (None, None) => Ok(None),
        (Some(form), Some(version)) => Ok(Some(FixedRequest { form, account, version })),
        (Some(_), None) | (None, Some(_)) => Err(cells.corrupt("request_version")),
    }
}

fn denier(name: &str) -> Option<Denier> {
    [Denier::Person, Denier::Policy, Denier::Reopened]
        .into_iter()
        .find(|denier| denier_name(*denier) == name)
}

const fn denier_name(denier: Denier) -> &'static str {
    match denier {
        Denier::Person => "person",
        Denier::Policy => "policy",
        Denier::Reopened => "reopened",
    }
}

fn on_approval(name: &str) -> Option<OnApproval> {
    [OnApproval::Execute, OnApproval::Agent]
        .into_iter()
        .find(|follows| on_approval_name(*follows) == name)
}

const fn on_approval_name(follows: OnApproval) -> &'static str {
    match follows {
        OnApproval::Execute => "execute",
        OnApproval::Agent => "agent",
    }
}
