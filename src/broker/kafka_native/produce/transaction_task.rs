//! The task of a client that sends in transactions: it tells the coordinator of partitions, and ends one transaction after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep_until;

use super::super::error::{CallError, class_of, describe};
use super::client::Client;
use super::transaction_coordinator::{INVALID_STATE, TRANSACTION_ABORTABLE};
use super::transactions::{Due, Transactions};
use crate::broker::{FailureClass, SubmitError};
use crate::measure::AckRecorder;

/// Ends the transactions of a client.
struct Ending {
    client: Arc<Client>,
    transactions: Arc<Transactions>,
    recorder: AckRecorder,
    /// Whether the coordinator was told of a partition of the open transaction, and whether it has confirmed one.
    is_asked: bool,
    is_begun: bool,
}

/// How a transaction ended.
enum Ended {
    Committed(Duration),
    Aborted(SubmitError),
}

/// Ends each transaction and begins the next, until the task is aborted.
pub async fn end_transactions(client: Arc<Client>, transactions: Arc<Transactions>) {
    let recorder = client.acks.recorder();
    let mut ending = Ending { client, transactions, recorder, is_asked: false, is_begun: false };
    for number in 0.. {
        ending.await_end().await;
        let is_aborted = ending.transactions.options.aborts(number);
        let ended = ending.end(is_aborted).await;
        ending.settle(ended);
        ending.begin_next();
    }
}

impl Ending {
    /// Waits until the open transaction is to be ended.
    async fn await_end(&mut self) {
        loop {
            self.add_partitions().await;
            match self.transactions.due() {
                Due::Now => return,
                Due::Unknown => self.transactions.changed().await,
                Due::At(moment) => {
                    tokio::select! {
                        () = self.transactions.changed() => {}
                        () = sleep_until(moment.into()) => {}
                    }
                }
            }
        }
    }

    /// Tells the coordinator of the partitions that have got their first message, which are sent from then on.
    async fn add_partitions(&mut self) {
        let partitions = self.transactions.take_new_partitions();
        let Some(identity) = self.client.identity().filter(|_| !partitions.is_empty()) else { return };
        if self.transactions.failure().is_some() {
            return;
        }
        self.is_asked = true;
        match self.transactions.coordinator.add(identity, &partitions).await {
            Ok(()) => {
                self.is_begun = true;
                partitions.iter().for_each(|partition| partition.enter_transaction());
            }
            Err(error) => {
                self.transactions.fail(error.class(), error.to_string());
            }
        }
    }

    /// What is to be aborted on purpose is written before, as where a producer finds out at the end that its work is void.
    async fn end(&mut self, is_aborted: bool) -> Ended {
        self.flush().await;
        if let Some(failure) = self.transactions.failure() {
            return self.abort(failure).await;
        }
        // Without a partition it has no message.
        let asked = self.client.identity().filter(|_| self.is_asked);
        let Some(identity) = asked else { return Ended::Committed(Duration::ZERO) };
        let begin = Instant::now();
        match self.transactions.coordinator.end(identity, !is_aborted).await {
            Err(CallError::Refused(code @ TRANSACTION_ABORTABLE, message)) if !is_aborted => {
                self.abort(SubmitError { class: class_of(code), message: describe(code, message.as_deref()) }).await
            }
            Err(error) => self.give_up(&error),
            Ok(()) if is_aborted => Ended::Aborted(SubmitError {
                class: FailureClass::Aborted,
                message: "the scenario aborts a share of the transactions".to_owned(),
            }),
            Ok(()) => Ended::Committed(begin.elapsed()),
        }
    }

    /// Sends what waits for a batch, and waits until every message of the transaction is written, has failed, or is abandoned.
    async fn flush(&mut self) {
        for partition in self.client.partitions() {
            partition.flush();
        }
        loop {
            // Created before the look, so that a notification in between is not missed.
            let client = self.client.clone();
            let settled = client.settled();
            self.add_partitions().await;
            if self.transactions.failure().is_some() {
                self.abandon();
            }
            if self.client.is_idle() {
                return;
            }
            tokio::select! {
                () = settled => {}
                () = self.transactions.changed() => {}
            }
        }
    }

    /// What was not sent yet is not sent any more.
    fn abandon(&self) {
        for pending in self.client.partitions().iter().flat_map(|partition| partition.abandon()) {
            self.transactions.keep(&pending.sent);
            self.client.release(pending);
        }
    }

    /// A later transaction is written with a new epoch: sequences have gaps, and what may still be on its way is refused.
    async fn abort(&mut self, failure: SubmitError) -> Ended {
        let message = format!("its transaction was aborted: {}", failure.message);
        let aborted = Ended::Aborted(SubmitError { message, ..failure });
        let Some(identity) = self.client.identity().filter(|_| self.client.fatal().is_none()) else { return aborted };
        let coordinator = &self.transactions.coordinator;
        if self.is_asked {
            match coordinator.end(identity, false).await {
                // It knows of no partition, so it has nothing to abort.
                Err(CallError::Refused(INVALID_STATE, _)) if !self.is_begun => {}
                Err(error) => return self.give_up(&error),
                Ok(()) => {}
            }
        }
        match coordinator.next_identity(identity).await {
            Ok(identity) => self.client.set_identity(identity),
            Err(error) => return self.give_up(&error),
        }
        aborted
    }

    /// No other transaction can begin.
    fn give_up(&self, error: &CallError) -> Ended {
        let reason = format!("a transaction could not be ended: {error}");
        self.client.end(error.class(), reason);
        Ended::Aborted(SubmitError { class: error.class(), message: format!("its transaction was aborted: {error}") })
    }

    /// The outcome of each message that was written.
    fn settle(&self, ended: Ended) {
        let written = self.transactions.take_written();
        let is_measured = written.runs().iter().any(|run| run.first.measured());
        let mut acks = self.recorder.batch();
        let committed = match ended {
            Ended::Committed(took) => {
                written.runs().iter().for_each(|run| acks.acknowledged_run(run));
                Some(took)
            }
            Ended::Aborted(SubmitError { class, message }) => {
                written.send_tags().for_each(|send_tag| acks.failed(send_tag, class, || message.clone()));
                None
            }
        };
        if is_measured {
            acks.transaction_ended(committed);
        }
    }

    fn begin_next(&mut self) {
        (self.is_asked, self.is_begun) = (false, false);
        self.client.partitions().iter().for_each(|partition| partition.leave_transaction());
        self.transactions.begin_next(self.client.fatal().is_some());
    }
}
