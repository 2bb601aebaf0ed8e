"""Producers for Apache Pulsar: brokermark, the crate `pulsar`, and the pulsar-perf that comes with the server."""

import json
import os
import subprocess
import threading
import time
from pathlib import Path

import measure
import pulsar_rounds
from brokermark import REPOSITORY, Brokermark
from comparison import Comparison, Workload
from measure import CACHE, PeerError, Process
from pulsar_topics import Topics

SCENARIO = "configs/examples/pulsar-throughput.toml"
IN_FLIGHT = 10_000
POLL_SECONDS = 0.05

# Payload bytes, and whether messages go out in batches.
WORKLOADS = {
    "batched": (100, True),
    "batched-2k": (2048, True),
    "unbatched": (100, False),
    "unbatched-2k": (2048, False),
} | dict.fromkeys(pulsar_rounds.POINTS)


def comparison(messages: int, server: dict[str, str], name: str = "batched") -> Comparison:
    if name not in WORKLOADS:
        raise PeerError(f"no workload {name}; there are: {', '.join(WORKLOADS)}")
    address, topics = server["BROKERMARK_PULSAR"], Topics(server["BROKERMARK_PULSAR_ADMIN"])
    if name in pulsar_rounds.POINTS:
        return pulsar_rounds.comparison(messages, address, topics, name)
    payload_bytes, batching = WORKLOADS[name]
    workload = Workload(
        messages=messages,
        payload_bytes=payload_bytes,
        partitions=1,
        acks="all",
        linger_ms=1,  # pulsar-perf's own default
        batch_bytes=128 * 1024,
        queue_messages=IN_FLIGHT,
        batching=batching,
    )
    perf = PulsarPerf(address, topics, server["BROKERMARK_PULSAR_HOME"])
    settings = {
        "broker.address": address,
        "broker.pulsar.admin": topics.admin,
        "broker.pulsar.batching": batching,
        "producers.in_flight": IN_FLIGHT,
        "payload.size": payload_bytes,
    }
    batches = f"batches of at most {workload.batch_bytes // 1024} KiB" if batching else "no batching"
    return Comparison(
        broker="pulsar",
        setting=f"{payload_bytes} B, {batches}, one producer, {IN_FLIGHT:,} messages in flight, no compression",
        workload=workload,
        peers=[Brokermark(SCENARIO, settings), Crate(settings), perf],
        # As large as what follows: memory is slow at its first use, and the server's code is compiled as it runs.
        warm_up=lambda: perf.run(workload) and None,
    )


class Crate:
    """The crate `pulsar`, driven by brokermark, whose own share of the CPU time is small beside the crate's."""

    name = "crate pulsar"
    rate = f"{Brokermark.rate}, with `broker.client` = \"pulsar-rs\""

    def __init__(self, settings: dict[str, object]):
        self.driver = Brokermark(SCENARIO, settings | {"broker.client": "pulsar-rs"})
        self.target = CACHE / "brokermark-pulsar-rs"
        self.driver.program = Path(os.environ.get("BROKERMARK_PULSAR_RS", self.target / "release/brokermark"))

    def install(self) -> None:
        if "BROKERMARK_PULSAR_RS" not in os.environ:
            build = ["cargo", "build", "--release", "--locked", "--features", "pulsar-rs"]
            subprocess.run([*build, "--target-dir", str(self.target)], cwd=REPOSITORY, check=True)

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        # As pulsar-perf: the batching delay. Without batches there is none.
        if workload.batching:
            self.driver.settings["broker.pulsar.linger"] = f"{workload.linger_ms}ms"
        return self.driver.run(workload)


class Arrival(threading.Thread):
    """Watches a topic: when its first message and its last were there."""

    def __init__(self, topics: Topics, name: str, messages: int):
        super().__init__(daemon=True)
        self.topics, self.name_of_topic, self.messages = topics, name, messages
        self.first = self.last = None
        self.ended = threading.Event()
        self.error: Exception | None = None
        self.count = 0

    def run(self) -> None:
        try:
            while self.last is None and not self.ended.is_set():
                self.look()
                time.sleep(POLL_SECONDS)
        except Exception as error:  # of this thread: it would only be printed
            self.error = error

    def look(self) -> None:
        stats = json.loads(self.topics.call("GET", f"{self.name_of_topic}/stats"))
        now = time.monotonic()
        self.count = max(self.count, stats["msgInCounter"])
        if self.first is None and self.count > 0:
            self.first = now
        if self.last is None and self.count >= self.messages:
            self.last = now


class PulsarPerf:
    name = "pulsar-perf produce"
    # Its own averages include the JVM's start and the shutdown, less than half of the true rate.
    rate = (
        "messages / (last message arrived − first message seen), by the server's own counter looked at every "
        f"{POLL_SECONDS * 1000:.0f} ms: in its favour, as the time to the first look is left out"
    )

    def __init__(self, address: str, topics: Topics, home: str):
        self.address = address
        self.topics = topics
        self.home = home

    def install(self) -> None:
        pass  # comes with the server

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        with self.topics.new() as name:
            topic = f"{name}-0"
            command = ["env", "PULSAR_MEM=-Xms256m -Xmx1g -XX:MaxDirectMemorySize=1g", f"{self.home}/bin/pulsar-perf"]
            command += ["produce", "-u", f"pulsar://{self.address}", "-r", "100000000", "-i", "1"]
            command += ["-m", str(workload.messages), "-s", str(workload.payload_bytes)]
            command += ["-o", str(workload.queue_messages), "-ml", "0"]
            if workload.batching:
                command += ["-b", str(workload.linger_ms), "-bb", str(workload.batch_bytes)]
            else:
                command += ["-db"]
            arrival = Arrival(self.topics, topic, workload.messages)
            arrival.start()
            process = measure.run([*command, topic])
            arrival.ended.set()
            arrival.join()
            # Looked at only now, the messages would seem to have come when the JVM had ended.
            if arrival.error:
                raise PeerError(f"the arrival of {self.name}'s messages could not be watched: {arrival.error}")
            if arrival.last is None:
                arrival.look()
        if arrival.last is None:
            raise PeerError(f"of {workload.messages} messages {arrival.count} arrived:\n{process.output[-2000:]}")
        if arrival.first == arrival.last:
            raise PeerError(f"{self.name} has no rate: all messages came between two looks. Give it more (--messages)")
        seconds = arrival.last - arrival.first
        return arrival.count / seconds, f"{arrival.count} messages in {seconds:.2f} s", process
