//! Connections to PostgreSQL, for the server and the operator: parameters, TLS, and what an error
//! of the database means for the person who set it up.
