//! The policy authority: decisions, approvals, agents, rates and audit.
