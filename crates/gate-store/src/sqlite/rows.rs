//! What a row holds, as types and back. A cell that is not what it should be is named by table, row
//! and column; what stands in it is never shown.

use gate_core::{
    Approval, ApprovalState, Approver, Denier, Failure, FailureCode, FixedRequest, Intent,
    IntentId, OnApproval, Refund, RefundReason, RefundStatus, State, Timestamp, Tool, Valuation,
    Wanted,
};
use gate_money::{Amount, Currency, Decimal, MicroUsd, Rate, RateFigures};
use rusqlite::types::{FromSqlResult, Value, ValueRef};
use rusqlite::{Connection, Params, Row};
use serde::Serialize;

use super::json::{ReasonRow, SeenRow, VoteRow, reasons, seen, votes};
use crate::port::StoreError;

/// Runs a statement of the cache and maps its rows.
pub(super) fn rows<T>(
    connection: &Connection,
    sql: &str,
    table: &'static str,
    params: impl Params,
    map: impl Fn(&mut Cells<'_>) -> Result<T, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = connection.prepare_cached(sql).map_err(fault)?;
    let mut rows = statement.query(params).map_err(fault)?;
    let mut mapped = Vec::new();
    while let Some(row) = rows.next().map_err(fault)? {
        mapped.push(map(&mut Cells::new(row, table))?);
    }
    Ok(mapped)
}

/// The only row of a statement, if there is one.
pub(super) fn row<T>(
    connection: &Connection,
    sql: &str,
    table: &'static str,
    params: impl Params,
    map: impl Fn(&mut Cells<'_>) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    Ok(rows(connection, sql, table, params, map)?.pop())
}

/// What an error of SQLite's means. Its texts name tables and columns, and hold no values.
pub(super) fn fault(error: rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode as Code;
    let advice = match error.sqlite_error_code() {
        Some(Code::DatabaseCorrupt | Code::NotADatabase) => {
            return StoreError::Corrupt(format!(
                "{error}; stop the program, keep a copy of the file, and restore a backup"
            ));
        }
        Some(Code::DiskFull) => {
            return StoreError::Full(format!("{error}; make room on its disk"));
        }
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => "another process writes; ask again",
        Some(Code::CannotOpen | Code::ReadOnly | Code::PermissionDenied) => {
            "see that this user may write the file and its directory"
        }
        Some(Code::SystemIoFailure) => "see that its disk is there and healthy",
        _ => "restart the process if it stays like this",
    };
    StoreError::Unavailable(format!("{error}; {advice}"))
}

/// The cells of a row, taken from left to right, each by the name that its column must have.
pub(super) struct Cells<'a> {
    row: &'a Row<'a>,
    table: &'static str,
    next: usize,
}

impl<'a> Cells<'a> {
    const fn new(row: &'a Row<'a>, table: &'static str) -> Self {
        Self { row, table, next: 0 }
    }

    /// That `column` cannot be read.
    pub(super) fn corrupt(&self, column: &str) -> StoreError {
        let id = match self.row.get_ref(0) {
            Ok(ValueRef::Text(id)) => String::from_utf8_lossy(id).into_owned(),
            Ok(ValueRef::Integer(id)) => id.to_string(),
            Ok(ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_)) | Err(_) => "?".to_owned(),
        };
        let table = self.table;
        StoreError::Corrupt(format!(
            "table {table}, row {id}, column {column}; stop the program, and restore the last good \
             backup or start the version that wrote it"
        ))
    }

    fn cell<T>(
        &mut self,
        column: &'static str,
        read: impl Fn(ValueRef<'a>) -> FromSqlResult<T>,
    ) -> Result<T, StoreError> {
        debug_assert_eq!(
            self.row.as_ref().column_name(self.next).ok(),
            Some(column),
            "the statement's columns are in another order"
        );
        let cell = self.row.get_ref(self.next).map_err(fault)?;
        self.next = self.next.saturating_add(1);
        read(cell).map_err(|_| self.corrupt(column))
    }

    pub(super) fn text(&mut self, column: &'static str) -> Result<&'a str, StoreError> {
        self.cell(column, |cell| cell.as_str())
    }

    pub(super) fn text_if(&mut self, column: &'static str) -> Result<Option<&'a str>, StoreError> {
        self.cell(column, |cell| cell.as_str_or_null())
    }

    pub(super) fn owned(&mut self, column: &'static str) -> Result<String, StoreError> {
        self.text(column).map(str::to_owned)
    }

    pub(super) fn owned_if(&mut self, column: &'static str) -> Result<Option<String>, StoreError> {
        Ok(self.text_if(column)?.map(str::to_owned))
    }

    pub(super) fn integer(&mut self, column: &'static str) -> Result<i64, StoreError> {
        self.cell(column, |cell| cell.as_i64())
    }

    pub(super) fn integer_if(&mut self, column: &'static str) -> Result<Option<i64>, StoreError> {
        self.cell(column, |cell| cell.as_i64_or_null())
    }

    pub(super) fn count(&mut self, column: &'static str) -> Result<u64, StoreError> {
        let integer = self.integer(column)?;
        u64::try_from(integer).map_err(|_| self.corrupt(column))
    }

    pub(super) fn flag(&mut self, column: &'static str) -> Result<bool, StoreError> {
        self.integer(column).map(|flag| flag != 0)
    }

    pub(super) fn time(&mut self, column: &'static str) -> Result<Timestamp, StoreError> {
        self.integer(column).map(Timestamp::from_millis)
    }

    pub(super) fn time_if(
        &mut self,
        column: &'static str,
    ) -> Result<Option<Timestamp>, StoreError> {
        Ok(self.integer_if(column)?.map(Timestamp::from_millis))
    }

    pub(super) fn dollars(&mut self, column: &'static str) -> Result<MicroUsd, StoreError> {
        let micros = self.integer(column)?;
        MicroUsd::new(micros).map_err(|_| self.corrupt(column))
    }

    pub(super) fn bytes<const N: usize>(
        &mut self,
        column: &'static str,
    ) -> Result<[u8; N], StoreError> {
        let bytes = self.cell(column, |cell| cell.as_blob())?;
        bytes.try_into().map_err(|_| self.corrupt(column))
    }

    /// A text that `parse` understands.
    pub(super) fn parsed<T, P: IntoOption<T>>(
        &mut self,
        column: &'static str,
        parse: impl Fn(&str) -> P,
    ) -> Result<T, StoreError> {
        let text = self.text(column)?;
        parse(text).into_option().ok_or_else(|| self.corrupt(column))
    }

    /// Nothing, or a text that `parse` understands.
    pub(super) fn parsed_if<T, P: IntoOption<T>>(
        &mut self,
        column: &'static str,
        parse: impl Fn(&str) -> P,
    ) -> Result<Option<T>, StoreError> {
        let Some(text) = self.text_if(column)? else {
            return Ok(None);
        };
        match parse(text).into_option() {
            Some(value) => Ok(Some(value)),
            None => Err(self.corrupt(column)),
        }
    }
}

/// What a parser answers with: `Some` or `Ok`, or nothing that could be said without the text.
pub(super) trait IntoOption<T> {
    fn into_option(self) -> Option<T>;
}

impl<T> IntoOption<T> for Option<T> {
    fn into_option(self) -> Self {
        self
    }
}

impl<T, E> IntoOption<T> for Result<T, E> {
    fn into_option(self) -> Option<T> {
        self.ok()
    }
}

/// The intent in a row of `intent.sql`, and the id of its approval, which lies in another table.
pub(super) fn intent(cells: &mut Cells<'_>) -> Result<(Intent, Option<String>), StoreError> {
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
pub(super) fn intent_values(intent: &Intent) -> Result<Vec<Value>, StoreError> {
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
pub(super) fn approval(cells: &mut Cells<'_>) -> Result<(IntentId, Approval), StoreError> {
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
    };
    Ok((intent, approval))
}

/// The parameters of `put_approval.sql`.
pub(super) fn approval_values(
    intent: &IntentId,
    approval: &Approval,
) -> Result<Vec<Value>, StoreError> {
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
    ])
}

/// A number as SQLite keeps it.
pub(super) fn integer(number: u64) -> Result<Value, StoreError> {
    i64::try_from(number)
        .map(Value::from)
        .map_err(|_| StoreError::Conflict(format!("{number} is more than the store can count")))
}

pub(super) fn json(value: &impl Serialize) -> Result<Value, StoreError> {
    serde_json::to_string(value)
        .map(Value::from)
        .map_err(|error| StoreError::Conflict(format!("a value cannot be written: {error}")))
}

fn text(text: &str) -> Value {
    Value::from(text.to_owned())
}

fn text_if(text: Option<&str>) -> Value {
    Value::from(text.map(str::to_owned))
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
    let figures = match (kind, units_per_eur, usd_per_eur, usd_per_unit) {
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
            Ok(Some(Refund { id, status: RefundStatus::from_stripe(status), intent }))
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
    [Denier::Person, Denier::Policy].into_iter().find(|denier| denier_name(*denier) == name)
}

const fn denier_name(denier: Denier) -> &'static str {
    match denier {
        Denier::Person => "person",
        Denier::Policy => "policy",
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
