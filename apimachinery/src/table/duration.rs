//! Ages as kubectl shows them.

use jiff::SignedDuration;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
const YEAR: i64 = 365 * DAY;

/// Returns a duration in two or three significant figures, as `duration.HumanDuration` of
/// `k8s.io/apimachinery` prints it: `5m3s`, `3h4m`, `2d`. Clocks may differ by a second: from -1 s
/// on it is `0s`, before that `<invalid>`.
#[must_use]
pub fn human_duration(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => pair(seconds, MINUTE, "m", 1, "s"),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => pair(seconds, HOUR, "h", MINUTE, "m"),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => pair(seconds, DAY, "d", HOUR, "h"),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => pair(seconds, YEAR, "y", DAY, "d"),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// Returns two units, the smaller left out when it is zero.
fn pair(seconds: i64, large: i64, large_unit: &str, small: i64, small_unit: &str) -> String {
    let (first, second) = (seconds / large, seconds % large / small);
    match second {
        0 => format!("{first}{large_unit}"),
        _ => format!("{first}{large_unit}{second}{small_unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(-2, "<invalid>")]
    #[case(-1, "0s")]
    #[case(0, "0s")]
    #[case(1, "1s")]
    #[case(70, "70s")]
    #[case(119, "119s")]
    #[case(120, "2m")]
    #[case(303, "5m3s")]
    #[case(599, "9m59s")]
    #[case(600, "10m")]
    #[case(10_799, "179m")]
    #[case(10_800, "3h")]
    #[case(11_040, "3h4m")]
    #[case(28_799, "7h59m")]
    #[case(28_800, "8h")]
    #[case(172_799, "47h")]
    #[case(172_800, "2d")]
    #[case(176_400, "2d1h")]
    #[case(691_199, "7d23h")]
    #[case(691_200, "8d")]
    #[case(63_071_999, "729d")]
    #[case(63_072_000, "2y")]
    #[case(63_158_400, "2y1d")]
    #[case(252_288_000, "8y")]
    fn as_kubectl(#[case] seconds: i64, #[case] expected: &str) {
        assert_eq!(human_duration(SignedDuration::from_secs(seconds)), expected);
    }

    #[test]
    fn fractions_are_cut_towards_zero() {
        assert_eq!(human_duration(SignedDuration::from_millis(-1_999)), "0s");
        assert_eq!(human_duration(SignedDuration::from_millis(1_999)), "1s");
    }
}
