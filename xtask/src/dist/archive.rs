//! Archives whose bytes follow from what is in them: in the order given, of one time, of nobody.

use std::io::{self, Write};

use flate2::write::DeflateEncoder;
use flate2::{Compression, GzBuilder};
use rawzip::time::UtcDateTime;
use rawzip::{CompressionMethod, ZipArchiveWriter};
use sha2::{Digest, Sha256};

/// When everything was made, in seconds since 1970: 1980-01-01T00:00:00Z, before which zip knows no
/// time.
const MADE_SECS: u32 = 315_532_800;

/// One file of an archive.
pub(crate) struct Entry {
    path: String,
    bytes: Vec<u8>,
    mode: u32,
}

impl Entry {
    /// A file to read.
    pub(crate) fn file(path: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { path: path.into(), bytes, mode: 0o644 }
    }

    /// A file to run.
    pub(crate) fn program(path: impl Into<String>, bytes: Vec<u8>) -> Self {
        Self { path: path.into(), bytes, mode: 0o755 }
    }
}

/// The entries as a compressed tar archive.
///
/// # Errors
///
/// When a path is too long for one.
pub(crate) fn tar_gz(entries: &[Entry]) -> io::Result<Vec<u8>> {
    // A builder without a file name and a time writes neither.
    let gzip = GzBuilder::new().write(Vec::new(), Compression::default());
    let mut tar = tar::Builder::new(gzip);
    for entry in entries {
        let mut header = tar::Header::new_ustar();
        header.set_size(u64::try_from(entry.bytes.len()).map_err(io::Error::other)?);
        header.set_mode(entry.mode);
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(u64::from(MADE_SECS));
        tar.append_data(&mut header, &entry.path, entry.bytes.as_slice())?;
    }
    tar.into_inner()?.finish()
}

/// The entries as a zip archive.
///
/// # Errors
///
/// When there is more than one can hold.
pub(crate) fn zip(entries: &[Entry]) -> io::Result<Vec<u8>> {
    let mut zip = ZipArchiveWriter::new(Vec::new());
    for entry in entries {
        let file = zip
            .new_file(entry.path.as_str())
            .compression_method(CompressionMethod::DEFLATE)
            .last_modified(UtcDateTime::from_unix(i64::from(MADE_SECS)))
            .unix_permissions(entry.mode);
        let (mut file, writer) = file.start().map_err(io::Error::other)?;
        let mut writer = writer.wrap(DeflateEncoder::new(&mut file, Compression::default()));
        writer.write_all(&entry.bytes)?;
        let (deflate, written) = writer.finish().map_err(io::Error::other)?;
        deflate.finish()?;
        file.finish(written).map_err(io::Error::other)?;
    }
    zip.finish().map_err(io::Error::other)
}

/// The SHA-256 digest, as `sha256sum` writes it.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn entries() -> [Entry; 3] {
        [
            Entry::program("b/run", vec![7; 70_000]),
            Entry::file("b/read me.txt", b"words\n".to_vec()),
            Entry::file("a", Vec::new()),
        ]
    }

    #[test]
    fn a_tar_holds_what_was_put_in() {
        let bytes = tar_gz(&entries()).unwrap();
        assert_eq!(bytes, tar_gz(&entries()).unwrap());
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
        let mut found = Vec::new();
        for file in tar.entries().unwrap() {
            let mut file = file.unwrap();
            let path = file.path().unwrap().to_string_lossy().into_owned();
            let header = file.header();
            let of = (header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap());
            assert_eq!(of, (0, 0, u64::from(MADE_SECS)));
            let mode = header.mode().unwrap();
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            found.push((path, mode, bytes));
        }
        let expected = entries().map(|entry| (entry.path, entry.mode, entry.bytes));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_zip_holds_what_was_put_in() {
        let bytes = zip(&entries()).unwrap();
        assert_eq!(bytes, zip(&entries()).unwrap());
        let zip = rawzip::ZipArchive::from_slice(&bytes).unwrap();
        let mut found = Vec::new();
        for file in zip.entries() {
            let file = file.unwrap();
            let path = str::from_utf8(file.file_path().as_ref()).unwrap().to_owned();
            let held = zip.get_entry(file.wayfinder()).unwrap();
            let mut bytes = Vec::new();
            let inflate = flate2::read::DeflateDecoder::new(held.data());
            held.verifying_reader(inflate).read_to_end(&mut bytes).unwrap();
            assert_eq!(file.last_modified().year(), 1980);
            found.push((path, file.mode().value() & 0o777, bytes));
        }
        let expected = entries().map(|entry| (entry.path, entry.mode, entry.bytes));
        assert_eq!(found, expected);
    }

    #[test]
    fn a_digest_is_the_one_that_everybody_computes() {
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), known);
    }
}
