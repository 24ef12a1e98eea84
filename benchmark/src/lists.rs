//! Lists of the whole base set, of a page, by label, and of metadata alone: plain, and compressed
//! as client-go asks for them.

use super::bodies::{UNIQUE_LABEL, base_name};
use super::book::Book;
use super::client::Request;
use super::measure;
use super::names::namespace;
use super::target::Target;

/// The `Accept` header of metadata lists as JSON.
const METADATA_JSON: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// The same as protobuf, as client-go's metadata informers have it first.
const METADATA_PROTOBUF: &str =
    "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";

/// Returns the requests: name of the metric, query, and number of repetitions in a round.
fn requests(target: &Target, reports: usize) -> [(&'static str, Request, u32); 7] {
    let all = target.all();
    let one = base_name(reports / 2);
    let page = Request::get(format!("{all}?limit=500"));
    let by_label = format!("{all}?labelSelector={UNIQUE_LABEL}%3D{one}");
    let metadata = |accept| Request::get(&all).accepting(accept).compressed();
    [
        ("list", Request::get(&all), 3),
        ("list gzip", Request::get(&all).compressed(), 3),
        ("page", page.clone(), 10),
        ("page gzip", page.compressed(), 10),
        ("label", Request::get(by_label), 20),
        ("metadata json", metadata(METADATA_JSON), 3),
        ("metadata protobuf", metadata(METADATA_PROTOBUF), 3),
    ]
}

/// Measures all of them, all consistent reads.
///
/// # Errors
/// If a request fails, or an answer has another encoding than was asked for.
pub async fn run(book: &mut Book, target: &Target, reports: usize) -> anyhow::Result<()> {
    for (metric, request, times) in requests(target, reports) {
        measure::repeat(book, metric, target, &request, times).await?;
    }
    Ok(())
}

/// Returns an object and the plain answers to the requests that differ: bodies for the null backend,
/// which compresses them itself.
///
/// # Errors
/// If a request fails.
pub async fn record(target: &Target, reports: usize) -> anyhow::Result<[Vec<u8>; 6]> {
    let mut connection = target.endpoint.connect().await?;
    let object = format!("{}/{}", target.collection(&namespace(0)), base_name(0));
    let [list, _, page, _, label, json, protobuf] =
        requests(target, reports).map(|(_, request, _)| request);
    let mut bodies: [Vec<u8>; 6] = std::array::from_fn(|_| Vec::new());
    let wanted = [Request::get(object), list, page, label, json, protobuf];
    for (body, mut request) in bodies.iter_mut().zip(wanted) {
        request.gzip = false;
        *body = connection.send(&request).await?.success()?.body.to_vec();
    }
    Ok(bodies)
}
