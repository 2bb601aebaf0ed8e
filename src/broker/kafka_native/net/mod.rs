//! Connections to nodes, credentials, and requests that are not about messages.

pub mod admin;
pub mod cluster;
pub mod connect;
pub mod control;
pub mod coordinator;
pub mod login;
pub mod random_text;
pub mod scram;
