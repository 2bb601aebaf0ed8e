//! Rank 0's part of a run: it orders each trial, lets all ranks begin at one time and end together, and merges what they kept.

use std::io::Write;
use std::time::Duration;

use super::super::progress::Progress;
use super::super::{Session, identity, interrupt, rest, worse};
use super::Exit;
use crate::cli::report;
use crate::distributed::{KeptShare, merge};
use crate::engine::{self, EngineError, Interruption, Phase, TrialIdentity, remove_topics};
use crate::evaluate::assemble_failed;
use crate::notices::notice;
use crate::ranks::{Counters, Event, FromRank, FromRoot, Hub, JointSecond, KnownClock, Order};
use crate::record::{DirectoryError, LostRank, Record, SeriesRow, Status};
use crate::scenario::{Load, Scenario};

/// From the moment in which all ranks are ready to the load: the order must reach the farthest, whose tasks start then.
const START_LEAD: Duration = Duration::from_secs(1);

/// How long the ranks may take to close their connections at the end.
pub const FAREWELL: Duration = Duration::from_secs(5);

/// Leads the ranks through all trials.
pub async fn lead(mut session: Session<'_>, mut hub: Hub, out: &mut dyn Write) -> Exit {
    let interruption = match interrupt::watch(interrupt::deadline(Some(session.plan))) {
        Ok(interruption) => interruption,
        Err(error) => return Exit::failure(error),
    };
    let exit = trials(&mut session, &mut hub, &interruption, out).await.unwrap_or_else(Exit::failure);
    hub.dismiss(FAREWELL).await;
    session.keep_metrics();
    if !session.arguments.quiet {
        session.conclude(out);
    }
    match session.arguments.report {
        true => worse(exit, report::write_page(&[session.directory.path().to_owned()], None)),
        false => exit,
    }
}

async fn trials(
    session: &mut Session<'_>,
    hub: &mut Hub,
    interruption: &Interruption,
    out: &mut dyn Write,
) -> Result<Exit, DirectoryError> {
    let mut exit = Exit::Success;
    let mut pause = Duration::ZERO;
    for position in 0..session.plan.trials.len() {
        if !session.is_to_run(position) {
            continue;
        }
        if !pause.is_zero() {
            tokio::select! {
                () = rest(pause, session.progress(position), interruption) => {}
                () = hub.signal() => {}
            }
        }
        pause = session.plan.pause;
        hub.before_trial().await;
        if interruption.is_requested() || hub.is_signalled() {
            return Ok(worse(exit, Exit::Interrupted));
        }
        let run_id = identity(&session.run_id, position).run_id;
        let trial = Trial::order(session, hub, position, &run_id).await;
        let gathered = trial.run(hub, interruption).await;
        let Gathered { has_topics, was_signalled, was_unwritten, .. } = gathered;
        let is_missing = gathered.is_missing() || was_unwritten;
        let Whole { record, series, interval_log, shares } = record(session, position, gathered);
        let written = session.directory.append_merged(&record, &series, &interval_log, &shares);
        let ended = session.ended(record, written, position, out);
        // Also where the disk does not take the record.
        if has_topics {
            remove(&session.plan.trials[position].scenario, run_id).await;
        }
        let ended = ended?;
        exit = worse(exit, if is_missing && !interruption.is_requested() { Exit::Failure } else { ended });
        if hub.reachable().count() < hub.size() {
            notice!("error: a rank was lost, so no further trial can be run");
            return Ok(if exit == Exit::Interrupted { exit } else { Exit::Failure });
        }
        if was_signalled {
            return Ok(worse(exit, Exit::Interrupted));
        }
    }
    Ok(exit)
}

/// Removes the topics that the ranks have left, because others might still have used them.
async fn remove(scenario: &Scenario, run_id: String) {
    if scenario.topology.keep || !scenario.topology.is_named_by_run() {
        return;
    }
    if let Err(error) = remove_topics(scenario, &TrialIdentity::alone(run_id, 0), false).await {
        notice!("warning: after the trial, {error}");
    }
}

/// What all ranks came to.
#[derive(Default)]
struct Gathered {
    kept: Vec<KeptShare>,
    lost: Vec<LostRank>,
    failed: Vec<Failed>,
    /// Whether the trial's topics may exist. Their ranks have left them.
    has_topics: bool,
    /// Whether the user has sent a rank a signal, which ends the run.
    was_signalled: bool,
    /// Whether a rank's disk did not take all that it kept.
    was_unwritten: bool,
}

/// A rank that could not run its share, or not keep it.
struct Failed {
    rank: LostRank,
    /// Because of a signal, which may be that of another's failure.
    interrupted: bool,
}

impl Gathered {
    /// Whether a rank has kept nothing, and no signal is the reason.
    fn is_missing(&self) -> bool {
        !self.lost.is_empty() || self.failed.iter().any(|failed| !failed.interrupted)
    }

    /// What the others lack. Where nothing was kept, ranks that were only interrupted lack nothing.
    fn missing(&self) -> Vec<LostRank> {
        let failed = self.failed.iter().filter(|failed| !failed.interrupted || !self.kept.is_empty());
        self.lost.iter().chain(failed.map(|failed| &failed.rank)).cloned().collect()
    }
}

/// One trial of all ranks.
struct Trial {
    /// Whether each rank could begin; and whether it has ended.
    ready: Vec<bool>,
    ended: Vec<bool>,
    /// What each rank's clock is corrected by.
    shifts: Vec<i64>,
    progress: WholeProgress,
    gathered: Gathered,
    /// The most signals that ranks were told of.
    told: u32,
    has_begun: bool,
}

impl Trial {
    /// Orders the trial, now that the clocks were compared.
    async fn order(session: &Session<'_>, hub: &mut Hub, position: usize, run_id: &str) -> Self {
        let size = hub.size();
        let clocks: Vec<KnownClock> = (0..size).map(|rank| hub.known_clock(rank)).collect();
        let shifts = clocks.iter().map(|clock| clock.shift_ns).collect();
        for (rank, clock) in clocks.into_iter().enumerate() {
            let directory = session.directory.path().to_owned();
            hub.tell(rank, FromRoot::Prepare(Order { position, run_id: run_id.to_owned(), directory, clock }));
        }
        let gathered = Gathered::default();
        let progress =
            WholeProgress::new(session.progress(position), &session.plan.trials[position].scenario.load, size);
        let (ready, ended) = (vec![false; size], vec![false; size]);
        Trial { ready, ended, shifts, progress, gathered, told: 0, has_begun: false }
    }

    /// Follows the ranks until all have ended or are lost.
    async fn run(mut self, hub: &mut Hub, interruption: &Interruption) -> Gathered {
        while self.ended.contains(&false) {
            let told = self.told;
            tokio::select! {
                event = hub.next() => match event {
                    Some((rank, event)) => self.happened(hub, rank, event),
                    None => break,
                },
                () = signal(interruption, told), if told < 2 => self.signal(hub, told + 1),
            }
            self.begin_when_ready(hub);
        }
        self.progress.progress.finish();
        hub.after_trial().await;
        let shifts = self.shifts;
        let mut gathered = self.gathered;
        gathered.kept.sort_by_key(|share| share.record.share.as_ref().map(|share| share.number));
        gathered.kept = gathered
            .kept
            .into_iter()
            .map(|share| {
                let rank = share.record.share.as_ref().map_or(0, |share| share.number - 1);
                share.with_clock(hub.clock(rank, shifts[rank]))
            })
            .collect();
        gathered
    }

    fn happened(&mut self, hub: &Hub, rank: usize, event: Event) {
        match event {
            Event::RoundTrip(_) => {}
            Event::Lost(reason) => {
                if !self.ended[rank] {
                    self.ended[rank] = true;
                    self.progress.notice(&format!("error: rank {rank} was lost: {reason}. The others end as well"));
                    self.gathered.lost.push(hub.lost(rank, reason));
                    self.gathered.has_topics = true;
                    self.signal(hub, 1);
                }
            }
            Event::Told(FromRank::Ready) => {
                self.ready[rank] = true;
                self.gathered.has_topics = true;
            }
            Event::Told(FromRank::Second { counters, latencies }) => {
                self.progress.add(rank, counters, &latencies, &self.ended);
            }
            Event::Told(FromRank::Signals(count)) => {
                self.gathered.was_signalled = true;
                self.signal(hub, count);
            }
            Event::Told(FromRank::Kept { kept, unwritten }) => {
                self.ended[rank] = true;
                if let Some(reason) = unwritten {
                    self.gathered.was_unwritten = true;
                    self.progress.notice(&format!(
                        "error: rank {rank} ({}) could not write all of its files: {reason}. Its record is in that of all ranks; some of its seconds may be missing in the series",
                        hub.host(rank)
                    ));
                }
                let share = KeptShare { origin: format!("rank {rank}"), ..*kept };
                // A share that stands still or has failed ends all.
                if share.record.status != Status::Completed {
                    self.signal(hub, 1);
                }
                self.gathered.kept.push(share);
            }
            Event::Told(FromRank::Failed { reason, interrupted, has_topics }) => {
                self.ended[rank] = true;
                self.gathered.has_topics |= has_topics;
                // Ranks that fail for one reason say so once.
                let is_known = self.gathered.failed.iter().any(|failed| failed.rank.reason == reason);
                if !interrupted && !is_known {
                    let host = hub.host(rank);
                    self.progress
                        .notice(&format!("error: rank {rank} ({host}) has failed: {reason}. The others end as well"));
                }
                let rank = LostRank { failed: true, ..hub.lost(rank, reason) };
                self.gathered.failed.push(Failed { rank, interrupted });
                self.signal(hub, 1);
            }
            Event::Told(FromRank::Hello(_) | FromRank::Pong { .. }) => {}
        }
    }

    fn signal(&mut self, hub: &Hub, count: u32) {
        if count > self.told {
            self.told = count;
            hub.tell_all(&FromRoot::Signals(count));
        }
    }

    fn begin_when_ready(&mut self, hub: &Hub) {
        if !self.has_begun && self.ready.iter().all(|ready| *ready) {
            self.has_begun = true;
            hub.tell_all(&FromRoot::Begin { unix_ns: hub.clock_ns() + START_LEAD.as_nanos() as u64 });
        }
    }
}

/// Resolves with the first signal of the user's, and once the ranks know of that, with the second.
async fn signal(interruption: &Interruption, told: u32) {
    if told == 0 {
        interruption.phase().over().await;
    } else {
        interruption.given_up(Duration::ZERO).await;
    }
}

/// Shows each second of all ranks together.
struct WholeProgress {
    progress: Progress,
    phase: Phase,
    sum: JointSecond,
    /// The name of its latencies.
    headline: &'static str,
    /// The ranks that are in `sum`.
    told: Vec<bool>,
}

impl WholeProgress {
    fn new(mut progress: Progress, load: &Load, size: usize) -> Self {
        progress.phase(Phase::Prepare);
        let headline = match load {
            Load::Closed => "service",
            Load::Open(_) => "response",
        };
        WholeProgress {
            progress,
            phase: Phase::Prepare,
            sum: JointSecond::default(),
            headline,
            told: vec![false; size],
        }
    }

    /// Adds a rank's second. The sum is shown when every rank that has not ended is in it, or one would be twice.
    fn add(&mut self, rank: usize, counters: Counters, latencies: &str, ended: &[bool]) {
        if self.told[rank] {
            self.show();
        }
        self.sum.add(counters, latencies);
        self.told[rank] = true;
        if self.told.iter().zip(ended).all(|(told, ended)| *told || *ended) {
            self.show();
        }
    }

    fn show(&mut self) {
        let sum = std::mem::take(&mut self.sum).second();
        self.told.fill(false);
        if sum.phase != self.phase {
            self.phase = sum.phase;
            self.progress.phase(self.phase);
        }
        self.progress.joint_second(&sum, self.headline);
    }

    fn notice(&self, line: &str) {
        self.progress.notice(line);
    }
}

/// The record of all ranks, with what else is kept of it.
struct Whole {
    record: Record,
    series: Vec<SeriesRow>,
    interval_log: String,
    shares: String,
}

fn record(session: &Session<'_>, position: usize, gathered: Gathered) -> Whole {
    let missing = gathered.missing();
    let kept = gathered.kept;
    let shares: String = kept.iter().map(|share| share.record.to_line()).collect();
    let trial = &session.plan.trials[position];
    let failed = |error: EngineError, shares: String| {
        let record = assemble_failed(trial, &session.run_id, &session.command_line, &error);
        Whole { record, series: Vec::new(), interval_log: String::new(), shares }
    };
    if kept.is_empty() {
        let error = match missing.iter().find(|rank| rank.failed).or(missing.first()) {
            // This was printed when it came.
            Some(rank) => {
                let reason = if rank.failed { rank.reason.clone() } else { format!("it was lost: {}", rank.reason) };
                EngineError::Rank { rank: rank.number - 1, reason }
            }
            None => {
                notice!("error: {}", EngineError::Interrupted);
                EngineError::Interrupted
            }
        };
        let mut whole = failed(error, shares);
        whole.record.lost_ranks = missing;
        return whole;
    }
    match merge(kept, missing, engine::kinds()) {
        Ok(merged) => Whole { record: merged.record, series: merged.series, interval_log: merged.interval_log, shares },
        Err(error) => {
            notice!("error: what the ranks kept cannot be put together: {error}");
            failed(EngineError::Rank { rank: 0, reason: error.to_string() }, shares)
        }
    }
}
