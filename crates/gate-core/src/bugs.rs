//! Seeded bugs: mutations of one line each, by which the simulation is itself put to the test. A
//! simulation that finds nothing proves nothing, unless it finds these.
//!
//! Without the feature `seeded-bugs`, which the simulation's crate alone turns on, [`on`] is
//! `false` when it is compiled, and nothing of this is in a program.

macro_rules! bugs {
    ($($(#[doc = $doc:literal])+ $bug:ident,)*) => {
        /// A defence that is switched off.
        #[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
        pub enum Bug { $($(#[doc = $doc])+ $bug,)* }

        impl Bug {
            /// Every bug.
            pub const ALL: &'static [Self] = &[$(Self::$bug),*];
        }
    };
}

bugs! {
    /// The age of an attempt is taken by the gateway's clock.
    AgeByOwnClock,
    /// An alarm for what cannot be found out is never raised.
    AlarmNeverRaised,
    /// What the authority answered is taken although its body is another.
    AnswerDigestNotChecked,
    /// An answer of the authority's is taken whatever call it is to.
    AnswerOfOtherCallTaken,
    /// An answer of the authority's is taken whatever its status.
    AnswerStatusNotSigned,
    /// An approval can be used past its time.
    ApprovalExpiryIgnored,
    /// An approval goes over to the intent that takes over the key.
    ApprovalReusable,
    /// The same key with other arguments is answered as if they were the same.
    ArgumentsNotBound,
    /// A decision whose answer was lost is asked for again as another attempt.
    AttemptIdFresh,
    /// A transition has no audit entry.
    AuditLeftOut,
    /// What may have been sent is sent again without looking first.
    BlindRetry,
    /// A connection that broke counts as one that never was.
    BrokenIsNotSent,
    /// A gateway's call is taken although its body is another.
    CallDigestNotChecked,
    /// A gateway's call is taken however old it is.
    CallExpiryIgnored,
    /// A gateway's call is taken whoever signed it.
    CallSignatureNotChecked,
    /// A clear answer to a later attempt clears an earlier one.
    ClearedByLater,
    /// A person's denial is not remembered under other keys.
    DenialForgotten,
    /// An approval is taken although what was asked has been changed since.
    DigestNotChecked,
    /// An attempt without a clear answer leaves no doubt.
    DoubtForgotten,
    /// A listing without the refund proves that there is none.
    EmptyListingIsProof,
    /// A gateway's key is taken past its grace.
    ExpiredGatewayKeyTaken,
    /// A key is taken past its end.
    ExpiredKeyTaken,
    /// A decision counts past the time for it.
    ExpiredVoteCounts,
    /// A listing that failed counts as an empty one.
    FailedListingIsEmpty,
    /// A refund that came back at once counts as made.
    FailedRefundIsSettled,
    /// That nothing was executed is told before it is recorded.
    ForetoldNotExecuted,
    /// Each lease sends under a key of its own.
    FreshKeyPerLease,
    /// "In full" means what is left when an approval is used.
    FullNotFixed,
    /// Whether a gateway's key is taken is not looked at again in the transaction.
    GatewayKeyNotAskedAgain,
    /// The first key of a gateway ends when the second is made.
    GraceNotGiven,
    /// After an approval the policy is not asked again.
    HardChecksSkipped,
    /// A request without a key is never the same as another.
    KeylessMatchIgnored,
    /// Refunds that were made are not looked at again.
    LateFailureIgnored,
    /// An attempt begins although the lease ends before it does.
    LeaseEndIgnored,
    /// A lease counts from when its answer came.
    LeaseFromAnswer,
    /// A lease is given under the fence of the one before.
    LeaseWithoutFence,
    /// What cannot be found is looked for for ever.
    LookedForEver,
    /// A table of exchange rates is taken whatever it says.
    MadTableTaken,
    /// A call that came before is taken again.
    NonceNotChecked,
    /// That a call came is not remembered.
    NonceNotKept,
    /// The owner of an agent approves for it.
    OwnerMayApprove,
    /// What waits for a person counts as spent.
    PendingCounts,
    /// The policy is read once.
    PolicyCached,
    /// A gateway tries its newest secret alone.
    PreviousSecretNotTried,
    /// A read that came before is answered again.
    ReadNonceNotChecked,
    /// A gateway that is refused forgets that its call may have been taken before.
    RefusalAfterDoubtBelieved,
    /// A refusal is believed without a listing.
    RefusalWithoutListing,
    /// Asking again after a person's denial wipes who denied it.
    ReopenForgetsDenial,
    /// Spend counts in the day of the asking.
    ReservedInDayOfAsking,
    /// That a call came before is believed to say that nothing was done for it.
    ReusedNonceIsRefusal,
    /// Older news make a refund that came back a refund again.
    ReversedBack,
    /// A revoked gateway's call is taken.
    RevokedGatewayTaken,
    /// A revoked agent's key is taken.
    RevokedKeyTaken,
    /// The approval of somebody who lost their role since counts.
    RevokedReviewerCounts,
    /// Anybody who reviews approves, whatever role was asked for.
    RoleNotAsked,
    /// A gateway's first key stays, although it was to end at once.
    RotatedAtOnceKept,
    /// A refund that was seen is refused under an older fence.
    SeenRefusedWhenStale,
    /// It is sent again after Stripe has forgotten the key.
    SentAfter23Hours,
    /// It is sent again under a stop.
    SentUnderStop,
    /// An approved refund becomes as small as what is left.
    ShrunkSilently,
    /// What a gateway signs does not cover the agent's key.
    SignedWithoutAgent,
    /// Spend is never given back.
    SpendNeverReleased,
    /// News are taken from whoever held the lease before.
    StaleOutcomeTaken,
    /// Rates are used past their age.
    StaleRatesUsed,
    /// The store shows sums from before the transaction.
    StaleSums,
    /// A stop ends what was approved.
    StopEndsApproved,
    /// A 500 counts as a refusal.
    Stored500IsFailure,
    /// What is submitted is not counted.
    SubmittedDoesNotCount,
    /// A team's budget is looked at, and nothing is reserved in it.
    TeamBudgetNotReserved,
    /// What a team spent is not looked at.
    TeamSpendNotSeen,
    /// A stop of a team does not hold what was approved.
    TeamStopMissesApproved,
    /// An attempt that timed out counts as one that was not sent.
    TimeoutIsNotSent,
    /// The store shows what was asked before as it was before the transaction.
    TwinNotSeen,
    /// An answer is taken that nobody signed.
    UnsignedAnswerTaken,
    /// Somebody who approves twice counts as two.
    VoteCountsTwice,
    /// A week begins with the day of the refund.
    WeekBeginsToday,
    /// An approved refund counts at the rate of its asking.
    WorthOfAskingKept,
}

/// Whether the bug is there.
#[cfg(not(feature = "seeded-bugs"))]
#[must_use]
#[inline(always)]
pub const fn on(_bug: Bug) -> bool {
    false
}

#[cfg(feature = "seeded-bugs")]
pub use switch::{on, set};

#[cfg(feature = "seeded-bugs")]
mod switch {
    use std::cell::Cell;

    use super::Bug;

    thread_local! {
        static BUG: Cell<Option<Bug>> = const { Cell::new(None) };
    }

    /// Whether the bug is there, in this thread.
    #[must_use]
    pub fn on(bug: Bug) -> bool {
        BUG.get() == Some(bug)
    }

    /// Puts a bug in, or takes it out, in this thread.
    pub fn set(bug: Option<Bug>) {
        BUG.set(bug);
    }
}
