//! PostgreSQL that the operator does not run itself, against a real kube-apiserver and servers that
//! really run: what the operator makes of it and says about it.
mod cloudnativepg_mode;
mod external_mode;
mod managed_mode;
mod subject;
