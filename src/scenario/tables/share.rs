//! A share: the part of a scenario that one of several processes runs.
//!
//! Producers and consumers are numbered over the whole scenario and divided into successive stretches. A share keeps the numbers of
//! the whole, so that topics, partitions, keys, schedules and sequences are those that one process would have.

use std::borrow::Cow;
use std::ops::Range;
use std::str::FromStr;

use super::{Load, Metric, Scenario, Threshold, Timing, Topology};
use crate::limits::MAX_PRODUCERS;

/// The most processes that a scenario is divided among.
pub(super) const MAX_SHARES: usize = 10_000;

/// This process is the `number`th (from 1) of `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    pub number: usize,
    pub count: usize,
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<usize>().ok();
        let parsed = text.split_once('/').and_then(|(left, right)| Some((number(left)?, number(right)?)));
        match parsed {
            Some((number, count)) if (1..=count).contains(&number) && count <= MAX_SHARES => {
                Ok(Share { number, count })
            }
            _ => Err(format!(
                "write which of how many processes this is, as in `2/3`: the first is `1/3`, and {MAX_SHARES} are the most"
            )),
        }
    }
}

impl Share {
    /// Which of `all` things belong to this share. The stretches of all shares follow each other, and their lengths differ by at most
    /// one.
    pub fn range(self, all: usize) -> Range<usize> {
        let bound = |number: usize| (all as u128 * number as u128 / self.count as u128) as usize;
        bound(self.number - 1)..bound(self.number)
    }
}

/// What a part of a scenario knows of the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub share: Share,
    /// This part's producers, by their numbers in the whole, from 0. A part without producers has a number of its own beyond all of
    /// them, because clients are named after it.
    pub producers: Range<usize>,
    /// Producers of the whole.
    pub all_producers: usize,
    /// Which share of each group's consumers it has; `None`: none.
    pub readers: Option<Share>,
    /// This part's consumers of the group that has the most.
    pub consumers: usize,
}

impl Scenario {
    /// This scenario's part that `share` runs. Its thresholds are left out: they are about the whole.
    ///
    /// # Errors
    /// When the scenario cannot be divided so.
    pub fn part(&self, share: Share) -> Result<Scenario, String> {
        self.refuse_part(share)?;
        let writers = self.distribution.writers_share(share);
        let all_producers = self.producers.count;
        let beyond_all = all_producers + share.number;
        let producers = writers.map_or(beyond_all..beyond_all, |writers| writers.range(all_producers));
        let readers = self.distribution.readers_share(share);
        let mut part = self.clone();
        part.part = Some(Part {
            share,
            producers: producers.clone(),
            all_producers,
            readers,
            consumers: readers.map_or(0, |readers| readers.range(self.consumer_places()).len()),
        });
        part.producers.count = producers.len();
        part.idle_connections = self.idle_connections.as_ref().map(|idle| idle.part(share));
        // A process that only consumes still asks the broker for what it needs to know.
        let connections = writers.map_or(1, |writers| writers.range(self.broker.connections).len());
        part.broker.connections = connections.clamp(1, producers.len().max(1));
        part.thresholds.clear();
        if share.number > 1 {
            // One process breaks what all of them load.
            part.faults.clear();
        }
        Ok(part)
    }

    /// Where consumers time their own process's messages only: one of `count` processes that sends none.
    fn reader_without_messages_of_its_own(&self, count: usize) -> Option<usize> {
        let own = self.consumers.as_ref().is_some_and(|consumers| consumers.timing == Timing::Own);
        let idle = |rank: &usize| {
            let share = Share { number: rank + 1, count };
            let readers = self.distribution.readers_share(share);
            let reads = readers.is_some_and(|readers| !readers.range(self.consumer_places()).is_empty());
            reads && self.distribution.writers_share(share).is_none()
        };
        (0..count).find(idle).filter(|_| own)
    }

    /// Consumers of the group that has the most, over all topics.
    fn consumer_places(&self) -> usize {
        self.consumers.as_ref().map_or(0, |consumers| consumers.most_members() * self.topology.topics)
    }

    fn refuse_part(&self, share: Share) -> Result<(), String> {
        let consumers = self.consumers.as_ref().map(|_| self.consumer_places());
        self.distribution.check(share.count, self.producers.count, consumers)?;
        self.check_producers(self.distribution.writers.as_ref().map_or(share.count, |ranks| ranks.count()))?;
        if self.pipeline.is_some() {
            return Err("a pipeline cannot be run in shares: remove [pipeline], or leave --share out".to_owned());
        }
        if let Some(idle) = self.idle_connections.as_ref().filter(|idle| idle.count < share.count) {
            return Err(format!("{} idle connections cannot be divided into {} shares", idle.count, share.count));
        }
        let why_unknown = |one: &Threshold| match one.metric {
            Metric::Outage | Metric::Recovery => Some("which find outages each on its own"),
            Metric::Lag | Metric::CatchUp => Some("which do not know what the others have sent when the load ends"),
            _ => None,
        };
        if let Some((threshold, why)) = self.thresholds.iter().find_map(|one| Some((one, why_unknown(one)?))) {
            return Err(format!(
                "\"{}\" cannot be judged in shares, {why}: remove it from `thresholds.require`",
                threshold.text
            ));
        }
        if self.producers.round_barrier {
            let reason = "`producers.round_barrier` would have to wait for producers of other processes: remove it";
            return Err(reason.to_owned());
        }
        if self.consumers.as_ref().is_some_and(|consumers| consumers.backlog.is_some()) {
            return Err("a backlog cannot be built in shares: remove `consumers.backlog`".to_owned());
        }
        let inside = self.broker.addresses.is_empty() || self.broker.is_embedded();
        if let Some(rank) = self.reader_without_messages_of_its_own(share.count) {
            return Err(format!(
                "with `consumers.timing` = \"own\", rank {rank} would time nothing, because it has no producers: name it in \
                 `distribution.writers`, or remove the key"
            ));
        }
        if self.consumers.is_some() && inside {
            return Err("this broker runs inside each process, so consumers cannot receive what other shares send: name a server \
                        in `broker.addresses`, or remove [consumers]"
                .to_owned());
        }
        Ok(())
    }

    /// Whether so many processes can have its producers.
    ///
    /// # Errors
    /// When one of them would have too many.
    pub fn check_producers(&self, processes: usize) -> Result<(), String> {
        let producers = self.producers.count;
        if producers.div_ceil(processes) <= MAX_PRODUCERS {
            return Ok(());
        }
        let needed = producers.div_ceil(MAX_PRODUCERS);
        Err(format!(
            "`producers.count` is {producers}, and a process has at most {MAX_PRODUCERS}: run it in {needed} processes or more, by mpirun \
             or --share, or lower it"
        ))
    }

    /// Whether one process can run all of it.
    ///
    /// # Errors
    /// When `[distribution]` names other processes, or its producers are too many.
    pub fn check_alone(&self) -> Result<(), String> {
        self.check_producers(1)?;
        let consumers = self.consumers.as_ref().map(|_| self.consumer_places());
        self.distribution.check(1, self.producers.count, consumers).map_err(|reason| {
            format!("{reason}. To run it in several processes, use mpirun or --share; to run it in this one, remove [distribution]")
        })
    }

    /// Whether this is a part without producers: others send what its consumers receive.
    pub fn only_consumes(&self) -> bool {
        self.part.as_ref().is_some_and(|part| part.producers.is_empty())
    }

    /// The number of this scenario's first producer in the whole.
    pub fn first_producer(&self) -> usize {
        self.part.as_ref().map_or(0, |part| part.producers.start)
    }

    /// Producers of the whole.
    pub fn all_producers(&self) -> usize {
        self.part.as_ref().map_or(self.producers.count, |part| part.all_producers)
    }

    /// The load of this process alone: the schedule at its share of the rate. Without producers nothing is due.
    pub fn own_load(&self) -> Cow<'_, Load> {
        match (&self.part, &self.load) {
            (Some(part), _) if part.producers.is_empty() => Cow::Owned(Load::Closed),
            (Some(part), Load::Open(schedule)) => {
                let share = part.producers.len() as f64 / part.all_producers as f64;
                Cow::Owned(Load::Open(schedule.scaled(share)))
            }
            (_, load) => Cow::Borrowed(load),
        }
    }

    /// The producers, numbered over all processes, whose messages get an end-to-end latency here.
    pub fn timed_producers(&self) -> Range<u32> {
        match self.consumers.as_ref().map(|consumers| consumers.timing) {
            Some(Timing::Own) => {
                let first = self.first_producer();
                first as u32..(first + self.producers.count) as u32
            }
            _ => 0..u32::MAX,
        }
    }

    /// Whether a consumer of the group on this topic runs here; `member` is its number among those of the group on the topic. Places of
    /// a group count members of the first topic, then of the second, and so on.
    pub fn has_consumer(&self, group: usize, topic: usize, member: usize) -> bool {
        let Some(part) = &self.part else { return true };
        let members = self.members_of(group);
        let here = part.readers.map_or(0..0, |readers| readers.range(members * self.topology.topics));
        here.contains(&(topic * members + member))
    }

    /// Whether a group's consumers on this topic are in several processes.
    pub fn is_divided(&self, group: usize, topic: usize) -> bool {
        let members = self.members_of(group);
        let here = (0..members).filter(|member| self.has_consumer(group, topic, *member)).count();
        (1..members).contains(&here)
    }

    fn members_of(&self, group: usize) -> usize {
        self.consumers.as_ref().map_or(0, |consumers| consumers.members_of(group))
    }

    /// Whether this process makes the topics that do not exist; otherwise it waits for them.
    pub fn makes_topics(&self) -> bool {
        self.part.as_ref().is_none_or(|part| part.share.number == 1)
    }
}

impl Topology {
    /// Whether the topics' names are made from the run's, so that no other run can have them.
    pub fn is_named_by_run(&self) -> bool {
        self.name.is_none() && !self.existing
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/scenario/tables/share.rs"]
mod tests;
