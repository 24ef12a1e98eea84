//! The shape of real reports in numbers, measured from recorded ones (Kyverno 1.19, 29 policies of
//! its own chart and 11 others, 470 resources). The generator follows them; a test compares both.

/// Reports that the generator makes of each kind before it repeats their content.
pub const TEMPLATES: usize = 200;

/// A distribution, given by its values at evenly spaced quantiles, the first and last included.
pub type Quantiles = &'static [usize];

/// Number of results in a permanent report of a kind in namespaces.
pub const RESULTS_NAMESPACED: Quantiles = &[1, 2, 37, 37, 37, 37, 37, 37, 37, 37, 37];
/// Number of results in an ephemeral report in a namespace.
pub const RESULTS_EPHEMERAL: Quantiles = &[1, 2, 11, 28, 28, 37, 37, 37, 37, 39, 39];
/// Number of results in a report of a cluster-scoped kind.
pub const RESULTS_CLUSTER: Quantiles = &[1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2];
/// Length of a result's message in bytes.
pub const MESSAGE: Quantiles = &[7, 7, 7, 11, 39, 44, 48, 53, 63, 190, 600];
/// Verdicts by weight.
pub const VERDICTS: &[(&str, u32)] = &[
    ("pass", 790),
    ("fail", 198),
    ("warn", 11),
    ("skip", 1),
    ("error", 0),
];
/// Severities by weight; the empty one stands for none.
pub const SEVERITIES: &[(&str, u32)] = &[
    ("medium", 914),
    ("high", 40),
    ("", 29),
    ("low", 14),
    ("info", 3),
];
/// Part of the results that name no rule, in thousandths.
pub const WITHOUT_RULE: u32 = 295;
/// Labels of an ephemeral report: each policy that was in force leaves one.
pub const EPHEMERAL_LABELS: Quantiles = &[18, 30, 46, 46, 46, 46, 46, 46, 46, 47, 48];
/// Labels of an ephemeral report of the cluster.
pub const CLUSTER_EPHEMERAL_LABELS: Quantiles = &[7, 8, 36, 36, 36, 36, 36, 46, 46, 46, 47];
/// Updates of a permanent report after its creation, over the life of a scan.
pub const UPDATES: Quantiles = &[0, 0, 1, 2, 2, 2, 3, 3, 3, 4, 6];
/// Part of the PUTs of permanent reports that change nothing, in thousandths.
pub const NO_OP_UPDATES: u32 = 420;

/// Returns the value at `position` (0 to 1) of a distribution, between two points by proportion.
#[must_use]
pub fn at(quantiles: Quantiles, position: f64) -> usize {
    let steps = quantiles.len().saturating_sub(1);
    #[allow(clippy::cast_precision_loss, reason = "a handful of points")]
    let place = position.clamp(0.0, 1.0) * steps as f64;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "between 0 and the number of points; values are lengths below 1,000"
    )]
    {
        let below = place.floor() as usize;
        let above = (below + 1).min(steps);
        let part = place - place.floor();
        (quantiles[below] as f64 * (1.0 - part) + quantiles[above] as f64 * part).round() as usize
    }
}
