//! What tests with a scripted server have in common.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::{Outgoing, Setup};
#[cfg(any(feature = "mqtt", feature = "redis"))]
use super::{Progress, Subscription, Topic};
use crate::load::PayloadPool;
use crate::measure::{Acks, Clock, ConditionKind, Conditions, SendTag, SubjectKind};
#[cfg(any(feature = "mqtt", feature = "redis"))]
use crate::scenario::StartFrom;
use crate::scenario::parse_for;

/// What a broker of this kind, whose server is at `address`, is given to connect with.
pub fn setup<Options>(kind: &str, address: SocketAddr, options: Options) -> Setup<Options> {
    let text = format!("broker = {{ kind = \"{kind}\", address = \"{address}\" }}\nrun.messages = 1");
    let plan = parse_for(crate::engine::kinds(), &text, "a.toml", &[], Path::new(""));
    let scenario = plan.unwrap_or_else(|error| panic!("{error}")).trials.remove(0).scenario;
    Setup {
        payloads: PayloadPool::build(&scenario.payload, 0).unwrap().into(),
        options,
        config: scenario.broker,
        acks: Acks::new(Clock::start(), 1, false),
        conditions: Conditions::default(),
        run_id: "run".to_owned(),
        header_sets: scenario.producers.header_sets,
        topic_config: Vec::new(),
        producers: 1,
        first_producer: 0,
        places_on_topics: vec![0],
        groups: 0,
        in_flight: 1,
        timeout: Duration::from_secs(60),
    }
}

/// The first message of the first producer.
pub fn message() -> Outgoing<'static> {
    let send_tag = SendTag::new(0, 0, 0, 0, true);
    Outgoing { payload: b"one", key: None, trace_header: None, attributes: None, send_tag }
}

/// Of the only member of a group.
#[cfg(any(feature = "mqtt", feature = "redis"))]
pub fn subscription(consumer_number: usize) -> Subscription {
    Subscription {
        group: format!("group-{consumer_number}"),
        number: consumer_number,
        topic: Topic { name: "orders".to_owned(), partitions: 1, replication: 1 },
        from: StartFrom::Latest,
        members: 1,
        member: 0,
        consumer_number,
        is_divided: false,
        properties: Vec::new(),
        progress: Progress::Uncommitted,
    }
}

/// The topic of a message that was lost with its connection waited for another one, and waits no longer.
pub fn assert_topic_has_its_connection(conditions: &Conditions) {
    let told = conditions.all();
    let topic = told.iter().find(|condition| condition.subject == SubjectKind::Topic).unwrap();
    assert_eq!((topic.kind, topic.end.is_some()), (ConditionKind::Connecting, true));
}
