//! A producer's window: how many of its messages await their outcome, and waiting for that to change.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

use atomic_waker::AtomicWaker;

/// No producer waits.
const NO_TARGET: u64 = u64::MAX;

/// Counts one producer's messages handed over and resolved. Padded to a cache line: neighbours are written by other
/// threads.
#[derive(Debug)]
#[repr(align(64))]
pub struct Window {
    submitted: AtomicU64,
    /// Messages of the warm-up among them.
    warm_up: AtomicU64,
    resolved: AtomicU64,
    awaited: AtomicU64,
    waker: AtomicWaker,
}

impl Window {
    pub fn new() -> Self {
        Window {
            submitted: AtomicU64::new(0),
            warm_up: AtomicU64::new(0),
            resolved: AtomicU64::new(0),
            awaited: AtomicU64::new(NO_TARGET),
            waker: AtomicWaker::new(),
        }
    }

    /// The producer hands over `count` messages. Only its own task calls this, before the client can resolve them.
    #[inline]
    pub fn submit(&self, count: u64) {
        let submitted = self.submitted.load(Ordering::Relaxed);
        self.submitted.store(submitted + count, Ordering::Release);
    }

    /// Of the messages handed over so far, so many belong to the warm-up. Only the producer's own task calls this.
    pub fn set_warm_up(&self, count: u64) {
        self.warm_up.store(count, Ordering::Release);
    }

    /// Messages of the warm-up handed over so far.
    pub fn warm_up(&self) -> u64 {
        self.warm_up.load(Ordering::Acquire)
    }

    /// The last `count` messages were not handed over after all.
    pub fn withdraw(&self, count: u64) {
        let submitted = self.submitted.load(Ordering::Relaxed);
        self.submitted.store(submitted - count, Ordering::Release);
    }

    /// Messages handed over so far.
    #[inline]
    pub fn submitted(&self) -> u64 {
        self.submitted.load(Ordering::Acquire)
    }

    /// `count` messages have their outcome.
    #[inline]
    pub fn resolve(&self, count: u64) {
        // SeqCst on both counters: either this sees the waiter's target, or the waiter sees this count.
        let resolved = self.resolved.fetch_add(count, Ordering::SeqCst) + count;
        if self.awaited.load(Ordering::SeqCst) <= resolved {
            self.waker.wake();
        }
    }

    /// Messages whose outcome is known.
    #[inline]
    pub fn resolved(&self) -> u64 {
        self.resolved.load(Ordering::SeqCst)
    }

    /// Messages handed over whose outcome is not known.
    pub fn in_flight(&self) -> u64 {
        let resolved = self.resolved();
        self.submitted().saturating_sub(resolved)
    }

    /// Resolves when `target` messages have their outcome (true) or `stopped` is set and [`Window::wake`] called (false).
    pub async fn resolved_reaches(&self, target: u64, stopped: &AtomicBool) -> bool {
        if self.resolved() >= target {
            return true;
        }
        let reached = poll_fn(|context| {
            self.waker.register(context.waker());
            self.awaited.store(target, Ordering::SeqCst);
            if self.resolved() >= target {
                Poll::Ready(true)
            } else if stopped.load(Ordering::SeqCst) {
                Poll::Ready(false)
            } else {
                Poll::Pending
            }
        })
        .await;
        self.awaited.store(NO_TARGET, Ordering::SeqCst);
        reached
    }

    /// Wakes the waiting producer to check again.
    pub fn wake(&self) {
        self.waker.wake();
    }
}

impl Default for Window {
    fn default() -> Self {
        Window::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_waiter_never_misses_the_resolution_it_waits_for() {
        let window = Arc::new(Window::new());
        let stopped = Arc::new(AtomicBool::new(false));
        let resolver = {
            let window = window.clone();
            std::thread::spawn(move || {
                for _ in 0..100_000 {
                    while window.in_flight() == 0 {
                        std::hint::spin_loop();
                    }
                    window.resolve(1);
                }
            })
        };
        for round in 1..=100_000 {
            window.submit(1);
            assert!(window.resolved_reaches(round, &stopped).await);
        }
        resolver.join().unwrap();
        assert_eq!(window.in_flight(), 0);
    }

    #[tokio::test]
    async fn a_stop_ends_the_wait() {
        let window = Arc::new(Window::new());
        let stopped = Arc::new(AtomicBool::new(false));
        window.submit(1);
        let waiting = {
            let (window, stopped) = (window.clone(), stopped.clone());
            tokio::spawn(async move { window.resolved_reaches(1, &stopped).await })
        };
        tokio::task::yield_now().await;
        stopped.store(true, Ordering::SeqCst);
        window.wake();
        assert!(!waiting.await.unwrap());
        assert_eq!(window.in_flight(), 1);
    }
}
