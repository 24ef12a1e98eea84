//! Durable storage: one ordered sequence of writes, committed in groups.
