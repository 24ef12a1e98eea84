//! The comparison of a predecessor with its copy, and of the copy with our server.

use crds::v1alpha1::spec::Verification;

use super::super::streams::Streams;
use super::Copy;
use super::error::CopyError;
use crate::migration::plan::verified::Verified;
use crate::migration::steps::diff::{self, Difference};
use crate::migration::steps::verify::{self, VerifyError};

/// The number of times that a comparison is begun anew because it found something that the watches
/// had not told.
const ROUNDS: u32 = 5;

impl Copy<'_> {
    /// Compares the predecessor with what was copied, and that with what our server has. The outer
    /// error ends the copy.
    pub(super) async fn verify(
        &mut self,
        streams: &mut Streams,
    ) -> Result<Result<Verified, VerifyError>, CopyError> {
        let resource = self.source.common.plural.clone();
        let mut rounds = 1;
        loop {
            let found = self.pass(streams).await?;
            if found == 0 {
                break;
            }
            if rounds == ROUNDS {
                let named = vec!["the watches report other objects than the lists".to_owned()];
                return Ok(Err(VerifyError::Differs {
                    resource,
                    count: found,
                    named,
                }));
            }
            rounds += 1;
        }
        let ours = self.table.objects().iter().map(|(key, held)| {
            let side = diff::Side {
                uid: held.uid.as_str().into(),
                version: held.version,
                checksum: Some(held.checksum),
                as_imported: true,
            };
            (key.clone(), side)
        });
        let ours: diff::Snapshot = ours.collect();
        let source = &self.source.common;
        let (differing, verified) =
            verify::compare(source, ours, u64::MAX, Verification::Full).await?;
        if differing.is_empty() {
            return Ok(Ok(verified));
        }
        let named = diff::name_first(differing.iter(), Difference::describe);
        Ok(Err(VerifyError::Differs {
            resource,
            count: differing.len(),
            named,
        }))
    }
}
