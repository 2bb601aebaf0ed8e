//! Groups that begin after the load: at their time, or when a backlog is there, and when the load has ended at the latest. The broker
//! keeps for them what is sent before.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::pending;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{FutureExt, LocalBoxFuture, try_join_all};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::join::Members;
use crate::broker::Broker;
use crate::engine::EngineError;
use crate::measure::Clock;

/// Lets groups begin.
#[derive(Clone)]
pub struct StartSignal(Arc<watch::Sender<Gate>>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Closed,
    /// The load begins at this time, in nanoseconds since the trial's epoch: groups begin so much later as they are told.
    LoadBegins(u64),
    /// All may begin.
    Open,
}

impl StartSignal {
    pub fn load_begins(&self, at_ns: u64) {
        self.0.send_replace(Gate::LoadBegins(at_ns));
    }

    pub fn open(&self) {
        self.0.send_replace(Gate::Open);
    }
}

/// The groups that begin late.
pub struct LateGroups<'a> {
    signal: StartSignal,
    /// Those that have not begun.
    waiting: Rc<RefCell<BTreeSet<usize>>>,
    /// `None`: all have joined, or one could not.
    joining: Option<LocalBoxFuture<'a, Result<(), EngineError>>>,
    failure: Option<EngineError>,
}

impl<'a> LateGroups<'a> {
    /// Has the broker keep messages for `groups`; each begins after its time, or, without one, when it is let.
    ///
    /// # Errors
    /// When the broker does not keep them.
    pub async fn register<B: Broker>(
        members: &Members<'a, B>,
        clock: Clock,
        groups: Vec<(usize, Option<Duration>)>,
    ) -> Result<Self, EngineError> {
        try_join_all(groups.iter().map(|(group, _)| members.register(*group))).await?;
        let gate = watch::Sender::new(Gate::Closed);
        let waiting: Rc<RefCell<BTreeSet<usize>>> =
            Rc::new(RefCell::new(groups.iter().map(|(group, _)| *group).collect()));
        let joining = groups.into_iter().map(|(group, after)| {
            let (members, waiting, gate) = (members.clone(), waiting.clone(), gate.subscribe());
            async move {
                passed(gate, clock, after).await;
                waiting.borrow_mut().remove(&group);
                members.join(&[group]).await
            }
        });
        let joining = try_join_all(joining.collect::<Vec<_>>()).map(|joined| joined.map(drop)).boxed_local();
        let signal = StartSignal(Arc::new(gate));
        Ok(LateGroups { signal, waiting, joining: Some(joining), failure: None })
    }

    pub fn signal(&self) -> StartSignal {
        self.signal.clone()
    }

    /// Whether this group is still to begin.
    pub fn is_waiting(&self, group: usize) -> bool {
        self.waiting.borrow().contains(&group)
    }

    /// Does `work`, while groups join whose time has come.
    pub async fn alongside<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::select! {
            done = work => done,
            () = self.join_for_ever() => unreachable!("it never resolves"),
        }
    }

    async fn join_for_ever(&mut self) {
        self.join().await;
        pending().await
    }

    async fn join(&mut self) {
        if let Some(joining) = &mut self.joining {
            self.failure = joining.await.err();
            self.joining = None;
        }
    }

    /// Lets all begin that have not, and waits until they have joined.
    ///
    /// # Errors
    /// When one could not join.
    pub async fn joined(&mut self) -> Result<(), EngineError> {
        self.signal.open();
        self.join().await;
        self.failure.take().map_or(Ok(()), Err)
    }
}

/// Resolves when a group that is to begin so long after the load may begin. A gate whose sender is gone stays closed.
async fn passed(mut gate: watch::Receiver<Gate>, clock: Clock, after: Option<Duration>) {
    let begun = gate.wait_for(|gate| *gate == Gate::Open || (after.is_some() && *gate != Gate::Closed));
    let Ok(state) = begun.await.map(|gate| *gate) else { return pending().await };
    if let (Gate::LoadBegins(at_ns), Some(after)) = (state, after) {
        let begin = Instant::from_std(clock.instant(at_ns) + after);
        tokio::select! {
            () = sleep_until(begin) => {}
            _ = gate.wait_for(|gate| *gate == Gate::Open) => {}
        }
    }
}
