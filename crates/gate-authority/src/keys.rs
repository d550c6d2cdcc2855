//! Agent keys, and randomness drawn before a transaction, so that judging it twice gives the same.

use std::sync::atomic::{AtomicU32, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gate_core::{AgentId, AgentKey, IdempotencyKey, Ids};
use gate_store::KeyHash;
use ring::digest::{Context, SHA256, digest};

/// Characters of a key that are kept to recognise it by: the prefix and four more.
const HINT_CHARS: usize = AgentKey::PREFIX.len() + 4;

/// Makes a key of 256 random bits.
pub(crate) fn new_key(ids: &dyn Ids) -> AgentKey {
    let mut secret = [0_u8; 32];
    ids.fill(&mut secret);
    AgentKey::new(format!("{}{}", AgentKey::PREFIX, URL_SAFE_NO_PAD.encode(secret)))
}

/// What is stored of a key. A 256-bit random secret needs no slow hash: there is nothing to guess.
pub(crate) fn hash(key: &AgentKey) -> KeyHash {
    KeyHash(sha256(key.expose().as_bytes()))
}

pub(crate) fn hint(key: &AgentKey) -> String {
    key.expose().chars().take(HINT_CHARS).collect()
}

/// What stands for an agent's idempotency key in a refund's metadata: hex SHA-256 of the agent's
/// id, a zero byte and the key.
pub(crate) fn key_fingerprint(agent: &AgentId, key: &IdempotencyKey) -> String {
    let mut context = Context::new(&SHA256);
    context.update(agent.as_str().as_bytes());
    context.update(&[0]);
    context.update(key.as_str().as_bytes());
    hex(context.finish().as_ref())
}

/// SHA-256 of `data` in hex.
pub(crate) fn sha256_hex(data: &[u8]) -> String {
    hex(&sha256(data))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(data: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    for (to, from) in out.iter_mut().zip(digest(&SHA256, data).as_ref()) {
        *to = *from;
    }
    out
}

/// A seed drawn from the real source, and the stream that follows from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seed([u8; 32]);

impl Seed {
    pub(crate) fn draw(ids: &dyn Ids) -> Self {
        let mut seed = [0; 32];
        ids.fill(&mut seed);
        Self(seed)
    }

    /// The stream from its start.
    pub(crate) const fn stream(self) -> Stream {
        Stream { seed: self.0, next: AtomicU32::new(0) }
    }
}

pub(crate) struct Stream {
    seed: [u8; 32],
    next: AtomicU32,
}

impl Ids for Stream {
    fn fill(&self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(32) {
            let block = self.next.fetch_add(1, Ordering::Relaxed);
            let mut context = Context::new(&SHA256);
            context.update(&self.seed);
            context.update(&block.to_be_bytes());
            for (to, from) in chunk.iter_mut().zip(context.finish().as_ref()) {
                *to = *from;
            }
        }
    }
}
