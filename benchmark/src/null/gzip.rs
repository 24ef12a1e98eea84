//! Compression as the servers do it: above the same size, at the same level, while the answer is
//! sent.

use std::io::Write as _;
use std::vec::IntoIter;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::Stream;
use futures::stream::unfold;
use http::{HeaderMap, header};

/// Size up to which bodies are sent as they are.
const THRESHOLD: usize = 128 * 1024;

/// The rest of the text, and the encoder until it has ended.
type State = (IntoIter<Bytes>, Option<GzEncoder<Vec<u8>>>);

/// Returns whether an answer of these chunks is compressed for this client.
pub(super) fn is_wanted(headers: &HeaderMap, chunks: &[Bytes]) -> bool {
    let accepted = headers.get(header::ACCEPT_ENCODING);
    let accepted = accepted.and_then(|value| value.to_str().ok());
    let size: usize = chunks.iter().map(Bytes::len).sum();
    accepted.is_some_and(|codings| codings.contains("gzip")) && size > THRESHOLD
}

/// Returns the compressed text, piece by piece.
pub(super) fn compressed(chunks: Vec<Bytes>) -> impl Stream<Item = Bytes> + Send + use<> {
    let encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let begin: State = (chunks.into_iter(), Some(encoder));
    unfold(begin, |state| std::future::ready(step(state)))
}

/// Returns the next piece; `None` at the end.
fn step((mut chunks, encoder): State) -> Option<(Bytes, State)> {
    let mut encoder = encoder?;
    while let Some(chunk) = chunks.next() {
        encoder.write_all(&chunk).ok()?;
        let piece = std::mem::take(encoder.get_mut());
        // The encoder may keep what it is given.
        if !piece.is_empty() {
            return Some((piece.into(), (chunks, Some(encoder))));
        }
    }
    let rest = encoder.finish().ok()?;
    Some((rest.into(), (chunks, None)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use futures::StreamExt as _;
    use http::HeaderValue;
    use std::io::Read as _;

    #[tokio::test]
    async fn the_pieces_inflate_to_the_text() {
        let chunks: Vec<Bytes> = (0..40)
            .map(|number: u32| Bytes::from(format!("{number:04}").repeat(10_000)))
            .collect();
        let pieces: Vec<Bytes> = compressed(chunks.clone()).collect().await;
        let packed = pieces.concat();
        let mut text = Vec::new();
        GzDecoder::new(packed.as_slice())
            .read_to_end(&mut text)
            .unwrap();
        assert!(text == chunks.concat(), "the text is another one");
    }

    #[test]
    fn only_large_answers_are_compressed_and_only_when_asked_for() {
        let mut headers = HeaderMap::new();
        let large = [Bytes::from(vec![b'x'; THRESHOLD + 1])];
        assert!(!is_wanted(&headers, &large));
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        assert!(is_wanted(&headers, &large));
        assert!(!is_wanted(&headers, &[Bytes::from_static(b"small")]));
    }
}
