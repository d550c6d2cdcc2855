//! What HTTP message signatures (RFC 9421) and digests (RFC 9530) of both directions share: the base
//! that is signed, and headers that are read strictly. A header that came twice, or is written in
//! another way than our own side writes it, is refused: there is one form, and so nothing to be
//! clever about.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use sfv::{BareItem, Dictionary, InnerList, ListEntry, Parser};

/// The label under which the one signature stands.
const LABEL: &str = "sig";
/// Largest header of ours that is read, in bytes.
const HEADER_BYTES_MAX: usize = 1024;
/// Bytes of a signature.
const SIGNATURE_BYTES: usize = 64;

/// A component that is signed: its identifier, quoted and with parameters, and its value.
pub(crate) type Line<'a> = (&'static str, std::borrow::Cow<'a, str>);

/// Headers as they came, in their order.
#[derive(Clone, Copy)]
pub(crate) struct Headers<'a>(pub(crate) &'a [(&'a str, &'a [u8])]);

/// A header that cannot be read as what it should be, or that came more than once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Unreadable;

impl<'a> Headers<'a> {
    /// The one value of a header, without the blanks around it; none when it did not come.
    pub(crate) fn one(self, name: &str) -> Result<Option<&'a str>, Unreadable> {
        let mut values = self.0.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let Some((_, value)) = values.next() else { return Ok(None) };
        if values.next().is_some() {
            return Err(Unreadable);
        }
        let value = std::str::from_utf8(value).map_err(|_| Unreadable)?;
        let value = value.trim_matches([' ', '\t']);
        let plain = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        if value.bytes().all(plain) { Ok(Some(value)) } else { Err(Unreadable) }
    }

    /// The same of a header of ours, which is short and must be there.
    fn needed(self, name: &str) -> Result<&'a str, Unreadable> {
        let value = self.one(name)?.ok_or(Unreadable)?;
        if value.len() <= HEADER_BYTES_MAX { Ok(value) } else { Err(Unreadable) }
    }

    /// The signature, and the parameters that it was made with.
    pub(crate) fn signature(self) -> Result<(InnerList, &'a str, Vec<u8>), Unreadable> {
        let input = self.needed("signature-input")?;
        let Some(ListEntry::InnerList(list)) = only_member(input, LABEL)? else {
            return Err(Unreadable);
        };
        let sent = self.needed("signature")?;
        let Some(ListEntry::Item(item)) = only_member(sent, LABEL)? else {
            return Err(Unreadable);
        };
        let signature = item.bare_item.as_byte_sequence().ok_or(Unreadable)?.to_vec();
        if signature.len() != SIGNATURE_BYTES || sent != signature_header(&signature) {
            return Err(Unreadable);
        }
        let params = input.strip_prefix(LABEL).and_then(|rest| rest.strip_prefix('='));
        Ok((list, params.ok_or(Unreadable)?, signature))
    }

    /// Whether the digest, where there is one, is of `body`. A body without one is refused.
    pub(crate) fn digest_fits(self, body: &[u8]) -> Result<(), Unreadable> {
        match self.one("content-digest")? {
            None if body.is_empty() => Ok(()),
            Some(digest) if digest == content_digest(body) => Ok(()),
            None | Some(_) => Err(Unreadable),
        }
    }
}

/// The value of `Content-Digest` for a body.
#[must_use]
pub fn content_digest(body: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(digest(&SHA256, body)))
}

/// The value of `Signature`.
pub(crate) fn signature_header(signature: &[u8]) -> String {
    format!("{LABEL}={}", signature_member(signature))
}

/// A signature as it stands in the header, and in the base of the answer to its request.
pub(crate) fn signature_member(signature: &[u8]) -> String {
    format!(":{}:", STANDARD.encode(signature))
}

/// The value of `Signature-Input`.
pub(crate) fn input_header(params: &str) -> String {
    format!("{LABEL}={params}")
}

/// The components' identifiers, as a list.
pub(crate) fn list(lines: &[Line<'_>]) -> String {
    let names: Vec<&str> = lines.iter().map(|(name, _)| *name).collect();
    format!("({})", names.join(" "))
}

/// What is signed (RFC 9421, section 2.5).
pub(crate) fn base(lines: &[Line<'_>], params: &str) -> String {
    let lines: String = lines.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    format!("{lines}\"@signature-params\": {params}")
}

/// An integer parameter.
pub(crate) fn integer(list: &InnerList, name: &str) -> Result<i64, Unreadable> {
    list.params.get(name).and_then(BareItem::as_integer).map(i64::from).ok_or(Unreadable)
}

/// A text parameter.
pub(crate) fn text<'a>(list: &'a InnerList, name: &str) -> Result<&'a str, Unreadable> {
    let text = list.params.get(name).and_then(BareItem::as_string).ok_or(Unreadable)?;
    Ok(text.as_str())
}

fn only_member(header: &str, label: &str) -> Result<Option<ListEntry>, Unreadable> {
    let parsed: Dictionary = Parser::new(header).parse().map_err(|_| Unreadable)?;
    if parsed.len() != 1 {
        return Err(Unreadable);
    }
    Ok(parsed.into_iter().find(|(name, _)| name.as_str() == label).map(|(_, entry)| entry))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::verified;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use ring::signature::Ed25519KeyPair;

    /// RFC 9421, appendix B.2.6, with the key of B.1.4: the base and the signature by others' hands.
    #[test]
    fn the_rfcs_own_signature_is_ours() {
        let lines: [Line<'_>; 6] = [
            ("\"date\"", "Tue, 20 Apr 2021 02:07:55 GMT".into()),
            ("\"@method\"", "POST".into()),
            ("\"@path\"", "/foo".into()),
            ("\"@authority\"", "example.com".into()),
            ("\"content-type\"", "application/json".into()),
            ("\"content-length\"", "18".into()),
        ];
        let params = format!("{};created=1618884473;keyid=\"test-key-ed25519\"", list(&lines));
        let base = base(&lines, &params);
        let key =
            |text: &str| -> [u8; 32] { URL_SAFE_NO_PAD.decode(text).unwrap().try_into().unwrap() };
        let public = key("JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs");
        let secret = key("n4Ni-HpISpVObnQMW0wOhCKROaIKqKtW_2ZYb2p9KcU");
        let pair = Ed25519KeyPair::from_seed_and_public_key(&secret, &public).unwrap();
        let signature = pair.sign(base.as_bytes());
        assert_eq!(
            signature_member(signature.as_ref()),
            ":wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:"
        );
        assert!(verified(&public, &base, signature.as_ref()));
    }

    /// RFC 9530, appendix B.1.
    #[test]
    fn the_rfcs_own_digest_is_ours() {
        assert_eq!(
            content_digest(b"{\"hello\": \"world\"}\n"),
            "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:"
        );
    }
}
