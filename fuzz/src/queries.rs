//! Query strings, and the options in them.

use apimachinery::request_info::Query;
use apimachinery::request_info::RequestInfo;
use http::{Method, Uri};
use reports_server::api::options::{ListOptions, WriteKind, WriteOptions, get_version};

use crate::parts::refused;

const KINDS: [WriteKind; 4] = [
    WriteKind::Create,
    WriteKind::Update,
    WriteKind::Patch,
    WriteKind::Apply,
];

/// The part of a URL behind `?`: printed again it reads the same, and every kind of options is read
/// or refused by the rules.
pub fn query(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let query = Query::parse(&text);
    let printed = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(query.iter())
        .finish();
    assert_eq!(Query::parse(&printed), query, "printed as {printed}");
    for kind in KINDS {
        match WriteOptions::parse(&query, kind) {
            Ok(options) => {
                assert!(kind == WriteKind::Apply || !options.force);
                assert!(kind != WriteKind::Apply || !options.field_manager.is_empty());
            }
            Err(error) => refused(&error, &[422], data),
        }
    }
    match get_version(&query) {
        Ok(version) => assert_eq!(
            version.is_none(),
            query.get("resourceVersion").unwrap_or_default().is_empty()
        ),
        Err(error) => refused(&error, &[500], data),
    }
    list(data, &printed);
}

fn list(data: &[u8], printed: &str) {
    for path in ["/apis/g/v1/namespaces/n/things", "/apis/g/v1/things/name"] {
        let Ok(uri) = format!("{path}?{printed}").parse::<Uri>() else {
            continue;
        };
        let info = RequestInfo::parse(&Method::GET, &uri).expect("the path is plain");
        for namespaced in [true, false] {
            match ListOptions::parse(&info, namespaced) {
                Ok(options) => {
                    if !info.name.is_empty() {
                        assert_eq!(options.field_selector.name(), Some(info.name.as_str()));
                    }
                    assert_eq!(
                        options.selects_all(),
                        options.label_selector.is_empty() && options.field_selector.is_empty()
                    );
                }
                Err(error) => refused(&error, &[400, 422], data),
            }
        }
    }
}
