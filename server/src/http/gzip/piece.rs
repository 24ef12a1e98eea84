//! Gzip streams that are joined from pieces of deflate.
//!
//! A piece is the deflate of one text, made by itself: it refers to nothing before it, and ends at
//! a byte. So the same piece fits into any stream, behind any other. A sync flush ends with an empty
//! stored block; the length of that block is left out of the piece, and whoever joins the pieces
//! puts the text between them into it: one comma takes five bytes.

use std::io;

use flate2::{Compress, Compression, Crc, FlushCompress};

/// Header of a stream: deflate, at the fastest level, without name and time (RFC 1952).
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 255];
/// The last block of a stream: one of fixed codes, without content.
const LAST_BLOCK: [u8; 2] = [0b11, 0];
/// First byte of a stored block that begins at a byte and is not the last.
const STORED: u8 = 0;
/// The length of a stored block without content, and its complement: the end of a sync flush.
const NO_CONTENT: [u8; 4] = [0, 0, 0xff, 0xff];
/// Most content of a stored block.
const MAX_STORED: usize = 0xffff;
/// Room for output beside a quarter of the text.
const ROOM: usize = 1024;

/// A text as a part of streams.
#[derive(Debug)]
pub struct Piece {
    /// Raw deflate, up to where the length of a stored block follows.
    deflate: Box<[u8]>,
    /// Checksum and length of the text.
    crc: Crc,
}

impl Piece {
    /// Returns the memory held, in bytes.
    #[must_use]
    pub fn memory(&self) -> usize {
        size_of::<Self>() + self.deflate.len()
    }
}

/// Makes pieces, one after the other, by one compressor.
#[derive(Debug)]
pub struct Deflater(Compress);

impl Default for Deflater {
    fn default() -> Self {
        Self(Compress::new(Compression::fast(), false))
    }
}

impl Deflater {
    /// Returns the piece of a text.
    ///
    /// # Errors
    /// If the compressor fails, which it does not for any text.
    pub fn piece(&mut self, text: &[u8]) -> io::Result<Piece> {
        let mut deflate = self.flushed(text)?;
        if !deflate.ends_with(&NO_CONTENT) {
            return Err(io::Error::other("a flush without a stored block"));
        }
        deflate.truncate(deflate.len() - NO_CONTENT.len());
        let mut crc = Crc::new();
        crc.update(text);
        Ok(Piece {
            deflate: deflate.into_boxed_slice(),
            crc,
        })
    }

    /// Returns the deflate of a text, ended by a sync flush.
    fn flushed(&mut self, text: &[u8]) -> io::Result<Vec<u8>> {
        self.0.reset();
        let mut out = Vec::with_capacity(text.len() / 4 + ROOM);
        let mut rest = text;
        loop {
            let before = self.0.total_in();
            self.0.compress_vec(rest, &mut out, FlushCompress::Sync)?;
            let taken = usize::try_from(self.0.total_in() - before).unwrap_or(usize::MAX);
            rest = rest.get(taken..).unwrap_or_default();
            // By zlib's contract a flush has ended when it leaves room.
            if out.len() < out.capacity() {
                return Ok(out);
            }
            out.reserve(out.len());
        }
    }
}

/// Joins pieces and the text between them to one stream.
#[derive(Debug)]
pub struct Joiner {
    /// Checksum and length of the text so far.
    crc: Crc,
}

impl Joiner {
    /// Begins a stream with a text.
    #[must_use]
    pub fn begin(out: &mut Vec<u8>, text: &[u8]) -> Self {
        let mut joiner = Self { crc: Crc::new() };
        out.extend_from_slice(&HEADER);
        out.push(STORED);
        joiner.store(out, text);
        joiner
    }

    /// Appends a piece and the text that follows it.
    pub fn append(&mut self, out: &mut Vec<u8>, piece: &Piece, text: &[u8]) {
        out.extend_from_slice(&piece.deflate);
        self.crc.combine(&piece.crc);
        self.store(out, text);
    }

    /// Ends the stream. Nothing may be appended behind it.
    pub fn end(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&LAST_BLOCK);
        out.extend_from_slice(&self.crc.sum().to_le_bytes());
        out.extend_from_slice(&self.crc.amount().to_le_bytes());
    }

    /// Appends a text as the content of the stored block that has begun, and of more where it does
    /// not fit into one.
    fn store(&mut self, out: &mut Vec<u8>, text: &[u8]) {
        self.crc.update(text);
        let mut blocks = text.chunks(MAX_STORED);
        push_content(out, blocks.next().unwrap_or_default());
        for block in blocks {
            out.push(STORED);
            push_content(out, block);
        }
    }
}

/// Appends the content of a stored block, with its length.
fn push_content(out: &mut Vec<u8>, content: &[u8]) {
    let length = u16::try_from(content.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(!length).to_le_bytes());
    out.extend_from_slice(content);
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use flate2::bufread::GzDecoder;
    use proptest::prelude::*;

    use super::*;

    const NOTHING: &[u8] = b"";

    /// A text before all pieces, and each piece with the text behind it.
    fn joined(head: &[u8], pieces: &[(&Piece, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut joiner = Joiner::begin(&mut out, head);
        for (piece, text) in pieces {
            joiner.append(&mut out, piece, text);
        }
        joiner.end(&mut out);
        out
    }

    fn inflated(packed: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        let mut decoder = GzDecoder::new(packed);
        decoder.read_to_end(&mut text).unwrap();
        // One member, and nothing behind it.
        assert_eq!(decoder.into_inner(), NOTHING);
        text
    }

    /// Inflates what comes in parts of this length.
    fn inflated_in_parts(packed: &[u8], length: usize) -> Vec<u8> {
        let mut decoder = flate2::write::GzDecoder::new(Vec::new());
        for part in packed.chunks(length) {
            decoder.write_all(part).unwrap();
        }
        decoder.finish().unwrap()
    }

    /// Bytes that hardly compress.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1_u32;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_le_bytes()[3]
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    #[test]
    fn a_stream_without_pieces_is_its_head() {
        assert_eq!(inflated(&joined(b"", &[])), NOTHING);
        assert_eq!(inflated(&joined(b"[]\n", &[])), b"[]\n");
    }

    #[test]
    fn texts_of_every_size_are_inflated_again() {
        let mut deflater = Deflater::default();
        let (random, repeated) = (noise(3 << 20), b"policy report ".repeat(200_000));
        for length in [0, 1, 2, 257, 258, 259, 65_535, 65_536, 200_000, 2_800_000] {
            for text in [&random[..length], &repeated[..length]] {
                let piece = deflater.piece(text).unwrap();
                let out = joined(NOTHING, &[(&piece, NOTHING)]);
                assert!(inflated(&out) == text, "{length}");
            }
        }
    }

    #[test]
    fn text_between_pieces_may_be_longer_than_a_block() {
        let piece = Deflater::default().piece(b"piece").unwrap();
        for length in [65_534, 65_535, 65_536, 131_070, 131_071, 200_000] {
            let text = noise(length);
            let out = joined(&text, &[(&piece, &text[..]), (&piece, NOTHING)]);
            let want = [&text[..], &b"piece"[..], &text[..], &b"piece"[..]].concat();
            assert!(inflated(&out) == want, "{length}");
        }
    }

    #[test]
    fn a_comma_takes_five_bytes() {
        let piece = Deflater::default().piece(b"{}").unwrap();
        let one = joined(NOTHING, &[(&piece, NOTHING)]);
        let two = joined(NOTHING, &[(&piece, &b","[..]), (&piece, NOTHING)]);
        assert_eq!(two.len() - one.len(), piece.deflate.len() + 5);
    }

    proptest! {
        /// Pieces that were made in any order are joined in any order, each any number of times.
        #[test]
        fn the_text_is_that_of_the_parts(
            texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 1..8),
            order in prop::collection::vec((any::<prop::sample::Index>(), "[,a-z]{0,3}"), 0..20),
            head in "[a-z]{0,20}",
            length in 1..300_usize,
        ) {
            let mut deflater = Deflater::default();
            let pieces: Vec<Piece> =
                texts.iter().map(|text| deflater.piece(text).unwrap()).collect();
            let mut want = head.clone().into_bytes();
            let mut parts: Vec<(&Piece, &[u8])> = Vec::new();
            for (index, behind) in &order {
                let at = index.index(texts.len());
                want.extend_from_slice(&texts[at]);
                want.extend_from_slice(behind.as_bytes());
                parts.push((&pieces[at], behind.as_bytes()));
            }
            let out = joined(head.as_bytes(), &parts);
            prop_assert_eq!(&inflated(&out), &want);
            prop_assert_eq!(&inflated_in_parts(&out, length), &want);
        }
    }
}
