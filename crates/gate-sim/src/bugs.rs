//! The seeded bugs and the seeds that find them: a simulation that finds nothing proves nothing.

use std::ops::Range;

use gate_core::bugs::Bug;

use crate::run::{Options, run};
use crate::witness::Violation;

/// The seed that finds each bug, to be tried first. A bug without one is looked for among all.
#[rustfmt::skip]
pub const KILLERS: &[(Bug, u64)] = &[
    // the bug, its seed            the law that is broken
    (Bug::AgeByOwnClock, 2316),          // F21
    (Bug::AlarmNeverRaised, 27),         // I8
    (Bug::ApprovalExpiryIgnored, 962),   // I6
    (Bug::ApprovalReusable, 445),        // I9
    (Bug::ArgumentsNotBound, 4),         // F3
    (Bug::AuditLeftOut, 0),              // I9
    (Bug::BlindRetry, 0),                // F7
    (Bug::BrokenIsNotSent, 8),           // F7
    (Bug::ClearedByLater, 57),           // I4
    (Bug::DenialForgotten, 51),          // F13
    (Bug::DoubtForgotten, 3),            // I7
    (Bug::EmptyListingIsProof, 24),      // I4
    (Bug::ExpiredKeyTaken, 16),          // F13
    (Bug::ExpiredVoteCounts, 79),        // I6
    (Bug::FailedListingIsEmpty, 0),      // F7
    (Bug::FailedRefundIsSettled, 418),   // I8
    (Bug::ForetoldNotExecuted, 159),     // I7
    (Bug::FreshKeyPerLease, 0),          // I1
    (Bug::FullNotFixed, 100),            // I3
    (Bug::HardChecksSkipped, 35),        // F9
    (Bug::KeylessMatchIgnored, 0),       // I1
    (Bug::LateFailureIgnored, 8),        // I8
    (Bug::LeaseEndIgnored, 57),          // F7
    (Bug::LeaseWithoutFence, 0),         // F23
    (Bug::LookedForEver, 59),            // I8
    (Bug::OwnerMayApprove, 6),           // I6
    (Bug::PendingCounts, 0),             // I4
    (Bug::PolicyCached, 4),              // I6
    (Bug::RefusalWithoutListing, 24),    // F20
    (Bug::ReservedInDayOfAsking, 10),    // F9
    (Bug::ReversedBack, 1448),           // I9
    (Bug::RevokedKeyTaken, 37),          // F13
    (Bug::SeenRefusedWhenStale, 0),      // F23
    (Bug::SentAfter23Hours, 764),        // F21
    (Bug::SentUnderStop, 168),           // F13
    (Bug::ShrunkSilently, 21),           // I3
    (Bug::SpendNeverReleased, 3),        // I4
    (Bug::StaleOutcomeTaken, 208),       // F23
    (Bug::StaleSums, 1001),              // I5
    (Bug::StopEndsApproved, 2011),       // F13
    (Bug::Stored500IsFailure, 13),       // I4
    (Bug::SubmittedDoesNotCount, 0),     // I4
    (Bug::TimeoutIsNotSent, 3),          // I7
    (Bug::TwinNotSeen, 34),              // I9
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
