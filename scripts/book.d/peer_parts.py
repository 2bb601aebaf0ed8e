"""brokermark beside other tools: a part for each workload of compare-peers."""

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from brokermark import REPOSITORY
from part import Part

if TYPE_CHECKING:
    from measuring import Program

ROUNDS = 3


@dataclass(frozen=True)
class Peers:
    broker: str  # of compare-peers
    workload: str
    messages: int
    seconds: int
    favours: str  # which choices favour whom, for the table
    only: str | None = None  # tools; None: all
    size: int | None = None  # of messages, where it is not the workload's own

    @property
    def name(self) -> str:
        return f"peers/{self.broker}-{self.workload}" + (f"-{self.size}B" if self.size else "")

    def run(self, program: "Program", environment: dict[str, str], kept: Path) -> dict:
        from measuring import run_to_end

        file = kept / "compared.json"
        command = [str(REPOSITORY / "scripts/compare-peers"), self.broker, "--workload", self.workload, "--json", str(file)]
        messages = max(2000, self.messages // 50) if program.quick else self.messages
        command += ["--rounds", "1" if program.quick else str(ROUNDS), "--messages", str(messages)]
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


# brokermark has one thread, which is half of the machine; the tools with threads of their own share both cores with the broker.
ONE_THREAD = "us: one thread leaves the broker a core; `SCHED_BATCH`; safe buffers made before. Them: no latencies"
POLLED = "them: the time before the first look at the server's counter is not counted. Us: `SCHED_BATCH`; a JVM has to warm up"
SAME = "us: `SCHED_BATCH`. Them: no latencies"
JVM = "us: a JVM has to warm up; `SCHED_BATCH`. Them: sampled latencies"
SLEEPING = "us with `busy_poll` (a core polls) and with `sub_entry` (another format); else nobody: each waits for the server"
VERIFIED = "them: nothing is verified; us: CPU of reading only, theirs of the whole process"
MQTT = "us: `SCHED_BATCH`, packets in batches. Them: no latencies"
SLS = "us: no JVM; fields made from templates. Them: nothing"
PYTHON = "us: compiled code. Them: no rows are checked"

WORKLOADS = [
    # The README's rows.
    Peers("kafka", "throughput", 20_000_000, 300, ONE_THREAD),
    Peers("pulsar", "batched", 5_000_000, 130, POLLED, "brokermark,pulsar-perf produce"),
    Peers("nsq", "writer", 6_000_000, 50, SAME),
    Peers("rabbitmq", "pipelined", 8_000_000, 180, JVM),
    Peers("sls", "io-1", 5_000_000, 150, SLS),
    # Other settings of the same, and other brokers.
    Peers("rabbitmq", "batch", 1_000_000, 210, SLEEPING),
    Peers("kafka", "consume", 5_000_000, 180, VERIFIED),
    Peers("nats", "js-async", 1_000_000, 60, SAME),
    Peers("redis", "xadd", 3_000_000, 70, SAME),
    Peers("mqtt", "qos-1", 600_000, 100, MQTT),
    Peers("rabbitmq-queues", "classic", 600_000, 160, JVM),
    Peers("kafka", "idempotent", 8_000_000, 240, ONE_THREAD),
    Peers("kafka", "1kib", 4_000_000, 240, ONE_THREAD),
    Peers("kafka", "lz4", 8_000_000, 200, ONE_THREAD),
    Peers("nsq", "both", 3_000_000, 70, VERIFIED),
    Peers("pulsar", "unbatched", 400_000, 120, POLLED, "brokermark,pulsar-perf produce"),
    Peers("pulsar", "batched-2k", 1_000_000, 130, POLLED, "brokermark,pulsar-perf produce"),
    Peers("rabbitmq", "consume", 300_000, 90, VERIFIED),
    Peers("pipeline", "parse", 3_000_000, 240, PYTHON),
    Peers("pipeline", "databases", 300_000, 130, PYTHON),
    Peers("kafka", "batch", 600_000, 80, SAME),
    Peers("kafka", "single", 20_000, 110, SAME),
    Peers("rabbitmq", "single", 20_000, 150, SLEEPING),
    Peers("kafka", "share", 500_000, 150, VERIFIED),
    Peers("nats", "js-sync", 60_000, 60, SAME),
    Peers("nats", "js-atomic", 1_000_000, 60, SAME),
    Peers("nats", "js-fast", 1_000_000, 60, SAME),
    Peers("nats", "core", 5_000_000, 40, SAME),
    Peers("nats", "consume", 1_000_000, 90, VERIFIED),
    Peers("redis", "publish", 3_000_000, 60, SAME),
    Peers("redis", "lpush", 3_000_000, 60, SAME),
    Peers("redis", "xadd-single", 150_000, 60, SAME),
    Peers("mqtt", "qos-0", 1_000_000, 80, MQTT),
    Peers("mqtt", "both", 300_000, 90, VERIFIED),
    Peers("mqtt", "connections", 200_000, 120, MQTT),
    Peers("rabbitmq-queues", "quorum", 500_000, 160, JVM),
    Peers("rabbitmq-queues", "consume", 400_000, 120, VERIFIED),
    Peers("sls", "io-2", 5_000_000, 150, SLS),
    Peers("sls", "io-4", 5_000_000, 160, SLS),
    Peers("pulsar", "unbatched-2k", 200_000, 120, POLLED, "brokermark,pulsar-perf produce"),
    Peers("nsq", "writer", 6_000_000, 50, SAME, size=200),
    Peers("nsq", "both", 3_000_000, 70, VERIFIED, size=200),
]

# compare-peers starts the servers itself.
PARTS = [Part(peers.name, peers.seconds, (), peers.run, (peers.broker,)) for peers in WORKLOADS]
