//! What a run has seen, for the table at its end.

use std::time::Duration;

/// How often things happened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) kills: u64,
    pub(crate) requests: u64,
    pub(crate) unanswered: u64,
    pub(crate) refunds: u64,
    pub(crate) replays: u64,
    pub(crate) denials: u64,
    pub(crate) approvals: u64,
    pub(crate) faults: u64,
    /// What became of intents that were submitted when a gateway started.
    repaired_settled: u64,
    repaired_not_executed: u64,
    repaired_otherwise: u64,
    /// Intents that only a person or time can end, because Stripe keeps a 500 for them.
    pub(crate) unknowable: u64,
    /// The longest that everything took to come to an end after faults stopped.
    pub(crate) longest: Duration,
}

impl Counts {
    /// An intent that a kill had cut short came to this state.
    pub(crate) fn repaired(&mut self, state: &str) {
        match state {
            "settled" => self.repaired_settled += 1,
            "not_executed" => self.repaired_not_executed += 1,
            _ => self.repaired_otherwise += 1,
        }
    }

    pub(crate) fn add(&mut self, more: &Self) {
        self.kills += more.kills;
        self.requests += more.requests;
        self.unanswered += more.unanswered;
        self.refunds += more.refunds;
        self.replays += more.replays;
        self.denials += more.denials;
        self.approvals += more.approvals;
        self.faults += more.faults;
        self.repaired_settled += more.repaired_settled;
        self.repaired_not_executed += more.repaired_not_executed;
        self.repaired_otherwise += more.repaired_otherwise;
        self.unknowable += more.unknowable;
        self.longest = self.longest.max(more.longest);
    }

    /// The table.
    pub(crate) fn table(&self, took: Duration) -> String {
        let rows = [
            ("kills", self.kills),
            ("requests", self.requests),
            ("  without an answer", self.unanswered),
            ("refunds made", self.refunds),
            ("replays", self.replays),
            ("denials", self.denials),
            ("approvals", self.approvals),
            ("faults ordered", self.faults),
            ("repaired: settled", self.repaired_settled),
            ("repaired: not executed", self.repaired_not_executed),
            ("repaired: failed or denied", self.repaired_otherwise),
            ("left: Stripe keeps a 500", self.unknowable),
            ("longest repair, seconds", self.longest.as_secs()),
            ("seconds", took.as_secs()),
        ];
        rows.map(|(name, count)| format!("{name:<28}{count:>8}\n")).concat()
    }
}
