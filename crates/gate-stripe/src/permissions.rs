//! What a restricted key must be allowed: the one table behind the names in errors, the online
//! check and the manual's page on setting Stripe up.

/// A resource as Stripe's dashboard lists it on the page of a restricted key.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Resource {
    /// The account's balance.
    Balance,
    /// Payment intents.
    PaymentIntents,
    /// Charges. Some dashboards show them and refunds as one line, which then has to be `Write`.
    Charges,
    /// Refunds.
    Refunds,
    /// Customers.
    Customers,
    /// Disputes.
    Disputes,
    /// Stripe's own approvals; only of use to an agent-tagged key, and not in the table.
    Approvals,
}

/// How much of a resource is needed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// Nothing.
    None,
    /// Reading, without which the rest still works.
    ReadOptional,
    /// Reading.
    Read,
    /// Writing, which includes reading.
    Write,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Permission {
    /// What it is about.
    pub resource: Resource,
    /// What a gateway needs that only reads.
    pub read_tools: Access,
    /// What a gateway needs that makes refunds.
    pub refunds: Access,
    /// What it is needed for, and so what its lack switches off.
    pub needed_for: &'static str,
}

/// Every permission of use to a gateway; everything else stays None.
pub static PERMISSIONS: &[Permission] = &[
    Permission {
        resource: Resource::Balance,
        read_tools: Access::Read,
        refunds: Access::Read,
        needed_for: "the connection test and finance_balance",
    },
    Permission {
        resource: Resource::PaymentIntents,
        read_tools: Access::Read,
        refunds: Access::Read,
        needed_for: "refunds asked by pi_… id, and finance_payments",
    },
    Permission {
        resource: Resource::Charges,
        read_tools: Access::None,
        refunds: Access::Read,
        needed_for: "every refund: the real charge tells what is refundable, its risk, disputes and age",
    },
    Permission {
        resource: Resource::Refunds,
        read_tools: Access::None,
        refunds: Access::Write,
        needed_for: "making, listing and recovering refunds",
    },
    Permission {
        resource: Resource::Customers,
        read_tools: Access::Read,
        refunds: Access::ReadOptional,
        needed_for: "customers_search, and a customer's age in rules",
    },
    Permission {
        resource: Resource::Disputes,
        read_tools: Access::Read,
        refunds: Access::ReadOptional,
        needed_for: "finance_disputes, dispute facts in rules, and refunds of charges under an inquiry",
    },
];

impl Resource {
    /// The resource's name in the dashboard.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Balance => "Balance",
            Self::PaymentIntents => "PaymentIntents",
            Self::Charges => "Charges",
            Self::Refunds => "Refunds",
            Self::Customers => "Customers",
            Self::Disputes => "Disputes",
            Self::Approvals => "Approval requests",
        }
    }

    /// The permission to read it, in the dashboard's words.
    #[must_use]
    pub fn read(self) -> String {
        format!("{}: {}", self.name(), Access::Read.name())
    }

    /// The permission to write it, in the dashboard's words.
    #[must_use]
    pub fn write(self) -> String {
        format!("{}: {}", self.name(), Access::Write.name())
    }

    /// A path that answers 403 without the permission to read it.
    pub(crate) const fn probe(self) -> &'static str {
        match self {
            Self::Balance => "/v1/balance",
            Self::PaymentIntents => "/v1/payment_intents",
            Self::Charges => "/v1/charges",
            Self::Refunds => "/v1/refunds",
            Self::Customers => "/v1/customers",
            Self::Disputes => "/v1/disputes",
            Self::Approvals => "/v2/core/approval_requests",
        }
    }
}

impl Access {
    /// What to choose in the dashboard.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::ReadOptional | Self::Read => "Read",
            Self::Write => "Write",
        }
    }
}
