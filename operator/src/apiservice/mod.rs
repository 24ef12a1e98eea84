//! APIServices: who answers for a version of a group, and how that is changed.
