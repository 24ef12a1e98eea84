//! The events of another server, cut where one ends and the next begins. Pure.

use bytes::{Bytes, BytesMut};

/// Most bytes of one event. Objects in etcd are smaller by far.
const MOST: usize = 64 << 20;
/// The bytes of the length of an event in protobuf.
const LENGTH: usize = 4;
/// The beginning of an error, of a line and in protobuf behind the length.
const ERROR: (&[u8], &[u8]) = (br#"{"type":"ERROR""#, b"\x0a\x05ERROR");

/// The bytes of a watch that have come, up to those that are taken.
pub struct Framing {
    protobuf: bool,
    buffer: BytesMut,
}

/// The events that are whole.
#[derive(Debug, PartialEq, Eq)]
pub struct Whole {
    /// Their bytes.
    pub events: Bytes,
    /// True when no more may be taken: the next event is an error, or none at all.
    pub last: bool,
}

impl Framing {
    /// Returns the framing of a watch without bytes: of lines, or of protobuf.
    pub fn new(protobuf: bool) -> Self {
        Self {
            protobuf,
            buffer: BytesMut::new(),
        }
    }

    /// Adds bytes, and takes the events that are whole by then.
    pub fn take(&mut self, bytes: &[u8]) -> Whole {
        self.buffer.extend_from_slice(bytes);
        let mut end = 0;
        let last = loop {
            let rest = &self.buffer[end..];
            match self.length(rest) {
                None => break rest.len() > MOST,
                Some(length) if length > MOST || self.is_error(&rest[..length.min(rest.len())]) => {
                    break true;
                }
                Some(length) if length > rest.len() => break false,
                Some(length) => end += length,
            }
        };
        let events = self.buffer.split_to(end).freeze();
        Whole { events, last }
    }

    /// Returns the length of the first event, where that is known.
    fn length(&self, bytes: &[u8]) -> Option<usize> {
        if !self.protobuf {
            return Some(bytes.iter().position(|byte| *byte == b'\n')? + 1);
        }
        let (length, _) = bytes.split_first_chunk::<LENGTH>()?;
        usize::try_from(u32::from_be_bytes(*length))
            .ok()?
            .checked_add(LENGTH)
    }

    fn is_error(&self, event: &[u8]) -> bool {
        if self.protobuf {
            event
                .get(LENGTH..)
                .is_some_and(|event| event.starts_with(ERROR.1))
        } else {
            event.starts_with(ERROR.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use apimachinery::protobuf;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    const ADDED: &[u8] = b"{\"type\":\"ADDED\",\"object\":{\"a\":\"ERROR\"}}\n";
    const FAILED: &[u8] = b"{\"type\":\"ERROR\",\"object\":{\"code\":410}}\n";

    fn framed(type_: &str) -> Vec<u8> {
        let object =
            json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 410});
        protobuf::event(type_, &protobuf::document(&object).unwrap())
    }

    /// Feeds the bytes in pieces of a size; returns all that is taken, and whether it was the last.
    fn fed(protobuf: bool, bytes: &[u8], size: usize) -> (Vec<u8>, bool) {
        let mut framing = Framing::new(protobuf);
        let mut events = Vec::new();
        for piece in bytes.chunks(size) {
            let whole = framing.take(piece);
            events.extend_from_slice(&whole.events);
            if whole.last {
                return (events, true);
            }
        }
        (events, false)
    }

    #[rstest]
    fn only_whole_events_are_taken(#[values(1, 2, 7, 1000)] size: usize) {
        for (protobuf, event) in [(false, ADDED.to_vec()), (true, framed("ADDED"))] {
            let two = [event.clone(), event.clone()].concat();
            assert_eq!(fed(protobuf, &two, size), (two.clone(), false));
            let cut = &two[..two.len() - 1];
            assert_eq!(fed(protobuf, cut, size), (event, false));
        }
    }

    #[rstest]
    fn an_error_is_the_end_and_is_not_taken(#[values(1, 2, 7, 1000)] size: usize) {
        let lines = [ADDED, FAILED, ADDED].concat();
        assert_eq!(fed(false, &lines, size), (ADDED.to_vec(), true));
        let added = framed("ADDED");
        let frames = [added.clone(), framed("ERROR"), added.clone()].concat();
        assert_eq!(fed(true, &frames, size), (added, true));
    }

    #[test]
    fn a_length_beyond_all_bounds_is_the_end() {
        assert_eq!(fed(true, &[0xff; 5], 1), (Vec::new(), true));
    }
}
