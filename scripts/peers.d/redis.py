"""Redis: brokermark beside `redis-benchmark`, on one server, over one connection each.

The workloads: `xadd` (the default), `xadd-single` (one command at a time), `publish` and `lpush`. `redis-benchmark -P` sends so many commands,
waits for all of their replies and sends the next ones; it makes each command once, before it begins, and records no latency of single commands
of a pipeline. brokermark has as many messages in flight, and records each.
BROKERMARK_REDIS_SIZE is the message size in bytes, 100 by default.
"""

import csv
import os

import measure
from brokermark import Brokermark
from comparison import Comparison, Workload
from measure import PeerError, Process

WINDOW = 100  # messages in flight; `redis-benchmark` calls it a pipeline
WORKLOADS = {"xadd": "streams", "xadd-single": "streams", "publish": "pubsub", "lpush": "list"}


def comparison(messages: int, server: dict[str, str], side: str = "xadd") -> Comparison:
    if side not in WORKLOADS:
        raise PeerError(f"no workload '{side}'; there are: {', '.join(WORKLOADS)}")
    size = int(os.environ.get("BROKERMARK_REDIS_SIZE", "100"))
    window = 1 if side == "xadd-single" else WINDOW
    workload = Workload(
        messages=messages,
        payload_bytes=size,
        partitions=1,
        acks="1",
        linger_ms=0,
        batch_bytes=window * size,
        queue_messages=window,
    )
    settings = {
        "broker.address": server["BROKERMARK_REDIS"],
        "broker.redis.mode": WORKLOADS[side],
        "producers.batch": window,
        "producers.in_flight": window,
        "payload.size": size,
    }
    ours = Brokermark("configs/examples/redis-throughput.toml", settings)
    return Comparison(
        broker="redis",
        setting=f"{side}: {size} B, one connection, {window} message(s) in flight",
        workload=workload,
        peers=[ours, Bench(side, window, server["BROKERMARK_REDIS"])],
        warm_up=lambda: ours.run(workload) and None,
    )


class Bench:
    """`redis-benchmark`, with a key of its own for each run."""

    rate = "its own requests per second"

    def __init__(self, side: str, window: int, address: str):
        self.name = f"redis-benchmark -P {window}"
        self.side = side
        self.window = window
        self.host, self.port = address.rsplit(":", 1)
        self.made = 0

    def install(self) -> None:
        pass  # comes with the server

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        self.made += 1
        key = f"compare-{os.getpid()}-{self.made}"
        payload = "x" * workload.payload_bytes
        command = {
            "publish": ["PUBLISH", key, payload],
            "lpush": ["LPUSH", key, payload],
        }.get(self.side, ["XADD", key, "*", "payload", payload])
        options = ["-h", self.host, "-p", self.port, "-c", "1", "-P", str(self.window), "-n", str(workload.messages)]
        try:
            process = measure.run(["redis-benchmark", *options, "--csv", *command])
        finally:
            measure.check(["redis-cli", "-h", self.host, "-p", self.port, "UNLINK", key])
        rows = list(csv.DictReader(process.output.splitlines()))
        if len(rows) != 1 or "rps" not in rows[0]:
            raise PeerError(f"{self.name} printed no result:\n{process.output[-2000:]}")
        return float(rows[0]["rps"]), f"{rows[0]['rps']} requests per second", process
