//! The tools for staff: reading Stripe, and asking for a refund. What a call asks for is checked before Stripe is asked
//! anything, and all of it is done within one deadline.

use std::time::Duration;

use gate_api::connector::{parse_balance, parse_customers, parse_disputes, parse_payments};
use gate_api::{SurfaceError, parse_finance_refund};
use gate_core::{ActionError, AgentKey, Deadline};

use crate::table::{Answered, Looked, Ports, answered, read};
use crate::toolbox::Progress;

/// How long one call may read: clients give up after 30 seconds and more.
const READ_TIMEOUT: Duration = Duration::from_secs(25);

pub(crate) async fn payments(ports: &Ports, arguments: &[u8]) -> Result<Answered, SurfaceError> {
    let ask = parse_payments(arguments)?;
    let view = ports.connector.payments(&ask, by(ports)).await?;
    let day = |day: Option<gate_api::connector::Day>| day.map(|day| day.to_string());
    let looked = Looked { from: day(ask.from), to: day(ask.to), rows: view.data.len() };
    Ok(Answered { looked: Some(looked), ..read(&view)? })
}

pub(crate) async fn balance(ports: &Ports, arguments: &[u8]) -> Result<Answered, SurfaceError> {
    parse_balance(arguments)?;
    let view = ports.connector.balance(by(ports)).await?;
    let rows = view.available.len().saturating_add(view.pending.len());
    Ok(Answered { looked: Some(Looked { rows, ..Looked::default() }), ..read(&view)? })
}

pub(crate) async fn customers(ports: &Ports, arguments: &[u8]) -> Result<Answered, SurfaceError> {
    let ask = parse_customers(arguments)?;
    let view = ports.connector.customers(&ask, by(ports)).await?;
    let looked = Looked { rows: view.data.len(), ..Looked::default() };
    Ok(Answered { looked: Some(looked), ..read(&view)? })
}

pub(crate) async fn disputes(
    ports: &Ports,
    arguments: &[u8],
    progress: &Progress<'_>,
) -> Result<Answered, SurfaceError> {
    let ask = parse_disputes(arguments)?;
    let view = ports.connector.disputes(&ask, by(ports), progress).await?;
    let looked = Looked { rows: view.data.len(), ..Looked::default() };
    Ok(Answered { looked: Some(looked), ..read(&view)? })
}

/// The same refund as `stripe_refund`, asked for in other words; the policy has a person decide it.
pub(crate) async fn refund(
    ports: &Ports,
    key: &AgentKey,
    arguments: &[u8],
) -> Result<Answered, SurfaceError> {
    let (ask, major) = parse_finance_refund(arguments)?;
    let ask = match major {
        Some(major) => {
            ports.actions.in_minor_units(key, ask, &major).await.map_err(in_own_words)?
        }
        None => ask,
    };
    answered(&ports.actions.refund(key, ask).await.map_err(in_own_words)?)
}

/// The core names arguments as `stripe_refund` has them.
fn in_own_words(error: ActionError) -> ActionError {
    let ActionError::IdempotencyKeyReused { argument, intent } = error else {
        return error;
    };
    let argument = match argument {
        "amountMinor" => "amount",
        "target" => "payment_intent",
        same => same,
    };
    ActionError::IdempotencyKeyReused { argument, intent }
}

fn by(ports: &Ports) -> Deadline {
    ports.clock.deadline(READ_TIMEOUT)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gate_core::ToolUse;
    use serde_json::Value;

    use super::*;
    use crate::fakes::{Closed, Ledger, ports};
    use crate::{Called, LocalTools, Toolbox};

    /// What a call comes to: `ok`, or the problem's code and field and whether it says that nothing
    /// was refunded; and what was recorded of it.
    async fn call(key: &str, tool: &str, arguments: &str) -> (String, Vec<ToolUse>) {
        let ledger = Arc::new(Ledger::default());
        let tools = LocalTools::new(ports(), Arc::<Ledger>::clone(&ledger), Arc::new(Closed));
        let key = AgentKey::new(format!("bb_agent_{key}"));
        let line = match tools.call(&key, tool, arguments.as_bytes(), None).await.unwrap() {
            Called::Answer(answer) => {
                assert!(answer.is_object(), "{answer}");
                "ok".to_owned()
            }
            Called::Problem(problem) => {
                let text = |name: &str| problem[name].as_str().unwrap_or_default();
                let money = text("detail").contains("Nothing was refunded");
                assert_eq!(money, tool == "finance_refund", "{problem}");
                assert!(!problem.to_string().contains("canary"), "{problem}");
                format!("{} {}", text("code"), text("field")).trim_end().to_owned()
            }
        };
        let used = ledger.0.lock().unwrap().clone();
        (line, used)
    }

    #[tokio::test]
    async fn what_is_read_is_recorded_and_nothing_else() {
        #[rustfmt::skip]
        let table = [
            // key    tool                arguments                                    comes to   first day     last day      rows
            ("a",    "finance_payments", "{}",                                        "ok", Some((None,         None,         1))),
            ("a",    "finance_payments", r#"{"date_from":"2026-10-01","limit":500}"#, "ok", Some((Some("2026-10-01"), None,   1))),
            ("a",    "finance_payments", r#"{"date_from":"2026-10-01","date_to":"2026-10-31"}"#, "ok", Some((Some("2026-10-01"), Some("2026-10-31"), 1))),
            ("a",    "finance_balance",  "{}",                                        "ok", Some((None,         None,         3))),
            ("a",    "customers_search", r#"{"keyword":"canary"}"#,                   "ok", Some((None,         None,         1))),
            ("a",    "finance_disputes", r#"{"status":"all"}"#,                       "ok", Some((None,         None,         1))),
            // refused before Stripe is asked
            ("a",    "finance_payments", r#"{"limit":0}"#,                            "invalid_request limit",    None),
            ("a",    "finance_payments", r#"{"date_from":"yesterday"}"#,              "invalid_request date_from", None),
            ("a",    "finance_payments", r#"{"from":"2026-10-01"}"#,                  "invalid_request from",     None),
            ("a",    "finance_balance",  r#"{"currency":"eur"}"#,                     "invalid_request currency", None),
            ("a",    "customers_search", "{}",                                        "invalid_request keyword",  None),
            ("a",    "finance_disputes", r#"{"status":"won"}"#,                       "invalid_request status",   None),
            // nothing was read
            ("a",    "finance_payments", r#"{"limit":1}"#,                            "stripe_unavailable",       None),
            // read, and not told, because it is not on record
            ("late", "customers_search", r#"{"keyword":"canary"}"#,                   "tool_not_granted",         None),
            ("lost", "finance_balance",  "{}",                                        "store_unavailable",        None),
            // the refund keeps its own records
            ("a",    "finance_refund",   "{}",                                        "invalid_request payment_intent", None),
            ("a",    "finance_refund",   r#"{"payment_intent":"ch_1"}"#,              "invalid_request payment_intent", None),
            ("a",    "finance_refund",   r#"{"payment_intent":"pi_1","amount":"1,5"}"#, "invalid_amount amount",  None),
            ("a",    "finance_refund",   r#"{"payment_intent":"pi_1","amount":"5"}"#, "idempotency_key_reused amount", None),
            ("a",    "finance_refund",   r#"{"payment_intent":"pi_1"}"#,              "shutting_down",            None),
        ];
        for (key, tool, arguments, line, recorded) in table {
            let expected = recorded.map(|(from, to, rows)| ToolUse {
                tool: tool.to_owned(),
                from: from.map(str::to_owned),
                to: to.map(str::to_owned),
                rows,
            });
            let found = call(key, tool, arguments).await;
            let expected = (line.to_owned(), Vec::from_iter(expected));
            assert_eq!(found, expected, "{key} {tool} {arguments}");
        }
    }

    #[tokio::test]
    async fn without_the_grant_it_is_said_who_can_give_it() {
        let tools = LocalTools::new(ports(), Arc::new(Closed), Arc::new(Closed));
        let key = AgentKey::new("bb_agent_other".to_owned());
        for tool in crate::TABLE.iter().filter(|tool| tool.granted) {
            let called = tools.call(&key, tool.name, b"{}", None).await.unwrap();
            let Called::Problem(problem) = called else { panic!("{}", tool.name) };
            assert_eq!(problem["code"], "tool_not_granted");
            let detail = problem["detail"].as_str().unwrap();
            for word in [tool.name, "policy owner", "`tools`"] {
                assert!(detail.contains(word), "{detail}");
            }
        }
        let listed: Vec<Value> = tools.listed(&key).await.unwrap();
        assert_eq!(listed, crate::own_tools());
    }
}
