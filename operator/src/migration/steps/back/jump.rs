//! The jump: the counter goes above all that is written back of what was before it.

use futures::future::try_join_all;

use super::error::BackError;
use super::writers::{resumed, total, waiting};
use super::{Back, Doors, FOLLOW, ROOM};
use crate::migration::cluster::revisions;
use crate::migration::plan::step::StepName;
use crate::migration::steps::writeback::Writer;

/// The number of times that the caches begin anew because clients have written more, and that the
/// counter jumps.
const ATTEMPTS: u32 = 5;
/// Changes that may be left for the hold, and those with which requests are not held at all: they
/// would wait for nothing.
const REST: usize = 100;
const TOO_MANY: usize = 10 * REST;
/// Changes that may wait for the next pass; fewer are not worth another one.
const FEW: usize = 50;
/// Most passes before the jump. Each is as long as what was written during the one before, so they
/// grow shorter unless etcd takes writes more slowly than we do.
const PASSES: u32 = 20;
/// The distance of the first jump beyond what is known to be written, for what others write to etcd,
/// and how much longer each further one is.
const MARGIN: u64 = 200;
const LONGER: u64 = 4;

impl Back<'_> {
    /// Writes until little is left, then lets the counter jump above it, and etcd follow. If much
    /// is written while etcd follows, the counter jumps again. What is left is written in the hold.
    pub(super) async fn jump(
        &self,
        writers: &mut [Writer<'_>],
        doors: &mut Doors,
    ) -> Result<(), BackError> {
        let mut room = ROOM;
        let mut left = ATTEMPTS;
        loop {
            self.catch_up(writers).await?;
            if self.counter().await? + MARGIN < doors.caches {
                break;
            }
            left = left.checked_sub(1).ok_or(BackError::Outgrown)?;
            *doors = self.open_door(room).await?;
            // The doors are open: the message is that of the step again.
            let step = StepName::BackBurn;
            self.cx.show(step, step.phase());
            room *= 2;
        }
        doors.resumed = resumed(writers);
        let (mut margin, mut landed) = (MARGIN, false);
        for _ in 0..ATTEMPTS {
            landed = self.jump_once(writers, margin).await?;
            if landed && waiting(writers) <= REST {
                return Ok(());
            }
            margin *= LONGER;
        }
        if landed && waiting(writers) <= TOO_MANY {
            Ok(())
        } else {
            Err(BackError::Outgrown)
        }
    }

    /// Lets the counter jump above all that is known to be written, writes it, and lets etcd
    /// follow. Returns false where etcd has outgrown the jump.
    async fn jump_once(&self, writers: &mut [Writer<'_>], margin: u64) -> Result<bool, BackError> {
        let revision = revisions::newest(self.endpoints).await?;
        let known = self.counter().await?.max(revision);
        let goal = known + margin + 2 * waiting(writers) as u64;
        for writer in writers.iter() {
            writer.cut(goal);
        }
        self.raise_counter(goal).await?;
        let each = writers.iter_mut().map(|w| w.pass_before_cut(goal, FOLLOW));
        total(try_join_all(each).await?)?;
        if revisions::newest(self.endpoints).await? > goal {
            return Ok(false);
        }
        // What clients write meanwhile is little against what is burnt.
        self.raise_revision(goal).await?;
        let counter = self.counter().await?;
        self.raise_revision(counter).await?;
        Ok(true)
    }

    /// Makes passes until few changes are left.
    async fn catch_up(&self, writers: &mut [Writer<'_>]) -> Result<(), BackError> {
        for _ in 0..PASSES {
            if waiting(writers) <= FEW {
                break;
            }
            let each = writers.iter_mut().map(Writer::pass);
            total(try_join_all(each).await?)?;
        }
        Ok(())
    }
}
