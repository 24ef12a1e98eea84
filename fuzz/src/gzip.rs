//! Gzip streams that are joined from pieces.

use std::io::Read;

use flate2::bufread::GzDecoder;
use reports_server::http::gzip::{Deflater, Joiner, Piece};

use crate::parts::{first_line, parts};

/// Most bytes of a text that is repeated.
const MOST: usize = 256 * 1024;
/// Most texts of one input.
const TEXTS: usize = 16;

/// A text, then by turns the text of a piece and a text behind it, each after a line with how often
/// it is repeated. The stream inflates to all of them, and so does one with the same pieces again.
pub fn gzip_pieces(data: &[u8]) {
    let texts = parts(data).into_iter().take(TEXTS);
    let texts: Vec<Vec<u8>> = texts.map(repeated).collect();
    let (head, rest) = texts.split_first().expect("an input has a part");
    let mut deflater = Deflater::default();
    let pieces: Vec<(Piece, &[Vec<u8>])> = rest
        .chunks(2)
        .map(|pair| (deflater.piece(&pair[0]).expect("any text fits"), pair))
        .collect();
    let (mut out, mut text) = (Vec::new(), head.clone());
    let mut joiner = Joiner::begin(&mut out, head);
    for (piece, pair) in pieces.iter().chain(pieces.iter().rev()) {
        let behind = pair.get(1).map_or(&[][..], Vec::as_slice);
        joiner.append(&mut out, piece, behind);
        text.extend_from_slice(&pair[0]);
        text.extend_from_slice(behind);
    }
    joiner.end(&mut out);
    let mut inflated = Vec::new();
    let mut decoder = GzDecoder::new(out.as_slice());
    decoder.read_to_end(&mut inflated).expect("a gzip stream");
    assert!(inflated == text, "another text of {} bytes", inflated.len());
    assert!(decoder.into_inner().is_empty(), "bytes behind the stream");
}

/// Returns the text of a part as often as its first line says.
fn repeated(part: &[u8]) -> Vec<u8> {
    let (line, rest) = first_line(part);
    match line.parse::<usize>() {
        Ok(times) => rest.repeat(times.min(MOST / rest.len().max(1))),
        Err(_) => part.to_vec(),
    }
}
