//! Answers of a bucket.

use http::{Response, StatusCode, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;

use crate::backup::{Error, error};

/// Longest answer that is read into memory, in bytes: a page of a list has some hundred thousand.
const ANSWER: usize = 8 << 20;

pub(super) async fn text(doing: &'static str, answer: Response<Incoming>) -> Result<String, Error> {
    let body = Limited::new(answer.into_body(), ANSWER).collect().await;
    let body = body.map_err(|error| Error::Answer {
        doing,
        why: error.to_string(),
    })?;
    Ok(String::from_utf8_lossy(&body.to_bytes()).into_owned())
}

pub(super) fn refusal(status: StatusCode, text: &str) -> String {
    let reason = status.canonical_reason().unwrap_or_default();
    match error::of_document(text) {
        why if why.is_empty() => reason.to_owned(),
        why => why,
    }
}

pub(super) fn tag(doing: &'static str, answer: &Response<Incoming>) -> Result<String, Error> {
    let tag = answer.headers().get(header::ETAG);
    let tag = tag.and_then(|tag| tag.to_str().ok());
    tag.map(str::to_owned).ok_or_else(|| Error::Answer {
        doing,
        why: "the answer has no ETag".to_owned(),
    })
}

pub(super) fn length(answer: &Response<Incoming>) -> Option<u64> {
    let length = answer.headers().get(header::CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

pub(super) fn unreadable(doing: &'static str, error: &dyn std::error::Error) -> Error {
    Error::Answer {
        doing,
        why: error.to_string(),
    }
}
