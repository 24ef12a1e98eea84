//! The newest events of a resource in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use super::Event;

/// The amount of the past that is kept in memory, per resource. Older events come from the
/// database.
#[derive(Clone, Copy, Debug)]
pub struct RingLimits {
    /// Most events.
    pub events: usize,
    /// Most bytes, as [`crate::model::StoredObject::memory`] counts them, of the objects after the
    /// events and of those before.
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
    /// The version above which every event is in the ring.
    floor: u64,
}

impl Ring {
    /// Returns an empty ring that takes events above `floor`.
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

    /// Returns the version above which every event is in the ring.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// Returns the newest version that was ever pushed.
    pub fn newest(&self) -> u64 {
        self.events.back().map_or(self.floor, |e| e.rv())
    }

    /// Returns at most `max` events above `rv`, oldest first.
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

/// Returns the memory that an event holds. The object before it may be the one after an earlier
/// event, and counts twice then: it stays when that event leaves.
fn weight(event: &Event) -> usize {
    size_of::<Event>() + event.object.memory() + event.previous.memory()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;
    use crate::cache::{EventType, Previous};
    use crate::model::{Dictionary, Encoded, ObjectKey, StoredObject};

    fn object(rv: u64) -> Arc<StoredObject> {
        let object = json!({"metadata": {"name": "n", "labels": {"app": "web"}}});
        let object = Encoded::from_value(&object, Dictionary::built_in()).unwrap();
        Arc::new(object.into_object(ObjectKey::new("ns", "n"), rv, false))
    }

    fn event(rv: u64) -> Arc<Event> {
        let (type_, previous) = (EventType::Added, Previous::None);
        Arc::new(Event::new(type_, rv, object(rv), previous))
    }

    fn modified(rv: u64, previous: Previous) -> Arc<Event> {
        let type_ = EventType::Modified;
        Arc::new(Event::new(type_, rv, object(rv), previous))
    }

    fn versions(events: &[Arc<Event>]) -> Vec<u64> {
        events.iter().map(|e| e.rv()).collect()
    }

    #[test]
    fn the_oldest_events_leave_and_the_floor_follows() {
        let mut ring = Ring::new(
            RingLimits {
                events: 3,
                bytes: usize::MAX,
            },
            10,
        );
        assert_eq!((ring.floor(), ring.newest()), (10, 10));
        for rv in [12, 15, 16, 20, 21] {
            ring.push(event(rv));
        }
        assert_eq!((ring.floor(), ring.newest(), ring.len()), (15, 21, 3));
        assert_eq!(versions(&ring.after(15, 10)), [16, 20, 21]);
        assert_eq!(versions(&ring.after(17, 1)), [20]);
        assert!(ring.after(21, 10).is_empty());
    }

    #[test]
    fn bytes_are_bounded_as_well() {
        let bytes = 2 * weight(&event(1));
        let mut ring = Ring::new(RingLimits { events: 100, bytes }, 0);
        (1..=5).for_each(|rv| ring.push(event(rv)));
        assert_eq!((ring.floor(), ring.len(), ring.bytes()), (3, 2, bytes));
    }

    #[test]
    fn the_object_before_an_event_counts_as_well() {
        let before = object(1);
        let of_an_object = before.memory();
        let of_labels = before.labels.memory();
        let alone = weight(&event(2));
        assert_eq!(alone, size_of::<Event>() + of_an_object);
        for (previous, more) in [
            (Previous::Known(Arc::clone(&before)), of_an_object),
            (Previous::Labels(before.labels.clone()), of_labels),
            (Previous::Unknown, 0),
            (Previous::None, 0),
        ] {
            assert_eq!(weight(&modified(2, previous)), alone + more);
        }
        let bytes = 4 * of_an_object + 2 * size_of::<Event>();
        let mut ring = Ring::new(RingLimits { events: 100, bytes }, 1);
        for rv in 2..=6 {
            ring.push(modified(rv, Previous::Known(object(rv - 1))));
        }
        assert_eq!((ring.floor(), ring.len(), ring.bytes()), (4, 2, bytes));
    }

    #[test]
    fn encodings_are_shared_while_an_event_is_young() {
        let mut ring = Ring::new(RingLimits::default(), 0);
        ring.push(event(1));
        let first = Arc::clone(&ring.after(0, 1)[0]);
        let encode = |text: &'static str| first.frame("v1", || Ok::<_, ()>(Bytes::from(text)));
        assert_eq!(encode("a").unwrap(), "a");
        assert_eq!(encode("b").unwrap(), "a", "the first encoding serves all");
        assert_eq!(
            first.frame("v2", || Err(())),
            Err(()),
            "each form has its own"
        );
        for rv in 2.. {
            ring.push(event(rv));
            if rv > YOUNG as u64 {
                break;
            }
        }
        assert_eq!(encode("c").unwrap(), "c", "an old event keeps none");
        assert_eq!(encode("d").unwrap(), "d");
    }
}
