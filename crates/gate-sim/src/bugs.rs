//! The seeded bugs and the seeds that find them: a simulation that finds nothing proves nothing.

use std::ops::Range;

use gate_core::bugs::Bug;

use crate::run::{Options, run};
use crate::witness::Violation;

/// The seed that finds each bug, to be tried first. A bug without one is looked for among all.
#[rustfmt::skip]
pub const KILLERS: &[(Bug, u64)] = &[
    // the bug, its seed                  the law that is broken
    (Bug::AgeByOwnClock, 4278),           // F21
    (Bug::AlarmNeverRaised, 27),          // I8
    (Bug::AnswerDigestNotChecked, 32),    // F5
    (Bug::AnswerOfOtherCallTaken, 2),     // F5
    (Bug::AnswerStatusNotSigned, 32),     // F5
    (Bug::ApprovalExpiryIgnored, 962),    // I6
    (Bug::ApprovalReusable, 254),         // I9
    (Bug::ArgumentsNotBound, 40),         // F3
    (Bug::AttemptIdFresh, 3),             // F6
    (Bug::AuditLeftOut, 0),               // I9
    (Bug::BlindRetry, 0),                 // F7
    (Bug::BrokenIsNotSent, 15),           // F7
    (Bug::CallDigestNotChecked, 2),       // F5
    (Bug::CallExpiryIgnored, 14),         // F5
    (Bug::CallSignatureNotChecked, 2),    // F5
    (Bug::ClearedByLater, 13),            // I4
    (Bug::DenialForgotten, 51),           // F13
    (Bug::DigestNotChecked, 21),          // I6
    (Bug::DoubtForgotten, 3),             // I7
    (Bug::EmptyListingIsProof, 46),       // I4
    (Bug::ExpiredGatewayKeyTaken, 19),    // F27
    (Bug::ExpiredKeyTaken, 16),           // F13
    (Bug::ExpiredVoteCounts, 40),         // I6
    (Bug::FailedListingIsEmpty, 0),       // F7
    (Bug::FailedRefundIsSettled, 390),    // I8
    (Bug::ForetoldNotExecuted, 159),      // I7
    (Bug::FreshKeyPerLease, 0),           // I1
    (Bug::FullNotFixed, 44),              // I3
    (Bug::GatewayKeyNotAskedAgain, 283),  // F27
    (Bug::GraceNotGiven, 14),             // F27
    (Bug::HardChecksSkipped, 35),         // F9
    (Bug::KeylessMatchIgnored, 0),        // I1
    (Bug::LateFailureIgnored, 3),         // I8
    (Bug::LeaseEndIgnored, 0),            // F7
    (Bug::LeaseFromAnswer, 1661),         // F7
    (Bug::LeaseWithoutFence, 0),          // F23
    (Bug::LookedForEver, 59),             // I8
    (Bug::MadTableTaken, 3),              // F30
    (Bug::NonceNotChecked, 32),           // I9
    (Bug::NonceNotKept, 7),               // F7
    (Bug::OwnerMayApprove, 6),            // I6
    (Bug::PendingCounts, 0),              // I4
    (Bug::PolicyCached, 10),              // I6
    (Bug::PreviousSecretNotTried, 35),    // F27
    (Bug::ReadNonceNotChecked, 155),      // F5
    (Bug::RefusalAfterDoubtBelieved, 32), // F6
    (Bug::RefusalWithoutListing, 26),     // F20
    (Bug::ReopenForgetsDenial, 60),       // F13
    (Bug::ReservedInDayOfAsking, 54),     // F9
    (Bug::ReusedNonceIsRefusal, 82),      // F6
    (Bug::ReversedBack, 1448),            // I9
    (Bug::RevokedGatewayTaken, 7),        // F27
    (Bug::RevokedKeyTaken, 37),           // F13
    (Bug::RevokedReviewerCounts, 699),    // I6
    (Bug::RoleNotAsked, 0),               // I6
    (Bug::RotatedAtOnceKept, 14),         // F27
    (Bug::SeenRefusedWhenStale, 3),       // F23
    (Bug::SentAfter23Hours, 0),           // F21
    (Bug::SentUnderStop, 168),            // F13
    (Bug::ShrunkSilently, 44),            // I3
    (Bug::SignedWithoutAgent, 32),        // F5
    (Bug::SpendNeverReleased, 3),         // I4
    (Bug::StaleOutcomeTaken, 208),        // F23
    (Bug::StaleRatesUsed, 45),            // F30
    (Bug::StaleSums, 1001),               // I5
    (Bug::StopEndsApproved, 690),         // F13
    (Bug::Stored500IsFailure, 13),        // I4
    (Bug::SubmittedDoesNotCount, 0),      // I4
    (Bug::TeamBudgetNotReserved, 3),      // F9
    (Bug::TeamSpendNotSeen, 3),           // I5
    (Bug::TeamStopMissesApproved, 26),    // F13
    (Bug::TimeoutIsNotSent, 3),           // I7
    (Bug::TwinNotSeen, 34),               // I9
    (Bug::UnsignedAnswerTaken, 2),        // F5
    (Bug::VoteCountsTwice, 8),            // I6
    (Bug::WeekBeginsToday, 3),            // F9
    (Bug::WorthOfAskingKept, 483),        // F30
];

/// The first seed that finds `bug`, and how: `known` before all others.
#[must_use]
pub fn killed(bug: Bug, known: Option<u64>, seeds: Range<u64>) -> Option<(u64, Violation)> {
    let options = Options { bug: Some(bug), ..Options::default() };
    known.into_iter().chain(seeds).find_map(|seed| {
        let found = run(seed, &options).violations.into_iter().next()?;
        Some((seed, found))
    })
}
