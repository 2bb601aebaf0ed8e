//! What others published of the benchmarks in `configs/published`, to be shown beside a run of the same scenario. `docs/PEERS.md`
//! and the pages in `results/` name the publications.

use crate::record::Record;

/// A table that was published.
#[derive(Debug)]
pub struct Publication {
    /// The scenario that repeats it, as named in `configs/published`.
    pub scenario: &'static str,
    /// Who published it, and what it ran on.
    pub source: &'static str,
    /// What to bear in mind when both are compared.
    pub caution: &'static str,
    /// The key whose values tell its rows apart; empty where there is one row.
    pub key: &'static str,
    pub quantities: &'static [Quantity],
    /// The key's value, and a figure for each quantity. Empty: the publication has no figures, and the caution says so.
    pub rows: &'static [(f64, &'static [f64])],
}

/// A figure as the publication defines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Messages a second until the last acknowledgement.
    UntilAcknowledged,
    /// Messages acknowledged in the measured window, a second.
    Acknowledged,
    /// Messages received in the measured window, a second.
    Received,
    /// 10^6 bytes of logs a second, as the log service counts them before they are encoded.
    LogMegabytes,
    /// The same for each core that the client used.
    LogMegabytesPerCore,
    /// Messages a second since the pipeline began.
    PipelineRate,
    /// The mean latency at receipt over the last 1000 messages of each instance, in nanoseconds.
    PipelineMean,
    /// The mean of the instances' 99th percentiles of the same.
    PipelineTail,
}

/// A log of the published benchmark: 4 bytes, and its keys and values.
const LOG_BYTES: f64 = 552.0;

impl Quantity {
    pub fn name(self) -> &'static str {
        match self {
            Quantity::UntilAcknowledged => "messages/s until the last acknowledgement",
            Quantity::Acknowledged => "messages/s sent",
            Quantity::Received => "messages/s received",
            Quantity::LogMegabytes => "MB/s of logs, not encoded",
            Quantity::LogMegabytesPerCore => "MB/s of logs for each core",
            Quantity::PipelineRate => "messages/s since the begin",
            Quantity::PipelineMean => "mean latency at receipt",
            Quantity::PipelineTail => "mean of the p99s at receipt",
        }
    }

    pub fn is_duration(self) -> bool {
        matches!(self, Quantity::PipelineMean | Quantity::PipelineTail)
    }

    /// The same figure of a record; `None` where it has none.
    pub fn of(self, record: &Record) -> Option<f64> {
        let throughput = &record.throughput;
        let megabytes = throughput.messages_per_second * LOG_BYTES / 1e6;
        let pipeline = record.pipeline.as_ref().map(|pipeline| &pipeline.as_published);
        match self {
            Quantity::UntilAcknowledged => Some(throughput.until_last_acknowledgement?.messages_per_second),
            Quantity::Acknowledged => Some(throughput.messages_per_second),
            Quantity::Received => throughput.consumed_per_second,
            Quantity::LogMegabytes => Some(megabytes),
            Quantity::LogMegabytesPerCore => {
                let cores = record.client.cores_used;
                (cores > 0.0).then_some(megabytes / cores)
            }
            Quantity::PipelineRate => Some(pipeline?.messages_per_second),
            Quantity::PipelineMean => pipeline?.mean_ns,
            Quantity::PipelineTail => pipeline?.mean_of_p99s_ns,
        }
    }
}

/// What was published of a scenario.
pub fn of(scenario: &str) -> Option<&'static Publication> {
    PUBLICATIONS.iter().find(|publication| publication.scenario == scenario)
}

const PULSAR: &str = "a throughput test of Pulsar on a Core i7-8700 with 12 threads, client and broker on it";
const PULSAR_CAUTION: &str = "Each published point is a single run, and some of them stood still for about 10 s.";
const NSQ: &str = "NSQ's distributed benchmark on EC2 (2014), with as many hosts for the load as for nsqd";
const NSQ_NODE: &str = "NSQ's benchmark of one node on a laptop (2012 MacBook Air)";
const SLS: &str = "Aliyun's benchmark of its Java producer on 16 virtual CPUs, against the real service";
const SLS_CAUTION: &str =
    "Ten shards of 5 MB/s of compressed logs bound both, so compare the MB/s for each core. A log counts as 552 bytes.";
const PIPELINE: &str = "a simulation of latency and throughput from Kafka to Redis and MongoDB, in Python";
const PIPELINE_CAUTION: &str =
    "Computed as published: the latencies are those of the last 1000 messages, and leave the writes out.";
const RBFLY: &str = "RbFly's performance report on a laptop (Core i5-1135G7)";
const RBFLY_CAUTION: &str = "The report has ratios only: RbFly sends two times (single messages) and four times (batches of \
                             100) as many messages as rstream and aiokafka. results/rabbitmq/peers.md has the same ratios here.";

/// A publication without figures of its own.
const fn of_rbfly(scenario: &'static str) -> Publication {
    Publication { scenario, source: RBFLY, caution: RBFLY_CAUTION, key: "", quantities: &[], rows: &[] }
}

/// One table of the Pulsar test.
const fn of_pulsar(scenario: &'static str, key: &'static str, rows: &'static [(f64, &'static [f64])]) -> Publication {
    let quantities = &[Quantity::UntilAcknowledged];
    Publication { scenario, source: PULSAR, caution: PULSAR_CAUTION, key, quantities, rows }
}

const fn of_sls(scenario: &'static str, key: &'static str, rows: &'static [(f64, &'static [f64])]) -> Publication {
    let quantities = &[Quantity::LogMegabytesPerCore, Quantity::LogMegabytes];
    Publication { scenario, source: SLS, caution: SLS_CAUTION, key, quantities, rows }
}

const fn of_pipeline(scenario: &'static str, rows: &'static [(f64, &'static [f64])]) -> Publication {
    let quantities = &[Quantity::PipelineRate, Quantity::PipelineMean, Quantity::PipelineTail];
    Publication { scenario, source: PIPELINE, caution: PIPELINE_CAUTION, key: "", quantities, rows }
}

const fn of_nsq(scenario: &'static str, rows: &'static [(f64, &'static [f64])]) -> Publication {
    let caution = "The published rates of processes that overlapped only in part were added up.";
    let quantities = &[Quantity::Acknowledged, Quantity::Received];
    Publication { scenario, source: NSQ, caution, key: "", quantities, rows }
}

const PUBLICATIONS: &[Publication] = &[
    of_pulsar(
        "pulsar-topics",
        "topology.topics",
        &[
            (1.0, &[71_930.0]),
            (2.0, &[41_736.3]),
            (4.0, &[71_565.6]),
            (8.0, &[67_314.4]),
            (16.0, &[68_726.3]),
            (32.0, &[62_346.2]),
            (64.0, &[61_655.5]),
            (128.0, &[63_470.2]),
            (256.0, &[56_424.7]),
            (512.0, &[61_250.6]),
        ],
    ),
    of_pulsar(
        "pulsar-producers",
        "producers.count",
        &[
            (128.0, &[55_399.8]),
            (256.0, &[64_858.3]),
            (512.0, &[69_182.7]),
            (1024.0, &[66_022.1]),
            (2048.0, &[37_796.0]),
            (4096.0, &[40_139.4]),
            (8192.0, &[44_864.4]),
        ],
    ),
    of_pulsar(
        "pulsar-dimensions",
        "payload.dimension",
        &[
            (32.0, &[96_782.6]),
            (64.0, &[89_410.4]),
            (128.0, &[84_053.7]),
            (256.0, &[77_204.0]),
            (512.0, &[81_646.7]),
            (1024.0, &[10_747.3]),
            (2048.0, &[60_206.9]),
            (4096.0, &[23_879.0]),
            (8192.0, &[7_509.1]),
            (16_384.0, &[748.8]),
            (32_768.0, &[6_043.0]),
            (65_536.0, &[184.9]),
            (131_072.0, &[1_043.7]),
            (262_144.0, &[725.7]),
        ],
    ),
    of_nsq("nsq-pub", &[(0.0, &[2_070_549.6])]),
    of_nsq("nsq-pubsub", &[(0.0, &[842_149.6, 806_838.6])]),
    Publication {
        scenario: "nsq-single-node",
        source: NSQ_NODE,
        caution: "The published test reads what it has written before; here both happen at once.",
        key: "producers.count",
        quantities: &[Quantity::Acknowledged, Quantity::Received],
        rows: &[(1.0, &[432_539.9, 166_396.3]), (4.0, &[708_470.0, 190_426.1])],
    },
    of_sls(
        "sls-io-threads",
        "broker.sls.io_threads",
        &[
            (1.0, &[57.16, 34.296]),
            (2.0, &[61.776, 74.131]),
            (4.0, &[60.486, 142.142]),
            (8.0, &[58.195, 279.335]),
            (16.0, &[50.049, 450.44]),
            (32.0, &[37.645, 508.207]),
        ],
    ),
    of_sls(
        "sls-total-size",
        "broker.sls.total_size",
        &[(52_428_800.0, &[67.04, 268.159]), (209_715_200.0, &[34.742, 218.876]), (419_430_400.0, &[28.619, 200.331])],
    ),
    of_pipeline("pipeline-v1", &[(0.0, &[24_855.6, 671.1e6, 847.5e6])]),
    of_pipeline("pipeline-v2", &[(0.0, &[36_572.7, 395.9e6, 501.5e6])]),
    of_pipeline("pipeline-v4", &[(0.0, &[31_079.6, 93.57e6, 173.3e6])]),
    of_pipeline("pipeline-no-database", &[(0.0, &[42_872.0])]),
    of_rbfly("rabbitmq-single"),
    of_rbfly("rabbitmq-batch"),
    of_rbfly("rabbitmq-format"),
    of_rbfly("kafka-single"),
    of_rbfly("kafka-batch"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_scenario_has_its_publication() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("configs/published");
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut names: Vec<String> =
            files.map(|file| file.file_stem().unwrap().to_string_lossy().into_owned()).collect();
        names.sort();
        let mut known: Vec<&str> = PUBLICATIONS.iter().map(|publication| publication.scenario).collect();
        known.sort_unstable();
        assert_eq!(names, known);
        for publication in PUBLICATIONS {
            let most = publication.quantities.len();
            assert!(publication.rows.iter().all(|row| (1..=most).contains(&row.1.len())), "{}", publication.scenario);
        }
    }
}
