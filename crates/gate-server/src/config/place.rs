//! Where the records lie, and whether they outlast the container they are written in.
//!
//! A refund that was submitted and whose record is lost could be made twice. So in a container the
//! records must lie on a mounted volume, and what cannot be found out counts as lost. A machine
//! made from a container's image is no container, though the mark may still lie in its root.

use std::path::{Component, Path, PathBuf};

use super::lookup::Lookup;

/// The directory of the container image that is meant for a volume.
const IMAGE_DATA_DIR: &str = "/data";
/// Where Linux lists what is mounted where.
const MOUNTS: &str = "/proc/self/mountinfo";
/// The file systems that a machine has on a disk for its root. Btrfs and ZFS are not among them:
/// container engines make roots of them that look the same.
const MACHINE_ROOTS: [&str; 5] = ["ext2", "ext3", "ext4", "f2fs", "xfs"];

/// Whether the process runs in a container. A mark that an engine left in the root counts unless
/// the root is a machine's own; a cluster's variable is never left behind, so it always counts.
pub(super) fn in_container(lookup: &dyn Lookup) -> bool {
    let marked = |mark: &&str| lookup.facts(Path::new(mark)).is_ok();
    let left = ["/.dockerenv", "/run/.containerenv"].iter().any(marked);
    lookup.variable("KUBERNETES_SERVICE_HOST").is_some() || (left && !on_machine(&mounts(lookup)))
}

/// The data directory when none is given.
pub(super) fn default_data_dir(lookup: &dyn Lookup) -> Option<PathBuf> {
    let image = Path::new(IMAGE_DATA_DIR);
    if in_container(lookup) && lookup.facts(image).is_ok_and(|facts| facts.directory) {
        return Some(image.to_owned());
    }
    let absolute = |name, rest: &str| {
        let path = PathBuf::from(lookup.variable(name)?);
        path.is_absolute().then(|| path.join(rest))
    };
    absolute("XDG_DATA_HOME", "action-gateway")
        .or_else(|| absolute("HOME", ".local/share/action-gateway"))
}

/// Whether what is written to `path` is still there after this container.
pub(super) fn lasts(lookup: &dyn Lookup, path: &Path) -> bool {
    if !in_container(lookup) {
        return true;
    }
    // Where `..` leads is known only once the directories before it exist.
    if path.components().any(|part| part == Component::ParentDir) {
        return false;
    }
    on_volume(&mounts(lookup), path)
}

/// What is mounted where, one mount a line; nothing when it cannot be read.
fn mounts(lookup: &dyn Lookup) -> String {
    let mounts = lookup.read_file(Path::new(MOUNTS)).unwrap_or_default();
    String::from_utf8_lossy(&mounts).into_owned()
}

/// Whether the root is a whole file system of a kind that machines have, neither a container's
/// layers nor a directory of its host.
fn on_machine(mounts: &str) -> bool {
    innermost(mounts, Path::new("/"))
        .is_some_and(|mount| mount.root == "/" && MACHINE_ROOTS.contains(&mount.kind))
}

/// Whether the innermost mount that holds `path` is a volume: neither the container's own root nor
/// one in memory.
fn on_volume(mounts: &str, path: &Path) -> bool {
    innermost(mounts, path).is_some_and(|mount| {
        mount.point != Path::new("/") && !["ramfs", "tmpfs"].contains(&mount.kind)
    })
}

/// A line of what is mounted where.
struct Mount<'a> {
    /// The kind of file system.
    kind: &'a str,
    /// Where it is mounted.
    point: PathBuf,
    /// What of the file system is mounted there; `/` when it is the whole of it.
    root: &'a str,
}

/// The innermost mount that holds `path`. Of two at one place the later hides the earlier.
fn innermost<'a>(mounts: &'a str, path: &Path) -> Option<Mount<'a>> {
    mounts
        .lines()
        .filter_map(mount)
        .filter(|mount| path.starts_with(&mount.point))
        .max_by_key(|mount| mount.point.components().count())
}

/// Takes a line apart (proc(5)): root and mount point are the fourth field and the fifth, the kind
/// of file system is the first behind ` - `.
fn mount(line: &str) -> Option<Mount<'_>> {
    let (fields, rest) = line.split_once(" - ")?;
    let mut fields = fields.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    Some(Mount { kind: rest.split(' ').next()?, point: PathBuf::from(unescape(point)), root })
}

/// Blanks, tabs, newlines and backslashes come as `\` and three octal digits.
fn unescape(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

#[cfg(test)]
mod tests {
    use super::{super::lookup::map::Map, *};

    const DOCKER: &str = "\
611 520 0:53 / / rw,relatime master:205 - overlay overlay rw,lowerdir=/var/lib/docker
612 611 0:56 / /proc rw,nosuid - proc proc rw
620 611 8:1 /var/lib/docker/volumes/v/_data /data rw,relatime master:1 - ext4 /dev/sda1 rw
621 611 0:60 / /tmp rw - tmpfs tmpfs rw
622 611 8:1 /home/ada /my\\040data rw - ext4 /dev/sda1 rw
623 620 0:61 / /data/scratch rw shared:3 - tmpfs tmpfs rw
";

    #[test]
    fn a_volume_is_told_from_the_containers_own_files() {
        let table = [
            // path                  on a volume
            ("/data", true),
            ("/data/gateway.db", true),
            ("/data/a/b", true),
            ("/my data/gateway.db", true),
            ("/database", false),
            ("/data/scratch/gateway.db", false),
            ("/tmp/gateway.db", false),
            ("/var/lib/gateway", false),
            ("/", false),
        ];
        for (path, expected) in table {
            assert_eq!(on_volume(DOCKER, Path::new(path)), expected, "{path}");
        }
        for unreadable in ["", "nonsense", "1 2 3 - ext4"] {
            assert!(!on_volume(unreadable, Path::new("/data")), "{unreadable:?}");
        }
        let hidden = format!("{DOCKER}630 611 0:70 / /data rw - tmpfs tmpfs rw\n");
        assert!(!on_volume(&hidden, Path::new("/data")), "hidden by a later mount");
    }

    #[test]
    fn a_mark_counts_unless_the_root_is_a_machines_own() {
        const MARKS: [&str; 2] = ["/.dockerenv", "/run/.containerenv"];
        #[rustfmt::skip]
        let table = [
            // name          container, what is mounted as the root
            ("docker",       true,  "611 520 0:53 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib"),
            ("podman",       true,  "894 733 0:71 / / rw,nodev - fuse-overlayfs fuse-overlayfs rw"),
            ("pod",          true,  "1207 978 0:312 / / rw master:441 - overlay overlay rw,lowerdir=/var"),
            ("aufs",         true,  "301 212 0:44 / / rw,relatime - aufs none rw,si=7f3c9d1e2a"),
            ("vfs",          true,  "702 650 8:1 /var/lib/docker/vfs/dir/3f1c / rw - ext4 /dev/sda1 rw"),
            ("vfs, a disk",  true,  "702 650 8:17 /vfs/dir/3f1c / rw master:1 - xfs /dev/sdb1 rw,attr2"),
            ("mapper",       true,  "455 400 253:4 /rootfs / rw - xfs /dev/mapper/docker-8:1-77 rw"),
            ("btrfs",        true,  "455 400 0:35 /@/subvolumes/3f1c / rw - btrfs /dev/sda2 rw"),
            ("btrfs, whole", true,  "455 400 0:35 / / rw - btrfs /dev/sda2 rw,subvolid=5,subvol=/"),
            ("zfs",          true,  "455 400 0:47 / / rw,relatime - zfs tank/docker/3f1c rw,xattr"),
            ("shared",       true,  "30 1 0:29 / / rw,relatime - virtiofs kataShared rw"),
            ("in memory",    true,  "30 1 0:29 / / rw,relatime - tmpfs tmpfs rw,size=65536k"),
            ("no root",      true,  "612 611 0:56 / /proc rw,nosuid - proc proc rw"),
            ("not the root", true,  "27 1 254:0 / /mnt rw,relatime - ext4 /dev/vda rw"),
            ("hidden",       true,  "27 1 8:1 / / rw - ext4 /dev/a rw\n28 27 0:53 / / rw - overlay o rw"),
            ("cut short",    true,  "27 1 254:0 / / rw,relatime"),
            ("empty",        true,  ""),
            ("firecracker",  false, "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard,resuid=65534"),
            ("cloud",        false, "25 1 259:1 / / rw shared:1 - xfs /dev/nvme0n1p1 rw,attr2,inode64"),
            ("board",        false, "25 1 179:2 / / rw,noatime - f2fs /dev/root rw,lazytime"),
            ("booted",       false, "1 1 0:2 / / rw - rootfs rootfs rw\n27 1 8:1 / / rw - ext4 /dev/a rw"),
        ];
        for (name, expected, mounts) in table {
            for mark in MARKS {
                let map = Map::default().file(MOUNTS, mounts);
                assert!(!in_container(&map), "{name} without a mark");
                let map = map.file(mark, "");
                assert_eq!(in_container(&map), expected, "{name} with {mark}");
                assert_eq!(lasts(&map, Path::new("/srv/gateway.db")), !expected, "{name}");
            }
            let pod = Map::default().file(MOUNTS, mounts).with("KUBERNETES_SERVICE_HOST=10.0.0.1");
            assert!(in_container(&pod), "{name} in a cluster");
        }
        assert!(
            in_container(&Map::default().file("/.dockerenv", "")),
            "mounts that cannot be read"
        );
    }

    #[test]
    fn the_data_directory_depends_on_where_it_runs() {
        let home = "/home/ada/.local/share/action-gateway";
        /// Name, variables, directories, and the data directory.
        type Row<'a> = (&'a str, &'a [&'a str], &'a [&'a str], Option<&'a str>);
        let table: [Row<'_>; 7] = [
            ("home", &["HOME=/home/ada"], &[], Some(home)),
            ("data home", &["HOME=/h", "XDG_DATA_HOME=/x"], &[], Some("/x/action-gateway")),
            ("relative", &["HOME=/home/ada", "XDG_DATA_HOME=x"], &[], Some(home)),
            ("empty", &["HOME="], &[], None),
            ("no image", &["HOME=/home/ada"], &["/data"], Some(home)),
            ("image", &["HOME=/h"], &["/.dockerenv", "/data"], Some("/data")),
            ("pod", &["KUBERNETES_SERVICE_HOST=10.0.0.1"], &["/data"], Some("/data")),
        ];
        for (name, variables, directories, expected) in table {
            let mut map = Map::default();
            for variable in variables {
                map = map.with(variable);
            }
            for path in directories {
                map = map.file(path, "").change(path, |file| file.directory = true);
            }
            assert_eq!(default_data_dir(&map).as_deref(), expected.map(Path::new), "{name}");
        }
        let machine = Map::of([])
            .file(MOUNTS, "27 1 254:0 / / rw - ext4 /dev/vda rw")
            .file("/.dockerenv", "")
            .file("/data", "")
            .change("/data", |file| file.directory = true);
        assert_eq!(default_data_dir(&machine).as_deref(), Some(Path::new(home)), "a left mark");
    }
}
