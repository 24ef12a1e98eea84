//! A real PostgreSQL for tests: servers, poolers, and the faults that they may have.
