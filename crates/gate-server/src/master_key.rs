//! The one key that every secret of ours which must be had again follows from. Nothing that is
//! derived from it is ever stored.

use std::fmt;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use gate_core::Ids;
use ring::hkdf::{HKDF_SHA256, KeyType, Salt};

/// Bytes of the key.
const KEY_BYTES: usize = 32;
/// Largest file that is read as one, in bytes: the digits and some blanks.
const FILE_BYTES_MAX: usize = 256;

/// What a derived key is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Purpose {
    /// The seed that the authority signs its answers with.
    AuthoritySigning,
}

impl Purpose {
    const fn as_str(self) -> &'static str {
        match self {
            Self::AuthoritySigning => "authority-signing",
        }
    }
}

/// 32 random bytes, in hex in a file that only its owner reads.
pub(crate) struct MasterKey([u8; KEY_BYTES]);

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey([redacted])")
    }
}

impl MasterKey {
    /// Takes what stands in the file.
    ///
    /// # Errors
    ///
    /// What is wrong, as the end of a sentence about the file.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        const WRONG: &str = "does not hold 32 bytes in hex: make one with `openssl rand -hex 32`, or \
                             put the right file back, for what was derived from it is lost without";
        if bytes.len() > FILE_BYTES_MAX {
            return Err(WRONG);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| WRONG)?.trim_ascii();
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != KEY_BYTES || !rest.is_empty() {
            return Err(WRONG);
        }
        let mut key = [0; KEY_BYTES];
        for (byte, pair) in key.iter_mut().zip(pairs) {
            let digits = std::str::from_utf8(pair).map_err(|_| WRONG)?;
            let hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            *byte = u8::from_str_radix(digits, 16).ok().filter(|_| hex).ok_or(WRONG)?;
        }
        Ok(Self(key))
    }

    /// The key in the file.
    ///
    /// # Errors
    ///
    /// What went wrong and what to do.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let bytes = std::fs::read(path).map_err(|error| failed(path, "read", &error))?;
        Self::parse(&bytes).map_err(|problem| format!("{} {problem}", path.display()))
    }

    /// The key in the file, which is made for its owner alone when there is none.
    ///
    /// # Errors
    ///
    /// What went wrong and what to do.
    pub(crate) fn open_or_make(path: &Path, ids: &dyn Ids) -> Result<Self, String> {
        if path.exists() {
            return Self::open(path);
        }
        let mut key = [0; KEY_BYTES];
        ids.fill(&mut key);
        match put(path, &key, ids) {
            Ok(()) => Ok(Self(key)),
            // Another process made it meanwhile: that one holds.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Self::open(path),
            Err(error) => Err(failed(path, "made", &error)),
        }
    }

    /// A key for one purpose, one id within it, and its generation.
    #[must_use]
    pub(crate) fn derive(&self, purpose: Purpose, id: &str, generation: u32) -> [u8; KEY_BYTES] {
        let generation = generation.to_string();
        // No part holds a zero byte, so no two sets of parts look the same.
        let info =
            [purpose.as_str().as_bytes(), b"\0", id.as_bytes(), b"\0", generation.as_bytes()];
        let mut key = [0; KEY_BYTES];
        let secret = Salt::new(HKDF_SHA256, b"action-gateway").extract(&self.0);
        // Expanding to one block of the hash never fails.
        let filled = secret.expand(&info, Bytes).and_then(|okm| okm.fill(&mut key));
        debug_assert!(filled.is_ok(), "32 bytes can always be had");
        key
    }
}

fn failed(path: &Path, what: &str, error: &std::io::Error) -> String {
    format!(
        "the master key {} cannot be {what}: {error}; see that this user may, or name another with \
         GATEWAY_MASTER_KEY_FILE",
        path.display()
    )
}

/// The length of what is derived.
struct Bytes;

impl KeyType for Bytes {
    fn len(&self) -> usize {
        KEY_BYTES
    }
}

/// Puts the whole file there at once, unless there is one.
fn put(path: &Path, key: &[u8; KEY_BYTES], ids: &dyn Ids) -> std::io::Result<()> {
    let mut name = [0_u8; 8];
    ids.fill(&mut name);
    let name: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
    let part = path.with_extension(format!("{name}.part"));
    let made = (|| {
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        file.write_all(format!("{hex}\n").as_bytes())?;
        file.sync_all()?;
        std::fs::hard_link(&part, path)
    })();
    drop(std::fs::remove_file(&part));
    made
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::system::SystemIds;

    #[test]
    fn it_is_made_once_for_its_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("master.key");
        let ids = SystemIds::default();
        let made = MasterKey::open_or_make(&path, &ids).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.trim_end().len(), 64);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(MasterKey::open_or_make(&path, &ids).unwrap().0, made.0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing else is left");
        let again = put(&path, &[0; 32], &ids).unwrap_err();
        assert_eq!(again.kind(), std::io::ErrorKind::AlreadyExists);
        std::fs::write(&path, "short").unwrap();
        let fault = MasterKey::open_or_make(&path, &ids).unwrap_err();
        assert!(fault.contains("32 bytes in hex") && !fault.contains("short"), "{fault}");
        let nowhere = dir.path().join("none/master.key");
        let fault = MasterKey::open_or_make(&nowhere, &ids).unwrap_err();
        assert!(fault.contains("GATEWAY_MASTER_KEY_FILE"), "{fault}");
    }

    #[test]
    fn what_is_a_key() {
        let hex = "00".repeat(31);
        for (text, good) in [
            (format!("{hex}ff"), true),
            (format!("{hex}FF\n"), true),
            (format!(" {hex}ff "), true),
            (hex.clone(), false),
            (format!("{hex}fff"), false),
            (format!("{hex}+f"), false),
            (format!("{hex}fg"), false),
            (String::new(), false),
            (" ".repeat(300), false),
        ] {
            assert_eq!(MasterKey::parse(text.as_bytes()).is_ok(), good, "{text}");
        }
    }

    /// What is derived never changes: secrets that were given out depend on it.
    #[test]
    fn each_purpose_id_and_generation_has_a_key_of_its_own() {
        let key = MasterKey([7; 32]);
        let hex =
            |bytes: [u8; 32]| -> String { bytes.iter().map(|b| format!("{b:02x}")).collect() };
        let first = hex(key.derive(Purpose::AuthoritySigning, "", 1));
        assert_eq!(first, hex(key.derive(Purpose::AuthoritySigning, "", 1)));
        for other in [
            key.derive(Purpose::AuthoritySigning, "", 2),
            key.derive(Purpose::AuthoritySigning, "a", 1),
            MasterKey([8; 32]).derive(Purpose::AuthoritySigning, "", 1),
        ] {
            assert_ne!(first, hex(other));
        }
        assert_eq!(format!("{key:?}"), "MasterKey([redacted])");
    }
}
