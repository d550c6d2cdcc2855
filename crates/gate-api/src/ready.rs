//! Whether the gateway can do its work: what `/healthz` and `/readyz` answer.

use std::collections::BTreeMap;

use gate_core::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::schema;
use crate::time::rfc3339;

/// That the process serves; nothing is touched to say so.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "Health")]
pub struct HealthView {
    /// Always `ok`.
    #[schemars(schema_with = "schema::ok")]
    status: &'static str,
}

impl HealthView {
    /// The only one there is.
    pub const OK: Self = Self { status: "ok" };
}

/// What readiness depends on.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Check {
    /// The policy authority answers.
    Authority,
    /// Our clock agrees with Stripe's.
    Clock,
    /// Exchange rates are young enough. Never failing: dollars always work.
    Rates,
    /// The store can be read and written.
    Store,
    /// There is a usable Stripe key.
    StripeKey,
}

/// How a check stands; the worst sorts last.
#[derive(Clone, Copy, Debug, Eq, JsonSchema, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum CheckStatus {
    /// As it should be.
    Ok,
    /// Some requests are denied for it; the others go on.
    Degraded,
    /// No refund can be made.
    Failing,
}

/// One check.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "Check")]
pub struct CheckView {
    /// How it stands.
    pub status: CheckStatus,
    /// Since when it stands like that.
    #[schemars(schema_with = "schema::time")]
    pub since: String,
    /// What was seen and what to do; empty when there is nothing to say.
    pub detail: String,
}

impl CheckView {
    /// A check that stands like this since `since`.
    #[must_use]
    pub fn new(status: CheckStatus, since: Timestamp, detail: String) -> Self {
        Self { status, since: rfc3339(since), detail }
    }
}

/// All checks, and the worst of them.
#[derive(Clone, Debug, Eq, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "Ready")]
pub struct ReadyView {
    /// The worst of the checks.
    pub status: CheckStatus,
    /// Each check by name.
    pub checks: BTreeMap<Check, CheckView>,
}

impl ReadyView {
    /// What `checks` come to.
    #[must_use]
    pub fn new(checks: impl IntoIterator<Item = (Check, CheckView)>) -> Self {
        let checks: BTreeMap<_, _> = checks.into_iter().collect();
        let worst = checks.values().map(|check| check.status).max();
        Self { status: worst.unwrap_or(CheckStatus::Ok), checks }
    }

    /// 200, or 503 when something is failing.
    #[must_use]
    pub const fn http_status(&self) -> u16 {
        match self.status {
            CheckStatus::Ok | CheckStatus::Degraded => 200,
            CheckStatus::Failing => 503,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_counts() {
        use CheckStatus as S;
        let table = [
            (S::Ok, S::Ok, "ok", 200),
            (S::Ok, S::Degraded, "degraded", 200),
            (S::Degraded, S::Failing, "failing", 503),
            (S::Failing, S::Ok, "failing", 503),
        ];
        for (store, rates, status, http) in table {
            let at = Timestamp::from_millis(0);
            let check = |status| CheckView::new(status, at, String::new());
            let view = ReadyView::new([(Check::Store, check(store)), (Check::Rates, check(rates))]);
            assert_eq!(serde_json::to_value(view.status).unwrap(), status);
            assert_eq!(view.http_status(), http);
        }
    }

    #[test]
    fn golden() {
        let at = Timestamp::from_millis(0);
        let view = ReadyView::new([(
            Check::StripeKey,
            CheckView::new(CheckStatus::Failing, at, "Stripe refuses the key.".to_owned()),
        )]);
        assert_eq!(
            serde_json::to_string(&view).unwrap(),
            concat!(
                r#"{"status":"failing","checks":{"stripe_key":{"status":"failing","#,
                r#""since":"1970-01-01T00:00:00.000Z","detail":"Stripe refuses the key."}}}"#
            )
        );
        assert_eq!(serde_json::to_string(&HealthView::OK).unwrap(), r#"{"status":"ok"}"#);
    }
}
