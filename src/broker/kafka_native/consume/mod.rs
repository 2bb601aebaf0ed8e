//! Receives messages: where reading starts, fetches, and what was fetched and not taken yet.

pub mod buffer;
pub mod consumer;
pub mod fetch_session;
pub mod fetcher;
pub mod start_offset;
