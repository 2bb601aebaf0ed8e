"""The published benchmarks, each at its published size unless its part says what differs.

The original programs that can be had run beside brokermark in the comparisons: the Go program on Pulsar, bench_writer and bench_reader, the service's
Java producer, the Python consumer, RbFly's clients.
"""

from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import nsq_hosts
import sls
from brokermark import REPOSITORY
from loads import value
from part import Part
from program import Program

PIPELINE = ("kafka", "redis", "mongodb")
# Messages/s; of the log service MB/s raw. By the value that the sweep varies, in its order.
PULSAR_TOPICS = [71_930, 41_736, 71_566, 67_314, 68_726, 62_346, 61_655, 63_470, 56_425, 61_251]
PULSAR_PRODUCERS = [55_400, 64_858, 69_183, 66_022, 37_796, 40_139, 44_864]
PULSAR_DIMENSIONS = [96_783, 89_410, 84_054, 77_204, 81_647, 10_747, 60_207, 23_879, 7_509, 749, 6_043, 185, 1_044, 726]
SLS_IO_THREADS = [34.3, 74.1, 142.1, 279.3, 450.4, 508.2]
SLS_TOTAL_SIZE = [268.2, 218.9, 200.3]


@dataclass(frozen=True)
class Published:
    name: str  # of the file in configs/published
    servers: tuple[str, ...]
    seconds: int
    figures: list[float | None]  # as published, a point each; None: it has ratios only
    settings: dict[str, object] = field(default_factory=dict)
    variant: str = ""
    differs: str | None = None
    on_hosts: bool = False  # network namespaces, a rank of brokermark on each of some

    @property
    def part(self) -> str:
        return f"published/{self.name}{self.variant}"

    def run(self, program: Program, environment: dict[str, str], kept: Path) -> dict:
        file = REPOSITORY / f"configs/published/{self.name}.toml"
        quick = {}
        if program.quick:
            text = file.read_text()
            size = {"run.payload_bytes": "16MiB"} if "payload_bytes" in text else {"run.duration": "2s"} if "[load]" in text else {"run.messages": 2000}
            quick = {"sweep.trials": 1} | size
        settings = self.settings | quick
        if self.on_hosts:
            with nsq_hosts.running(environment["BROKERMARK_NSQ_PROGRAMS"]) as addresses:
                records = run(program.of_ranks(), file, kept, settings | {"broker.addresses": addresses}, nsq_hosts.RANKS)
        else:
            with sls.running("127.0.0.1:8089", "5MB/s") if self.name.startswith("sls-") else nullcontext():
                records = run(program, file, kept, settings)
        return {"published": self.figures, "trials": [summary(record) for record in records]}


def run(program: Program, file: Path, kept: Path, settings: dict[str, object], prefix: tuple[str, ...] = ()) -> list[dict]:
    records, _ = program.run(file, kept, settings=[f"{key}={value(given)}" for key, given in settings.items()], prefix=prefix)
    return records


def summary(record: dict) -> dict:
    """What the tables need of a record, which is in records.jsonl."""
    throughput, client = record["throughput"] or {}, record["client"] or {}
    return {
        "point": record["point"],
        "trial": record["trial"],
        "status": record["status"],
        "valid": record["verdict"]["valid"],
        "reasons": [reason["kind"] for reason in record["verdict"]["reasons"]],
        "messages_per_second": throughput.get("messages_per_second"),
        "payload_bytes_per_second": throughput.get("payload_bytes_per_second"),
        "consumed_per_second": throughput.get("consumed_per_second"),
        "until_last_acknowledgement": (throughput.get("until_last_acknowledgement") or {}).get("messages_per_second"),
        "cpu_ns_per_message": client.get("cpu_ns_per_message"),
        "peak_memory_bytes": client.get("peak_memory_bytes"),
    }


THREE = {"sweep.trials": 3}
FIVE = {"sweep.trials": 5}
WHOLE = {"run.messages": "200M"}
LONGER = "10 M messages after a warm-up of 2 s instead of 1 M, which two cores send in 3 s: too short to tell whether the rate is steady"
TWO_GIB = "2 GiB a trial after a warm-up of 3 s instead of 0.5 GiB, which two cores send in 1 to 5 s: too short to tell whether the rate is steady"
SINGLE = "60,000 messages a round instead of 200,000, which would take an hour: the answer to each is awaited before the next"
SINGLE_KAFKA = "100,000 messages a round instead of 200,000, which would take half an hour: the answer to each is awaited before the next"
FORMAT_SIXTY = {
    "sweep.trials": 30,
    "sweep.over": {
        "broker.rabbitmq-stream.body": ["amqp", "binary", "amqp", "binary"],
        "producers.batch": [1, 1, 100, 100],
        "producers.in_flight": [1, 1, 100, 100],
        "run.messages": ["60k", "60k", "1M", "1M"],
    },
}
FORMAT = "30 rounds of each instead of 100, and 60,000 single messages instead of 200,000: they would take two hours"
BENCHMARKS = [
    Published("nsq-pub", ("nsq",), 90, [2_070_550], FIVE),
    Published("nsq-pubsub", ("nsq",), 150, [842_150], FIVE),
    Published("nsq-single-node", ("nsq",), 400, [432_540, 708_470], FIVE | {"run.messages": "10M", "run.warm_up": "2s"}, differs=LONGER),
    Published("nsq-pub", ("nsq",), 100, [2_070_550], FIVE, "-hosts", on_hosts=True),
    Published("nsq-pubsub", ("nsq",), 160, [842_150], FIVE | {"run.drain_deadline": "10s"}, "-hosts", on_hosts=True),
    Published("pulsar-topics", ("pulsar",), 1100, PULSAR_TOPICS),
    Published("pulsar-producers", ("pulsar",), 800, PULSAR_PRODUCERS),
    Published("pulsar-dimensions", ("pulsar",), 900, PULSAR_DIMENSIONS, {"run.payload_bytes": "2GiB", "run.warm_up": "3s"}, differs=TWO_GIB),
    Published("rabbitmq-batch", ("rabbitmq",), 700, [None]),
    Published("kafka-batch", ("kafka",), 600, [None]),
    Published("pipeline-no-database", PIPELINE, 300, [42_872], THREE),
    Published("pipeline-v1", PIPELINE, 400, [24_856], THREE),
    Published("pipeline-v2", PIPELINE, 500, [36_573], THREE),
    Published("pipeline-v4", PIPELINE, 900, [31_080], THREE),
    Published("pipeline-v1", PIPELINE, 400, [24_856], THREE | {"topology.partitions": 1}, "-1-partition"),
    Published("sls-io-threads", (), 1700, SLS_IO_THREADS, WHOLE),
    Published("sls-total-size", (), 850, SLS_TOTAL_SIZE, WHOLE),
    Published("rabbitmq-single", ("rabbitmq",), 1100, [None], {"run.messages": "60k"}, differs=SINGLE),
    Published("kafka-single", ("kafka",), 900, [None], {"run.messages": "100k"}, differs=SINGLE_KAFKA),
    Published("rabbitmq-format", ("rabbitmq",), 1300, [None] * 4, FORMAT_SIXTY, differs=FORMAT),
]

PARTS = [
    Part(one.part, one.seconds, one.servers, one.run, (one.name.split("-")[0],), one.differs)
    for one in BENCHMARKS
]
