//! What an agent may still spend, in US dollars.

use gate_core::{Budget, BudgetWindow};
use gate_money::MicroUsd;
use schemars::JsonSchema;
use serde::Serialize;

use crate::money::dollars;
use crate::schema;
use crate::time::rfc3339;

/// What an agent may still spend. Every figure is in US dollars, such as `500.00`.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Budget")]
pub struct BudgetView {
    /// The code of the stop in force, if there is one.
    #[schemars(schema_with = "schema::nullable_string")]
    pub stopped: Option<&'static str>,
    /// Most that one refund may be worth, if that is limited.
    #[schemars(schema_with = "schema::nullable_string")]
    pub max_per_payment: Option<String>,
    /// From where on a person decides, if anywhere.
    #[schemars(schema_with = "schema::nullable_string")]
    pub approval_threshold: Option<String>,
    /// The caps that count over time.
    pub windows: Vec<WindowView>,
}

/// One cap and what is left of it.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "BudgetWindow")]
pub struct WindowView {
    /// The code that a denial by this cap has.
    #[schemars(schema_with = "schema::reason_code")]
    pub code: &'static str,
    /// The cap.
    pub limit: String,
    /// What is spent of it.
    pub spent: String,
    /// What is left of it; nothing when a cap was lowered below what is spent.
    pub left: String,
    /// When it starts anew.
    #[schemars(schema_with = "schema::time")]
    pub resets_at: String,
}

impl BudgetView {
    /// `budget` for the wire.
    #[must_use]
    pub fn new(budget: &Budget) -> Self {
        Self {
            stopped: budget.stopped.map(|code| code.as_str()),
            max_per_payment: budget.max_per_payment.map(dollars),
            approval_threshold: budget.approval_threshold.map(dollars),
            windows: budget.windows.iter().map(WindowView::new).collect(),
        }
    }
}

impl WindowView {
    fn new(window: &BudgetWindow) -> Self {
        let left = window.limit.checked_sub(window.spent);
        Self {
            code: window.code.as_str(),
            limit: dollars(window.limit),
            spent: dollars(window.spent),
            left: dollars(left.unwrap_or(MicroUsd::ZERO)),
            resets_at: rfc3339(window.resets_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gate_core::{ReasonCode, Timestamp};

    fn usd(micros: i64) -> MicroUsd {
        MicroUsd::new(micros).unwrap()
    }

    #[test]
    fn golden() {
        let budget = Budget {
            stopped: Some(ReasonCode::TeamStopped),
            max_per_payment: Some(usd(500_000_000)),
            approval_threshold: None,
            windows: vec![BudgetWindow {
                code: ReasonCode::DailyCap,
                limit: usd(2_000_000_000),
                spent: usd(13_965_001),
                resets_at: Timestamp::from_millis(0),
            }],
        };
        assert_eq!(
            serde_json::to_string(&BudgetView::new(&budget)).unwrap(),
            concat!(
                r#"{"stopped":"team_stopped","maxPerPayment":"500.00","approvalThreshold":null,"#,
                r#""windows":[{"code":"daily_cap","limit":"2000.00","spent":"13.965001","#,
                r#""left":"1986.034999","resetsAt":"1970-01-01T00:00:00.000Z"}]}"#
            )
        );
    }

    #[test]
    fn left_is_never_below_nothing() {
        for (limit, spent, left) in
            [(10, 0, "0.00001"), (10, 10, "0.00"), (10, 11, "0.00"), (0, i64::MAX, "0.00")]
        {
            let window = BudgetWindow {
                code: ReasonCode::DailyCap,
                limit: usd(limit),
                spent: usd(spent),
                resets_at: Timestamp::from_millis(0),
            };
            assert_eq!(WindowView::new(&window).left, left, "{spent} of {limit}");
        }
    }
}
