//! Kubernetes quantities as bytes.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Binary and decimal suffixes, each with its factor.
const SUFFIXES: [(&str, f64); 14] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("Ei", 1_152_921_504_606_846_976.0),
    ("m", 1e-3),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
    ("", 1.0),
];

/// Returns whole bytes, rounded down; none for a text that is no quantity or negative. Exact up to
/// 2^53 (8 PiB).
#[must_use]
pub fn bytes(quantity: &Quantity) -> Option<u64> {
    let text = quantity.0.trim();
    let (number, factor) = SUFFIXES.iter().find_map(|(suffix, factor)| {
        let number = text.strip_suffix(suffix)?;
        number.parse::<f64>().ok().map(|number| (number, factor))
    })?;
    let value = (number * factor).floor();
    if !(0.0..9.2e18).contains(&value) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between 0 and 2^63, checked above"
    )]
    Some(value as u64)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("10Gi", Some(10 * 1024 * 1024 * 1024))]
    #[case("1.5Ki", Some(1536))]
    #[case("500M", Some(500_000_000))]
    #[case("128974848", Some(128_974_848))]
    #[case("129e6", Some(129_000_000))]
    #[case("1000m", Some(1))]
    #[case("1E", Some(1_000_000_000_000_000_000))]
    #[case("-1", None)]
    #[case("much", None)]
    #[case("NaN", None)]
    #[case("inf", None)]
    fn quantities_are_read_as_kubernetes_does(#[case] text: &str, #[case] expected: Option<u64>) {
        assert_eq!(bytes(&Quantity(text.to_owned())), expected);
    }
}
