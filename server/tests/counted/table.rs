//! The numbers that everything is held to, as `COUNTED_PRINT=1` prints them.

use super::book::Entry;

/// Numbers of recorded reports.
pub const RECORDED: &[Entry] = &[];

/// Numbers of generated reports.
pub const GENERATED: &[Entry] = &[];
