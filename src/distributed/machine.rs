//! What the shares of one machine say together. Each of them takes the others for processes that have nothing to do with the load.

use super::{KeptShare, client, sections};
use crate::evaluate;
use crate::record::ReasonKind::{ClientBound, HostContended};
use crate::record::{LimitedBy, Limiter, Reason, Status, Verdict};
use crate::scenario::Scenario;

/// A machine on which several shares ran.
pub(super) struct SharedMachine {
    /// The numbers of its shares, in their order.
    numbers: Vec<usize>,
    /// On what they used together.
    verdict: Verdict,
}

impl SharedMachine {
    /// The machines that several of these shares had at one time, as far as it is known where they ran. `scenario`: the one that all ran.
    pub fn all(shares: &[KeptShare], scenario: &Scenario) -> Vec<Self> {
        if sections::overlap(shares) < sections::MIN_OVERLAP {
            return Vec::new();
        }
        let known = shares.iter().filter(|share| client::machine(share) != (None, None));
        let several = client::by_machine(known).into_iter().filter(|shares| shares.len() > 1);
        several.map(|shares| SharedMachine::of(&shares, scenario)).collect()
    }

    fn of(shares: &[&KeptShare], scenario: &Scenario) -> Self {
        let mut numbers: Vec<usize> = shares.iter().map(|share| share.number()).collect();
        numbers.sort_unstable();
        // The load that they put on the broker together is judged with the whole record.
        let has_measured =
            |share: &KeptShare| (share.record.status != Status::Failed, share.record.counts.acknowledged);
        let loader = shares.iter().max_by_key(|share| has_measured(share)).unwrap_or(&shares[0]);
        let mut record = loader.record.clone();
        record.client = client::client(shares.iter().copied(), 0.0);
        evaluate::evaluate(&mut record, scenario, &loader.series);
        SharedMachine { numbers, verdict: record.verdict }
    }

    /// What its shares say only together, of one list of their verdicts.
    pub fn findings<'a>(
        &'a self,
        shares: &'a [KeptShare],
        list: fn(&Verdict) -> &Vec<Reason>,
    ) -> impl Iterator<Item = &'a Reason> {
        let mut own = shares.iter().filter(|share| self.has(share)).flat_map(|share| &share.record.verdict.reasons);
        let is_bound_alone = own.any(|reason| reason.kind == ClientBound);
        list(&self.verdict).iter().filter(move |reason| match reason.kind {
            ClientBound => !is_bound_alone,
            kind => kind == HostContended,
        })
    }

    /// What limited the shares, if it is the CPU.
    pub fn limited_by(&self) -> Option<&LimitedBy> {
        Some(&self.verdict.limited_by).filter(|limit| matches!(limit.limiter, Limiter::Client | Limiter::Machine))
    }

    /// Whether this share ran on it.
    pub fn has(&self, share: &KeptShare) -> bool {
        self.numbers.binary_search(&share.number()).is_ok()
    }

    /// How many shares ran on it.
    pub fn shares(&self) -> usize {
        self.numbers.len()
    }

    /// Its shares in words: "1 to 4", or "1, 3".
    pub fn numbers(&self) -> String {
        match self.numbers.as_slice() {
            [first, .., last] if last - first + 1 == self.numbers.len() => format!("{first} to {last}"),
            numbers => numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        }
    }
}
