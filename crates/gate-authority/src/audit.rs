//! The audit chain against everything that speaks of it: the seals themselves, the heads that went
//! out with refunds, and the states of the intents.
//!
//! The chain is read in parts; what stays in memory is a line for each intent and each fault. A
//! gateway at work beside it causes no findings: what is looked for in the chain was read before
//! the chain was.

use std::collections::BTreeMap;
use std::time::Duration;

use gate_core::{
    AuthorityError, ChargeId, Intent, IntentId, Processor, ReadError, RefundId, State,
};
use gate_store::{AuditRange, AuditRow, Head, IntentQuery, Reads, Verifier};

use crate::authority::LocalAuthority;

/// Most findings that are told.
const FINDINGS_MAX: usize = 1000;
/// Entries, or intents, that are read at once.
const PART: u32 = 1000;
/// Most charges whose refunds are looked at, the newest intents' first.
const CHARGES_LOOKED_AT_MAX: usize = 100;

/// Something in the audit log that is not what it was.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditFinding {
    /// The entry, where it is one.
    pub entry: Option<u64>,
    /// What was found.
    pub what: String,
}

/// What verifying the audit log came to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AuditReport {
    /// The newest entry.
    pub head: Head,
    /// What is wrong, in the order of the chain, and no more than a thousand.
    pub findings: Vec<AuditFinding>,
    /// How many more there were.
    pub untold: u64,
    /// With how many heads, kept outside of the log, the chain agrees.
    pub anchors: u64,
    /// The first entry that is older than the one before it, and how many there are: a clock was
    /// set back. No fault.
    pub back_in_time: Option<(u64, u64)>,
}

/// The head of the audit chain as a refund at Stripe carries it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct AuditAnchor {
    /// The refund.
    pub refund: RefundId,
    /// The head, in hex.
    pub head: String,
}

/// What looking for heads at Stripe came to.
#[derive(Clone, Debug, Default)]
pub struct AnchorsAtStripe {
    /// The heads of our refunds.
    pub anchors: Vec<AuditAnchor>,
    /// Of how many charges the refunds were listed.
    pub looked_at: usize,
    /// Why others were not, if others were not.
    pub left_out: Option<String>,
}

impl LocalAuthority {
    /// A part of the audit chain, in its order.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`].
    pub async fn audit(&self, range: AuditRange) -> Result<Vec<AuditRow>, AuthorityError> {
        Ok(self.read(Reads { audit: Some(range), ..Reads::default() }).await?.audit)
    }

    /// Verifies the whole audit log: each digest and each seal, the heads in the requests that were
    /// sent to Stripe and in `anchors`, and that it tells of the state of each intent.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`] when the store cannot be read. An entry that cannot be is a finding.
    pub async fn verify_audit(
        &self,
        anchors: &[AuditAnchor],
    ) -> Result<AuditReport, AuthorityError> {
        let mut check = Check::new(anchors);
        self.each_intent(|intent| {
            check.intents.insert(intent.id.clone(), Expected::of(intent));
        })
        .await?;
        let mut after = 0;
        loop {
            let part = match self.audit(AuditRange { after, limit: PART }).await {
                Ok(part) => part,
                Err(AuthorityError::Broken(detail)) => {
                    check.fault(None, format!("it cannot be read any further: {detail}"));
                    break;
                }
                Err(error) => return Err(error),
            };
            part.iter().for_each(|row| check.row(row));
            match part.last() {
                // What stands before the first was read with the first part.
                Some(last) => after = last.n.max(1),
                None => break,
            }
        }
        Ok(check.finish())
    }

    /// Looks up the heads in the newest of our refunds at Stripe.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`] when the store cannot be read. When Stripe cannot be, the rest is left
    /// out.
    pub async fn audit_anchors(
        &self,
        processor: &dyn Processor,
        call_timeout: Duration,
    ) -> Result<AnchorsAtStripe, AuthorityError> {
        let mut charges: Vec<ChargeId> = Vec::new();
        let mut others = false;
        self.each_intent(|intent| {
            if intent.submitted_at.is_none() || charges.contains(&intent.charge) {
                return;
            }
            others = charges.len() >= CHARGES_LOOKED_AT_MAX;
            if !others {
                charges.push(intent.charge.clone());
            }
        })
        .await?;
        let mut found = AnchorsAtStripe {
            left_out: others.then(|| format!("only the newest {CHARGES_LOOKED_AT_MAX} are")),
            ..AnchorsAtStripe::default()
        };
        for charge in &charges {
            let listed = processor.refunds_of(charge, self.clock.deadline(call_timeout)).await;
            let listed = match listed {
                Ok(listed) => listed,
                Err(ReadError::NotFound { .. } | ReadError::LivemodeMismatch) => Vec::new(),
                Err(error) => {
                    let error = gate_core::ActionError::from(error);
                    found.left_out = Some(format!("Stripe could not be asked: {error}"));
                    break;
                }
            };
            found.looked_at = found.looked_at.saturating_add(1);
            found.anchors.extend(listed.into_iter().filter_map(|one| {
                let ours = one.refund.intent.is_some();
                one.audit_head
                    .filter(|_| ours)
                    .map(|head| AuditAnchor { refund: one.refund.id, head })
            }));
        }
        Ok(found)
    }

    /// Shows every intent, newest first, and keeps none.
    pub(crate) async fn each_intent(
        &self,
        mut show: impl FnMut(&Intent),
    ) -> Result<(), AuthorityError> {
        let mut before: Option<IntentId> = None;
        loop {
            let query = IntentQuery { before, limit: PART, ..IntentQuery::default() };
            let reads = Reads { intents: Some(query), ..Reads::default() };
            let part = self.read(reads).await?.intents;
            part.iter().for_each(&mut show);
            match part.last() {
                Some(last) => before = Some(last.id.clone()),
                None => return Ok(()),
            }
        }
    }
}

/// What the chain has to say of an intent.
struct Expected {
    state: State,
    /// Whether it says that the intent came to this state.
    told: bool,
    /// The head before it was first submitted; taken once that was compared.
    head: Option<String>,
}

impl Expected {
    fn of(intent: &Intent) -> Self {
        let head = intent.request.as_ref().and_then(|request| request.audit_head());
        Self { state: intent.state, told: false, head: head.map(str::to_owned) }
    }
}

struct Check<'a> {
    verifier: Verifier,
    report: AuditReport,
    intents: BTreeMap<IntentId, Expected>,
    /// Heads that refunds at Stripe carry, and were not come across yet.
    at_stripe: BTreeMap<&'a str, Vec<&'a RefundId>>,
    /// The newest entry that a head outside of the log speaks for.
    vouched: u64,
}

impl<'a> Check<'a> {
    fn new(anchors: &'a [AuditAnchor]) -> Self {
        let mut at_stripe: BTreeMap<&str, Vec<&RefundId>> = BTreeMap::new();
        for anchor in anchors {
            at_stripe.entry(&anchor.head).or_default().push(&anchor.refund);
        }
        let mut check = Self {
            verifier: Verifier::default(),
            report: AuditReport::default(),
            intents: BTreeMap::new(),
            at_stripe,
            vouched: 0,
        };
        check.come_to(Head::default());
        check
    }

    fn fault(&mut self, entry: Option<u64>, what: String) {
        if self.report.findings.len() < FINDINGS_MAX {
            self.report.findings.push(AuditFinding { entry, what });
        } else {
            self.report.untold = self.report.untold.saturating_add(1);
        }
    }

    /// Takes the heads at Stripe that are this one.
    fn come_to(&mut self, head: Head) {
        if self.at_stripe.is_empty() {
            return;
        }
        if let Some(refunds) = self.at_stripe.remove(head.hex().as_str()) {
            self.vouch(head, refunds.len());
        }
    }

    fn vouch(&mut self, head: Head, times: usize) {
        let times = u64::try_from(times).unwrap_or(u64::MAX);
        self.report.anchors = self.report.anchors.saturating_add(times);
        self.vouched = self.vouched.max(head.n);
    }

    fn row(&mut self, row: &AuditRow) {
        let before = self.verifier.head();
        for fault in self.verifier.check(row) {
            self.fault(Some(fault.entry()), fault.to_string());
        }
        self.intent(row, before);
        self.come_to(self.verifier.head());
    }

    /// What the entry says of an intent.
    fn intent(&mut self, row: &AuditRow, before: Head) {
        let Some(state) = row.entry.action.strip_prefix("intent.").and_then(State::parse) else {
            return;
        };
        let Ok(id) = IntentId::parse(&row.entry.subject) else { return };
        let Some(expected) = self.intents.get_mut(&id) else { return };
        expected.told |= expected.state == state;
        if state != State::Submitted {
            return;
        }
        match expected.head.take() {
            Some(head) if head == before.hex() => self.vouch(before, 1),
            // Behind a gap there is nothing to compare it with.
            Some(_) if before.n.saturating_add(1) != row.n => {}
            Some(_) => {
                let (from, to) = (self.vouched.saturating_add(1), before.n);
                let what = format!(
                    "entries {from} to {to}, or some of them, were replaced: the refund request \
                     of {id} was sent with another head than that of entry {to}"
                );
                self.fault(Some(to), what);
            }
            None => {}
        }
    }

    fn finish(mut self) -> AuditReport {
        let head = self.verifier.head();
        self.report.head = head;
        self.report.back_in_time = self.verifier.back_in_time();
        for fault in std::mem::take(&mut self.verifier).finish() {
            self.fault(Some(fault.entry()), fault.to_string());
        }
        for (id, expected) in std::mem::take(&mut self.intents) {
            let state = expected.state.as_str();
            if expected.head.is_some() {
                let what = format!(
                    "entries are missing: {id} was submitted, and no entry says so; the newest \
                     entry is {}",
                    head.n
                );
                self.fault(None, what);
            } else if !expected.told {
                let what = format!(
                    "entries are missing: {id} is {state}, and no entry says so; the newest entry \
                     is {}",
                    head.n
                );
                self.fault(None, what);
            }
        }
        let from = self.vouched.saturating_add(1);
        for refund in std::mem::take(&mut self.at_stripe).into_values().flatten() {
            let what = format!(
                "entries from {from} on, or some of them, were replaced or removed: {refund} at \
                 Stripe carries a head that no entry has"
            );
            self.fault(None, what);
        }
        self.report
    }
}
