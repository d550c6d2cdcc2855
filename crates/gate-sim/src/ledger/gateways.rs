//! Gateways and their keys: which is taken when, and that each signed call changes something once.

use gate_core::{GatewayId, Timestamp};
use gate_store::{GatewayRow, Nonce, Write};

use super::{Booked, DAY, Ledger};
use crate::coverage::Turn;
use crate::executor::Node;

impl Ledger {
    /// Never more than two keys are taken; those before the newest end as they should.
    pub(super) fn gateway(
        &mut self,
        now: Timestamp,
        row: &GatewayRow,
        writes: &[Write],
        booked: &mut Booked,
    ) {
        let (id, name) = (&row.id, &row.name);
        let turn = writes.iter().find_map(|write| match write {
            Write::Audit(entry) if entry.subject == id.as_str() => match entry.action.as_str() {
                "gateway.rotated" if entry.details.contains("\"atOnce\":true") => {
                    Some(Turn::RotatedAtOnce)
                }
                "gateway.rotated" => Some(Turn::Rotated),
                "gateway.revoked" => Some(Turn::Revoked),
                _ => None,
            },
            _ => None,
        });
        let open = |row: &GatewayRow| {
            row.keys.iter().filter(|key| key.expires_at.is_none_or(|at| at > now)).count()
        };
        booked.law("F27", open(row) <= 2, || format!("{name} has {} keys", open(row)));
        let newest = row.keys.last();
        let forever = row.keys.iter().filter(|key| key.expires_at.is_none()).count();
        let last = newest.is_some_and(|key| key.expires_at.is_none());
        booked
            .law("F27", forever == 1 && last, || format!("{name}: not its newest key alone stays"));
        let before = self.gateways.get(id).and_then(|row| row.keys.last());
        let ends = before.and_then(|before| {
            row.keys.iter().find(|key| key.version == before.version).map(|key| key.expires_at)
        });
        let expected = match turn {
            Some(Turn::Rotated) => Some(now.after(DAY)),
            Some(Turn::RotatedAtOnce) => Some(now),
            Some(Turn::Revoked) | None => ends.flatten(),
        };
        booked.law("F27", before.is_none() || ends.flatten() == expected, || {
            format!("{name}: after {turn:?} the key before ends at {ends:?}")
        });
        if let Some(turn) = turn {
            let before = self.gateway_changes.get(id).map_or(0, |(n, _)| *n);
            self.gateway_changes.insert(id.clone(), (before + 1, turn));
        }
        self.gateways.insert(id.clone(), row.clone());
    }

    /// Whether a key is taken at `now`.
    pub(crate) fn takes(
        &self,
        gateway: &GatewayId,
        is_it: impl Fn(&[u8; 32]) -> bool,
        now: Timestamp,
    ) -> bool {
        self.gateways.get(gateway).is_some_and(|row| {
            let good = |key: &gate_store::GatewayKeyRow| {
                is_it(&key.public_key) && key.expires_at.is_none_or(|at| now < at)
            };
            row.revoked_at.is_none() && row.keys.iter().any(good)
        })
    }

    /// What a gateway's call changes is written under a key that is taken in that very transaction.
    pub(super) fn signed(&self, now: Timestamp, nonce: &Nonce, booked: &mut Booked) {
        let Some(keyid) = gate_burnbound::KeyId::parse(&nonce.keyid) else {
            booked.breach("F27", format!("something was changed under {}", nonce.keyid));
            return;
        };
        let takes = self.takes(keyid.gateway(), |key| keyid.is_of(key), now);
        booked.law("F27", takes, || {
            format!("something was changed for {}, whose key is not taken", keyid.gateway())
        });
    }

    /// Whose call a transaction is, where it is a gateway's that asks elsewhere.
    pub(crate) fn caller(&self, writes: &[Write]) -> Option<(Node, String)> {
        writes.iter().find_map(|write| match write {
            Write::UseNonce { nonce, .. } => {
                let keyid = gate_burnbound::KeyId::parse(&nonce.keyid)?;
                let node = self.gateway_nodes.get(keyid.gateway())?;
                Some((*node, nonce.nonce.clone()))
            }
            _ => None,
        })
    }
}
