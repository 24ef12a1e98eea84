//! The file of a backup of an embedded database: the database in gzip. The comment of its header is
//! the uid of the cluster that it was made in.

use std::fs::File;
use std::io::{self, BufWriter, IntoInnerError, Write as _};
use std::path::Path;

use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use flate2::{Compression, GzBuilder, GzHeader};

/// A backup that is being written.
pub(super) struct Archive {
    gzip: GzEncoder<BufWriter<File>>,
}

impl Archive {
    /// Begins the file of a backup of the cluster `cluster_uid`.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn create(path: &Path, cluster_uid: &str) -> io::Result<Self> {
        let file = BufWriter::new(File::create(path)?);
        let gzip = GzBuilder::new()
            .comment(cluster_uid)
            .write(file, Compression::default());
        Ok(Self { gzip })
    }

    /// Writes the next part of the database.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, part: &[u8]) -> io::Result<()> {
        self.gzip.write_all(part)
    }

    /// Ends the file, and waits until it is on the disk.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(self) -> io::Result<()> {
        let file = self.gzip.finish()?.into_inner();
        file.map_err(IntoInnerError::into_error)?.sync_all()
    }
}

/// Reads a whole backup, whose checksum has to be right, and returns the size of the database.
///
/// # Errors
/// If it cannot be read, or is damaged.
pub(super) fn check(path: &Path) -> io::Result<u64> {
    io::copy(&mut open(path)?, &mut io::sink())
}

/// Writes the database of a backup to a file, and returns the uid of the cluster that it was made
/// in, if it tells.
///
/// # Errors
/// If a file cannot be read or written, or the backup is damaged or another kind of file.
pub(super) fn unpack(path: &Path, to: &Path) -> io::Result<Option<String>> {
    let mut gzip = open(path)?;
    let comment = gzip.header().and_then(GzHeader::comment);
    let cluster = comment.map(|comment| String::from_utf8_lossy(comment).into_owned());
    let mut file = File::create(to)?;
    io::copy(&mut gzip, &mut file)?;
    file.sync_all()?;
    Ok(cluster)
}

fn open(path: &Path) -> io::Result<GzDecoder<File>> {
    let gzip = GzDecoder::new(File::open(path)?);
    if gzip.header().is_none() {
        let why = "is not a backup of an embedded database";
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(gzip)
}
