//! Text that no other member or login has.

use std::hash::{BuildHasher, Hasher, RandomState};

/// 128 random bits as 32 hexadecimal digits.
pub fn random_text() -> String {
    // Each `RandomState` has other keys, so that its hash of nothing is a random number.
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}
