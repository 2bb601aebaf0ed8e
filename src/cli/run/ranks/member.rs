//! A rank's part of a run: its share of each trial that rank 0 orders.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::context::TokioContext;

use super::super::interrupt;
use super::super::progress::Progress;
use super::super::recording::{Recording, Run};
use super::reporting::Reporting;
use super::{Exit, Invitation, RunArguments, connect, divided, failed};
use crate::cli::kept_share::{read, with_record};
use crate::cli::load_threads::LoadThreads;
use crate::distributed::KeptShare;
use crate::engine::{
    ComparedClock, EngineError, Interruption, Outcome, Preparation, Rendezvous, TrialIdentity, run_scenario,
};
use crate::evaluate::assemble_failed;
use crate::measure::host::HostShare;
use crate::ranks::{FromRank, FromRoot, KnownClock, Member, Order, Place, injected_offset_ns};
use crate::record::{Record, RunDirectory};
use crate::scenario::{Plan, Share, Trial};
use crate::secrets::mask_arguments;

/// When rank 0 was lost, of a rank that runs no trial.
const WAITING: &str = "while this rank waited for its orders";

/// One rank, connected to rank 0.
struct Part<'a> {
    arguments: &'a RunArguments,
    invitation: &'a Invitation,
    number: usize,
    host_share: HostShare,
    plan: Plan,
    /// Those of the trials. What ranks say to each other has a thread of its own.
    threads: LoadThreads,
    member: Member,
    /// This process's own signals.
    own: Interruption,
    /// Where the latest trial was kept that rank 0 was told of.
    latest: Option<PathBuf>,
}

/// How a trial ended for this rank.
enum Ended {
    Told,
    /// Rank 0 is lost. What was measured is in this directory; `None`: nothing was.
    RootLost(Option<PathBuf>),
}

/// Connects to rank 0, and does what it orders until it has no more orders.
pub async fn take_part(
    arguments: &RunArguments,
    invitation: &Invitation,
    place: Place,
    plan: Result<Plan, String>,
) -> Exit {
    let Place { rank, size, host_share, .. } = place;
    let plan = plan.and_then(|plan| divided(plan, Share { number: rank + 1, count: size }));
    let mut member = match connect(invitation, rank, &plan).await {
        Ok(member) => member,
        Err(error) => return failed(&error),
    };
    let own = match if rank == 0 { Ok(Interruption::none()) } else { interrupt::watch() } {
        Ok(own) => own,
        Err(error) => {
            eprintln!("error: cannot listen for signals: {error}");
            return Exit::Failure;
        }
    };
    match plan {
        Ok(plan) => {
            Part {
                arguments,
                invitation,
                number: rank + 1,
                host_share,
                plan,
                threads: LoadThreads::default(),
                member,
                own,
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
            match self.member.order().await {
                Some(FromRoot::Prepare(order)) => match self.trial(&order).await {
                    Ended::Told => {}
                    Ended::RootLost(Some(directory)) => {
                        return root_lost(&format!(
                            "during the load, so no record of all ranks was written. This rank's is in {}: put them together with `brokermark merge`",
                            directory.display()
                        ));
                    }
                    Ended::RootLost(None) => return root_lost("before the load began, so nothing was measured"),
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
        let load = match self.threads.of(trial.scenario.threads) {
            Ok(load) => load.handle().clone(),
            Err(error) => return self.cannot_begin(format!("the threads of the load cannot be started: {error}")),
        };
        let mut directory = match RunDirectory::create_at(&path, &self.plan.text) {
            Ok(directory) => directory,
            Err(error) => return self.cannot_begin(error.to_string()),
        };
        let Measured { result, has_topics, is_root_lost } = self.measure(&trial, load, order, &mut directory).await;
        drop(directory);
        if is_root_lost {
            return Ended::RootLost(result.is_ok().then_some(path));
        }
        let told = match result.map(|unwritten| self.kept(&path, unwritten)) {
            Ok(Ok(share)) => {
                self.latest = Some(path);
                FromRank::Kept(Box::new(share.into()))
            }
            Ok(Err(reason)) => FromRank::Failed { reason, interrupted: false, has_topics },
            Err(error) => {
                let interrupted = matches!(error, EngineError::Interrupted);
                FromRank::Failed { reason: error.to_string(), interrupted, has_topics }
            }
        };
        self.member.tell(told);
        Ended::Told
    }

    /// Rank 0 is lost, and no trial runs.
    fn waited_in_vain(&self) -> Exit {
        match &self.latest {
            None => root_lost(WAITING),
            Some(directory) => root_lost(&format!(
                "{WAITING}. Its latest record is in {}: if there is none of all ranks, put theirs together with `brokermark merge`",
                directory.display()
            )),
        }
    }

    fn cannot_begin(&self, reason: String) -> Ended {
        self.member.tell(FromRank::Failed { reason, interrupted: false, has_topics: false });
        Ended::Told
    }

    /// What is in the run directory, and the record where its disk did not take that.
    fn kept(&self, path: &Path, unwritten: Option<Record>) -> Result<KeptShare, String> {
        match unwritten {
            None => read(path).map_err(|error| error.to_string()),
            Some(record) => {
                let is_verified = record.verification.is_some();
                let share = with_record(path, record).map_err(|error| error.to_string())?;
                match is_verified && share.messages.is_none() {
                    true => Err("its disk did not take the numbers of its messages, without which it is not known what was lost".to_owned()),
                    false => Ok(share),
                }
            }
        }
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
        let (signals, signalled) = watch::channel(0);
        let KnownClock { name, shift_ns, error_ns } = order.clock.clone();
        let identity = TrialIdentity {
            tag: crc32fast::hash(order.run_id.as_bytes()),
            run_id: order.run_id.clone(),
            load_start_unix_ns: None,
            rendezvous: Some(Rendezvous::new(preparation, starts)),
            clock_shift_ns: injected_offset_ns() + shift_ns,
            compared: Some(ComparedClock { name, shift_ns, error_ns }),
            host_share: self.host_share,
        };
        let command_line = mask_arguments(std::env::args());
        let checkpoint_every = self.arguments.checkpoint_every;
        let run = Run { id: &self.invitation.run_id, command_line: &command_line, checkpoint_every, ceiling: None };
        let progress = Progress::of(true, String::new(), trial.scenario.run.clone(), Duration::ZERO);
        let recording =
            Recording::new(trial, run, directory, progress, None).by_clock_ahead(injected_offset_ns() + shift_ns);
        let mut reporting = Reporting { recording, to_root: self.member.to_root() };
        let interruption = Interruption::new(signalled);
        let mut is_root_lost = false;
        let result = {
            let measuring =
                TokioContext::new(run_scenario(&trial.scenario, &identity, &interruption, &mut reporting), load);
            let obeying = obey(&mut self.member, &self.own, prepared.clone(), &start, &signals, &mut is_root_lost);
            tokio::select! {
                result = measuring => result,
                never = obeying => match never {},
            }
        };
        let mut recording = reporting.recording;
        let rank = self.number - 1;
        match &result {
            Ok(Outcome { close_error: Some(error), .. }) => eprintln!("warning: rank {rank}: {error}"),
            Ok(_) => {}
            Err(error) => recording.keep(assemble_failed(trial, run.id, run.command_line, error)),
        }
        let mut unwritten = None;
        if let Some((record, Err(error))) = recording.finish() {
            eprintln!("error: rank {rank}: {error}");
            unwritten = Some(record);
        }
        let has_topics = *prepared.borrow() >= Preparation::Topics;
        Measured { result: result.map(|_| unwritten), has_topics, is_root_lost }
    }
}

/// How a rank's trial went.
struct Measured {
    /// With the record, where the disk did not take it.
    result: Result<Option<Record>, EngineError>,
    /// Whether the trial's topics exist.
    has_topics: bool,
    /// Whether rank 0 was lost meanwhile.
    is_root_lost: bool,
}

/// Tells rank 0 that this rank is ready and which signals came, and passes on its orders.
async fn obey(
    member: &mut Member,
    own: &Interruption,
    mut prepared: watch::Receiver<Preparation>,
    start: &watch::Sender<Option<u64>>,
    signals: &watch::Sender<u32>,
    is_root_lost: &mut bool,
) -> std::convert::Infallible {
    let raise = |count: u32| signals.send_modify(|signals| *signals = (*signals).max(count));
    let mut told_ready = false;
    let mut own_signals = 0;
    loop {
        tokio::select! {
            ready = prepared.wait_for(|prepared| *prepared == Preparation::Ready), if !told_ready => {
                told_ready = true;
                if ready.is_ok() {
                    member.tell(FromRank::Ready);
                }
            }
            () = signal_after(own, own_signals), if own_signals < 2 => {
                own_signals += 1;
                raise(own_signals);
                member.tell(FromRank::Signals(own_signals));
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
        eprintln!("error: rank {rank} does not run: {reason}");
    }
    Exit::Failure
}

/// `when`: what this rank did then, and what that means for what it measured.
fn root_lost(when: &str) -> Exit {
    eprintln!("error: rank 0 was lost {when}");
    Exit::Failure
}
