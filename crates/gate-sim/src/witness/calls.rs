//! What the calls of gateways to an authority elsewhere come to, and what their credentials meet.

use gate_burnbound::KeyId;
use gate_core::IntentId;

use super::Seen;
use crate::calls::PortCall;
use crate::coverage::{Move, Turn};
use crate::executor::Node;

impl Seen {
    /// A gateway's call has moved an intent at an authority elsewhere.
    pub(super) fn called(&mut self, call: &PortCall, id: &IntentId, moved: Move) {
        let mut progress = call.progress();
        for hit in &progress.hits {
            self.coverage.note(moved, Some(*hit));
        }
        progress.moves.push((id.clone(), moved));
        let refused = progress.refused;
        drop(progress);
        self.law("F6", !refused, || {
            format!("{id} moved by a call that was told that nothing was done for it")
        });
    }

    /// A call of a gateway's was answered: what is counted of credentials.
    pub(crate) fn credential(&mut self, node: Node, keyid: &str, code: &str, in_flight: bool) {
        let Some(keyid) = KeyId::parse(keyid) else { return };
        let turn = self.ledger.gateway_changes.get(keyid.gateway()).map(|(_, turn)| *turn);
        let Some(turn) = turn else { return };
        self.turns.insert(node, turn);
        let row = self.ledger.gateways.get(keyid.gateway());
        let newest = row.and_then(|row| row.keys.last());
        let is_newest = newest.is_some_and(|key| keyid.is_of(&key.public_key));
        if in_flight {
            self.coverage.turn(turn, "in flight");
        }
        let met = match code {
            "gateway_unknown" => "new key too early",
            "gateway_revoked" => "old key refused",
            "ok" if is_newest && turn != Turn::Revoked => "new key taken",
            "ok" if turn == Turn::Rotated => "old key taken",
            _ => return,
        };
        self.coverage.turn(turn, met);
    }

    /// A gateway's credential is not taken, or for another reason nothing can be asked.
    pub(crate) fn shut(&mut self, node: Node, stranger: bool) {
        if stranger
            && self.shut.insert(node)
            && let Some(turn) = self.turns.get(&node)
        {
            self.coverage.turn(*turn, "not ready");
        }
    }

    /// A gateway was answered.
    pub(crate) fn open(&mut self, node: Node) {
        if self.shut.remove(&node)
            && let Some(turn) = self.turns.get(&node)
        {
            self.coverage.turn(*turn, "ready again");
        }
    }
}
