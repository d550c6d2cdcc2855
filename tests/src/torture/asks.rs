//! What is asked in a world, by whom, and what they were told.

use serde_json::{Value, json};

use crate::http::{self, Answer};
use crate::random::Random;

/// The agents; both have the same limits.
///
/// The second one's approvals are used by asking again, so it never forgets its keys.
pub(crate) const AGENTS: [&str; 2] = ["bot", "desk"];
/// What an agent may spend a day, in millionths of a dollar; the policy's text says the same.
pub(crate) const CAP_MICRO_USD: u64 = 700_000_000;
/// The policy of every world.
pub(crate) const POLICY: &str = r#"[organization]
timezone = "UTC"

[agents.bot]
methods = ["stripe_refund"]
allowed_hosts = ["stripe-refund.action"]
daily_cap = "700.00"
approval_threshold = "30.00"
on_approval = "execute"

[agents.desk]
methods = ["stripe_refund"]
allowed_hosts = ["stripe-refund.action"]
daily_cap = "700.00"
approval_threshold = "30.00"
on_approval = "agent"
"#;
/// Where a request for a refund goes.
pub(crate) const REFUND: &str = "/v1/actions/stripe.refund";

const CHARGES: u64 = 36;
const CURRENCIES: [&str; 4] = ["usd", "eur", "gbp", "jpy"];
/// Keys, and in the first agent's case requests without one, that a world knows.
const ASKS: u64 = 200;

/// A charge's id and what the sandbox is told to make of it.
pub(crate) fn charges(random: &mut Random) -> Vec<Value> {
    let charge = |number: u64| {
        let unit = if number % 4 == 3 { 100 } else { 1 };
        let amount = (2_000 + random.below(7_000)) * unit;
        let currency = CURRENCIES[(number % 4) as usize];
        json!({ "id": format!("ch_{number}"), "amount": amount, "currency": currency })
    };
    (0..CHARGES).map(charge).collect()
}

/// One thing that an agent wants, however often it asks for it.
pub(crate) struct Ask {
    /// Its place among the agents of its world, such as in [`AGENTS`].
    pub(crate) agent: usize,
    pub(crate) key: Option<String>,
    charge: String,
    /// In the currency's smallest unit; none for everything that is left.
    amount: Option<u64>,
}

impl Ask {
    /// A request of an agent's for a part of a charge, under a key.
    pub(crate) fn new(agent: usize, key: &str, charge: &str, amount: u64) -> Self {
        Self { agent, key: Some(key.to_owned()), charge: charge.to_owned(), amount: Some(amount) }
    }

    /// Everything that is asked for in a world, in the order in which it becomes known.
    pub(crate) fn all(random: &mut Random) -> Vec<Self> {
        let ask = |number: u64| {
            let agent = (number % 2) as usize;
            let keyless = agent == 0 && random.percent(25);
            let charge = random.below(CHARGES);
            let unit = if charge % 4 == 3 { 100 } else { 1 };
            // In parts when key-less, so that what counts as the same is plain to the check.
            let in_parts = keyless || random.percent(85);
            Self {
                agent,
                key: (!keyless).then(|| format!("k-{number}")),
                charge: format!("ch_{charge}"),
                amount: in_parts.then(|| (100 + random.below(3_900)) * unit),
            }
        };
        (0..ASKS).map(ask).collect()
    }

    pub(crate) fn body(&self) -> Value {
        let mut body = json!({ "target": self.charge });
        if let Some(amount) = self.amount {
            body["amountMinor"] = json!(amount);
        }
        if let Some(key) = &self.key {
            body["idempotencyKey"] = json!(key);
        }
        body
    }
}

/// What a client was told and will hold against the record for ever.
pub(crate) struct Told {
    pub(crate) intent: String,
    pub(crate) status: String,
    /// The refund's id; empty when none was told.
    pub(crate) refund: String,
}

/// What an answer promises; none when it is a problem, which promises nothing.
///
/// # Errors
///
/// An answer that no client may ever get.
pub(crate) fn told(ask: &Ask, answer: &Answer) -> Result<Option<Told>, String> {
    let code = answer.text("/code");
    // The same key always comes with the same arguments here, and nothing ever breaks inside.
    if answer.status == 500 || code == "idempotency_key_reused" {
        return Err(format!("{} was answered {} {}", ask.body(), answer.status, answer.json));
    }
    let of = |pointer: &str| http::text(&answer.json, pointer).to_owned();
    let told = Told { intent: of("/intentId"), status: of("/status"), refund: of("/refund/id") };
    Ok((answer.status < 300 && !told.intent.is_empty()).then_some(told))
}
