//! The port to what agents are to be told of their requests, for whoever carries it to them.

use std::time::Duration;

use async_trait::async_trait;

use crate::ids::AgentName;
use crate::intent::Intent;
use crate::ports::AuthorityError;
use crate::time::Timestamp;

/// One event, taken to be sent.
#[derive(Clone, Debug)]
pub struct Notice {
    /// Whom it is for.
    pub agent: AgentName,
    /// Where it goes.
    pub url: String,
    /// The event's number, which rises: its entry in the audit log.
    pub n: u64,
    /// What happened: `approval.requested`, `refund.settled`, …
    pub event: &'static str,
    /// When it happened.
    pub at: Timestamp,
    /// When it was taken, by the clock of the outbox.
    pub taken_at: Timestamp,
    /// Until when nobody else takes it, by the same clock.
    pub taken_until: Timestamp,
    /// How many attempts failed since one last succeeded.
    pub attempts: u32,
    /// What it is about, as it stands now.
    pub intent: Intent,
    /// Generations of the agent's secret that are valid, the newest first: it is signed with each.
    pub generations: Vec<u32>,
}

/// What became of an attempt to send a notice.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fate {
    /// The receiver took it.
    Delivered,
    /// It was not taken, and is tried again after this pause.
    Failed(Duration),
    /// It was not taken, for so long that the next one's turn comes, after this pause.
    GivenUp(Duration),
    /// The receiver is gone for good: nothing more is sent to it.
    Gone,
}

/// Who has something to be sent.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Waiting {
    /// Agents for which something may be taken now.
    pub due: Vec<AgentName>,
    /// How long until another one is due; absent when none will be by itself.
    pub next_in: Option<Duration>,
}

/// What waits to be sent, in order for each agent. At least once, and by one at a time.
#[async_trait]
pub trait Outbox: Send + Sync {
    /// Who has something to be sent.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`] when it cannot be read.
    async fn waiting(&self) -> Result<Waiting, AuthorityError>;

    /// Takes an agent's oldest event that was not dealt with, for `lease`; nobody else is handed it,
    /// or a later one of this agent's, until then or until its fate is recorded. None, while
    /// somebody has it, or a pause lasts.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`]; it may be taken all the same, until the lease ends.
    async fn take(
        &self,
        agent: &AgentName,
        lease: Duration,
    ) -> Result<Option<Notice>, AuthorityError>;

    /// Records what became of a notice, with a few words on what was seen. Nothing happens when it is
    /// no longer taken as it was: the lease ended and somebody else took it, or a person intervened.
    ///
    /// With a `lease`, the next event is taken with it after one that was delivered, as [`Outbox::take`]
    /// would; none does not mean that there is none.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`]; it is sent again when the lease has ended.
    async fn record(
        &self,
        notice: &Notice,
        fate: Fate,
        result: &str,
        lease: Option<Duration>,
    ) -> Result<Option<Notice>, AuthorityError>;
}
