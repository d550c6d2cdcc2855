//! The audit chain: read in parts, and emptied without breaking it.

use gate_store::{
    AuditEntry, AuditField, AuditRange, AuditRow, EMPTIED, Head, Reads, Write, verify,
};

use crate::world::{World, audit, cell};

async fn part(world: &World, after: u64, limit: u32) -> Vec<AuditRow> {
    let range = Some(AuditRange { after, limit });
    world.read(Reads { audit: range, ..Reads::default() }).await.audit
}

pub(crate) async fn the_chain_is_read_in_parts(world: World) {
    world.write((1..=5).map(audit).collect()).await;
    #[rustfmt::skip]
    let table: [(u64, u32, &[u64]); 7] = [
        // after  limit  entries
        (0, u32::MAX,    &[1, 2, 3, 4, 5]),
        (0,        2,    &[1, 2]),
        (2,        2,    &[3, 4]),
        (4,        2,    &[5]),
        (5,        2,    &[]),
        (9,        2,    &[]),
        (0,        0,    &[]),
    ];
    for (after, limit, expected) in table {
        let numbers: Vec<u64> = part(&world, after, limit).await.iter().map(|row| row.n).collect();
        assert_eq!(numbers, expected, "{limit} after {after}");
    }
}

pub(crate) async fn a_field_is_emptied_and_the_chain_holds(world: World) {
    use AuditField::{Actor, Details, Subject};
    let Write::Audit(entry) = audit(4) else { unreachable!() };
    let emptied = |details: &str| {
        let (action, details) = (EMPTIED.to_owned(), details.to_owned());
        Write::Audit(AuditEntry { action, details, ..entry.clone() })
    };
    world.write((1..=3).map(audit).collect()).await;
    let before = part(&world, 0, 9).await;
    let empty = |n, fields: &[AuditField]| Write::EmptyAudit { n, fields: fields.to_vec() };
    let said = r#"{"entries":[{"n":2,"fields":["actor","details"]}]}"#;
    world.write(vec![empty(2, &[Actor, Details]), emptied(said)]).await;
    let after = part(&world, 0, 9).await;
    assert_eq!(verify(&after).map(|head| head.n), Ok(4));
    assert_eq!((&after[0], &after[2]), (&before[0], &before[2]), "the others are as they were");
    let (old, new) = (&before[1], &after[1]);
    let mut salt = [0; 48];
    salt[16..32].copy_from_slice(&old.entry.salt[16..32]);
    let entry =
        AuditEntry { actor: String::new(), details: String::new(), salt, ..old.entry.clone() };
    assert_eq!(*new, AuditRow { entry, ..old.clone() }, "marks, digest and seal stay");
    let table = [
        ("again", empty(2, &[Actor]), "done"),
        ("nothing", empty(2, &[]), "done"),
        ("who emptied", empty(4, &[Actor, Subject]), "done"),
        ("what was emptied", empty(4, &[Details]), "conflict"),
        ("before the first", empty(0, &[Actor]), "conflict"),
        ("behind the newest", empty(5, &[Actor]), "conflict"),
    ];
    for (name, write, expected) in table {
        assert_eq!(cell(world.try_write(vec![write]).await), expected, "{name}");
    }
    let fresh = world.read(Reads::default()).await.head;
    assert_eq!(fresh, Head { n: 4, hash: after[3].hash }, "emptying is no entry");
}
