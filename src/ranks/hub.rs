//! Rank 0's side: a connection to each rank, itself included, and one second of all ranks together.
//!
//! Each connection has a task that reads and one that writes, so that a rank that is slow or cut off holds up no other. The reading task
//! notes when the answer to a ping came; the writing task, when it left. In a second of all ranks, counts are added, and histograms bucket by
//! bucket.
//!
//! - `gathering`: how the ranks find it.

mod gathering;

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use hdrhistogram::Histogram;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, interval, timeout, timeout_at};

pub use self::gathering::addresses;
use super::clock::{RoundTrip, RoundTrips, Stage};
use super::message::{self, Counters, FromRank, FromRoot, Hello, KnownClock};
use super::{SILENCE, clock_ns};
use crate::engine::Second;
use crate::record::{LostRank, RankClock, decode_histogram};

/// Between two pings, beside those of a burst.
const PING_EVERY: Duration = Duration::from_secs(1);

/// Round trips before and after a trial.
const BURST: usize = 20;

/// The next ping of a burst is sent when all have answered the last one, or after this time: those to a rank that is far away are under way
/// together, but do not wait for each other.
const STEP: Duration = Duration::from_millis(50);

/// How long the last answers of a burst are waited for.
const ANSWER: Duration = Duration::from_secs(2);

/// What a rank did.
#[derive(Debug)]
pub enum Event {
    Told(FromRank),
    RoundTrip(RoundTrip),
    Lost(String),
}

type Events = UnboundedReceiver<(usize, Event)>;

/// The connections of all ranks.
#[derive(Debug)]
pub struct Hub {
    ranks: Vec<Connection>,
    events: Events,
    /// What came while round trips were waited for.
    waiting: VecDeque<(usize, Event)>,
    stage: Stage,
    injected_ns: i64,
}

#[derive(Debug)]
struct Connection {
    hello: Hello,
    /// `None` once the rank is lost.
    orders: Option<UnboundedSender<FromRoot>>,
    trips: RoundTrips,
    /// What it has told of the trial.
    told: Counters,
}

impl Hub {
    /// How many ranks began.
    pub fn size(&self) -> usize {
        self.ranks.len()
    }

    /// The ranks that can still be reached.
    pub fn reachable(&self) -> impl Iterator<Item = usize> {
        (0..self.ranks.len()).filter(|rank| self.ranks[*rank].orders.is_some())
    }

    pub fn tell(&self, rank: usize, order: FromRoot) {
        if let Some(orders) = &self.ranks[rank].orders {
            let _ = orders.send(order);
        }
    }

    pub fn tell_all(&self, order: &FromRoot) {
        self.reachable().for_each(|rank| self.tell(rank, order.clone()));
    }

    /// Rank 0's clock, in nanoseconds since 1970.
    pub fn clock_ns(&self) -> u64 {
        clock_ns(self.injected_ns)
    }

    /// What a rank does next. `None`: none can be reached any more.
    pub async fn next(&mut self) -> Option<(usize, Event)> {
        loop {
            let (rank, event) = match self.waiting.pop_front() {
                Some(waiting) => waiting,
                None => self.events.recv().await?,
            };
            match &event {
                Event::RoundTrip(trip) => self.ranks[rank].trips.add(self.stage, *trip),
                Event::Lost(_) => {
                    self.ranks[rank].orders = None;
                    return Some((rank, event));
                }
                Event::Told(FromRank::Second { counters, .. }) => {
                    self.ranks[rank].told.add(counters);
                    self.ranks[rank].told.phase = counters.phase;
                    return Some((rank, event));
                }
                Event::Told(_) => return Some((rank, event)),
            }
        }
    }

    /// Whether a rank has told of a signal of the user's since the last trial.
    pub fn is_signalled(&mut self) -> bool {
        while let Ok(event) = self.events.try_recv() {
            self.keep(event);
        }
        self.waiting.iter().any(|(_, event)| matches!(event, Event::Told(FromRank::Signals(_))))
    }

    /// Resolves once a rank has told of a signal of the user's, between two trials. What else ranks do meanwhile comes next.
    pub async fn signal(&mut self) {
        while !self.is_signalled() {
            match self.events.recv().await {
                Some(event) => self.keep(event),
                None => std::future::pending().await,
            }
        }
    }

    /// Keeps what came between two trials. The round trips of that time are of no trial.
    fn keep(&mut self, event: (usize, Event)) {
        if !matches!(event, (_, Event::RoundTrip(_))) {
            self.waiting.push_back(event);
        }
    }

    /// Compares the clocks before a trial.
    pub async fn before_trial(&mut self) {
        self.ranks.iter_mut().for_each(|rank| (rank.trips, rank.told) = Default::default());
        self.burst(Stage::Before).await;
        self.stage = Stage::During;
    }

    /// Compares the clocks after a trial.
    pub async fn after_trial(&mut self) {
        self.burst(Stage::After).await;
    }

    async fn burst(&mut self, stage: Stage) {
        self.stage = stage;
        let mut awaited = vec![0; self.size()];
        for ping in 1..=BURST {
            self.reachable().for_each(|rank| awaited[rank] += 1);
            self.tell_all(&FromRoot::Ping { sent_ns: 0 });
            let patience = if ping == BURST { ANSWER } else { STEP };
            self.answers(stage, &mut awaited, Instant::now() + patience).await;
        }
    }

    /// Takes the answers to pings, of which each rank owes so many, until all have come or the time is over.
    async fn answers(&mut self, stage: Stage, awaited: &mut [usize], deadline: Instant) {
        while awaited.iter().any(|pings| *pings > 0) {
            let Ok(Some((rank, event))) = timeout_at(deadline, self.events.recv()).await else { break };
            match event {
                Event::RoundTrip(trip) => {
                    awaited[rank] = awaited[rank].saturating_sub(1);
                    self.ranks[rank].trips.add(stage, trip);
                    continue;
                }
                Event::Lost(_) => {
                    awaited[rank] = 0;
                    self.ranks[rank].orders = None;
                }
                Event::Told(_) => {}
            }
            self.waiting.push_back((rank, event));
        }
    }

    /// What is added to a rank's clock to get rank 0's: the same for all ranks that read one clock, or it would be two.
    fn clock_shift_ns(&self, rank: usize) -> i64 {
        if self.has_own_clock(rank) { -self.trips_to_clock_of(rank).offset_ns() } else { 0 }
    }

    /// The round trips to all ranks that read the same clock as this one.
    fn trips_to_clock_of(&self, rank: usize) -> RoundTrips {
        let Connection { hello, trips, .. } = &self.ranks[rank];
        if hello.boot_id.is_none() {
            return *trips;
        }
        let mut all = RoundTrips::default();
        let of_clock = self.ranks.iter().filter(|other| other.hello.boot_id == hello.boot_id);
        of_clock.for_each(|other| all.add_all(&other.trips));
        all
    }

    /// What is known of a rank's clock before a trial.
    pub fn known_clock(&self, rank: usize) -> KnownClock {
        let shift_ns = self.clock_shift_ns(rank);
        let boot_id = self.ranks[rank].hello.boot_id.clone();
        KnownClock {
            // A test shifts its clock, or its kernel is not known.
            name: boot_id.unwrap_or_else(|| format!("rank {rank}")),
            shift_ns,
            error_ns: self.clock(rank, shift_ns).map(|clock| clock.error_ns),
        }
    }

    /// Whether a rank has another clock than rank 0.
    fn has_own_clock(&self, rank: usize) -> bool {
        let boot_id = |rank: usize| self.ranks[rank].hello.boot_id.as_ref();
        rank > 0 && (boot_id(rank).is_none() || boot_id(rank) != boot_id(0))
    }

    /// What is known of a rank's clock.
    pub fn clock(&self, rank: usize, shifted_by_ns: i64) -> Option<RankClock> {
        self.trips_to_clock_of(rank).clock(-shifted_by_ns, !self.has_own_clock(rank))
    }

    /// The name of a rank's host.
    pub fn host(&self, rank: usize) -> &str {
        self.ranks[rank].hello.host()
    }

    /// What the record says of a rank that was lost.
    pub fn lost(&self, rank: usize, reason: String) -> LostRank {
        let Connection { hello, told, .. } = &self.ranks[rank];
        LostRank {
            number: rank + 1,
            hostname: hello.hostname.clone(),
            reason,
            failed: false,
            phase: format!("{:?}", told.phase()).to_lowercase(),
            attempted: told.attempted,
            acknowledged: told.acknowledged,
        }
    }

    /// Ends all ranks, and waits until they have closed their connections.
    pub async fn dismiss(mut self, patience: Duration) {
        self.tell_all(&FromRoot::Goodbye);
        // Rank 0's own connection lasts as long as its process.
        let gone = async { while self.reachable().any(|rank| rank > 0) && self.next().await.is_some() {} };
        let _ = timeout(patience, gone).await;
    }
}

impl Connection {
    /// Of a rank that has not connected.
    fn missing(rank: usize) -> Self {
        let hello = Hello { rank, ..Hello::default() };
        Connection { hello, orders: None, trips: RoundTrips::default(), told: Counters::default() }
    }

    fn begin(hello: Hello, stream: TcpStream, event: &UnboundedSender<(usize, Event)>, injected_ns: i64) -> Self {
        let (from, to) = stream.into_split();
        let (orders, to_send) = unbounded_channel();
        tokio::spawn(write(to, to_send, injected_ns));
        tokio::spawn(read(from, hello.rank, event.clone(), injected_ns));
        Connection { hello, orders: Some(orders), trips: RoundTrips::default(), told: Counters::default() }
    }
}

async fn write(mut to: OwnedWriteHalf, mut orders: UnboundedReceiver<FromRoot>, injected_ns: i64) {
    let mut pings = interval(PING_EVERY);
    loop {
        let mut order = tokio::select! {
            order = orders.recv() => match order {
                Some(order) => order,
                None => return,
            },
            _ = pings.tick() => FromRoot::Ping { sent_ns: 0 },
        };
        if let FromRoot::Ping { sent_ns } = &mut order {
            *sent_ns = clock_ns(injected_ns);
        }
        // The reading task finds out that the connection is lost.
        if message::write_frame(&mut to, &order).await.is_err() {
            return;
        }
    }
}

async fn read(mut from: OwnedReadHalf, rank: usize, events: UnboundedSender<(usize, Event)>, injected_ns: i64) {
    loop {
        let event = match message::read_frame(&mut from, SILENCE).await {
            Ok(FromRank::Pong { sent_ns, clock_ns: answered_ns }) => {
                Event::RoundTrip(RoundTrip { sent_ns, arrived_ns: clock_ns(injected_ns), answered_ns })
            }
            Ok(told) => Event::Told(told),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Event::Lost("its connection was closed".to_owned())
            }
            Err(error) => Event::Lost(format!("its connection failed: {error}")),
        };
        let is_lost = matches!(event, Event::Lost(_));
        if events.send((rank, event)).is_err() || is_lost {
            return;
        }
    }
}

/// What the ranks have told of the second so far.
#[derive(Debug, Default)]
pub struct JointSecond {
    counters: Counters,
    latencies: Option<Histogram<u64>>,
}

impl JointSecond {
    /// Adds a rank's second, with its headline latencies as [`FromRank::Second`] has them.
    pub fn add(&mut self, counters: Counters, latencies: &str) {
        // A load lasts until it has ended at all ranks. A second has a length, so that the sum has none before the first one.
        let is_first = self.counters.length_ns == 0;
        self.counters.phase = if is_first { counters.phase } else { self.counters.phase.min(counters.phase) };
        self.counters.add(&counters);
        let Ok(told) = decode_histogram(latencies) else { return };
        match &mut self.latencies {
            // All ranks are one build, so their histograms have one range.
            Some(sum) => drop(sum.add(told)),
            None => self.latencies = Some(told),
        }
    }

    /// As progress shows it.
    pub fn second(&self) -> Second {
        let counters = &self.counters;
        let at = |quantile| Some(self.latencies.as_ref()?.value_at_quantile(quantile));
        Second {
            phase: counters.phase(),
            begin_ns: 0,
            end_ns: counters.length_ns.max(1),
            intended_length_ns: counters.length_ns,
            due: None,
            attempted: counters.attempted,
            acknowledged: counters.acknowledged,
            failed: counters.failed,
            payload_bytes: counters.payload_bytes,
            consumed: counters.consumed,
            groups: Default::default(),
            finished: None,
            consumer_lag: None,
            in_flight: counters.in_flight,
            p50_ns: at(0.5),
            p99_ns: at(0.99),
            queue_messages: None,
            cpu_cores: counters.cpu_cores,
            memory_bytes: None,
            broker_cores: None,
            broker_memory_bytes: None,
            faults: Vec::new(),
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/ranks/hub.rs"]
mod tests;
