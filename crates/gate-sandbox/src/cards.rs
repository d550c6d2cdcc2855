//! Stripe's test cards, by token (`tok_visa`) or payment method (`pm_card_visa`).

/// A test card.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Card {
    pub(crate) brand: &'static str,
    pub(crate) last4: &'static str,
    pub(crate) behaviour: Behaviour,
}

/// What a card does when it is charged, or when its charge is refunded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Behaviour {
    Declined(Decline),
    /// A dispute with this status and reason is opened at once.
    Disputed {
        status: &'static str,
        reason: &'static str,
    },
    /// A refund succeeds and fails an hour later.
    RefundFails,
    /// A refund is pending and succeeds an hour later.
    RefundPends,
    Succeeds,
}

/// Why an issuer declined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decline {
    pub(crate) code: &'static str,
    pub(crate) decline_code: &'static str,
    pub(crate) message: &'static str,
}

/// The card of charges that do not say which.
pub(crate) const VISA: Card = ordinary("visa", "4242");

impl Card {
    /// The card behind a token or a test payment method.
    pub(crate) fn by_token(token: &str) -> Option<Self> {
        let name = token.strip_prefix("tok_").or_else(|| token.strip_prefix("pm_card_"))?;
        // The declining cards go by both names: `chargeDeclined` and `visa_chargeDeclined`.
        let name = name
            .strip_prefix("visa_charge")
            .map_or(name.to_owned(), |rest| format!("charge{rest}"));
        Some(match name.as_str() {
            "visa" | "visa_debit" | "us" | "bypassPending" => VISA,
            "mastercard" | "mastercard_debit" | "mastercard_prepaid" => {
                ordinary("mastercard", "4444")
            }
            "amex" => ordinary("amex", "8431"),
            "discover" => ordinary("discover", "9424"),
            "diners" => ordinary("diners", "0004"),
            "jcb" => ordinary("jcb", "0505"),
            "unionpay" => ordinary("unionpay", "0005"),
            "pendingRefund" => special("7726", Behaviour::RefundPends),
            "refundFail" => special("5126", Behaviour::RefundFails),
            "createDispute" => disputed("0259", "needs_response", "fraudulent"),
            "createDisputeProductNotReceived" => {
                disputed("2685", "needs_response", "product_not_received")
            }
            "createDisputeInquiry" => disputed("1976", "warning_needs_response", "general"),
            "chargeDeclined" => declined("0002", "card_declined", "generic_decline", DECLINED),
            "chargeDeclinedInsufficientFunds" => {
                let message = "Your card has insufficient funds.";
                declined("9995", "card_declined", "insufficient_funds", message)
            }
            "chargeDeclinedLostCard" => declined("9987", "card_declined", "lost_card", DECLINED),
            "chargeDeclinedStolenCard" => {
                declined("9979", "card_declined", "stolen_card", DECLINED)
            }
            "chargeDeclinedExpiredCard" => {
                declined("0069", "expired_card", "expired_card", "Your card has expired.")
            }
            "chargeDeclinedIncorrectCvc" => {
                let message = "Your card's security code is incorrect.";
                declined("0127", "incorrect_cvc", "incorrect_cvc", message)
            }
            "chargeDeclinedProcessingError" => {
                let message = "An error occurred while processing your card.";
                declined("0119", "processing_error", "processing_error", message)
            }
            _ => return None,
        })
    }
}

const DECLINED: &str = "Your card was declined.";

const fn ordinary(brand: &'static str, last4: &'static str) -> Card {
    Card { brand, last4, behaviour: Behaviour::Succeeds }
}

const fn special(last4: &'static str, behaviour: Behaviour) -> Card {
    Card { brand: "visa", last4, behaviour }
}

const fn disputed(last4: &'static str, status: &'static str, reason: &'static str) -> Card {
    special(last4, Behaviour::Disputed { status, reason })
}

const fn declined(
    last4: &'static str,
    code: &'static str,
    decline_code: &'static str,
    message: &'static str,
) -> Card {
    special(last4, Behaviour::Declined(Decline { code, decline_code, message }))
}
