//! Compression of large answers, by the kube-apiserver's rule: only when asked, only above 128 KiB,
//! at the fastest level, never a watch. Bodies are compressed as they are sent, unless they have
//! been joined from pieces that were compressed before.

mod piece;

use std::io::Write;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::response::Response;
use bytes::{Buf, Bytes};
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, VARY};
use http::{HeaderMap, HeaderValue};
use http_body::{Body as HttpBody, Frame};

use super::negotiation::joined;

pub use piece::{Deflater, Joiner, Piece};

/// Size below which bodies are sent as they are.
const THRESHOLD: u64 = 128 * 1024;
/// Most input that is compressed in one step, so that other requests on the thread are not held up.
pub const STEP: usize = 64 * 1024;

/// Returns whether the client takes gzip.
#[must_use]
pub fn accepted(headers: &HeaderMap) -> bool {
    joined(headers, &ACCEPT_ENCODING).split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let gzip = parts
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        gzip && !parts.any(|weight| matches!(weight, "q=0" | "q=0.0" | "q=0.00" | "q=0.000"))
    })
}

/// Compresses an answer if it is large enough; one of unknown size counts as large.
#[must_use]
pub fn compress(response: Response) -> Response {
    let hint = response.body().size_hint();
    let small = hint.exact().is_some_and(|size| size <= THRESHOLD);
    if small || response.headers().contains_key(CONTENT_ENCODING) {
        return response;
    }
    let (mut head, body) = response.into_parts();
    announce(&mut head.headers);
    Response::from_parts(head, Body::new(Gzip::new(body)))
}

/// Sets the headers of an answer that is compressed.
pub fn announce(headers: &mut HeaderMap) {
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(VARY, HeaderValue::from_static("Accept-Encoding"));
}

/// A body that compresses another one as it is read.
struct Gzip {
    inner: Body,
    /// Input that has been received and not compressed yet.
    pending: Bytes,
    /// The encoder; `None` after the end.
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl Gzip {
    fn new(inner: Body) -> Self {
        let encoder = GzEncoder::new(Vec::new(), Compression::fast());
        Self {
            inner,
            pending: Bytes::new(),
            encoder: Some(encoder),
        }
    }

    /// Compresses a step of the pending input; returns the output of it, if any.
    fn step(&mut self) -> std::io::Result<Option<Bytes>> {
        let Some(encoder) = &mut self.encoder else {
            return Ok(None);
        };
        let step = self.pending.len().min(STEP);
        encoder.write_all(&self.pending[..step])?;
        self.pending.advance(step);
        let out = std::mem::take(encoder.get_mut());
        Ok((!out.is_empty()).then(|| out.into()))
    }
}

impl HttpBody for Gzip {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        loop {
            while !self.pending.is_empty() {
                if let Some(out) = self.step().map_err(axum::Error::new)? {
                    return Poll::Ready(Some(Ok(Frame::data(out))));
                }
            }
            if self.encoder.is_none() {
                return Poll::Ready(None);
            }
            let frame = ready!(Pin::new(&mut self.inner).poll_frame(cx));
            let Some(frame) = frame.transpose()? else {
                let Some(encoder) = self.encoder.take() else {
                    continue;
                };
                let rest = encoder.finish().map_err(axum::Error::new)?;
                return Poll::Ready(Some(Ok(Frame::data(rest.into()))));
            };
            if let Ok(data) = frame.into_data() {
                self.pending = data;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use futures::StreamExt;
    use http_body_util::BodyExt;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("gzip", true)]
    #[case("deflate, GZIP;q=0.5", true)]
    #[case("gzip;q=0", false)]
    #[case("identity", false)]
    #[case("*", false)]
    fn asks_for_gzip(#[case] header: &str, #[case] expected: bool) {
        let value = HeaderValue::from_str(header).unwrap();
        assert_eq!(
            accepted(&HeaderMap::from_iter([(ACCEPT_ENCODING, value)])),
            expected
        );
    }

    async fn unpacked(response: Response) -> Vec<u8> {
        assert_eq!(response.headers()[CONTENT_ENCODING], "gzip");
        let packed = response.into_body().collect().await.unwrap().to_bytes();
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(packed.as_ref())
            .read_to_end(&mut plain)
            .unwrap();
        plain
    }

    #[tokio::test]
    async fn compresses_only_large_bodies() {
        let small = compress(Response::new(Body::from(vec![b'x'; 128 * 1024])));
        assert!(!small.headers().contains_key(CONTENT_ENCODING));
        let text: Vec<u8> = (0..600_000_u32)
            .map(|i| (i.wrapping_mul(i) % 251) as u8)
            .collect();
        assert_eq!(
            unpacked(compress(Response::new(Body::from(text.clone())))).await,
            text
        );
        let chunks = futures::stream::iter(text.clone())
            .chunks(7000)
            .map(|chunk| Ok::<_, std::io::Error>(Bytes::from(chunk)));
        assert_eq!(
            unpacked(compress(Response::new(Body::from_stream(chunks)))).await,
            text
        );
    }

    #[tokio::test]
    async fn what_is_compressed_already_stays() {
        let joined = vec![0x1f; 200_000];
        let mut response = Response::new(Body::from(joined.clone()));
        announce(response.headers_mut());
        let same = compress(response);
        assert_eq!(same.headers().get_all(CONTENT_ENCODING).iter().count(), 1);
        assert_eq!(same.headers().get_all(VARY).iter().count(), 1);
        let body = same.into_body().collect().await.unwrap().to_bytes();
        assert!(body == joined);
    }
}
