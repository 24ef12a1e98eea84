//! Reading YAML as a kube-apiserver does: the parser is a library, and what its events mean follows
//! `go.yaml.in/yaml/v2` and `sigs.k8s.io/yaml`.

mod allowance;
mod document;
mod error;
mod key;
mod read;
mod scalar;
#[cfg(test)]
mod tests;

pub(super) use read::read;
