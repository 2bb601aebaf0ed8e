//! Open loops send what their schedules say, to the message.

use std::path::Path;
use std::time::Duration;

use brokermark::engine::kinds;
use brokermark::record::{Headline, LoadModel};
use brokermark::scenario::{Load, parse_for};

use super::Broker;
use crate::harness::{assert_acknowledged, assert_delivered, record_of, records_of};

const WITHOUT_CHANCE: &str = "producers.count = 3
    [run]
    duration = \"1s\"
    [sweep.over]
    \"load.schedule\" = [
        { kind = \"constant\", rate = \"1k/s\" },
        { kind = \"ramp\", from = \"500/s\", to = \"1500/s\", over = \"1s\" },
        { kind = \"ramp\", from = \"900/s\", to = \"100/s\", over = \"500ms\" },
        { kind = \"steps\", steps = [{ rate = \"500/s\", for = \"500ms\" }, { rate = \"2k/s\", for = \"10s\" }] },
        { kind = \"bursts\", base = \"100/s\", burst = \"1k/s\", every = \"500ms\", for = \"100ms\" },
    ]";

pub fn without_chance_are_kept_to_the_message(broker: &Broker) {
    let records = records_of(&broker.scenario(WITHOUT_CHANCE));
    let due = [1000, 1000, 250 + 50, 250 + 1000, 2 * (100 + 40)];
    assert_eq!(records.len(), due.len());
    for (record, due) in records.iter().zip(due) {
        assert_acknowledged(record, due);
        assert_eq!((record.load_model, record.headline), (LoadModel::Open, Headline::Response));
        let latency = &record.latency;
        assert_eq!(latency.response.as_ref().unwrap().count, due);
        assert_eq!(latency.schedule_delay.as_ref().unwrap().count, due);
    }
}

pub fn with_chance_are_kept(broker: &Broker) {
    let scenario = broker.scenario(
        "producers.count = 3
        load.schedule = { kind = \"poisson\", rate = \"1k/s\", seed = 6 }
        [run]
        duration = \"1s\"
        [sweep]
        trials = 2",
    );
    let records = records_of(&scenario);
    let plan = parse_for(kinds(), &scenario, "poisson.toml", &[], Path::new("")).unwrap();
    let Load::Open(schedule) = &plan.trials[0].scenario.load else { panic!("not an open loop") };
    let expected = schedule.count_until(Duration::from_secs(1));
    let sent = records[0].counts.attempted;
    // Five standard deviations of the count; the seed is fixed, so that this cannot fail now and then.
    assert!(sent.abs_diff(expected) < 5 * 32, "{sent} of {expected}");
    assert_ne!(sent, expected, "not the mean: chance");
    for record in &records {
        assert_acknowledged(record, sent);
    }
}

pub fn warm_up_is_not_measured(broker: &Broker) {
    let record = record_of(&broker.scenario(
        "load.rate = \"1k/s\"
        producers.count = 2
        [consumers]
        [run]
        warm_up = \"500ms\"
        duration = \"500ms\"",
    ));
    assert_delivered(&record, 500, 1);
    let warm_up = &record.counts.warm_up;
    assert_eq!((warm_up.attempted, warm_up.acknowledged), (500, 500));
    assert_eq!(record.latency.response.as_ref().unwrap().count, 500);
    assert_eq!(record.latency.end_to_end.as_ref().unwrap().count, 500);
}
