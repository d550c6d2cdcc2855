//! Every component of a call, altered, is refused; and what is signed is taken.

use proptest::prelude::*;

use super::*;
use crate::keys::GatewaySecret;

const AT: i64 = 1_800_000_000;
const BODY: &[u8] = br#"{"target":"ch_1"}"#;

fn secret() -> GatewaySecret {
    GatewaySecret::make(&[1; 32], &[2; 32]).unwrap()
}

fn at(secs: i64) -> Timestamp {
    Timestamp::from_millis(secs * 1000)
}

/// A call as it crosses the network.
#[derive(Clone, Debug)]
struct Sent {
    method: String,
    authority: String,
    path: String,
    query: Option<String>,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
}

impl Sent {
    fn with<T>(&self, this: impl FnOnce(&RequestParts<'_>) -> T) -> T {
        let headers: Vec<(&str, &[u8])> =
            self.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        this(&RequestParts {
            method: &self.method,
            authority: &self.authority,
            path: &self.path,
            query: self.query.as_deref(),
            headers: &headers,
            body: &self.body,
        })
    }

    /// Signed by `secret` at [`AT`].
    fn signed(mut self, secret: &GatewaySecret) -> Self {
        let gateway = GatewayId::parse("gw_1").unwrap();
        let signed = self.with(|parts| secret.sign_call(&gateway, parts, at(AT), [7; 16]));
        let SignedHeaders { input, signature, .. } = signed.unwrap();
        self.headers.push(("Signature-Input".to_owned(), input.into_bytes()));
        self.headers.push(("Signature".to_owned(), signature.into_bytes()));
        self
    }

    fn header(&mut self, name: &str) -> &mut Vec<u8> {
        let mut found = self.headers.iter_mut().filter(|(known, _)| known == name);
        &mut found.next().unwrap().1
    }

    fn set(&mut self, name: &str, value: &str) {
        *self.header(name) = value.as_bytes().to_vec();
    }

    fn replace(&mut self, name: &str, from: &str, to: &str) {
        let value = String::from_utf8(self.header(name).clone()).unwrap();
        assert!(value.contains(from), "{value} has no {from}");
        self.set(name, &value.replacen(from, to, 1));
    }

    fn without(&mut self, name: &str) {
        self.headers.retain(|(known, _)| known != name);
    }

    fn twice(&mut self, name: &str) {
        let copy = self.headers.iter().find(|(known, _)| known == name).unwrap().clone();
        self.headers.push(copy);
    }

    fn taken(&self, now: i64) -> &'static str {
        match self.with(|parts| SignedCall::read(parts, at(now))) {
            Ok(call) if call.is_by(&secret().public_key()) => "taken",
            Ok(_) => "signature_invalid",
            Err(fault) => fault.as_str(),
        }
    }
}

fn unsigned() -> Sent {
    let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
    Sent {
        method: "POST".to_owned(),
        authority: "authority.example:8788".to_owned(),
        path: "/authority/v1/intents".to_owned(),
        query: None,
        headers: vec![
            header("Host", "authority.example:8788"),
            header("Content-Type", "application/json"),
            header("Content-Digest", &content_digest(BODY)),
            header("Authorization", "Bearer bb_agent_1"),
        ],
        body: BODY.to_vec(),
    }
}

#[test]
fn one_altered_component_is_refused() {
    const INPUT: &str = "Signature-Input";
    type Change = fn(&mut Sent);
    #[rustfmt::skip]
    let table: [(&str, Change, &str); 50] = [
        ("nothing",                |_| {}, "taken"),
        ("a header that is not signed", |s| s.headers.push(("X-Request".into(), b"1".to_vec())), "taken"),
        ("method",                 |s| s.method = "GET".into(), "signature_invalid"),
        ("method in lower case",   |s| s.method = "post".into(), "signature_invalid"),
        ("authority",              |s| s.authority = "other.example:8788".into(), "signature_invalid"),
        ("port",                   |s| s.authority = "authority.example".into(), "signature_invalid"),
        ("path",                   |s| s.path = "/authority/v1/claims".into(), "signature_invalid"),
        ("path, a slash more",     |s| s.path.push('/'), "signature_invalid"),
        ("query",                  |s| s.query = Some("limit=1".into()), "signature_invalid"),
        ("body",                   |s| s.body[2] ^= 1, "signature_invalid"),
        ("body, longer",           |s| s.body.push(b' '), "signature_invalid"),
        ("no body",                |s| s.body.clear(), "signature_invalid"),
        ("body and digest",        |s| { s.body = b"{}".to_vec(); s.set("Content-Digest", &content_digest(b"{}")) }, "signature_invalid"),
        ("digest",                 |s| s.set("Content-Digest", &content_digest(b"{}")), "signature_invalid"),
        ("digest, another kind",   |s| s.replace("Content-Digest", "sha-256", "sha-512"), "signature_invalid"),
        ("digest, a second kind",  |s| s.replace("Content-Digest", "sha-256", "md5=:AA==:, sha-256"), "signature_invalid"),
        ("digest left out",        |s| s.without("Content-Digest"), "signature_invalid"),
        ("digest twice",           |s| s.twice("Content-Digest"), "signature_invalid"),
        ("content type",           |s| s.set("Content-Type", "text/plain"), "signature_invalid"),
        ("content type left out",  |s| s.without("Content-Type"), "signature_invalid"),
        ("content type twice",     |s| s.twice("Content-Type"), "signature_invalid"),
        ("agent key",              |s| s.set("Authorization", "Bearer bb_agent_2"), "signature_invalid"),
        ("agent key left out",     |s| s.without("Authorization"), "signature_invalid"),
        ("agent key twice",        |s| s.twice("Authorization"), "signature_invalid"),
        ("created",                |s| s.replace(INPUT, "created=1800000000", "created=1800000001"), "signature_invalid"),
        ("expires",                |s| s.replace(INPUT, "expires=1800000060", "expires=1800000061"), "signature_invalid"),
        ("created and expires",    |s| { s.replace(INPUT, "created=1800000000", "created=1800000001"); s.replace(INPUT, "1800000060", "1800000061") }, "signature_invalid"),
        ("nonce",                  |s| s.replace(INPUT, "0707", "0708"), "signature_invalid"),
        ("nonce, shorter",         |s| s.replace(INPUT, "0707", ""), "signature_invalid"),
        ("nonce, upper case",      |s| s.replace(INPUT, "0707", "0A07"), "signature_invalid"),
        ("key id, the gateway",    |s| s.replace(INPUT, "gw_1.", "gw_2."), "signature_invalid"),
        ("key id, the version",    |s| s.replace(INPUT, "gw_1.", "gw_1.0"), "signature_invalid"),
        ("tag",                    |s| s.replace(INPUT, "burnbound-gateway", "burnbound-authority"), "signature_invalid"),
        ("tag left out",           |s| s.replace(INPUT, ";tag=\"burnbound-gateway\"", ""), "signature_invalid"),
        ("nonce left out",         |s| s.replace(INPUT, "nonce=\"07070707070707070707070707070707\";", ""), "signature_invalid"),
        ("an algorithm more",      |s| s.replace(INPUT, ";tag", ";alg=\"ed25519\";tag"), "signature_invalid"),
        ("a parameter twice",      |s| s.replace(INPUT, ";created", ";created=1;created"), "signature_invalid"),
        ("parameters, reordered",  |s| { s.replace(INPUT, "created=1800000000;", ""); s.replace(INPUT, ";tag", ";created=1800000000;tag") }, "signature_invalid"),
        ("components, reordered",  |s| s.replace(INPUT, "\"@method\" \"@authority\"", "\"@authority\" \"@method\""), "signature_invalid"),
        ("a component less",       |s| s.replace(INPUT, "\"@query\" ", ""), "signature_invalid"),
        ("a component more",       |s| s.replace(INPUT, "\"@query\" ", "\"@query\" \"host\" "), "signature_invalid"),
        ("no components",          |s| s.set(INPUT, "sig=();created=1800000000"), "signature_invalid"),
        ("a second signature",     |s| s.replace("Signature", "sig=", "sig2=:AA==:, sig="), "signature_invalid"),
        ("a second input",         |s| s.replace(INPUT, "sig=", "sig2=(), sig="), "signature_invalid"),
        ("another label",          |s| { s.replace(INPUT, "sig=", "sig1="); s.replace("Signature", "sig=", "sig1=") }, "signature_invalid"),
        ("input twice",            |s| s.twice(INPUT), "signature_invalid"),
        ("signature twice",        |s| s.twice("Signature"), "signature_invalid"),
        ("input left out",         |s| s.without(INPUT), "signature_invalid"),
        ("signature left out",     |s| s.without("Signature"), "signature_invalid"),
        ("signature of zeroes",    |s| s.set("Signature", &signature_header(&[0; 64])), "signature_invalid"),
    ];
    let good = unsigned().signed(&secret());
    for (name, change, expected) in table {
        let mut sent = good.clone();
        change(&mut sent);
        assert_eq!(sent.taken(AT), expected, "{name}");
    }
    let other = GatewaySecret::make(&[9; 32], &[2; 32]).unwrap();
    assert_eq!(unsigned().signed(&other).taken(AT), "signature_invalid", "another's key");
}

/// Each bit of what is signed counts.
#[test]
fn each_bit_of_the_signature_counts() {
    let good = unsigned().signed(&secret());
    for byte in 0..64 {
        let mut sent = good.clone();
        let Ok(call) = sent.with(|parts| SignedCall::read(parts, at(AT))) else { panic!() };
        let mut signature = call.signature.clone();
        signature[byte] ^= 1;
        sent.set("Signature", &signature_header(&signature));
        assert_eq!(sent.taken(AT), "signature_invalid", "byte {byte}");
    }
}

/// A minute by its own word, a minute of skew to each side: what nonces are kept for.
#[test]
fn a_call_is_good_for_three_minutes() {
    let good = unsigned().signed(&secret());
    let table = [
        // seconds from when it was signed
        (-61, "signature_expired"),
        (-60, "taken"),
        (0, "taken"),
        (60, "taken"),
        (120, "taken"),
        (121, "signature_expired"),
    ];
    for (later, expected) in table {
        assert_eq!(good.taken(AT + later), expected, "{later} seconds later");
    }
    let width = table[4].0 - table[1].0;
    assert_eq!(SignedCall::NONCE_KEPT, Duration::from_secs(width as u64));
}

#[test]
fn a_call_without_body_or_agent_is_signed_as_it_is() {
    let mut sent = unsigned();
    sent.headers.truncate(1);
    sent.body.clear();
    sent.method = "GET".to_owned();
    let mut sent = sent.signed(&secret());
    assert_eq!(sent.taken(AT), "taken");
    sent.body = b"{}".to_vec();
    assert_eq!(sent.taken(AT), "signature_invalid", "a body without a digest");
}

fn sent() -> impl Strategy<Value = Sent> {
    let word = "[ -~&&[^ ]]{1,20}";
    let parts = ("GET|POST", "[a-z0-9.]{1,20}", "/[!-~&&[^?#]]{0,30}", proptest::option::of(word));
    let headers = (any::<bool>(), proptest::option::of("[!-~][ -~]{0,40}[!-~]"));
    (parts, headers, proptest::collection::vec(any::<u8>(), 0..200)).prop_map(
        |((method, authority, path, query), (json, authorization), body)| {
            let mut headers = Vec::new();
            if json {
                headers.push(("content-type".to_owned(), b"application/json".to_vec()));
            }
            if !body.is_empty() {
                headers.push(("content-digest".to_owned(), content_digest(&body).into_bytes()));
            }
            if let Some(authorization) = authorization {
                headers.push(("authorization".to_owned(), authorization.into_bytes()));
            }
            Sent { method, authority, path, query, headers, body }
        },
    )
}

proptest! {
    #[test]
    fn what_is_signed_is_taken(sent in sent()) {
        prop_assert_eq!(sent.signed(&secret()).taken(AT), "taken");
    }

    /// Whatever stands in the headers, reading it ends, and nothing that is not signed is taken.
    #[test]
    fn any_headers_are_read_without_harm(
        input in proptest::collection::vec(any::<u8>(), 0..200),
        signature in proptest::collection::vec(any::<u8>(), 0..200),
        digest in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut sent = unsigned().signed(&secret());
        *sent.header("Signature-Input") = input;
        *sent.header("Signature") = signature;
        *sent.header("Content-Digest") = digest;
        prop_assert_eq!(sent.taken(AT), "signature_invalid");
    }

    /// The same near the right form: one byte of a header is another.
    #[test]
    fn one_byte_of_a_header_counts(place in 0_usize..400, byte in 33_u8..127) {
        let mut sent = unsigned().signed(&secret());
        let mut all: Vec<&mut u8> =
            sent.headers.iter_mut().skip(1).flat_map(|(_, value)| value.iter_mut()).collect();
        let place = place % all.len();
        prop_assume!(*all[place] != byte);
        *all[place] = byte;
        prop_assert_eq!(sent.taken(AT), "signature_invalid");
    }
}
