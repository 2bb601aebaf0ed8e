//! Memory that many tables share, so that the sum is bounded and each may take what the others do not need.

use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, Ordering};

/// Bytes that are left of a common amount.
#[derive(Debug, Clone)]
pub struct Budget(Arc<AtomicIsize>);

impl Budget {
    pub fn new(bytes: usize) -> Self {
        Budget(Arc::new(AtomicIsize::new(isize::try_from(bytes).unwrap_or(isize::MAX))))
    }

    /// Takes `bytes` if there are so many.
    pub fn take(&self, bytes: usize) -> bool {
        let Ok(bytes) = isize::try_from(bytes) else { return false };
        let enough = |left: isize| (left >= bytes).then(|| left - bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, enough).is_ok()
    }

    /// Takes `bytes` in any case; false if more has been taken than there was.
    pub fn overdraw(&self, bytes: usize) -> bool {
        self.0.fetch_sub(bytes as isize, Ordering::Relaxed) >= bytes as isize
    }

    pub fn is_overdrawn(&self) -> bool {
        self.0.load(Ordering::Relaxed) < 0
    }

    pub fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes as isize, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_missing_until_it_is_given_back() {
        let budget = Budget::new(100);
        assert!(budget.take(60) && !budget.take(60) && !budget.is_overdrawn());
        budget.clone().give_back(20);
        assert!(budget.take(60) && !budget.take(1));
        assert!(!budget.overdraw(5) && budget.is_overdrawn());
        budget.give_back(5);
        assert!(!budget.is_overdrawn() && !budget.take(usize::MAX));
    }
}
