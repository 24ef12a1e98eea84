//! Numbers as Go holds them.

use serde_json::Value;

/// Returns a number the way Go holds it after `1.0` has been written and read back as `1`.
pub(super) fn number(value: f64) -> Value {
    const LIMIT: f64 = 9_007_199_254_740_991.0;
    if value.fract() == 0.0 && value.abs() <= LIMIT {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "whole and within the bounds"
        )]
        return (value as i64).into();
    }
    value.into()
}
