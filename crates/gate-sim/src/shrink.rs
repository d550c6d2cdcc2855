//! Making a failure small: what can be left out without the law ceasing to be broken is left out,
//! until nothing more can.

use std::collections::BTreeSet;

use crate::run::{Options, Report, run};

/// A failure that cannot be made smaller.
#[derive(Debug)]
pub struct Shrunk {
    /// The operations and faults that are needed.
    pub only: BTreeSet<String>,
    /// The run with only these, with its timeline.
    pub report: Report,
}

/// Makes the failure of `seed` as small as it goes; none when the seed does not fail.
#[must_use]
pub fn shrink(seed: u64, options: &Options) -> Option<Shrunk> {
    let first = run(seed, options);
    let broken = first.violations.first()?.kind();
    let attempt = |only: &[String]| {
        let only = Some(only.iter().cloned().collect());
        let report = run(seed, &Options { only, timeline: false, ..options.clone() });
        report.violations.first().is_some_and(|violation| violation.kind() == broken)
    };
    let mut kept: Vec<String> = first.faults.into_iter().chain(first.ops).collect();
    if !attempt(&kept) {
        // Only what was not counted among the faults can be the cause: the world as it is.
        return Some(Shrunk { only: BTreeSet::new(), report: run(seed, options) });
    }
    let mut chunk = kept.len().div_ceil(2).max(1);
    let mut smaller = false;
    loop {
        let mut from = 0;
        while from < kept.len() {
            let until = (from + chunk).min(kept.len());
            let mut without = kept.clone();
            without.drain(from..until);
            if attempt(&without) {
                kept = without;
                smaller = true;
            } else {
                from = until;
            }
        }
        if chunk == 1 && !std::mem::take(&mut smaller) {
            break;
        }
        chunk = chunk.div_ceil(2);
    }
    let only: BTreeSet<String> = kept.into_iter().collect();
    let options = Options { only: Some(only.clone()), timeline: true, ..options.clone() };
    Some(Shrunk { only, report: run(seed, &options) })
}
