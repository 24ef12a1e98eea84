//! The text of an object as SQLite keeps it: one byte that tells the dictionary, and a zstd frame.

use std::io;

use serde_json::Value;
use zstd::zstd_safe::get_frame_content_size;

use super::dictionary::Dictionary;
use super::{BodyError, Encoded, codec};

/// The number of the dictionary that is compiled in. What a release has written is read by all that
/// follow, so the text of a dictionary stays as it is: another one gets another number.
const BUILT_IN: u8 = 1;
/// Most bytes of a text; no object is as large by far.
const MAX_TEXT: u64 = 64 << 20;

impl Encoded {
    /// Encodes `object`, with its text as SQLite keeps it.
    pub fn with_packed(object: &Value, dictionary: &Dictionary) -> Result<Self, BodyError> {
        let encoded = Self::from_value(object, dictionary)?;
        Ok(Self {
            packed: Some(pack(&encoded.json)?),
            ..encoded
        })
    }
}

/// Returns a text as it is kept.
///
/// # Errors
/// Only when there is no memory.
pub(crate) fn pack(text: &str) -> io::Result<Box<[u8]>> {
    let mut packed = vec![BUILT_IN];
    codec::compress(
        text.as_bytes(),
        &Dictionary::built_in().encoder,
        &mut packed,
    )?;
    // A copy takes no more memory than it needs.
    Ok(packed.as_slice().into())
}

/// Returns the text that [`pack`] was given. What begins as a JSON object does is a text from before
/// texts were packed.
///
/// # Errors
/// If it is neither.
pub(crate) fn unpack(packed: &[u8]) -> io::Result<String> {
    let text = match packed {
        [b'{', ..] => packed.to_vec(),
        [BUILT_IN, frame @ ..] => unpack_frame(frame)?,
        [number, ..] => {
            let message = format!("a text with the dictionary {number}, which is not known here");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        [] => return Err(io::ErrorKind::UnexpectedEof.into()),
    };
    String::from_utf8(text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn unpack_frame(frame: &[u8]) -> io::Result<Vec<u8>> {
    let len = get_frame_content_size(frame).ok().flatten();
    let len = len.filter(|len| *len <= MAX_TEXT).map(usize::try_from);
    let Some(Ok(len)) = len else {
        let message = "a frame that does not tell the length of its text";
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    };
    let mut text = Vec::new();
    let dictionary = &Dictionary::built_in().decoder.prepared;
    codec::decompress(frame, len, dictionary, &mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use sha2::{Digest as _, Sha256};

    use super::super::dictionary;
    use super::*;

    #[test]
    fn a_text_comes_back() {
        let long = format!("{{\"message\":\"{}\"}}", "policy ".repeat(10_000));
        for text in ["", "{}", "no object", &long] {
            assert_eq!(unpack(&pack(text).unwrap()).unwrap(), text);
        }
        assert!(pack(&long).unwrap().len() < 100);
    }

    #[test]
    fn a_text_from_before_is_as_it_is() {
        assert_eq!(unpack(b"{\"a\":1}").unwrap(), "{\"a\":1}");
    }

    #[test]
    fn anything_else_is_refused() {
        let packed = pack("a text").unwrap();
        for cut in 0..packed.len() {
            assert!(unpack(&packed[..cut]).is_err(), "{cut}");
        }
        for number in [0, 2, b'[', 255] {
            let mut other = packed.to_vec();
            other[0] = number;
            let error = unpack(&other).unwrap_err().to_string();
            assert!(error.contains(&number.to_string()), "{error}");
        }
        assert!(unpack(b"{\xff}").is_err());
        // A frame of 2^62 bytes, if one believes it.
        let huge = [1, 0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x40];
        assert!(unpack(&huge).is_err());
    }

    /// A database of any release has texts that were compressed with it; with another one they would
    /// be read as other texts.
    #[test]
    fn the_dictionary_stays_as_it_is() {
        let digest = hex::encode(Sha256::digest(dictionary::BUILT_IN));
        assert_eq!(
            digest,
            "3feab61fcc813655ed0cf9757fa7713ab159d2e80415c72d9a92f2b8bdd4b845"
        );
    }
}
