//! Conditions: what holds messages up, as a client sees it and for as long as it lasts, with the broker's own words.
//!
//! A client keeps a [`Subject`] for each thing that can be held up, and calls [`Subject::begin`] and [`Subject::end`] where it learns of a
//! change. While nothing changes, a call costs one atomic load. Conditions of one kind on subjects of one kind are told together, as one
//! [`Condition`]: from the first subject that has it until none has it any more.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;

use super::errors::FailureClass;
use crate::printable::printable;

/// A condition that comes back within this time goes on: a broker that is asked again refuses again, and one that throttles does so in turns.
const MAX_GAP: Duration = Duration::from_secs(1);

/// What takes no longer than this holds nothing up.
const MOMENT: Duration = Duration::from_millis(500);

/// Names that a condition lists.
const MAX_NAMES: usize = 8;

/// Conditions that are kept. Later ones are shown while they last, and are not in the record.
const MAX_KEPT: usize = 1000;

/// What holds messages up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum ConditionKind {
    /// The partition has no leader, or its leader is not known.
    WaitingForLeader = 1,
    /// Fewer replicas are in sync than an acknowledgement needs.
    NotEnoughReplicas,
    /// The topic does not exist, or no longer.
    TopicGone,
    /// The broker does not allow it to these credentials.
    Denied,
    /// A quota is used up: the broker delays the client.
    Throttled,
    /// The broker is connected and answers no message, as where an alarm blocks publishers.
    Unanswered,
    /// The broker says that it reads no messages from this connection, as where an alarm blocks publishers.
    Blocked,
    /// The backlog quota of the topic is used up: the broker holds producers back.
    BacklogQuota,
    /// There is no connection, and one is being opened.
    Connecting,
    /// Other members of the group have partitions.
    GroupHasOthers,
    /// The group assigns its partitions anew.
    Rebalancing,
    /// Another client has taken this one's place.
    Fenced,
    /// The broker refuses the credentials.
    Authentication,
    /// The broker refuses for another reason, and is asked again.
    Refused,
    /// Another client has deleted the topic, and there is a new one of its name.
    TopicReplaced,
}

/// What is held up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SubjectKind {
    /// A partition, for producers.
    Partition,
    /// A partition, for consumers.
    ConsumedPartition,
    /// A topic that is not divided, or of which the partition is not known.
    Topic,
    /// A node of the broker, by its address.
    Node,
    /// A group of consumers.
    Group,
    /// A producer, by its name.
    Producer,
}

/// One kind of condition on one kind of subject: from the first subject that had it until none had it any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub kind: ConditionKind,
    pub subject: SubjectKind,
    /// Subjects that have it now, and the most that had it at once.
    pub now: u64,
    pub most: u64,
    /// Subjects that there are; `None`: not known.
    pub all: Option<u64>,
    /// The first subjects that had it.
    pub names: Vec<String>,
    /// What the broker said when it began.
    pub words: String,
    pub begin: Instant,
    /// `None`: it still lasts.
    pub end: Option<Instant>,
    /// How long no subject had it in between.
    gaps: Duration,
}

impl ConditionKind {
    /// What a failure of this class shows, where the broker tells no more.
    pub fn from_failure(class: FailureClass) -> Self {
        match class {
            FailureClass::ConnectionLost | FailureClass::Timeout => ConditionKind::Connecting,
            FailureClass::Authorisation => ConditionKind::Denied,
            FailureClass::UnknownTopic => ConditionKind::TopicGone,
            FailureClass::Fenced => ConditionKind::Fenced,
            _ => ConditionKind::Refused,
        }
    }

    /// What is so, as after "3 of 4 partitions: ".
    pub fn phrase(self) -> &'static str {
        match self {
            ConditionKind::WaitingForLeader => "no leader",
            ConditionKind::NotEnoughReplicas => "not enough in-sync replicas",
            ConditionKind::TopicGone => "the topic does not exist",
            ConditionKind::Denied => "access denied",
            ConditionKind::Throttled => "throttled by a quota",
            ConditionKind::Unanswered => "connected, and nothing is answered",
            ConditionKind::Blocked => "blocked by the broker",
            ConditionKind::BacklogQuota => "held by a backlog quota",
            ConditionKind::Connecting => "connecting",
            ConditionKind::GroupHasOthers => "with other members of the group",
            ConditionKind::Rebalancing => "rebalancing",
            ConditionKind::Fenced => "fenced by another client",
            ConditionKind::Authentication => "credentials refused",
            ConditionKind::Refused => "refused",
            ConditionKind::TopicReplaced => "deleted and created again by another client",
        }
    }

    /// Whether every client of a server tells it: a connection is missing, or the server refuses messages.
    pub fn is_told_by_all(self) -> bool {
        matches!(self, ConditionKind::Connecting | ConditionKind::Denied | ConditionKind::Refused)
    }

    /// Whether messages wait for its end. The other kinds are events.
    pub fn holds_up(self) -> bool {
        !matches!(self, ConditionKind::GroupHasOthers | ConditionKind::TopicReplaced)
    }
}

/// As in a record.
impl fmt::Display for ConditionKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

/// As in a record.
impl fmt::Display for SubjectKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}

impl SubjectKind {
    fn singular(self) -> &'static str {
        match self {
            SubjectKind::Partition => "partition",
            SubjectKind::ConsumedPartition => "consumed partition",
            SubjectKind::Topic => "topic",
            SubjectKind::Node => "node",
            SubjectKind::Group => "group",
            SubjectKind::Producer => "producer",
        }
    }

    /// Who has a condition, and what it is: "3 of 4 partitions: not enough in-sync replicas", "node inner:9092: connecting".
    pub fn told(self, count: u64, all: Option<u64>, names: &[String], kind: ConditionKind) -> String {
        let singular = self.singular();
        let subjects = match (count, all, names) {
            (1, None | Some(1), [name]) => format!("{singular} {name}"),
            (count, Some(all), _) if all >= count => {
                format!("{count} of {all} {singular}{}", if all == 1 { "" } else { "s" })
            }
            (count, ..) => format!("{count} {singular}{}", if count == 1 { "" } else { "s" }),
        };
        format!("{subjects}: {}", kind.phrase())
    }
}

impl Condition {
    /// As it is now: "3 of 4 partitions: not enough in-sync replicas".
    pub fn told(&self) -> String {
        self.subject.told(self.now, self.all, &self.names, self.kind)
    }

    /// For how long subjects had it, until `now`.
    pub fn lasted(&self, now: Instant) -> Duration {
        self.end.unwrap_or(now).saturating_duration_since(self.begin).saturating_sub(self.gaps)
    }
}

/// The conditions of a trial. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Conditions(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    lasting: BTreeMap<(ConditionKind, SubjectKind), Lasting>,
    ended: Vec<Condition>,
    /// How many subjects of a kind there are.
    all: BTreeMap<SubjectKind, u64>,
}

#[derive(Debug)]
struct Lasting {
    condition: Condition,
    /// The subjects that have it, and how many clients say so of each.
    subjects: BTreeMap<Arc<str>, usize>,
}

impl Conditions {
    /// There are so many subjects of this kind.
    pub fn expect(&self, subject: SubjectKind, all: u64) {
        self.0.lock().all.insert(subject, all);
    }

    /// A condition that lasts on subjects of this kind has other words from now on.
    pub fn reword(&self, kind: ConditionKind, subject: SubjectKind, words: &str) {
        if let Some(lasting) = self.0.lock().lasting.get_mut(&(kind, subject)) {
            lasting.condition.words = printable(words).into_owned();
        }
    }

    /// Those that last, in a fixed order.
    pub fn lasting(&self) -> Vec<Condition> {
        self.0.lock().lasting.values().map(|lasting| lasting.condition.clone()).collect()
    }

    /// All of them, in the order in which they began.
    pub fn all(&self) -> Vec<Condition> {
        let mut all = self.lasting();
        all.extend(self.0.lock().ended.iter().cloned());
        all.sort_by_key(|condition| condition.begin);
        all
    }
}

impl Known {
    fn begin(&mut self, kind: ConditionKind, subject: &Subject, words: &str, since: Instant) {
        let all = self.all.get(&subject.kind).copied();
        let lasting = self.lasting.entry((kind, subject.kind)).or_insert_with(|| {
            let is_recent = |ended: &Condition| {
                let gap = since.saturating_duration_since(ended.end.unwrap_or(since));
                ended.kind == kind && ended.subject == subject.kind && gap <= MAX_GAP
            };
            let condition = match self.ended.iter().rposition(is_recent) {
                Some(place) => {
                    let ended = self.ended.remove(place);
                    let gap = since.saturating_duration_since(ended.end.unwrap_or(since));
                    Condition { end: None, gaps: ended.gaps + gap, ..ended }
                }
                None => Condition {
                    kind,
                    subject: subject.kind,
                    now: 0,
                    most: 0,
                    all,
                    names: Vec::new(),
                    words: printable(words).into_owned(),
                    begin: since,
                    end: None,
                    gaps: Duration::ZERO,
                },
            };
            Lasting { condition, subjects: BTreeMap::new() }
        });
        *lasting.subjects.entry(subject.name.clone()).or_default() += 1;
        let condition = &mut lasting.condition;
        condition.now = lasting.subjects.len() as u64;
        condition.most = condition.most.max(condition.now);
        if condition.names.len() < MAX_NAMES && !condition.names.iter().any(|name| **name == *subject.name) {
            condition.names.push(subject.name.to_string());
        }
    }

    fn end(&mut self, kind: ConditionKind, subject: &Subject) {
        let Some(lasting) = self.lasting.get_mut(&(kind, subject.kind)) else { return };
        if let Some(clients) = lasting.subjects.get_mut(&subject.name) {
            *clients -= 1;
            if *clients == 0 {
                lasting.subjects.remove(&subject.name);
            }
        }
        lasting.condition.now = lasting.subjects.len() as u64;
        if lasting.subjects.is_empty()
            && let Some(Lasting { condition, .. }) = self.lasting.remove(&(kind, subject.kind))
            && self.ended.len() < MAX_KEPT
        {
            self.ended.push(Condition { end: Some(Instant::now()), ..condition });
        }
    }
}

/// Something that can be held up, by one condition at a time. What lasts ends when it is dropped.
#[derive(Debug)]
pub struct Subject {
    conditions: Conditions,
    kind: SubjectKind,
    name: Arc<str>,
    /// The condition that lasts, as a number; 0: none.
    lasting: AtomicU8,
}

impl Subject {
    pub fn new(conditions: &Conditions, kind: SubjectKind, name: &str) -> Self {
        let name = printable(name).into();
        Subject { conditions: conditions.clone(), kind, name, lasting: AtomicU8::new(0) }
    }

    /// From now on it has this condition, and no other. `words`: the broker's own.
    pub fn begin(&self, kind: ConditionKind, words: &str) {
        if self.lasting.load(Ordering::Relaxed) != kind as u8 {
            self.change(Some((kind, words, Instant::now())));
        }
    }

    /// As [`Subject::begin`], where it is known only now that it has had this condition `since` a moment before.
    pub fn begin_since(&self, kind: ConditionKind, words: &str, since: Instant) {
        if self.lasting.load(Ordering::Relaxed) != kind as u8 {
            self.change(Some((kind, words, since)));
        }
    }

    /// As [`Subject::begin_since`], unless it is held up by something else.
    pub fn begin_only(&self, kind: ConditionKind, words: &str, since: Instant) {
        if self.lasting.load(Ordering::Relaxed) == 0 {
            self.change(Some((kind, words, since)));
        }
    }

    /// Nothing holds it up any more.
    #[inline]
    pub fn end(&self) {
        if self.lasting.load(Ordering::Relaxed) != 0 {
            self.change(None);
        }
    }

    /// As [`Subject::end`], unless it is held up by something else.
    pub fn end_only(&self, kind: ConditionKind) {
        if self.lasting.load(Ordering::Relaxed) == kind as u8 {
            self.change(None);
        }
    }

    /// Waits for `work`. If that takes longer than a moment, it has this condition since it began, until [`Subject::end`].
    pub async fn during<T>(&self, kind: ConditionKind, words: &str, work: impl Future<Output = T>) -> T {
        let (mut work, since) = (pin!(work), Instant::now());
        if let Ok(done) = timeout(MOMENT, &mut work).await {
            return done;
        }
        self.begin_since(kind, words, since);
        work.await
    }

    /// Changes of one subject come from several tasks: they are made one after the other.
    fn change(&self, to: Option<(ConditionKind, &str, Instant)>) {
        let mut known = self.conditions.0.lock();
        let code = to.map_or(0, |(kind, ..)| kind as u8);
        let before = self.lasting.swap(code, Ordering::Relaxed);
        if before == code {
            return;
        }
        if let Some(kind) = ConditionKind::ALL.into_iter().find(|kind| *kind as u8 == before) {
            known.end(kind, self);
        }
        if let Some((kind, words, since)) = to {
            known.begin(kind, self, words, since);
        }
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        self.end();
    }
}

impl ConditionKind {
    /// The kind of this name in a record.
    pub fn from_name(name: &str) -> Option<Self> {
        ConditionKind::ALL.into_iter().find(|kind| kind.to_string() == name)
    }

    pub const ALL: [ConditionKind; 15] = [
        ConditionKind::WaitingForLeader,
        ConditionKind::NotEnoughReplicas,
        ConditionKind::TopicGone,
        ConditionKind::Denied,
        ConditionKind::Throttled,
        ConditionKind::Unanswered,
        ConditionKind::Blocked,
        ConditionKind::BacklogQuota,
        ConditionKind::Connecting,
        ConditionKind::GroupHasOthers,
        ConditionKind::Rebalancing,
        ConditionKind::Fenced,
        ConditionKind::Authentication,
        ConditionKind::Refused,
        ConditionKind::TopicReplaced,
    ];
}

#[cfg(test)]
#[path = "../../tests/unit/measure/condition.rs"]
mod tests;
