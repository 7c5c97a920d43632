//! Goals that clients see: by what they are answered.
//!
//! What this file does not do: what is learned from an answer is the oracle's.

use gaggle_wire::{DeleteResult, Refusal, Response};

use super::cuts::Work;
use super::{Goal, Goals};
use crate::judge::{Scene, Subject};
use crate::options::place;
use crate::oracle::{Delivered, Fact, Fate};

impl Goals {
    /// A client is answered by a node.
    pub(crate) fn answered(&mut self, response: &Response) {
        let stale = |refusal: &Refusal| matches!(refusal, Refusal::StaleReceipt);
        let is_stale = match response {
            Response::Deleted(results) => results.iter().any(|result| match result {
                DeleteResult::DeletedByOlderReceipt => true,
                DeleteResult::Refused(refusal) => stale(refusal),
                DeleteResult::Deleted => false,
            }),
            Response::Extended(results) => {
                results.iter().any(|result| result.as_ref().is_err_and(stale))
            }
            Response::Released(results) => {
                results.iter().any(|result| result.as_ref().is_err_and(stale))
            }
            _ => false,
        };
        if is_stale {
            self.note(Goal::StaleReceipt);
        }
    }

    /// A client learns something of a node.
    pub(crate) fn told_by(&mut self, node: usize, fact: &Fact) {
        match fact {
            Fact::Confirmed { .. } => self.worked(node, Work::Stored),
            Fact::Deleted { .. } => self.worked(node, Work::Deleted),
            _ => {}
        }
    }

    /// Something is so, and not taken down yet.
    pub(crate) fn learns(&mut self, scene: &Scene<'_>, fact: &Fact) {
        match fact {
            Fact::Gone { name } if scene.oracle.fate(name).is_some_and(is_deleted) => {
                self.note(Goal::GoneAnswered);
            }
            Fact::Delivered(delivered) if is_taken_over(scene, delivered) => {
                self.note(Goal::Takeover);
            }
            _ => {}
        }
    }
}

fn is_deleted(fate: &Fate) -> bool {
    fate.deleted.is_some()
}

/// Whether the custodian before this one is down.
fn is_taken_over(scene: &Scene<'_>, delivered: &Delivered) -> bool {
    let receipt = &delivered.label.receipt;
    let before = scene.oracle.fate(&delivered.name).and_then(|fate| fate.deliveries.last());
    let Some(before) = before.map(|seen| seen.receipt.custodian) else { return false };
    let subject =
        Subject { name: delivered.name, stamp: receipt.stamp, custodian: Some(receipt.custodian) };
    before != receipt.custodian && !(scene.look)(&subject).up.contains(&place(before))
}
