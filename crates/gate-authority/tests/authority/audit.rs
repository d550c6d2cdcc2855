//! The audit log as a whole: verified against the intents and Stripe, and emptied of what is
//! personal. What tampering with a file does is tested on a file, black-box.

use std::time::Duration;

use gate_authority::{
    Actor, Admin, AdminError, AuditAnchor, EmptiedCount, Emptying, Whom, invariants,
};
use gate_core::{ChargeId, RefundId};
use gate_store::{AuditField, AuditRow, EMPTIED, Write};

use crate::invariants::all_states;
use crate::outcomes::write;
use crate::world::{ASKS, World, run, user};

const CALL: Duration = Duration::from_secs(2);

fn charge(id: &str) -> ChargeId {
    ChargeId::parse(id).unwrap()
}

/// What is wrong, in words.
fn findings(world: &World, anchors: &[AuditAnchor]) -> Vec<String> {
    let report = run(world.authority.verify_audit(anchors)).unwrap();
    report.findings.into_iter().map(|finding| finding.what).collect()
}

#[test]
fn a_sound_log_agrees_with_every_head() {
    let world = all_states();
    let found = run(world.authority.audit_anchors(&*world.till, CALL)).unwrap();
    assert_eq!((found.looked_at, found.left_out), (2, None));
    let made = found.anchors.len() as u64;
    assert!(made > 1, "{made} refunds");
    let report = run(world.authority.verify_audit(&found.anchors)).unwrap();
    let sent = world.intents().iter().filter(|intent| intent.request.is_some()).count() as u64;
    assert_eq!((report.findings, report.untold), (vec![], 0));
    assert_eq!(report.anchors, made + sent, "each request's head, and each refund's");
    assert_eq!(report.head.n, world.audit().len() as u64);
    // A log in which nothing happened yet has no head to go by.
    let empty = World::new(ASKS);
    let report = run(empty.authority.verify_audit(&[])).unwrap();
    assert_eq!((report.findings, report.anchors), (vec![], 0));
}

#[test]
fn a_head_that_no_entry_has_is_told() {
    let world = all_states();
    let refund = RefundId::parse("re_of_old").unwrap();
    let sent = world.audit().last().unwrap().n;
    let strange = AuditAnchor { refund, head: "ab".repeat(32) };
    let [what] = &findings(&world, &[strange])[..] else { panic!("one finding") };
    assert!(what.contains("re_of_old at Stripe carries a head that no entry has"), "{what}");
    assert!(what.starts_with("entries from "), "{what}");
    assert_eq!(world.audit().last().unwrap().n, sent, "looking changes nothing");
}

/// An intent whose state, or whose request, the log does not know.
#[test]
fn what_the_log_does_not_tell_is_missing() {
    let world = all_states();
    let key = |key: &str| world.intents().into_iter().find(|i| i.key.as_str() == key).unwrap();
    let (mut settled, mut failed) = (key("settled"), key("failed"));
    let was = settled.state;
    settled.state = gate_core::State::Reversed;
    let request = failed.request.as_mut().unwrap();
    let head = request.audit_head().unwrap().to_owned();
    request.form = request.form.replace(&head, &"cd".repeat(32));
    let failed_id = failed.id.clone();
    let update = |was, intent| Write::UpdateIntent { was, intent: Box::new(intent) };
    write(&world, vec![update(was, settled.clone()), update(failed.state, failed)]);
    let found = findings(&world, &[]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains(&format!("the refund request of {failed_id} was sent with another")));
    let missing = format!("entries are missing: {} is reversed, and no entry says", settled.id);
    assert!(found[1].starts_with(&missing), "{found:?}");
}

/// The texts that entries hold.
fn texts(rows: &[AuditRow]) -> String {
    let text =
        |row: &AuditRow| AuditField::ALL.map(|field| row.entry.text(field).to_owned()).join(" ");
    rows.iter().map(text).collect::<Vec<_>>().join("\n")
}

fn empty(world: &World, what: &Emptying) -> EmptiedCount {
    let count = run(world.admin().empty(what, &user("mona"), "a deletion request")).unwrap();
    // Told only where something was done; and all still holds.
    assert_eq!(findings(world, &[]), [""; 0]);
    assert_eq!(run(invariants(&world.authority)).unwrap(), vec![]);
    count
}

#[test]
fn a_person_is_emptied_from_the_log() {
    let world = all_states();
    let rita = Actor::cli("tester", Some(&user("rita")));
    run(Admin::new(&world.authority, rita).stop(Whom::Everybody, None)).unwrap();
    assert!(texts(&world.audit()).contains("cli:tester as user:rita"));
    let before = world.audit();
    let rita = Emptying::User(user("rita"));
    let count = empty(&world, &rita);
    assert_eq!(count, EmptiedCount { entries: 2, intents: 0 }, "made, and the stop");
    let after = world.audit();
    assert!(!texts(&after).contains("rita"), "{}", texts(&after));
    assert_eq!(after.len(), before.len() + 1);
    for (old, new) in before.iter().zip(&after) {
        assert_eq!((old.marks, old.digest, old.hash), (new.marks, new.digest, new.hash));
        let touched = texts(std::slice::from_ref(old)).contains("rita");
        assert_eq!(*old == *new, !touched, "entry {}: nobody else is", old.n);
    }
    let said = &after.last().unwrap().entry;
    assert_eq!((said.action.as_str(), said.subject.as_str()), (EMPTIED, "audit"));
    assert!(said.details.contains("a deletion request"), "{}", said.details);
    assert_eq!(empty(&world, &rita), EmptiedCount::default(), "nothing is left");
    assert_eq!(world.audit().len(), after.len(), "and nothing is told of it");
}

#[test]
fn words_about_a_charge_are_emptied() {
    let world = World::new(ASKS);
    let noted = world.intent("k ch_2 2400 [Zoe]");
    world.deny(&noted);
    let other = world.intent("other ch_3 2400 [Max]");
    world.deny(&other);
    let count = empty(&world, &Emptying::Charge(charge("ch_2")));
    assert_eq!(count.intents, 1);
    let emptied = world.stored(&noted.id);
    let approval = emptied.approval.as_ref().unwrap();
    assert_eq!((&approval.note, approval.justifications.len()), (&None, 0));
    assert!(approval.decided_by.is_some(), "who decided stays");
    let told = &emptied.reasons[0].message;
    assert_eq!(told, "A person denied this refund; the note was emptied.");
    let kept = world.stored(&other.id);
    let approval = kept.approval.as_ref().unwrap();
    assert!(approval.note.is_some() && approval.justifications.len() == 1, "{kept:?}");
    assert_eq!(empty(&world, &Emptying::Charge(charge("ch_2"))), EmptiedCount::default());
}

#[test]
fn who_may_empty_what() {
    let world = all_states();
    let entry = |n, field| Emptying::Entry { n, fields: vec![field] };
    let first = entry(1, AuditField::Details);
    empty(&world, &entry(2, AuditField::Details));
    let last = world.audit().last().unwrap().n;
    let about = world.audit().iter().find(|row| row.entry.action == "intent.settled").unwrap().n;
    #[rustfmt::skip]
    let table = [
        // who     what                                 note  answer
        ("rita",   first.clone(),                       "n",  "rita is support-leads and may not empty"),
        ("nobody", first.clone(),                       "n",  "there is no user nobody"),
        ("mona",   first.clone(),                       " ",  "a note is needed"),
        ("mona",   entry(last + 1, AuditField::Actor),  "n",  "there is no audit entry"),
        ("mona",   entry(0, AuditField::Actor),         "n",  "there is no audit entry 0"),
        ("mona",   entry(last, AuditField::Details),    "n",  "the details of audit entry"),
        ("mona",   entry(about, AuditField::Subject),   "n",  "is the id of an intent"),
        ("mona",   entry(about, AuditField::Actor),     "n",  ""),
        ("mona",   Emptying::Charge(charge("ch_9")),    "n",  "nobody asked for a refund of ch_9"),
        ("mona",   Emptying::Charge(charge("ch_2")),    "n",  "decide, cancel or resolve it first"),
        ("mona",   entry(last, AuditField::Actor),      "n",  ""),
        ("mona",   first,                               "n",  ""),
    ];
    for (who, what, note, answer) in table {
        let before = world.audit().len();
        let error: Option<AdminError> = run(world.admin().empty(&what, &user(who), note)).err();
        let told = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(told.contains(answer) && told.is_empty() == answer.is_empty(), "{who}: {told}");
        let more = usize::from(answer.is_empty());
        assert_eq!(world.audit().len(), before + more, "{who} {what:?}");
    }
}
