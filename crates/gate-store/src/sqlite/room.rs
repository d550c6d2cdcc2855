//! Room on the disk for what must still be recorded when it is full.
//!
//! Refunds are sent only after a durable write, so a full disk stops new ones by itself. But those
//! under way need their outcomes recorded. A file of zeros beside the database holds room for some
//! thousands of them; when a write finds the disk full it is given up, and until it can be made
//! again whatever would begin another refund is refused.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::FILE_MODE;
use crate::port::Write;

/// How much is kept.
const ROOM_BYTES: u64 = 4 * 1024 * 1024;
/// How often it is tried to have it again.
const TAKE_BACK_EVERY: Duration = Duration::from_secs(5);

/// The room beside one database.
pub(super) struct Room {
    path: PathBuf,
    /// Shared with whoever tells people about it.
    is_given_up: Arc<AtomicBool>,
    tried_at: Duration,
}

impl Room {
    /// Keeps room beside the database at `database`. Without enough of it on the disk, it counts as
    /// given up from the start.
    pub(super) fn beside(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push("-room");
        let path = PathBuf::from(path);
        let is_given_up = match make(&path) {
            Ok(()) => false,
            Err(error) => {
                tracing::error!(
                    file = %path.display(),
                    "no room can be kept for outcomes, so no refund is begun: {error}"
                );
                true
            }
        };
        Self { path, is_given_up: Arc::new(AtomicBool::new(is_given_up)), tried_at: Duration::ZERO }
    }

    /// Whether it is given up, for as long as the room is there.
    pub(super) fn state(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_given_up)
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }

    /// Gives it up; false when it was before.
    pub(super) fn give_up(&mut self) -> bool {
        if self.is_given_up.swap(true, Ordering::AcqRel) {
            return false;
        }
        tracing::error!("the disk is full: only outcomes of refunds under way are recorded");
        // Another process over the same database may have been faster.
        let _ = fs::remove_file(&self.path);
        true
    }

    /// Tries to have it again, now and then.
    pub(super) fn take_back(&mut self, uptime: Duration) {
        let waits = uptime < self.tried_at.saturating_add(TAKE_BACK_EVERY);
        if !self.is_given_up() || waits {
            return;
        }
        self.tried_at = uptime;
        if make(&self.path).is_ok() {
            self.is_given_up.store(false, Ordering::Release);
            tracing::warn!("the disk has room again: refunds go on");
        }
    }
}

/// Whether these writes begin a refund, or may lead to one.
pub(super) fn begins_a_refund(writes: &[Write]) -> bool {
    writes.iter().any(|write| matches!(write, Write::InsertIntent(_) | Write::Reserve { .. }))
}

/// Makes the file, unless it is there; all of it on the disk, or nothing.
fn make(path: &Path) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|file| file.len() == ROOM_BYTES) {
        return Ok(());
    }
    let made =
        OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path);
    let written = made.and_then(|mut file| {
        // Zeros that are written, not a hole: a hole takes no room.
        io::copy(&mut io::repeat(0).take(ROOM_BYTES), &mut file)?;
        file.sync_all()
    });
    written.inspect_err(|error| {
        // A part of it would only be in the way.
        if error.kind() != ErrorKind::NotFound {
            let _ = fs::remove_file(path);
        }
    })
}
