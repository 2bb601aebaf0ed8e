//! What the load generator itself used, what else its machine was doing, and what the broker's own processes used.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::readable;

/// Use of resources by this process during the measured window.
///
/// When the broker is embedded it runs in this process too, and its use is in these figures.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Client {
    /// CPU time, user and system together, in seconds.
    pub cpu_seconds: f64,
    /// CPU time in user mode, in seconds.
    pub cpu_user_seconds: f64,
    /// CPU time in the kernel on behalf of this process, in seconds.
    pub cpu_system_seconds: f64,
    /// The part of `cpu_seconds` in which connections were looked at without a pause, with nothing to do, as `busy_poll`
    /// wants it; left out where nothing polled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub polling_cpu_seconds: Option<f64>,
    /// CPU time divided by elapsed time: how many cores were busy with this process, on average.
    pub cores_used: f64,
    /// Cores this process may use (affinity and container limits considered): a quota need not be a whole number.
    pub cores_available: f64,
    /// The cores on which the system lets this process run, as the kernel lists them: "0-3,8". `null` where the system does not tell, where
    /// several machines loaded, and in records of older builds.
    #[serde(default)]
    pub cores_allowed: Option<String>,
    /// The scheduling policy of the threads that carry the load, by its name in sched(7): "batch", "other", "fifo", … `null` where the
    /// system does not tell, and in records of older builds.
    #[serde(default)]
    pub scheduling_policy: Option<String>,
    /// The busiest thread's CPU time, but for polling, divided by elapsed time: at 1 it could do no more, however idle the
    /// other cores; `null` where the system does not tell.
    pub busiest_thread_cores: Option<f64>,
    /// Name of that thread.
    pub busiest_thread: Option<String>,
    /// The time for which the busiest task ran, on any thread, but for polling, divided by elapsed time (0 to 1): at 1 it could do no more,
    /// however many threads there are. Estimated from polls that were timed at random. `null` where no task was timed often enough, and in
    /// records of older builds.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub busiest_task_cores: Option<f64>,
    /// Name of that task with its number: "producer 3", "consumer 0", "connection 1", …
    #[serde(default)]
    pub busiest_task: Option<String>,
    /// CPU time per message acknowledged inside the window, in nanoseconds; `null` when none was.
    pub cpu_ns_per_message: Option<f64>,
    /// Most memory resident at once, in bytes, since the trial began where the system can tell, else since the process
    /// began; `null` where the system does not tell.
    pub peak_memory_bytes: Option<u64>,
    /// Times a thread gave up its core by waiting; `null` where the system does not tell.
    pub voluntary_context_switches: Option<u64>,
    /// Times a thread was made to give up its core; `null` where the system does not tell.
    pub involuntary_context_switches: Option<u64>,
    /// Time for which producers were kept waiting because the client library's queue was full, summed over producers,
    /// in nanoseconds; inside the window.
    pub queue_full_ns: u64,
    /// Share (0 to 1) of the window for which a connection took no request although there was one to send, because as many as may be on
    /// their way had no response, or because the broker did not read; mean of the connections. `null` where the client library does not
    /// tell, and in records of older builds.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub connections_full_share: Option<f64>,
    /// Answers of the broker to messages that awaited none any more: they came after the message had failed, or twice. 0 where the
    /// client library does not tell, and in records of older builds.
    #[serde(default)]
    pub unmatched_answers: u64,
    /// Most messages seen waiting in the client library's queues; `null` when the library does not tell.
    pub queue_messages_max: Option<u64>,
    /// Lateness by which the pacing timers delayed messages that waited for a wake-up; `null` in a closed loop.
    pub timer_lateness: Option<Lateness>,
    /// Whole lateness that wake-ups gave these messages: what `load.pacing` made them wait, and `timer_lateness`. `null` in a closed loop,
    /// and in records of older builds.
    #[serde(default)]
    pub wake_up_delay: Option<Lateness>,
    /// Lateness of a thread that slept a millisecond at a time: what every thread of the client may have to wait. `null` in
    /// records of older builds.
    #[serde(default)]
    pub pauses: Option<Pauses>,
    /// The pauses of 20 ms and more, with their begin: at most 1,000, the longest; left out where there were none, in merged records and in
    /// those of older builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub long_pauses: Vec<LongPause>,
    /// Median round trip to the broker as the client library sees it, in nanoseconds, of its last window; `null` when
    /// the library does not tell.
    pub broker_round_trip_p50_ns: Option<u64>,
    /// 99th percentile of the same round trip, in nanoseconds.
    pub broker_round_trip_p99_ns: Option<u64>,
}

impl Client {
    /// The part of `cores_used` that only polled.
    pub fn cores_polling(&self) -> f64 {
        match self.polling_cpu_seconds {
            Some(polling) if self.cpu_seconds > 0.0 => self.cores_used * (polling / self.cpu_seconds).min(1.0),
            _ => 0.0,
        }
    }

    /// In words: "1.02 of 2 cores, 0.85 of them only to poll".
    pub fn cores(&self) -> String {
        let polling = match self.cores_polling() {
            0.0 => String::new(),
            polling => format!(", {polling:.2} of them only to poll"),
        };
        format!("{:.2} of {} cores{polling}", self.cores_used, readable::cores(self.cores_available))
    }
}

/// How late messages became that waited for a wake-up, one value for each message. It is part of the schedule delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Lateness {
    /// Median, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile, in nanoseconds.
    pub p99_ns: u64,
    /// 99.9th percentile, in nanoseconds; 0 in records of older builds.
    #[serde(default)]
    pub p99_9_ns: u64,
    /// 99.99th percentile, in nanoseconds; 0 in records of older builds.
    #[serde(default)]
    pub p99_99_ns: u64,
    /// Largest, in nanoseconds.
    pub max_ns: u64,
}

/// How late a thread woke that slept a millisecond at a time, one value for each millisecond of the measured window. A pause of
/// 100 ms is 100 of them, each with what was left of it. Ranks on one host have its milliseconds in turn, each at least every tenth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Pauses {
    /// Number of values.
    pub count: u64,
    /// Median, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile, in nanoseconds.
    pub p99_ns: u64,
    /// 99.9th percentile, in nanoseconds.
    pub p99_9_ns: u64,
    /// 99.99th percentile, in nanoseconds; 0 in records of older builds.
    #[serde(default)]
    pub p99_99_ns: u64,
    /// Largest, in nanoseconds.
    pub max_ns: u64,
}

/// A time in which the thread of the load generator that only sleeps was not woken. Of its other threads no more is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LongPause {
    /// Begin in nanoseconds since the measured phase began; 0: it began before.
    pub begin_ns: u64,
    /// Length from the begin of the measured phase on, in nanoseconds.
    pub length_ns: u64,
}

/// What the whole machine did during the measured window, all processes together.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct HostLoad {
    /// Share (0 to 1) of all cores' time that was neither idle nor waiting for disks.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub system_cpu_busy: f64,
    /// Share (0 to 1) of all cores' time that the hypervisor gave to other guests although this one wanted it.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub steal: f64,
    /// Share (0 to 1) of the time of the cores that this process may use for which a CPU quota kept its control groups from
    /// running (`throttled_usec` or `throttled_time` of their `cpu.stat`); `null` where the system does not tell.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub cgroup_throttled_share: Option<f64>,
    /// Share (0 to 1) of the time during which at least one task of the machine waited for a core (`some` of
    /// `/proc/pressure/cpu`); `null` where the system does not tell.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub cpu_pressure_share: Option<f64>,
    /// Share (0 to 1) of the time during which at least one task waited for memory to be reclaimed or read back (`some` of
    /// `/proc/pressure/memory`); `null` where the system does not tell.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub memory_pressure_share: Option<f64>,
    /// Share (0 to 1) of the time during which at least one task waited for disks (`some` of `/proc/pressure/io`); `null`
    /// where the system does not tell.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub io_pressure_share: Option<f64>,
}

/// Use of resources by what `broker.watch` names, during the measured window.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct BrokerUsage {
    /// CPU time of all of them divided by elapsed time: how many cores were busy with them, on average; `null` where none of them
    /// told.
    pub cores_used: Option<f64>,
    /// Cores of the machine, where all of them are processes on the load generator's own; `null` otherwise.
    pub cores_of_machine: Option<usize>,
    /// Sum of the most resident memory of each, in bytes; `null` where none of them told.
    pub memory_bytes_max: Option<u64>,
    /// Sources, in the order of the scenario.
    pub sources: Vec<BrokerSource>,
}

/// One process with its descendants, or one endpoint with metrics.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct BrokerSource {
    /// The process with its name, or the URL.
    pub name: String,
    /// Cores busy with it, on average; `null` where it did not tell.
    pub cores_used: Option<f64>,
    /// Most resident memory at a sample, in bytes; `null` where it did not tell.
    pub memory_bytes_max: Option<u64>,
    /// Samples that failed, warm-up and drain included.
    pub failures: u64,
    /// Reason why the first of them failed.
    pub first_failure: Option<String>,
}

impl BrokerUsage {
    /// In words: "1.90 of 2 cores".
    pub fn cores(&self) -> Option<String> {
        let used = self.cores_used?;
        Some(match self.cores_of_machine {
            Some(cores) => format!("{used:.2} of {cores} cores"),
            None => format!("{used:.2} cores"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_cores_are_shown_separately() {
        let client = Client { cpu_seconds: 40.0, cores_used: 4.0, cores_available: 4.0, ..Client::default() };
        let polling = Client { polling_cpu_seconds: Some(10.0), ..client.clone() };
        assert_eq!(client.cores(), "4.00 of 4 cores");
        assert_eq!(polling.cores(), "4.00 of 4 cores, 1.00 of them only to poll");
        let part = Client { cores_available: 1.0 / 3.0, ..Client::default() };
        assert_eq!(part.cores(), "0.00 of 0.33 cores");
    }
}
