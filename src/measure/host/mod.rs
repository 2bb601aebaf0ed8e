//! What the machine and this process were doing during a measurement.
//!
//! A [`HostSampler`] is begun with the measured window and asked at its end. But for its [`PauseProbe`], everything is a
//! difference of counters that the system keeps anyway, so sampling costs nothing in between. Off Linux, what cannot be known
//! is `None`.

mod cores;
mod other;
mod pauses;
mod process;
mod system;
pub mod tasks;

use std::time::{Duration, Instant};

pub use cores::{CoreSet, quota_cores, throttled};
pub use other::{OtherUsage, ProcessFamily, parse_metrics};
pub use pauses::{HostShare, LongPause, PauseProbe, paused_ns};
pub use process::{
    BusiestThread, ProcessUsage, ThreadTimes, make_timers_exact, peak_memory_bytes, reset_peak_memory,
    resident_memory_bytes, scheduling_policy, set_batch,
};
pub use system::{Pressure, PressureTotals, SystemLoad, SystemTimes, WallClock, clock_is_synchronised, kibibytes};
pub use tasks::BusiestTask;
use tasks::{TaskTimes, polled};

use super::{Clock, Distribution};

/// Counters at the begin of a stretch of time.
#[derive(Debug)]
pub struct HostSampler {
    began: Instant,
    process: ProcessUsage,
    polling: Duration,
    threads: ThreadTimes,
    tasks: TaskTimes,
    system: Option<SystemTimes>,
    throttled: Option<Duration>,
    pressure: PressureTotals,
    /// `None`: without a pause probe.
    pauses: Option<PauseProbe>,
}

impl HostSampler {
    /// Begins here and now, in a trial that goes by `clock`.
    pub fn begin(host_share: HostShare, clock: Clock) -> Self {
        HostSampler { pauses: Some(PauseProbe::begin(host_share, clock)), ..HostSampler::begin_without_probe() }
    }

    /// Begins again, with the same pause probe.
    pub fn begin_anew(&mut self) {
        let pauses = self.pauses.take().inspect(PauseProbe::count_anew);
        *self = HostSampler { pauses, ..HostSampler::begin_without_probe() };
    }

    /// All that were noted, in order of time, since the probe began.
    pub fn long_pauses(&self) -> Vec<LongPause> {
        self.pauses.as_ref().map(|probe| probe.noted().long).unwrap_or_default()
    }

    /// The same without a pause probe, for use beside a sampler that has one.
    pub fn begin_without_probe() -> Self {
        let process = ProcessUsage::now();
        HostSampler {
            began: Instant::now(),
            process,
            polling: polled(),
            threads: ThreadTimes::now(),
            tasks: TaskTimes::now(),
            system: SystemTimes::now(),
            throttled: throttled(),
            pressure: PressureTotals::now(),
            pauses: None,
        }
    }

    /// What was used since the begin.
    pub fn usage(&self) -> HostUsage {
        let elapsed = self.began.elapsed();
        let noted = self.pauses.as_ref().map(PauseProbe::noted).unwrap_or_default();
        HostUsage {
            elapsed,
            process: ProcessUsage::now().since(self.process).since(noted.own),
            polling: polled().saturating_sub(self.polling),
            scheduling_policy: scheduling_policy(),
            busiest_thread: ThreadTimes::now().busiest_since(&self.threads, elapsed),
            busiest_task: TaskTimes::now().busiest_since(&self.tasks, elapsed),
            peak_memory_bytes: peak_memory_bytes(),
            system: SystemTimes::now().zip(self.system).and_then(|(now, begin)| now.load_since(begin)),
            throttled: throttled().zip(self.throttled).map(|(now, begin)| now.saturating_sub(begin)),
            pressure: PressureTotals::now().since(self.pressure, elapsed),
            pauses: noted.lateness,
            long_pauses: noted.long,
        }
    }
}

/// The process's use of cores, lap by lap.
#[derive(Debug)]
pub struct CpuLaps {
    began: Instant,
    cpu: Duration,
}

impl CpuLaps {
    /// Begins here and now.
    pub fn begin() -> Self {
        CpuLaps { began: Instant::now(), cpu: ProcessUsage::now().cpu() }
    }

    /// Cores busy with this process since the last lap, or since the begin: one row of a series.
    pub fn lap(&mut self) -> f64 {
        let (now, cpu) = (Instant::now(), ProcessUsage::now().cpu());
        let cores = cores(cpu.saturating_sub(self.cpu), now - self.began);
        (self.began, self.cpu) = (now, cpu);
        cores
    }
}

/// What was used during a stretch of time.
#[derive(Debug, Clone)]
pub struct HostUsage {
    pub elapsed: Duration,
    /// What this process used, without the probe for [`HostUsage::pauses`], which does not belong to the load.
    pub process: ProcessUsage,
    /// The part of its CPU time that went into [`polling`](tasks::polling).
    pub polling: Duration,
    /// Policy of the thread that asks, and of those that it started.
    pub scheduling_policy: Option<&'static str>,
    /// The busiest thread by its work, without [`polling`](tasks::polling). Threads that ended in between are not seen.
    pub busiest_thread: Option<BusiestThread>,
    /// The busiest task by the time for which it ran on threads, without [`polling`](tasks::polling). `None`: no task was timed often enough.
    pub busiest_task: Option<BusiestTask>,
    /// Peak memory since [`reset_peak_memory`] succeeded, else since the process began.
    pub peak_memory_bytes: Option<u64>,
    pub system: Option<SystemLoad>,
    /// Time for which a CPU quota kept this process's control groups from running, summed over cores.
    pub throttled: Option<Duration>,
    /// Pressure on the whole machine.
    pub pressure: Pressure,
    /// How late a thread woke in each millisecond of the host's that is this process's, in nanoseconds.
    pub pauses: Distribution,
    /// Pauses of 20 ms and more, in order of time, since the load began.
    pub long_pauses: Vec<LongPause>,
}

/// Cores this process may use, as whole ones: affinity and a container's quota are considered. For how many threads to start.
pub fn cores_available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How many cores' time this process may use: a quota need not be a whole number.
pub fn cores_limit() -> f64 {
    let allowed = CoreSet::allowed().map_or_else(cores_available, |cores| cores.count());
    quota_cores().map_or(cores_available() as f64, |quota| quota.min(allowed as f64))
}

/// How many cores that much time on them amounts to; 0 when no time passed.
pub fn cores(cpu: Duration, elapsed: Duration) -> f64 {
    if elapsed.is_zero() { 0.0 } else { cpu.as_secs_f64() / elapsed.as_secs_f64() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_is_seen_by_process_thread_and_lap() {
        let (sampler, mut laps) = (HostSampler::begin(HostShare::ALONE, Clock::start()), CpuLaps::begin());
        let until = Instant::now() + Duration::from_millis(200);
        let mut sum = 0u64;
        while Instant::now() < until {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        let usage = sampler.usage();
        assert!(usage.process.cpu() > Duration::from_millis(10), "{usage:?}");
        assert!(laps.lap() > 0.0);
        assert!(usage.pauses.histogram().len() >= 190, "one for each millisecond");
        if cfg!(target_os = "linux") {
            assert!(usage.peak_memory_bytes.unwrap() > 1 << 20);
            assert!(usage.busiest_thread.unwrap().cores > 0.0);
            let load = usage.system.unwrap();
            assert!(load.busy > 0.0 && load.busy <= 1.0, "{load:?}");
        }
    }
}
