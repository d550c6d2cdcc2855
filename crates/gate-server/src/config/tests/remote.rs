//! The authority over the network: asked, or served.

use super::*;

const API: &str = "BURNBOUND_API=https://authority.example";
const ID: &str = "BURNBOUND_GATEWAY_ID=gw_1";

/// A gateway's secret that holds together.
fn secret() -> String {
    gate_burnbound::GatewaySecret::make(&[1; 32], &[2; 32]).unwrap().expose().to_owned()
}

/// The variables, over files with a good secret and a bad one.
fn with_secrets(variables: &[&str]) -> Map {
    world(variables).file("/secret", &format!("{}\n", secret())).file("/bad", "bbgw_canary")
}

#[test]
fn a_remote_authority_needs_no_disk() {
    const FILE: &str = "BURNBOUND_GATEWAY_SECRET_FILE=/secret";
    const STRIPPED: &str = "GATEWAY_API_PATH_PREFIX_STRIPPED=1";
    #[rustfmt::skip]
    let table = [
        // address                            more,     where calls go,                  taken off on the way
        ("https://authority.example",         "",       "https://authority.example",      ""),
        ("https://Authority.example:8788/",   "",       "https://authority.example:8788", ""),
        ("http://127.0.0.1:8788",             "",       "http://127.0.0.1:8788",          ""),
        ("https://proxy.example/burnbound",   STRIPPED, "https://proxy.example",          "/burnbound"),
        ("https://proxy.example/a/b/",        STRIPPED, "https://proxy.example",          "/a/b"),
    ];
    for (address, more, origin, stripped) in table {
        let api = format!("BURNBOUND_API={address}");
        let mut variables = vec![api.as_str(), ID, FILE];
        variables.extend(Some(more).filter(|more| !more.is_empty()));
        // Neither a home nor a volume.
        let mut map = with_secrets(&variables).with("KUBERNETES_SERVICE_HOST=10.0.0.1");
        map = map.with("STRIPE_SECRET_KEY=rk_live_a1").with("GATEWAY_ALLOW_LIVE=1");
        let config = good(&map).config;
        assert!(config.store.is_none(), "{address}");
        let remote = config.remote.unwrap();
        assert_eq!((&*remote.origin, &*remote.stripped), (origin, stripped), "{address}");
        assert_eq!(remote.gateway.as_str(), "gw_1");
        assert_eq!(remote.secret.current(&map).unwrap().expose(), secret());
    }
}

#[test]
fn what_does_not_go_together_is_refused() {
    let inline = format!("BURNBOUND_GATEWAY_SECRET={}", secret());
    let inline = inline.as_str();
    const FILE: &str = "BURNBOUND_GATEWAY_SECRET_FILE=/secret";
    #[rustfmt::skip]
    let table: &[(&[&str], &str)] = &[
        // variables, a part of the only fault
        (&[ID], "BURNBOUND_GATEWAY_ID is of no use without BURNBOUND_API: name the authority, or unset both"),
        (&[inline], "BURNBOUND_GATEWAY_SECRET is of no use without BURNBOUND_API"),
        (&[FILE], "BURNBOUND_GATEWAY_SECRET_FILE is of no use without BURNBOUND_API"),
        (&[API, ID], "BURNBOUND_API needs this gateway's credential"),
        (&[API, FILE], "BURNBOUND_API needs this gateway's credential"),
        (&[API, ID, inline, FILE], "are both set: unset one"),
        (&[API, ID, FILE, "GATEWAY_DATABASE=/a.db"], "GATEWAY_DATABASE belongs to the authority"),
        (&[API, ID, FILE, "FIAT_USD_RATES=EUR=1.10"], "FIAT_USD_RATES belongs to the authority"),
        (&[API, ID, FILE, "AUTHORITY_LISTEN=127.0.0.1:1"], "AUTHORITY_LISTEN belongs to the authority"),
        (&[API, ID, "BURNBOUND_GATEWAY_SECRET_FILE=/bad"], "cut off or mistyped"),
        (&[API, ID, "BURNBOUND_GATEWAY_SECRET_FILE=/none"], "does not exist"),
        (&[API, ID, "BURNBOUND_GATEWAY_SECRET=bb_agent_1"], "starts with bbgw_"),
        (&[API, "BURNBOUND_GATEWAY_ID=east", FILE], "gw_ followed by"),
        (&["BURNBOUND_API=http://authority.example", ID, FILE], "write https://"),
        (&["BURNBOUND_API=authority", ID, FILE], "not a URL"),
        (&["BURNBOUND_API=https://a.example/path", ID, FILE], "GATEWAY_API_PATH_PREFIX_STRIPPED=1"),
        (&["BURNBOUND_API=https://a.example/?a=b", ID, FILE], "has a query"),
        (&[API, ID, FILE, "GATEWAY_API_PATH_PREFIX_STRIPPED=yes"], "neither 0 nor 1"),
    ];
    for (variables, part) in table {
        let faults = faults(&with_secrets(variables));
        assert_eq!(faults.lines().count(), 1, "{variables:?}: {faults}");
        assert!(faults.contains(part), "{variables:?}: {faults}");
        assert!(!faults.contains("canary"), "{faults}");
    }
}

#[test]
fn where_the_authority_is_served() {
    let served = good(&world(&["AUTHORITY_LISTEN=127.0.0.1:0"]));
    assert_eq!(served.config.authority_listen, "127.0.0.1:0".parse().ok());
    assert_eq!(served.warnings, [""; 0]);
    let open = good(&world(&["AUTHORITY_LISTEN=0.0.0.0:8788"]));
    assert!(open.warnings.concat().contains("AUTHORITY_LISTEN is 0.0.0.0, which others can reach"));
    let hex = "ab".repeat(32);
    let kept = good(&world(&["GATEWAY_MASTER_KEY_FILE=/master"]).file("/master", &hex)).config;
    assert_eq!(kept.store.unwrap().master_key, Path::new("/master"));
    let own = good(&world(&["GATEWAY_DATA_DIR=/data"])).config.store.unwrap();
    assert_eq!(own.master_key, Path::new("/data/master.key"));
}
