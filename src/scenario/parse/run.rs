//! `[run]`: how long a trial lasts.

use std::time::Duration;

use crate::limits::MAX_LATENCY_NS;
use crate::scenario::fields::Fields;
use crate::scenario::{Load, RunLimits, SchedulingPolicy, Stop, Threads};

pub(super) const KEYS: &[&str] = &[
    "warm_up",
    "messages",
    "payload_bytes",
    "duration",
    "drain_deadline",
    "catch_up_deadline",
    "stall_deadline",
    "threads",
    "scheduling_policy",
];

/// More than any machine has cores.
const MAX_THREADS: u64 = 4096;

/// How the kernel may schedule the threads.
const SCHEDULING_POLICIES: [SchedulingPolicy; 2] = [SchedulingPolicy::Batch, SchedulingPolicy::Other];

/// The histograms of latencies end here: what took longer is only counted.
const MAX_DRAIN: Duration = Duration::from_nanos(MAX_LATENCY_NS);

/// The limits, and the threads that carry the load.
pub(super) fn read(root: &Fields<'_>, load: &Load) -> (RunLimits, Threads) {
    let mut threads = Threads { count: None, scheduling_policy: SchedulingPolicy::of(load) };
    let mut run = RunLimits {
        warm_up: Duration::ZERO,
        stop: Stop::default(),
        drain_deadline: Duration::from_secs(30),
        catch_up_deadline: Duration::from_secs(300),
        stall_deadline: Duration::from_secs(60),
    };
    let Some(fields) = root.get("run").and_then(|field| field.fields(KEYS)) else { return (run, threads) };
    if let Some(warm_up) = fields.get("warm_up").and_then(|field| field.duration()) {
        run.warm_up = warm_up;
    }
    run.stop = Stop {
        messages: fields.get("messages").and_then(|field| field.count(1, u64::MAX)),
        payload_bytes: fields.get("payload_bytes").and_then(|field| field.size(u64::MAX)),
        duration: fields.get("duration").and_then(|field| field.duration_above_zero()),
    };
    if let Some(field) = fields.get("drain_deadline")
        && let Some(deadline) = field.duration_above_zero()
    {
        if deadline >= MAX_DRAIN {
            field.refuse("`run.drain_deadline` is too long", "set it below 10m: longer latencies are not recorded");
        }
        run.drain_deadline = deadline;
    }
    if let Some(deadline) = fields.get("catch_up_deadline").and_then(|field| field.duration_above_zero()) {
        run.catch_up_deadline = deadline;
    }
    if let Some(deadline) = fields.get("stall_deadline").and_then(|field| field.duration_above_zero()) {
        run.stall_deadline = deadline;
    }
    threads.count = fields.get("threads").and_then(|field| field.count(1, MAX_THREADS)).map(|count| count as usize);
    if let Some(policy) = fields
        .get("scheduling_policy")
        .and_then(|field| field.one_of(&SCHEDULING_POLICIES.map(|policy| (policy.name(), policy))))
    {
        threads.scheduling_policy = policy;
    }
    (run, threads)
}
