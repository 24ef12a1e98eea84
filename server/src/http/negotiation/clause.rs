//! The clauses of `Accept`.

use super::{Accepted, MediaType, MetaVersion, Offer, Transform};

/// One media range of `Accept`.
#[derive(Debug)]
pub(super) struct Clause<'a> {
    main: &'a str,
    sub: &'a str,
    params: Vec<(&'a str, &'a str)>,
    quality: f32,
}

/// Returns the clauses of `Accept`, best first; equal ones keep their order, wildcards come last.
pub(super) fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<_> = header.split(',').filter_map(Clause::parse).collect();
    clauses.sort_by(|a, b| {
        b.quality
            .total_cmp(&a.quality)
            .then_with(|| (a.main == "*").cmp(&(b.main == "*")))
            .then_with(|| (a.sub == "*").cmp(&(b.sub == "*")))
    });
    clauses
}

/// Returns whether the offer has this form.
fn fits(media_type: MediaType, transform: Transform, offer: Offer) -> bool {
    let metadata = matches!(
        transform,
        Transform::PartialObjectMetadata(_) | Transform::PartialObjectMetadataList(_)
    );
    match offer {
        Offer::Objects | Offer::Watch => media_type != MediaType::Protobuf || metadata,
        // These are never transformed.
        Offer::Status => transform == Transform::None,
        Offer::Plain => transform == Transform::None && media_type != MediaType::Protobuf,
    }
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let mut pieces = text.split(';').map(str::trim);
        let (main, sub) = match pieces.next()?.split_once('/') {
            Some((main, sub)) => (main.trim(), sub.trim()),
            None if text.trim() == "*" => ("*", "*"),
            None => return None,
        };
        let mut clause = Self {
            main,
            sub,
            params: Vec::new(),
            quality: 1.0,
        };
        for (key, value) in pieces.filter_map(|piece| piece.split_once('=')) {
            let (key, value) = (key.trim(), value.trim().trim_matches('"'));
            if key == "q" {
                clause.quality = value.parse().unwrap_or(1.0);
            } else {
                clause.params.push((key, value));
            }
        }
        Some(clause)
    }

    pub(super) fn matches(&self, media_type: MediaType) -> bool {
        self.covers(media_type.as_str())
    }

    /// Returns whether the range has this media type, which is without parameters.
    pub(super) fn covers(&self, name: &str) -> bool {
        let Some((main, sub)) = name.split_once('/') else {
            return false;
        };
        (self.main == main && (self.sub == sub || self.sub == "*"))
            || (self.main == "*" && self.sub == "*")
    }

    pub(super) fn param(&self, name: &str) -> &str {
        self.params
            .iter()
            .rev()
            .find(|(key, _)| *key == name)
            .map_or("", |(_, value)| value)
    }

    /// Returns the clause applied to one offered media type, if it fits.
    pub(super) fn agree(&self, media_type: MediaType, offer: Offer) -> Option<Accepted> {
        if !self.matches(media_type) {
            return None;
        }
        match self.param("stream") {
            "" => {}
            "watch" if matches!(offer, Offer::Objects | Offer::Watch) => {}
            _ => return None,
        }
        let transform = self.transform()?;
        fits(media_type, transform, offer).then(|| Accepted {
            media_type,
            transform,
            pretty: self.param("pretty") == "1",
            stream: false,
        })
    }

    /// Returns the transformation that is asked for; `None` when no such transformation exists.
    fn transform(&self) -> Option<Transform> {
        let (kind, group, version) = (self.param("as"), self.param("g"), self.param("v"));
        if kind.is_empty() && group.is_empty() && version.is_empty() {
            return Some(Transform::None);
        }
        let version = match (group, version) {
            ("meta.k8s.io", "v1") => MetaVersion::V1,
            ("meta.k8s.io", "v1beta1") => MetaVersion::V1Beta1,
            _ => return None,
        };
        match kind {
            "Table" => Some(Transform::Table(version)),
            "PartialObjectMetadata" => Some(Transform::PartialObjectMetadata(version)),
            "PartialObjectMetadataList" => Some(Transform::PartialObjectMetadataList(version)),
            _ => None,
        }
    }
}
