//! The producers that have sent everything. They are closed together, once their messages have been answered.

use std::sync::Arc;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::broker::{CLOSE_TIMEOUT, Producer};

/// Collects the producers of a trial.
pub struct Closing<P>(Arc<Mutex<Vec<P>>>);

impl<P> Clone for Closing<P> {
    fn clone(&self) -> Self {
        Closing(self.0.clone())
    }
}

impl<P: Producer> Closing<P> {
    pub fn new() -> Self {
        Closing(Arc::default())
    }

    pub fn add(&self, producer: P) {
        self.0.lock().push(producer);
    }

    /// Closes all producers, as far as there is time.
    pub async fn close(self) {
        let producers = std::mem::take(&mut *self.0.lock());
        // Those that are late are dropped.
        let _ = timeout(CLOSE_TIMEOUT, join_all(producers.into_iter().map(Producer::close))).await;
    }
}
