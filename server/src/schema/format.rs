//! The `format`s that the kube-apiserver enforces on the values of custom resources.

/// A format that restricts values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Int32,
    Int64,
    Float,
    DateTime,
}

impl Format {
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "int32" => Some(Self::Int32),
            "int64" => Some(Self::Int64),
            "float" => Some(Self::Float),
            "date-time" | "datetime" => Some(Self::DateTime),
            _ => None,
        }
    }
}
