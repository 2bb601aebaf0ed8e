//! The threads that carry load, for trials one after the other.

use std::io;

use tokio::runtime::{Builder, Runtime};

/// Starts so many, or one for each core that the process may use.
///
/// # Errors
/// When the system starts no more threads.
pub fn start(threads: Option<usize>) -> io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if let Some(threads) = threads {
        builder.worker_threads(threads);
    }
    builder.thread_name("brokermark-load").enable_all().build()
}

/// Those of the trial that runs. They carry the next one, too, if it wants as many.
#[derive(Default)]
pub struct LoadThreads {
    started: Option<(Option<usize>, Runtime)>,
}

impl LoadThreads {
    /// So many, as of [`start`].
    ///
    /// # Errors
    /// When the system starts no more threads.
    pub fn of(&mut self, threads: Option<usize>) -> io::Result<&Runtime> {
        let started = match self.started.take_if(|(started, _)| *started == threads) {
            Some(started) => started,
            None => {
                self.end();
                (threads, start(threads)?)
            }
        };
        Ok(&self.started.insert(started).1)
    }

    /// Client libraries may leave blocking work behind, which is not waited for.
    fn end(&mut self) {
        if let Some((_, runtime)) = self.started.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for LoadThreads {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_that_wants_other_threads_gets_them() {
        let mut threads = LoadThreads::default();
        let mut workers = |wanted: Option<usize>| {
            let runtime = threads.of(wanted).unwrap();
            (runtime.handle().id(), runtime.metrics().num_workers())
        };
        let (three, again, one) = (workers(Some(3)), workers(Some(3)), workers(Some(1)));
        assert_eq!((three.1, three), (3, again));
        assert_eq!(one.1, 1);
        assert_eq!(workers(None).1, crate::measure::host::cores_available());
    }
}
