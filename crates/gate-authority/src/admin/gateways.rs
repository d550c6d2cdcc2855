//! Gateways and the public halves of their keys: made, rotated, revoked, listed. The secret halves
//! never come here.

use gate_core::bugs::{self, Bug};
use gate_core::{AgentName, GatewayId, Timestamp};
use gate_store::{GatewayKeyRow, GatewayRow, Reads, Write};

use super::{Admin, AdminError, ROTATION_GRACE, make_room};
use crate::change::Plan;

impl Admin<'_> {
    /// Makes a gateway with its first key.
    ///
    /// # Errors
    ///
    /// [`AdminError::Conflict`] when the name is, or was, a gateway's.
    pub async fn create_gateway(
        &self,
        name: &AgentName,
        public_key: [u8; 32],
    ) -> Result<GatewayRow, AdminError> {
        let name = name.clone();
        self.change(all(), move |by, world| {
            if world.seen.gateways.iter().any(|row| row.name == name) {
                return Err(AdminError::Conflict(format!(
                    "there is, or was, a gateway {name}: choose another name, or rotate its key"
                )));
            }
            let gateway = GatewayRow {
                id: GatewayId::make(world.now, world.ids),
                name: name.clone(),
                created_at: world.now,
                revoked_at: None,
                keys: vec![key_row(1, public_key, world.now)],
            };
            let details = serde_json::json!({ "name": name.as_str() });
            let writes = vec![
                Write::PutGateway(gateway.clone()),
                world.audited(by, "gateway.created", gateway.id.as_str(), &details),
            ];
            Ok(Plan { writes, reply: gateway })
        })
        .await
    }

    /// Gives a gateway another key. The one before is taken for 24 more hours, or not at all.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`]; [`AdminError::Conflict`] when the gateway is revoked.
    pub async fn rotate_gateway(
        &self,
        name: &str,
        public_key: [u8; 32],
        at_once: bool,
    ) -> Result<GatewayRow, AdminError> {
        let name = name.to_owned();
        self.change(all(), move |by, world| {
            let mut gateway = known(&world.seen.gateways, &name)?.clone();
            if gateway.revoked_at.is_some() {
                return Err(AdminError::Conflict(format!(
                    "gateway {name} is revoked for good: create another one"
                )));
            }
            let last = gateway.keys.iter().map(|key| key.version).max().unwrap_or(0);
            let ends = at_once && !bugs::on(Bug::RotatedAtOnceKept) || bugs::on(Bug::GraceNotGiven);
            let grace = if ends { world.now } else { world.now.after(ROTATION_GRACE) };
            gateway.keys.retain(|key| key.expires_at.is_none_or(|at| at > world.now));
            let expiries = gateway.keys.iter_mut().map(|key| &mut key.expires_at);
            make_room(expiries, world.now, grace);
            gateway.keys.push(key_row(last.saturating_add(1), public_key, world.now));
            let details = serde_json::json!({ "atOnce": at_once });
            let writes = vec![
                Write::PutGateway(gateway.clone()),
                world.audited(by, "gateway.rotated", gateway.id.as_str(), &details),
            ];
            Ok(Plan { writes, reply: gateway })
        })
        .await
    }

    /// Ends a gateway for good: its keys are refused from the next call on. What it has submitted is
    /// taken over by the others of its Stripe account once its leases end.
    ///
    /// # Errors
    ///
    /// [`AdminError::NotFound`].
    pub async fn revoke_gateway(&self, name: &str) -> Result<GatewayRow, AdminError> {
        let name = name.to_owned();
        self.change(all(), move |by, world| {
            let mut gateway = known(&world.seen.gateways, &name)?.clone();
            gateway.revoked_at.get_or_insert(world.now);
            let details = serde_json::json!({});
            let writes = vec![
                Write::PutGateway(gateway.clone()),
                world.audited(by, "gateway.revoked", gateway.id.as_str(), &details),
            ];
            Ok(Plan { writes, reply: gateway })
        })
        .await
    }

    /// All gateways, by name.
    ///
    /// # Errors
    ///
    /// [`AdminError::Authority`].
    pub async fn gateways(&self) -> Result<Vec<GatewayRow>, AdminError> {
        Ok(self.authority.read(all()).await?.gateways)
    }
}

fn all() -> Reads {
    Reads { gateways: true, ..Reads::default() }
}

fn known<'a>(gateways: &'a [GatewayRow], name: &str) -> Result<&'a GatewayRow, AdminError> {
    let same = |row: &&GatewayRow| row.name.as_str() == name || row.id.as_str() == name;
    gateways.iter().find(same).ok_or_else(|| {
        AdminError::NotFound(format!("there is no gateway {name}: `gateway list` shows them"))
    })
}

const fn key_row(version: u32, public_key: [u8; 32], now: Timestamp) -> GatewayKeyRow {
    GatewayKeyRow { version, public_key, created_at: now, expires_at: None, last_used_at: None }
}
