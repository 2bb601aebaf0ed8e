//! A member's offsets: where it begins, what it commits, and the streams that it leaves to other members.

use super::admin::Failure;
use super::codec::command::Offset;
use super::consumer::{RabbitmqStreamConsumer, Source};
use super::group::{Activated, Membership, Sharing, Update};
use super::subscriptions::{StreamProgress, Subscriptions};
use crate::broker::{BrokerError, FailureClass, Offsets, ReceiveError};

impl RabbitmqStreamConsumer {
    pub(super) fn sharing(&mut self) -> Option<&mut Sharing> {
        self.membership.as_mut()?.sharing.as_mut()
    }

    /// Looks for the offsets at which a member begins that reads its streams for as long as it lives.
    pub(super) async fn find_stored(&mut self) -> Result<(), BrokerError> {
        let Some(membership) = self.membership.as_ref().filter(|membership| membership.sharing.is_none()) else {
            return Ok(());
        };
        let (name, tracking) = (membership.name.clone(), membership.tracking.clone());
        for source in &mut self.sources {
            let stored = tracking.next(&name, &source.place.stream).await;
            source.place.next = stored.map_err(|(place, error)| error.into_broker_error(&place))?;
            source.committed = source.place.next;
        }
        Ok(())
    }

    /// A stream was subscribed to: all members of its group begin where the first one found its end.
    pub(super) fn note_position(&mut self, place: &StreamProgress) {
        if let (Some(sharing), Some(next)) = (self.sharing(), place.next) {
            sharing.group.begin_at(&place.stream, next);
        }
    }

    /// Notes what the server has said about the streams of a connection.
    pub(super) fn note_updates(&mut self, connection: usize) {
        let Some(Membership { sharing: Some(sharing), commits, .. }) = &mut self.membership else { return };
        let connection = &mut self.connections[connection];
        for update in connection.take_updates() {
            if let Some(source) = connection.sources.get(usize::from(update.subscription)) {
                sharing.updated(Update { connection: connection.number, update, source: *source });
            }
        }
        // Without commits there is nothing to finish.
        if !*commits {
            self.leave();
        }
    }

    /// Begins to look for the offsets of streams that this member is to read.
    pub(super) fn begin_activation(&mut self) {
        let Some(Membership { sharing: Some(sharing), commits, name, tracking }) = &mut self.membership else { return };
        let stream = |source: usize| self.sources[source].place.stream.clone();
        sharing.begin_activation(name, commits.then_some(tracking), stream);
    }

    /// Answers for streams that this member is to read. Returns the failure of those whose offset could not be found.
    pub(super) fn activate(&mut self, activated: Activated) -> Option<Failure> {
        let Some(Membership { sharing: Some(sharing), .. }) = &mut self.membership else { return None };
        let mut failure = None;
        for (update, next) in activated {
            let Some(connection) = self.connections.iter_mut().find(|one| one.number == update.connection) else {
                continue;
            };
            match next {
                Ok(next) => {
                    let source = &mut self.sources[update.source];
                    source.place.next = next;
                    source.committed = next;
                    sharing.activate(update.source);
                    sharing.group.acquired(&source.place.stream);
                    connection.answer(update.update, Some(next.map_or(source.place.from, Offset::Absolute)));
                }
                Err(error) => {
                    sharing.postpone(update);
                    failure = Some(error);
                }
            }
        }
        failure
    }

    /// Leaves the streams that other members are to read.
    fn leave(&mut self) {
        let Some(Membership { sharing: Some(sharing), commits, .. }) = &mut self.membership else { return };
        for Update { connection, update, source } in sharing.leave() {
            let place = &self.sources[source].place;
            sharing.group.released(&place.stream, place.next.filter(|_| !*commits));
            if let Some(connection) = self.connections.iter_mut().find(|one| one.number == connection) {
                connection.answer(update, None);
            }
        }
    }

    /// A connection, or one of its streams, was lost: its streams are subscribed to again. A member that commits first finishes
    /// what it took from them.
    pub(super) fn lose(&mut self, mut connection: Subscriptions) {
        let sources = std::mem::take(&mut connection.sources);
        match &mut self.membership {
            Some(Membership { sharing: Some(sharing), commits, .. }) => {
                for source in sources.iter().filter(|source| sharing.has(**source)) {
                    let place = &self.sources[*source].place;
                    sharing.group.released(&place.stream, place.next.filter(|_| !*commits));
                }
                sharing.lose(connection.number, &sources);
                if !*commits {
                    self.lost.extend(sharing.take_dropped());
                }
            }
            _ => self.lost.extend(sources),
        }
        // It may still be alive: one of its streams may be lost only.
        tokio::spawn(connection.close());
    }

    /// Whether messages were taken from streams that this member keeps, and will not be committed.
    fn has_abandoned_messages(&self) -> bool {
        let sharing = self.membership.as_ref().and_then(|membership| membership.sharing.as_ref());
        let mut sources = self.sources.iter().enumerate();
        sources.any(|(number, source)| {
            let is_kept = sharing.is_some_and(|sharing| sharing.keeps(number));
            is_kept && source.place.next.is_some_and(|next| source.committed.is_none_or(|committed| committed < next))
        })
    }
}

impl Offsets for RabbitmqStreamConsumer {
    fn assigned(&mut self) -> Option<Vec<(u32, Option<u64>)>> {
        let sharing = self.membership.as_ref().and_then(|membership| membership.sharing.as_ref());
        if sharing.is_some_and(|sharing| !sharing.group.is_settled()) {
            return None;
        }
        let own = self.sources.iter().enumerate();
        let own = own.filter(|(number, _)| sharing.is_none_or(|sharing| sharing.has(*number)));
        // It begins at the first message that there is: at 0, unless messages have expired.
        let next = |source: &Source| source.place.next.or((source.place.from == Offset::First).then_some(0));
        Some(own.map(|(_, source)| (source.partition, next(source))).collect())
    }

    async fn commit(&mut self, next: &[(u32, u64)], confirmed: bool) -> Result<(), ReceiveError> {
        let Some(membership) = &self.membership else { return Ok(()) };
        let (mut commits, mut refused) = (Vec::new(), None);
        for (partition, next) in next {
            let own = self.sources.iter().position(|source| source.partition == *partition);
            let Some(source) = own else { continue };
            let stream = &self.sources[source].place.stream;
            if membership.sharing.as_ref().is_none_or(|sharing| sharing.has(source)) {
                commits.push((source, (stream.clone(), *next)));
            } else {
                refused = Some(stream.clone());
            }
        }
        let (sources, next): (Vec<usize>, Vec<(String, u64)>) = commits.into_iter().unzip();
        let (name, tracking) = (membership.name.clone(), membership.tracking.clone());
        tracking.commit(&name, &next, confirmed).await?;
        for (source, (_, next)) in sources.into_iter().zip(next) {
            self.sources[source].committed = Some(next);
        }
        match refused {
            None => Ok(()),
            Some(stream) => {
                let message = format!("{stream}: its connection was lost, and another member may read it now");
                Err(ReceiveError { class: FailureClass::ConnectionLost, message })
            }
        }
    }

    fn is_revocation_requested(&self) -> bool {
        let sharing = self.membership.as_ref().and_then(|membership| membership.sharing.as_ref());
        sharing.is_some_and(Sharing::is_awaited)
    }

    async fn revoke(&mut self) {
        let abandons = self.has_abandoned_messages();
        self.leave();
        if abandons {
            // It begins again at what is stored, with all its streams.
            std::mem::take(&mut self.connections).into_iter().for_each(|connection| self.lose(connection));
        }
        let dropped = self.sharing().map(Sharing::take_dropped).unwrap_or_default();
        self.lost.extend(dropped);
    }
}
