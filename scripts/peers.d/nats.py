"""NATS: brokermark beside `nats bench` of natscli, on one nats-server, one connection and one publisher each.

The workloads: `js-async` (the default), `js-sync`, `js-atomic` (batches that are stored as a whole), `js-fast` and `consume` with JetStream
streams in files, `core` without it. `nats bench js pub async` waits for a whole batch of acknowledgements before it sends the next
one; brokermark has as many messages in flight.
BROKERMARK_NATS_SIZE is the message size in bytes, 100 by default.
"""

import os
import re

import measure
from brokermark import Brokermark, BrokermarkConsumer
from comparison import Comparison, Workload
from measure import PeerError, Process

WINDOW = 500  # messages in flight; `nats bench` calls it a batch
CORE_WINDOW = 10_000  # `nats bench pub` waits for nothing, so it has as many in flight as the connection holds
CORE_SUBJECT = "compare-peers"  # of both: the server reads a subject byte by byte
WORKLOADS = ["js-async", "js-sync", "js-atomic", "js-fast", "core", "consume"]


def comparison(messages: int, server: dict[str, str], side: str = "js-async") -> Comparison:
    if side not in WORKLOADS:
        raise PeerError(f"no workload '{side}'; there are: {', '.join(WORKLOADS)}")
    size = int(os.environ.get("BROKERMARK_NATS_SIZE", "100"))
    window = {"js-sync": 1, "core": CORE_WINDOW}.get(side, WINDOW)
    workload = Workload(
        messages=messages,
        payload_bytes=size,
        partitions=1,
        acks="none" if side == "core" else "1",
        linger_ms=0,
        batch_bytes=window * size,
        queue_messages=window,
    )
    settings = {
        "broker.address": server["BROKERMARK_NATS"],
        "broker.nats.mode": "core" if side == "core" else "jetstream",
        "broker.nats.batches": {"js-atomic": "atomic", "js-fast": "fast"}.get(side, "single"),
        "producers.batch": {"js-sync": 1, "js-atomic": WINDOW, "js-fast": WINDOW, "core": WINDOW}.get(side, 100),
        "producers.in_flight": window,
        "payload.size": size,
    }
    if side == "core":
        settings["topology.name"] = CORE_SUBJECT
    if side == "consume":
        ours = BrokermarkConsumer("configs/examples/nats-consume.toml", settings)
    else:
        ours = Brokermark("configs/examples/nats-throughput.toml", settings)
    bench = Bench(side, server["BROKERMARK_NATS"], server["BROKERMARK_NATS_PROGRAMS"])
    return Comparison(
        broker="nats",
        setting=f"{side}: {size} B, one connection, {settings['producers.in_flight']} message(s) in flight",
        workload=workload,
        peers=[ours, bench],
        warm_up=lambda: ours.run(workload) and None,
    )


class Bench:
    """`nats bench`, on a stream of its own for each run."""

    rate = "its own line of statistics"

    def __init__(self, side: str, address: str, programs: str):
        self.name = {"core": "nats bench pub", "consume": "nats bench js fetch"}.get(side, f"nats bench js pub {side[3:]}")
        self.side = side
        self.command = [f"{programs}/nats", "--server", address]
        self.made = 0

    def install(self) -> None:
        pass  # comes with the server

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        self.made += 1
        name = f"compare-{os.getpid()}-{self.made}"
        common = ["--msgs", str(workload.messages), "--size", str(workload.payload_bytes), "--no-progress"]
        stream = ["--stream", name]
        create = [*stream, "--create", "--maxbytes", "8GB"]
        window = ["--batch", str(WINDOW)]
        try:
            match self.side:
                case "core":
                    process = self.bench("pub", CORE_SUBJECT, *common)
                case "js-sync":
                    process = self.bench("js", "pub", "sync", name, *common, *create)
                case "js-atomic" | "js-fast":
                    process = self.bench("js", "pub", self.side[3:], name, *common, *create, *window)
                case "js-async":
                    process = self.bench("js", "pub", "async", name, *common, *create, *window)
                case _:
                    self.bench("js", "pub", "async", name, *common, *create, *window)
                    process = self.bench("js", "fetch", *common, *stream, *window)
        finally:
            if self.side != "core":
                measure.check([*self.command, "stream", "rm", "--force", name])
        line = re.search(r"^.* stats: ([\d,]+) msgs/sec .*$", process.output, re.MULTILINE)
        if line is None:
            raise PeerError(f"{self.name} printed no result:\n{process.output[-2000:]}")
        return float(line.group(1).replace(",", "")), line.group(0), process

    def bench(self, *arguments: str) -> Process:
        return measure.run([*self.command, "bench", *arguments])
