//! Ranks that are gathered, refused, lost, far away and cut off, over connections of this machine; and seconds of all ranks together.

use std::future::ready;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::sleep_until;

use super::gathering::{ACCEPT_PAUSE, JoinError, next_of};
use super::*;
use crate::engine::Phase;
use crate::measure::Interval;
use crate::ranks::Member;
use crate::record::InputFile;
use crate::record::encode_histogram;

const TOKEN: u64 = 7;

fn hello(rank: usize) -> Hello {
    Hello {
        token: TOKEN,
        rank,
        build: "one".to_owned(),
        hostname: Some(format!("host-{rank}")),
        boot_id: None,
        files: Vec::new(),
        refusal: None,
    }
}

/// Gathers ranks that say these words first.
async fn gather(hellos: Vec<Hello>) -> (Result<Hub, JoinError>, Vec<Member>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let size = hellos.len();
    let mut joining = tokio::task::JoinSet::new();
    for hello in hellos {
        joining.spawn(async move { Member::connect(&[address], &hello, 0).await.unwrap() });
    }
    let hub = Hub::gather(listener, size, TOKEN, 0).await;
    (hub, joining.join_all().await)
}

/// A network between a rank and rank 0: what the rank sends takes `there`, and nothing passes while the link is down.
async fn network(to: SocketAddr, there: Duration, link: watch::Receiver<bool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (from_rank, to_rank) = listener.accept().await.unwrap().0.into_split();
        let (from_root, to_root) = TcpStream::connect(to).await.unwrap().into_split();
        tokio::spawn(carry(from_rank, to_root, there, link.clone()));
        tokio::spawn(carry(from_root, to_rank, Duration::ZERO, link));
    });
    address
}

async fn carry(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, takes: Duration, mut link: watch::Receiver<bool>) {
    let (sent, mut under_way) = unbounded_channel();
    tokio::spawn(async move {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(length @ 1..) = from.read(&mut bytes).await {
            let _ = sent.send((Instant::now() + takes, bytes[..length].to_vec()));
        }
    });
    while let Some((arrives, bytes)) = under_way.recv().await {
        sleep_until(arrives).await;
        if link.wait_for(|is_up| *is_up).await.is_err() || to.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Rank 0, and rank 1 behind such a network.
async fn gather_far(there: Duration, link: watch::Receiver<bool>) -> (Hub, Vec<Member>) {
    gather_behind(vec![hello(0), hello(1)], there, link).await
}

/// Gathers these ranks, of which rank 1 is behind such a network.
async fn gather_behind(hellos: Vec<Hello>, there: Duration, link: watch::Receiver<bool>) -> (Hub, Vec<Member>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let gathering = tokio::spawn(Hub::gather(listener, hellos.len(), TOKEN, 0));
    let far = network(address, there, link).await;
    let mut members = Vec::new();
    for hello in hellos {
        let address = if hello.rank == 1 { far } else { address };
        members.push(Member::connect(&[address], &hello, 0).await.unwrap());
    }
    (gathering.await.unwrap().unwrap(), members)
}

#[tokio::test]
async fn the_bound_of_a_host_that_is_300_ms_away_contains_its_clock() {
    let (_link, is_up) = watch::channel(true);
    let (mut hub, _members) = gather_far(Duration::from_millis(300), is_up).await;
    let begin = Instant::now();
    hub.before_trial().await;
    let pings = BURST as u32;
    assert!(
        begin.elapsed() < Duration::from_millis(300) * pings / 2,
        "pings are under way together: {:?}",
        begin.elapsed()
    );
    // Both read this machine's clock, and only one of both ways takes long.
    let clock = hub.clock(1, hub.clock_shift_ns(1)).unwrap();
    assert!(clock.offset_ns != 0 && clock.offset_ns.unsigned_abs() <= clock.error_ns, "{clock:?}");
    assert!(clock.round_trip_ns >= 300_000_000 && clock.round_trips >= BURST as u64, "{clock:?}");
}

/// The answers of one rank of the host take long one way, so that alone it would put its clock 50 ms off.
#[tokio::test]
async fn ranks_of_one_host_share_the_shortest_round_trip() {
    let on = |rank, host: &str| Hello { boot_id: Some(host.to_owned()), ..hello(rank) };
    let (_link, is_up) = watch::channel(true);
    let hellos = vec![on(0, "here"), on(1, "there"), on(2, "there")];
    let (mut hub, _members) = gather_behind(hellos, Duration::from_millis(100), is_up).await;
    hub.before_trial().await;
    let shifts = [1, 2].map(|rank| hub.clock_shift_ns(rank));
    assert_eq!(shifts[0], shifts[1]);
    let [one, other] = [1, 2].map(|rank| hub.clock(rank, shifts[0]).unwrap());
    assert_eq!(one, other);
    assert!(one.offset_ns.unsigned_abs() <= one.error_ns && one.error_ns < 25_000_000, "{one:?}");
}

#[tokio::test]
async fn a_link_that_is_cut_for_5_s_loses_no_rank_and_no_message() {
    let (link, is_up) = watch::channel(true);
    let (mut hub, members) = gather_far(Duration::ZERO, is_up).await;
    link.send_replace(false);
    members[1].tell(FromRank::Signals(7));
    assert!(timeout(Duration::from_secs(5), hub.next()).await.is_err(), "nothing comes over a link that is cut");
    link.send_replace(true);
    let (rank, event) = hub.next().await.unwrap();
    assert!(rank == 1 && matches!(event, Event::Told(FromRank::Signals(7))), "{event:?}");
    assert_eq!(hub.reachable().collect::<Vec<_>>(), [0, 1]);
}

async fn refusal(change: impl FnOnce(&mut Hello)) -> String {
    let mut hellos = vec![hello(0), hello(1), hello(2)];
    change(&mut hellos[2]);
    let (hub, members) = gather(hellos).await;
    refused(hub.unwrap_err(), members).await
}

/// Why the ranks are refused, which all of these are told.
async fn refused(join_error: JoinError, members: Vec<Member>) -> String {
    let reason = join_error.error.to_string();
    let dismissed = tokio::spawn(join_error.dismiss(Duration::MAX));
    for mut member in members {
        assert_eq!(member.order().await, Some(FromRoot::Refused { reason: reason.clone() }));
        assert_eq!(member.order().await, None, "nothing follows");
    }
    dismissed.await.unwrap();
    reason
}

#[tokio::test]
async fn ranks_that_cannot_run_together_are_refused_by_name() {
    let build = refusal(|hello| hello.build = "other".to_owned()).await;
    assert!(build.contains("rank 2 (host-2)") && build.contains("other and one"), "{build}");
    let file = InputFile { file: "a".to_owned(), bytes: 1, crc32: "0".to_owned() };
    let files = refusal(|hello| hello.files.push(file)).await;
    assert!(files.contains("rank 2 (host-2) has other payload files"), "{files}");
    let scenario = refusal(|hello| hello.refusal = Some("no such file".to_owned())).await;
    assert!(scenario.contains("rank 2 (host-2)") && scenario.contains("no such file"), "{scenario}");
}

#[tokio::test]
async fn ranks_that_do_not_connect_are_named_to_those_that_did() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let gathering = tokio::spawn(Hub::gather_within(Duration::from_secs(2), listener, 4, TOKEN, 0));
    let mut members = Vec::new();
    for rank in [0, 2] {
        members.push(Member::connect(&[address], &hello(rank), 0).await.unwrap());
    }
    let reason = refused(gathering.await.unwrap().unwrap_err(), members).await;
    assert!(reason.starts_with("ranks 1, 3 of 4 did not connect within 2 s"), "{reason}");
}

#[tokio::test]
async fn an_error_is_not_met_again_at_once() {
    let mut tries = 0;
    let taken = next_of(|| {
        tries += 1;
        assert!(tries < 100, "as fast as the processor allows");
        ready(Err::<(), _>(io::ErrorKind::OutOfMemory.into()))
    });
    assert!(timeout(3 * ACCEPT_PAUSE, taken).await.is_err());
    assert!((1..=4).contains(&tries), "{tries}");
    assert_eq!(next_of(|| ready(Ok(7))).await, 7);
}

#[tokio::test]
async fn a_stranger_is_no_rank_and_a_rank_that_is_gone_is_lost() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let gathering = tokio::spawn(Hub::gather(listener, 2, TOKEN, 0));
    let introduced = async |hello: Hello| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        message::write_frame(&mut stream, &hello).await.unwrap();
        let answer = message::read_frame::<FromRoot>(&mut stream, SILENCE).await;
        (stream, answer)
    };
    let (_stranger, answer) = introduced(Hello { token: TOKEN + 1, ..hello(0) }).await;
    assert!(answer.is_err(), "{answer:?}");
    let (_first, welcome) = introduced(hello(0)).await;
    assert_eq!(welcome.unwrap(), FromRoot::Welcome);
    let (second, _) = introduced(hello(1)).await;
    let mut hub = gathering.await.unwrap().unwrap();
    assert_eq!(hub.reachable().collect::<Vec<_>>(), [0, 1]);
    drop(second);
    let (rank, event) = hub.next().await.unwrap();
    assert!(rank == 1 && matches!(event, Event::Lost(_)), "{event:?}");
    assert_eq!(hub.reachable().collect::<Vec<_>>(), [0]);
}

#[tokio::test]
async fn a_stranger_that_announces_much_is_refused_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let _gathering = tokio::spawn(Hub::gather(listener, 1, TOKEN, 0));
    let mut stranger = TcpStream::connect(address).await.unwrap();
    stranger.write_all(&message::MAX_FRAME_BYTES.to_be_bytes()).await.unwrap();
    let ended = timeout(SILENCE / 3, stranger.read_to_end(&mut Vec::new())).await;
    assert!(ended.is_ok(), "rank 0 waits for a gigabyte");
}

#[tokio::test]
async fn clocks_are_compared_by_a_burst_of_round_trips() {
    let (hub, _members) = gather(vec![hello(0), hello(1)]).await;
    let mut hub = hub.unwrap();
    hub.before_trial().await;
    hub.after_trial().await;
    // Both read this machine's clock.
    let clock = hub.clock(1, hub.clock_shift_ns(1)).unwrap();
    assert!(clock.offset_ns.unsigned_abs() <= clock.error_ns && clock.error_ns > 0, "{clock:?}");
    assert!(clock.round_trips >= 2 * BURST as u64, "{clock:?}");
}

#[test]
fn the_quantiles_of_a_second_are_those_of_all_ranks_values() {
    let ranks: [&[u64]; 3] = [&[1_000_000, 2_000_000, 3_000_000], &[], &[900_000_000, 4_000_000]];
    let mut joint = JointSecond::default();
    assert_eq!((joint.second().p50_ns, joint.second().p99_ns), (None, None));
    let mut all = Interval::default();
    for values in ranks {
        let mut interval = Interval::default();
        for value in values {
            interval.response.record(*value);
            all.response.record(*value);
            // Not the headline of a load with a schedule.
            interval.service.record(1);
        }
        let (acknowledged, consumed) = (values.len() as u64, 2);
        let counters = Counters { acknowledged, consumed, phase: 2, ..Counters::default() };
        assert_eq!(interval.headline(), if values.is_empty() { "service" } else { "response" });
        let latencies = interval.response.histogram();
        joint.add(counters, &if values.is_empty() { String::new() } else { encode_histogram(latencies) });
    }
    let second = joint.second();
    let at = |quantile| Some(all.response.histogram().value_at_quantile(quantile));
    assert_eq!(second.acknowledged, 5);
    assert_eq!(second.p50_ns, at(0.5));
    assert_eq!(second.p99_ns, at(0.99));
    assert_eq!((second.consumed, second.phase), (6, Phase::Measure));
}

#[test]
fn a_joint_second_is_in_the_phase_of_the_rank_that_is_behind() {
    let (warm_up, measure, drain) = (1, 2, 3);
    let phase = |phases: &[u8]| {
        let mut joint = JointSecond::default();
        for phase in phases {
            joint.add(Counters { phase: *phase, length_ns: 1, ..Counters::default() }, "");
        }
        joint.second().phase
    };
    assert_eq!(phase(&[measure, drain]), Phase::Measure);
    assert_eq!(phase(&[drain, measure, drain]), Phase::Measure);
    assert_eq!(phase(&[drain, drain]), Phase::Drain);
    assert_eq!(phase(&[measure, warm_up]), Phase::WarmUp);
}
