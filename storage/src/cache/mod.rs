//! The objects and their recent events in memory. Every read is served from them.
//!
//! One [`Resource`] per stored resource. It holds the present state as a persistent ordered map, so
//! that a [`Snapshot`] is a clone of a pointer, and the newest events in a ring. A [`Cursor`] pulls
//! events from the ring; events that have left the ring but are younger than the horizon come from
//! the change log in the database. Only the committer changes what is stored here, in commit order;
//! bodies are compressed anew beside it, which nobody can see.

mod bodies;
mod cursor;
mod event;
mod index;
mod log;
mod recompressed;
mod resource;
mod ring;
mod snapshot;

pub use bodies::{Bodies, Compression};
pub use cursor::{Cursor, CursorError};
pub use event::{Event, EventType, Previous};
pub use log::{Log, LogError, LogPage};
pub use resource::{Resource, ResourceStats, SnapshotError, TooOld};
pub use ring::RingLimits;
pub use snapshot::Snapshot;

pub(crate) use event::{Change, Effect, PreviousRef};
pub(crate) use recompressed::Recompressed;
pub(crate) use resource::Shared;
