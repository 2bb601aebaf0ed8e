//! What is different where this process runs a part of a scenario: it sends its part of a limited number of messages.

use super::send::Quota;
use crate::load::SendSchedule;
use crate::scenario::{Load, Part, Scenario};

/// What this process may send of `quota`: in an open loop, the messages that its producers have due until `due_by_ns`, when all are due;
/// in a closed loop, or where that time is unknown, as much as its share of the producers.
pub(super) fn process_quota(scenario: &Scenario, quota: Quota, due_by_ns: Option<u64>) -> Quota {
    let Some(part) = &scenario.part else { return quota };
    let messages = match (&scenario.load, due_by_ns) {
        (Load::Open(schedule), Some(due_by_ns)) => {
            let warm_up_ns = scenario.run.warm_up.as_nanos() as u64;
            let due = |producer| {
                let mut send_schedule = SendSchedule::new(schedule, producer, part.all_producers);
                send_schedule.skip_until(warm_up_ns);
                send_schedule.skip_until(due_by_ns)
            };
            Some(part.producers.clone().map(due).sum())
        }
        _ => quota.messages().map(|messages| part_of(part, messages)),
    };
    quota.for_process(messages, |bytes| part_of(part, bytes))
}

/// As much of `all` as this part has of the producers; the parts of all shares add up to it.
fn part_of(part: &Part, all: u64) -> u64 {
    let until = |producer: usize| (u128::from(all) * producer as u128 / part.all_producers as u128) as u64;
    until(part.producers.end) - until(part.producers.start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::due_by;
    use crate::scenario::{Share, parse_for};

    const MESSAGES: u64 = 10_007;

    /// What each of three shares may send.
    fn quotas(load: &str) -> Vec<u64> {
        let text = format!(
            "broker.kind = \"null\"\nproducers.count = 7\n{load}\nrun = {{ messages = {MESSAGES}, warm_up = \"1s\" }}"
        );
        let plan = parse_for(crate::engine::kinds(), &text, "share.toml", &[], std::path::Path::new("")).unwrap();
        let whole = &plan.trials[0].scenario;
        let of = |number| {
            let part = whole.part(Share { number, count: 3 }).unwrap();
            let due_by_ns = match &part.load {
                Load::Open(schedule) => due_by(schedule, part.all_producers(), 1_000_000_000, MESSAGES),
                Load::Closed => None,
            };
            process_quota(&part, Quota::new(&part.run.stop, None), due_by_ns).messages().unwrap()
        };
        (1..=3).map(of).collect()
    }

    #[test]
    fn the_shares_of_a_number_of_messages_add_up_to_it() {
        for load in ["", "load.rate = \"1k/s\"", "load.schedule = { kind = \"poisson\", rate = \"1k/s\", seed = 1 }"] {
            let quotas = quotas(load);
            assert_eq!(quotas.iter().sum::<u64>(), MESSAGES, "{load}: {quotas:?}");
            assert!(quotas.iter().all(|quota| (2_600..=4_500).contains(quota)), "{load}: {quotas:?}");
        }
    }
}
