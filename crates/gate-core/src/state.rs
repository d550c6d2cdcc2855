//! The stored life of an intent: one enum and one function.

use std::fmt;

/// Where an intent stands. Shipped names are never renamed.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum State {
    /// Before its first decision; never stored.
    Asked,
    /// A person has to decide. Holds no spend.
    PendingApproval,
    /// A person allowed it; to be checked again and submitted.
    Approved,
    /// Allowed and durably recorded; the refund may exist. Counts as spend.
    Submitted,
    /// Stripe holds it for an approval of its own. Counts as spend; never sent again by us.
    AwaitingStripe,
    /// Stripe certainly did nothing; its spend was given back. May be decided again.
    NotExecuted,
    /// Stripe made the refund.
    Settled,
    /// Stripe did not make the refund; its spend was given back.
    Failed,
    /// Stripe made the refund and later gave the money back to us.
    Reversed,
    /// The policy or a person said no.
    Denied,
    /// Nobody decided, or nobody used the approval, in time.
    Expired,
    /// Withdrawn before it was submitted.
    Canceled,
}

/// What can happen to an intent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// The decision: a person has to look.
    Hold,
    /// The decision, or the decision after an approval: pay.
    Allow,
    /// The policy or a person says no.
    Deny,
    /// A person says yes.
    Approve,
    /// Time ran out.
    Expire,
    /// It was withdrawn.
    Cancel,
    /// A refund was seen at Stripe.
    Settle,
    /// Stripe refused, or its refund failed at once.
    Fail,
    /// Stripe asks for an approval of its own.
    Await,
    /// Stripe certainly did nothing.
    NotExecute,
    /// The refund failed or was canceled after it had been made.
    Reverse,
}

/// An event that cannot happen in a state: a fault of this program, or news that came too late.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct IllegalEvent {
    /// The state it met.
    pub from: State,
    /// What was to happen.
    pub event: Event,
}

impl fmt::Display for IllegalEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an intent that is {} cannot {:?}", self.from.as_str(), self.event)
    }
}

impl std::error::Error for IllegalEvent {}

impl State {
    /// Every stored state.
    pub const STORED: [Self; 11] = [
        Self::PendingApproval,
        Self::Approved,
        Self::Submitted,
        Self::AwaitingStripe,
        Self::NotExecuted,
        Self::Settled,
        Self::Failed,
        Self::Reversed,
        Self::Denied,
        Self::Expired,
        Self::Canceled,
    ];

    /// The state after `event`: the only way from one state to another.
    ///
    /// # Errors
    ///
    /// [`IllegalEvent`] when `event` cannot happen here; the state stays what it is.
    pub const fn after(self, event: Event) -> Result<Self, IllegalEvent> {
        use Event as E;
        match (self, event) {
            (Self::Asked | Self::NotExecuted, E::Hold) => Ok(Self::PendingApproval),
            (Self::Asked | Self::Approved | Self::NotExecuted, E::Allow) => Ok(Self::Submitted),
            (Self::Asked | Self::PendingApproval | Self::Approved | Self::NotExecuted, E::Deny) => {
                Ok(Self::Denied)
            }
            (Self::PendingApproval, E::Approve) => Ok(Self::Approved),
            (Self::PendingApproval | Self::Approved, E::Expire) => Ok(Self::Expired),
            (Self::PendingApproval | Self::Approved, E::Cancel) => Ok(Self::Canceled),
            // A refund seen at Stripe is always taken; seeing it twice is not an error.
            (
                Self::Submitted
                | Self::AwaitingStripe
                | Self::NotExecuted
                | Self::Failed
                | Self::Settled,
                E::Settle,
            ) => Ok(Self::Settled),
            // The record of a refusal, told twice, is the same record.
            (Self::Submitted | Self::AwaitingStripe | Self::Failed, E::Fail) => Ok(Self::Failed),
            // Looked at again, it is still held.
            (Self::Submitted | Self::AwaitingStripe, E::Await) => Ok(Self::AwaitingStripe),
            (Self::Submitted | Self::NotExecuted, E::NotExecute) => Ok(Self::NotExecuted),
            (Self::Settled | Self::Reversed, E::Reverse) => Ok(Self::Reversed),
            (from, event) => Err(IllegalEvent { from, event }),
        }
    }

    /// The name on the wire, in the store and in the manual.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Asked => "asked",
            Self::PendingApproval => "pending_approval",
            Self::Approved => "approved",
            Self::Submitted => "submitted",
            Self::AwaitingStripe => "awaiting_stripe",
            Self::NotExecuted => "not_executed",
            Self::Settled => "settled",
            Self::Failed => "failed",
            Self::Reversed => "reversed",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Canceled => "canceled",
        }
    }

    /// The stored state of that name, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::STORED.into_iter().find(|state| state.as_str() == text)
    }

    /// Whether the intent's dollars count as spent in this state.
    #[must_use]
    pub const fn counts(self) -> bool {
        match self {
            Self::Submitted | Self::AwaitingStripe | Self::Settled => true,
            Self::Asked
            | Self::PendingApproval
            | Self::Approved
            | Self::NotExecuted
            | Self::Failed
            | Self::Reversed
            | Self::Denied
            | Self::Expired
            | Self::Canceled => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole machine on one screen: a row a state, a column an event, `-` for cannot happen.
    #[test]
    fn the_machine() {
        use Event as E;
        let events = [
            E::Hold,
            E::Allow,
            E::Deny,
            E::Approve,
            E::Expire,
            E::Cancel,
            E::Settle,
            E::Fail,
            E::Await,
            E::NotExecute,
            E::Reverse,
        ];
        #[rustfmt::skip]
        let table = [
            //                   hold    allow   deny   approve  expire  cancel  settle  fail   await  not_ex  reverse
            "asked            |  pending submit  denied -        -       -       -       -      -      -       -       ",
            "pending_approval |  -       -       denied approved expired cancel  -       -      -      -       -       ",
            "approved         |  -       submit  denied -        expired cancel  -       -      -      -       -       ",
            "submitted        |  -       -       -      -        -       -       settled failed await  not_ex  -       ",
            "awaiting_stripe  |  -       -       -      -        -       -       settled failed await  -       -       ",
            "not_executed     |  pending submit  denied -        -       -       settled -      -      not_ex  -       ",
            "settled          |  -       -       -      -        -       -       settled -      -      -       reversed",
            "failed           |  -       -       -      -        -       -       settled failed -      -       -       ",
            "reversed         |  -       -       -      -        -       -       -       -      -      -       reversed",
            "denied           |  -       -       -      -        -       -       -       -      -      -       -       ",
            "expired          |  -       -       -      -        -       -       -       -      -      -       -       ",
            "canceled         |  -       -       -      -        -       -       -       -      -      -       -       ",
        ];
        let short = |state: State| match state {
            State::PendingApproval => "pending",
            State::Submitted => "submit",
            State::AwaitingStripe => "await",
            State::NotExecuted => "not_ex",
            State::Canceled => "cancel",
            other => other.as_str(),
        };
        let states = [State::Asked].into_iter().chain(State::STORED);
        assert_eq!(states.clone().count(), table.len());
        for state in states {
            let row =
                table.iter().find(|row| row.split(' ').next() == Some(state.as_str())).unwrap();
            let cells: Vec<&str> = row.split('|').nth(1).unwrap().split_whitespace().collect();
            for (event, expected) in events.into_iter().zip(cells) {
                let found = state.after(event).map_or("-", short);
                assert_eq!(found, expected, "{} on {event:?}", state.as_str());
            }
        }
    }

    #[test]
    fn names_come_back() {
        for state in State::STORED {
            assert_eq!(State::parse(state.as_str()), Some(state));
        }
        assert_eq!(State::parse("asked"), None, "never stored");
    }
}
