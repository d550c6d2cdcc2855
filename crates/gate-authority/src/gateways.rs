//! Gateways that ask over the network: whether their key is taken, and that each of their calls is
//! taken once. Nothing here knows how a call is signed.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use gate_core::bugs::{self, Bug};
use gate_core::{Agent, AgentKey, AuthorityError, GatewayFault, GatewayId, ReasonCode, Timestamp};
use gate_store::{AgentBy, GatewayKeyRow, GatewayRow, Nonce, Reads, Snapshot, Write};

use crate::authority::{LocalAuthority, holder, stops};
use crate::change::{Plan, transact};
use crate::{keys, tools};

/// How long a call that was taken could be taken again: what it is good for, and a minute by which
/// the two clocks may be apart, to each side.
const NONCE_KEPT: Duration = Duration::from_secs(180);
/// Most nonces of reads that one process remembers; of more, the oldest are forgotten.
const READ_NONCES_MAX: usize = 100_000;
/// How often the last use of a key is written at most.
const USE_NOTED_EVERY: Duration = Duration::from_secs(60);

/// A key that signs a gateway's calls.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct GatewayKey {
    /// Which of the gateway's keys.
    pub version: u32,
    /// Its public half.
    pub public_key: [u8; 32],
}

/// Who signed a call, and which call: its signature is verified already.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Caller {
    /// The gateway.
    pub gateway: GatewayId,
    /// Which of its keys.
    pub version: u32,
    /// What makes it this call.
    pub nonce: Nonce,
}

/// An agent, as its gateway is told of it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Standing {
    /// Who it is.
    pub agent: Agent,
    /// The stop in force.
    pub stopped: Option<ReasonCode>,
    /// Connector tools that are granted to it.
    pub tools: Vec<String>,
}

impl LocalAuthority {
    /// The authority's time: the one clock by which it decides, and by which calls are too old.
    ///
    /// # Errors
    ///
    /// [`AuthorityError`] when the store cannot be used.
    pub async fn time(&self) -> Result<Timestamp, AuthorityError> {
        self.now().await
    }

    /// The gateway's key that `is_it` knows by its public half.
    ///
    /// # Errors
    ///
    /// [`AuthorityError::Gateway`] when there is none, or none that is taken now.
    pub async fn gateway_key(
        &self,
        gateway: &GatewayId,
        is_it: impl Fn(&[u8; 32]) -> bool + Send,
    ) -> Result<GatewayKey, AuthorityError> {
        let reads = Reads { gateway: Some(gateway.clone()), ..Reads::default() };
        let (seen, now) = (self.read(reads).await?, self.now().await?);
        let key = taken(seen.gateway.as_ref(), now, |key| is_it(&key.public_key));
        let key = key.map_err(AuthorityError::Gateway)?;
        Ok(GatewayKey { version: key.version, public_key: key.public_key })
    }

    /// Takes a signed call that changes nothing: it is refused here when it came before to this
    /// process. (Calls that change something use their nonce up in their own transaction.)
    ///
    /// # Errors
    ///
    /// [`AuthorityError::Gateway`].
    pub async fn take_read(&self, caller: &Caller) -> Result<(), AuthorityError> {
        let now = self.now().await?;
        if !self.read_nonces.use_up(&caller.nonce, now) {
            return Err(AuthorityError::Gateway(GatewayFault::NonceReused));
        }
        let reads = Reads { gateway: Some(caller.gateway.clone()), ..Reads::default() };
        let seen = self.read(reads.clone()).await?;
        if caller.use_noted(now, &seen).is_empty() {
            return Ok(());
        }
        let caller = caller.clone();
        let judge =
            move |now, seen: &Snapshot| Plan { writes: caller.use_noted(now, seen), reply: () };
        transact(self.store.as_ref(), reads, judge).await
    }

    /// Who holds this agent key, what stops it, and which tools it is granted.
    ///
    /// # Errors
    ///
    /// [`AuthorityError::Unauthenticated`] for unknown, revoked and expired keys alike.
    pub async fn standing(&self, key: &AgentKey) -> Result<Standing, AuthorityError> {
        let hash = keys::hash(key);
        let reads = Reads { agent: Some(AgentBy::Key(hash)), policy: true, ..Reads::default() };
        let (seen, now) = (self.read(reads).await?, self.now().await?);
        let agent = holder(now, &seen, &hash)?;
        let policy = self.policies.of(seen.policy.as_ref())?;
        Ok(Standing {
            agent: Agent {
                id: agent.id.clone(),
                name: agent.name.clone(),
                sources: agent.sources.clone(),
            },
            stopped: stops(&seen, &agent.id, &agent.name, &policy).code(),
            tools: tools::granted(&policy, &agent.name),
        })
    }
}

impl Caller {
    /// What has to be read besides, to admit the call.
    pub(crate) fn reads(&self, reads: Reads) -> Reads {
        let (gateway, nonce) = (Some(self.gateway.clone()), Some(self.nonce.clone()));
        Reads { gateway, nonce, ..reads }
    }

    /// What is written with a call that changes something: inside its transaction it is looked at
    /// once more whether the key is taken, and whether the call came before.
    pub(crate) fn admitted(
        &self,
        now: Timestamp,
        seen: &Snapshot,
    ) -> Result<Vec<Write>, GatewayFault> {
        let found = taken(seen.gateway.as_ref(), now, |key| key.version == self.version);
        if !bugs::on(Bug::GatewayKeyNotAskedAgain) {
            found?;
        }
        if seen.nonce_used && !bugs::on(Bug::NonceNotChecked) {
            return Err(GatewayFault::NonceReused);
        }
        let keep_since = now.before(NONCE_KEPT);
        let mut writes = self.use_noted(now, seen);
        if !bugs::on(Bug::NonceNotKept) {
            writes.push(Write::UseNonce { nonce: self.nonce.clone(), at: now, keep_since });
        }
        Ok(writes)
    }

    /// The note that the key was used, when the last one is old enough.
    fn use_noted(&self, now: Timestamp, seen: &Snapshot) -> Vec<Write> {
        let keys = seen.gateway.iter().flat_map(|gateway| &gateway.keys);
        let fresh = |at: Timestamp| now.since(at) < USE_NOTED_EVERY;
        let old = keys
            .filter(|key| key.version == self.version)
            .any(|key| !key.last_used_at.is_some_and(fresh));
        let note =
            Write::GatewayUsed { gateway: self.gateway.clone(), version: self.version, at: now };
        old.then_some(note).into_iter().collect()
    }
}

/// The key of a gateway that `is_it`, if it is taken at `now`.
fn taken(
    gateway: Option<&GatewayRow>,
    now: Timestamp,
    is_it: impl Fn(&GatewayKeyRow) -> bool,
) -> Result<&GatewayKeyRow, GatewayFault> {
    let gateway = gateway.ok_or(GatewayFault::Unknown)?;
    let key = gateway.keys.iter().find(|key| is_it(key)).ok_or(GatewayFault::Unknown)?;
    let over = key.expires_at.is_some_and(|at| at <= now) && !bugs::on(Bug::ExpiredGatewayKeyTaken);
    let revoked = gateway.revoked_at.is_some() && !bugs::on(Bug::RevokedGatewayTaken);
    if revoked || over { Err(GatewayFault::Revoked) } else { Ok(key) }
}

/// The nonces of reads that this process has taken lately.
#[derive(Default)]
pub(crate) struct ReadNonces(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    all: BTreeSet<Nonce>,
    by_age: VecDeque<(Timestamp, Nonce)>,
}

impl ReadNonces {
    /// Whether the nonce is new; it is not any more then.
    fn use_up(&self, nonce: &Nonce, now: Timestamp) -> bool {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((at, oldest)) = kept.by_age.front().cloned() {
            if now.since(at) <= NONCE_KEPT && kept.by_age.len() < READ_NONCES_MAX {
                break;
            }
            kept.by_age.pop_front();
            kept.all.remove(&oldest);
        }
        if !kept.all.insert(nonce.clone()) && !bugs::on(Bug::ReadNonceNotChecked) {
            return false;
        }
        kept.by_age.push_back((now, nonce.clone()));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_nonces_are_used_once_and_the_memory_of_them_is_bounded() {
        let nonce = |n: usize| Nonce { keyid: "k".to_owned(), nonce: n.to_string() };
        let at = |secs: i64| Timestamp::from_millis(secs * 1000);
        let nonces = ReadNonces::default();
        let table = [
            // nonce, at second, new
            (1, 0, true),
            (1, 1, false),
            (2, 100, true),
            (1, 180, false),
            (1, 181, true),
            (2, 280, false),
            (2, 281, true),
        ];
        for (n, secs, new) in table {
            assert_eq!(nonces.use_up(&nonce(n), at(secs)), new, "{n} at {secs}");
        }
        for n in 0..READ_NONCES_MAX + 10 {
            nonces.use_up(&nonce(n + 10), at(300));
        }
        assert_eq!(nonces.0.lock().unwrap().all.len(), READ_NONCES_MAX);
        assert_eq!(nonces.0.lock().unwrap().by_age.len(), READ_NONCES_MAX);
    }
}
