//! The two kinds of keys: a gateway's secret, which also holds the authority's public half, and the
//! authority's own. Neither prints itself.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gate_core::GatewayId;
use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use secrecy::{ExposeSecret, SecretString};

/// Bytes of a seed, and of a public key.
const KEY_BYTES: usize = 32;
/// Bytes of a public key's digest that tell the versions of a gateway's key apart.
const VERSION_BYTES: usize = 8;

/// A gateway's secret, `bbgw_` and base64url of its seed and of the authority's public key: all that
/// it needs beside its id to prove itself, and to know whom it talks to.
pub struct GatewaySecret {
    text: SecretString,
    pair: Ed25519KeyPair,
    authority: [u8; KEY_BYTES],
}

/// A text that is no gateway's secret. It is not repeated.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SecretFault(&'static str);

impl fmt::Display for SecretFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for SecretFault {}

impl GatewaySecret {
    /// What every gateway's secret starts with.
    pub const PREFIX: &'static str = "bbgw_";

    /// The secret of a gateway with this `seed`, which is to be 32 random bytes, at the authority
    /// with this public key.
    ///
    /// # Errors
    ///
    /// None in practice: every 32 bytes are a seed.
    pub fn make(seed: &[u8; KEY_BYTES], authority: &[u8; KEY_BYTES]) -> Result<Self, SecretFault> {
        let both = [seed.as_slice(), authority.as_slice()].concat();
        let text = format!("{}{}", Self::PREFIX, URL_SAFE_NO_PAD.encode(both));
        let pair = Ed25519KeyPair::from_seed_unchecked(seed)
            .map_err(|_| SecretFault("the seed was refused; make another credential"))?;
        Ok(Self { text: SecretString::from(text), pair, authority: *authority })
    }

    /// Takes what `gateway create` printed.
    ///
    /// # Errors
    ///
    /// What is wrong with it, without a part of it.
    pub fn parse(text: &str) -> Result<Self, SecretFault> {
        let rest = text.strip_prefix(Self::PREFIX).ok_or(SecretFault(
            "is not a gateway's secret, which starts with bbgw_: `gateway create` at the authority \
             prints one",
        ))?;
        let cut = SecretFault("is cut off or mistyped: copy the whole secret, bbgw_…");
        let bytes = URL_SAFE_NO_PAD.decode(rest).map_err(|_| cut)?;
        let (seed, authority) = bytes.split_at_checked(KEY_BYTES).ok_or(cut)?;
        let seed: [u8; KEY_BYTES] = seed.try_into().map_err(|_| cut)?;
        let authority: [u8; KEY_BYTES] = authority.try_into().map_err(|_| cut)?;
        Self::make(&seed, &authority)
    }

    /// The secret itself, to be shown once.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.text.expose_secret()
    }

    /// The public half, which is all that the authority keeps.
    #[must_use]
    pub fn public_key(&self) -> [u8; KEY_BYTES] {
        public_half(&self.pair)
    }

    /// What the authority's answers are verified with.
    #[must_use]
    pub const fn authority(&self) -> &[u8; KEY_BYTES] {
        &self.authority
    }

    pub(crate) fn sign(&self, base: &str) -> Vec<u8> {
        self.pair.sign(base.as_bytes()).as_ref().to_vec()
    }
}

impl fmt::Debug for GatewaySecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GatewaySecret([redacted])")
    }
}

impl PartialEq for GatewaySecret {
    /// By the public halves: nothing secret is compared.
    fn eq(&self, other: &Self) -> bool {
        self.public_key() == other.public_key() && self.authority == other.authority
    }
}

/// What the authority signs its answers with.
pub struct AuthorityKey(Ed25519KeyPair);

impl AuthorityKey {
    /// The key that follows from 32 secret bytes.
    ///
    /// # Errors
    ///
    /// None in practice: every 32 bytes are a seed.
    pub fn from_seed(seed: &[u8; KEY_BYTES]) -> Result<Self, SecretFault> {
        Ed25519KeyPair::from_seed_unchecked(seed)
            .map(Self)
            .map_err(|_| SecretFault("the seed was refused"))
    }

    /// The public half, which stands in each gateway's secret.
    #[must_use]
    pub fn public_key(&self) -> [u8; KEY_BYTES] {
        public_half(&self.0)
    }

    pub(crate) fn sign(&self, base: &str) -> Vec<u8> {
        self.0.sign(base.as_bytes()).as_ref().to_vec()
    }
}

impl fmt::Debug for AuthorityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuthorityKey([redacted])")
    }
}

/// Which key signed: a gateway, and which of its keys. The version follows from the public half
/// (the first 8 bytes of its SHA-256, in hex), so that id and secret are all that a gateway needs.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct KeyId {
    gateway: GatewayId,
    version: String,
}

impl KeyId {
    /// The key of `gateway` with this public half.
    #[must_use]
    pub fn new(gateway: GatewayId, public_key: &[u8; KEY_BYTES]) -> Self {
        Self { gateway, version: key_version(public_key) }
    }

    /// Takes `gw_….VERSION`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (gateway, version) = text.rsplit_once('.')?;
        let hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let whole = version.len() == VERSION_BYTES.saturating_mul(2) && version.bytes().all(hex);
        let gateway = GatewayId::parse(gateway).ok().filter(|_| whole)?;
        Some(Self { gateway, version: version.to_owned() })
    }

    /// Whose key it is.
    #[must_use]
    pub const fn gateway(&self) -> &GatewayId {
        &self.gateway
    }

    /// Whether it is the key with this public half.
    #[must_use]
    pub fn is_of(&self, public_key: &[u8; KEY_BYTES]) -> bool {
        self.version == key_version(public_key)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.gateway, self.version)
    }
}

/// What tells one key of the same holder from another.
pub(crate) fn key_version(public_key: &[u8; KEY_BYTES]) -> String {
    let digest = digest(&SHA256, public_key);
    digest.as_ref().iter().take(VERSION_BYTES).map(|byte| format!("{byte:02x}")).collect()
}

/// Whether `signature` is of `base` by the holder of `public_key`.
pub(crate) fn verified(public_key: &[u8; KEY_BYTES], base: &str, signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, public_key).verify(base.as_bytes(), signature).is_ok()
}

fn public_half(pair: &Ed25519KeyPair) -> [u8; KEY_BYTES] {
    let mut half = [0; KEY_BYTES];
    for (to, from) in half.iter_mut().zip(pair.public_key().as_ref()) {
        *to = *from;
    }
    half
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_taken_whole_or_not_at_all() {
        let secret = GatewaySecret::make(&[7; 32], &[9; 32]).unwrap();
        let text = secret.expose().to_owned();
        assert_eq!(GatewaySecret::parse(&text).unwrap(), secret);
        assert_eq!(secret.authority(), &[9; 32]);
        let table = [
            // what is given                 a part of what is said
            (text[5..].to_owned(), "starts with bbgw_"),
            (String::new(), "starts with bbgw_"),
            ("bb_agent_canary".to_owned(), "starts with bbgw_"),
            ("bbgw_".to_owned(), "cut off"),
            (text[..text.len() - 2].to_owned(), "cut off"),
            (format!("{text}AAAA"), "cut off"),
            (format!("{text}="), "cut off"),
            (text.replace("BwcH", "B+cH"), "cut off"),
        ];
        for (given, part) in table {
            let fault = GatewaySecret::parse(&given).err().unwrap().to_string();
            assert!(fault.contains(part) && !fault.contains("canary"), "{given}: {fault}");
        }
        assert_eq!(format!("{secret:?}"), "GatewaySecret([redacted])");
    }

    #[test]
    fn a_key_id_names_one_key() {
        let gateway = GatewayId::parse("gw_1").unwrap();
        let id = KeyId::new(gateway, &[1; 32]);
        let text = id.to_string();
        assert_eq!(text, "gw_1.72cd6e8422c407fb");
        assert_eq!(KeyId::parse(&text), Some(id.clone()));
        assert!(id.is_of(&[1; 32]) && !id.is_of(&[2; 32]));
        for bad in [
            "gw_1",
            "gw_1.",
            "gw_1.72cd6e8422c407f",
            "gw_1.72CD6E8422C407FB",
            "x.72cd6e8422c407fb",
            ".",
            "",
        ] {
            assert_eq!(KeyId::parse(bad), None, "{bad}");
        }
    }
}
