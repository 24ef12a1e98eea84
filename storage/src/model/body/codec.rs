//! Compression of object texts in memory. Compressed texts are never stored, so level and
//! dictionary may change with every release.

use std::cell::RefCell;
use std::io;
use std::sync::LazyLock;

use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

/// The level of compression. On Kyverno's reports level 3 is as quick as level 1 (some 40 µs for 12
/// kB) and smaller; level 6 takes three times as long for 18 % less.
const LEVEL: i32 = 3;

/// Text that nearly every report has, so that the compressor need not learn it from each one: a
/// report of 12 kB takes 1.4 kB with it, and 1.9 kB without. The text at the end is the cheapest to
/// refer to.
const DICTIONARY: &[u8] = include_bytes!("dictionary.txt");

static ENCODER: LazyLock<EncoderDictionary<'static>> =
    LazyLock::new(|| EncoderDictionary::copy(DICTIONARY, LEVEL));
static DECODER: LazyLock<DecoderDictionary<'static>> =
    LazyLock::new(|| DecoderDictionary::copy(DICTIONARY));

thread_local! {
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Compresses `text` with this thread's compressor.
pub(super) fn compress(text: &[u8]) -> io::Result<Box<[u8]>> {
    COMPRESSOR.with_borrow_mut(|slot| {
        let compressor = match slot {
            Some(compressor) => compressor,
            None => slot.insert(Compressor::with_prepared_dictionary(&ENCODER)?),
        };
        Ok(compressor.compress(text)?.into_boxed_slice())
    })
}

/// Appends the `len` bytes that were compressed to `frame`, into memory that is not zeroed before.
pub(super) fn decompress(frame: &[u8], len: usize, out: &mut Vec<u8>) -> io::Result<()> {
    out.reserve(len);
    let start = out.len() as u64;
    let mut end = io::Cursor::new(out);
    end.set_position(start);
    DECOMPRESSOR.with_borrow_mut(|slot| {
        let decompressor = match slot {
            Some(decompressor) => decompressor,
            None => slot.insert(Decompressor::with_prepared_dictionary(&DECODER)?),
        };
        match decompressor.decompress_to_buffer(frame, &mut end)? {
            n if n == len => Ok(()),
            n => Err(io::Error::other(format!("{n} bytes instead of {len}"))),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_appended_in_the_room_that_there_is() {
        for text in ["", "x", &"policy report ".repeat(1000)] {
            let frame = compress(text.as_bytes()).unwrap();
            for room in [0, 4 + text.len(), 100_000] {
                let mut out = Vec::with_capacity(room);
                out.extend_from_slice(b"head");
                let place = (out.as_ptr(), out.capacity());
                decompress(&frame, text.len(), &mut out).unwrap();
                assert_eq!(out, format!("head{text}").into_bytes());
                if room > 0 {
                    assert_eq!((out.as_ptr(), out.capacity()), place);
                }
            }
        }
    }

    #[test]
    fn another_length_is_an_error_whatever_the_room() {
        let frame = compress(b"text").unwrap();
        for (len, room) in [(3, 0), (3, 100), (5, 0), (5, 100)] {
            let mut out = Vec::with_capacity(room);
            assert!(decompress(&frame, len, &mut out).is_err(), "{len} {room}");
        }
    }
}
