//! The threads that carry load, for trials one after the other.

use std::sync::Mutex;
use std::{io, thread};

use tokio::runtime::{Builder, Runtime};

use crate::measure::host;
use crate::scenario::{SchedulingPolicy, Threads};

/// Starts so many, or one for each core that the process may use. The calling thread, and all that it starts from now on, have their
/// scheduling policy.
///
/// # Errors
/// When the system starts no more threads.
pub fn start(threads: Threads) -> Result<Runtime, String> {
    host::set_batch(threads.scheduling_policy == SchedulingPolicy::Batch);
    let count = threads.count.unwrap_or_else(host::cores_available);
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(count).thread_name("brokermark-load").enable_all();
    let started = try_to_start(count).and_then(|()| builder.build());
    started.map_err(|error| format!("the threads of the load cannot be started: {error}"))
}

/// Starts so many threads, and ends them: where the system starts no more, tokio would panic.
fn try_to_start(count: usize) -> io::Result<()> {
    let gate = Mutex::new(());
    thread::scope(|scope| {
        // None ends before all have been started.
        let _closed = gate.lock();
        (0..count).try_for_each(|_| thread::Builder::new().spawn_scoped(scope, || drop(gate.lock())).map(drop))
    })
}

/// Those of the trial that runs. They carry the next one as well, if it wants the same.
#[derive(Default)]
pub struct LoadThreads {
    started: Option<(Threads, Runtime)>,
}

impl LoadThreads {
    /// Those, as of [`start`].
    ///
    /// # Errors
    /// When the system starts no more threads.
    pub fn get(&mut self, threads: Threads) -> Result<&Runtime, String> {
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

    fn wanted(count: Option<usize>, scheduling_policy: SchedulingPolicy) -> Threads {
        Threads { count, scheduling_policy }
    }

    #[test]
    fn a_trial_that_wants_other_threads_gets_them() {
        let mut threads = LoadThreads::default();
        let mut workers = |count: Option<usize>| {
            let runtime = threads.get(wanted(count, SchedulingPolicy::Batch)).unwrap();
            (runtime.handle().id(), runtime.metrics().num_workers())
        };
        let (three, again, one) = (workers(Some(3)), workers(Some(3)), workers(Some(1)));
        assert_eq!((three.1, three), (3, again));
        assert_eq!(one.1, 1);
        assert_eq!(workers(None).1, host::cores_available());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_threads_of_a_trial_have_its_scheduling_policy() {
        let mut threads = LoadThreads::default();
        for policy in [SchedulingPolicy::Batch, SchedulingPolicy::Other, SchedulingPolicy::Batch] {
            let runtime = threads.get(wanted(Some(1), policy)).unwrap();
            let worker = runtime.block_on(async { tokio::spawn(async { host::scheduling_policy() }).await.unwrap() });
            // The main thread, and what is started from it: librdkafka's threads, the probe of pauses.
            assert_eq!((worker, host::scheduling_policy()), (Some(policy.name()), Some(policy.name())));
        }
    }
}
