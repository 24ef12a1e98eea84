//! The version at which a list is read: the matrix of `resourceVersion`, `resourceVersionMatch`,
//! `limit` and `continue` (<https://kubernetes.io/docs/reference/using-api/api-concepts>). Pure.

use apimachinery::error::ApiError;
use apimachinery::schema::FieldError;

use super::options::{ListOptions, VersionMatch, parse_uint};
use super::token::Continue;

/// The version of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// The newest committed state.
    Newest,
    /// Any state that is available.
    Any,
    /// A state at least as new as this.
    NotOlderThan(u64),
    /// Exactly this state.
    Exactly(u64),
}

/// The version and the part in which a list is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The version.
    pub version: Version,
    /// Most objects; 0 for all.
    pub limit: usize,
    /// The place where the list begins, if not at the first object.
    pub from: Option<Continue>,
}

/// Reads the options of a list. `one` says that it can hold one object alone: a kube-apiserver
/// reads that by its key, where a limit does not make a version an exact one.
///
/// # Errors
/// 400 for a version or token that cannot be read, or both together.
pub fn plan(options: &ListOptions, one: bool) -> Result<Plan, ApiError> {
    let given = options.resource_version.as_str();
    if !options.continue_token.is_empty() {
        let from = Continue::decode(&options.continue_token)
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        if !matches!(given, "" | "0") {
            return Err(ApiError::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let version = from.rv.map_or(Version::Newest, Version::Exactly);
        return Ok(Plan {
            version,
            limit: options.limit,
            from: Some(from),
        });
    }
    if given.is_empty() {
        return Ok(Plan {
            version: Version::Newest,
            limit: options.limit,
            from: None,
        });
    }
    let rv = parse_uint(given).map_err(|error| {
        let error = FieldError::invalid("resourceVersion", given, error);
        ApiError::bad_request(format!("invalid resource version: {error}"))
    })?;
    let version = match (rv, options.version_match) {
        (0, _) => Version::Any,
        (rv, Some(VersionMatch::Exact)) => Version::Exactly(rv),
        // Before there was resourceVersionMatch, a limit meant the exact version.
        (rv, None) if options.limit > 0 && !one => Version::Exactly(rv),
        (rv, Some(VersionMatch::NotOlderThan) | None) => Version::NotOlderThan(rv),
    };
    // The kube-apiserver answers version 0 from its cache, which does not page.
    let limit = if version == Version::Any {
        0
    } else {
        options.limit
    };
    Ok(Plan {
        version,
        limit,
        from: None,
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn options(rv: &str, version_match: Option<VersionMatch>, limit: usize) -> ListOptions {
        ListOptions {
            resource_version: rv.to_owned(),
            version_match,
            limit,
            ..ListOptions::default()
        }
    }

    const EXACT: Option<VersionMatch> = Some(VersionMatch::Exact);
    const NOT_OLDER: Option<VersionMatch> = Some(VersionMatch::NotOlderThan);

    #[rstest]
    #[case("", None, 0, Version::Newest, 0)]
    #[case("", None, 5, Version::Newest, 5)]
    #[case("0", None, 5, Version::Any, 0)]
    #[case("0", NOT_OLDER, 5, Version::Any, 0)]
    #[case("7", None, 0, Version::NotOlderThan(7), 0)]
    #[case("7", None, 5, Version::Exactly(7), 5)]
    #[case("7", NOT_OLDER, 5, Version::NotOlderThan(7), 5)]
    #[case("7", EXACT, 0, Version::Exactly(7), 0)]
    fn matrix(
        #[case] rv: &str,
        #[case] version_match: Option<VersionMatch>,
        #[case] limit: usize,
        #[case] version: Version,
        #[case] paged: usize,
    ) {
        let plan = plan(&options(rv, version_match, limit), false).unwrap();
        assert_eq!(
            plan,
            Plan {
                version,
                limit: paged,
                from: None
            }
        );
    }

    #[rstest]
    #[case(None, Version::NotOlderThan(7))]
    #[case(NOT_OLDER, Version::NotOlderThan(7))]
    #[case(EXACT, Version::Exactly(7))]
    fn one_object_and_a_limit(
        #[case] version_match: Option<VersionMatch>,
        #[case] version: Version,
    ) {
        let plan = plan(&options("7", version_match, 5), true).unwrap();
        assert_eq!((plan.version, plan.limit), (version, 5));
    }

    #[test]
    fn tokens_bring_their_version() {
        let with = |rv: Option<u64>, given: &str| {
            let token = Continue::after(rv, "a").encode();
            let options = ListOptions {
                continue_token: token,
                ..options(given, None, 5)
            };
            plan(&options, false)
        };
        assert_eq!(with(Some(9), "").unwrap().version, Version::Exactly(9));
        assert_eq!(with(Some(9), "0").unwrap().version, Version::Exactly(9));
        assert_eq!(with(None, "").unwrap().version, Version::Newest);
        assert_eq!(
            with(Some(9), "7").unwrap_err().to_string(),
            "specifying resource version is not allowed when using continue"
        );
    }

    #[test]
    fn nonsense_is_a_bad_request() {
        let error = plan(&options("x", None, 0), false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "invalid resource version: resourceVersion: Invalid value: \"x\": \
             strconv.ParseUint: parsing \"x\": invalid syntax"
        );
        let unreadable = ListOptions {
            continue_token: "?".to_owned(),
            ..options("", None, 0)
        };
        let error = plan(&unreadable, false);
        assert_eq!(error.unwrap_err().code(), 400);
    }
}
