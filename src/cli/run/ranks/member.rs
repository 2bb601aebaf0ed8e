//! A rank's part of a run: its share of each trial that rank 0 orders.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio_util::context::TokioContext;

use super::super::interrupt;
use super::super::progress::Progress;
use super::super::recording::{Recording, Run};
use super::{Exit, RunArguments, RunSpec, connect, divided};
use crate::cli::load_threads::LoadThreads;
use crate::distributed::KeptShare;
use crate::engine::{
    ComparedClock, EngineError, Interruption, Observer, Outcome, Phase, Preparation, Second, StartBarrier,
    TrialIdentity, run_scenario,
};
use crate::measure::host::HostShare;
use crate::measure::{Interval, MessageSets, Reception};
use crate::notices::notice;
use crate::ranks::{Counters, FromRank, FromRoot, KnownClock, Member, Order, RankPlace, injected_offset_ns};
use crate::record::{Record, RunDirectory};
use crate::scenario::{Plan, Share, Trial};
use crate::secrets::masked_command_line;

/// What a rank did that ran no trial when rank 0 was lost.
const WAITING: &str = "while this rank waited for its orders";

/// One rank, connected to rank 0.
struct Part<'a> {
    arguments: &'a RunArguments,
    run_spec: &'a RunSpec,
    number: usize,
    host_share: HostShare,
    plan: Plan,
    /// Those of the trials. What ranks say to each other has a thread of its own.
    threads: LoadThreads,
    member: Member,
    /// This process's own signals.
    own: Interruption,
    /// How many of these rank 0 knows of.
    told_signals: u32,
    /// Where the latest trial was kept that rank 0 was told of.
    latest: Option<PathBuf>,
}

/// How a trial ended for this rank.
enum Ended {
    Told,
    /// Rank 0 is lost: when, and what that means for what was measured.
    RootLost(String),
}

/// Connects to rank 0, and does what it orders until it has no more orders.
pub async fn take_part(
    arguments: &RunArguments,
    run_spec: &RunSpec,
    place: RankPlace,
    plan: Result<Plan, String>,
) -> Exit {
    let RankPlace { rank, size, host_share, .. } = place;
    let plan = plan.and_then(|plan| divided(plan, Share { number: rank + 1, count: size }));
    let mut member = match connect(run_spec, rank, &plan).await {
        Ok(member) => member,
        Err(error) => return Exit::failure(error),
    };
    let own = match if rank == 0 {
        Ok(Interruption::none())
    } else {
        interrupt::watch(interrupt::deadline(plan.as_ref().ok()))
    } {
        Ok(own) => own,
        Err(error) => return Exit::failure(error),
    };
    match plan {
        Ok(plan) => {
            Part {
                arguments,
                run_spec,
                number: rank + 1,
                host_share,
                plan,
                threads: LoadThreads::default(),
                member,
                own,
                told_signals: 0,
                latest: None,
            }
            .run()
            .await
        }
        // Rank 0 knows why, and refuses the run.
        Err(_) => match member.order().await {
            Some(FromRoot::Refused { reason }) => refused(rank, &reason),
            _ => root_lost(WAITING),
        },
    }
}

impl Part<'_> {
    async fn run(mut self) -> Exit {
        loop {
            let order = tokio::select! {
                order = self.member.order() => order,
                () = signal_after(&self.own, self.told_signals), if self.told_signals < 2 => {
                    self.told_signals += 1;
                    self.member.tell(FromRank::Signals(self.told_signals));
                    continue;
                }
            };
            match order {
                Some(FromRoot::Prepare(order)) => match self.trial(&order).await {
                    Ended::Told => {}
                    Ended::RootLost(when) => return root_lost(&when),
                },
                Some(FromRoot::Refused { reason }) => return refused(self.number - 1, &reason),
                Some(FromRoot::Goodbye) => return Exit::Success,
                // Of a trial that has ended here.
                Some(_) => {}
                None => return self.waited_in_vain(),
            }
        }
    }

    /// Runs this rank's share of a trial, and tells rank 0 what was kept.
    async fn trial(&mut self, order: &Order) -> Ended {
        let trial = self.plan.trials[order.position].clone();
        let path = self.directory(order);
        let load = match self.threads.get(trial.scenario.threads) {
            Ok(load) => load.handle().clone(),
            Err(error) => return self.cannot_begin(error),
        };
        let mut directory = match RunDirectory::create_at(&path, &self.plan.text) {
            Ok(directory) => directory,
            Err(error) => return self.cannot_begin(error.to_string()),
        };
        let Measured { result, has_topics, is_root_lost } = self.measure(&trial, load, order, &mut directory).await;
        drop(directory);
        if is_root_lost {
            return Ended::RootLost(lost_during(&path, &result));
        }
        let failed = |reason: String, interrupted: bool| FromRank::Failed { reason, interrupted, has_topics };
        let told = match result {
            Ok(None) => match KeptShare::read(&path) {
                Ok(share) => FromRank::Kept { kept: Box::new(share), unwritten: None },
                Err(error) => failed(error.to_string(), false),
            },
            Ok(Some(Unwritten { record, messages, reason })) => match KeptShare::with_record(&path, record, messages) {
                Ok(share) => FromRank::Kept { kept: Box::new(share), unwritten: Some(reason) },
                Err(error) => failed(error.to_string(), false),
            },
            Err(error) => failed(error.to_string(), matches!(error, EngineError::Interrupted)),
        };
        if matches!(told, FromRank::Kept { unwritten: None, .. }) {
            self.latest = Some(path);
        }
        self.member.tell_encoded(told);
        Ended::Told
    }

    /// Rank 0 is lost, and no trial runs.
    fn waited_in_vain(&self) -> Exit {
        match &self.latest {
            None => root_lost(WAITING),
            Some(directory) => root_lost(&format!(
                "{WAITING}. Its latest record is in {}: without a record of all ranks, merge theirs with `brokermark merge`",
                directory.display()
            )),
        }
    }

    fn cannot_begin(&self, reason: String) -> Ended {
        self.member.tell(FromRank::Failed { reason, interrupted: false, has_topics: false });
        Ended::Told
    }

    /// Where this rank keeps its record: a run directory of its own for each trial, as `brokermark merge` reads it.
    fn directory(&self, order: &Order) -> PathBuf {
        let share = format!("share-{}", self.number);
        let name = match self.plan.trials.len() {
            1 => share,
            _ => format!("{share}-trial-{}", order.position + 1),
        };
        order.directory.join(name)
    }

    /// Runs the trial on the threads of `load`, obeying rank 0.
    async fn measure(&mut self, trial: &Trial, load: Handle, order: &Order, directory: &mut RunDirectory) -> Measured {
        let (preparation, prepared) = watch::channel(Preparation::default());
        let (start, starts) = watch::channel(None);
        let (signals, signalled) = watch::channel(self.told_signals);
        let KnownClock { name, shift_ns, error_ns } = order.clock.clone();
        let identity = TrialIdentity {
            tag: crc32fast::hash(order.run_id.as_bytes()),
            run_id: order.run_id.clone(),
            load_start_unix_ns: None,
            start_barrier: Some(StartBarrier::new(preparation, starts)),
            clock_shift_ns: injected_offset_ns() + shift_ns,
            compared: Some(ComparedClock { name, shift_ns, error_ns }),
            host_share: self.host_share,
        };
        let command_line = masked_command_line();
        let checkpoint_every = self.arguments.checkpoint_every;
        let run = Run { id: &self.run_spec.run_id, command_line: &command_line, checkpoint_every, ceiling: None };
        let progress = Progress::named(true, String::new(), trial.scenario.run.clone(), Duration::ZERO);
        let recording =
            Recording::new(trial, run, directory, progress, None).by_clock_ahead(injected_offset_ns() + shift_ns);
        let is_quiet = self.arguments.quiet;
        let mut reporting = Reporting { recording, is_quiet, to_root: self.member.to_root() };
        let interruption = Interruption::new(signalled);
        let mut is_root_lost = false;
        let result = {
            let measuring =
                TokioContext::new(run_scenario(&trial.scenario, &identity, &interruption, &mut reporting), load);
            let own = (&self.own, &mut self.told_signals);
            let obeying = obey(&mut self.member, own, prepared.clone(), &start, &signals, &mut is_root_lost);
            tokio::select! {
                result = measuring => result,
                never = obeying => match never {},
            }
        };
        let rank = self.number - 1;
        let kept = reporting.recording.finish(result.as_ref().err());
        if let Ok(Outcome { close_error: Some(error), .. }) = &result {
            notice!("warning: rank {rank}: {error}");
        }
        let unwritten = kept.and_then(|(record, kept)| Some((record, kept.err()?)));
        if let Some((_, error)) = &unwritten {
            notice!("error: rank {rank}: {error}");
        }
        let result = result.map(|outcome| {
            let (record, error) = unwritten?;
            let messages = outcome.part.and_then(|part| part.messages).map(Arc::new);
            Some(Unwritten { record, messages, reason: error.to_string() })
        });
        let has_topics = *prepared.borrow() >= Preparation::Topics;
        Measured { result, has_topics, is_root_lost }
    }
}

/// What a rank measured and its disk did not take.
struct Unwritten {
    record: Record,
    /// As [`KeptShare::messages`](crate::distributed::KeptShare::messages).
    messages: Option<Arc<MessageSets>>,
    reason: String,
}

/// When rank 0 was lost whose trial ran, and what that means for what this rank measured.
fn lost_during(path: &Path, result: &Result<Option<Unwritten>, EngineError>) -> String {
    match result {
        Ok(None) => format!(
            "during the load, so no record of all ranks was written. This rank's is in {}: put them together with `brokermark merge`",
            path.display()
        ),
        Ok(Some(unwritten)) => format!(
            "during the load, so no record of all ranks was written. This rank's was not written either: {}",
            unwritten.reason
        ),
        Err(EngineError::Interrupted) => "before this rank's load began, so it measured nothing".to_owned(),
        Err(error) => format!("and this rank's trial has failed: {error}"),
    }
}

/// How a rank's trial went.
struct Measured {
    /// With what the disk did not take.
    result: Result<Option<Unwritten>, EngineError>,
    /// Whether the trial's topics exist.
    has_topics: bool,
    /// Whether rank 0 was lost meanwhile.
    is_root_lost: bool,
}

/// Tells rank 0 that this rank is ready and which signals came, and passes on its orders.
async fn obey(
    member: &mut Member,
    (own, told_signals): (&Interruption, &mut u32),
    mut prepared: watch::Receiver<Preparation>,
    start: &watch::Sender<Option<u64>>,
    signals: &watch::Sender<u32>,
    is_root_lost: &mut bool,
) -> std::convert::Infallible {
    let raise = |count: u32| signals.send_modify(|signals| *signals = (*signals).max(count));
    let mut told_ready = false;
    loop {
        tokio::select! {
            ready = prepared.wait_for(|prepared| *prepared == Preparation::Ready), if !told_ready => {
                told_ready = true;
                if ready.is_ok() {
                    member.tell(FromRank::Ready);
                }
            }
            () = signal_after(own, *told_signals), if *told_signals < 2 => {
                *told_signals += 1;
                raise(*told_signals);
                member.tell(FromRank::Signals(*told_signals));
            }
            order = member.order(), if !*is_root_lost => match order {
                Some(FromRoot::Begin { unix_ns }) => { start.send_replace(Some(unix_ns)); }
                Some(FromRoot::Signals(count)) => raise(count),
                Some(_) => {}
                None => {
                    *is_root_lost = true;
                    raise(1);
                }
            },
            else => std::future::pending().await,
        }
    }
}

/// Resolves with the signal after those that have come.
async fn signal_after(own: &Interruption, before: u32) {
    match before {
        0 => own.phase().over().await,
        _ => own.given_up(Duration::ZERO).await,
    }
}

/// The ranks do not run together.
fn refused(rank: usize, reason: &str) -> Exit {
    // Rank 0 has said so.
    if rank > 0 {
        notice!("error: rank {rank} does not run: {reason}");
    }
    Exit::Failure
}

/// `when`: what this rank did then, and what that means for what it measured.
fn root_lost(when: &str) -> Exit {
    Exit::failure(format!("rank 0 was lost {when}"))
}

/// The observer of a rank's share of a trial: it keeps the trial, and tells rank 0 what happens each second.
struct Reporting<'a> {
    recording: Recording<'a>,
    is_quiet: bool,
    to_root: UnboundedSender<FromRank>,
}

impl Observer for Reporting<'_> {
    fn phase(&mut self, phase: Phase) {
        self.recording.phase(phase);
    }

    fn warning(&mut self, sentence: &str) {
        self.recording.warning(sentence);
    }

    /// Rank 0 alone has faults, and its own progress is silent.
    fn fault(&mut self, sentence: &str) {
        if !self.is_quiet {
            notice!("{sentence}");
        }
    }

    fn second(&mut self, second: &Second, outcomes: &Interval, arrivals: &Reception) {
        // Every rank keeps an interval log: the histogram is encoded once.
        let latencies = self.recording.keep_second(second, outcomes, arrivals, outcomes.headline()).unwrap_or_default();
        // Where rank 0 is lost, its orders end.
        let told = FromRank::Second { counters: Counters::from_second(second), latencies };
        let _ = self.to_root.send(told);
    }

    fn wants_checkpoint(&self) -> bool {
        self.recording.wants_checkpoint()
    }

    fn checkpoint(&mut self, so_far: &Outcome) {
        self.recording.checkpoint(so_far);
    }

    fn ended(&mut self, outcome: &Outcome) {
        self.recording.ended(outcome);
    }
}
