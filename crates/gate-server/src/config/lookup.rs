//! Where settings are looked up: the process, or a map in tests.
//!
//! All that the configuration learns about its surroundings comes through [`Lookup`], so a test
//! hands over a map and changes nothing of the process.

use std::{
    io::{self, Read},
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The largest file that is read, in bytes: keys, certificates and the configuration are small.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// What the configuration may know of its surroundings.
pub trait Lookup: Send + Sync {
    /// The path without `.`, `..` and links, as far as it exists, starting at the root.
    fn absolute(&self, path: &Path) -> PathBuf;

    /// What the system says about the file or directory, links followed.
    ///
    /// # Errors
    ///
    /// The system's, when there is none or it may not be looked at.
    fn facts(&self, path: &Path) -> io::Result<FileFacts>;

    /// The whole file, of 1 MiB at most.
    ///
    /// # Errors
    ///
    /// The system's, and [`io::ErrorKind::FileTooLarge`].
    fn read_file(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// The number of the user that this process runs as, where that can be found out.
    fn user(&self) -> Option<u32>;

    /// The variable, if it is set. Bytes that are no UTF-8 come as U+FFFD, which no setting takes.
    fn variable(&self, name: &str) -> Option<String>;

    /// The names of all variables that are set, in no particular order.
    fn variables(&self) -> Vec<String>;
}

/// What the system says about a file or directory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileFacts {
    /// Owner and mode, on systems that have them.
    pub access: Option<FileAccess>,
    /// Whether it is a directory.
    pub directory: bool,
    /// Changes when the content does.
    pub stamp: FileStamp,
}

/// Who may do what with a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileAccess {
    /// Permission bits alone, such as `0o640`.
    pub mode: u32,
    /// The number of the user who owns it.
    pub owner: u32,
}

impl FileAccess {
    /// Whether users other than the owner and its group may read the file.
    #[must_use]
    pub const fn others_read(self) -> bool {
        self.mode & 0o004 != 0
    }
}

/// By this a changed file is told from the one that was read before.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FileStamp {
    /// The length in bytes.
    pub bytes: u64,
    /// When it was last written, where the system keeps that.
    pub modified: Option<SystemTime>,
}

/// The process itself: its environment and its file system. The only reader of `std::env`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Process;

impl Lookup for Process {
    fn absolute(&self, path: &Path) -> PathBuf {
        let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        for ancestor in whole.ancestors() {
            let Ok(found) = ancestor.canonicalize() else {
                continue;
            };
            return match whole.strip_prefix(ancestor) {
                Ok(rest) if rest.as_os_str().is_empty() => found,
                Ok(rest) => found.join(rest),
                Err(_) => whole,
            };
        }
        whole
    }

    fn facts(&self, path: &Path) -> io::Result<FileFacts> {
        let metadata = std::fs::metadata(path)?;
        Ok(FileFacts {
            access: access(&metadata),
            directory: metadata.is_dir(),
            stamp: FileStamp { bytes: metadata.len(), modified: metadata.modified().ok() },
        })
    }

    fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        let file = std::fs::File::open(path)?;
        // One byte more than allowed shows that there is more.
        let read = file.take(FILE_BYTES_MAX.saturating_add(1)).read_to_end(&mut content)?;
        if u64::try_from(read).is_ok_and(|read| read <= FILE_BYTES_MAX) {
            Ok(content)
        } else {
            Err(io::ErrorKind::FileTooLarge.into())
        }
    }

    fn user(&self) -> Option<u32> {
        // The standard library does not tell the user; Linux does, as the owner of this entry.
        let metadata = std::fs::metadata("/proc/self").ok()?;
        access(&metadata).map(|access| access.owner)
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }

    fn variables(&self) -> Vec<String> {
        std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect()
    }
}

#[cfg(unix)]
fn access(metadata: &std::fs::Metadata) -> Option<FileAccess> {
    use std::os::unix::fs::MetadataExt;

    Some(FileAccess { mode: metadata.mode() & 0o7777, owner: metadata.uid() })
}

#[cfg(not(unix))]
fn access(_: &std::fs::Metadata) -> Option<FileAccess> {
    None
}

/// A world for tests: variables and files in maps. Directories are files without content.
#[cfg(test)]
pub(crate) mod map {
    use std::{collections::BTreeMap, sync::Mutex, time::Duration};

    use super::*;

    /// A file of the map: content, owner, mode and when it was written, in seconds.
    #[derive(Clone, Debug)]
    pub(crate) struct MapFile {
        pub(crate) content: Option<Vec<u8>>,
        pub(crate) mode: u32,
        pub(crate) owner: u32,
        pub(crate) written: u64,
        pub(crate) directory: bool,
    }

    /// Variables and files that are what the test says.
    #[derive(Debug, Default)]
    pub(crate) struct Map {
        pub(crate) files: Mutex<BTreeMap<PathBuf, MapFile>>,
        pub(crate) variables: BTreeMap<String, String>,
    }

    impl Map {
        /// A world with a home and these variables, given as `NAME=value`.
        pub(crate) fn of<'a>(variables: impl IntoIterator<Item = &'a str>) -> Self {
            let mut map = Self::default().with("HOME=/home/ada");
            for variable in variables {
                map = map.with(variable);
            }
            map
        }

        pub(crate) fn with(mut self, variable: &str) -> Self {
            let (name, value) = variable.split_once('=').unwrap();
            self.variables.insert(name.to_owned(), value.to_owned());
            self
        }

        /// With a file of mode 0600 that user 1000, who this process runs as, owns.
        pub(crate) fn file(self, path: &str, content: &str) -> Self {
            self.write(path, content, 1);
            self
        }

        pub(crate) fn change(self, path: &str, change: impl FnOnce(&mut MapFile)) -> Self {
            change(self.files.lock().unwrap().get_mut(Path::new(path)).unwrap());
            self
        }

        pub(crate) fn write(&self, path: &str, content: &str, written: u64) {
            let file = MapFile {
                content: Some(content.as_bytes().to_vec()),
                mode: 0o600,
                owner: 1000,
                written,
                directory: false,
            };
            self.files.lock().unwrap().insert(path.into(), file);
        }

        fn find(&self, path: &Path) -> io::Result<MapFile> {
            let files = self.files.lock().unwrap();
            files.get(path).cloned().ok_or(io::ErrorKind::NotFound.into())
        }
    }

    impl Lookup for Map {
        fn absolute(&self, path: &Path) -> PathBuf {
            Path::new("/here").join(path)
        }

        fn facts(&self, path: &Path) -> io::Result<FileFacts> {
            let file = self.find(path)?;
            Ok(FileFacts {
                access: Some(FileAccess { mode: file.mode, owner: file.owner }),
                directory: file.directory,
                stamp: FileStamp {
                    bytes: file.content.map_or(0, |content| content.len() as u64),
                    modified: Some(SystemTime::UNIX_EPOCH + Duration::from_secs(file.written)),
                },
            })
        }

        fn read_file(&self, path: &Path) -> io::Result<Vec<u8>> {
            let denied = io::ErrorKind::PermissionDenied;
            self.find(path)?.content.ok_or(denied.into())
        }

        fn user(&self) -> Option<u32> {
            Some(1000)
        }

        fn variable(&self, name: &str) -> Option<String> {
            self.variables.get(name).cloned()
        }

        fn variables(&self) -> Vec<String> {
            self.variables.keys().cloned().collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_tells_of_its_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(Process.read_file(&path).unwrap(), b"12345");
        let facts = Process.facts(&path).unwrap();
        assert_eq!((facts.stamp.bytes, facts.directory), (5, false));
        assert!(Process.facts(directory.path()).unwrap().directory);
        let missing = Process.read_file(&directory.path().join("none"));
        assert_eq!(missing.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_process_reads_no_more_than_the_limit() {
        let directory = tempfile::tempdir().unwrap();
        for (name, bytes, good) in [("at", 1024 * 1024, true), ("above", 1024 * 1024 + 1, false)] {
            let path = directory.path().join(name);
            std::fs::write(&path, vec![b'x'; bytes]).unwrap();
            assert_eq!(Process.read_file(&path).is_ok(), good, "{name}");
        }
    }

    #[test]
    fn an_absolute_path_need_not_exist() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let table = [
            // asked        answered
            ("", ""),
            ("a/b", "a/b"),
        ];
        for (asked, answered) in table {
            let found = Process.absolute(&directory.path().join(asked));
            assert_eq!(found, root.join(answered), "{asked:?}");
        }
        assert!(Process.absolute(Path::new("here")).is_absolute());
    }
}
