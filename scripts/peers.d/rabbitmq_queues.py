"""RabbitMQ's queues: brokermark beside RabbitMQ's own perf-test.

Messages of 100 bytes are published with confirms, at most 1,000 without one, over one connection to a new queue each time: the
workload `classic` (the default) to a classic queue, `quorum` to a quorum queue. `consume` reads a classic queue of such
messages: brokermark verifies each one, and its CPU time is of reading only.

perf-test's rates are its own averages, its start included; its CPU time is of the whole process.
"""

import os
import re
import subprocess
from pathlib import Path

import measure
import server
from brokermark import Brokermark, BrokermarkConsumer
from comparison import Comparison, Workload
from measure import CACHE, PeerError, Process

POM = Path(__file__).with_name("rabbitmq_queues_perf_test.xml")
VERSION = "2.22.1"
WORKLOADS = ("classic", "quorum", "consume")
WINDOW = 1000
PAYLOAD_BYTES = 100


def running():
    return server.running("rabbitmq")


def comparison(messages: int, environment: dict[str, str], side: str = "classic") -> Comparison:
    if side not in WORKLOADS:
        raise PeerError(f"no workload '{side}'; there are: {', '.join(WORKLOADS)}")
    workload = Workload(
        messages=messages,
        payload_bytes=PAYLOAD_BYTES,
        partitions=1,
        acks="1",
        linger_ms=0,
        batch_bytes=100 * PAYLOAD_BYTES,
        queue_messages=WINDOW,
    )
    address = environment["BROKERMARK_RABBITMQ_AMQP"]
    queue = "quorum" if side == "quorum" else "classic"
    settings = {"broker.address": address, "broker.rabbitmq.queue": queue}
    if side == "consume":
        ours = [BrokermarkConsumer("configs/examples/rabbitmq-queues-consume.toml", settings)]
        setting = f"100 B, one consumer of a classic queue, {WINDOW:,} prefetched"
    else:
        ours = [Brokermark("configs/examples/rabbitmq-queues-publish.toml", settings)]
        setting = f"100 B to a {queue} queue, confirms, at most {WINDOW:,} messages in flight, one connection"
    return Comparison(
        broker="rabbitmq-queues",
        setting=setting,
        workload=workload,
        peers=[*ours, PerfTest(side, address, environment["BROKERMARK_RABBITMQ_CTL"].split())],
        warm_up=lambda: ours[0].run(workload) and None,
    )


class PerfTest:
    name = "perf-test"
    rate = "its own average of the rate sent (of the rate received, for consume)"

    def __init__(self, side: str, address: str, control: list[str]):
        self.side, self.address, self.control = side, address, control
        self.libraries = CACHE / f"perf-test-{VERSION}"
        self.runs = 0

    def install(self) -> None:
        marker = self.libraries / "complete"
        if not marker.exists():
            self.libraries.mkdir(parents=True, exist_ok=True)
            copy = ["org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies", "-DincludeScope=runtime"]
            maven = ["mvn", "--quiet", "--batch-mode", "-Dstyle.color=never", "--file", str(POM)]
            subprocess.run([*maven, *copy, f"-DoutputDirectory={self.libraries}"], check=True)
            marker.touch()

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        self.runs += 1
        queue = f"compare-{os.getpid()}-{self.runs}"
        keeps = ["--quorum-queue"] if self.side == "quorum" else ["--auto-delete", "false", "--flag", "persistent"]
        publish = ["--producers", "1", "--confirm", str(workload.queue_messages), "--consumers", "0"]
        publish += ["--size", str(workload.payload_bytes), "--pmessages", str(workload.messages)]
        consume = ["--producers", "0", "--consumers", "1", "--qos", str(WINDOW), "--multi-ack-every", "100"]
        try:
            process = self.perf_test(queue, *keeps, *publish)
            if self.side != "consume":
                return self.result("sending", process)
            return self.result("receiving", self.perf_test(queue, *keeps, *consume, "--cmessages", str(workload.messages)))
        finally:
            measure.check([*self.control, "delete_queue", queue])

    def perf_test(self, queue: str, *arguments: str) -> Process:
        tool = ["java", "-cp", f"{self.libraries}/*", "com.rabbitmq.perf.PerfTest"]
        return measure.run([*tool, "--uri", f"amqp://guest:guest@{self.address}", "--queue", queue, *arguments])

    def result(self, side: str, process: Process) -> tuple[float, str, Process]:
        line = re.search(rf"^.*{side} rate avg: (\d+) msg/s.*$", process.output, re.MULTILINE)
        if line is None:
            raise PeerError(f"{self.name} printed no result:\n{process.output[-2000:]}")
        return float(line.group(1)), line.group(0), process
