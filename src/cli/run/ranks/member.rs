//! A rank's part of a run: its share of each trial that rank 0 orders.

use std::path::PathBuf;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::context::TokioContext;

use super::super::interrupt;
use super::super::progress::Progress;
use super::super::recording::{Recording, Run};
use super::reporting::Reporting;
use super::{Exit, Invitation, RunArguments, connect, divided, failed};
use crate::cli::kept_share::read;
use crate::cli::load_threads::LoadThreads;
use crate::engine::{ComparedClock, EngineError, Interruption, Rendezvous, TrialIdentity, run_scenario};
use crate::evaluate::assemble_failed;
use crate::measure::host::HostShare;
use crate::ranks::{FromRank, FromRoot, KnownClock, Member, Order, Place, injected_offset_ns};
use crate::record::RunDirectory;
use crate::scenario::{Plan, Share, Trial};
use crate::secrets::mask_arguments;

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
}

/// How a trial ended for this rank.
enum Ended {
    Told,
    /// Rank 0 is lost. What was measured is in this directory.
    RootLost(PathBuf),
}

/// Connects to rank 0, and does what it orders until it has no more orders.
pub async fn take_part(
    arguments: &RunArguments,
    invitation: &Invitation,
    place: Place,
    plan: Result<Plan, String>,
) -> Exit {
    let Place { rank, size, host_share } = place;
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
        Ok(plan) => Part { arguments, invitation, number: rank + 1, host_share, plan, threads: LoadThreads::default(), member, own }.run().await,
        // Rank 0 knows why, and refuses the run.
        Err(_) => match member.order().await {
            Some(FromRoot::Refused { reason }) => refused(rank, &reason),
            _ => root_lost(None),
        },
    }
}

impl Part<'_> {
    async fn run(mut self) -> Exit {
        loop {
            match self.member.order().await {
                Some(FromRoot::Prepare(order)) => match self.trial(&order).await {
                    Ended::Told => {}
                    Ended::RootLost(directory) => return root_lost(Some(&directory)),
                },
                Some(FromRoot::Refused { reason }) => return refused(self.number - 1, &reason),
                Some(FromRoot::Goodbye) => return Exit::Success,
                // Of a trial that has ended here.
                Some(_) => {}
                None => return root_lost(None),
            }
        }
    }

    /// Runs this rank's share of a trial, and tells rank 0 what was kept.
    async fn trial(&mut self, order: &Order) -> Ended {
        let trial = self.plan.trials[order.position].clone();
        let load = match self.threads.of(trial.scenario.threads) {
            Ok(load) => load.handle().clone(),
            Err(error) => {
                let reason = format!("the threads of the load cannot be started: {error}");
                self.member.tell(FromRank::Failed { reason, interrupted: false });
                return Ended::Told;
            }
        };
        let path = self.directory(order);
        let told = match RunDirectory::create_at(&path, &self.plan.text) {
            Ok(mut directory) => {
                let (result, is_root_lost) = self.measure(&trial, load, order, &mut directory).await;
                drop(directory);
                if is_root_lost {
                    return Ended::RootLost(path);
                }
                match result {
                    Ok(()) => match read(&path) {
                        Ok(share) => FromRank::Kept(Box::new(share.into())),
                        Err(error) => FromRank::Failed { reason: error.to_string(), interrupted: false },
                    },
                    Err(error) => {
                        let interrupted = matches!(error, EngineError::Interrupted);
                        FromRank::Failed { reason: error.to_string(), interrupted }
                    }
                }
            }
            Err(error) => FromRank::Failed { reason: error.to_string(), interrupted: false },
        };
        self.member.tell(told);
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

    /// Runs the trial on the threads of `load`, obeying rank 0; also whether that was lost meanwhile.
    async fn measure(
        &mut self,
        trial: &Trial,
        load: Handle,
        order: &Order,
        directory: &mut RunDirectory,
    ) -> (Result<(), EngineError>, bool) {
        let (ready, is_ready) = watch::channel(false);
        let (start, starts) = watch::channel(None);
        let (signals, signalled) = watch::channel(0);
        let KnownClock { name, shift_ns, error_ns } = order.clock.clone();
        let identity = TrialIdentity {
            tag: crc32fast::hash(order.run_id.as_bytes()),
            run_id: order.run_id.clone(),
            load_start_unix_ns: None,
            rendezvous: Some(Rendezvous::new(ready, starts)),
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
            let obeying = obey(&mut self.member, &self.own, is_ready, &start, &signals, &mut is_root_lost);
            tokio::select! {
                result = measuring => result,
                never = obeying => match never {},
            }
        };
        let mut recording = reporting.recording;
        if let Err(error) = &result {
            recording.keep(assemble_failed(trial, run.id, run.command_line, error));
        }
        if let Some((_, Err(error))) = recording.finish() {
            eprintln!("error: rank {}: {error}", self.number - 1);
        }
        (result.map(drop), is_root_lost)
    }
}

/// Tells rank 0 that this rank is ready and which signals came, and passes on its orders.
async fn obey(
    member: &mut Member,
    own: &Interruption,
    mut is_ready: watch::Receiver<bool>,
    start: &watch::Sender<Option<u64>>,
    signals: &watch::Sender<u32>,
    is_root_lost: &mut bool,
) -> std::convert::Infallible {
    let raise = |count: u32| signals.send_modify(|signals| *signals = (*signals).max(count));
    let mut told_ready = false;
    let mut own_signals = 0;
    loop {
        tokio::select! {
            ready = is_ready.wait_for(|ready| *ready), if !told_ready => {
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

fn root_lost(directory: Option<&std::path::Path>) -> Exit {
    match directory {
        Some(directory) => eprintln!(
            "error: rank 0 was lost, so no record of all ranks was written. This rank's is in {}: put them together with `brokermark merge`",
            directory.display()
        ),
        None => eprintln!("error: rank 0 was lost while this rank waited for its orders"),
    }
    Exit::Failure
}
