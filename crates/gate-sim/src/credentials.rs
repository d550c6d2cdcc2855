//! The gateways' credentials: what the operator has made, and what stands in each gateway's file.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gate_authority::{Actor, Admin, AdminError, LocalAuthority};
use gate_burnbound::{AuthorityKey, GatewaySecret, SecretSource};
use gate_core::{AgentName, GatewayId};

use crate::draw::mixed;
use crate::executor::{Handle, Node};
use crate::world::World;

/// What the authority's answers are signed with.
pub(crate) fn authority_key() -> AuthorityKey {
    AuthorityKey::from_seed(&[9; 32]).expect("a key")
}

/// One gateway's credential.
#[derive(Clone)]
pub(crate) struct Credential {
    pub(crate) name: AgentName,
    pub(crate) id: GatewayId,
    /// Every secret that was made for it, oldest first.
    pub(crate) made: Vec<Arc<GatewaySecret>>,
    /// Which of them stands in its file.
    pub(crate) file: usize,
}

/// How long a gateway surely tries the secret before its newest, in milliseconds.
const PREVIOUS_MS: u64 = 23 * 3_600_000;

/// See the module.
pub(crate) struct Credentials {
    seed: u64,
    handle: Handle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    of: [Option<Credential>; 2],
    made: u64,
    /// What each gateway's process has found in its file, and since when, newest last.
    found: [Vec<([u8; 32], u64)>; 2],
}

impl Credentials {
    pub(crate) fn new(seed: u64, handle: Handle) -> Self {
        Self { seed, handle, state: Mutex::default() }
    }

    /// A gateway's process starts: it has found nothing yet.
    pub(crate) fn started(&self, which: usize) {
        self.state().found[which].clear();
    }

    /// The public halves of the secrets that a gateway would try now, the first first.
    pub(crate) fn tried(&self, which: usize) -> Vec<[u8; 32]> {
        let state = self.state();
        let held = state.of[which].as_ref().and_then(|held| held.made.get(held.file));
        let Some(file) = held.map(|secret| secret.public_key()) else { return Vec::new() };
        let now_ms = self.handle.now_ms();
        let mut found = state.found[which].iter().rev();
        let before = match found.next() {
            Some((last, since_ms)) if *last == file => {
                found.next().filter(|_| now_ms < since_ms + PREVIOUS_MS)
            }
            // Once it looks into its file, this becomes the one before.
            last => last,
        };
        [file].into_iter().chain(before.map(|(key, _)| *key)).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The credential of a gateway, as the operator and its file have it.
    pub(crate) fn of(&self, which: usize) -> Option<Credential> {
        self.state().of[which].clone()
    }

    fn secret(&self) -> (u64, Arc<GatewaySecret>) {
        let mut state = self.state();
        state.made += 1;
        let made = state.made;
        let mut bytes = [0; 32];
        for (n, chunk) in bytes.chunks_mut(8).enumerate() {
            chunk.copy_from_slice(&mixed(self.seed, 41, made, n as u64).to_le_bytes());
        }
        let authority = authority_key().public_key();
        (made, Arc::new(GatewaySecret::make(&bytes, &authority).expect("a secret")))
    }

    /// Writes a gateway's file; an older secret does not take the place of a newer one.
    fn write(&self, which: usize, id: &GatewayId, place: usize) -> bool {
        if let Some(held) = &mut self.state().of[which]
            && held.id == *id
            && place > held.file
        {
            held.file = place;
            return true;
        }
        false
    }
}

/// The file of one gateway.
pub(crate) struct File {
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) which: usize,
}

impl SecretSource for File {
    fn secret(&self) -> Option<Arc<GatewaySecret>> {
        let mut state = self.credentials.state();
        let held = state.of[self.which].as_ref()?;
        let secret = Arc::clone(held.made.get(held.file)?);
        let found = &mut state.found[self.which];
        if found.last().is_none_or(|(last, _)| *last != secret.public_key()) {
            found.push((secret.public_key(), self.credentials.handle.now_ms()));
        }
        drop(state);
        Some(secret)
    }
}

/// Sets a gateway up anew, and starts it with that: another id, another secret.
async fn renews(world: &Arc<World>, at: &LocalAuthority, which: usize) -> Result<(), AdminError> {
    makes(world, at, which).await?;
    world.restarts.lock().unwrap_or_else(PoisonError::into_inner).push(Node::GATEWAYS[which]);
    Ok(())
}

/// Sets a gateway up: an id, a secret.
pub(crate) async fn makes(
    world: &Arc<World>,
    at: &LocalAuthority,
    which: usize,
) -> Result<(), AdminError> {
    let (n, secret) = world.credentials.secret();
    let name = AgentName::parse(&format!("gateway-{n}")).expect("a name");
    world.witness.seen().canaries.push(secret.expose().to_owned());
    let admin = Admin::new(at, Actor::cli("sim", None));
    let row = admin.create_gateway(&name, secret.public_key()).await?;
    world.witness.seen().ledger.gateway_nodes.insert(row.id.clone(), Node::GATEWAYS[which]);
    let credential = Credential { name, id: row.id, made: vec![secret], file: 0 };
    world.credentials.state().of[which] = Some(credential);
    Ok(())
}

/// Gives a gateway another key, and writes its file after that or before.
pub(crate) async fn rotates(
    world: &Arc<World>,
    at: &LocalAuthority,
    which: usize,
    at_once: bool,
    file_first: bool,
    apart_ms: u64,
) -> Result<(), AdminError> {
    let (_, secret) = world.credentials.secret();
    world.witness.seen().canaries.push(secret.expose().to_owned());
    let (id, name, place) = {
        let mut state = world.credentials.state();
        let Some(held) = &mut state.of[which] else { return Ok(()) };
        held.made.push(Arc::clone(&secret));
        (held.id.clone(), held.name.clone(), held.made.len() - 1)
    };
    if file_first {
        writes(world, which, &id, place);
        world.handle.sleep(apart_ms).await;
    }
    if world.handle.now_ms() > world.plan.ends_ms {
        return Ok(());
    }
    let admin = Admin::new(at, Actor::cli("sim", None));
    admin.rotate_gateway(name.as_str(), secret.public_key(), at_once).await?;
    let world = Arc::clone(world);
    let handle = world.handle.clone();
    handle.spawn(Node::DESK, async move {
        world.handle.sleep(apart_ms).await;
        writes(&world, which, &id, place);
    });
    Ok(())
}

fn writes(world: &World, which: usize, id: &GatewayId, place: usize) {
    let written = world.credentials.write(which, id, place);
    world.witness.line(|| format!("file of gateway {which}: secret {place}, new: {written}"));
}

/// Ends a gateway, and sets it up anew after a while.
pub(crate) async fn revokes(
    world: &Arc<World>,
    at: &LocalAuthority,
    which: usize,
    back_ms: u64,
) -> Result<(), AdminError> {
    let Some(held) = world.credentials.of(which) else { return Ok(()) };
    let later = Arc::clone(world);
    let (id, handle) = (held.id.clone(), world.handle.clone());
    handle.spawn(Node::DESK, async move {
        later.handle.sleep(back_ms).await;
        let same = later.credentials.of(which).is_some_and(|now| now.id == id);
        if same && later.handle.now_ms() < later.plan.ends_ms {
            // What fails now is made good in the end.
            let _ = renews(&later, &later.desk, which).await;
        }
    });
    let admin = Admin::new(at, Actor::cli("sim", None));
    admin.revoke_gateway(held.name.as_str()).await.map(|_| ())
}

/// Gives every gateway a credential that is taken, for good.
pub(crate) async fn repairs(world: Arc<World>) {
    for which in 0..2 {
        let Some(held) = world.credentials.of(which) else { continue };
        let row = world.witness.seen().ledger.gateways.get(&held.id).cloned();
        let row = row.filter(|row| row.revoked_at.is_none());
        let newest = row.as_ref().and_then(|row| row.keys.last()).map(|key| key.public_key);
        let place = held.made.iter().position(|made| Some(made.public_key()) == newest);
        match place {
            Some(place) => {
                if let Some(held) = &mut world.credentials.state().of[which] {
                    held.file = place;
                }
            }
            None => renews(&world, &world.desk, which).await.expect("a gateway"),
        }
    }
}
