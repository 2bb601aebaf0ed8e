//! From a TOML file to a plan: what the user wrote becomes checked, typed values, or an error that says where and why.

mod model;
mod secret;

pub use model::*;
pub use secret::Secret;
