//! What a reason is called on the page, in words that need no explanation. Its evidence has the figures.

use crate::record::ReasonKind;

/// A few words, as a heading.
pub fn reason_title(kind: ReasonKind) -> &'static str {
    match kind {
        ReasonKind::LedgerMismatch => "The ledger does not add up",
        ReasonKind::Failed => "The trial failed",
        ReasonKind::ShareMissing => "A share is missing",
        ReasonKind::SharesApart => "The shares did not measure at the same time",
        ReasonKind::Interrupted => "Interrupted",
        ReasonKind::Stalled => "Nothing moved any more",
        ReasonKind::Unfinished => "Not finished",
        ReasonKind::ConsumerCrashed => "A consumer crashed",
        ReasonKind::Embedded => "No real broker",
        ReasonKind::DebugBuild => "Built without optimisation",
        ReasonKind::Losses => "Messages were lost, delivered twice or damaged",
        ReasonKind::Unread => "Messages were not read",
        ReasonKind::ConsumersBehind => "Consumers were behind",
        ReasonKind::NotAcknowledgedButStored => "Messages were stored without an acknowledgement",
        ReasonKind::Reordered => "Messages changed their order",
        ReasonKind::VerificationIncomplete => "Not every message was verified",
        ReasonKind::ReceiveErrors => "Errors while receiving",
        ReasonKind::NotReconciled => "Messages and rows of the databases differ",
        ReasonKind::WrittenTwice => "Rows were written twice",
        ReasonKind::SinkErrors => "Errors of a database",
        ReasonKind::Unparsable => "Messages could not be parsed",
        ReasonKind::FellBehind => "The pipeline fell behind",
        ReasonKind::MissingMessages => "Messages are missing from the latencies",
        ReasonKind::BeyondRange => "Latencies were too large for the histogram",
        ReasonKind::RateMissed => "Sending fell behind the wanted rate",
        ReasonKind::ClientBound => "The load generator was the limit",
        ReasonKind::TimeWithheld => "Time was withheld from the machine",
        ReasonKind::OwnDelay => "A good part of the latency is the load generator's own",
        ReasonKind::TopicNotEmpty => "The topic was not empty",
        ReasonKind::BrokerUnwatched => "The broker's processes were not seen",
        ReasonKind::HostContended => "The machine was busy with other work",
        ReasonKind::ColdStart => "Nothing was warmed up",
        ReasonKind::WarmUpTooShort => "The warm-up was too short",
        ReasonKind::NotSteady => "Rate or latency was not steady",
        ReasonKind::RatesDiffer => "The rates in and after the window differ",
        ReasonKind::TooShort => "Too little was measured",
        ReasonKind::ClocksDiffer => "Clocks may differ",
        ReasonKind::UnequalMachines => "The machines are not alike",
        ReasonKind::OneShare => "One share of a scenario",
        ReasonKind::LateStart => "The load began late",
    }
}
