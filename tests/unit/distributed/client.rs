use super::*;
use crate::distributed::merge::made_up::share;

#[test]
fn policies_and_full_connections_of_all_shares_are_told() {
    let mut shares = [share(1, 3, 0, 1, 1.0), share(2, 3, 0, 1, 1.0), share(3, 3, 0, 1, 1.0)];
    let told = |shares: &[KeptShare]| {
        let client = client(shares, 1.0);
        (client.scheduling_policy, client.connections_full_share)
    };
    for (share, (policy, full)) in shares.iter_mut().zip([("batch", Some(0.2)), ("batch", Some(0.9)), ("other", None)])
    {
        let client = &mut share.record.client;
        (client.scheduling_policy, client.connections_full_share) = (Some(policy.to_owned()), full);
    }
    assert_eq!(told(&shares[..2]), (Some("batch".to_owned()), Some(0.9)));
    assert_eq!(told(&shares), (Some("batch, other".to_owned()), Some(0.9)));
}

#[test]
fn the_busiest_thread_and_task_may_be_of_different_shares() {
    let mut shares = [share(1, 3, 0, 1, 1.0), share(2, 3, 0, 1, 1.0), share(3, 3, 0, 1, 1.0)];
    for (share, (thread, task)) in shares.iter_mut().zip([(0.9, Some(0.2)), (0.4, Some(0.97)), (0.1, None)]) {
        let number = share.record.share.as_ref().unwrap().number;
        let client = &mut share.record.client;
        (client.busiest_thread_cores, client.busiest_task_cores) = (Some(thread), task);
        client.busiest_task = task.map(|_| format!("producer {number}"));
    }
    let client = client(&shares, 1.0);
    assert_eq!((client.busiest_thread_cores, client.busiest_task_cores), (Some(0.9), Some(0.97)));
    assert_eq!(client.busiest_task.as_deref(), Some("producer 2"));
}

#[test]
fn the_cores_of_a_machine_count_once() {
    let mut shares = [share(1, 3, 0, 1, 1.0), share(2, 3, 0, 1, 1.0), share(3, 3, 0, 1, 1.0)];
    shares[2].record.share.as_mut().unwrap().boot_id = Some("another".to_owned());
    let cores = shares[0].record.client.cores_available;
    assert_eq!((client(&shares, 1.0).cores_available, machines(&shares)), (2.0 * cores, 2));
}

#[test]
fn shares_bound_to_cores_have_those_of_all() {
    let told = |places: [(&str, &str, f64); 3]| {
        let mut shares = [share(1, 3, 0, 1, 1.0), share(2, 3, 0, 1, 1.0), share(3, 3, 0, 1, 1.0)];
        for (share, (host, cores, available)) in shares.iter_mut().zip(places) {
            share.record.environment.hostname = Some(host.to_owned());
            let client = &mut share.record.client;
            (client.cores_allowed, client.cores_available) = (Some(cores.to_owned()), available);
        }
        let client = client(&shares, 1.0);
        (client.cores_available, client.cores_allowed.unwrap())
    };
    assert_eq!(told([("a", "0", 1.0), ("a", "1", 1.0), ("a", "2-3", 2.0)]), (4.0, "0-3".to_owned()), "bound");
    assert_eq!(told([("a", "0-1", 2.0), ("a", "0-1", 2.0), ("a", "0-1", 2.0)]), (2.0, "0-1".to_owned()), "not bound");
    let quotas = [("a", "0-63", 2.0), ("a", "0-63", 2.0), ("b", "0-63", 3.5)];
    assert_eq!(told(quotas), (5.5, "0-63".to_owned()), "two containers");
    assert_eq!(told([("a", "0-1", 2.0), ("b", "0-1", 2.0), ("c", "0-1", 2.0)]), (2.0, "0-1".to_owned()), "one machine");
}
