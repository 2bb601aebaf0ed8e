//! Tests that need no server: the program as its users run it, what it reads and writes, and that its figures are true.
//!
//! One program, because each one links everything anew.

#[path = "../harness/mod.rs"]
mod harness;

mod cli;
mod durability;
mod honesty;
mod honesty_verdict;
mod honesty_verification;
mod honesty_window;
mod results;
mod scenario;
mod schema;
mod secrets;
mod shipped;
