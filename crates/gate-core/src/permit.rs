//! The proofs that the paying code must hold: a permit says whose turn it is, a ticket that the
//! permit agrees with what was asked and read.

use std::time::Duration;

use gate_money::Amount;

use crate::bugs::{self, Bug};
use crate::charge::Channel;
use crate::ids::{AgentId, ChargeId, IntentId};
use crate::intent::Intent;
use crate::request::FixedRequest;
use crate::state::State;
use crate::time::{Deadline, Timestamp};

/// The right to work on one intent for a while. Data, from a row or from a verified answer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Lease {
    /// Rises with each lease of the intent; the record of an older one is refused.
    pub fence: u64,
    /// How long it holds, counted from before it was asked for.
    pub span: Duration,
}

/// An intent to work on, with the lease that makes it this worker's.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The intent.
    pub intent: Intent,
    /// The lease.
    pub lease: Lease,
    /// Whether a stop holds the agent, its team or the organization: then nothing is sent.
    pub stopped: bool,
    /// Whether Stripe may hold what is sent with the key that the intent was decided with: then what
    /// may have been sent is only looked for.
    pub agent_tagged: bool,
    /// When it was given, by the authority's clock: the one by which the intent's times were set.
    pub at: Timestamp,
}

/// Whose turn it is to pay: a submitted intent and the lease on it.
#[derive(Clone, Debug)]
pub struct Permit {
    /// The submitted intent.
    pub intent: Intent,
    /// The lease.
    pub lease: Lease,
}

/// What a permit has to agree with.
#[derive(Debug)]
pub(crate) struct Expected<'a> {
    pub(crate) agent: &'a AgentId,
    pub(crate) charge: &'a ChargeId,
    pub(crate) amount: Amount,
    pub(crate) channel: &'a Channel,
}

/// Proof that a permit was held against what was asked and what Stripe says. Not `Clone`, and made
/// by one private function of this crate; a processor accepts nothing else:
///
/// ```compile_fail
/// fn forge(intent: gate_core::Intent) -> gate_core::Ticket {
///     gate_core::Ticket { intent, fence: 1 }
/// }
/// ```
///
/// ```compile_fail
/// fn twice(ticket: &gate_core::Ticket) -> gate_core::Ticket {
///     ticket.clone()
/// }
/// ```
#[derive(Debug)]
#[must_use = "a ticket that is dropped leaves its intent submitted until its lease ends"]
pub struct Ticket {
    intent: IntentId,
    charge: ChargeId,
    amount: Amount,
    request: FixedRequest,
    livemode: bool,
    fence: u64,
    lease_ends: Deadline,
}

impl Ticket {
    /// The intent that is paid.
    #[must_use]
    pub const fn intent(&self) -> &IntentId {
        &self.intent
    }

    /// The charge that is refunded.
    #[must_use]
    pub const fn charge(&self) -> &ChargeId {
        &self.charge
    }

    /// What is refunded of it.
    #[must_use]
    pub const fn amount(&self) -> Amount {
        self.amount
    }

    /// The idempotency key at Stripe: `bb_` and the intent's id.
    #[must_use]
    pub fn idempotency_key(&self) -> String {
        if bugs::on(Bug::FreshKeyPerLease) {
            return format!("bb_{}_{}", self.intent, self.fence);
        }
        format!("bb_{}", self.intent)
    }

    /// The bytes to send.
    #[must_use]
    pub const fn request(&self) -> &FixedRequest {
        &self.request
    }

    /// Whether live money moves.
    #[must_use]
    pub const fn livemode(&self) -> bool {
        self.livemode
    }

    pub(crate) const fn fence(&self) -> u64 {
        self.fence
    }

    pub(crate) const fn lease_ends(&self) -> Deadline {
        self.lease_ends
    }
}

/// Trades a permit for a ticket, or names what does not agree. The one way to a ticket.
///
/// Invariant *submitted-first*: only an intent that the authority says is `submitted`, with its
/// request fixed, becomes one.
pub(crate) fn ticket(
    permit: Permit,
    expected: &Expected<'_>,
    lease_ends: Deadline,
) -> Result<Ticket, &'static str> {
    let Permit { intent, lease } = permit;
    let Some(request) = intent.request else {
        return Err("request");
    };
    let agrees = [
        ("state", intent.state == State::Submitted),
        ("agent", intent.agent == *expected.agent),
        ("charge", intent.charge == *expected.charge),
        ("amount", intent.amount == expected.amount),
        ("account", intent.account == expected.channel.account),
        ("account of the request", request.account == expected.channel.account),
        ("mode", intent.livemode == expected.channel.livemode),
        ("bytes", request.refunds(&intent.id, expected.charge, expected.amount)),
    ];
    if let Some((what, _)) = agrees.into_iter().find(|(_, good)| !good) {
        return Err(what);
    }
    Ok(Ticket {
        intent: intent.id,
        charge: intent.charge,
        amount: intent.amount,
        request,
        livemode: intent.livemode,
        fence: lease.fence,
        lease_ends,
    })
}
