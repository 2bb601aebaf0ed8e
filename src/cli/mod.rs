//! .

pub mod schema;
pub mod show;
