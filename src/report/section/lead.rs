//! The head of the page: can the figures be trusted, how fast was it, what limited it.

use super::reason_title::reason_title;
use super::tiles::{Tile, tiles};
use super::{by_frequency, capital, several, uncapital};
use crate::record::readable::{count, duration, rate};
use crate::record::{Limiter, LoadModel, Pipeline, Reason, ReasonKind, Record, Status};
use crate::report::svg::{escape, marked};

/// What a reader is to find within seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Lead {
    /// Above the sentence: name, broker, time.
    pub context: String,
    /// The result in plain words.
    pub sentence: String,
    /// What a reader asks first, with the answers.
    pub answers: Vec<(&'static str, Word)>,
    pub tiles: Vec<Tile>,
}

pub const TRUST: &str = "Can it be trusted?";
pub const LIMIT: &str = "What limited it?";

/// Notes of a valid trial that are named with its verdict.
const MAX_NOTES: usize = 2;

/// A word with its evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct Word {
    pub tone: Tone,
    pub word: String,
    pub evidence: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Good,
    Bad,
    Doubtful,
    Plain,
}

impl Tone {
    pub fn class(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Bad => "bad",
            Tone::Doubtful => "doubt",
            Tone::Plain => "plain",
        }
    }

    pub fn mark(self) -> &'static str {
        match self {
            Tone::Good => "✓",
            Tone::Bad => "✗",
            Tone::Doubtful => "!",
            Tone::Plain => "",
        }
    }
}

/// Of one trial.
pub fn of_trial(record: &Record) -> Lead {
    let limited_by = &record.verdict.limited_by;
    let failed = record.status == Status::Failed;
    let limit = (!failed).then(|| Word {
        tone: Tone::Plain,
        word: match stage(record).filter(|_| limited_by.limiter == Limiter::Pipeline) {
            Some(stage) => format!("{}: {stage}", limiter(limited_by.limiter)),
            None => limiter(limited_by.limiter).to_owned(),
        },
        evidence: limited_by.evidence.clone(),
    });
    Lead {
        context: context(record),
        sentence: sentence(record),
        answers: std::iter::once((TRUST, verdict(record))).chain(limit.map(|limit| (LIMIT, limit))).collect(),
        tiles: if failed && record.counts.attempted == 0 { Vec::new() } else { tiles(record) },
    }
}

/// The stage of the pipeline that limits it.
fn stage(record: &Record) -> Option<&str> {
    record.pipeline.as_ref()?.bottleneck.stage.as_deref()
}

/// Scenario, broker and time.
pub fn context(record: &Record) -> String {
    // Its version is among the conditions; some brokers' names are long.
    let kind = record.scenario["broker"]["kind"].as_str();
    let kind = kind.filter(|kind| *kind != record.scenario_name);
    let kind = kind.map(|kind| if kind == "null" { "null broker".to_owned() } else { kind.to_owned() });
    let begun = record.started_at.strftime("%Y-%m-%d %H:%M UTC").to_string();
    [Some(record.scenario_name.clone()), kind, Some(begun)].into_iter().flatten().collect::<Vec<_>>().join(" · ")
}

/// "Held 20,000 messages/s; p99 3.60 ms; nothing lost."
pub fn sentence(record: &Record) -> String {
    if record.status == Status::Failed {
        let error = record.error.as_deref().unwrap_or("the record does not say why").trim_end_matches('.');
        return format!("The trial failed: {error}.");
    }
    let carried = match &record.pipeline {
        // What its producers did is among the tiles.
        Some(pipeline) if pipeline.consumed > 0 => vec![worked_off(pipeline)],
        _ => [Some(carried(record)), tail(record)].into_iter().flatten().collect(),
    };
    let text = [carried.join("; "), missing(record)].join("; ");
    if is_demonstration(record) {
        let (first, rest) = text.split_at(1);
        return format!("No real broker: {}{rest}.", first.to_lowercase());
    }
    format!("{text}.")
}

/// "The pipeline wrote 11,757 rows/s to each of redis and mongodb".
fn worked_off(pipeline: &Pipeline) -> String {
    let rates: Vec<String> = pipeline.sinks.iter().map(|sink| rate(sink.written_per_second)).collect();
    match (pipeline.sinks.as_slice(), rates.as_slice()) {
        ([], _) => format!("The pipeline consumed {} messages/s", rate(pipeline.consumed_per_second)),
        ([before @ .., last], [one, others @ ..]) if !others.is_empty() && others.iter().all(|other| other == one) => {
            let before: Vec<&str> = before.iter().map(|sink| sink.name.as_str()).collect();
            format!("The pipeline wrote {one} rows/s to each of {} and {}", before.join(", "), last.name)
        }
        (sinks, rates) => {
            let rows: Vec<String> =
                sinks.iter().zip(rates).map(|(sink, rate)| format!("{rate} rows/s to {}", sink.name)).collect();
            format!("The pipeline wrote {}", rows.join(", "))
        }
    }
}

fn carried(record: &Record) -> String {
    let throughput = &record.throughput;
    let carried = rate(throughput.messages_per_second);
    match throughput.target_per_second.filter(|_| record.load_model == LoadModel::Open) {
        Some(wanted) if has(record, ReasonKind::RateMissed) && throughput.messages_per_second >= wanted * 0.99 => {
            format!("Carried {carried} messages/s as wanted, but late")
        }
        Some(wanted) if has(record, ReasonKind::RateMissed) => {
            format!("Carried {carried} of the {} messages/s that were wanted", rate(wanted))
        }
        Some(wanted) if throughput.messages_per_second < wanted * 0.95 => {
            format!("Answered {carried} of the {} messages/s that were wanted", rate(wanted))
        }
        Some(_) => format!("Held {carried} messages/s"),
        None => format!("Carried {carried} messages/s"),
    }
}

fn has(record: &Record, kind: ReasonKind) -> bool {
    record.verdict.reasons.iter().any(|reason| reason.kind == kind)
}

fn tail(record: &Record) -> Option<String> {
    let latency = record.headline_latency()?;
    match latency.p99_ns {
        Some(p99) => Some(format!("p99 {}", duration(p99 as f64))),
        None => Some(format!("median {}", duration(latency.p50_ns as f64))),
    }
}

/// What is missing, or that nothing is.
fn missing(record: &Record) -> String {
    let counts = &record.counts;
    let outcomes = [(counts.unsent, "never sent"), (counts.failed + counts.unresolved, "not acknowledged")];
    let above = outcomes.into_iter().filter(|(number, _)| *number > 0);
    let mut found: Vec<String> = above.map(|(number, what)| format!("{} messages {what}", count(number))).collect();
    match &record.verification {
        Some(verified) => {
            let numbers = [
                (verified.lost, "lost"),
                (verified.unread, "not read"),
                (verified.duplicated, "delivered twice"),
                (verified.corrupt, "damaged"),
            ];
            let above = numbers.into_iter().filter(|(number, _)| *number > 0);
            found.extend(above.map(|(number, what)| format!("{} {what}", count(number))));
            if found.is_empty() { "nothing lost".to_owned() } else { found.join(", ") }
        }
        None if found.is_empty() => "every message acknowledged".to_owned(),
        None => found.join(", "),
    }
}

/// What stood in for a broker, inside this process; `None`: the broker was a real one.
fn stand_in(record: &Record) -> Option<&'static str> {
    match record.scenario["broker"]["kind"].as_str() {
        Some("null") => Some("The null broker ran inside brokermark: the figures describe the load generator alone."),
        _ if record.environment.embedded => {
            Some("The broker ran inside brokermark: no figure describes a real broker.")
        }
        _ => None,
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

fn demonstration(record: &Record) -> Word {
    let kinds = record.verdict.reasons.iter().map(|reason| reason.kind);
    let others: Vec<&str> = kinds.filter(|kind| *kind != ReasonKind::Embedded).map(reason_title).collect();
    let more = if others.is_empty() { String::new() } else { format!(" Also: {}; see below.", others.join("; ")) };
    let evidence = format!("{}{more}", stand_in(record).unwrap_or_default());
    Word { tone: Tone::Doubtful, word: "Only as a demonstration".to_owned(), evidence }
}

fn verdict(record: &Record) -> Word {
    let reasons = &record.verdict.reasons;
    let titles =
        |reasons: &[Reason]| reasons.iter().map(|reason| reason_title(reason.kind)).collect::<Vec<_>>().join("; ");
    let word = |tone, word: &str, evidence: String| Word { tone, word: word.to_owned(), evidence };
    if is_demonstration(record) {
        return demonstration(record);
    }
    match (record.status, record.verdict.valid) {
        (Status::Failed, _) if record.counts.attempted == 0 => {
            word(Tone::Bad, "Failed", "No message was measured.".to_owned())
        }
        (Status::Failed, _) => word(Tone::Bad, "Failed", "The figures end where it failed.".to_owned()),
        (_, true) if record.missed_a_threshold() => {
            let missed: Vec<&str> =
                record.thresholds.iter().filter(|outcome| !outcome.held).map(|outcome| outcome.text.as_str()).collect();
            word(Tone::Bad, "Valid, but a threshold was missed", missed.join(", "))
        }
        (_, true) => word(Tone::Good, "Valid", valid(record)),
        (Status::Running, _) => {
            word(Tone::Bad, "Unfinished", "This is the last checkpoint of a trial that has not ended.".to_owned())
        }
        (Status::Interrupted, _) => word(Tone::Bad, "Interrupted", titles(reasons)),
        (Status::Stalled, _) => word(Tone::Bad, "Stalled", titles(reasons)),
        (Status::Completed, _) => {
            let told = |reason: &Reason| format!("{}. {}", reason_title(reason.kind), reason.evidence);
            let first = reasons.first().map(told).unwrap_or_default();
            let more = match reasons.len() {
                0 | 1 => String::new(),
                all => format!(" {} below.", capital(&several(all - 1, "more reason"))),
            };
            word(Tone::Bad, "Not to be trusted", format!("{first}{more}"))
        }
    }
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

/// What limited most of several trials.
pub fn limits(records: &[&Record]) -> Word {
    let found = by_frequency(records.iter().map(|record| limiter(record.verdict.limited_by.limiter)));
    let all: Vec<String> =
        found.iter().map(|(name, trials)| format!("{} ({trials} of {})", name.to_lowercase(), records.len())).collect();
    let word = found.first().map_or("Not known", |entry| entry.0).to_owned();
    Word { tone: Tone::Plain, word, evidence: capital(&all.join(", ")) + "." }
}

pub fn limiter(limiter: Limiter) -> &'static str {
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

/// Keeps a number and its unit in one line, and a value with the sign before it.
fn together(text: &str) -> String {
    let mut last = ' ';
    text.chars()
        .map(|letter| {
            let kept = if letter == ' ' && (last.is_ascii_digit() || last == '=') { '\u{a0}' } else { letter };
            last = letter;
            kept
        })
        .collect()
}

impl Lead {
    pub fn html(&self) -> String {
        let word = |title: &str, word: &Word| {
            format!(
                "<div class=\"answer {}\"><h2>{}</h2><p class=\"word\"><span aria-hidden=\"true\">{}</span> {}</p><p>{}</p></div>",
                word.tone.class(),
                title,
                word.tone.mark(),
                escape(&word.word),
                marked(&word.evidence)
            )
        };
        let tiles: String = self.tiles.iter().map(Tile::html).collect();
        let tiles = if tiles.is_empty() { tiles } else { format!("<dl class=\"tiles\">{tiles}</dl>") };
        format!(
            "<header><p class=\"context\">{}</p><h1>{}</h1><div class=\"answers\">{}</div>{tiles}</header>",
            escape(&self.context),
            together(&escape(&self.sentence)),
            self.answers.iter().map(|(question, answer)| word(question, answer)).collect::<String>(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{SinkRecord, sample};

    #[test]
    fn a_valid_trial_names_its_notes() {
        let mut record = sample::record();
        record.thresholds.clear();
        let note = record.verdict.notes.first().cloned().expect("it has a note");
        let evidence = |record: &Record| of_trial(record).answers[0].1.evidence.clone();
        let title = uncapital(reason_title(note.kind));
        record.verdict.notes = vec![note.clone()];
        assert_eq!(evidence(&record), format!("No reason against the figures was found. To note: {title}."));
        record.verdict.notes = vec![note; 4];
        assert!(evidence(&record).ends_with(&format!(" To note: {title}; {title}; 2 more below.")), "{record:?}");
        record.verdict.notes.clear();
        assert_eq!(evidence(&record), "No reason against the figures was found.");
    }

    #[test]
    fn sinks_that_got_the_same_are_told_together() {
        let pipeline = |rates: &[(&str, f64)]| {
            let sinks = rates.iter().map(|(name, rate)| SinkRecord {
                name: (*name).to_owned(),
                written_per_second: *rate,
                ..SinkRecord::default()
            });
            worked_off(&Pipeline { sinks: sinks.collect(), consumed_per_second: 12.0, ..Pipeline::default() })
        };
        let same = [("redis", 1000.1), ("mongodb", 1000.2), ("redis-2", 1000.3)];
        assert_eq!(pipeline(&same), "The pipeline wrote 1,000 rows/s to each of redis, mongodb and redis-2");
        assert_eq!(pipeline(&same[..1]), "The pipeline wrote 1,000 rows/s to redis");
        let differ = [("redis", 1000.0), ("mongodb", 900.0)];
        assert_eq!(pipeline(&differ), "The pipeline wrote 1,000 rows/s to redis, 900 rows/s to mongodb");
        assert_eq!(pipeline(&[]), "The pipeline consumed 12.0 messages/s");
    }

    #[test]
    fn messages_that_were_never_sent_are_told_from_those_without_an_answer() {
        let mut record = sample::record();
        (record.counts.unsent, record.counts.failed, record.counts.unresolved) = (7, 2, 1);
        let text = sentence(&record);
        assert!(text.contains("7 messages never sent, 3 messages not acknowledged"), "{text}");
    }
}
