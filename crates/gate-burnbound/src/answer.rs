//! The authority's answer as it is signed, and as a gateway verifies it. It covers the signature of
//! the call, so that it answers that call and no other, however often either is sent.

use gate_core::Timestamp;
use gate_core::bugs::{self, Bug};

use crate::call::SignedHeaders;
use crate::keys::{AuthorityKey, key_version, verified};
use crate::signature::{
    Headers, Line, Unreadable, base, content_digest, input_header, integer, list, signature_header,
    signature_member,
};

/// What says that a signature is an authority's answer.
const TAG: &str = "burnbound-authority";

/// An answer that the authority gave to the call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SignedAnswer {
    /// When, by the authority's clock, to the second.
    pub at: Timestamp,
}

fn lines<'a>(status: u16, digest: &'a str, call_signature: &[u8]) -> [Line<'a>; 3] {
    let status = if bugs::on(Bug::AnswerStatusNotSigned) { 0 } else { status };
    let of: &[u8] = if bugs::on(Bug::AnswerOfOtherCallTaken) { &[] } else { call_signature };
    [
        ("\"@status\"", status.to_string().into()),
        ("\"content-digest\"", digest.into()),
        ("\"signature\";req;key=\"sig\"", signature_member(of).into()),
    ]
}

fn params(lines: &[Line<'_>], created: i64, public_key: &[u8; 32]) -> String {
    let version = key_version(public_key);
    format!("{};created={created};keyid=\"authority.{version}\";tag=\"{TAG}\"", list(lines))
}

impl AuthorityKey {
    /// Signs the answer to the call with this signature. Answers also with the digest of the body,
    /// which is to be sent as `Content-Digest`.
    #[must_use]
    pub fn sign_answer(
        &self,
        status: u16,
        body: &[u8],
        call_signature: &[u8],
        now: Timestamp,
    ) -> (String, SignedHeaders) {
        let digest = content_digest(body);
        let lines = lines(status, &digest, call_signature);
        let params = params(&lines, now.millis().div_euclid(1000), &self.public_key());
        let bytes = self.sign(&base(&lines, &params));
        let headers = SignedHeaders {
            input: input_header(&params),
            signature: signature_header(&bytes),
            bytes,
        };
        (digest, headers)
    }
}

impl SignedAnswer {
    /// Takes an answer that the holder of `authority` gave to the call with this signature; `None`
    /// for every other.
    #[must_use]
    pub fn read(
        authority: &[u8; 32],
        call_signature: &[u8],
        status: u16,
        headers: &[(&str, &[u8])],
        body: &[u8],
    ) -> Option<Self> {
        Self::verified(authority, call_signature, status, Headers(headers), body).ok()
    }

    fn verified(
        authority: &[u8; 32],
        call_signature: &[u8],
        status: u16,
        headers: Headers<'_>,
        body: &[u8],
    ) -> Result<Self, Unreadable> {
        let (input, sent, signature) = headers.signature()?;
        let digest = headers.one("content-digest")?.ok_or(Unreadable)?;
        if !bugs::on(Bug::AnswerDigestNotChecked) {
            headers.digest_fits(body)?;
        }
        let lines = lines(status, digest, call_signature);
        let created = integer(&input, "created")?;
        if sent != params(&lines, created, authority) {
            return Err(Unreadable);
        }
        if !verified(authority, &base(&lines, sent), &signature) {
            return Err(Unreadable);
        }
        Ok(Self { at: Timestamp::from_millis(created.saturating_mul(1000)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [3; 32];
    const CALL: [u8; 64] = [5; 64];

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_millis(secs * 1000)
    }

    /// Only what the authority said to this very call is an answer.
    #[test]
    fn an_answer_is_of_one_call_and_unchanged() {
        let key = AuthorityKey::from_seed(&KEY).unwrap();
        let body = br#"{"decided":"allow"}"#;
        let (digest, signed) = key.sign_answer(200, body, &CALL, at(1000));
        let other = AuthorityKey::from_seed(&[4; 32]).unwrap();
        let (_, forged) = other.sign_answer(200, body, &CALL, at(1000));
        let (_, replayed) = key.sign_answer(200, body, &[6; 64], at(1000));
        let later = signed.input.replace("created=1000", "created=2000");
        let lacking = signed.input.replace("\"@status\" ", "");
        let tagged = signed.input.replace("burnbound-authority", "burnbound-gateway");
        let mine = (&*digest, &*signed.input, &*signed.signature);
        let (d, i, s) = mine;
        let empty = content_digest(b"");
        let no_body: &[u8] = b"";
        #[rustfmt::skip]
        let table: [(&str, u16, &[u8], (&str, &str, &str), bool); 12] = [
            // what                  status  body                        digest, input, signature     taken
            ("as it was",            200,    body,                       mine,                        true),
            ("another status",       402,    body,                       mine,                        false),
            ("another body",         200,    br#"{"decided":"deny"}"#,   mine,                        false),
            ("no body",              200,    no_body,                    mine,                        false),
            ("digest of another",    200,    no_body,                    (&empty, i, s),              false),
            ("no digest",            200,    body,                       ("", i, s),                  false),
            ("no input",             200,    body,                       (d, "", s),                  false),
            ("no signature",         200,    body,                       (d, i, ""),                  false),
            ("another's key",        200,    body,                       (d, &forged.input, &forged.signature), false),
            ("to another call",      200,    body,                       (d, &replayed.input, &replayed.signature), false),
            ("another time",         200,    body,                       (d, &later, s),              false),
            ("a component less",     200,    body,                       (d, &lacking, s),            false),
        ];
        for (name, status, body, (digest, input, signature), taken) in table {
            let all =
                [("content-digest", digest), ("signature-input", input), ("signature", signature)];
            let headers: Vec<(&str, &[u8])> = all
                .into_iter()
                .filter(|(_, value)| !value.is_empty())
                .map(|(name, value)| (name, value.as_bytes()))
                .collect();
            let read = SignedAnswer::read(&key.public_key(), &CALL, status, &headers, body);
            assert_eq!(read, taken.then_some(SignedAnswer { at: at(1000) }), "{name}");
            for (name, value) in headers.clone() {
                let twice = [headers.clone(), vec![(name, value)]].concat();
                let read = SignedAnswer::read(&key.public_key(), &CALL, status, &twice, body);
                assert_eq!(read, None, "{name} twice");
            }
        }
        let headers = [("content-digest", d), ("signature-input", &*tagged), ("signature", s)];
        let headers = headers.map(|(name, value)| (name, value.as_bytes()));
        assert_eq!(SignedAnswer::read(&key.public_key(), &CALL, 200, &headers, body), None, "tag");
    }
}
