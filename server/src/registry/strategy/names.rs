//! Generated names, and names as segments of a URL path.

use rand::RngExt as _;

/// Longest generated name, in bytes: it must also do as a label value.
const MAX_LEN: usize = 63;
/// Characters of the random part: no vowels and no look-alikes, so that no word appears by chance.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Length of the random part.
const SUFFIX_LEN: usize = 5;

/// Returns a name from `base` (a `generateName`) and five random characters, at most 63 bytes
/// together: a longer base is cut.
#[must_use]
pub fn generate(base: &str) -> String {
    let mut end = base.len().min(MAX_LEN - SUFFIX_LEN);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = base[..end].to_owned();
    let mut rng = rand::rng();
    for _ in 0..SUFFIX_LEN {
        name.push(char::from(
            SUFFIX_ALPHABET[rng.random_range(0..SUFFIX_ALPHABET.len())],
        ));
    }
    name
}

/// Returns the errors of `name` as a segment of a URL path; empty when there are none.
#[must_use]
pub fn path_segment_errors(name: &str) -> Vec<String> {
    match name {
        "." | ".." => vec![format!("may not be '{name}'")],
        _ => path_segment_prefix_errors(name),
    }
}

/// Returns the errors of `name` as the beginning of a segment of a URL path.
#[must_use]
pub fn path_segment_prefix_errors(name: &str) -> Vec<String> {
    ["/", "%"]
        .iter()
        .filter(|c| name.contains(**c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_fit_and_differ() {
        let name = generate("abc-");
        assert_eq!(name.len(), 9);
        assert!(name.starts_with("abc-"));
        assert!(apimachinery::schema::dns_subdomain_errors(&name).is_empty());
        assert_ne!(name, generate("abc-"));
        let long = generate(&"a".repeat(300));
        assert_eq!(long.len(), 63);
        assert!(generate(&"é".repeat(40)).len() <= 63);
    }

    #[test]
    fn path_segments() {
        assert_eq!(path_segment_errors(".."), ["may not be '..'"]);
        assert_eq!(
            path_segment_errors("a/%"),
            ["may not contain '/'", "may not contain '%'"]
        );
        assert!(path_segment_errors("A_b").is_empty());
        assert!(path_segment_prefix_errors(".").is_empty());
    }
}
