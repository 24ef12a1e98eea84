//! Conversion of query parameters, with the texts of Go's `strconv`.

use apimachinery::error::ApiError;
use apimachinery::request_info::Query;
use fieldmanager::go::quote;

/// Returns a 64-bit number; `None` when the parameter is absent.
///
/// # Errors
/// 400 when it is no number or out of range.
pub fn int64(query: &Query, name: &str) -> Result<Option<i64>, ApiError> {
    query
        .get(name)
        .map(|text| parse_int(text).map_err(ApiError::bad_request))
        .transpose()
}

/// Returns a boolean; `None` when the parameter is absent.
#[must_use]
pub fn boolean(query: &Query, name: &str) -> Option<bool> {
    query
        .get(name)
        .map(|text| text != "0" && !text.eq_ignore_ascii_case("false"))
}

/// Returns the text of a parameter, empty when it is absent.
pub fn text(query: &Query, name: &str) -> String {
    query.get(name).unwrap_or_default().to_owned()
}

/// Returns a number as Go's `strconv.ParseInt` reads it, or its error.
fn parse_int(text: &str) -> Result<i64, String> {
    text.parse().map_err(|error: std::num::ParseIntError| {
        format!(
            "strconv.ParseInt: parsing {}: {}",
            quote(text),
            reason(&error)
        )
    })
}

/// Returns a number as Go's `strconv.ParseUint` reads it, or its error.
///
/// # Errors
/// The text of Go's error.
pub fn parse_uint(text: &str) -> Result<u64, String> {
    // Rust takes a leading plus sign, Go does not.
    let parsed = if text.starts_with('+') {
        "+".parse()
    } else {
        text.parse()
    };
    parsed.map_err(|error: std::num::ParseIntError| {
        format!(
            "strconv.ParseUint: parsing {}: {}",
            quote(text),
            reason(&error)
        )
    })
}

fn reason(error: &std::num::ParseIntError) -> &'static str {
    use std::num::IntErrorKind::{NegOverflow, PosOverflow};
    match error.kind() {
        PosOverflow | NegOverflow => "value out of range",
        _ => "invalid syntax",
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("limit=5", Some(5))]
    #[case("limit=-5", Some(-5))]
    #[case("limit=1&limit=2", Some(1))]
    #[case("", None)]
    fn numbers(#[case] query: &str, #[case] expected: Option<i64>) {
        assert_eq!(int64(&Query::parse(query), "limit").unwrap(), expected);
    }

    #[rstest]
    #[case("limit=abc", "strconv.ParseInt: parsing \"abc\": invalid syntax")]
    #[case("limit=", "strconv.ParseInt: parsing \"\": invalid syntax")]
    #[case("limit=1.5", "strconv.ParseInt: parsing \"1.5\": invalid syntax")]
    #[case(
        "limit=9223372036854775808",
        "strconv.ParseInt: parsing \"9223372036854775808\": value out of range"
    )]
    fn no_numbers(#[case] query: &str, #[case] expected: &str) {
        let error = int64(&Query::parse(query), "limit").unwrap_err();
        assert_eq!(
            (error.code(), error.to_string()),
            (400, expected.to_owned())
        );
    }

    #[rstest]
    #[case("1", Ok(1))]
    #[case("+1", Err("invalid syntax"))]
    #[case("-1", Err("invalid syntax"))]
    #[case("18446744073709551616", Err("value out of range"))]
    fn unsigned(#[case] text: &str, #[case] expected: Result<u64, &str>) {
        match (parse_uint(text), expected) {
            (Ok(got), Ok(want)) => assert_eq!(got, want),
            (Err(got), Err(want)) => assert!(got.ends_with(want), "{got}"),
            (got, want) => panic!("{got:?} but {want:?}"),
        }
    }

    #[rstest]
    #[case("watch=1", Some(true))]
    #[case("watch=", Some(true))]
    #[case("watch=False", Some(false))]
    #[case("watch=0", Some(false))]
    #[case("other=1", None)]
    fn booleans(#[case] query: &str, #[case] expected: Option<bool>) {
        assert_eq!(boolean(&Query::parse(query), "watch"), expected);
    }
}
