"""Producers for Aliyun's log service: brokermark, and the service's Java producer, against the emulated endpoint."""

import os
import re
import select
import subprocess
from contextlib import contextmanager
from pathlib import Path

import measure
from brokermark import REPOSITORY, Brokermark
from comparison import Comparison, Workload
from measure import PeerError, Process

# The Java client takes no port and no address of numbers, so the endpoint is at HTTP's own port, by a name that only that
# JVM knows. On most systems that takes root, or net.ipv4.ip_unprivileged_port_start = 80.
LISTEN = "127.0.0.1:80"
HOST = "sls.test"

STORE = "peers"
SENDERS = 10
TOTAL_BYTES = 104_857_600
BATCH_BYTES = 3_145_728
BATCH_LOGS = 40_960
LINGER_MS = 2000

# Threads that compress and post.
WORKLOADS = {"io-1": 1, "io-2": 2, "io-4": 4}

def program() -> str:
    return os.environ.get("BROKERMARK", str(REPOSITORY / "target/release/brokermark"))


@contextmanager
def running(listen: str = LISTEN, shard_rate: str | None = None):
    """The endpoint, in a process of its own, which keeps no logs: the real service cannot be installed."""
    Brokermark("configs/published/sls-io-threads.toml", {}).install()
    command = [program(), "emulate", "sls", "--listen", listen, "--store", STORE, "--shards", "10", "--keep", "0B"]
    command += ["--shard-rate", shard_rate] if shard_rate else []
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        if not select.select([child.stdout], [], [], 10)[0]:
            raise PeerError("the emulated endpoint does not start")
        address = child.stdout.readline().strip()
        if not address:
            raise PeerError(f"the emulated endpoint cannot listen at {listen}: run this as root")
        yield {"BROKERMARK_SLS": address}
    finally:
        child.terminate()
        child.wait()


def comparison(messages: int, server: dict[str, str], name: str = "io-1") -> Comparison:
    if name not in WORKLOADS:
        raise PeerError(f"no workload {name}; there are: {', '.join(WORKLOADS)}")
    io_threads = WORKLOADS[name]
    workload = Workload(
        messages=messages,
        payload_bytes=552,  # as the service counts a log
        partitions=10,
        acks="all",
        linger_ms=LINGER_MS,
        batch_bytes=BATCH_BYTES,
        queue_messages=TOTAL_BYTES // 552,
    )
    address = server["BROKERMARK_SLS"]
    java = JavaProducer(io_threads)
    settings = {
        "broker.address": address,
        "broker.sls.io_threads": io_threads,
        "broker.sls.total_size": f"{TOTAL_BYTES}B",
        "topology.name": STORE,
    }
    return Comparison(
        broker="sls",
        setting=(
            f"{SENDERS} senders, {io_threads} io thread(s), total size {TOTAL_BYTES:,} B, batches of {BATCH_BYTES:,} B, "
            "LZ4, the emulated endpoint on the same machine"
        ),
        workload=workload,
        peers=[Brokermark("configs/published/sls-io-threads.toml", settings), java],
        warm_up=lambda: java.run(workload) and None,
    )


class JavaProducer:
    name = "aliyun-log-producer"
    rate = "logs / (first send to last callback), JVM warm-up and the making of the logs included"

    def __init__(self, io_threads: int):
        self.io_threads = io_threads
        self.home = Path()

    def install(self) -> None:
        script = REPOSITORY / "scripts/clients"
        self.home = Path(subprocess.run([script, "sls-java"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip())
        self.name = next(self.home.glob("libs/aliyun-log-producer-*.jar")).stem

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        hosts = self.home / "hosts"
        hosts.write_text(f"127.0.0.1 brokermark.{HOST}\n")
        # The seed's heap.
        command = ["java", "-Xms2g", "-Xmx2g", f"-Djdk.net.hosts.file={hosts}", "-cp", f"{self.home}/libs/*:{self.home}/classes", "Peer"]
        each = workload.messages // SENDERS
        settings = [self.io_threads, TOTAL_BYTES, BATCH_BYTES, BATCH_LOGS, workload.linger_ms, SENDERS, each]
        process = measure.run([*command, HOST, STORE, *map(str, settings)])
        printed = re.search(r"^(\d+) logs, (\d+) failed, ([\d.]+) s$", process.output, re.MULTILINE)
        if printed is None or int(printed[1]) != each * SENDERS or int(printed[2]):
            raise PeerError(f"{self.name} did not send {workload.messages} logs:\n{process.output[-2000:]}")
        return int(printed[1]) / float(printed[3]), printed[0], process
