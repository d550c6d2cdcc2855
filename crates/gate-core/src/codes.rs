//! The stable codes of decisions and failures. Codes are forever: a retired one keeps its name.

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal, $meaning:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum $name { $($(#[$vdoc])* #[doc = $meaning] $variant,)* }

        impl $name {
            /// Every code, in the order of the manual.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The code as it stands on the wire, in the store and in the manual.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }

            /// One sentence for the manual.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning),* }
            }

            /// The code of that name, if there is one.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.as_str() == text)
            }
        }
    };
}

codes! {
    /// Why a decision is not a plain allow. Listed hardest first, which is how reasons are sorted.
    ReasonCode {
        OrganizationStopped = "organization_stopped",
            "Everything is stopped for the whole organization.";
        TeamStopped = "team_stopped", "The agent's team is stopped.";
        AgentStopped = "agent_stopped", "The agent is stopped.";
        MethodNotAllowed = "method_not_allowed",
            "The policy does not turn this method on for the agent.";
        HostNotAllowed = "host_not_allowed",
            "The policy does not list this action's host for the agent.";
        ChargeDisputed = "charge_disputed",
            "The charge was disputed before the approved refund was made.";
        ChargeAlreadyRefunded = "charge_already_refunded",
            "Nothing of the charge was left when the approved refund was to be made.";
        AmountOverRefundable = "amount_over_refundable",
            "Less than the approved amount was left on the charge when the refund was to be made.";
        Rule = "rule", "A rule of the policy blocks the refund, or asks a person; the reason names it.";
        CurrencyNotSupported = "currency_not_supported",
            "There is no exchange rate for the charge's currency, so no cap can count it.";
        RatesStale = "rates_stale", "The exchange rates are too old to count this currency.";
        MaxPerPayment = "max_per_payment",
            "One refund is worth more than the policy allows for one.";
        DailyCap = "daily_cap", "The refund would take the agent past its cap for the day.";
        WeeklyCap = "weekly_cap", "The refund would take the agent past its cap for the week.";
        MonthlyCap = "monthly_cap", "The refund would take the agent past its cap for the month.";
        CustomerCap = "customer_cap",
            "The refund would take the agent past its cap for this customer's day.";
        RateCount = "rate_count", "The agent made as many refunds as it may within an hour.";
        TeamBudget = "team_budget", "The refund would take the team past its budget.";
        ApprovalDenied = "approval_denied", "A person denied this refund.";
        ApprovalExpired = "approval_expired",
            "Nobody decided in time, or an approval was not used in time.";
        ApprovalCanceled = "approval_canceled", "The request was withdrawn.";
        ApprovalStale = "approval_stale", "What was approved no longer meets the policy.";
        ApprovalThreshold = "approval_threshold",
            "The refund is worth as much as a person must look at.";
        CustomerUnknown = "customer_unknown",
            "The charge has no customer, and the policy counts refunds by customer.";
        ConnectorWrite = "connector_write", "A person decides every refund asked for by this tool.";
        StripeApproval = "stripe_approval", "Stripe holds the refund for an approval of its own.";
    }
}

codes! {
    /// Why a submitted refund ended without one.
    FailureCode {
        ApprovalCanceled = "approval_canceled",
            "Stripe held the refund for an approval of its own, and it was withdrawn there.";
        ApprovalExpired = "approval_expired",
            "Stripe held the refund for an approval of its own, and nobody gave it in time.";
        ApprovalFailed = "approval_failed",
            "Stripe held the refund, a person approved it there, and Stripe could not make it.";
        ApprovalRejected = "approval_rejected",
            "Stripe held the refund for an approval of its own, and a person said no there.";
        AmountOverRefundable = "amount_over_refundable",
            "Stripe refused: less than the amount was left on the charge.";
        ChargeAlreadyRefunded = "charge_already_refunded",
            "Stripe refused: nothing of the charge was left.";
        ChargeDisputed = "charge_disputed", "Stripe refused: the charge is disputed.";
        ChargeNotCaptured = "charge_not_captured", "Stripe refused: the charge was never captured.";
        ChargeNotRefundable = "charge_not_refundable",
            "Stripe refused: the charge can no longer be refunded.";
        NotFoundAtStripe = "not_found_at_stripe", "No refund was ever found at Stripe.";
        RefundCanceled = "refund_canceled", "Stripe made the refund and it was canceled.";
        RefundFailed = "refund_failed", "Stripe refused the refund, or made it and it failed.";
    }
}

codes! {
    /// Why a remote authority does not take a gateway's call. Nothing was done for it, and the agent
    /// never learns which.
    GatewayFault {
        Unknown = "gateway_unknown", "The authority has no such gateway, or not with this key.";
        Revoked = "gateway_revoked",
            "The gateway, or the key that signed, is revoked, or was rotated out.";
        SignatureInvalid = "signature_invalid",
            "The signature is missing, of another form, or not of this request.";
        SignatureExpired = "signature_expired",
            "The request is from another time: one of the two clocks is wrong.";
        NonceReused = "nonce_reused", "The same signed request came before.";
        ProtocolVersion = "protocol_version", "The authority speaks another version.";
    }
}

impl ReasonCode {
    /// Whether a reason of this code can ask a person, rather than deny. (A rule's does either.)
    #[must_use]
    pub const fn asks(self) -> bool {
        match self {
            Self::ApprovalThreshold
            | Self::ConnectorWrite
            | Self::CustomerUnknown
            | Self::Rule
            | Self::StripeApproval => true,
            Self::OrganizationStopped
            | Self::TeamStopped
            | Self::AgentStopped
            | Self::MethodNotAllowed
            | Self::HostNotAllowed
            | Self::ChargeDisputed
            | Self::ChargeAlreadyRefunded
            | Self::AmountOverRefundable
            | Self::CurrencyNotSupported
            | Self::RatesStale
            | Self::MaxPerPayment
            | Self::RateCount
            | Self::DailyCap
            | Self::WeeklyCap
            | Self::MonthlyCap
            | Self::CustomerCap
            | Self::TeamBudget
            | Self::ApprovalDenied
            | Self::ApprovalExpired
            | Self::ApprovalCanceled
            | Self::ApprovalStale => false,
        }
    }

    /// Whether a reason of this code can deny.
    #[must_use]
    pub fn denies(self) -> bool {
        !self.asks() || self == Self::Rule
    }
}
