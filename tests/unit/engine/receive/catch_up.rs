use std::future::{pending, ready};
use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::*;
use crate::broker::{
    BrokerError, BrokerInfo, BrokerOptions, Consumer, Created, Outgoing, Producer, ReceiveError, Received, Setup,
    SubmitError, Subscription,
};
use crate::engine::prepare::{Prepared, prepare};
use crate::engine::{self, Interruption, TrialIdentity};
use crate::measure::{Conditions, NoDetails, Reception, Span, TRACE_HEADER_BYTES, TraceHeader, merge_groups};
use crate::scenario::{Descriptor, parse_for};

/// Members of a group take the messages of its only partition in turn. It tells where that ends, or has no offsets.
struct TurnsBroker<const HAS_OFFSETS: bool>;

#[derive(Default, Deserialize, JsonSchema)]
struct NoOptions {}

impl BrokerOptions for NoOptions {}

/// Sends and receives nothing: the tests record what has arrived.
struct IdleClient;

impl Producer for IdleClient {
    async fn submit(&mut self, batch: &[Outgoing<'_>]) -> Result<usize, SubmitError> {
        Ok(batch.len())
    }
}

impl Consumer for IdleClient {
    async fn ready(&mut self) -> Result<(), ReceiveError> {
        pending().await
    }

    fn take_some(&mut self, _most: usize, _each: impl FnMut(Received<'_>)) -> Result<usize, ReceiveError> {
        Ok(0)
    }
}

impl<const HAS_OFFSETS: bool> Broker for TurnsBroker<HAS_OFFSETS> {
    const DESCRIPTOR: Descriptor = Descriptor { kind: "turns", ..Descriptor::NONE };

    type Options = NoOptions;
    type Producer = IdleClient;
    type Consumer = IdleClient;

    async fn connect(_setup: Setup<NoOptions>) -> Result<Self, BrokerError> {
        Ok(TurnsBroker)
    }

    async fn create_topic(&self, _topic: &Topic) -> Result<Created, BrokerError> {
        Ok(Created::New)
    }

    async fn find_topic(&self, _topic: &Topic) -> Result<Option<Topic>, BrokerError> {
        Ok(None)
    }

    async fn delete_topic(&self, _topic: &Topic) -> Result<(), BrokerError> {
        Ok(())
    }

    async fn producer(&self, _producer_number: usize, _topic: &Topic) -> Result<IdleClient, BrokerError> {
        Ok(IdleClient)
    }

    async fn consumer(&self, _subscription: &Subscription) -> Result<IdleClient, BrokerError> {
        Ok(IdleClient)
    }

    fn end_offsets(&self, _topic: &Topic) -> Option<impl Future<Output = Option<Vec<u64>>> + Send> {
        HAS_OFFSETS.then(|| ready(Some(vec![MESSAGES])))
    }

    fn takes_turns(&self) -> bool {
        true
    }

    fn identity(&self) -> BrokerInfo {
        BrokerInfo { client: String::new(), broker: None, embedded: false }
    }

    async fn close(self) -> Result<(), BrokerError> {
        Ok(())
    }
}

const MESSAGES: u64 = 10;

/// A group whose last member has received the second half of all messages, and no other member has received anything: whether the wait for it ends, and what
/// is lost and unread: at once, when nothing has come for `run.drain_deadline`, and then if the broker will send messages again.
async fn second_half<const HAS_OFFSETS: bool>(members: usize) -> (bool, [(u64, u64); 3]) {
    let text = format!("broker.kind = \"null\"\nconsumers.members = {members}\nrun.messages = {MESSAGES}");
    let plan = parse_for(engine::kinds(), &text, "a.toml", &[], Path::new(""));
    let (scenario, identity) =
        (plan.unwrap().trials.remove(0).scenario, TrialIdentity::alone("brokermark-test".to_owned(), 7));
    let (interruption, conditions) = (Interruption::none(), Conditions::default());
    let prepared = prepare::<TurnsBroker<HAS_OFFSETS>>(&scenario, &identity, &interruption, &conditions).await;
    let Prepared { context, broker, .. } = prepared.unwrap();
    context.verification().unwrap().acknowledge(&mut [Span { producer_index: 0, begin: 0, end: MESSAGES }]);
    let arrivals = context.arrivals.as_ref().unwrap();
    let mut recorder = arrivals.recorder(SubscriptionIndex { group: 0, topic: 0 }, members - 1);
    let mut batch = recorder.batch();
    for sequence in MESSAGES / 2..MESSAGES {
        let mut payload = [7; 100];
        let checksum = crc32fast::hash(&payload[TRACE_HEADER_BYTES..]);
        TraceHeader { run_tag: identity.tag, producer: 0, measured: true, sequence, intended_ns: 0 }
            .seal(&mut payload, checksum);
        batch.received(Received {
            payload: &payload,
            trace_header: None,
            partition: 0,
            offset: sequence,
            redelivered: false,
            details: &NoDetails,
        });
    }
    drop(batch);
    arrivals.collect(true, &mut Reception::default(), &mut Reception::default(), &mut []);
    let mut catch_up = CatchUp::begin(&context, &broker, vec![Vec::new()], |_| true, Duration::ZERO);
    catch_up.end().await;
    let is_over = catch_up.has_reached_all_ends();
    let at_once = account(&catch_up, arrivals.groups());
    catch_up.until += scenario.run.drain_deadline;
    let when_quiet = account(&catch_up, arrivals.groups());
    catch_up.redelivers = vec![true];
    (is_over, [at_once, when_quiet, account(&catch_up, arrivals.groups())])
}

/// What is lost and unread, which is the same if the process is the only share of a scenario.
fn account<B: Broker>(catch_up: &CatchUp<'_, B>, arrived: Vec<Arrived>) -> (u64, u64) {
    let groups = catch_up.outcome(arrived, true);
    let sets = catch_up.messages(catch_up.context.verification().unwrap(), &groups);
    let (alone, merged) = (groups[0].account, merge_groups(&[Arc::new(sets)]).unwrap()[0].account);
    assert_eq!(alone, merged);
    (alone.lost, alone.unread)
}

#[tokio::test]
async fn a_member_that_is_further_shows_nothing_about_what_another_was_given() {
    assert_eq!(second_half::<true>(2).await, (false, [(0, 5), (5, 0), (0, 5)]), "the end of the partition");
    assert_eq!(second_half::<false>(2).await, (false, [(0, 5), (5, 0), (5, 0)]), "later messages");
}

#[tokio::test]
async fn a_member_alone_has_passed_what_came_before() {
    assert_eq!(second_half::<true>(1).await, (true, [(5, 0); 3]), "the end of the partition");
    assert_eq!(second_half::<false>(1).await, (false, [(5, 0); 3]), "later messages");
}
