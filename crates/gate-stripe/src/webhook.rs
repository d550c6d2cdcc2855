//! Stripe's webhooks: whether a delivery is genuine and fresh, and what it is about.
//!
//! [`verify`] promises that nothing comes out of it that was not signed with one of the secrets
//! over exactly these bytes, within five minutes. What comes out is only a hint of what to read
//! again from Stripe: events come twice, late and in any order, so nothing of their content counts.

use std::fmt;

use gate_core::{AccountId, ChargeId, HoldId, RefundId, Timestamp};
use ring::hmac;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// How far a stamp may lie from now, before or after, in milliseconds.
const TOLERANCE_MS: i64 = 300 * 1000;
/// Longest `Stripe-Signature` header that is looked at, in bytes; Stripe's have one or two
/// signatures of 67 bytes each.
const HEADER_BYTES_MAX: usize = 1024;
/// How many secrets may be in use at a time. Rotating needs two for each endpoint.
const SECRETS_MAX: usize = 8;
/// Longest secret and longest event id, in bytes.
const TEXT_BYTES_MAX: usize = 255;
/// What every webhook secret starts with.
const SECRET_PREFIX: &str = "whsec_";

/// The signing secrets of the webhook endpoints, all of them valid; several while one is being
/// rotated. Never printed.
#[derive(Clone)]
pub struct WebhookSecrets(Vec<SecretString>);

/// A list of webhook secrets that cannot be used. Never shows the text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WebhookSecretsUnusable {
    /// One of them is not a webhook secret.
    NotASecret {
        /// Which one, counted from 1.
        place: usize,
        /// How many there are.
        of: usize,
    },
    /// There are more than are tried.
    TooMany {
        /// How many there are.
        count: usize,
    },
}

impl fmt::Display for WebhookSecretsUnusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASecret { place, of } => write!(
                f,
                "webhook secret {place} of {of} is not one of Stripe's; needed is whsec_… from \
                 Stripe's dashboard under Developers, Webhooks, and a comma between two of them"
            ),
            Self::TooMany { count } => write!(
                f,
                "these are {count} webhook secrets, and at most {SECRETS_MAX} are tried; leave \
                 those away that are no longer in use"
            ),
        }
    }
}

impl std::error::Error for WebhookSecretsUnusable {}

impl WebhookSecrets {
    /// Takes `whsec_…`, or several with commas between them. White space around each is left
    /// away, such as the line break at the end of a file.
    ///
    /// # Errors
    ///
    /// [`WebhookSecretsUnusable`], which names the one at fault by its place.
    pub fn parse(text: &str) -> Result<Self, WebhookSecretsUnusable> {
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        let of = parts.len();
        if of > SECRETS_MAX {
            return Err(WebhookSecretsUnusable::TooMany { count: of });
        }
        if let Some(place) = (1..).zip(&parts).find_map(|(n, part)| (!is_secret(part)).then_some(n))
        {
            return Err(WebhookSecretsUnusable::NotASecret { place, of });
        }
        Ok(Self(parts.into_iter().map(SecretString::from).collect()))
    }
}

fn is_secret(text: &str) -> bool {
    text.len() <= TEXT_BYTES_MAX
        && text
            .strip_prefix(SECRET_PREFIX)
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_graphic()))
}

impl fmt::Debug for WebhookSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WebhookSecrets([redacted]; {})", self.0.len())
    }
}

/// What a genuine delivery is about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WebhookEvent {
    /// `evt_…`: letters, digits and `_`, at most 255 bytes. The same for every repetition.
    pub id: String,
    /// What kind of thing happened.
    pub kind: EventKind,
    /// The charge that it is about, where there is one.
    pub charge: Option<ChargeId>,
    /// The refund that it is about, where there is one.
    pub refund: Option<RefundId>,
    /// The approval request of Stripe's own that it is about, where there is one.
    pub hold: Option<HoldId>,
    /// Whether it is about live money; false where the event does not say.
    pub livemode: bool,
    /// The connected account that it happened in; absent for the account's own events.
    pub account: Option<AccountId>,
}

/// The kinds of event that tell the gateway to look at something again.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum EventKind {
    /// `v2.core.approval_request.…`: an approval of Stripe's own was asked for, given, refused or
    /// carried out.
    ApprovalChanged,
    /// `charge.refunded`: more of a charge has been refunded, by whomever.
    ChargeRefunded,
    /// `charge.dispute.…`: a dispute or an inquiry was opened, changed or closed.
    DisputeChanged,
    /// Anything else, by Stripe's name for it; empty where it has none.
    Other(String),
    /// `refund.…` and `charge.refund.updated`: a refund was made, moved on or failed.
    RefundChanged,
}

/// Why a delivery is not believed. None of it shows secrets, signatures or content.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum WebhookError {
    /// No signature was made with any of the secrets over this stamp and body.
    BadSignature,
    /// The header is not of the form `t=…,v1=…`.
    MalformedHeader,
    /// The header has no signature of the scheme `v1`.
    NoSignature,
    /// Signed for a time more than five minutes ahead.
    TooEarly,
    /// Signed more than five minutes ago.
    TooOld,
    /// Genuine, but not an event with an id.
    Unreadable,
}

impl fmt::Display for WebhookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadSignature => {
                "the webhook's signature is wrong; check that the secret is this endpoint's, and \
                 that nothing on the way changes the body"
            }
            Self::MalformedHeader => {
                "the Stripe-Signature header is not of the form t=…,v1=…; check what stands \
                 between Stripe and the gateway"
            }
            Self::NoSignature => {
                "the Stripe-Signature header has no v1 signature; check that it is Stripe that \
                 sends here"
            }
            Self::TooEarly => {
                "the webhook was signed for a time more than 300 seconds ahead; check this \
                 machine's clock"
            }
            Self::TooOld => {
                "the webhook was signed more than 300 seconds ago; check this machine's clock, or \
                 wait for Stripe's next attempt"
            }
            Self::Unreadable => {
                "the webhook is genuine but is not an event with an id; check the endpoint's \
                 settings in Stripe's dashboard"
            }
        })
    }
}

impl std::error::Error for WebhookError {}

/// Checks a delivery by its `Stripe-Signature` header and its raw body, and reads what it is
/// about. Any of the secrets and any `v1` signature may match; each is compared in constant time.
/// The size of `body` is the caller's to limit.
///
/// # Errors
///
/// [`WebhookError`]: the signature is judged before the age, so that only genuine deliveries are
/// called too old.
pub fn verify(
    secrets: &WebhookSecrets,
    header: &str,
    body: &[u8],
    now: Timestamp,
) -> Result<WebhookEvent, WebhookError> {
    let signature = Signature::parse(header)?;
    let signed = [signature.stamp.as_bytes(), b".", body].concat();
    let fits = |secret: &SecretString| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret().as_bytes());
        signature.tags.iter().any(|tag| hmac::verify(&key, &signed, tag).is_ok())
    };
    if !secrets.0.iter().any(fits) {
        return Err(WebhookError::BadSignature);
    }
    let age_ms = now.millis().saturating_sub(signature.secs.saturating_mul(1000));
    if age_ms > TOLERANCE_MS {
        return Err(WebhookError::TooOld);
    }
    if age_ms < TOLERANCE_MS.saturating_neg() {
        return Err(WebhookError::TooEarly);
    }
    WebhookEvent::read(body).ok_or(WebhookError::Unreadable)
}

/// A header taken apart.
struct Signature<'a> {
    /// As it was signed.
    stamp: &'a str,
    /// Seconds since 1970.
    secs: i64,
    /// The signatures of the one scheme that counts; never empty.
    tags: Vec<Vec<u8>>,
}

impl<'a> Signature<'a> {
    fn parse(header: &'a str) -> Result<Self, WebhookError> {
        if header.len() > HEADER_BYTES_MAX {
            return Err(WebhookError::MalformedHeader);
        }
        let (mut stamp, mut tags) = (None, Vec::new());
        for item in header.split(',') {
            let (name, value) = item.trim().split_once('=').ok_or(WebhookError::MalformedHeader)?;
            match name {
                // Two stamps would leave it open which of them was signed.
                "t" if stamp.is_some() => return Err(WebhookError::MalformedHeader),
                "t" => stamp = Some(value),
                // What is no hex matches nothing, and another one may still match.
                "v1" => tags.push(bytes_of_hex(value).unwrap_or_default()),
                // `v0` is for test events and proves nothing; later schemes are not known.
                _ => {}
            }
        }
        let stamp = stamp.ok_or(WebhookError::MalformedHeader)?;
        let digits = !stamp.is_empty() && stamp.bytes().all(|b| b.is_ascii_digit());
        let secs = stamp.parse().ok().filter(|_| digits).ok_or(WebhookError::MalformedHeader)?;
        if tags.is_empty() {
            return Err(WebhookError::NoSignature);
        }
        Ok(Self { stamp, secs, tags })
    }
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}

impl WebhookEvent {
    /// Reads leniently: an id is needed, everything else may be missing or of another form.
    fn read(body: &[u8]) -> Option<Self> {
        let event: Value = serde_json::from_slice(body).ok()?;
        let text = |pointer| event.pointer(pointer).and_then(Value::as_str);
        let id = text("/id").filter(|id| is_event_id(id))?.to_owned();
        let kind = EventKind::of(text("/object"), text("/type").unwrap_or_default());
        let own = text("/data/object/id");
        // An id, or the object where it was expanded.
        let named = text("/data/object/charge").or_else(|| text("/data/object/charge/id"));
        let (charge, refund, hold) = match kind {
            EventKind::ApprovalChanged => (None, None, text("/related_object/id")),
            EventKind::ChargeRefunded => (own, None, None),
            EventKind::DisputeChanged => (named, None, None),
            EventKind::Other(_) => (None, None, None),
            EventKind::RefundChanged => (named, own, None),
        };
        Some(Self {
            id,
            kind,
            charge: charge.and_then(|id| ChargeId::parse(id).ok()),
            refund: refund.and_then(|id| RefundId::parse(id).ok()),
            hold: hold.and_then(|id| HoldId::parse(id).ok()),
            livemode: event.get("livemode").and_then(Value::as_bool).unwrap_or(false),
            account: text("/account")
                .or_else(|| text("/context"))
                .and_then(|id| AccountId::parse(id).ok()),
        })
    }
}

impl EventKind {
    /// The kind of an event of type `name`. Only v1 events, `object: "event"`, carry an object; thin
    /// ones, `object: "v2.core.event"`, name it.
    fn of(object: Option<&str>, name: &str) -> Self {
        if name.starts_with("v2.core.approval_request.") && object != Some("event") {
            return Self::ApprovalChanged;
        }
        if object != Some("event") {
            return Self::Other(name.to_owned());
        }
        match name {
            "charge.refunded" => Self::ChargeRefunded,
            _ if name.starts_with("charge.dispute.") => Self::DisputeChanged,
            _ if name.starts_with("refund.") || name.starts_with("charge.refund.") => {
                Self::RefundChanged
            }
            _ => Self::Other(name.to_owned()),
        }
    }
}

fn is_event_id(text: &str) -> bool {
    text.len() <= TEXT_BYTES_MAX
        && text.strip_prefix("evt_").is_some_and(|rest| {
            !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        })
}
