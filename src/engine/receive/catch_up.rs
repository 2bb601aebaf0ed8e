//! After the load: waits for consumers as long as they make progress, and finds out which messages the broker offered them.
//!
//! What was acknowledged and did not arrive was *lost* if the consumers have passed it, and is *unread* if they have not.
//! They have passed all of a partition when they have reached its end offset. Elsewhere they have passed what came
//! before a message that arrived, in every partition in which it may have been, unless messages may have changed their order. A broker without offsets has offered everything
//! when its consumers asked for `run.drain_deadline` and met neither a message nor an error. Where members of a group take the messages of a
//! partition in turn, that must be so at its end as well: one may be there before another has received its own.
//!
//! What the broker has removed by its own rules is neither: the broker is asked about it once, after the consumers.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use tokio::time::{Instant, timeout};

use super::removed::Removals;
use crate::broker::{Broker, Topic};
use crate::engine::interruption::InterruptiblePhase;
use crate::engine::observer::Phase;
use crate::engine::outcome::{GroupOutcome, PartOutcome};
use crate::engine::prepare::TrialContext;
use crate::engine::sampler::{Sampler, end_offsets};
use crate::measure::host::WallClock;
use crate::measure::{
    Arrived, GroupAccount, GroupProgress, GroupSets, MessageSets, StoredSet, SubscriptionIndex, TopicSets,
    Verification, unreached,
};

/// Consumers that have received nothing for so long may have reached the ends: the broker is asked.
const ASK_AFTER: Duration = Duration::from_millis(250);

/// The broker is asked for the ends of topics no more often than that.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// How long the last answer is waited for.
const ANSWER: Duration = Duration::from_secs(5);

/// Of each topic, the offset that the next message of each partition will have; `None`: not known.
pub(super) type Ends = Vec<Option<Vec<u64>>>;

/// Of a topic, the same, and whether the broker will send messages of it again.
type End = (Option<Vec<u64>>, bool);

/// A wait that goes on as long as there is progress.
pub struct Patience {
    /// End of the wait in any case; `None`: as long as there is progress.
    pub until: Option<Instant>,
    /// How long nothing may come.
    pub quiet: Duration,
    progress: u64,
    /// When something came last, or the wait began.
    pub since: Instant,
}

impl Patience {
    pub fn new(quiet: Duration, since: Instant) -> Self {
        Patience { until: None, quiet, progress: 0, since }
    }

    /// Whether to wait on; `progress` only grows.
    pub fn goes_on(&mut self, progress: u64, now: Instant) -> bool {
        if progress > self.progress {
            (self.progress, self.since) = (progress, now);
        }
        self.until.is_none_or(|until| now < until) && now < self.since + self.quiet
    }
}

/// The consumers of a trial after its load.
pub(super) struct CatchUp<'a, B> {
    context: &'a TrialContext<'a>,
    broker: &'a B,
    starts: Vec<Vec<u64>>,
    /// Acknowledged messages that each group had not received when the load ended; `None`: it had not begun.
    lags: Vec<Option<u64>>,
    longest: Duration,
    watches: Vec<Watch>,
    /// Until when consumers have asked for messages.
    until: Instant,
    /// A question for the ends that has not been answered.
    asked: Option<BoxFuture<'a, Vec<End>>>,
    /// When it was asked last.
    asked_at: Option<Instant>,
    ends: Ends,
    /// Whether the broker will send some of a topic again: then its end is reached and not passed.
    redelivers: Vec<bool>,
    /// What the broker tells of removal, where messages were missing.
    pub removals: Removals,
}

/// What is remembered of a group from one sample to the next.
struct Watch {
    progress: GroupProgress,
    /// When the last message or error came.
    quiet_since: Instant,
    /// What its messages were compared at.
    compared: Option<(GroupProgress, u64)>,
    has_all: bool,
}

/// Where the partitions of each topic end before the load, by topic; topics in `created` are empty. [`u64::MAX`] stands for an
/// end offset that the broker did not report.
pub async fn starts<B: Broker>(context: &TrialContext<'_>, broker: &B, created: &[Topic]) -> Vec<Vec<u64>> {
    let start = |topic: &Topic| {
        let unknown = vec![u64::MAX; topic.partitions as usize];
        let is_empty = created.contains(topic) || context.verification().is_none();
        let topic = topic.clone();
        async move {
            if is_empty {
                Vec::new()
            } else {
                timeout(ANSWER, end_offsets(broker, &topic)).await.ok().flatten().unwrap_or(unknown)
            }
        }
    };
    join_all(context.topics.iter().map(|topic| start(topic).boxed())).await
}

impl<'a, B: Broker> CatchUp<'a, B> {
    /// When the load has ended; `starts` are those of [`starts`], and `consuming`: whether a group had begun.
    pub fn begin(
        context: &'a TrialContext<'a>,
        broker: &'a B,
        starts: Vec<Vec<u64>>,
        consuming: impl Fn(usize) -> bool,
        longest: Duration,
    ) -> Self {
        let arrivals = context.arrivals.as_ref();
        let verification = context.verification();
        let consumer_lag = |verification: &Verification| {
            let missing = |group| verification.account(group, |_| u64::MAX).missing();
            (0..verification.groups()).map(|group| consuming(group).then(|| missing(group))).collect()
        };
        let now = Instant::now();
        let watch = |progress| Watch { progress, quiet_since: now, compared: None, has_all: false };
        CatchUp {
            context,
            broker,
            starts,
            lags: match &context.scenario.part {
                // What other shares sent is not known here.
                Some(_) => vec![None; verification.map_or(0, |verification| verification.groups())],
                None => verification.map(consumer_lag).unwrap_or_default(),
            },
            longest,
            watches: arrivals.map(|arrivals| arrivals.progress().into_iter().map(watch).collect()).unwrap_or_default(),
            until: now,
            asked: None,
            asked_at: None,
            ends: vec![None; context.topics.len()],
            redelivers: vec![false; context.topics.len()],
            removals: Removals::default(),
        }
    }

    /// A wait as long as the scenario wants to have it.
    pub fn patience(&self) -> Patience {
        let now = Instant::now();
        Patience { until: Some(now + self.longest), ..Patience::new(self.context.scenario.run.drain_deadline, now) }
    }

    /// Waits until every group has all that was acknowledged, or has read all partitions to their ends, or none receives anything
    /// new any more, or a signal ends the wait.
    pub async fn wait(&mut self, sampler: &mut Sampler<'_, B>, interruptible: &InterruptiblePhase) {
        // Before the wait begins, so that a wait that ends without progress has been quiet for as long.
        let now = Instant::now();
        self.watches.iter_mut().for_each(|watch| watch.quiet_since = now);
        let mut patience = self.patience();
        loop {
            self.watch();
            if self.context.scenario.part.is_some() {
                // Other shares may send, and their consumers receive, as long as they like: silence is the only sign.
                if !self.has_consumers()
                    || !patience.goes_on(self.received(), Instant::now())
                    || interruptible.is_over()
                {
                    return;
                }
                sampler.wait(Phase::Verify).await;
                continue;
            }
            if self.has_all(sampler.collector.acknowledged()) {
                return;
            }
            if !patience.goes_on(self.received(), Instant::now()) || interruptible.is_over() {
                return;
            }
            if patience.since.elapsed() >= ASK_AFTER {
                if self.has_reached_all_ends() {
                    return;
                }
                self.ask();
            }
            match &mut self.asked {
                None => sampler.wait(Phase::Verify).await,
                Some(asked) => {
                    tokio::select! {
                        ends = asked => self.answered(ends),
                        () = sampler.wait(Phase::Verify) => {}
                    }
                }
            }
        }
    }

    /// Right before the consumers are stopped: asks where the partitions end, once more, if something is missing.
    pub async fn end(&mut self) {
        self.watch();
        self.until = Instant::now();
        if self.context.scenario.part.is_none() && !self.is_missing_something() {
            return;
        }
        self.asked_at = None;
        self.ask();
        if let Some(asked) = &mut self.asked
            && let Ok(ends) = timeout(ANSWER, asked).await
        {
            self.answered(ends);
        }
    }

    /// Whether a group has not received everything.
    fn is_missing_something(&self) -> bool {
        let misses =
            |verification: &Verification| (0..self.watches.len()).any(|group| !verification.misses_at_most(group, 0));
        self.context.verification().is_some_and(misses)
    }

    /// When the consumers have ended: asks which messages the broker has removed, if some are missing. A share always asks: it does not know.
    pub async fn ask_what_is_removed(&mut self) {
        let is_share = self.context.scenario.part.is_some() && self.context.verification().is_some();
        if is_share || self.is_missing_something() {
            let told = timeout(ANSWER, Removals::ask(self.context, self.broker)).await.unwrap_or_default();
            self.removals = if is_share { told.without_complete(&self.starts) } else { told };
        }
    }

    /// What each group came to, once all consumers have ended and `arrived` is all that was recorded; nothing where nothing is
    /// verified. `idle`: whether consumers asked for messages all the time.
    pub fn outcome(&self, arrived: Vec<Arrived>, idle: bool) -> Vec<GroupOutcome> {
        let Some(verification) = self.context.verification() else { return Vec::new() };
        let outcome = |(group, arrived): (usize, Arrived)| {
            if self.context.scenario.part.is_some() {
                // Only all shares together show what is missing.
                let account = GroupAccount { undecided: verification.acknowledged(), ..GroupAccount::default() };
                return GroupOutcome { arrived, account, consumer_lag_at_load_end: None };
            }
            let all = verification.account(group, |_| u64::MAX);
            let account = match all.lost {
                0 => all,
                _ => {
                    let passed = self.passed_until(group, &arrived, idle);
                    let account = verification.account(group, |producer| passed[producer as usize]);
                    // Only messages that are in flight together change their order.
                    let in_flight = self.context.scenario.producers.in_flight as u64;
                    let reordered = if self.broker.may_reorder() { in_flight } else { 0 };
                    let kept = self.removals.kept((group, &arrived), self.context, &self.starts, (&passed, reordered));
                    let offsets = (&self.starts[..], &self.ends[..]);
                    self.removals.taken_from((account, kept), (group, &arrived), self.context, offsets)
                }
            };
            GroupOutcome { arrived, account, consumer_lag_at_load_end: self.lags[group] }
        };
        arrived.into_iter().enumerate().map(outcome).collect()
    }

    /// Of a part of a scenario: what is left to be put together with the other parts.
    pub fn part(&self, groups: &[GroupOutcome]) -> Option<PartOutcome> {
        let part = self.context.scenario.part.clone()?;
        Some(PartOutcome {
            part,
            first_wall_clock: self.context.wall_clock.clone(),
            wall_clock: WallClock::now(),
            wall_clock_moved_ns: self.context.acks.clock().wall_clock_moved_ns(self.context.identity.clock_shift_ns),
            compared: self.context.identity.compared.clone(),
            messages: self.context.verification().map(|verification| self.messages(verification, groups)),
        })
    }

    fn messages(&self, verification: &Verification, groups: &[GroupOutcome]) -> MessageSets {
        let (acknowledged, arrived) = verification.stored();
        let group = |(group, arrived)| self.group_sets(group, arrived, &groups[group].arrived);
        let topic = |topic: usize| TopicSets {
            starts: self.starts[topic].clone(),
            // What will be sent again comes behind the end.
            ends: self.ends[topic].clone().filter(|_| !self.redelivers[topic]),
        };
        MessageSets {
            topic_of_producer: (0..acknowledged.len()).map(|producer| self.context.topic_of(producer)).collect(),
            acknowledged,
            groups: arrived.into_iter().enumerate().map(group).collect(),
            topics: (0..self.starts.len()).map(topic).collect(),
        }
    }

    fn group_sets(&self, group: usize, sets: Vec<StoredSet>, arrived: &Arrived) -> GroupSets {
        let producers = self.context.scenario.all_producers();
        let topics = (0..self.context.topics.len()).map(|topic| SubscriptionIndex { group, topic });
        let arrivals = self.context.arrivals.as_ref();
        let of_each = |subscription| {
            let of = arrivals.map(|of| (of.next_offsets(subscription), of.next_sequences(subscription, producers)));
            of.unwrap_or_default()
        };
        let (next_offsets, next_sequences) = topics.map(of_each).unzip();
        GroupSets {
            arrived: sets,
            has_consumers: self.has_consumers(),
            has_order: self.has_order(group, arrived),
            takes_turns: self.takes_turns(group),
            was_offered_all: self.was_offered_all(group),
            next_offsets,
            next_sequences,
        }
    }

    /// Whether consumers run in this process.
    fn has_consumers(&self) -> bool {
        self.context.scenario.part.as_ref().is_none_or(|part| part.consumers > 0)
    }

    /// First arrivals of all groups: it only grows.
    fn received(&self) -> u64 {
        self.watches.iter().map(|watch| watch.progress.first).sum()
    }

    /// Whether a broker without offsets, or one whose consumers take turns, had nothing more for the group's consumers, which asked all the time.
    fn was_offered_all(&self, group: usize) -> bool {
        let consumers = self.context.scenario.consumers.as_ref();
        let has_ends = || self.ends.iter().all(Option::is_some) && !self.redelivers.contains(&true);
        // A consumer that works does not ask meanwhile. A broker that has offsets and does not report end offsets has a fault, and its
        // consumers may have one as well.
        consumers.is_some_and(|consumers| consumers.groups[group].is_unpaced())
            && (self.broker.end_offsets(&self.context.topics[0]).is_none() || self.takes_turns(group) && has_ends())
            && self.until - self.watches[group].quiet_since >= self.context.scenario.run.drain_deadline
    }

    /// Whether several members of the group take the messages of one partition in turn.
    fn takes_turns(&self, group: usize) -> bool {
        let consumers = self.context.scenario.consumers.as_ref();
        self.broker.takes_turns() && consumers.is_some_and(|consumers| consumers.members_of(group) > 1)
    }

    /// Whether a message that arrived shows that those before it were passed: the order of each was checked and kept, and none is on its way
    /// in another one, or to another member.
    fn has_order(&self, group: usize, arrived: &Arrived) -> bool {
        arrived.unordered + arrived.order_unchecked + arrived.reordered == 0
            && !self.broker.may_reorder()
            && !self.takes_turns(group)
    }

    /// Of each producer, from which message on the group may not have been offered what was acknowledged.
    fn passed_until(&self, group: usize, arrived: &Arrived, idle: bool) -> Vec<u64> {
        let producers = self.context.scenario.producers.count;
        let mut passed = vec![0; producers];
        let Some(arrivals) = &self.context.arrivals else { return passed };
        let has_offered_all = idle && self.was_offered_all(group);
        let has_order = self.has_order(group, arrived);
        for (topic, described) in self.context.topics.iter().enumerate() {
            let subscription = SubscriptionIndex { group, topic };
            let partitions = match self.unreached(subscription, has_offered_all) {
                Some(unreached) => unreached,
                None if has_offered_all => Vec::new(),
                None => (0..(arrivals.next_offsets(subscription).len() as u32).max(described.partitions)).collect(),
            };
            if !partitions.is_empty() && !has_order {
                continue;
            }
            let of_topic = arrivals.passed_until(subscription, &partitions, producers);
            for (producer_index, until) in of_topic.into_iter().enumerate() {
                if self.context.topic_of(producer_index) == topic {
                    passed[producer_index] = until;
                }
            }
        }
        passed
    }

    /// The partitions whose end the consumers of `subscription` have not all reached; `None`: the broker does not report end offsets.
    /// `has_offered_all`: whether it had nothing more for any of them.
    fn unreached(&self, subscription: SubscriptionIndex, has_offered_all: bool) -> Option<Vec<u32>> {
        let ends = self.ends[subscription.topic].as_ref()?;
        if self.redelivers[subscription.topic] || self.takes_turns(subscription.group) && !has_offered_all {
            return Some((0..ends.len() as u32).collect());
        }
        let next = self.context.arrivals.as_ref()?.next_offsets(subscription);
        let unreached = unreached(&self.starts[subscription.topic], ends, &next);
        Some(unreached.map(|partition| partition as u32).collect())
    }

    fn has_reached_all_ends(&self) -> bool {
        let subscriptions = (0..self.watches.len())
            .flat_map(|group| (0..self.context.topics.len()).map(move |topic| SubscriptionIndex { group, topic }));
        subscriptions
            .into_iter()
            .all(|subscription| self.unreached(subscription, false).is_some_and(|unreached| unreached.is_empty()))
    }

    /// Notes which groups have received something.
    fn watch(&mut self) {
        let Some(arrivals) = &self.context.arrivals else { return };
        let now = Instant::now();
        for (watch, progress) in self.watches.iter_mut().zip(arrivals.progress()) {
            if progress != watch.progress {
                watch.quiet_since = now;
                watch.progress = progress;
            }
        }
    }

    /// Whether every group has all of the `acknowledged` messages. Of damaged ones it is not known which they were.
    fn has_all(&mut self, acknowledged: u64) -> bool {
        let verification = self.context.verification();
        for (group, watch) in self.watches.iter_mut().enumerate() {
            let GroupProgress { first, corrupt, .. } = watch.progress;
            let may_have_all = first + corrupt >= acknowledged;
            if let Some(verification) = verification.filter(|_| may_have_all) {
                let at = (watch.progress, acknowledged);
                if watch.compared != Some(at) {
                    (watch.compared, watch.has_all) = (Some(at), verification.misses_at_most(group, corrupt));
                }
            } else {
                watch.has_all = may_have_all;
            }
        }
        self.watches.iter().all(|watch| watch.has_all)
    }

    /// Asks where the partitions end, unless that has just been asked.
    fn ask(&mut self) {
        let recently = self.asked_at.is_some_and(|asked_at| asked_at.elapsed() < ASK_EVERY);
        if self.asked.is_some() || recently || self.context.verification().is_none() {
            return;
        }
        let (broker, topics) = (self.broker, &self.context.topics);
        self.asked_at = Some(Instant::now());
        let end = move |topic| async move { (end_offsets(broker, topic).await, broker.will_redeliver(topic).await) };
        self.asked = Some(async move { join_all(topics.iter().map(|topic| end(topic).boxed())).await }.boxed());
    }

    fn answered(&mut self, ends: Vec<End>) {
        self.asked = None;
        (self.ends, self.redelivers) = ends.into_iter().unzip();
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/engine/receive/catch_up.rs"]
mod tests;
