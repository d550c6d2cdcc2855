//! The tools that a policy grants to agents by name: who has them, and the record that they were
//! used. A tool that only reads asks for no decision, so this is all that an authority does for it.

use async_trait::async_trait;

use crate::ids::AgentKey;
use crate::ports::AuthorityError;

/// Who has which tools.
#[async_trait]
pub trait Grants: Send + Sync {
    /// The names of the tools that are granted to the agent of `key`, in the same order each time.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`]; then nothing counts as granted.
    async fn granted(&self, key: &AgentKey) -> Result<Vec<String>, AuthorityError>;

    /// Records that a tool has read something for the agent of `key`, before the agent is told
    /// what. Durable on return. False when the tool is not granted, or no longer: then nothing is
    /// recorded and the agent must not be told.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`]; it may have been recorded or not, and the agent must not be told.
    async fn use_tool(&self, key: &AgentKey, used: &ToolUse) -> Result<bool, AuthorityError>;
}

/// One use of a tool that reads, as the audit log keeps it: never what was read or searched for.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ToolUse {
    /// The tool's name.
    pub tool: String,
    /// The first UTC day that was asked for, `YYYY-MM-DD`.
    pub from: Option<String>,
    /// The last UTC day that was asked for, `YYYY-MM-DD`.
    pub to: Option<String>,
    /// How many rows were answered.
    pub rows: usize,
}
