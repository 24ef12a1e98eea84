//! Compression of object texts.

use std::cell::RefCell;
use std::io;

use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::zstd_safe::{CCtx, DCtx, ErrorCode, compress_bound, get_error_name};

thread_local! {
    static COMPRESSOR: RefCell<Option<CCtx<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<DCtx<'static>>> = const { RefCell::new(None) };
}

/// Appends `text`, compressed with `dictionary` by this thread's compressor.
pub(super) fn compress(
    text: &[u8],
    dictionary: &EncoderDictionary<'_>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    out.reserve(compress_bound(text.len()));
    let mut end = at_end(out);
    COMPRESSOR.with_borrow_mut(|slot| {
        let context = match slot {
            Some(context) => context,
            None => slot.insert(CCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?),
        };
        let compressed = context.compress_using_cdict(&mut end, text, dictionary.as_cdict());
        compressed.map(drop).map_err(error)
    })
}

/// Appends the `len` bytes that were compressed to `frame`, into memory that is not zeroed before.
pub(super) fn decompress(
    frame: &[u8],
    len: usize,
    dictionary: &DecoderDictionary<'_>,
    out: &mut Vec<u8>,
) -> io::Result<()> {
    out.reserve(len);
    let mut end = at_end(out);
    DECOMPRESSOR.with_borrow_mut(|slot| {
        let context = match slot {
            Some(context) => context,
            None => slot.insert(DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?),
        };
        let text = context.decompress_using_ddict(&mut end, frame, dictionary.as_ddict());
        match text.map_err(error)? {
            n if n == len => Ok(()),
            n => Err(io::Error::other(format!("{n} bytes instead of {len}"))),
        }
    })
}

/// Returns a cursor that writes behind what `out` has.
fn at_end(out: &mut Vec<u8>) -> io::Cursor<&mut Vec<u8>> {
    let start = out.len() as u64;
    let mut end = io::Cursor::new(out);
    end.set_position(start);
    end
}

fn error(code: ErrorCode) -> io::Error {
    io::Error::other(get_error_name(code))
}

#[cfg(test)]
mod tests {
    use super::super::dictionary::Dictionary;
    use super::*;

    fn compressed(text: &str) -> Vec<u8> {
        let mut frame = Vec::new();
        compress(text.as_bytes(), &Dictionary::built_in().encoder, &mut frame).unwrap();
        frame
    }

    fn decompress_to(frame: &[u8], len: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let dictionary = &Dictionary::built_in().decoder.prepared;
        decompress(frame, len, dictionary, out)
    }

    #[test]
    fn a_text_is_appended_in_the_room_that_there_is() {
        for text in ["", "x", &"policy report ".repeat(1000)] {
            let frame = compressed(text);
            for room in [0, 4 + text.len(), 100_000] {
                let mut out = Vec::with_capacity(room);
                out.extend_from_slice(b"head");
                let place = (out.as_ptr(), out.capacity());
                decompress_to(&frame, text.len(), &mut out).unwrap();
                assert_eq!(out, format!("head{text}").into_bytes());
                if room > 0 {
                    assert_eq!((out.as_ptr(), out.capacity()), place);
                }
            }
        }
    }

    #[test]
    fn another_length_is_an_error_whatever_the_room() {
        let frame = compressed("text");
        for (len, room) in [(3, 0), (3, 100), (5, 0), (5, 100)] {
            let mut out = Vec::with_capacity(room);
            assert!(
                decompress_to(&frame, len, &mut out).is_err(),
                "{len} {room}"
            );
        }
    }
}
