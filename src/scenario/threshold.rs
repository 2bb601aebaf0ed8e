//! The requirements of a scenario: metric, comparison and value.

/// `p99 < 10ms`, `messages_per_second > 50k`, `lost = 0`.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// As written.
    pub text: String,
    pub metric: Metric,
    pub comparison: Comparison,
    /// In the metric's unit: nanoseconds, messages per second, bytes per second, or a count.
    pub value: f64,
}

/// What a record that is not valid does to a run with thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenInvalid {
    /// The run exits as if a threshold had been missed: figures that cannot be trusted hold nothing.
    #[default]
    Fail,
    /// The thresholds alone decide.
    Ignore,
}

/// What a threshold may be about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Metric {
    /// A quantile (0 to 1) of a latency, or its mean or maximum, in nanoseconds.
    Latency(LatencyKind, LatencyStatistic),
    MessagesPerSecond,
    PayloadBytesPerSecond,
    ConsumedPerSecond,
    /// Of the slowest of a pipeline's sinks.
    WrittenPerSecond,
    /// Messages that a pipeline was behind when it ended.
    ConsumerLag,
    Failed,
    Unresolved,
    Lost,
    Unread,
    Duplicated,
    Reordered,
    Corrupt,
    /// CPU of this process per acknowledged message, in nanoseconds.
    CpuPerMessage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencyKind {
    /// The headline: response time in an open loop, service time in a closed one.
    Headline,
    Response,
    Service,
    ScheduleDelay,
    EndToEnd,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LatencyStatistic {
    Quantile(f64),
    Mean,
    Max,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}
