//! The samples, round by round.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Median, minimum and maximum of the rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Number of rounds.
    pub rounds: usize,
}

/// Samples by metric and system.
#[derive(Clone, Debug, Default)]
pub struct Book(BTreeMap<(String, String), Vec<f64>>);

impl Book {
    /// Notes a sample.
    pub fn add(&mut self, metric: &str, system: &str, value: f64) {
        self.0
            .entry((metric.to_owned(), system.to_owned()))
            .or_default()
            .push(value);
    }

    /// Returns all samples of a metric of a system.
    #[must_use]
    pub fn spread(&self, metric: &str, system: &str) -> Option<Spread> {
        let samples = self.0.get(&(metric.to_owned(), system.to_owned()))?;
        spread(samples)
    }

    /// Returns all spreads in it.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str, Spread)> {
        self.0.iter().filter_map(|((metric, system), samples)| {
            Some((metric.as_str(), system.as_str(), spread(samples)?))
        })
    }
}

fn spread(samples: &[f64]) -> Option<Spread> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median = if sorted.len().is_multiple_of(2) {
        f64::midpoint(*sorted.get(middle.checked_sub(1)?)?, *sorted.get(middle)?)
    } else {
        *sorted.get(middle)?
    };
    Some(Spread {
        median,
        min: *sorted.first()?,
        max: *sorted.last()?,
        rounds: sorted.len(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_and_even_counts() {
        let mut book = Book::default();
        assert_eq!(book.spread("rate", "ours"), None);
        for value in [3.0, 1.0, 2.0] {
            book.add("rate", "ours", value);
        }
        let spread = book.spread("rate", "ours").unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (2.0, 1.0, 3.0));
        book.add("rate", "ours", 10.0);
        assert_eq!(
            book.spread("rate", "ours").unwrap().median.to_bits(),
            2.5_f64.to_bits()
        );
    }
}
