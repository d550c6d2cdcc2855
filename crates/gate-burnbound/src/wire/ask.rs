//! What an agent asks for, in the shape that agents ask it in.

use gate_core::{Ask, IdempotencyKey, Justification, Target, Tool, Wanted};
use gate_money::Currency;
use serde::{Deserialize, Serialize};

use super::intent::reason_of;
use super::{Malformed, known, read, read_if, text_of};

/// A request for a refund.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AskBody {
    tool: String,
    target: String,
    amount_minor: Option<i64>,
    currency: Option<String>,
    reason: Option<String>,
    justification: Option<String>,
    idempotency_key: Option<String>,
    dry_run: bool,
}

impl From<&Ask> for AskBody {
    fn from(ask: &Ask) -> Self {
        let Ask { tool, target, wanted, believed_currency, reason, justification, key, dry_run } =
            ask;
        Self {
            tool: tool.as_str().to_owned(),
            target: text_of(target),
            amount_minor: match wanted {
                Wanted::Full => None,
                Wanted::Minor(minor) => Some(*minor),
            },
            currency: believed_currency.map(|currency| currency.lower().to_owned()),
            reason: reason.map(|reason| reason.as_str().to_owned()),
            justification: justification.as_ref().map(|words| words.as_str().to_owned()),
            idempotency_key: key.as_ref().map(text_of),
            dry_run: *dry_run,
        }
    }
}

impl TryFrom<AskBody> for Ask {
    type Error = Malformed;

    fn try_from(body: AskBody) -> Result<Self, Malformed> {
        Ok(Self {
            tool: known("tool", Tool::parse(&body.tool))?,
            target: read("target", Target::parse(&body.target))?,
            wanted: body.amount_minor.map_or(Wanted::Full, Wanted::Minor),
            believed_currency: read_if("currency", body.currency.as_ref(), Currency::parse)?,
            reason: reason_of(body.reason.as_deref())?,
            justification: read_if(
                "justification",
                body.justification.as_ref(),
                Justification::parse,
            )?,
            key: read_if("idempotencyKey", body.idempotency_key.as_ref(), IdempotencyKey::parse)?,
            dry_run: body.dry_run,
        })
    }
}
