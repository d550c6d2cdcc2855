//! Who calls: API keys, what they may do, and the account they act on.
//!
//! Every `sk_test_` key may do everything. A restricted `rk_test_` key may do what it was given
//! over the control API, and everything when nothing was given. Live and unknown keys are refused.

use std::collections::BTreeMap;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;

use crate::{Request, failure::Failure};

/// What a permission is about. The names are those of `POST /_sandbox/keys`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Resource {
    Account,
    ApprovalRequests,
    Balance,
    Charges,
    Connect,
    Customers,
    Disputes,
    Events,
    PaymentIntents,
    Refunds,
}

impl Resource {
    /// The name in Stripe's permission ids.
    const fn permission(self) -> &'static str {
        match self {
            Self::Account => "account",
            Self::ApprovalRequests => "approval_request",
            Self::Balance => "balance",
            Self::Charges => "charge",
            Self::Connect => "connect",
            Self::Customers => "customer",
            Self::Disputes => "dispute",
            Self::Events => "event",
            Self::PaymentIntents => "payment_intent",
            Self::Refunds => "refund",
        }
    }
}

/// How far a permission goes; writing includes reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    None,
    Read,
    Write,
}

/// What a restricted key was given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Grant {
    /// Absent means everything.
    pub(crate) permissions: Option<BTreeMap<Resource, Access>>,
    /// Whether Stripe holds the key's refunds for approval.
    pub(crate) agent_tagged: bool,
}

/// The restricted keys that were given something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Keys(BTreeMap<String, Grant>);

/// The key behind a request and the account it acts on.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    masked_key: String,
    grant: Grant,
    pub(crate) account: String,
}

impl Keys {
    pub(crate) fn set(&mut self, key: String, grant: Grant) {
        self.0.insert(key, grant);
    }

    /// Finds out who calls.
    pub(crate) fn caller(&self, request: &Request, own_account: &str) -> Result<Caller, Failure> {
        let key = presented_key(request).ok_or_else(|| {
            Failure::unauthorized(
                "You did not provide an API key. Send it in the Authorization header, as \
                 'Authorization: Bearer sk_test_...'.",
            )
        })?;
        let restricted = key.starts_with("rk_test_");
        if !restricted && !key.starts_with("sk_test_") {
            let text = format!("Invalid API Key provided: {}", masked(&key));
            return Err(Failure::unauthorized(text));
        }
        let grant = if restricted { self.0.get(&key).cloned() } else { None };
        let caller = Caller {
            masked_key: masked(&key),
            grant: grant.unwrap_or_default(),
            account: own_account.to_owned(),
        };
        let of = request.header("stripe-account").or_else(|| request.header("stripe-context"));
        match of {
            Some(account) => caller.on_account(account),
            None => Ok(caller),
        }
    }
}

impl Caller {
    fn on_account(self, account: &str) -> Result<Self, Failure> {
        if !self.may(Resource::Connect, Access::Read) {
            return Err(Failure::forbidden(
                "You passed a restricted API key with the Stripe-Account header, but the \
                 restricted API key does not have any Connect permissions.",
            ));
        }
        let number = account.strip_prefix("acct_").unwrap_or_default();
        if number.is_empty() || !number.chars().all(|letter| letter.is_ascii_alphanumeric()) {
            return Err(Failure::forbidden(format!(
                "The provided key '{}' does not have access to account '{account}' (or that \
                 account does not exist).",
                self.masked_key
            ))
            .code("account_invalid"));
        }
        Ok(Self { account: account.to_owned(), ..self })
    }

    /// Stripe's 403 unless the key has the permission.
    pub(crate) fn require(&self, resource: Resource, access: Access) -> Result<(), Failure> {
        if self.may(resource, access) {
            return Ok(());
        }
        let verb = if access == Access::Write { "write" } else { "read" };
        Err(Failure::forbidden(format!(
            "The provided key '{}' does not have the required permissions for this endpoint on \
             account '{}'. Having the 'rak_{}_{verb}' permission would allow this request to \
             continue.",
            self.masked_key,
            self.account,
            resource.permission()
        )))
    }

    /// The key as it may be shown.
    pub(crate) fn shown(&self) -> &str {
        &self.masked_key
    }

    /// Whether Stripe holds this key's refunds for approval.
    pub(crate) const fn agent_tagged(&self) -> bool {
        self.grant.agent_tagged
    }

    fn may(&self, resource: Resource, access: Access) -> bool {
        let Some(permissions) = &self.grant.permissions else {
            return true;
        };
        permissions.get(&resource).is_some_and(|held| *held >= access)
    }
}

/// The key of a Bearer or Basic header.
fn presented_key(request: &Request) -> Option<String> {
    let (scheme, rest) = request.header("authorization")?.split_once(' ')?;
    let key = if scheme.eq_ignore_ascii_case("bearer") {
        rest.trim().to_owned()
    } else if scheme.eq_ignore_ascii_case("basic") {
        let decoded = String::from_utf8(STANDARD.decode(rest.trim()).ok()?).ok()?;
        decoded.split(':').next()?.to_owned()
    } else {
        return None;
    };
    if key.is_empty() { None } else { Some(key) }
}

/// A key's kind and its last four letters; a short key shows its kind only.
fn masked(key: &str) -> String {
    let kind = key.split_inclusive('_').take(2).collect::<String>();
    let letters: Vec<char> = key.chars().skip(kind.chars().count()).collect();
    match letters.last_chunk::<4>() {
        Some(last) if letters.len() >= 12 => {
            format!("{kind}********{}", last.iter().collect::<String>())
        }
        // Without underscores the whole key would count as its kind.
        _ if letters.is_empty() => "********".to_owned(),
        _ => format!("{kind}********"),
    }
}

#[cfg(test)]
mod tests {
    use super::masked;

    #[test]
    fn keys_are_masked() {
        for (key, shown) in [
            ("rk_test_51AbCdEfGhIj4242", "rk_test_********4242"),
            ("sk_live_short", "sk_live_********"),
            ("hunter2", "********"),
            ("", "********"),
        ] {
            assert_eq!(masked(key), shown);
        }
    }
}
