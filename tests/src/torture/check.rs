//! Safety, judged from outside: Stripe's refunds against the authority's intents, and both against
//! what clients were told. Pure: it is handed what was read, and answers the first contradiction.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::asks::Told;
use crate::http::text;

/// What was read, in this order, while the gateway worked on.
pub(crate) struct Seen {
    /// Stripe's refunds before the intents were read: the intent of each was submitted by then.
    pub(crate) before: Vec<Value>,
    pub(crate) intents: Vec<Value>,
    /// Stripe's refunds afterwards: the refund of each settled intent is among them.
    pub(crate) after: Vec<Value>,
}

/// What agents may spend together, of all intents that are read.
#[derive(Clone)]
pub(crate) struct Cap {
    /// Their names.
    pub(crate) agents: Vec<String>,
    /// In millionths of a dollar.
    pub(crate) micro_usd: u64,
}

impl Cap {
    /// Whether an intent is of these agents.
    pub(crate) fn is_of(&self, intent: &Value) -> bool {
        self.agents.iter().any(|agent| agent == text(intent, "/agent"))
    }

    /// What counts as spent, in millionths of a dollar.
    pub(crate) fn spent(&self, intents: &[Value]) -> u64 {
        let counts = |intent: &&Value| {
            let state = text(intent, "/state");
            self.is_of(intent) && ["submitted", "awaiting_stripe", "settled"].contains(&state)
        };
        let counted = intents.iter().filter(counts);
        counted.filter_map(|intent| intent["amount"]["usdMicros"].as_u64()).sum()
    }
}

/// Holds everything that was read against everything that clients were told before.
///
/// # Errors
///
/// The first contradiction, in a sentence with its ids.
pub(crate) fn safety(seen: &Seen, told: &[Told], caps: &[Cap]) -> Result<(), String> {
    let intents: BTreeMap<&str, &Value> =
        seen.intents.iter().map(|intent| (text(intent, "/intentId"), intent)).collect();
    let made = at_most_once(&seen.after)?;
    for refund in &seen.before {
        allowed(refund, &intents)?;
    }
    for intent in &seen.intents {
        recorded(intent, &made)?;
    }
    keyless_once(&seen.after, &intents)?;
    caps.iter().try_for_each(|cap| within(cap, &seen.intents))?;
    told.iter().try_for_each(|told| kept(told, &intents, &made))
}

/// At most one refund carries an intent's id, and at most one an agent's key (I1).
///
/// Answers the refunds by their intents.
fn at_most_once(refunds: &[Value]) -> Result<BTreeMap<&str, &Value>, String> {
    let mut of_intent = BTreeMap::new();
    let mut of_key = BTreeMap::new();
    for refund in refunds {
        let intent = text(refund, "/metadata/burnbound_intent");
        let key =
            (text(refund, "/metadata/burnbound_agent"), text(refund, "/metadata/burnbound_key"));
        if intent.is_empty() || key.0.is_empty() || key.1.is_empty() {
            return Err(format!("a refund lacks its metadata: {refund}"));
        }
        let twins = [of_intent.insert(intent, refund), of_key.insert(key, refund)];
        if let Some(twin) = twins.into_iter().flatten().next() {
            return Err(format!("refunded twice: {twin} and {refund}"));
        }
    }
    Ok(of_intent)
}

/// A refund has an intent that is submitted or settled, and is what that asked for (I2, I3).
fn allowed(refund: &Value, intents: &BTreeMap<&str, &Value>) -> Result<(), String> {
    let Some(intent) = intents.get(text(refund, "/metadata/burnbound_intent")) else {
        return Err(format!("a refund belongs to no intent: {refund}"));
    };
    if !["submitted", "settled"].contains(&text(intent, "/state")) {
        return Err(format!("there is a refund {refund} of the intent {intent}"));
    }
    let micro_usd = intent["amount"]["usdMicros"].to_string();
    let is_same = refund["charge"] == intent["charge"]
        && refund["amount"] == intent["amount"]["minor"]
        && refund["currency"] == intent["amount"]["currency"]
        && text(refund, "/metadata/burnbound_usd_micros") == micro_usd;
    if is_same { Ok(()) } else { Err(format!("the refund {refund} is not the intent's {intent}")) }
}

/// A settled intent's refund is at Stripe and is its own.
fn recorded(intent: &Value, made: &BTreeMap<&str, &Value>) -> Result<(), String> {
    let id = text(intent, "/intentId");
    let refund = made.get(id).map(|refund| text(refund, "/id"));
    let is_settled = text(intent, "/state") == "settled";
    if is_settled && refund != Some(text(intent, "/refund/id")) {
        return Err(format!("settled, and Stripe's refund is {refund:?}: {intent}"));
    }
    Ok(())
}

/// Who forgets keys refunds a charge and amount once.
fn keyless_once(refunds: &[Value], intents: &BTreeMap<&str, &Value>) -> Result<(), String> {
    let mut kinds = BTreeSet::new();
    for refund in refunds {
        let Some(intent) = intents.get(text(refund, "/metadata/burnbound_intent")) else {
            continue;
        };
        let is_keyless = text(intent, "/idempotencyKey").starts_with("auto_");
        let kind = (text(refund, "/charge"), refund["amount"].as_u64());
        if is_keyless && !kinds.insert(kind) {
            return Err(format!("refunded twice without a key: {refund}"));
        }
    }
    Ok(())
}

/// What counts under a cap is at most the cap (I5).
fn within(cap: &Cap, intents: &[Value]) -> Result<(), String> {
    let (spent, agents) = (cap.spent(intents), cap.agents.join(" and "));
    if spent > cap.micro_usd {
        return Err(format!("{agents} spent {spent} of {} millionths of a dollar", cap.micro_usd));
    }
    Ok(())
}

/// What a client was told still holds (I7).
fn kept(
    told: &Told,
    intents: &BTreeMap<&str, &Value>,
    made: &BTreeMap<&str, &Value>,
) -> Result<(), String> {
    let Told { intent: id, status, refund } = told;
    let Some(intent) = intents.get(id.as_str()) else {
        return Err(format!("a client was told `{status}` of {id}, which is lost"));
    };
    let state = text(intent, "/state");
    let is_made = made.contains_key(id.as_str());
    let holds = match status.as_str() {
        "refunded" => state == "settled" && text(intent, "/refund/id") == refund && is_made,
        "denied" => ["denied", "expired", "canceled"].contains(&state) && !is_made,
        "failed" => state == "failed" && !is_made,
        // What may still become anything, by asking again or by a person.
        "approved" | "in_progress" | "not_executed" | "pending_approval" => true,
        _ => false,
    };
    if holds {
        return Ok(());
    }
    Err(format!("a client was told `{status}` {refund}, and the record says {intent}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn intent(id: &str, state: &str) -> Value {
        let refund = (state == "settled").then(|| json!({ "id": format!("re_{id}") }));
        json!({
            "intentId": id, "state": state, "agent": "bot", "charge": "ch_1",
            "idempotencyKey": format!("auto_{id}"), "refund": refund,
            "amount": { "minor": 500, "currency": "usd", "usdMicros": 400_000_000 },
            "updatedAt": "2026-11-30T14:44:54.921Z",
        })
    }

    fn refund(id: &str, intent: &str, key: &str, amount: u64) -> Value {
        json!({
            "id": id, "charge": "ch_1", "amount": amount, "currency": "usd",
            "metadata": {
                "burnbound_intent": intent, "burnbound_agent": "agt_1", "burnbound_key": key,
                "burnbound_usd_micros": "400000000",
            },
        })
    }

    /// A check that cannot fail proves nothing.
    #[test]
    fn every_contradiction_is_seen() {
        let good = || vec![refund("re_a", "a", "k", 500)];
        let settled = || vec![intent("a", "settled")];
        let over = || vec![intent("a", "settled"), intent("b", "submitted")];
        let twins = || vec![refund("re_a", "a", "k", 500), refund("re_b", "b", "l", 500)];
        let table = [
            // name                refunds                                 intents                          told to a client           what is said, if anything
            ("all is well", good(), settled(), ("a", "refunded", "re_a"), ""),
            (
                "same intent",
                vec![refund("re_a", "a", "k", 500), refund("re_b", "a", "l", 500)],
                settled(),
                ("a", "in_progress", ""),
                "refunded twice",
            ),
            (
                "same key",
                vec![refund("re_a", "a", "k", 500), refund("re_b", "b", "k", 500)],
                over(),
                ("a", "in_progress", ""),
                "refunded twice",
            ),
            (
                "keyless twice",
                twins(),
                over(),
                ("a", "in_progress", ""),
                "refunded twice without a key",
            ),
            ("no intent", good(), vec![], ("a", "in_progress", ""), "belongs to no intent"),
            (
                "denied, yet made",
                good(),
                vec![intent("a", "denied")],
                ("a", "in_progress", ""),
                "of the intent",
            ),
            (
                "failed, yet made",
                good(),
                vec![intent("a", "failed")],
                ("a", "in_progress", ""),
                "of the intent",
            ),
            (
                "another amount",
                vec![refund("re_a", "a", "k", 501)],
                settled(),
                ("a", "in_progress", ""),
                "is not the intent's",
            ),
            (
                "settled, not made",
                vec![],
                settled(),
                ("a", "in_progress", ""),
                "settled, and Stripe's",
            ),
            ("over the cap", good(), over(), ("a", "in_progress", ""), "bot spent 800000000"),
            ("told and lost", good(), settled(), ("b", "in_progress", ""), "which is lost"),
            (
                "told another one",
                good(),
                settled(),
                ("a", "refunded", "re_b"),
                "was told `refunded`",
            ),
            (
                "told too early",
                good(),
                vec![intent("a", "submitted")],
                ("a", "refunded", "re_a"),
                "was told `refunded`",
            ),
            ("told denied", good(), settled(), ("a", "denied", ""), "was told `denied`"),
            ("told failed", good(), settled(), ("a", "failed", ""), "was told `failed`"),
        ];
        let caps = [Cap { agents: vec!["bot".into()], micro_usd: 700_000_000 }];
        for (name, refunds, intents, (id, status, of), said) in table {
            let told = [Told { intent: id.into(), status: status.into(), refund: of.into() }];
            let seen = Seen { before: refunds.clone(), intents, after: refunds };
            let found = safety(&seen, &told, &caps).err().unwrap_or_default();
            assert!(found.contains(said) && found.is_empty() == said.is_empty(), "{name}: {found}");
        }
    }
}
