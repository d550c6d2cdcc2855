//! The sandbox, asked as Stripe is and commanded as a sandbox.

use std::net::SocketAddr;

use serde_json::Value;

use crate::http::{call, read, text};

pub(crate) const STRIPE_KEY: &str = "rk_test_51KeyOfTheTorture9876";

/// A sandbox that runs.
#[derive(Clone, Copy)]
pub(crate) struct Stripe(pub(crate) SocketAddr);

impl Stripe {
    /// Its control interface.
    pub(crate) fn control(self, method: &str, path: &str, body: &Value) -> Result<(), String> {
        match call(self.0, method, path, STRIPE_KEY, Some(body)) {
            Some(answer) if answer.status == 200 => Ok(()),
            Some(answer) => Err(format!("{path}: {} {}", answer.status, answer.json)),
            None => Err(format!("{path}: the sandbox is gone")),
        }
    }

    /// The newest refund's id; null when there is none.
    pub(crate) fn newest_refund(self) -> Value {
        let page = read(self.0, "/v1/refunds?limit=1", STRIPE_KEY);
        page.and_then(|page| page.json.pointer("/data/0/id").cloned()).unwrap_or_default()
    }

    /// All refunds, the newest first.
    pub(crate) fn refunds(self) -> Result<Vec<Value>, String> {
        let mut refunds: Vec<Value> = Vec::new();
        loop {
            let after = refunds.last().map(|last| format!("&starting_after={}", text(last, "/id")));
            let path = format!("/v1/refunds?limit=100{}", after.unwrap_or_default());
            let page = read(self.0, &path, STRIPE_KEY).ok_or("the sandbox is gone")?;
            let rows = page.json["data"].as_array();
            refunds.extend(rows.ok_or("the sandbox lists no refunds")?.iter().cloned());
            if page.json["has_more"] != true {
                return Ok(refunds);
            }
        }
    }
}
