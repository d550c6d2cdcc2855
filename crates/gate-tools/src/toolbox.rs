//! What a door needs of the tools behind it, whether they are in this process or in a gateway
//! somewhere else.

use async_trait::async_trait;
use gate_core::AgentKey;
use serde_json::Value;

/// There is no tool of this name, for anybody.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct NoSuchTool;

/// Is told how much of a long call is done: a number that rises with each step.
pub type Progress<'a> = dyn Fn(u32) + Send + Sync + 'a;

/// What a call came to.
#[derive(Clone, Debug)]
pub enum Called {
    /// The tool's answer, an object as its output schema says.
    Answer(Value),
    /// Why there is none: a problem document.
    Problem(Value),
}

/// The tools that an agent has.
#[async_trait]
pub trait Toolbox: Send + Sync {
    /// The tools of `key`'s agent, each as `tools/list` has it; the same bytes each time.
    ///
    /// # Errors
    ///
    /// A problem document, when they cannot be had.
    async fn list(&self, key: &AgentKey) -> Result<Vec<Value>, Value>;

    /// Calls a tool with arguments as they came: an object as JSON. Money work that it starts
    /// goes on when this is dropped. Whoever wants to hear how far it is gives `progress`.
    ///
    /// # Errors
    ///
    /// [`NoSuchTool`].
    async fn call(
        &self,
        key: &AgentKey,
        tool: &str,
        arguments: &[u8],
        progress: Option<&Progress<'_>>,
    ) -> Result<Called, NoSuchTool>;
}
