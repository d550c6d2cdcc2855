//! The online check: which of the permissions the key has. Reads only, one object of each.

use gate_core::{Deadline, ReadError};
use serde_json::Value;

use crate::client::StripeClient;
use crate::permissions::{PERMISSIONS, Permission, Resource};

/// One permission and whether the key has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CheckLine {
    /// The row of the table.
    pub permission: &'static Permission,
    /// What was found.
    pub state: CheckState,
}

/// What was found of a permission. Reading is what is tried: whether refunds may also be written
/// shows only with the first one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CheckState {
    /// There is no key, or Stripe refuses it.
    KeyUnusable,
    /// The key may not.
    Missing {
        /// What does not work without it.
        switches_off: &'static str,
    },
    /// The key may read it.
    Ok,
    /// Stripe could not be asked, or its answer not be read.
    Unreachable,
}

impl StripeClient {
    /// Tries each resource of [`PERMISSIONS`], in that order.
    pub async fn check(&self, by: Deadline) -> Vec<CheckLine> {
        let mut lines = Vec::new();
        for permission in PERMISSIONS {
            let resource = permission.resource;
            let query: &[(&str, &str)] = match resource {
                Resource::Approvals | Resource::Balance => &[],
                Resource::PaymentIntents
                | Resource::Charges
                | Resource::Refunds
                | Resource::Customers
                | Resource::Disputes => &[("limit", "1")],
            };
            let answer = self.read(resource.probe(), query, resource, by).await;
            lines.push(CheckLine { permission, state: state(&answer, permission) });
        }
        lines
    }
}

const fn state(answer: &Result<Value, ReadError>, permission: &Permission) -> CheckState {
    match answer {
        Ok(_) => CheckState::Ok,
        Err(ReadError::KeyMissing | ReadError::KeyRefused) => CheckState::KeyUnusable,
        Err(ReadError::Permission { .. }) => {
            CheckState::Missing { switches_off: permission.needed_for }
        }
        Err(
            ReadError::LivemodeMismatch
            | ReadError::NotFound { .. }
            | ReadError::NotPaid
            | ReadError::NotReady
            | ReadError::Unavailable { .. }
            | ReadError::Unreadable,
        ) => CheckState::Unreachable,
    }
}
