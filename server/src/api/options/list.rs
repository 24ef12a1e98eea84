//! `ListOptions` of list, watch and deletecollection, and `GetOptions`.

use std::time::Duration;

use apimachinery::error::ApiError;
use apimachinery::request_info::Query;
use apimachinery::request_info::RequestInfo;
use apimachinery::schema::FieldError;
use apimachinery::selector::{FieldSelector, LabelSelector};

use super::check::check;
use super::param;

/// The meaning of `resourceVersion`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionMatch {
    /// Data at least as new.
    NotOlderThan,
    /// Data of exactly that version.
    Exact,
}

/// Options of list, watch and deletecollection.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListOptions {
    /// Selector of the labels of the objects.
    pub label_selector: LabelSelector,
    /// Selector of the names and namespaces of the objects.
    pub field_selector: FieldSelector,
    /// `resourceVersion` as it was given; empty when it was not.
    pub resource_version: String,
    /// `resourceVersionMatch`.
    pub version_match: Option<VersionMatch>,
    /// Most objects in the answer; 0 for all of them.
    pub limit: usize,
    /// Token of the next page; empty for the first.
    pub continue_token: String,
    /// True when the query asks for a watch.
    pub watch: bool,
    /// The longest duration of a watch; `None` when the query does not say. Zero for a negative
    /// number.
    pub timeout: Option<Duration>,
    /// True when a watch sends bookmarks.
    pub allow_watch_bookmarks: bool,
    /// True when a watch begins with the objects that are there.
    pub send_initial_events: Option<bool>,
}

impl ListOptions {
    /// Reads and validates the query of a list, watch or deletecollection.
    ///
    /// # Errors
    /// 400 for parameters that cannot be read, for selectors and for a name that contradicts the
    /// path; 422 for combinations that are not allowed.
    pub fn parse(info: &RequestInfo, namespaced: bool) -> Result<Self, ApiError> {
        let query = &info.query;
        let bad =
            |error: apimachinery::selector::SelectorError| ApiError::bad_request(error.to_string());
        let mut options = Self {
            label_selector: LabelSelector::parse(&param::text(query, "labelSelector"))
                .map_err(bad)?,
            resource_version: param::text(query, "resourceVersion"),
            limit: usize::try_from(param::int64(query, "limit")?.unwrap_or(0)).unwrap_or(0),
            continue_token: param::text(query, "continue"),
            watch: param::boolean(query, "watch").unwrap_or(false),
            timeout: param::int64(query, "timeoutSeconds")?
                .map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0))),
            allow_watch_bookmarks: param::boolean(query, "allowWatchBookmarks").unwrap_or(false),
            send_initial_events: param::boolean(query, "sendInitialEvents"),
            ..Self::default()
        };
        let version_match = param::text(query, "resourceVersionMatch");
        options.set_defaults(&version_match);
        let errors = if options.watch {
            options.watch_errors(&version_match)
        } else {
            options.list_errors(&version_match)
        };
        check("ListOptions", &errors)?;
        options.version_match = options.version_match.or(parse_match(&version_match));
        options.field_selector = field_selector(info, namespaced)?;
        Ok(options)
    }

    /// Sets the defaults: a watch without a version begins with the objects that are there.
    fn set_defaults(&mut self, version_match: &str) {
        let legacy = matches!(self.resource_version.as_str(), "" | "0");
        if self.watch && legacy && self.send_initial_events.is_none() && version_match.is_empty() {
            self.send_initial_events = Some(true);
            self.version_match = Some(VersionMatch::NotOlderThan);
        }
    }

    fn list_errors(&self, version_match: &str) -> Vec<FieldError> {
        const FIELD: &str = "resourceVersionMatch";
        let mut errors = Vec::new();
        if !version_match.is_empty() {
            if self.resource_version.is_empty() {
                let detail = "resourceVersionMatch is forbidden unless resourceVersion is provided";
                errors.push(FieldError::forbidden(FIELD, detail));
            }
            if !self.continue_token.is_empty() {
                let detail = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(FieldError::forbidden(FIELD, detail));
            }
            if parse_match(version_match).is_none() {
                let allowed = ["Exact", "NotOlderThan", ""];
                errors.push(FieldError::not_supported(FIELD, version_match, &allowed));
            }
            if version_match == "Exact" && self.resource_version == "0" {
                let detail =
                    "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
                errors.push(FieldError::forbidden(FIELD, detail));
            }
        }
        if self.send_initial_events.is_some() {
            let detail = "sendInitialEvents is forbidden for list";
            errors.push(FieldError::forbidden("sendInitialEvents", detail));
        }
        errors
    }

    fn watch_errors(&self, version_match: &str) -> Vec<FieldError> {
        const FIELD: &str = "resourceVersionMatch";
        let mut errors = Vec::new();
        let not_older = version_match == "NotOlderThan" || self.version_match.is_some();
        if self.send_initial_events.is_some() && !not_older {
            let detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
            errors.push(FieldError::forbidden(FIELD, detail));
        }
        if !version_match.is_empty() {
            if self.send_initial_events.is_none() {
                let detail = "resourceVersionMatch is forbidden for watch unless \
                              sendInitialEvents is provided";
                errors.push(FieldError::forbidden(FIELD, detail));
            }
            if version_match != "NotOlderThan" {
                errors.push(FieldError::not_supported(
                    FIELD,
                    version_match,
                    &["NotOlderThan"],
                ));
            }
            if !self.continue_token.is_empty() {
                let detail = "resourceVersionMatch is forbidden when continue is provided";
                errors.push(FieldError::forbidden(FIELD, detail));
            }
        }
        errors
    }

    /// Returns whether no object is left out.
    #[must_use]
    pub fn selects_all(&self) -> bool {
        self.label_selector.is_empty() && self.field_selector.is_empty()
    }
}

fn parse_match(text: &str) -> Option<VersionMatch> {
    match text {
        "NotOlderThan" => Some(VersionMatch::NotOlderThan),
        "Exact" => Some(VersionMatch::Exact),
        _ => None,
    }
}

/// Returns the field selector; a name in the path counts as one, and must not contradict another.
fn field_selector(info: &RequestInfo, namespaced: bool) -> Result<FieldSelector, ApiError> {
    let selector = FieldSelector::parse(&param::text(&info.query, "fieldSelector"), namespaced)
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    if info.name.is_empty() {
        return Ok(selector);
    }
    if selector.is_empty() {
        return Ok(FieldSelector::for_name(&info.name));
    }
    if selector.name() != Some(info.name.as_str()) {
        let message = "fieldSelector metadata.name doesn't match requested name";
        return Err(ApiError::bad_request(message));
    }
    Ok(selector)
}

/// Returns the `resourceVersion` of a get: `None` for the newest state, 0 for any state.
///
/// # Errors
/// 500, as the kube-apiserver answers, for a text that is no number.
pub fn get_version(query: &Query) -> Result<Option<u64>, ApiError> {
    let text = param::text(query, "resourceVersion");
    if text.is_empty() {
        return Ok(None);
    }
    param::parse_uint(&text).map(Some).map_err(|error| {
        let error = FieldError::invalid("resourceVersion", text.as_str(), error);
        crate::registry::unknown_error(error.to_string())
    })
}

#[cfg(test)]
mod tests {
    use http::Method;
    use rstest::rstest;

    use super::*;

    const LIST: &str = "/apis/g/v1/namespaces/d/things";

    fn parse(path: &str, query: &str) -> Result<ListOptions, ApiError> {
        let uri = format!("{path}?{query}").parse().unwrap();
        ListOptions::parse(&RequestInfo::parse(&Method::GET, &uri).unwrap(), true)
    }

    #[test]
    fn a_reflectors_watch() {
        let options = parse(
            LIST,
            "watch=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan\
             &sendInitialEvents=true&timeoutSeconds=300",
        )
        .unwrap();
        assert!(options.watch && options.allow_watch_bookmarks);
        assert_eq!(options.send_initial_events, Some(true));
        assert_eq!(options.version_match, Some(VersionMatch::NotOlderThan));
        assert_eq!(options.timeout, Some(Duration::from_mins(5)));
    }

    #[rstest]
    #[case("watch=1", Some(true))]
    #[case("watch=1&resourceVersion=0", Some(true))]
    #[case("watch=1&resourceVersion=5", None)]
    #[case(
        "watch=1&sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
        Some(false)
    )]
    fn initial_events(#[case] query: &str, #[case] expected: Option<bool>) {
        assert_eq!(parse(LIST, query).unwrap().send_initial_events, expected);
    }

    #[rstest]
    #[case(
        "resourceVersionMatch=Exact",
        422,
        "forbidden unless resourceVersion is provided"
    )]
    #[case(
        "resourceVersion=0&resourceVersionMatch=Exact",
        422,
        "forbidden for resourceVersion \"0\""
    )]
    #[case(
        "resourceVersion=1&resourceVersionMatch=Near",
        422,
        "Unsupported value: \"Near\""
    )]
    #[case(
        "resourceVersion=1&resourceVersionMatch=Exact&continue=x",
        422,
        "forbidden when continue is provided"
    )]
    #[case(
        "sendInitialEvents=true",
        422,
        "sendInitialEvents is forbidden for list"
    )]
    #[case(
        "watch=1&sendInitialEvents=true",
        422,
        "requires setting resourceVersionMatch"
    )]
    #[case(
        "watch=1&resourceVersionMatch=NotOlderThan&resourceVersion=1",
        422,
        "forbidden for watch unless sendInitialEvents is provided"
    )]
    #[case(
        "watch=1&resourceVersionMatch=Exact&sendInitialEvents=true",
        422,
        "Unsupported value: \"Exact\": supported values: \"NotOlderThan\""
    )]
    #[case("limit=abc", 400, "strconv.ParseInt: parsing \"abc\": invalid syntax")]
    #[case("timeoutSeconds=x", 400, "invalid syntax")]
    #[case("labelSelector=a+in", 400, "")]
    #[case("fieldSelector=spec.x%3D1", 400, "field label not supported: spec.x")]
    fn refused(#[case] query: &str, #[case] code: u16, #[case] words: &str) {
        let error = parse(LIST, query).unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }

    #[test]
    fn a_name_in_the_path_is_a_selector() {
        let path = "/apis/g/v1/namespaces/d/things/n";
        let selector = |query| parse(path, query).map(|o| o.field_selector);
        assert_eq!(selector("watch=1"), Ok(FieldSelector::for_name("n")));
        assert_eq!(
            selector("watch=1&fieldSelector=metadata.name%3Dn"),
            Ok(FieldSelector::for_name("n"))
        );
        let error = selector("watch=1&fieldSelector=metadata.name%3Dm").unwrap_err();
        assert_eq!(
            error.to_string(),
            "fieldSelector metadata.name doesn't match requested name"
        );
    }

    #[test]
    fn negative_limits_and_timeouts() {
        let options = parse(LIST, "limit=-1&timeoutSeconds=-1").unwrap();
        assert_eq!((options.limit, options.timeout), (0, Some(Duration::ZERO)));
    }

    #[rstest]
    #[case("", None)]
    #[case("resourceVersion=0", Some(0))]
    #[case("resourceVersion=7", Some(7))]
    fn versions_of_get(#[case] query: &str, #[case] expected: Option<u64>) {
        assert_eq!(get_version(&Query::parse(query)).unwrap(), expected);
    }

    #[test]
    fn no_version_of_get() {
        let error = get_version(&Query::parse("resourceVersion=x")).unwrap_err();
        assert_eq!(error.code(), 500);
        assert!(
            error
                .to_string()
                .starts_with("resourceVersion: Invalid value: \"x\": strconv")
        );
    }
}
