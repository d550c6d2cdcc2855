//! What became of an intent, as a gateway tells it.

use gate_core::{ChargeId, FailureCode, Hold, HoldId, HoldUrl, KeyMark, Outcome, Refusal};
use serde::{Deserialize, Serialize};

use super::intent::RefundBody;
use super::{Malformed, known, read, read_if, text_of, time, time_if};

/// `POST /intents/{id}/outcome`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OutcomeAsk {
    /// The fence of the lease under which it was found out; 0 for a refund seen under none.
    pub fence: u64,
    /// What was found out.
    pub outcome: OutcomeBody,
}

/// What became of an intent.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(
    rename_all = "snake_case",
    rename_all_fields = "camelCase",
    tag = "kind",
    deny_unknown_fields
)]
pub enum OutcomeBody {
    /// Stripe holds it for an approval of its own.
    AwaitingStripe {
        /// Stripe's id of that approval.
        hold_id: Option<String>,
        /// Where people find it in Stripe's dashboard.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hold_url: Option<String>,
        /// When Stripe lets it expire.
        expires_at: Option<String>,
        /// Which key's refund it holds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// Stripe refused.
    Failed {
        /// Why.
        code: String,
        /// What Stripe said.
        message: String,
    },
    /// A person has to find out.
    NeedsPerson,
    /// Stripe certainly did nothing.
    NotExecuted {
        /// What happened.
        message: String,
    },
    /// A refund was come across whose metadata names the intent.
    RefundNamed {
        /// The charge that it refunds.
        charge: String,
        /// Its amount in minor units.
        amount_minor: i64,
        /// The refund.
        refund: RefundBody,
    },
    /// The intent's own refund was seen.
    RefundSeen {
        /// The refund.
        refund: RefundBody,
    },
}

impl From<&Outcome> for OutcomeBody {
    fn from(news: &Outcome) -> Self {
        match news {
            Outcome::Held(Hold { id, url, expires_at, key }) => Self::AwaitingStripe {
                hold_id: id.as_ref().map(text_of),
                hold_url: url.as_ref().map(text_of),
                expires_at: expires_at.map(time),
                key: key.as_ref().map(text_of),
            },
            Outcome::Named { charge, minor, refund } => Self::RefundNamed {
                charge: text_of(charge),
                amount_minor: *minor,
                refund: refund.into(),
            },
            Outcome::NeedsPerson => Self::NeedsPerson,
            Outcome::NotExecuted(message) => Self::NotExecuted { message: message.clone() },
            Outcome::Refused(Refusal { code, message }) => {
                Self::Failed { code: code.as_str().to_owned(), message: message.clone() }
            }
            Outcome::Seen(refund) => Self::RefundSeen { refund: refund.into() },
        }
    }
}

impl TryFrom<OutcomeBody> for Outcome {
    type Error = Malformed;

    fn try_from(body: OutcomeBody) -> Result<Self, Malformed> {
        Ok(match body {
            OutcomeBody::AwaitingStripe { hold_id, hold_url, expires_at, key } => {
                Self::Held(Hold {
                    id: read_if("holdId", hold_id.as_ref(), HoldId::parse)?,
                    url: read_if("holdUrl", hold_url.as_ref(), HoldUrl::parse)?,
                    expires_at: time_if("expiresAt", expires_at.as_ref())?,
                    key: read_if("key", key.as_ref(), KeyMark::parse)?,
                })
            }
            OutcomeBody::Failed { code, message } => {
                let code = known("code", FailureCode::parse(&code))?;
                Self::Refused(Refusal { code, message })
            }
            OutcomeBody::NeedsPerson => Self::NeedsPerson,
            OutcomeBody::NotExecuted { message } => Self::NotExecuted(message),
            OutcomeBody::RefundNamed { charge, amount_minor, refund } => Self::Named {
                charge: read("charge", ChargeId::parse(&charge))?,
                minor: amount_minor,
                refund: (&refund).try_into()?,
            },
            OutcomeBody::RefundSeen { refund } => Self::Seen((&refund).try_into()?),
        })
    }
}
