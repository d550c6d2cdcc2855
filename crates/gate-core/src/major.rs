//! A refund asked for in whole units. How many minor units those are hangs on the currency, which
//! only the charge says; but what was asked before is found without Stripe, as for any other
//! request, so that an outage never passes for "nothing was refunded".

use gate_money::{Amount, Currency};

use crate::ask::{Ask, Wanted};
use crate::error::ActionError;
use crate::ids::AgentKey;
use crate::ports::AuthorityError;
use crate::refund::Refunds;

/// One currency of each number of decimals that Stripe counts with.
const OF_EACH_KIND: [Currency; 3] = [Currency::JPY, Currency::USD, Currency::KWD];

impl Refunds {
    /// `ask` for `major` whole units of the charge's own currency, in minor units.
    pub(crate) async fn counted(
        &self,
        key: &AgentKey,
        ask: Ask,
        major: &str,
    ) -> Result<Ask, ActionError> {
        let mut differs = None;
        for kind in OF_EACH_KIND {
            let Ok(amount) = Amount::parse_major(major, kind) else { continue };
            let ask = Ask { wanted: Wanted::Minor(amount.minor()), ..ask.clone() };
            match self.authority().find(key, &ask).await {
                Ok(Some(intent)) if intent.amount.currency().decimals() == kind.decimals() => {
                    return Ok(Ask { believed_currency: Some(intent.amount.currency()), ..ask });
                }
                Ok(Some(_) | None) => {}
                Err(AuthorityError::Asked(error @ ActionError::IdempotencyKeyReused { .. })) => {
                    differs = Some(error);
                }
                Err(error) => return Err(error.into()),
            }
        }
        if let Some(error) = differs {
            return Err(error);
        }
        let currency = self.charge(&ask.target).await?.amount.currency();
        let amount = Amount::parse_asked(major, currency).map_err(ActionError::InvalidAmount)?;
        let wanted = Wanted::Minor(amount.minor());
        // Should the next look at the charge find another currency, nothing is refunded.
        Ok(Ask { wanted, believed_currency: Some(currency), ..ask })
    }
}
