"""brokermark beside other tools: a part for each workload of compare-peers."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from brokermark import REPOSITORY
from part import Part
from program import Program, run_to_end


@dataclass(frozen=True)
class Peers:
    broker: str  # of compare-peers
    workload: str
    messages: int
    seconds: int
    only: str | None = None  # tools; None: all
    size: int | None = None  # of messages, where it is not the workload's own
    rounds: int = 3  # five halve the interval of a ratio

    @property
    def name(self) -> str:
        return f"peers/{self.broker}-{self.workload}" + (f"-{self.size}B" if self.size else "")

    def run(self, program: Program, environment: dict[str, str], kept: Path) -> dict:
        file = kept / "compared.json"
        command = [str(REPOSITORY / "scripts/compare-peers"), self.broker, "--workload", self.workload, "--json", str(file)]
        messages = max(2000, self.messages // 50) if program.quick else self.messages
        command += ["--rounds", "1" if program.quick else str(self.rounds), "--messages", str(messages)]
        command += ["--only", self.only] if self.only else []
        variables = {"BROKERMARK": program.path}
        if self.size:
            variables[f"BROKERMARK_{self.broker.upper()}_SIZE"] = str(self.size)
        run_to_end(command, visible=True, environment=os.environ | variables)
        document = json.loads(file.read_text())
        file.unlink()
        for run in document["runs"]:
            if run["printed"].startswith("{"):  # a record, or another tool's own document
                run["printed"] = json.loads(run["printed"])
        return document


# By the name that a tool's begins with: what favours us or them beyond what favours them in every row (docs/PEERS.md, "Bias").
FAVOURS = {
    "rdkafka_performance -G": "us: CPU of reading only. Them: nothing is verified",
    "rdkafka_performance": "us: our threads are tuned; outcomes in batches",
    "kafka-producer-perf-test": "us: it draws each byte at random; a JVM starts",
    "kafka-share-consumer-perf-test": "us: a JVM starts. Them: nothing is verified; our CPU has the sending",
    "aiokafka": "us: Python",
    "pulsar-perf": "us: looks at the server during its run; a JVM starts. Them: the time before the first look",
    "bench_reader": "them: nothing is verified; its start is scaled down",
    "bench_writer": "them: its start is scaled down",
    "stream-perf-test": "us: a JVM starts; an old version",
    "rabbitmq-stream-client": "us: a call and a confirmation for each message; ours with `busy_poll` or `sub_entry` differ in kind",
    "rbfly": "us: Python; ours with `busy_poll` or `sub_entry` differ in kind",
    "rstream": "us: Python; ours with `busy_poll` or `sub_entry` differ in kind",
    "perf-test": "us: a JVM starts, and its start counts",
    "nats bench js pub async": "us: it waits for each batch",
    "nats bench js fetch": "us: CPU of reading only. Them: nothing is verified",
    "nats bench pub": "them: it waits for no answer",
    "redis-benchmark": "them: each command is made once",
    "mqttv5": "them: QoS 0 counts at the socket; its start is scaled down",
    "tsung": "us: MQTT 3.1 by scripted users. Them: the rate leaves its start out",
    "aliyun-log-producer": "us: it makes each log's strings; a JVM starts",
    "python": "us: Python. Them: rows are not checked",
}


def favours(tool: str) -> str:
    return next((favoured for name, favoured in FAVOURS.items() if tool.startswith(name)), "–")


# The crate `pulsar` needs a build of its own, and no page shows it.
PULSAR_TOOLS = "brokermark,pulsar-perf produce"
WORKLOADS = [
    # The README's rows.
    Peers("kafka", "throughput", 20_000_000, 300),
    Peers("pulsar", "batched", 5_000_000, 210, PULSAR_TOOLS, rounds=5),
    Peers("nsq", "writer", 6_000_000, 90, rounds=5),
    Peers("rabbitmq", "pipelined", 8_000_000, 360, rounds=5),
    Peers("sls", "io-1", 5_000_000, 360, rounds=5),
    # Other settings of the same, and other brokers.
    Peers("rabbitmq", "batch", 1_000_000, 210),
    Peers("kafka", "consume", 5_000_000, 180),
    Peers("nats", "js-async", 1_000_000, 60),
    Peers("redis", "xadd", 3_000_000, 70),
    Peers("mqtt", "qos-1", 600_000, 100),
    Peers("rabbitmq-queues", "classic", 600_000, 160),
    Peers("kafka", "idempotent", 8_000_000, 240),
    Peers("kafka", "1kib", 4_000_000, 240),
    Peers("kafka", "lz4", 8_000_000, 200),
    Peers("nsq", "both", 3_000_000, 70),
    Peers("pulsar", "unbatched", 1_000_000, 200, PULSAR_TOOLS, rounds=5),
    Peers("pulsar", "batched-2k", 2_000_000, 200, PULSAR_TOOLS, rounds=5),
    Peers("rabbitmq", "consume", 300_000, 90),
    Peers("pipeline", "parse", 3_000_000, 240),
    Peers("pipeline", "databases", 300_000, 130),
    Peers("kafka", "batch", 600_000, 80),
    Peers("kafka", "single", 20_000, 110),
    Peers("rabbitmq", "single", 20_000, 150),
    Peers("kafka", "share", 500_000, 150),
    Peers("nats", "js-sync", 60_000, 60),
    Peers("nats", "js-atomic", 1_000_000, 60),
    Peers("nats", "js-fast", 1_000_000, 60),
    Peers("nats", "core", 5_000_000, 40),
    Peers("nats", "consume", 1_000_000, 90),
    Peers("redis", "publish", 3_000_000, 60),
    Peers("redis", "lpush", 3_000_000, 60),
    Peers("redis", "xadd-single", 150_000, 60),
    Peers("mqtt", "qos-0", 1_000_000, 80),
    Peers("mqtt", "both", 300_000, 90),
    Peers("mqtt", "connections", 200_000, 120),
    Peers("rabbitmq-queues", "quorum", 500_000, 160),
    Peers("rabbitmq-queues", "consume", 400_000, 120),
    Peers("sls", "io-2", 5_000_000, 150),
    Peers("sls", "io-4", 5_000_000, 160),
    Peers("pulsar", "unbatched-2k", 200_000, 120, PULSAR_TOOLS),
    Peers("pulsar", "rounds-512-topics", 262_144, 150),
    Peers("pulsar", "rounds-1024-producers", 262_144, 150),
    Peers("pulsar", "rounds-32-floats", 524_288, 150),
    Peers("nsq", "writer", 6_000_000, 50, size=200),
    Peers("nsq", "both", 3_000_000, 70, size=200),
]

# compare-peers starts the servers itself.
PARTS = [Part(peers.name, peers.seconds, (), peers.run, (peers.broker,)) for peers in WORKLOADS]
