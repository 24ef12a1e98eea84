//! The newest events of a resource in memory.

use std::{collections::VecDeque, sync::Arc};

use super::Event;

/// How much of the past is kept in memory, per resource. Older events come from the database.
#[derive(Clone, Copy, Debug)]
pub struct RingLimits {
    /// Most events.
    pub events: usize,
    /// Most bytes, as [`crate::model::StoredObject::memory`] counts them.
    pub bytes: usize,
}

impl Default for RingLimits {
    fn default() -> Self {
        Self {
            events: 10_000,
            bytes: 32 << 20,
        }
    }
}

/// Events whose encodings are kept: watchers that keep up are within a few of each other.
const YOUNG: usize = 128;

/// The newest events, in strictly increasing order of version.
#[derive(Debug)]
pub(super) struct Ring {
    limits: RingLimits,
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    /// Every event above this version is in the ring.
    floor: u64,
}

impl Ring {
    /// An empty ring that takes events above `floor`.
    pub fn new(limits: RingLimits, floor: u64) -> Self {
        Self {
            limits,
            events: VecDeque::new(),
            bytes: 0,
            floor,
        }
    }

    /// Appends an event and drops the oldest ones beyond the limits.
    pub fn push(&mut self, event: Arc<Event>) {
        debug_assert!(
            event.rv() > self.newest(),
            "{} after {}",
            event.rv(),
            self.newest()
        );
        self.bytes += weight(&event);
        self.events.push_back(event);
        if let Some(old) = self.events.len().checked_sub(YOUNG + 1) {
            self.events[old].age();
        }
        while self.events.len() > self.limits.events || self.bytes > self.limits.bytes {
            let Some(oldest) = self.events.pop_front() else {
                break;
            };
            self.bytes -= weight(&oldest);
            self.floor = oldest.rv();
        }
    }

    /// Every event above this version is in the ring.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// The newest version that was ever pushed.
    pub fn newest(&self) -> u64 {
        self.events.back().map_or(self.floor, |e| e.rv())
    }

    /// At most `max` events above `rv`, oldest first.
    pub fn after(&self, rv: u64, max: usize) -> Vec<Arc<Event>> {
        let from = self.events.partition_point(|e| e.rv() <= rv);
        self.events.range(from..).take(max).cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.events.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

fn weight(event: &Event) -> usize {
    size_of::<Event>() + event.object.memory()
}
