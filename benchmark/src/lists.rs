//! Lists of the whole base set, of a page, and by label.

use super::bodies::{UNIQUE_LABEL, base_name};
use super::book::Book;
use super::client::Request;
use super::measure;
use super::target::Target;

/// Returns the requests: name of the metric, query, and number of repetitions in a round.
fn requests(target: &Target, reports: usize) -> [(&'static str, Request, u32); 3] {
    let all = target.all();
    let one = base_name(reports / 2);
    [
        ("list", Request::get(&all), 3),
        ("page", Request::get(format!("{all}?limit=500")), 10),
        (
            "label",
            Request::get(format!("{all}?labelSelector={UNIQUE_LABEL}%3D{one}")),
            20,
        ),
    ]
}

/// Measures all three, all consistent reads.
///
/// # Errors
/// If a request fails.
pub async fn run(book: &mut Book, target: &Target, reports: usize) -> anyhow::Result<()> {
    for (metric, request, times) in requests(target, reports) {
        measure::repeat(book, metric, target, &request, times).await?;
    }
    Ok(())
}

/// Returns the answers to the three requests, and an object: bodies for the null backend.
///
/// # Errors
/// If a request fails.
pub async fn record(target: &Target, reports: usize) -> anyhow::Result<[Vec<u8>; 4]> {
    let mut connection = target.endpoint.connect().await?;
    let object = format!(
        "{}/{}",
        target.collection(&super::names::namespace(0)),
        base_name(0)
    );
    let mut bodies = vec![
        connection
            .send(&Request::get(object))
            .await?
            .success()?
            .body,
    ];
    for (_, request, _) in requests(target, reports) {
        bodies.push(connection.send(&request).await?.success()?.body);
    }
    let [object, list, page, label] = [0, 1, 2, 3].map(|index| bodies[index].to_vec());
    Ok([object, list, page, label])
}
