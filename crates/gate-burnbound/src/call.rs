//! A gateway's call as it is signed, and as the authority verifies it. One list of components in one
//! order is taken, and no other.

use std::time::Duration;

use gate_core::bugs::{self, Bug};
use gate_core::{GatewayFault, GatewayId, Timestamp};

use crate::keys::{GatewaySecret, KeyId, verified};
use crate::signature::{
    Headers, Line, Unreadable, base, content_digest, input_header, integer, list, signature_header,
    text,
};

/// What says that a signature is a gateway's call.
pub const TAG: &str = "burnbound-gateway";
/// How long a call is good for by its own word, in seconds.
const GOOD_FOR_SECS: i64 = 60;
/// How far the two clocks may be apart, in seconds.
const SKEW_SECS: i64 = 60;
/// Characters of a nonce: 128 bits in hex.
const NONCE_CHARS: usize = 32;

/// A call, as far as it is signed.
#[derive(Clone, Copy)]
pub struct RequestParts<'a> {
    /// `GET` or `POST`.
    pub method: &'a str,
    /// Host, and port unless it is the scheme's own, in lower case.
    pub authority: &'a str,
    /// The path that the authority sees.
    pub path: &'a str,
    /// What follows the question mark, if there is one.
    pub query: Option<&'a str>,
    /// Every header, in the order in which they came, repeated ones too.
    pub headers: &'a [(&'a str, &'a [u8])],
    /// The whole body.
    pub body: &'a [u8],
}

/// The headers that a signature adds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SignedHeaders {
    /// `Signature-Input`.
    pub input: String,
    /// `Signature`.
    pub signature: String,
    /// The signature itself: the answer covers it.
    pub bytes: Vec<u8>,
}

impl<'a> RequestParts<'a> {
    fn lines(&self) -> Result<Vec<Line<'a>>, Unreadable> {
        let mut lines: Vec<Line<'a>> = vec![
            ("\"@method\"", self.method.into()),
            ("\"@authority\"", self.authority.into()),
            ("\"@path\"", self.path.into()),
            ("\"@query\"", format!("?{}", self.query.unwrap_or_default()).into()),
        ];
        for (name, component) in [
            ("content-type", "\"content-type\""),
            ("content-digest", "\"content-digest\""),
            ("authorization", "\"authorization\""),
        ] {
            if bugs::on(Bug::SignedWithoutAgent) && name == "authorization" {
                continue;
            }
            if let Some(value) = Headers(self.headers).one(name)? {
                lines.push((component, value.into()));
            }
        }
        Ok(lines)
    }
}

impl GatewaySecret {
    /// Signs a call as `gateway`, at `now`. The digest of a body must be among its headers. `None`
    /// when a header that is signed has no form that can be.
    #[must_use]
    pub fn sign_call(
        &self,
        gateway: &GatewayId,
        parts: &RequestParts<'_>,
        now: Timestamp,
        nonce: [u8; 16],
    ) -> Option<SignedHeaders> {
        let lines = parts.lines().ok()?;
        let keyid = KeyId::new(gateway.clone(), &self.public_key());
        let nonce: String = nonce.iter().map(|byte| format!("{byte:02x}")).collect();
        let params = params(&lines, now.millis().div_euclid(1000), &nonce, &keyid);
        let bytes = self.sign(&base(&lines, &params));
        Some(SignedHeaders {
            input: input_header(&params),
            signature: signature_header(&bytes),
            bytes,
        })
    }

    /// The value of `Content-Digest` for a body.
    #[must_use]
    pub fn digest(body: &[u8]) -> String {
        content_digest(body)
    }
}

fn params(lines: &[Line<'_>], created: i64, nonce: &str, keyid: &KeyId) -> String {
    let expires = created.saturating_add(GOOD_FOR_SECS);
    format!(
        "{};created={created};expires={expires};nonce=\"{nonce}\";keyid=\"{keyid}\";tag=\"{TAG}\"",
        list(lines)
    )
}

/// A call whose signature has the right form and time, and which nobody has vouched for yet.
#[derive(Debug)]
pub struct SignedCall {
    keyid: KeyId,
    nonce: String,
    base: String,
    signature: Vec<u8>,
}

impl SignedCall {
    /// How long a call that was taken once could be taken again, and its nonce is to be remembered:
    /// what it is good for, and the skew on both sides.
    pub const NONCE_KEPT: Duration = Duration::from_secs(180);

    /// Reads a call that came at `now`.
    ///
    /// # Errors
    ///
    /// [`GatewayFault::SignatureInvalid`] when anything of it has another form than a gateway's call
    /// has, and [`GatewayFault::SignatureExpired`] when it is from another time.
    pub fn read(parts: &RequestParts<'_>, now: Timestamp) -> Result<Self, GatewayFault> {
        let (call, created) =
            Self::of_right_form(parts).map_err(|Unreadable| GatewayFault::SignatureInvalid)?;
        let now = now.millis().div_euclid(1000);
        let first = created.saturating_sub(SKEW_SECS);
        let last = created.saturating_add(GOOD_FOR_SECS).saturating_add(SKEW_SECS);
        let in_time = (first..=last).contains(&now) || bugs::on(Bug::CallExpiryIgnored);
        if in_time { Ok(call) } else { Err(GatewayFault::SignatureExpired) }
    }

    /// The signature of a call, whatever it is worth: the answer covers it, refusals too.
    #[must_use]
    pub fn signature_of(parts: &RequestParts<'_>) -> Option<Vec<u8>> {
        Headers(parts.headers).signature().ok().map(|(_, _, signature)| signature)
    }

    fn of_right_form(parts: &RequestParts<'_>) -> Result<(Self, i64), Unreadable> {
        let headers = Headers(parts.headers);
        let (input, sent, signature) = headers.signature()?;
        if !bugs::on(Bug::CallDigestNotChecked) {
            headers.digest_fits(parts.body)?;
        }
        let lines = parts.lines()?;
        let created = integer(&input, "created")?;
        let nonce = text(&input, "nonce")?.to_owned();
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if nonce.len() != NONCE_CHARS || !nonce.bytes().all(hex) {
            return Err(Unreadable);
        }
        let keyid = KeyId::parse(text(&input, "keyid")?).ok_or(Unreadable)?;
        // Whatever is missing, more, repeated, or in another order or spelling, shows here.
        if sent != params(&lines, created, &nonce, &keyid) {
            return Err(Unreadable);
        }
        let base = base(&lines, sent);
        Ok((Self { keyid, nonce, base, signature }, created))
    }

    /// Which key it says that it is signed with.
    #[must_use]
    pub const fn keyid(&self) -> &KeyId {
        &self.keyid
    }

    /// What makes it this call and no other of the same key.
    #[must_use]
    pub fn nonce(&self) -> &str {
        &self.nonce
    }

    /// The signature, which the answer covers.
    #[must_use]
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// Whether the holder of this key signed it.
    #[must_use]
    pub fn is_by(&self, public_key: &[u8; 32]) -> bool {
        verified(public_key, &self.base, &self.signature) || bugs::on(Bug::CallSignatureNotChecked)
    }
}

#[cfg(test)]
mod tests;
