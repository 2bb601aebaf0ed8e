"""Producers for Apache Kafka.

The workload `throughput` (the default) is for brokermark with both its clients, its own with one connection and with two,
librdkafka's rdkafka_performance and Kafka's kafka-producer-perf-test. `idempotent` is the same with acks=all and idempotent producers, `1kib` with larger messages, `lz4`
with compressed batches. `batch` and `single` are the Kafka side of RbFly's performance report: brokermark with both its
clients beside aiokafka, messages of 12 bytes, which are 10 in MessagePack, the acknowledgement of each 100 messages or of each
one awaited before the next. `consume` reads a topic of messages of 100 bytes from its beginning as the only member of a group, beside
rdkafka_performance: brokermark verifies each message, and its CPU time is of reading only; rdkafka_performance's is of the whole
process. `share` drains a topic as the only member of a share group, with answers that go with fetches and with answers of their own, beside
Kafka's kafka-share-consumer-perf-test, which sends them with fetches; brokermark's CPU time is of sending as well.
"""

import dataclasses
import json
import os
import re
import shutil
import tempfile
import subprocess
import time
import venv
from contextlib import contextmanager
from pathlib import Path

import measure
from brokermark import REPOSITORY, Brokermark, BrokermarkConsumer, thinned
from comparison import Comparison, Workload
from measure import CACHE, PeerError, Process

AIOKAFKA = ["aiokafka==0.14.0", "msgpack==1.2.4", "uvloop==0.23.0"]
# brokermark's own client needs less than a core, and the broker needs the other.
NATIVE_THREADS = {"run.threads": 1}
# A broker serves the requests of a connection one after the other. The peers have one connection.
TWO_CONNECTIONS = {"broker.connections": 2}
REPORTED = {"batch": 100, "single": 1}  # messages acknowledged together
# What differs from `throughput`: a larger message means fewer of them wait in the client, so that they fit into its memory.
VARIANTS = {
    "throughput": {},
    "idempotent": {"acks": "all", "idempotent": True},
    "1kib": {"payload_bytes": 1024, "batch_bytes": 1000 * 1000, "queue_messages": 40_000},
    "lz4": {"compression": "lz4"},
}
WORKLOADS = [*VARIANTS, "consume", "share", *REPORTED]
SHARED = 500_000  # messages that the scenario of `share` sends before its group begins


def comparison(messages: int, server: dict[str, str], name: str = "throughput") -> Comparison:
    if name in REPORTED:
        return reported(messages, server, name)
    if name not in WORKLOADS:
        raise PeerError(f"no workload '{name}'; there are: {', '.join(WORKLOADS)}")
    throughput = Workload(
        messages=messages,
        payload_bytes=100,
        partitions=4,
        acks="1",
        linger_ms=5,
        batch_bytes=128 * 1024,
        queue_messages=100_000,  # librdkafka's own default
    )
    workload = dataclasses.replace(throughput, **VARIANTS.get(name, {}))
    address = server["BROKERMARK_KAFKA"]
    topics = Topics(address, server["BROKERMARK_KAFKA_LIBS"])
    rdkafka_performance = RdkafkaPerformance(address, topics)
    if name == "consume":
        return consuming(workload, address, rdkafka_performance)
    if name == "share":
        return sharing(dataclasses.replace(workload, messages=SHARED), address, topics)
    setting = (
        f"{workload.payload_bytes} B, {workload.partitions} partitions, acks={workload.acks}, "
        f"linger {workload.linger_ms} ms, batch {workload.batch_bytes / 1024:.0f} KiB, compression {workload.compression}"
    )
    if workload.idempotent:
        setting += ", idempotent producers"
    ours = {
        "broker.addresses": [address],
        "broker.kafka.acks": workload.acks,
        "broker.kafka.idempotence": workload.idempotent,
        "broker.kafka.compression": workload.compression,
        "payload.size": f"{workload.payload_bytes}B",
        "producers.in_flight": workload.queue_messages // 4,
        # What rdkafka_performance sends: the same bytes in every message.
        "payload.kind": "zeros",
    }
    librdkafka_batch = {'broker.properties."batch.size"': workload.batch_bytes}
    native = ours | {"broker.kafka.batch_bytes": f"{workload.batch_bytes}B"} | NATIVE_THREADS

    def warm_up() -> None:
        # As large as what follows: on a virtual machine memory is slow at its first use, and the log is in memory.
        rdkafka_performance.install()
        rdkafka_performance.run(workload)

    return Comparison(
        broker="kafka",
        setting=setting,
        workload=workload,
        peers=[
            Brokermark("configs/examples/kafka-throughput.toml", ours | librdkafka_batch, "brokermark librdkafka"),
            Brokermark("configs/examples/kafka-native.toml", native, "brokermark native"),
            Brokermark("configs/examples/kafka-native.toml", native | TWO_CONNECTIONS, "brokermark native (2 connections)"),
            rdkafka_performance,
            ProducerPerformance(address, topics),
        ],
        warm_up=warm_up,
    )


def consuming(workload: Workload, address: str, filler: "RdkafkaPerformance") -> Comparison:
    ours = BrokermarkConsumer(
        "configs/examples/kafka-consume.toml", {"broker.addresses": [address]}, "brokermark librdkafka"
    )
    scenario = "configs/examples/kafka-native-consume.toml"
    native = BrokermarkConsumer(scenario, {"broker.addresses": [address]} | NATIVE_THREADS, "brokermark native")
    return Comparison(
        broker="kafka",
        setting=f"{workload.payload_bytes} B, {workload.partitions} partitions read from their beginning by a group's only member",
        workload=workload,
        peers=[ours, native, RdkafkaConsumer(filler)],
        warm_up=lambda: ours.run(workload) and None,
    )


def sharing(workload: Workload, address: str, topics: "Topics") -> Comparison:
    def ours(acknowledge: str) -> Brokermark:
        settings = {"broker.addresses": [address], "broker.kafka.share_group.acknowledge": acknowledge}
        scenario = "configs/examples/kafka-share-group.toml"
        return BrokermarkShareGroup(scenario, settings | NATIVE_THREADS, f"brokermark native ({acknowledge})")

    peer = ShareConsumerPerformance(ProducerPerformance(address, topics))
    return Comparison(
        broker="kafka",
        setting=f"{workload.payload_bytes} B, {workload.partitions} partitions drained by a share group's only member",
        workload=workload,
        peers=[ours("implicit"), ours("explicit"), peer],
        warm_up=lambda: peer.run(workload) and None,
    )


def reported(messages: int, server: dict[str, str], name: str) -> Comparison:
    batch = REPORTED[name]
    workload = Workload(
        messages=messages,
        payload_bytes=12,
        partitions=1,
        acks="1",
        linger_ms=0,
        batch_bytes=batch * 12,
        queue_messages=batch,
    )
    address = server["BROKERMARK_KAFKA"]
    scenario, settings = f"configs/published/kafka-{name}.toml", {"broker.address": address, "sweep.trials": 1}
    ours = Brokermark(scenario, settings | {"broker.client": "librdkafka"}, "brokermark librdkafka")
    native = Brokermark(scenario, settings | {"broker.client": "native"}, "brokermark native")
    return Comparison(
        broker="kafka",
        setting=f"{name}: 12 B, batches of {batch}, one outstanding, acks=1, no linger, one partition",
        workload=workload,
        peers=[ours, native, Aiokafka(address, Topics(address, server["BROKERMARK_KAFKA_LIBS"]), batch)],
        warm_up=lambda: ours.run(workload) and None,
    )


class Aiokafka:
    name = "aiokafka"
    rate = "messages / duration of the publishing loop, MessagePack's encoding included"

    def __init__(self, address: str, topics: "Topics", batch: int):
        self.address, self.topics, self.batch = address, topics, batch
        self.environment = CACHE / "python-aiokafka"

    def install(self) -> None:
        marker = self.environment / "complete"
        if not marker.exists():
            venv.create(self.environment, with_pip=True, clear=True)
            pip = [str(self.environment / "bin/python"), "-m", "pip", "install", "--quiet", *AIOKAFKA]
            subprocess.run(pip, check=True)
            marker.touch()

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        python, program = str(self.environment / "bin/python"), str(Path(__file__).with_name("kafka_publish.py"))
        with self.topics.new(workload) as topic:
            process = measure.run([python, program, self.address, topic, str(self.batch), str(workload.messages)])
        line = re.search(r"^(\d+) messages in ([\d.]+) s$", process.output, re.MULTILINE)
        if line is None or int(line.group(1)) != workload.messages:
            raise PeerError(f"{self.name} printed no result:\n{process.output[-2000:]}")
        return workload.messages / float(line.group(2)), line.group(0), process


def java(libraries: str, *arguments: str) -> list[str]:
    """A Kafka tool, with the heap and the collector that Kafka's own start scripts give it."""
    collector = "-XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35"
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"
    return ["java", "-Xmx512m", "-server", *collector.split(), quiet, "-cp", f"{libraries}/*", *arguments]


class Topics:
    """New topics, made and removed with Kafka's own tool."""

    def __init__(self, address: str, libraries: str):
        self.address = address
        self.libraries = libraries
        self.made = 0

    @contextmanager
    def new(self, workload: Workload):
        self.made += 1
        name = f"compare-{os.getpid()}-{self.made}"
        self._call("--create", "--topic", name, "--partitions", str(workload.partitions))
        try:
            yield name
        finally:
            self._call("--delete", "--topic", name)
            time.sleep(3)  # the server removes the files in the background; that is not the next tool's cost

    def _call(self, *arguments: str) -> None:
        tool = "org.apache.kafka.tools.TopicCommand"
        measure.check(java(self.libraries, tool, "--bootstrap-server", self.address, *arguments))


class RdkafkaPerformance:
    name = "rdkafka_performance"
    # Read in its source: `t_start` is taken before the first produce call, `t_end` in the delivery report after which
    # nothing is left, and the rate is the delivered messages over the difference.
    rate = "its summary line: delivered messages / (first produce call to last delivery report)"

    def __init__(self, address: str, topics: Topics):
        self.address = address
        self.topics = topics
        self.program: Path | None = None

    def install(self) -> None:
        if self.program is None:
            source, version = librdkafka()
            self.program = CACHE / f"librdkafka-{version}" / "rdkafka_performance"
            if not self.program.exists():
                build(source, self.program)

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        with self.topics.new(workload) as topic:
            process = self.fill(workload, topic)
        # Without -q the summary is also printed every second while it runs: the last one counts.
        summaries = re.findall(r"^% \d+ messages produced .*$", process.output, re.MULTILINE)
        numbers = re.search(r" (\d+) delivered .* (\d+) failed\) in (\d+)ms: (\d+) msgs/s", (summaries or [""])[-1])
        if numbers is None:
            raise PeerError(f"{self.name} printed no summary:\n{process.output[-2000:]}")
        delivered, failed, _, rate = map(int, numbers.groups())
        if delivered != workload.messages or failed:
            raise PeerError(f"{self.name} delivered {delivered} of {workload.messages} messages, {failed} failed")
        return float(rate), summaries[-1], process

    def fill(self, workload: Workload, topic: str) -> Process:
        """Sends the messages to a topic that is there."""
        properties = {
            "linger.ms": workload.linger_ms,
            "batch.size": workload.batch_bytes,
            "queue.buffering.max.messages": workload.queue_messages,
            "enable.idempotence": str(workload.idempotent).lower(),
            "compression.codec": workload.compression,
        }
        command = [str(self.program), "-P", "-t", topic, "-b", self.address, "-a", {"all": "-1"}.get(workload.acks, workload.acks)]
        command += ["-s", str(workload.payload_bytes), "-c", str(workload.messages)]
        for name, value in properties.items():
            command += ["-X", f"{name}={value}"]
        return measure.run(command)


class BrokermarkShareGroup(Brokermark):
    """Drains what the same run has sent before."""

    rate = "the record's backlog: messages received and verified / (told to join to caught up), while 1,000 a second are sent"

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        record, process = self.record(self.scenario, self.settings)
        backlog, found = record["backlog"], record["verification"]
        if found["lost"] + found["unread"] + found["duplicated"] + found["corrupt"]:
            raise PeerError(f"brokermark did not receive each message once: {found}")
        drain = backlog["groups"][0]
        if not drain["received_per_second"]:
            raise PeerError(f"brokermark did not drain {backlog['messages']} messages: {drain}")
        # As the peer counts it: from before the member joins.
        seconds = (drain["first_arrival_ns"] + drain["duration_ns"]) / 1e9
        return drain["received"] / seconds, json.dumps(thinned(record)), process


class ShareConsumerPerformance:
    name = "kafka-share-consumer-perf-test"
    # Read in its source: counted from before it subscribes to after the last message; the last answers are sent then.
    rate = "its line: messages / (before it joins to the last message), JVM warm-up included"

    def __init__(self, filler: "ProducerPerformance"):
        self.filler = filler

    def install(self) -> None:
        pass  # comes with the server

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        topics = self.filler.topics
        with topics.new(workload) as topic:
            self.filler.fill(workload, topic)
            alter = java(topics.libraries, "org.apache.kafka.tools.ConfigCommand", "--bootstrap-server", topics.address, "--alter")
            alter += ["--entity-type", "groups", "--entity-name", topic, "--add-config", "share.auto.offset.reset=earliest"]
            measure.check(alter)
            command = java(topics.libraries, "org.apache.kafka.tools.ShareConsumerPerformance", "--group", topic)
            command += ["--bootstrap-server", topics.address, "--topic", topic, "--num-records", str(workload.messages)]
            # It ends its consumers after this time, whether messages come or not.
            command += ["--timeout", "300000"]
            process = measure.run(command)
        printed = [line for line in process.output.splitlines() if re.match(r"\d{4}-\d\d-\d\d ", line)]
        numbers = printed[-1].split(", ") if printed else []
        if len(numbers) < 7 or int(numbers[5]) < workload.messages:
            raise PeerError(f"{self.name} did not consume {workload.messages} messages:\n{process.output[-2000:]}")
        return float(numbers[4]), printed[-1], process


class RdkafkaConsumer:
    name = "rdkafka_performance -G"
    # Read in its source: `t_start` is taken when the first message comes, and the rate is the messages since then over the time.
    rate = "its summary line: messages / (first received to last received)"

    def __init__(self, filler: RdkafkaPerformance):
        self.filler = filler

    def install(self) -> None:
        self.filler.install()

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        with self.filler.topics.new(workload) as topic:
            self.filler.fill(workload, topic)
            command = [str(self.filler.program), "-G", topic, "-t", topic, "-b", self.filler.address]
            command += ["-c", str(workload.messages), "-X", "auto.offset.reset=earliest"]
            process = measure.run(command)
        summaries = re.findall(r"^% (\d+) messages .* consumed in \d+ms: (\d+) msgs/s.*$", process.output, re.MULTILINE)
        consumed, rate = map(int, (summaries or [("0", "0")])[-1])
        if consumed < workload.messages:
            raise PeerError(f"{self.name} consumed {consumed} of {workload.messages} messages:\n{process.output[-2000:]}")
        return float(rate), f"{consumed} messages consumed: {rate} msgs/s", process


def librdkafka() -> tuple[Path, str]:
    """The source that brokermark's own rdkafka-sys carries, and its version: the same library for both tools."""
    given = os.environ.get("BROKERMARK_LIBRDKAFKA")
    if given:
        source = Path(given)
    else:
        described = measure.check(
            ["cargo", "metadata", "--quiet", "--format-version=1", "--locked"], cwd=REPOSITORY
        )
        packages = json.loads(described)["packages"]
        manifests = [package["manifest_path"] for package in packages if package["name"] == "rdkafka-sys"]
        if not manifests:
            raise PeerError("brokermark does not depend on rdkafka-sys; set BROKERMARK_LIBRDKAFKA to librdkafka's source")
        source = Path(manifests[0]).parent / "librdkafka"
    header = (source / "src/rdkafka.h").read_text()
    encoded = int(re.search(r"#define RD_KAFKA_VERSION\s+0x([0-9a-f]{8})", header)[1], 16)
    return source, ".".join(str(encoded >> shift & 0xFF) for shift in (24, 16, 8))


def build(source: Path, program: Path) -> None:
    """Compiles as librdkafka's own build does (-O2), in a copy, since the registry's folder is not ours to write."""
    program.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="brokermark-librdkafka-") as folder:
        tree = Path(folder) / "librdkafka"
        shutil.copytree(source, tree)
        # What it does not use here is left out, so that it needs nothing but a C compiler.
        without = "ssl gssapi curl zstd lz4-ext".split()
        measure.check(["./configure", "--no-cache", *(f"--disable-{feature}" for feature in without)], cwd=tree)
        measure.check(["make", "-C", "src", "librdkafka.a"], cwd=tree)
        measure.check(["make", "-C", "examples", "rdkafka_performance"], cwd=tree)
        partial = program.with_name(f".{program.name}-{os.getpid()}")
        shutil.copy2(tree / "examples/rdkafka_performance", partial)
        partial.rename(program)


class ProducerPerformance:
    name = "kafka-producer-perf-test"
    # Read in its source: counted from before the first send to after the producer's close().
    rate = "its last line: messages / (first send to producer closed), JVM warm-up included"

    def __init__(self, address: str, topics: Topics):
        self.address = address
        self.topics = topics

    def install(self) -> None:
        pass  # comes with the server

    def fill(self, workload: Workload, topic: str) -> Process:
        """Sends the messages to a topic that is there."""
        command = java(self.topics.libraries, "org.apache.kafka.tools.ProducerPerformance", "--topic", topic)
        command += ["--num-records", str(workload.messages), "--record-size", str(workload.payload_bytes)]
        command += ["--throughput", "-1", "--producer-props", f"bootstrap.servers={self.address}"]
        command += [f"acks={workload.acks}", f"linger.ms={workload.linger_ms}", f"batch.size={workload.batch_bytes}"]
        command += [f"enable.idempotence={str(workload.idempotent).lower()}", f"compression.type={workload.compression}"]
        return measure.run(command)

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        with self.topics.new(workload) as topic:
            process = self.fill(workload, topic)
        lines = re.findall(r"^(\d+) records sent, ([\d.]+) records/sec.*$", process.output, re.MULTILINE)
        printed = [line for line in process.output.splitlines() if " records sent, " in line]
        if not lines or int(lines[-1][0]) != workload.messages:
            raise PeerError(f"{self.name} did not send {workload.messages} messages:\n{process.output[-2000:]}")
        return float(lines[-1][1]), printed[-1], process
