//! What leads to the records is read on its own.

use super::*;

/// Data directory, database and whether they may be lost; or all faults.
fn store(map: &Map, given: &[&str]) -> Result<(String, String, bool), String> {
    let (store, _) = load_store(map, &flags(given)).map_err(|faults| lines(&faults))?;
    let shown = |path: &Path| path.display().to_string();
    Ok((shown(&store.data_dir), store.database.to_string(), store.ephemeral))
}

#[test]
fn the_store_is_where_serve_has_it() {
    let file = "[store]\ndata_dir = \"/srv\"\ndatabase = \"/db/a.db\"\nephemeral = true\n";
    /// Flags, variables, data directory, database, ephemeral.
    type Row<'a> = (&'a [&'a str], &'a [&'a str], &'a str, &'a str, bool);
    let home_db = &format!("{HOME_DIR}/gateway.db");
    let shared = "GATEWAY_DATABASE=postgres://a:hunter2@h/d";
    let table: [Row<'_>; 7] = [
        (&[], &[], HOME_DIR, home_db, false),
        (&[], &["GATEWAY_DATA_DIR=/data"], "/data", "/data/gateway.db", false),
        (&[], &["GATEWAY_DATABASE=/a.db", "GATEWAY_EPHEMERAL=1"], HOME_DIR, "/a.db", true),
        (&[], &["GATEWAY_CONFIG=/b.toml"], "/srv", "/db/a.db", true),
        (&["config=/b.toml"], &["GATEWAY_DATABASE=b.db"], "/srv", "/here/b.db", true),
        (&[], &[shared, "GATEWAY_MASTER_KEY_FILE=/m"], HOME_DIR, "postgres://a@h/d", false),
        (&["store.data_dir=/x", "store.ephemeral=0"], &[], "/x", "/x/gateway.db", false),
    ];
    for (given, variables, data_dir, database, ephemeral) in table {
        let map = world(variables).file("/b.toml", file).file("/m", &"ab".repeat(32));
        let expected = (data_dir.to_owned(), database.to_owned(), ephemeral);
        assert_eq!(store(&map, given).as_ref(), Ok(&expected), "{given:?} {variables:?}");
        let served = load(&map, &flags(given)).unwrap().config.store.unwrap();
        assert_eq!(
            format!("{:?}", load_store(&map, &flags(given)).unwrap().0),
            format!("{served:?}")
        );
    }
}

#[test]
fn nothing_else_keeps_a_stop_from_working() {
    // Each of these keeps `serve` from starting.
    let variables = [
        "STRIPE_SECRET_KEY=pk_test_1",
        "STRIPE_SECRET_KEY_FILE=/none",
        "STRIPE_API_BASE=x",
        "STRIPE_ACCOUNT=x",
        "GATEWAY_STRIPE_TIMEOUT=x",
        "GATEWAY_ALLOW_LIVE=x",
        "GATEWAY_PORT=tcp://10.0.0.1:80",
        "GATEWAY_TLS_KEY_FILE=/none",
        "GATEWAY_AGENT_RATE=x",
        "FIAT_USD_RATES=x",
        "GATEWAY_LOG=x",
        "GATEWAY_MASTER_KEY_FILE=/key",
        "GATEWAY_DATABASE=postgres://h/d",
        "BURNBOUND_GATEWAY_ID=x",
        "SMTP_URL=x",
    ];
    let files = [
        "[server]\nport = \"http\"",
        "[server]\nprot = 1",
        "server = 1",
        "[stripe]\nsecret_key = \"rk_test_1\"",
        "[rates]\nfx_max_age = 7.5",
    ];
    let in_files = files.map(|file| world(&["GATEWAY_CONFIG=/b.toml"]).file("/b.toml", file));
    let maps = variables.map(|variable| world(&[variable]));
    let broken = world(&["STRIPE_SECRET_KEY_FILE=/key"]).change("/key", |file| file.content = None);
    let pod = world(&["KUBERNETES_SERVICE_HOST=10.0.0.1"]);
    for map in maps.into_iter().chain(in_files).chain([broken, pod]) {
        assert!(load(&map, &Flags::default()).is_err(), "{map:?}");
        let (_, warnings) = load_store(&map, &Flags::default()).unwrap();
        assert_eq!(warnings, [""; 0], "{map:?}");
    }
}

#[test]
fn what_could_lead_to_another_store_is_refused_or_warned_about() {
    let table: &[(&[&str], &str, &str)] = &[
        // variables, file, a part of the only fault
        (
            &["BURNBOUND_API=https://a.com"],
            "",
            "BURNBOUND_API says that the authority is elsewhere",
        ),
        (&["GATEWAY_DATA_DIR=/key"], "", "is a file"),
        (&["GATEWAY_DATA_DIR="], "", "GATEWAY_DATA_DIR holds"),
        (&["GATEWAY_DATABASE=postgres://h"], "", "it names no host or no database"),
        (&["GATEWAY_DATABASE=postgres://h/d?password_file=/none"], "", "does not exist"),
        (&["GATEWAY_DATABASE=/dir"], "", "is a directory"),
        (&["GATEWAY_EPHEMERAL=x"], "", "neither 0 nor 1"),
        (&["GATEWAY_CONFIG=/none"], "", "does not exist"),
        (&["GATEWAY_CONFIG=/b.toml"], "[store]\ndata_dri = \"/x\"", "nearest is store.data_dir"),
        (&["GATEWAY_CONFIG=/b.toml"], "[stor]\ndata_dir = \"/x\"", "\"stor\" in"),
        (&["GATEWAY_CONFIG=/b.toml"], "data_dir = \"/x\"", "\"data_dir\" in"),
        (&["GATEWAY_CONFIG=/b.toml"], "[store]\ndata_dir = 1.5", "type float"),
        (&["GATEWAY_CONFIG=/b.toml"], "[server]\nport = = 1", "not TOML at line 2"),
    ];
    for (variables, file, part) in table {
        let faults = store(&world(variables).file("/b.toml", file), &[]).unwrap_err();
        assert_eq!(faults.lines().count(), 1, "{variables:?} {file}: {faults}");
        assert!(faults.contains(part), "{variables:?} {file}: {faults}");
    }
    let all = world(&["BURNBOUND_API=x", "GATEWAY_DATA_DIR=/key", "GATEWAY_EPHEMERAL=x"]);
    assert_eq!(store(&all, &[]).unwrap_err().lines().count(), 3, "all at once");

    let odd = world(&["GATEWAY_DATADIR=/x", "GATEWAY_PROT=1", "GATEWAY_METRICS_ADDR=:9090"]);
    let (_, warnings) = load_store(&odd, &Flags::default()).unwrap();
    assert_eq!(warnings, ["GATEWAY_DATADIR is not a setting; the nearest is GATEWAY_DATA_DIR"]);
}

#[test]
fn a_password_is_never_shown_and_warned_about_where_others_see_it() {
    let url = "postgres://a:hunter2@h/d";
    let table: [(&[&str], &[&str], &str); 4] = [
        // flags, variables, a part of the only warning
        (&[], &["GATEWAY_DATABASE=postgres://a:hunter2@h/d"], ""),
        (&["store.database=postgres://a:hunter2@h/d"], &[], "--database holds a password"),
        (&[], &["GATEWAY_CONFIG=/b.toml"], "store.database in \"/b.toml\" holds a password"),
        (&["store.database=postgres://a@h/d?password_file=/key"], &[], ""),
    ];
    for (given, variables, part) in table {
        let map = world(variables).file("/b.toml", &format!("[store]\ndatabase = \"{url}\""));
        let (store, warnings) = load_store(&map, &flags(given)).unwrap();
        assert_eq!(store.database.to_string(), "postgres://a@h/d");
        assert_eq!(warnings.len(), usize::from(!part.is_empty()), "{warnings:?}");
        let told = format!("{store:?} {warnings:?}");
        assert!(told.replace('\\', "").contains(part) && !told.contains("hunter2"), "{told}");
    }
}

#[test]
fn the_command_line_takes_the_flags_of_the_store_alone() {
    let command = || Command::new("stop").args(clap_store_args());
    command().debug_assert();
    let longs: Vec<String> =
        clap_store_args().iter().filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
    assert_eq!(longs, ["config", "data-dir", "database", "ephemeral", "master-key-file"]);
    let matches = command().try_get_matches_from(["stop", "--data-dir", "/srv"]).unwrap();
    let (store, _) = load_store(&world(&[]), &Flags::from_matches(&matches)).unwrap();
    assert_eq!(store.database.file(), Some(Path::new("/srv/gateway.db")));
    assert!(command().try_get_matches_from(["stop", "--port", "1"]).is_err());
}
