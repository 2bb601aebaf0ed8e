//! The signals by which a system asks a program to end.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::Signals;
#[cfg(windows)]
pub use windows::Signals;
