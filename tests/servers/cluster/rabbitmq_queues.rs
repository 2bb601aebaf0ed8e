//! RabbitMQ's quorum queues, which a majority of the nodes confirms. A node counts as dead after 5 s without a sign of life.

use std::time::Duration;

use super::{IN_FLIGHT, Load, Replicated, assert_interrupted, lose_leader, restart_all};
use crate::harness::cluster::Cluster;
use crate::harness::rabbitmq::rabbitmqctl;
use brokermark::record::Record;

/// Erlang takes a node for dead after three quarters of `net_ticktime` at the earliest; a connection that is closed is noticed at once.
const UNHEARD: Duration = Duration::from_secs(3);

struct Queue {
    cluster: Cluster,
    name: String,
}

impl Queue {
    fn new(name: &str) -> Self {
        Queue { cluster: Cluster::rabbitmq(), name: format!("queue-{name}-{}", std::process::id()) }
    }

    /// What an Erlang expression is on the first of these nodes.
    fn eval(&self, addresses: &[String], expression: &str) -> String {
        let node = self.cluster.addresses().iter().position(|address| *address == addresses[0]).unwrap() + 1;
        rabbitmqctl(&self.cluster.of_node(node, "_CTL"), &["eval", expression])
    }
}

impl Replicated for Queue {
    fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    fn load(&self, fault: &str) -> Load {
        let (addresses, queue) = (self.cluster.addresses_of("_AMQP"), &self.name);
        let broker = format!(
            r#"
            [broker]
            kind = "rabbitmq"
            addresses = {addresses:?}
            [broker.rabbitmq]
            heartbeat = "2s"
            reconnect = "60s"
            [topology]
            name = "{queue}"
            replication = 3
            keep = true
            "#
        );
        Load::begin(&format!("rabbitmq-queue-{fault}"), &broker, IN_FLIGHT)
    }

    /// As the first of these nodes knows it, which is asked for the Raft group of the queue and which members answer.
    fn leader(&self, addresses: &[String]) -> Option<(usize, usize)> {
        let name = &self.name;
        let members = format!(
            "Name = list_to_atom(\"%2F_{name}\"),
             Answers = fun({{_, Node}}) -> erpc:call(Node, erlang, whereis, [Name], 1000) =/= undefined end,
             Is = fun(Member) -> try Answers(Member) catch _:_ -> false end end,
             case {{ra_leaderboard:lookup_leader(Name), ra_leaderboard:lookup_members(Name)}} of
                 {{{{_, Leader}}, Members}} -> io:format(\"~s ~b\", [Leader, length(lists:filter(Is, Members))]);
                 _ -> ok
             end."
        );
        let printed = self.eval(addresses, &members);
        let (leader, copies) = printed.lines().next()?.split_once(' ')?;
        let node = leader.strip_prefix("rabbit@node")?.parse().ok()?;
        // Behind the number stands what the expression returned.
        let copies = copies.trim_end_matches(|letter: char| !letter.is_ascii_digit()).parse().ok()?;
        Some((node, copies))
    }

    /// Messages that awaited their confirmation when a connection broke have failed: the client does not send them again.
    fn check(&self, record: &Record) {
        assert_eq!(record.counts.unresolved, 0, "{:?}", record.counts);
    }

    fn remove(&self) {
        let node = self.cluster.of_node(1, "_CTL");
        rabbitmqctl(&node, &["delete_queue", &self.name]);
    }
}

#[test]
fn real_quorum_queue_leader_killed_loses_nothing_confirmed() {
    // The nodes notice the closed connection at once: another one may lead before the gap counts as an outage.
    let record = lose_leader(&Queue::new("killed"), "leader-killed", Cluster::kill, Cluster::restart);
    assert!(record.counts.failed > 0 || record.throughput.longest_gap_ns.is_some(), "{record:?}");
}

#[test]
fn real_quorum_queue_leader_cut_off_loses_nothing_confirmed() {
    assert_interrupted(&lose_leader(&Queue::new("cut-off"), "leader-cut-off", Cluster::cut, Cluster::mend), UNHEARD);
}

#[test]
fn real_quorum_queue_leader_frozen_loses_nothing_confirmed() {
    // The database of the nodes stays parted after a partition that a node has slept through, until that node is restarted.
    let wake = |cluster: &Cluster, node| {
        cluster.thaw(node);
        cluster.restart(node);
    };
    assert_interrupted(&lose_leader(&Queue::new("frozen"), "leader-frozen", Cluster::freeze, wake), UNHEARD);
}

#[test]
fn real_quorum_queue_rolling_restart_loses_nothing_confirmed() {
    restart_all(&Queue::new("rolled"));
}
