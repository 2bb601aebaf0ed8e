//! Can the figures be trusted, what limited them, and each reason for it.

use std::collections::BTreeMap;

use super::{Align, Answer, Column, Finding, LIMIT, TRUST, Table, Tone, by_frequency, capital, several, uncapital};
use crate::record::readable::percent;
use crate::record::{Limiter, Reason, ReasonKind, Record, Status, ThresholdOutcome};

/// Notes of a valid trial that are named with its verdict.
const MAX_NOTES: usize = 2;

/// What a failed trial is without an error.
const NO_CAUSE: &str = "the record does not say why";

/// What a reason is called, as a heading that needs no explanation. Its evidence has the figures.
pub fn reason_title(kind: ReasonKind) -> &'static str {
    match kind {
        ReasonKind::LedgerMismatch => "The ledger does not add up",
        ReasonKind::Failed => "The trial failed",
        ReasonKind::ShareMissing => "A share is missing",
        ReasonKind::SharesApart => "The shares did not measure at the same time",
        ReasonKind::Interrupted => "Interrupted",
        ReasonKind::Stalled => "Stalled",
        ReasonKind::Unfinished => "Not finished",
        ReasonKind::ConsumerCrashed => "A consumer crashed",
        ReasonKind::Embedded => "No real broker",
        ReasonKind::DebugBuild => "Built without optimisation",
        ReasonKind::Losses => "Messages were lost, delivered twice or damaged",
        ReasonKind::Unread => "Messages were not read",
        ReasonKind::Removed => "Messages were removed by the broker's own rules",
        ReasonKind::LagGrew => "Consumers fell further and further behind",
        ReasonKind::ConsumersBehind => "Consumers were behind",
        ReasonKind::NotAcknowledgedButStored => "Messages were stored without an acknowledgement",
        ReasonKind::Reordered => "Messages changed their order",
        ReasonKind::VerificationIncomplete => "Not every message was verified",
        ReasonKind::FaultFailed => "A fault failed",
        ReasonKind::ReceiveErrors => "Errors while receiving",
        ReasonKind::ConnectionsMissing => "Connections were missing",
        ReasonKind::NotReconciled => "Messages and rows of the databases differ",
        ReasonKind::WrittenTwice => "Rows were written twice",
        ReasonKind::SinkErrors => "Errors of a database",
        ReasonKind::Unparsable => "Messages could not be parsed",
        ReasonKind::FellBehind => "The pipeline fell behind",
        ReasonKind::MissingMessages => "Messages are missing from the latencies",
        ReasonKind::BeyondRange => "Latencies were too large for the histogram",
        ReasonKind::RateMissed => "Sending fell behind the wanted rate",
        ReasonKind::ClientBound => "The load generator was the limit",
        ReasonKind::TimeWithheld => "CPU was stolen or throttled",
        ReasonKind::OwnDelay => "The load generator added much of the latency",
        ReasonKind::FewEventsInTail => "Few events made a high percentile",
        ReasonKind::SharedCores => "Hardware threads shared physical cores",
        ReasonKind::TopicNotEmpty => "The topic was not empty",
        ReasonKind::TopicReplaced => "A topic was deleted and created again",
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

/// What limited a trial, as a word.
pub fn limiter_name(limiter: Limiter) -> &'static str {
    match limiter {
        Limiter::Client => "The load generator",
        Limiter::Machine => "The machine",
        Limiter::Broker => "The broker",
        Limiter::Schedule => "Nothing: the wanted rate was held",
        Limiter::Window => "The window of messages in flight",
        Limiter::Pipeline => "The pipeline",
        Limiter::Unknown => "Not known",
    }
}

/// Whether nothing went wrong, and the trial is not valid only because it is there to try things out.
pub fn is_demonstration(record: &Record) -> bool {
    record.is_demonstration()
        || (record.is_without_broker()
            && record.status == Status::Completed
            && !record.verdict.valid
            && record.verdict.reasons.iter().all(|reason| reason.kind.is_about_speed()))
}

/// Whether the record's figures count: it is valid, or a demonstration.
pub fn counts(record: &Record) -> bool {
    record.verdict.valid || is_demonstration(record)
}

/// What stood in for a broker, inside this process; `None`: the broker was a real one.
fn stand_in(record: &Record) -> Option<&'static str> {
    if record.is_without_broker() {
        return Some("The null broker ran inside brokermark: the figures describe the load generator alone.");
    }
    record.environment.embedded.then_some("The broker ran inside brokermark: no figure describes a real broker.")
}

fn titles(reasons: &[Reason]) -> String {
    if reasons.is_empty() {
        return format!("{}.", capital(NO_CAUSE));
    }
    reasons.iter().map(|reason| reason_title(reason.kind)).collect::<Vec<_>>().join("; ") + "."
}

/// Whether one trial can be trusted.
pub fn trust(record: &Record) -> Answer {
    let reasons = &record.verdict.reasons;
    let answer = |tone, word: &str, evidence: String| Answer { question: TRUST, tone, word: word.to_owned(), evidence };
    if is_demonstration(record) {
        return answer(Tone::Doubtful, "Only as a demonstration", demonstration(record));
    }
    match (record.status, record.verdict.valid) {
        (Status::Failed, _) if record.counts.attempted == 0 => {
            answer(Tone::Bad, "Failed", "No message was measured.".to_owned())
        }
        (Status::Failed, _) => answer(Tone::Bad, "Failed", "The figures end where it failed.".to_owned()),
        (_, true) if record.missed_a_threshold() => {
            let missed = record.thresholds.iter().filter(|outcome| !outcome.held).map(|outcome| outcome.text.as_str());
            let missed = missed.collect::<Vec<_>>().join(", ");
            let stand_in = stand_in(record).map(|sentence| format!(" {sentence}")).unwrap_or_default();
            answer(Tone::Bad, "Valid, but a threshold was missed", format!("{missed}.{stand_in}"))
        }
        (_, true) => answer(Tone::Good, "Valid", valid(record)),
        (Status::Running, _) => {
            answer(Tone::Bad, "Unfinished", "This is the last checkpoint of a trial that has not ended.".to_owned())
        }
        (Status::Interrupted, _) => answer(Tone::Bad, "Interrupted", titles(reasons)),
        (Status::Stalled, _) => answer(Tone::Bad, "Stalled", titles(reasons)),
        (Status::Completed, _) => answer(Tone::Bad, "Not to be trusted", titles(reasons)),
    }
}

fn demonstration(record: &Record) -> String {
    let kinds = record.verdict.reasons.iter().map(|reason| reason.kind);
    let others: Vec<&str> = kinds.filter(|kind| *kind != ReasonKind::Embedded).map(reason_title).collect();
    let more = if others.is_empty() { String::new() } else { format!(" Also: {}; see below.", others.join("; ")) };
    format!("{}{more}", stand_in(record).unwrap_or_default())
}

fn valid(record: &Record) -> String {
    let thresholds = record.thresholds.len();
    let mut text = stand_in(record).map(|sentence| format!("{sentence} ")).unwrap_or_default();
    text += "No reason against the figures was found";
    if thresholds > 0 {
        text += &format!("; {} held", several(thresholds, "threshold"));
    }
    text + "." + &notes(record)
}

/// The first notes, by their titles.
fn notes(record: &Record) -> String {
    let notes = &record.verdict.notes;
    let titles = notes.iter().take(MAX_NOTES).map(|note| uncapital(reason_title(note.kind)));
    match (titles.collect::<Vec<_>>().join("; "), notes.len()) {
        (_, 0) => String::new(),
        (titles, all) if all > MAX_NOTES => format!(" To note: {titles}; {} more below.", all - MAX_NOTES),
        (titles, _) => format!(" To note: {titles}."),
    }
}

/// Whether several trials can be trusted. `place` names a trial's point.
pub fn trust_of_all(records: &[&Record], place: impl Fn(&Record) -> String) -> Answer {
    let valid = records.iter().filter(|record| record.verdict.valid).count();
    let is_shown_only = records.iter().all(|record| is_demonstration(record));
    let tone = match valid {
        _ if is_shown_only => Tone::Doubtful,
        0 => Tone::Bad,
        valid if valid == records.len() => Tone::Good,
        // The headline tells the figures of the valid ones.
        _ => Tone::Doubtful,
    };
    let word = if is_shown_only {
        format!("Only as a demonstration of {} trials", records.len())
    } else {
        format!("{valid} of {} trials valid", records.len())
    };
    let mut found: BTreeMap<ReasonKind, Vec<&Record>> = BTreeMap::new();
    for record in records {
        for reason in &record.verdict.reasons {
            found.entry(reason.kind).or_default().push(record);
        }
    }
    let mut found: Vec<(ReasonKind, Vec<&Record>)> = found.into_iter().collect();
    found.sort_by_key(|(_, trials)| std::cmp::Reverse(trials.len()));
    let text = |(kind, trials): &(ReasonKind, Vec<&Record>)| {
        let point = match trials.as_slice() {
            [record] if !record.point.is_empty() => format!(" ({})", place(record)),
            _ => String::new(),
        };
        format!("{}: {}{point}", reason_title(*kind), several(trials.len(), "trial"))
    };
    let texts: Vec<String> = found.iter().map(text).collect();
    let evidence =
        if texts.is_empty() { "No reason against the figures was found.".to_owned() } else { texts.join("; ") + "." };
    Answer { question: TRUST, tone, word, evidence }
}

/// What limited one trial; `None`: it failed.
pub fn limit(record: &Record) -> Option<Answer> {
    let limited_by = &record.verdict.limited_by;
    let stage = || record.pipeline.as_ref()?.bottleneck.stage.as_deref();
    let name = limiter_name(limited_by.limiter);
    let word = match (limited_by.limiter, stage(), others(record)) {
        (Limiter::Pipeline, Some(stage), _) => format!("{name}: {stage}"),
        (Limiter::Machine, _, Some(others)) => {
            format!("Other programs on this machine ({} of its CPU)", percent(others))
        }
        _ => name.to_owned(),
    };
    let evidence = limited_by.evidence.clone();
    (record.status != Status::Failed).then_some(Answer { question: LIMIT, tone: Tone::Plain, word, evidence })
}

/// What other programs took of the machine's CPU, where that is more than brokermark took.
fn others(record: &Record) -> Option<f64> {
    let own = record.client.cores_used / record.environment.cores.max(1) as f64;
    record.cpu_share_of_others().filter(|others| *others > own)
}

/// What limited most of several trials.
pub fn limit_of_all(records: &[&Record]) -> Answer {
    let found = by_frequency(records.iter().map(|record| limiter_name(record.verdict.limited_by.limiter)));
    let all = found.iter().map(|(name, trials)| format!("{} ({trials} of {})", uncapital(name), records.len()));
    let (word, evidence) = match found.as_slice() {
        [] => ("Not known", String::new()),
        [(only, trials)] => (*only, format!("In {trials} of {}.", several(records.len(), "trial"))),
        [(most, _), ..] => (*most, capital(&all.collect::<Vec<_>>().join(", ")) + "."),
    };
    Answer { question: LIMIT, tone: Tone::Plain, word: word.to_owned(), evidence }
}

/// Why trials failed, then every reason and every note once: with how many trials it concerns, and one of them in words.
pub fn findings(records: &[&Record]) -> Vec<Finding> {
    // What is there to try things out has its reasons as notes.
    let tone = if records.iter().all(|record| is_demonstration(record)) { Tone::Doubtful } else { Tone::Bad };
    let mut found = failures(records);
    found.extend(each_once(records, tone, |record| &record.verdict.reasons));
    found.extend(each_once(records, Tone::Doubtful, |record| &record.verdict.notes));
    found
}

fn each_once(records: &[&Record], tone: Tone, reasons: fn(&Record) -> &[Reason]) -> Vec<Finding> {
    let mut found: BTreeMap<ReasonKind, (usize, &Reason)> = BTreeMap::new();
    for record in records.iter().filter(|record| record.status != Status::Failed) {
        for reason in reasons(record).iter().filter(|reason| reason.kind != ReasonKind::Embedded || tone == Tone::Bad) {
            found.entry(reason.kind).or_insert((0, reason)).0 += 1;
        }
    }
    let finding = |(kind, (trials, reason)): (ReasonKind, (usize, &Reason))| Finding {
        tone,
        id: kind.to_string(),
        title: reason_title(kind).to_owned(),
        trials: if let [_] = records { String::new() } else { format!("{trials} of {} trials", records.len()) },
        evidence: reason.evidence.clone(),
        advice: reason.advice.clone(),
    };
    found.into_iter().map(finding).collect()
}

/// Each cause once; of one trial, its headline has it.
fn failures(records: &[&Record]) -> Vec<Finding> {
    let mut causes: BTreeMap<&str, usize> = BTreeMap::new();
    for record in records.iter().filter(|record| record.status == Status::Failed && records.len() > 1) {
        *causes.entry(record.error.as_deref().unwrap_or(NO_CAUSE)).or_default() += 1;
    }
    let finding = |(cause, trials): (&str, usize)| Finding {
        tone: Tone::Bad,
        id: ReasonKind::Failed.to_string(),
        title: reason_title(ReasonKind::Failed).to_owned(),
        trials: several(trials, "trial"),
        evidence: cause.to_owned(),
        ..Finding::default()
    };
    causes.into_iter().map(finding).collect()
}

/// Why a trial failed, without a full stop.
pub fn cause(record: &Record) -> &str {
    record.error.as_deref().unwrap_or(NO_CAUSE).trim_end_matches('.')
}

/// What became of each threshold: of one trial with what was measured, of several in how many trials it held.
pub fn thresholds(records: &[&Record]) -> Table {
    let cell = |is_held: bool, word: String| {
        let tone = if is_held { Tone::Good } else { Tone::Bad };
        (tone, format!("{} {word}", tone.mark()))
    };
    let column = |title: &str, cells: Vec<(Tone, String)>| Column::toned(title, Align::Left, Column::KEEP, cells);
    let plain = |text: &str| (Tone::Plain, text.to_owned());
    let columns = if let [record] = records {
        let all = || record.thresholds.iter();
        let word = |outcome: &ThresholdOutcome| if outcome.held { "held" } else { "missed" }.to_owned();
        vec![
            column("thresholds", all().map(|outcome| plain(&outcome.text)).collect()),
            column("outcome", all().map(|outcome| cell(outcome.held, word(outcome))).collect()),
            column("measured", all().map(|outcome| plain(&outcome.explanation)).collect()),
        ]
    } else {
        let mut held: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for outcome in records.iter().flat_map(|record| &record.thresholds) {
            let entry = held.entry(&outcome.text).or_default();
            *entry = (entry.0 + usize::from(outcome.held), entry.1 + 1);
        }
        let trials = |(held, all): (usize, usize)| format!("held by {held} of {}", several(all, "trial"));
        vec![
            column("thresholds", held.keys().map(|text| plain(text)).collect()),
            column("outcome", held.values().map(|held| cell(held.0 == held.1, trials(*held))).collect()),
        ]
    };
    Table { title: "Thresholds".to_owned(), columns, ..Table::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::sample;

    #[test]
    fn valid_trial_names_its_notes() {
        let mut record = sample::record();
        record.thresholds.clear();
        let note = record.verdict.notes.first().cloned().expect("it has a note");
        let title = uncapital(reason_title(note.kind));
        record.verdict.notes = vec![note.clone()];
        assert_eq!(trust(&record).evidence, format!("No reason against the figures was found. To note: {title}."));
        record.verdict.notes = vec![note; 4];
        let evidence = trust(&record).evidence;
        assert!(evidence.ends_with(&format!(" To note: {title}; {title}; 2 more below.")), "{evidence}");
        record.verdict.notes.clear();
        assert_eq!(trust(&record).evidence, "No reason against the figures was found.");
    }
}
