//! Secrets are read, or told about, and never shown.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

#[test]
fn a_key_file_that_cannot_be_read_is_told_with_owner_mode_and_both_remedies() {
    let map = world(&["STRIPE_SECRET_KEY_FILE=/key"]).change("/key", |file| {
        file.content = None;
        file.mode = 0o400;
        file.owner = 0;
    });
    let told = faults(&map);
    for part in
        ["user 0 owns it", "mode is 0400", "as user 1000", "`chown 1000 /key`", "`chmod o+r /key`"]
    {
        assert!(told.contains(part), "{part}: {told}");
    }
    let map = world(&["STRIPE_SECRET_KEY_FILE=/key"]).change("/key", |file| file.directory = true);
    assert!(faults(&map).contains("is a directory"));
}

#[test]
fn a_secret_is_nowhere_to_be_seen() {
    const CANARY: &str = "CanaryC4n4ry";
    let secret = |name: &str| {
        ["KEY", "SECRET", "TOKEN", "URL", "_API", "_ID"].iter().any(|part| name.contains(part))
    };
    let names: BTreeSet<&str> = SETTINGS
        .iter()
        .map(|setting| setting.variable)
        .chain(UNSUPPORTED.iter().map(|other| other.variable))
        .filter(|name| secret(name))
        // A path that need not lead anywhere yet; a key in its place is refused, see below.
        .filter(|name| *name != "GATEWAY_MASTER_KEY_FILE")
        .collect();
    // Good keys, bad ones, and keys where the path of a file should be.
    for start in ["", "rk_test_", "sk_test_", "rk_live_", "pk_live_", "rk_test_*", "whsec_", "a\nb"]
    {
        for name in &names {
            let map = world(&[&format!("{name}={start}{CANARY}_a1b2c3d4e5")])
                .with("GATEWAY_PROT=1")
                .file("/b.toml", &format!("[stripe]\nsecret_key = \"{CANARY}\"\n= {CANARY}"));
            let told = format!("{:?}", load(&map, &Flags::default()));
            assert!(!told.contains(CANARY), "{name} {start}: {told}");
        }
        let content = format!("{start}{CANARY}");
        let map = world(&["STRIPE_SECRET_KEY_FILE=/key"]).file("/key", &content);
        let told = format!("{:?}", load(&map, &Flags::default()));
        assert!(!told.contains(CANARY), "file {start}: {told}");
    }
    let key = "ca".repeat(32);
    let told = faults(&world(&[&format!("GATEWAY_MASTER_KEY_FILE={key}")]));
    assert!(told.contains("name the file") && !told.contains(&key), "{told}");
    for file in ["secret_key = \"C\"", "= C", "secret_key = C", "secret_key = \"C", "secret_key C"]
    {
        let file = format!("[stripe]\n{}\n", file.replace('C', CANARY));
        let told = faults(&world(&["GATEWAY_CONFIG=/b.toml"]).file("/b.toml", &file));
        assert!(!told.contains(CANARY), "{file}: {told}");
    }
    let map = world(&[&format!("STRIPE_SECRET_KEY=rk_test_{CANARY}")]);
    let stripe = good(&map).config.stripe;
    let key = stripe.key.as_ref().unwrap().current(&map).unwrap();
    assert_eq!(key.last4(), "n4ry");
    assert!(!format!("{stripe:?} {key:?}").contains(CANARY));
    assert!(!format!("{}{}", reference_markdown(), file_schema()).contains(CANARY));
}

proptest! {
    /// Whatever stands in a variable is taken or told about, and the same the second time.
    #[test]
    fn anything_in_a_variable_has_an_answer(row in 0..SETTINGS.len(), text in "\\PC{0,40}|.{0,8}") {
        let map = world(&[&format!("{}={text}", SETTINGS[row].variable)]);
        let told = || load(&map, &Flags::default()).map_err(|faults| {
            assert_ne!(faults, []);
            faults
        });
        prop_assert_eq!(format!("{:?}", told()), format!("{:?}", told()));
    }
}
