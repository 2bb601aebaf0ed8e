//! `[producers]`: their number, placement, windows, keys and headers.

use super::{Reader, path};
use crate::limits::TRACE_HEADER_NAME;
use crate::scenario::tables::{Count, Headers, KeyKind, KeysTable, ProducersTable};
use crate::scenario::{Keys, Producers};

/// Different lists of headers. Each is prepared before the load.
const MAX_HEADER_SETS: usize = 1000;

/// The producers, and their window where the scenario gives one: its default depends on other tables.
pub(super) fn read(reader: &Reader<'_>, table: &ProducersTable) -> (Producers, Option<usize>) {
    let keys = match &table.keys {
        KeysTable::None(_) | KeysTable::Keys(KeyKind::None) => Keys::None,
        KeysTable::Keys(KeyKind::RoundRobin { distinct }) => Keys::RoundRobin { distinct: distinct.0 },
        KeysTable::Keys(KeyKind::Random { distinct }) => Keys::Random { distinct: distinct.0 },
        KeysTable::Keys(KeyKind::Zipf { distinct, exponent }) => {
            Keys::Zipf { distinct: distinct.0, exponent: *exponent }
        }
    };
    let producers = Producers {
        count: table.count.amount(),
        placement: table.placement,
        partitioning: table.partitioning,
        in_flight: 1,
        batch: table.batch.amount(),
        confirm: table.confirm,
        round_barrier: table.round_barrier,
        keys,
        header_sets: header_sets(reader, &table.headers),
    };
    (producers, table.in_flight.map(Count::amount))
}

/// What the messages have in turn, until all headers are at their first values again.
fn header_sets(reader: &Reader<'_>, headers: &Headers) -> Vec<Vec<(String, String)>> {
    let headers = &headers.0;
    if headers.iter().any(|(name, _)| name == TRACE_HEADER_NAME) {
        let message = format!("the header `{TRACE_HEADER_NAME}` is brokermark's own");
        let place = path("producers.headers").key(TRACE_HEADER_NAME);
        reader.problems.key(place, message, "give yours another name");
    }
    let length = headers.iter().try_fold(1, |length, (_, values)| {
        let common = least_common_multiple(length, values.len());
        (common <= MAX_HEADER_SETS).then_some(common)
    });
    let Some(length) = length else {
        let message =
            format!("the lists in `producers.headers` combine to more than {MAX_HEADER_SETS} sets of headers");
        let advice = "give lists the same length, or lengths that divide each other";
        reader.refuse("producers.headers", message, advice);
        return vec![Vec::new()];
    };
    let set = |index: usize| {
        headers.iter().map(move |(name, values)| (name.clone(), values[index % values.len()].clone())).collect()
    };
    (0..length).map(set).collect()
}

fn least_common_multiple(one: usize, other: usize) -> usize {
    let (mut divisor, mut rest) = (one, other);
    while rest > 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    one / divisor * other
}
