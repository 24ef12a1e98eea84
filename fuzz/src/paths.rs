//! Paths of requests: the kube-apiserver authorizes by its own reading of them.

use apimachinery::request_info::RequestInfo;
use http::{Method, Uri};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::parts::bounded;

/// The verbs of requests for a resource.
const VERBS: [&str; 10] = [
    "",
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];

/// A method and the target of a request: what is read of it, written as the plainest path, reads
/// the same.
pub fn request_path(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (method, target) = text.split_once(' ').unwrap_or(("GET", text));
    let (Ok(method), Ok(uri)) = (method.parse::<Method>(), target.parse::<Uri>()) else {
        return;
    };
    let info = match RequestInfo::parse(&method, &uri) {
        Ok(info) => info,
        Err(error) => return bounded("an error", error.to_string().len(), data),
    };
    if !info.is_resource_request {
        assert_eq!(info.verb, method.as_str().to_ascii_lowercase());
        let nothing = (&info.api_group, &info.resource, &info.namespace, &info.name);
        let empty = String::new();
        assert_eq!(nothing, (&empty, &empty, &empty, &empty));
        return;
    }
    assert!(VERBS.contains(&info.verb.as_str()), "{}", info.verb);
    assert_eq!(info.is_long_running(), info.verb == "watch");
    again(&method, &info);
}

fn again(method: &Method, info: &RequestInfo) {
    // The verb in the path, a namespace that is itself the resource, and parts that are empty have
    // no other spelling.
    let fourth = info.path.trim_matches('/').split('/').nth(3);
    let special = |part: &str| matches!(part, "watch" | "proxy" | "namespaces");
    if fourth.is_some_and(|part| matches!(part, "watch" | "proxy"))
        || special(&info.resource)
        || info.parts.iter().any(String::is_empty)
    {
        return;
    }
    let escaped = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let mut path = format!(
        "/apis/{}/{}",
        escaped(&info.api_group),
        escaped(&info.version)
    );
    if !info.namespace.is_empty() {
        path.extend(["/namespaces/".to_owned(), escaped(&info.namespace)]);
    }
    for part in &info.parts {
        path.extend(["/".to_owned(), escaped(part)]);
    }
    let query = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(info.query.iter())
        .finish();
    let Ok(uri) = format!("{path}?{query}").parse::<Uri>() else {
        return;
    };
    let plain = RequestInfo::parse(method, &uri).expect("an escaped path is UTF-8");
    let read = |info: &RequestInfo| RequestInfo {
        path: String::new(),
        ..info.clone()
    };
    assert_eq!(read(&plain), read(info), "{path}");
}
