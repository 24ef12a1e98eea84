//! Reads in several steps, as clients make them: a collection page by page, and a watch that begins
//! with all objects.

use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::book::Book;
use super::client::{Request, value_of};
use super::target::Target;
use super::{measure, usage, watches};

/// Objects in a page.
pub const PAGE: usize = 500;
/// Measurements in a round.
const TIMES: u32 = 2;
/// Query of a watch that begins with all objects, as client-go's reflectors send it.
const INITIAL: &str = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                       &allowWatchBookmarks=true&timeoutSeconds=600";
/// The beginning of the event after the last of the objects.
const BOOKMARK: &[u8] = b"{\"type\":\"BOOKMARK\"";
/// Bytes at both ends of a list in which its metadata are.
const EDGE: usize = 1024;

/// Measures both.
///
/// # Errors
/// If a request fails, or not all objects come.
pub async fn run(book: &mut Book, target: &Target, reports: usize) -> anyhow::Result<()> {
    let before = usage::cpu_ms(&target.processes)?;
    for _ in 0..TIMES {
        pages(book, target, reports).await?;
    }
    measure::processors(book, "all pages", target, &before, TIMES)?;
    let before = usage::cpu_ms(&target.processes)?;
    for _ in 0..TIMES {
        let (text, first, whole) = initial(target, reports).await?;
        let system = target.system();
        book.add("watch list", &system, whole);
        book.add("watch list first byte", &system, first);
        eprintln!(
            "  watch list   {system:<20} {whole:.1} ms, first byte {first:.1}, {} bytes",
            text.len()
        );
    }
    measure::processors(book, "watch list", target, &before, TIMES)?;
    Ok(())
}

/// Reads the whole collection page by page and notes the time. Returns the paths of the pages.
///
/// # Errors
/// If a request fails, or there are fewer pages.
pub async fn pages(
    book: &mut Book,
    target: &Target,
    reports: usize,
) -> anyhow::Result<Vec<String>> {
    let mut connection = target.endpoint.connect().await?;
    connection.send(&target.warm()).await?.success()?;
    let first = format!("{}?limit={PAGE}", target.all());
    let mut paths = vec![first.clone()];
    let mut request = Request::get(&first);
    let begun = Instant::now();
    let mut longest: f64 = 0.0;
    // The null backend's pages have no end.
    let most = reports.div_ceil(PAGE);
    for page in 1..=most {
        let reply = connection.send(&request).await?.success()?;
        longest = longest.max(reply.whole.as_secs_f64() * 1000.0);
        if page < most {
            let token = continuation(&reply.body).context("a page has no token for the next")?;
            let path = format!("{first}&continue={token}");
            request = Request::get(&path);
            paths.push(path);
        }
    }
    let whole = begun.elapsed().as_secs_f64() * 1000.0;
    let system = target.system();
    book.add("all pages", &system, whole);
    book.add("all pages longest", &system, longest);
    eprintln!("  all pages    {system:<20} {whole:.1} ms, the longest of {most} {longest:.1}");
    Ok(paths)
}

/// Returns the token for the next page. The list's metadata stand before the items or after them.
#[must_use]
pub fn continuation(body: &[u8]) -> Option<&str> {
    let key = b"\"continue\":\"";
    let head = &body[..body.len().min(EDGE)];
    let tail = &body[body.len().saturating_sub(EDGE)..];
    let token = value_of(tail, key).or_else(|| value_of(head, key))?;
    (!token.is_empty()).then_some(token)
}

/// Opens a watch that begins with all objects and reads until they have all come. Returns the text, and
/// the milliseconds to its first and its last byte.
///
/// # Errors
/// If the watch ends before.
pub async fn initial(target: &Target, reports: usize) -> anyhow::Result<(Vec<u8>, f64, f64)> {
    let mut connection = target.endpoint.connect().await?;
    connection.send(&target.warm()).await?.success()?;
    let begun = Instant::now();
    let ms = || begun.elapsed().as_secs_f64() * 1000.0;
    let mut watch = watches::on(connection, &format!("{}?{INITIAL}", target.all())).await?;
    let (mut text, mut first, mut objects, mut ended) = (Vec::new(), None, 0, false);
    while !ended {
        watch
            .read(|line| {
                first.get_or_insert_with(ms);
                ended |= line.starts_with(BOOKMARK);
                objects += usize::from(!ended);
                text.extend_from_slice(line);
                text.push(b'\n');
            })
            .await?;
    }
    ensure!(
        objects >= reports,
        "a watch began with {objects} of {reports} reports"
    );
    let whole = ms();
    Ok((text, first.unwrap_or(whole), whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case(
        r#"{"metadata":{"continue":"abc","resourceVersion":"1"},"items":[]}"#,
        Some("abc")
    )]
    #[case(
        r#"{"items":[],"metadata":{"resourceVersion":"1","continue":"abc"}}"#,
        Some("abc")
    )]
    #[case(
        r#"{"items":[],"metadata":{"continue":"","resourceVersion":"1"}}"#,
        None
    )]
    #[case(r#"{"items":[],"metadata":{"resourceVersion":"1"}}"#, None)]
    fn tokens_stand_at_either_end(#[case] list: &str, #[case] token: Option<&str>) {
        assert_eq!(continuation(list.as_bytes()), token);
    }

    #[test]
    fn tokens_are_found_before_and_after_long_lists() {
        let items = "x".repeat(3 * EDGE);
        for list in [
            format!(r#"{{"metadata":{{"continue":"abc"}},"items":"{items}"}}"#),
            format!(r#"{{"items":"{items}","metadata":{{"continue":"abc"}}}}"#),
        ] {
            assert_eq!(continuation(list.as_bytes()), Some("abc"));
        }
    }
}
