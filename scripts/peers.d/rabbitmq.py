"""RabbitMQ streams: brokermark beside other clients.

The workload `batch` (the default) awaits the confirmation of each 100 messages before the next, `single` that of each message,
as in RbFly's performance report: beside RbFly, rstream and RabbitMQ's own Rust client. `pipelined` keeps at most 10,000
messages without one: beside RabbitMQ's Rust client and its stream-perf-test. Messages are 10 bytes, in AMQP 1.0 format, on a
new stream each time. `consume` reads streams of messages of 100 bytes from their beginning, beside RbFly: brokermark verifies
each message, and its CPU time is of reading only.

The clients' rates are of the publishing loop only; their CPU time is of the whole process, its start included.
stream-perf-test runs for a time, not for a number of messages: each run's time is chosen by the rate of the one before, and
its CPU time is scaled to the number of messages.
"""

import dataclasses
import json
import os
import re
import subprocess
import tempfile
from pathlib import Path

import measure
from brokermark import Brokermark, BrokermarkConsumer
from comparison import Comparison, Workload
from measure import CACHE, PeerError, Process

PROGRAM = Path(__file__).with_name("rabbitmq_publish.py")
CONSUMER = Path(__file__).with_name("rabbitmq_consume.py")
RUST = Path(__file__).with_name("rabbitmq-rust")
PERF_TEST = Path(__file__).with_name("rabbitmq_perf_test.xml")
# Messages that await their confirmation.
WORKLOADS = {"batch": 100, "single": 1, "pipelined": 10_000, "consume": 10_000}
POLLING = {"broker.rabbitmq-stream.busy_poll": True}
SUB_ENTRIES = {"broker.rabbitmq-stream.sub_entry": 100}
# Where each answer is awaited, brokermark can sleep or poll, and write a batch as entries or as one sub-entry. The others sleep
# and write entries.
WAYS: dict[str, dict[tuple[str, ...], dict[str, object]]] = {
    "single": {(): {}, ("polling",): POLLING},
    "batch": {
        (): {},
        ("polling",): POLLING,
        ("sub-entries",): SUB_ENTRIES,
        ("polling", "sub-entries"): POLLING | SUB_ENTRIES,
    },
}
EXPECTED_RATE = 600_000  # messages/s, to choose stream-perf-test's first time


def comparison(messages: int, server: dict[str, str], side: str = "batch") -> Comparison:
    if side not in WORKLOADS:
        raise PeerError(f"no workload '{side}'; there are: {', '.join(WORKLOADS)}")
    workload = Workload(
        messages=messages,
        payload_bytes=100 if side == "consume" else 10,
        partitions=1,
        acks="1",
        linger_ms=0,
        batch_bytes=min(WORKLOADS[side], 100) * 10,
        queue_messages=WORKLOADS[side],
    )
    address = server["BROKERMARK_RABBITMQ"]
    if side == "consume":
        ours = [Consume(address)]
        peers = [RbflyConsumer(server["BROKERMARK_RABBITMQ_PYTHON"], address)]
        setting = "100 B as AMQP 1.0, one stream read from its beginning by one consumer"
    elif side == "pipelined":
        ours = [Brokermark("configs/examples/rabbitmq-throughput.toml", {"broker.address": address})]
        peers = [RustClient(side, address), StreamPerfTest(address)]
        setting = f"10 B as AMQP 1.0, batches of 100, at most {WORKLOADS[side]:,} messages in flight, one publisher"
    else:
        ours = [
            Brokermark(
                f"configs/published/rabbitmq-{side}.toml",
                {"broker.address": address, "sweep.trials": 1} | settings,
                ", ".join(["brokermark", *name]),
            )
            for name, settings in WAYS[side].items()
        ]
        python = server["BROKERMARK_RABBITMQ_PYTHON"]
        peers = [*(PythonClient(name, python, side, address) for name in ("rbfly", "rstream")), RustClient(side, address)]
        setting = f"{side}: 10 B as AMQP 1.0, batches of {WORKLOADS[side]}, one outstanding, named publisher"
    return Comparison(
        broker="rabbitmq",
        setting=setting,
        workload=workload,
        peers=[*ours, *peers],
        warm_up=lambda: ours[0].run(workload) and None,
    )


class Consume(BrokermarkConsumer):
    def __init__(self, address: str):
        super().__init__("configs/examples/rabbitmq-consume.toml", {"broker.address": address})

    def fill(self, stream: str, messages: int) -> None:
        """Publishes to a stream that is kept."""
        settings = {"broker.address": self.settings["broker.address"], "run.messages": messages}
        keep = {"topology.name": stream, "topology.keep": True}
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as scenario:
            text = self.scenario.read_text()
            scenario.write(re.sub(r"\n\[pipeline\]\n.*?\n\[run\]\n", "\n[run]\n", text, flags=re.DOTALL))
            scenario.flush()
            self.record(Path(scenario.name), settings | keep)


class Client:
    """A program that publishes and prints how long it took."""

    rate = "messages / duration of the publishing loop"
    name: str
    command: list[str]  # the number of messages comes last

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        process = measure.run([*self.command, str(workload.messages)])
        line = re.search(r"^(\d+) messages in ([\d.]+) s$", process.output, re.MULTILINE)
        if line is None or int(line.group(1)) != workload.messages:
            raise PeerError(f"{self.name} printed no result:\n{process.output[-2000:]}")
        return workload.messages / float(line.group(2)), line.group(0), process


class PythonClient(Client):
    def __init__(self, name: str, python: str, side: str, address: str):
        self.name = name
        self.command = [python, str(PROGRAM), name, address, str(WORKLOADS[side])]

    def install(self) -> None:
        pass  # comes with the server


class RbflyConsumer(Client):
    name = "rbfly"
    rate = "messages / (first received to last received)"

    def __init__(self, python: str, address: str):
        self.python, self.address = python, address
        self.filler = Consume(address)
        self.runs = 0

    def install(self) -> None:
        pass  # comes with the server

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        self.runs += 1
        stream = f"compare-{os.getpid()}-{self.runs}"
        self.filler.fill(stream, workload.messages)
        # It deletes the stream.
        self.command = [self.python, str(CONSUMER), self.address, stream]
        return super().run(workload)


class RustClient(Client):
    name = "rabbitmq-stream-client"

    def __init__(self, side: str, address: str):
        self.target = CACHE / "rabbitmq-rust"
        self.command = [str(self.target / "release/rabbitmq-rust"), address, side]

    def install(self) -> None:
        build = ["cargo", "build", "--release", "--locked", "--target-dir", str(self.target)]
        subprocess.run(build, cwd=RUST, check=True)


class StreamPerfTest:
    name = "stream-perf-test"
    rate = "its summary line: confirmed messages / duration, JVM warm-up included"

    def __init__(self, address: str):
        self.address = address
        # The last version of the Java client that has the tool in it: since then it is a program of its own, which is in no
        # package registry.
        self.libraries = CACHE / "stream-perf-test-0.12.0"
        self.expected_rate = float(EXPECTED_RATE)

    def install(self) -> None:
        marker = self.libraries / "complete"
        if not marker.exists():
            self.libraries.mkdir(parents=True, exist_ok=True)
            # It does not start without one.
            (self.libraries / "logback.xml").write_text('<configuration><root level="off"/></configuration>\n')
            copy = ["org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies", "-DincludeScope=runtime"]
            maven = ["mvn", "--quiet", "--batch-mode", "-Dstyle.color=never", "--file", str(PERF_TEST)]
            subprocess.run([*maven, *copy, f"-DoutputDirectory={self.libraries}"], check=True)
            marker.touch()

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        seconds = max(5, round(workload.messages / self.expected_rate))
        tool = ["java", "-cp", f"{self.libraries}:{self.libraries}/*", "com.rabbitmq.stream.perf.StreamPerfTest"]
        load = ["--producers", "1", "--consumers", "0", "--size", str(workload.payload_bytes), "--batch-size", "100"]
        load += ["--confirms", str(workload.queue_messages), "--time", str(seconds)]
        stream = ["--streams", f"compare-{os.getpid()}", "--delete-streams"]
        process = measure.run([*tool, "--uris", f"rabbitmq-stream://guest:guest@{self.address}/%2f", *load, *stream])
        line = re.search(r"^Summary: published \d+ msg/s, confirmed (\d+) msg/s.*$", process.output, re.MULTILINE)
        if line is None:
            raise PeerError(f"{self.name} printed no result:\n{process.output[-2000:]}")
        rate = float(line.group(1))
        self.expected_rate = rate
        scale = workload.messages / (seconds * rate)
        return rate, line.group(0), dataclasses.replace(process, cpu_seconds=process.cpu_seconds * scale)
