//! `mpirun brokermark run`: the processes that MPI started run the scenario in shares, and rank 0 writes one record of all.
//!
//! - `root`: rank 0's part: it says what is run and when, shows progress, and merges what the ranks have kept.
//! - `member`: every rank's part, rank 0 included: it runs its share of each trial.
//!
//! What rank 0 tells all ranks by MPI begins with a line that every build reads; the rest only the same build has to understand.

mod member;
mod root;

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tokio::runtime::Builder;

use super::arguments::divide;
use super::{Exit, RunArguments, Session};
use crate::cli::scenario_source::WrittenScenario;
use crate::evaluate::environment;
use crate::measure::host::{CoreSet, WallClock, cores_available};
use crate::notices::notice;
use crate::ranks::{Hello, Hub, Job, Member, RankPlace, RanksError, addresses, injected_offset_ns, is_launched};
use crate::record::InputFile;
use crate::scenario::{Plan, Share};

/// Whether MPI started this process as one of several that run a scenario together.
pub fn are_launched(arguments: &RunArguments) -> bool {
    is_launched() && arguments.share.share.is_none() && !arguments.print_scenario
}

/// Takes part in the run; `None`: this rank is the only one, and runs the whole scenario.
pub fn run(arguments: &RunArguments, out: &mut dyn Write) -> Option<Exit> {
    let job = match Job::join() {
        Ok(job) => job,
        Err(error) => return Some(Exit::failure(error)),
    };
    match (job.place.rank, job.place.size) {
        (_, 1) => {
            let left = job.broadcast(Vec::new());
            left.err().map(Exit::failure)
        }
        (0, _) => Some(lead(arguments, job, out)),
        _ => Some(follow(arguments, job)),
    }
}

/// Rank 0.
fn lead(arguments: &RunArguments, job: Job, out: &mut dyn Write) -> Exit {
    let place = job.place;
    let prepared = prepare(arguments, place.size);
    // The others are told of a failure as well, or they would wait.
    let told = prepared.as_ref().map(|(_, scenario)| scenario.clone()).map_err(|(reason, _)| reason.clone());
    let (plan, _) = match prepared {
        Ok(prepared) => prepared,
        Err((reason, exit)) => {
            notice!("{reason}");
            let _ = tell(job, Err(reason));
            return exit;
        }
    };
    let opened = Session::open(arguments, &plan, 0, None)
        .map_err(|error| format!("error: {error}"))
        .and_then(|session| Ok((session, listen().map_err(|error| format!("error: {error}"))?)));
    let (session, (listener, addresses)) = match opened {
        Ok(opened) => opened,
        Err(reason) => {
            notice!("{reason}");
            let _ = tell(job, Err(reason));
            return Exit::Failure;
        }
    };
    let run_spec = told.map(|scenario| RunSpec {
        bootstrap: Bootstrap { build: environment([], None).build(), addresses, token: rand::random() },
        run_id: session.run_id.clone(),
        directory: session.directory.path().to_owned(),
        scenario,
    });
    let run_spec = match run_spec.and_then(|run_spec| tell(job, Ok(run_spec))) {
        Ok(run_spec) => run_spec,
        Err(reason) => {
            notice!("{reason}");
            return Exit::Failure;
        }
    };
    let own_plan = on_cores_of(&place, plan.clone());
    talk(async {
        let injected_ns = injected_offset_ns();
        let listener = match listener.set_nonblocking(true).and_then(|()| tokio::net::TcpListener::from_std(listener)) {
            Ok(listener) => listener,
            Err(error) => return Exit::failure(RanksError::Listen(error)),
        };
        let gathering = Hub::gather(listener, place.size, run_spec.bootstrap.token, injected_ns);
        let own = Box::pin(member::take_part(arguments, &run_spec, place, Ok(own_plan)));
        let leading = async {
            match gathering.await {
                Ok(hub) => root::lead(session, hub, out).await,
                Err(join_error) => {
                    // First: a rank that ends may make MPI's launcher end the others.
                    let exit = Exit::failure(&join_error.error);
                    join_error.dismiss(root::FAREWELL).await;
                    exit
                }
            }
        };
        // Its own share ends with the last order; without the others there is nothing to wait for.
        tokio::pin!(leading);
        tokio::select! {
            exit = &mut leading => exit,
            _ = own => leading.await,
        }
    })
}

/// Every other rank.
fn follow(arguments: &RunArguments, job: Job) -> Exit {
    let place = job.place;
    let message = match job.broadcast(Vec::new()) {
        Ok(message) => message,
        Err(error) => return Exit::failure(error),
    };
    let own_build = environment([], None).build();
    let run_spec = match read_message(&message, &own_build) {
        Ok(Ok(run_spec)) => run_spec,
        // Rank 0 says why it does not run.
        Ok(Err(_)) => return Exit::Success,
        Err(foreign) => return talk(differ(foreign, place.rank, own_build)),
    };
    let plan = run_spec.scenario.plan().map_err(|error| error.to_string());
    let plan = plan.map(|plan| on_cores_of(&place, plan));
    talk(member::take_part(arguments, &run_spec, place, plan))
}

/// What a rank does that is another build than rank 0: it says so, and lets rank 0 know, which would wait for it.
async fn differ(foreign: Foreign, rank: usize, build: String) -> Exit {
    let (root_build, bootstrap) = match foreign {
        Foreign::Build(bootstrap) => (bootstrap.build.clone(), Some(bootstrap)),
        Foreign::Unknown => ("unknown".to_owned(), None),
    };
    let hello = Hello { rank, build, hostname: environment([], None).hostname, ..Hello::default() };
    let (host, build) = (hello.host().to_owned(), hello.build.clone());
    let exit = Exit::failure(RanksError::Build { rank, host, build, root_build });
    if let Some(Bootstrap { addresses, token, .. }) = bootstrap {
        Member::announce(&addresses, &Hello { token, ..hello }).await;
    }
    exit
}

/// The plan, and the scenario as all ranks read it; or why it cannot be run, and how to end.
fn prepare(arguments: &RunArguments, size: usize) -> Result<(Plan, WrittenScenario), (String, Exit)> {
    let usage = |reason: String| (reason, Exit::Usage);
    if let Some(option) = alone(arguments) {
        return Err(usage(format!("error: `{option}` is for a run of one process: leave it out, or mpirun")));
    }
    let scenario = arguments.source.written().map_err(|error| usage(error.to_string()))?;
    let plan = scenario.plan().map_err(|error| usage(error.to_string()))?;
    for trial in &plan.trials {
        trial.scenario.part(Share { number: 1, count: size }).map_err(|reason| usage(format!("error: {reason}")))?;
    }
    for note in scenario.notes().iter().filter(|_| !arguments.quiet) {
        notice!("{note}");
    }
    Ok((plan, scenario))
}

/// An option that several processes together do not have.
fn alone(arguments: &RunArguments) -> Option<&'static str> {
    let given = [
        ("--resume", arguments.resume.is_some()),
        ("--tui", arguments.tui),
        ("--metrics", arguments.metrics.is_some()),
        ("--ceiling", arguments.ceiling),
        ("--against", arguments.against.is_wanted()),
        ("--baseline", arguments.against.baseline.is_some()),
        ("--junit", arguments.check_files.junit.is_some()),
        ("--markdown", arguments.check_files.markdown.is_some()),
        ("--start-at", arguments.share.start_at.is_some()),
    ];
    given.into_iter().find_map(|(option, is_given)| is_given.then_some(option))
}

/// Sends the run specification, or the reason why it could not be made, to all ranks.
fn tell(job: Job, run_spec: Result<RunSpec, String>) -> Result<RunSpec, String> {
    let build = environment([], None).build();
    let message = message(&build, &run_spec).map_err(|error| format!("error: {error}"))?;
    job.broadcast(message).map_err(|error| format!("error: {error}"))?;
    run_spec
}

fn listen() -> Result<(TcpListener, Vec<SocketAddr>), RanksError> {
    // Most systems serve both families at the unspecified address of the sixth version.
    let listener =
        TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0")).map_err(RanksError::Listen)?;
    let port = listener.local_addr().map_err(RanksError::Listen)?.port();
    Ok((listener, addresses().into_iter().map(|address| SocketAddr::new(address, port)).collect()))
}

/// Does what ranks say to each other on a thread that carries no load.
fn talk(work: impl Future<Output = Exit>) -> Exit {
    let mut builder = Builder::new_multi_thread();
    let runtime = match builder.worker_threads(1).thread_name("brokermark-rank").enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return Exit::failure(format!("a thread for the connections between ranks cannot be started: {error}"));
        }
    };
    let exit = runtime.block_on(work);
    runtime.shutdown_background();
    exit
}

/// The plan of one of the ranks on a host. Where a trial does not say how many threads it has, each of the rank's cores has one.
fn on_cores_of(place: &RankPlace, mut plan: Plan) -> Plan {
    let part = place.cores(cores_available(), CoreSet::allowed());
    for trial in &mut plan.trials {
        if trial.scenario.threads.count.is_none() {
            trial.scenario.threads.count = Some(part);
            trial.defaults.insert("run.threads".to_owned(), part.into());
        }
    }
    plan
}

/// This rank's part of the plan.
fn divided(mut plan: Plan, share: Share) -> Result<Plan, String> {
    for trial in &mut plan.trials {
        divide(trial, share)?;
    }
    Ok(plan)
}

/// What this rank says first.
fn hello(run_spec: &RunSpec, rank: usize, plan: &Result<Plan, String>) -> Hello {
    let environment = environment([], None);
    let files = plan.as_ref().map_err(Clone::clone).and_then(payload_files);
    let refusal = files.as_ref().err().cloned();
    Hello {
        token: run_spec.bootstrap.token,
        rank,
        build: environment.build(),
        hostname: environment.hostname,
        boot_id: WallClock::now().boot_id.filter(|_| injected_offset_ns() == 0),
        files: files.unwrap_or_default(),
        refusal,
    }
}

/// What is in the payload files; of several as one, because a folder may have more of them than a first message has room for.
fn payload_files(plan: &Plan) -> Result<Vec<InputFile>, String> {
    let files = InputFile::read_all(&plan.payload_files).map_err(|error| error.to_string())?;
    if files.len() < 2 {
        return Ok(files);
    }
    let listed: String = files.iter().map(|file| format!("{} {} {}\n", file.file, file.bytes, file.crc32)).collect();
    let bytes = files.iter().map(|file| file.bytes).sum();
    let crc32 = format!("{:08x}", crc32fast::hash(listed.as_bytes()));
    Ok(vec![InputFile { file: format!("{} files", files.len()), bytes, crc32 }])
}

async fn connect(run_spec: &RunSpec, rank: usize, plan: &Result<Plan, String>) -> Result<Member, RanksError> {
    let hello = hello(run_spec, rank, plan);
    // Rank 0 itself is on this machine.
    let addresses = run_spec.bootstrap.addresses.iter().copied();
    let own: Vec<SocketAddr> = addresses.filter(|address| rank > 0 || address.ip().is_loopback()).collect();
    Member::connect(&own, &hello, injected_offset_ns()).await
}

/// The first line. Fields may be added to it, but none is renamed, removed or given another meaning: a rank of another build has to find out
/// that it is one, and to tell rank 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Bootstrap {
    /// Of rank 0.
    build: String,
    /// Where rank 0 listens; nowhere, if it does not run.
    addresses: Vec<SocketAddr>,
    token: u64,
}

/// What the ranks run.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct RunSpec {
    bootstrap: Bootstrap,
    run_id: String,
    /// Below which directory each rank keeps what it measures.
    directory: PathBuf,
    scenario: WrittenScenario,
}

/// Rank 0's message cannot be followed.
#[derive(Debug, PartialEq, Eq)]
enum Foreign {
    /// Rank 0 is another build.
    Build(Bootstrap),
    /// Not even the first line can be read.
    Unknown,
}

/// The message of a rank 0 of this build: the run specification, or why it does not run.
fn message(build: &str, run_spec: &Result<RunSpec, String>) -> serde_json::Result<Vec<u8>> {
    let nowhere = || Bootstrap { build: build.to_owned(), addresses: Vec::new(), token: 0 };
    let bootstrap = run_spec.as_ref().map_or_else(|_| nowhere(), |run_spec| run_spec.bootstrap.clone());
    let mut message = serde_json::to_vec(&bootstrap)?;
    message.push(b'\n');
    serde_json::to_writer(&mut message, run_spec)?;
    Ok(message)
}

/// Reads rank 0's message, as a rank of `build`.
///
/// # Errors
/// When rank 0 is another build.
fn read_message(message: &[u8], build: &str) -> Result<Result<RunSpec, String>, Foreign> {
    let mut lines = message.splitn(2, |byte| *byte == b'\n');
    let first = lines.next().and_then(|line| serde_json::from_slice::<Bootstrap>(line).ok());
    let bootstrap = first.ok_or(Foreign::Unknown)?;
    let rest = lines.next().and_then(|rest| serde_json::from_slice(rest).ok());
    match rest {
        Some(run_spec) if bootstrap.build == build => Ok(run_spec),
        _ => Err(Foreign::Build(bootstrap)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rank_0_refuses_a_rank_of_another_build_at_once() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let bootstrap =
            Bootstrap { build: "one".to_owned(), addresses: vec![listener.local_addr().unwrap()], token: 7 };
        let hello = Hello { token: 7, build: "one".to_owned(), ..Hello::default() };
        let gathering = tokio::spawn(Hub::gather(listener, 2, 7, 0));
        let root = Member::connect(&bootstrap.addresses, &hello, 0).await.unwrap();
        let foreign = tokio::spawn(differ(Foreign::Build(bootstrap), 1, "other".to_owned()));
        let join_error = gathering.await.unwrap().unwrap_err();
        let reason = join_error.error.to_string();
        assert!(reason.contains("rank 1 (") && reason.contains("other and one"), "{reason}");
        drop(root);
        join_error.dismiss(std::time::Duration::MAX).await;
        assert!(matches!(foreign.await.unwrap(), Exit::Failure));
    }

    #[tokio::test]
    async fn ranks_with_a_folder_of_many_payload_files_meet() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let text = "broker.kind = \"null\"\nrun.messages = 1";
        let mut plan =
            crate::scenario::parse_for(crate::engine::kinds(), text, "x.toml", &[], std::path::Path::new(".")).unwrap();
        let named = |number: u32| (format!("payloads/orders/{number}.json"), file.path().to_owned());
        plan.payload_files = (0..20_000).map(named).collect();
        let files = payload_files(&plan).unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let gathering = tokio::spawn(Hub::gather(listener, 1, 7, 0));
        let hello = Hello { token: 7, files: files.clone(), ..Hello::default() };
        let _root = Member::connect(&[address], &hello, 0).await.unwrap();
        assert!(gathering.await.unwrap().is_ok());

        std::fs::write(file.path(), "other").unwrap();
        assert_ne!(payload_files(&plan).unwrap(), files);
    }

    fn bootstrap(build: &str) -> Bootstrap {
        Bootstrap { build: build.to_owned(), addresses: vec!["10.0.0.1:7000".parse().unwrap()], token: 7 }
    }

    #[test]
    fn the_same_build_reads_what_is_run_or_why_nothing_is() {
        let refused = message("one", &Err("no".to_owned())).unwrap();
        assert_eq!(read_message(&refused, "one").unwrap().unwrap_err(), "no");
    }

    #[test]
    fn another_build_reads_the_first_line_whatever_the_rest_says() {
        let first = serde_json::to_string(&bootstrap("one")).unwrap();
        let with_another_field = first.replacen('{', "{\"more\":[1],", 1);
        for message in [format!("{first}\nnot JSON"), format!("{with_another_field}\n{{}}"), first] {
            assert_eq!(read_message(message.as_bytes(), "other").unwrap_err(), Foreign::Build(bootstrap("one")));
        }
        assert_eq!(read_message(b"{\"Ok\":{}}", "other").unwrap_err(), Foreign::Unknown);
        // As this and all later builds write it.
        let written = r#"{"build":"one","addresses":["10.0.0.1:7000"],"token":7}"#;
        assert_eq!(serde_json::from_str::<Bootstrap>(written).unwrap(), bootstrap("one"));
    }
}
