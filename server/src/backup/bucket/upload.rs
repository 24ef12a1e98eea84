//! The upload of a backup, in parts where the file is large.

use std::io;
use std::path::Path;

use bytes::Bytes;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

use super::{Bucket, answer, file_error};
use crate::backup::{Error, error};

/// Least size of a part, in bytes; also the size up to which a file is sent whole.
const PART: u64 = 16 << 20;
/// Most parts of one object, by S3's own limit of 10,000.
const PARTS: u64 = 9_000;

impl Bucket {
    /// Stores a file as the backup of this name, and returns its size. It is there as a whole, or
    /// not at all.
    ///
    /// # Errors
    /// If the file cannot be read, or the bucket does not take it.
    pub async fn put(&self, name: &str, path: &Path) -> Result<u64, Error> {
        let failed = |source| file_error(path, source);
        let mut file = File::open(path).await.map_err(failed)?;
        let size = file.metadata().await.map_err(failed)?.len();
        let key = self.key(name);
        if size <= PART {
            let content = read(&mut file, PART).await.map_err(failed)?;
            let action = self.api.put_object(Some(&self.credentials), &key);
            self.ask("store the backup", &action, content).await?;
        } else {
            self.put_in_parts(&key, &mut file, size, path).await?;
        }
        let stored = self.size(&key).await?;
        if stored != size {
            return Err(Error::Answer {
                doing: "store the backup",
                why: format!("{stored} of {size} bytes arrived"),
            });
        }
        Ok(size)
    }

    async fn put_in_parts(
        &self,
        key: &str,
        file: &mut File,
        size: u64,
        path: &Path,
    ) -> Result<(), Error> {
        let doing = "start the upload of the backup";
        let action = self
            .api
            .create_multipart_upload(Some(&self.credentials), key);
        let answer = self.ask(doing, &action, Bytes::new()).await?;
        let answer = answer::text(doing, answer).await?;
        let upload = error::element(&answer, "UploadId").ok_or_else(|| Error::Answer {
            doing,
            why: "the answer has no UploadId".to_owned(),
        })?;
        let sent = self.send_parts(key, upload, file, size, path).await;
        if sent.is_err() {
            // Parts without an end cost money until somebody removes them.
            let action = self
                .api
                .abort_multipart_upload(Some(&self.credentials), key, upload);
            let aborted = self.ask("abort the upload", &action, Bytes::new()).await;
            if let Err(error) = aborted {
                tracing::warn!(%error, "parts of the backup are left in the bucket");
            }
        }
        sent
    }

    async fn send_parts(
        &self,
        key: &str,
        upload: &str,
        file: &mut File,
        size: u64,
        path: &Path,
    ) -> Result<(), Error> {
        let credentials = Some(&self.credentials);
        let part = PART.max(size.div_ceil(PARTS));
        let mut tags = Vec::new();
        for number in 1..=u16::MAX {
            let content = read(file, part).await;
            let content = content.map_err(|source| file_error(path, source))?;
            if content.is_empty() {
                break;
            }
            let doing = "store a part of the backup";
            let action = self.api.upload_part(credentials, key, number, upload);
            let answer = self.ask(doing, &action, content).await?;
            tags.push(answer::tag(doing, &answer)?);
        }
        let doing = "complete the upload of the backup";
        let tags = || tags.iter().map(String::as_str);
        let action = self
            .api
            .complete_multipart_upload(credentials, key, upload, tags());
        let body = self
            .api
            .complete_multipart_upload(credentials, key, upload, tags())
            .body();
        let answer = self.ask(doing, &action, body.into()).await?;
        // S3 may say 200 and then that it failed.
        let answer = answer::text(doing, answer).await?;
        if error::element(&answer, "ETag").is_none() {
            let why = error::of_document(&answer);
            return Err(Error::Answer { doing, why });
        }
        Ok(())
    }

    async fn size(&self, key: &str) -> Result<u64, Error> {
        let doing = "check the stored backup";
        let action = self.api.head_object(Some(&self.credentials), key);
        let answer = self.ask(doing, &action, Bytes::new()).await?;
        answer::length(&answer).ok_or_else(|| Error::Answer {
            doing,
            why: "the answer has no length".to_owned(),
        })
    }
}

async fn read(file: &mut File, most: u64) -> io::Result<Bytes> {
    let mut content = Vec::new();
    file.take(most).read_to_end(&mut content).await?;
    Ok(content.into())
}
