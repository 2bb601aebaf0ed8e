use super::*;

/// What the thread that calls MPI has: its end of the message to send, of the one that came, and of its leaving.
type Thread = (Receiver<Vec<u8>>, Sender<Vec<u8>>, Sender<()>);

/// A rank whose thread is in MPI.
fn job() -> (Job, Thread) {
    let (message, to_send) = channel();
    let (deliver, received) = channel();
    let (leave, left) = channel();
    let place =
        RankPlace { rank: 1, size: 2, host_share: HostShare::ALONE, host_cores: CoreSet::default(), is_bound: false };
    (Job { place, message, received, left }, (to_send, deliver, leave))
}

const SHORT: Duration = Duration::from_millis(10);

#[test]
fn ranks_that_share_cores_divide_them() {
    let cores = |host: &str, own: &str, available: usize, count: usize, is_bound: bool| {
        let [host_cores, own] = [host, own].map(|cores| cores.parse().unwrap());
        let place =
            RankPlace { rank: 0, size: count, host_share: HostShare { number: 0, count }, host_cores, is_bound };
        place.cores(available, Some(own))
    };
    assert_eq!(cores("0-7", "0-7", 8, 2, false), 4);
    assert_eq!(cores("0-7", "4-5", 2, 4, true), 2, "bound");
    assert_eq!(cores("0-3", "1-3", 3, 2, true), 3, "bound to more cores than the other");
    assert_eq!(cores("0-3", "2-3", 2, 4, false), 1, "bound in pairs");
    assert_eq!(cores("0-1", "0-1", 2, 2, false), 1, "a mask for all ranks");
    assert_eq!(cores("0-63", "0-63", 8, 4, false), 2, "a quota for all ranks");
    assert_eq!(cores("0-1", "0-1", 2, 4, false), 1, "more ranks than cores");
    let host_share = HostShare { number: 0, count: 2 };
    let place = RankPlace { rank: 0, size: 2, host_share, host_cores: CoreSet::default(), is_bound: false };
    assert_eq!(place.cores(8, None), 4, "the system does not tell");
}

#[test]
fn a_message_that_does_not_come_is_an_error_in_time() {
    let (job, _thread) = job();
    let error = job.broadcast_within(Vec::new(), SHORT, SHORT).unwrap_err().to_string();
    assert!(error.contains("rank 0's message has not reached all ranks"), "{error}");
}

#[test]
fn a_message_that_came_is_delivered_whether_or_not_all_leave() {
    let (job, (_to_send, deliver, _leave)) = job();
    deliver.send(vec![7]).unwrap();
    assert_eq!(job.broadcast_within(Vec::new(), SHORT, SHORT).unwrap(), [7]);
}

#[test]
fn a_thread_that_has_ended_is_a_failure_of_mpi() {
    let (job, (to_send, deliver, _leave)) = job();
    drop(deliver);
    assert!(matches!(job.broadcast_within(Vec::new(), SHORT, SHORT), Err(RanksError::Mpi)));
    drop(to_send);
}
