//! The limits of the findings, each with its reason.

/// Least time to measure, in nanoseconds: five whole seconds are the fewest that show a spread over seconds,
/// and start-up effects (connections, first batches, caches) take about the first.
pub const MIN_DURATION_NS: u64 = 5_000_000_000;

/// Least window of a record. What a scenario measures for [`MIN_DURATION_NS`] may end with the last message that was due in it,
/// which is a little earlier.
pub const MIN_WINDOW_NS: u64 = MIN_DURATION_NS / 100 * 99;

/// Fewest acknowledged messages: below it the 99.9th percentile is not one whole message.
pub const MIN_MESSAGES: u64 = 1_000;

/// Largest share of messages that may be missing from the latencies, for all reasons together. A missing message is
/// slower than all recorded ones; beyond this share the highest percentile a record states, the 99.99th, lies among the missing.
pub const MAX_MISSING_SHARE: f64 = 0.000_1;

/// Longest time from the end of the load to a group's last message, in nanoseconds, that is not worth a note: what is on its
/// way when the load ends takes less, in batches and fetches of up to half a second.
pub const MAX_CATCH_UP_NS: u64 = 1_000_000_000;

/// Share of the time for which connections took no request, although there was one to send, from which on the broker's answers on these
/// connections are the limit: they kept messages waiting for most of the window.
pub const FULL_CONNECTIONS_SHARE: f64 = 0.5;

/// Least share of the schedule's rate that must have been sent. The end of a window cuts off less than one interval of
/// each producer, far below this for [`MIN_MESSAGES`] and more; 1 in 1000 is what a rate claim of three digits bears.
pub const MIN_RATE_SHARE: f64 = 0.999;

/// Least share of the schedule's rate that must have been answered inside the window for the schedule to be the limit. Answers that
/// take a twentieth of the window make it less, and so does a broker that falls behind.
pub const MIN_ANSWERED_SHARE: f64 = 0.95;

/// Largest 99th percentile of the schedule delay, in nanoseconds: ten times the 1 ms to which the pacing timers are
/// exact. Beyond it, more than 1 message in 100 left at another time than the scenario describes.
pub const MAX_SCHEDULE_DELAY_P99_NS: u64 = 10_000_000;

/// Share of the available cores at which the client is taken to be out of CPU: what is left is what the system needs
/// for itself, and at full use queues grow without bound.
pub const CLIENT_CPU_SHARE: f64 = 0.9;

/// Use of one core at which a single thread is taken to be full. Higher than [`CLIENT_CPU_SHARE`], for a thread has no
/// neighbours that need a share of it.
pub const FULL_THREAD_CORES: f64 = 0.95;

/// Largest 99th percentile of how late the pacing timer woke, in nanoseconds, on a machine that is out of CPU: half of
/// [`MAX_SCHEDULE_DELAY_P99_NS`], so that the client alone makes half of what makes a rate missed.
pub const MAX_TIMER_LATENESS_P99_NS: u64 = 5_000_000;

/// Share of all cores' time, busy or withheld by a hypervisor, at which the machine is taken to be out of CPU: what is idle
/// beyond it is the moments in which a thread has ended its work on one core and the next has not begun.
pub const FULL_MACHINE_SHARE: f64 = 0.95;

/// Largest share of time that a hypervisor may withhold. It comes in slices of milliseconds, so at 2 % about 1 message in 50
/// meets one, and the 99th percentile is made of them.
pub const MAX_STEAL_SHARE: f64 = 0.02;

/// Largest share of time for which a CPU quota may keep this process from running. Throttling lasts for the rest of a period
/// of 100 ms, so at 1 % the 99th percentile can be made of it alone.
pub const MAX_THROTTLED_SHARE: f64 = 0.01;

/// Share of time during which tasks waited for a core, from which on this explains a rate that was missed, where nothing else does: on a quiet
/// machine it is a few percent.
pub const CPU_PRESSURE_SHARE: f64 = 0.2;

/// Largest share of time during which tasks waited for memory to be reclaimed or read back: at 1 % the 99th percentile can be
/// made of it alone, and a machine with enough memory has none.
pub const MAX_MEMORY_PRESSURE_SHARE: f64 = 0.01;

/// Share of time during which tasks waited for disks that is worth a note. It is not against the figures: a broker on this
/// machine that writes to its disk waits for it, and that is what is measured.
pub const NOTED_IO_PRESSURE_SHARE: f64 = 0.1;

/// Largest 99th percentile of how late a thread woke that only sleeps, in nanoseconds: as for
/// [`MAX_SCHEDULE_DELAY_P99_NS`], 1 wake-up in 100 is as late as that. Waiting for a core as such (`/proc/pressure/cpu`) has no
/// limit: with more threads than cores some thread always waits, and only what the client's own threads wait is in its figures.
pub const MAX_PAUSE_P99_NS: u64 = 10_000_000;

/// Largest part of the headline's 99th percentile that may be the load generator's own delay: how late it woke to send, or how
/// late a thread wakes at all. Beyond a fifth the first digit of the figure may be the tool's.
pub const MAX_OWN_DELAY_SHARE: f64 = 0.2;

/// Lateness of a waking thread, in nanoseconds, that is not held against a latency: an idle core takes up to that long to wake,
/// and a latency that small (of the null broker) does not contain a wake-up.
pub const MIN_PAUSE_P99_NS: u64 = 100_000;

/// Largest difference between the rate inside the window and that until the last acknowledgement, as a share of the larger
/// one, that is not worth a note: what is in flight when a load of 5 s ends, at an answer time of 100 ms.
pub const MAX_RATE_DIFFERENCE: f64 = 0.02;

/// Full rows needed to judge how steady throughput was. A window that is known to be short is divided into ten.
pub const MIN_BINS_FOR_STEADINESS: usize = 5;

/// Full rows needed to judge a trend: with fewer, no order of them is rarer than 1 in 1,000 by chance.
pub const MIN_BINS_FOR_TREND: usize = 10;

/// Largest change of the median response time from begin to end of an open loop, as a share of it: two runs that differ by 5 % cannot be distinguished
/// when one of them changes by as much, and a change of 5 % must be found in spite of chance.
pub const MAX_LATENCY_DRIFT: f64 = 0.025;

/// Largest difference of the begin of a measurement from the rest, as a share of the rest, for the same reason.
pub const MAX_BEGIN_DIFFERENCE: f64 = 0.025;

/// As MAX_LATENCY_DRIFT, for the 99th percentile of single rows, which rests on a hundredth of the messages.
pub const MAX_TAIL_DRIFT: f64 = 0.25;

/// Least change of a latency that is a drift, in nanoseconds: below it, timers and caches of the client are measured.
pub const MIN_DRIFT_NS: f64 = 50_000.0;

/// Least growth of a group's lag over the window, as the time for which a message waits, in nanoseconds: pacing timers are exact to as much.
pub const MIN_LAG_GROWTH_NS: f64 = 1_000_000.0;

/// Rows needed to judge whether a lag grew: seven that rise one after the other are chance once in 5,040 trials.
pub const MIN_BINS_FOR_LAG: usize = 7;

/// Least score of a trend that confirms another one, in standard deviations: chance reaches it once in 44 trials.
pub const MIN_SCORE_OF_A_SECOND_TREND: f64 = 2.0;

/// Largest share of the window for which the broker of an open loop may stand still. The rates of single rows show a longer one
/// only if it does not end in the row after the one in which it began.
pub const MAX_STANDSTILL_SHARE: f64 = 0.03;

/// Share of the messages due in the second half of a supposed standstill that must have waited for half of it, for it to be
/// one. Less than all, for some may have been answered, and the rate may have been lower then.
pub const STANDSTILL_WAITING_SHARE: f64 = 0.5;

/// Rows whose due rates differ by less than this share are at the same rate: latency may change with the rate.
pub const SAME_RATE_SHARE: f64 = 0.02;

/// Least score of a trend, in standard deviations: chance alone reaches it once in 370 trials, and seldom with
/// a change that is large enough.
pub const MIN_TREND_SCORE: f64 = 3.0;

/// Largest coefficient of variation of the throughput of single seconds: with it, ten seconds give a mean that is
/// certain to about ±10 % (2 × 0.15 / √10), the same bound as [`MAX_HALVES_DIFFERENCE`].
pub const MAX_VARIATION: f64 = 0.15;

/// Largest difference of the throughput of both halves, as a share of the larger: beyond it there was a trend, and the
/// figure depends on how long was measured.
pub const MAX_HALVES_DIFFERENCE: f64 = 0.10;

/// How many times the usual 99th percentile of a row that of the first must be for a cold start to be noted: single rows differ
/// by tens of per cent without a cause.
pub const COLD_START_FACTOR: f64 = 2.0;

/// Messages expected in a row below which a row without an acknowledgement may be chance: at 10 it has a probability of e⁻¹⁰,
/// 1 in 22,000, even if messages come independently.
pub const MIN_EXPECTED_OF_EMPTY: f64 = 10.0;

/// Share of the requests that a quota refused from which the quota is taken to be the limit: a client that is refused waits
/// before it tries again, so a few refusals already mean that it was held back.
pub const QUOTA_REFUSAL_SHARE: f64 = 0.01;

/// The same for a client that is out of CPU besides. Fewer may be the refusals of one shard of ten, to which a tenth of the
/// requests goes, while more CPU would fill the other nine.
pub const QUOTA_REFUSAL_SHARE_OF_A_BUSY_CLIENT: f64 = 0.1;

/// Share of the window in which nothing was acknowledged although messages were due, or in which a condition held messages up, from which on
/// that is the limit: a rate that was caught up with after so long was not held, and a shorter one is an outage among others.
pub const STOPPED_SHARE: f64 = 0.1;

/// Share of the producers' time spent waiting for the full queue of the client from which the broker is taken to be the
/// limit, provided the client had CPU left.
pub const QUEUE_FULL_SHARE: f64 = 0.1;

/// Share of the window that must be in flight, on average over seconds, for the window to be taken as full. Not 1,
/// because an acknowledgement opens it until the next message is handed over.
pub const FULL_WINDOW_SHARE: f64 = 0.5;

/// How long after the set time a load may begin before that is noted: starting tasks takes some tens of milliseconds.
pub const LATE_START_NS: u64 = 50_000_000;
