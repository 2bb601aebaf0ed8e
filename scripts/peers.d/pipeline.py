"""Pipelines from Kafka to Redis and MongoDB: brokermark beside a Python consumer of the published shape, one instance each, on
the same topic of eight partitions, filled once; each run reads it from the beginning in a group of its own.

Workloads: `parse` (receive and parse only) and `databases` (both, written in batches of 3000 by two writers).
"""

import json
import os
import re
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

import measure
import server
from brokermark import REPOSITORY, Brokermark, thinned
from comparison import Comparison, Workload
from measure import CACHE, PeerError, Process

SERVERS = ["kafka", "redis", "mongodb"]
WORKLOADS = {"parse": "pipeline-no-database", "databases": "pipeline-v2"}
BATCH = 3000
PACKAGES = ["kafka-python==3.0.12", "redis==8.1.0", "pymongo==4.20.0"]


@contextmanager
def running():
    """All three servers; those that were down before are taken down again."""
    with ExitStack() as stack:
        environment: dict[str, str] = {}
        for name in SERVERS:
            environment |= stack.enter_context(server.running(name))
        yield environment


def comparison(messages: int, environment: dict[str, str], name: str = "parse") -> Comparison:
    if name not in WORKLOADS:
        raise PeerError(f"no workload {name}; there are: {', '.join(WORKLOADS)}")
    workload = Workload(
        messages=messages,
        payload_bytes=82,
        partitions=8,
        acks="1",
        linger_ms=5,
        batch_bytes=32 * 1024,
        queue_messages=BATCH,
    )
    topic = Topic(environment["BROKERMARK_KAFKA"], messages)
    databases = name == "databases"
    ours = Ours(REPOSITORY / f"configs/published/{WORKLOADS[name]}.toml", environment, topic)
    python = PythonConsumer(environment, topic, databases)
    what = "SET in MULTI/EXEC, then insert" if databases else "no databases"
    return Comparison(
        broker="pipeline",
        setting=f"{name}: a backlog of JSON of some {workload.payload_bytes} B in 8 partitions, batches of {BATCH}, {what}",
        workload=workload,
        peers=[ours, python],
        warm_up=ours.fill,
    )


class Topic:
    """What all tools read. It is removed with the server, or by hand where that stays up."""

    def __init__(self, address: str, messages: int):
        self.address = address
        self.messages = messages
        self.name = f"compare-pipeline-{os.getpid()}"
        self.runs = 0

    def group(self) -> str:
        self.runs += 1
        return f"{self.name}-{self.runs}"


class Ours(Brokermark):
    rate = "the record's pipeline: messages consumed / (first received to last row acknowledged)"

    def __init__(self, scenario: Path, server: dict[str, str], topic: Topic):
        super().__init__(str(scenario), {})
        self.server = server
        self.topic = topic

    def fill(self) -> None:
        """Fills the topic, without envelopes, which would be a cost that only brokermark's own messages have."""
        scenario = (REPOSITORY / "configs/published/pipeline-no-database.toml").read_text()
        text = re.sub(r"\n\[pipeline\]\n.*?\n\[run\]\n.*", "\n", scenario, flags=re.DOTALL)
        text += f"\n[run]\nmessages = {self.topic.messages}\n"
        self.record_of(text, {"load.model": "closed", "producers.batch": 100, "topology.keep": True})

    def record_of(self, text: str, settings: dict[str, object]) -> tuple[dict, Process]:
        settings |= {"broker.address": self.topic.address, "topology.name": self.topic.name}
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as scenario:
            scenario.write(text)
            scenario.flush()
            return self.record(Path(scenario.name), settings)

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        group = self.topic.group()
        text = self.scenario.read_text()
        text = text.replace("127.0.0.1:16379", self.server["BROKERMARK_REDIS"])
        text = text.replace("127.0.0.1:17017", self.server["BROKERMARK_MONGODB"])
        text = text.replace('collection = "records"', f'collection = "{group}"')
        settings = {"pipeline.producer_mode": "none", "pipeline.group": group, "run.duration": "10min"}
        record, process = self.record_of(text, settings)
        pipeline = record["pipeline"]
        written = [sink["written"] for sink in pipeline["sinks"]]
        if pipeline["consumed"] != workload.messages or any(rows != workload.messages for rows in written):
            raise PeerError(f"brokermark consumed {pipeline['consumed']} and wrote {written} of {workload.messages}")
        printed = json.dumps(thinned(record))
        return workload.messages * 1e9 / pipeline["working_ns"], printed, process


class PythonConsumer:
    name = "python"
    rate = "its own line: messages / (first poll with messages to last batch written)"

    def __init__(self, server: dict[str, str], topic: Topic, databases: bool):
        self.server = server
        self.topic = topic
        self.databases = databases
        versions = "-".join(package.replace("==", "-") for package in PACKAGES)
        self.environment = CACHE / f"python-{versions}"

    def install(self) -> None:
        if not self.environment.exists():
            partial = self.environment.with_name(f".partial-{os.getpid()}")
            measure.check(["python3", "-m", "venv", str(partial)])
            measure.check([f"{partial}/bin/python", "-m", "pip", "install", "--quiet", *PACKAGES])
            partial.rename(self.environment)

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        group = self.topic.group()
        program = Path(__file__).with_name("pipeline_consumer.py")
        databases = [self.server["BROKERMARK_REDIS"], self.server["BROKERMARK_MONGODB"]] if self.databases else ["", ""]
        command = [f"{self.environment}/bin/python", "-I", str(program), self.topic.address, self.topic.name, group]
        process = measure.run([*command, str(workload.messages), str(BATCH), *databases, group])
        printed = process.output.strip().splitlines()[-1]
        result = json.loads(printed)
        if result["consumed"] != workload.messages:
            raise PeerError(f"the Python consumer consumed {result['consumed']} of {workload.messages}")
        return result["consumed"] / result["seconds"], printed, process
