//! How figures differ from one partition, or one consumer, to the next, where one is more than 10 % above another.

use super::{Block, Section};
use crate::present::points::Spot;
use crate::present::{Table, capital, duration_or_dash, several};
use crate::record::readable::{count, duration};
use crate::record::{ConsumerFigures, Consumers, PartitionFigures, Record};
use crate::report::figure::{Figure, HALF, PHONE};
use crate::report::svg::dots::{Dots, Group, evenly};
use crate::report::svg::unit::Unit;

/// One of those that are compared.
struct Entry {
    name: String,
    messages: u64,
    p50_ns: Option<u64>,
    p99_ns: Option<u64>,
}

/// What is compared with each other.
struct Entries {
    /// `consumer`, as a part of the charts' ids as well.
    thing: &'static str,
    /// Where there are several groups, " of group 1".
    whose: String,
    /// What names them: `member`.
    axis: String,
    /// What became of their messages: `received`.
    done: &'static str,
    latency: String,
    of: Vec<Entry>,
    /// How many there are, of which only some may be listed.
    all: u64,
}

pub fn section(record: &Record) -> Option<Section> {
    let consumers = record.consumers.as_ref().into_iter().flat_map(|consumers| differing_groups(record, consumers));
    let all = partitions(record).into_iter().chain(consumers).filter(|entries| !entries.of.is_empty());
    let pairs = all.map(|entries| Block::Pair(vec![messages(&entries), latency(&entries)]));
    Section::new("spread", "Partitions and consumers that differ", pairs.collect())
}

/// The partitions, if they differ.
fn partitions(record: &Record) -> Option<Entries> {
    let found = record.partitions.as_ref().filter(|found| found.differ())?;
    let of = &found.listed;
    let of_one_topic = of.iter().all(|one| one.topic == of[0].topic);
    let of_topics = of.iter().all(|one| one.partition.is_none());
    let name = |of: &PartitionFigures| match of.partition {
        None => of.topic.clone(),
        Some(partition) if of_one_topic => partition.to_string(),
        Some(partition) => format!("{}/{partition}", of.topic),
    };
    let entry = |of: &PartitionFigures| Entry {
        name: name(of),
        messages: of.acknowledged,
        p50_ns: of.p50_ns,
        p99_ns: of.p99_ns,
    };
    let axis = match (of_topics, of_one_topic) {
        (true, _) => "topic",
        (false, true) => "partition",
        (false, false) => "topic/partition",
    };
    Some(Entries {
        thing: if of_topics { "topic" } else { "partition" },
        whose: String::new(),
        axis: axis.to_owned(),
        done: "taken",
        latency: format!("{} time", record.headline),
        of: of.iter().map(entry).collect(),
        all: found.partitions,
    })
}

/// The consumers of each group in which they differ.
fn differing_groups<'a>(record: &'a Record, consumers: &'a Consumers) -> impl Iterator<Item = Entries> + use<'a> {
    let is_alone = consumers.groups.len() == 1;
    consumers.groups.iter().filter(|group| group.differs()).map(move |group| {
        let of: Vec<&ConsumerFigures> = consumers.listed.iter().filter(|of| of.group == group.group).collect();
        let of_one_topic = of.iter().all(|one| one.topic == of[0].topic);
        let name = |of: &ConsumerFigures| {
            if of_one_topic { of.member.to_string() } else { format!("{}/{}", of.topic, of.member) }
        };
        let entry = |of: &&ConsumerFigures| Entry {
            name: name(of),
            messages: of.consumed,
            p50_ns: of.end_to_end_p50_ns,
            p99_ns: of.end_to_end_p99_ns,
        };
        let axis = if of_one_topic { "member" } else { "topic/member" };
        Entries {
            thing: "consumer",
            whose: if is_alone { String::new() } else { format!(" of group {}", record.group_name(group.group)) },
            axis: axis.to_owned(),
            done: "received",
            latency: "end-to-end latency".to_owned(),
            of: of.iter().map(entry).collect(),
            all: group.consumers,
        }
    })
}

fn messages(entries: &Entries) -> Figure {
    let Entries { thing, done, .. } = entries;
    let most = entries.of.iter().max_by_key(|of| of.messages);
    let fewest = entries.of.iter().min_by_key(|of| of.messages);
    let sentence = match (most, fewest) {
        (Some(most), Some(fewest)) => format!(
            "Most messages were {done} by {thing} {} ({}), fewest by {thing} {} ({}).{}",
            most.name,
            count(most.messages),
            fewest.name,
            count(fewest.messages),
            entries.listed()
        ),
        _ => String::new(),
    };
    let group = entries.group("messages", 1, |of| Some(of.messages));
    let title = format!("Messages {done} by each {thing}{}", entries.whose);
    entries.figure("messages", &title, sentence, Unit::Count, vec![group])
}

fn latency(entries: &Entries) -> Figure {
    let Entries { thing, latency, .. } = entries;
    // Of some, too few messages may have come to state the 99th percentile: then the medians are compared.
    let has_tails = entries.of.iter().all(|of| of.p99_ns.is_some() || of.messages == 0);
    let (which, figure): (&str, fn(&Entry) -> Option<u64>) =
        if has_tails { ("p99", |of| of.p99_ns) } else { ("median", |of| of.p50_ns) };
    let known = || entries.of.iter().filter_map(|of| Some((of, figure(of)?)));
    let sentence = match (known().max_by_key(|of| of.1), known().min_by_key(|of| of.1)) {
        (Some((slow, slow_ns)), Some((fast, fast_ns))) => format!(
            "Slowest is {thing} {} ({which} {}), fastest {thing} {} ({}).{}",
            slow.name,
            duration(slow_ns as f64),
            fast.name,
            duration(fast_ns as f64),
            entries.listed()
        ),
        _ => format!("The latency of single {thing}s is not known."),
    };
    let groups = vec![entries.group("p50", 1, |of| of.p50_ns), entries.group("p99", 2, |of| of.p99_ns)];
    let title = format!("{} of each {thing}{}", capital(latency), entries.whose);
    entries.figure("latency", &title, sentence, Unit::Nanoseconds, groups)
}

impl Entries {
    /// That some are left out, if so.
    fn listed(&self) -> String {
        let (shown, all) = (self.of.len(), self.all as usize);
        let all_of_them = several(all, self.thing);
        if shown < all {
            format!(" Shown are {shown} of {all_of_them}, those that differ the most.")
        } else {
            String::new()
        }
    }

    fn group(&self, name: &str, style: usize, figure: impl Fn(&Entry) -> Option<u64>) -> Group {
        let spot = |of: &Entry| {
            let value = figure(of).map(|value| value as f64);
            let trials = value.iter().map(|value| (*value, true)).collect();
            Spot { name: of.name.clone(), trials, middle: value, interval: None }
        };
        Group { name: name.to_owned(), style, spots: self.of.iter().map(spot).collect() }
    }

    fn figure(&self, id: &str, title: &str, sentence: String, unit: Unit, groups: Vec<Group>) -> Figure {
        let name = if unit == Unit::Count { "messages" } else { "latency" };
        let dots = Dots {
            name: name.to_owned(),
            unit,
            axis: self.axis.clone(),
            places: evenly(self.of.len()),
            groups,
            is_connected: false,
            is_from_zero: true,
        };
        let id = format!("{id}-by-{}", self.thing);
        let mut figure = Figure::draw(&id, title, sentence, (HALF, PHONE), |shape| dots.draw(shape));
        figure.table = self.table();
        figure
    }

    fn table(&self) -> Table {
        let row = |of: &Entry| {
            vec![of.name.clone(), count(of.messages), duration_or_dash(of.p50_ns), duration_or_dash(of.p99_ns)]
        };
        Table::from_rows([self.axis.as_str(), "messages", "p50", "p99"], self.of.iter().map(row).collect())
    }
}

#[cfg(test)]
#[path = "../../../tests/unit/report/section/spread.rs"]
mod tests;
