//! Where each finding begins, and why there.

/// Least time to measure, in nanoseconds: five whole seconds are the fewest from which a spread over seconds can be told,
/// and start-up effects (connections, first batches, caches) take about the first.
pub const LEAST_DURATION_NS: u64 = 5_000_000_000;

/// Fewest acknowledged messages: below it the 99.9th percentile is not one whole message.
pub const LEAST_MESSAGES: u64 = 1_000;

/// Largest share of messages that may fail or stay without outcome, each. A missing message is slower than all recorded
/// ones; beyond this share the highest percentile a record states, the 99.99th, lies among the missing.
pub const LARGEST_MISSING_SHARE: f64 = 0.000_1;

/// Longest time from the end of the load to a group's last message, in nanoseconds, that is not worth a note: what is on its
/// way when the load ends takes less, in batches and fetches of up to half a second.
pub const LONGEST_CATCH_UP_NS: u64 = 1_000_000_000;

/// Least share of the schedule's rate that must have been sent. The end of a window cuts off less than one interval of
/// each producer, far below this for [`LEAST_MESSAGES`] and more; 1 in 1000 is what a rate claim of three digits bears.
pub const LEAST_RATE_SHARE: f64 = 0.999;

/// Largest 99th percentile of the schedule delay, in nanoseconds: ten times the 1 ms to which the pacing timers are
/// exact. Beyond it, more than 1 message in 100 left at another time than the scenario describes.
pub const LARGEST_SCHEDULE_DELAY_P99_NS: u64 = 10_000_000;

/// Share of the available cores at which the client is taken to be out of CPU: what is left is what the system needs
/// for itself, and at full use queues grow without bound.
pub const CLIENT_CPU_SHARE: f64 = 0.9;

/// Use of one core at which a single thread is taken to be full. Higher than [`CLIENT_CPU_SHARE`], for a thread has no
/// neighbours that need a share of it.
pub const FULL_THREAD_CORES: f64 = 0.95;

/// Largest 99th percentile of how late the pacing timer woke, in nanoseconds, on a machine that is out of CPU: half of
/// [`LARGEST_SCHEDULE_DELAY_P99_NS`], so that the client alone makes half of what makes a rate missed.
pub const LARGEST_PACING_LAG_P99_NS: u64 = 5_000_000;

/// Share of all cores' time at which the machine is taken to be out of CPU.
pub const FULL_MACHINE_SHARE: f64 = 0.95;

/// Largest share of time that a hypervisor may withhold before it is worth a note: it stretches every latency.
pub const LARGEST_STEAL_SHARE: f64 = 0.02;

/// Full seconds needed to judge steadiness.
pub const LEAST_SECONDS_FOR_STEADINESS: usize = 5;

/// Largest coefficient of variation of the throughput of single seconds: with it, ten seconds give a mean that is
/// certain to about ±10 % (2 × 0.15 / √10), the same bound as [`LARGEST_HALVES_DIFFERENCE`].
pub const LARGEST_VARIATION: f64 = 0.15;

/// Largest difference of the throughput of both halves, as a share of the larger: beyond it there was a trend, and the
/// figure depends on how long was measured.
pub const LARGEST_HALVES_DIFFERENCE: f64 = 0.10;

/// Messages per second below which a second without an acknowledgement may be chance: at 10 it has a probability of
/// e⁻¹⁰, 1 in 22,000, even if messages come independently.
pub const LEAST_RATE_FOR_EMPTY_SECONDS: f64 = 10.0;

/// Share of the requests that a quota refused from which the quota is taken to be the limit: a client that is refused waits
/// before it tries again, so a few refusals already mean that it was held back.
pub const QUOTA_REFUSAL_SHARE: f64 = 0.01;

/// The same for a client that is out of CPU besides. Fewer may be the refusals of one shard of ten, to which a tenth of the
/// requests goes, while more CPU would fill the other nine.
pub const QUOTA_REFUSAL_SHARE_OF_A_BUSY_CLIENT: f64 = 0.1;

/// Share of the producers' time spent waiting for room in the client's queue from which the broker is taken to be the
/// limit, provided the client had CPU left.
pub const QUEUE_FULL_SHARE: f64 = 0.1;

/// Share of the window that must be in flight, on average over seconds, for the window to be taken as full. Not 1,
/// because an acknowledgement opens it until the next message is handed over.
pub const FULL_WINDOW_SHARE: f64 = 0.5;
