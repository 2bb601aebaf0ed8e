"""NSQ: brokermark beside bench_writer and bench_reader, on one nsqd with one topic and two connections of each kind.

The workload `writer` (the default) publishes only; `both` publishes and reads at the same time, which is how brokermark
reads, and verifies what it reads. BROKERMARK_NSQ_SIZE is the message size in bytes, 100 by default.

bench_writer and bench_reader run for a time, not for a number of messages: each run's time is chosen by the rate of the one
before, so that the queue, and with it nsqd's own work, grows as much as in brokermark's runs. Their CPU time is scaled to the
number of messages.
"""

import dataclasses
import json
import os
import re
import urllib.request
from contextlib import contextmanager

import measure
from brokermark import Brokermark
from comparison import Comparison, Workload
from measure import PeerError, Process

CONNECTIONS = 2
BATCH = 200
WORKLOADS = {"writer": 1_500_000, "both": 500_000}  # messages/s that are expected, to choose the first time


def comparison(messages: int, server: dict[str, str], side: str = "writer") -> Comparison:
    if side not in WORKLOADS:
        raise PeerError(f"no workload '{side}'; there are: {', '.join(WORKLOADS)}")
    size = int(os.environ.get("BROKERMARK_NSQ_SIZE", "100"))
    workload = Workload(
        messages=messages,
        payload_bytes=size,
        partitions=1,
        acks="1",
        linger_ms=0,
        batch_bytes=BATCH * size,
        queue_messages=BATCH,
    )
    address, http = server["BROKERMARK_NSQ"].split(",")[0], server["BROKERMARK_NSQ_HTTP"].split(",")[0]
    bench = Bench(side, address, http, server["BROKERMARK_NSQ_PROGRAMS"])
    settings = {
        "broker.addresses": [address],
        "broker.nsq.http_addresses": [http],
        "broker.connections": CONNECTIONS,
        "topology.topics": 1,
        "producers.count": CONNECTIONS,
        "payload.size": size,
    }
    if side == "both":
        settings |= {"consumers.members": CONNECTIONS, "broker.nsq.rdy": 2500}
    return Comparison(
        broker="nsq",
        setting=f"{side}: {size} B, one nsqd, {CONNECTIONS} connections, batches of {BATCH}, one outstanding",
        workload=workload,
        peers=[Ours(side, settings), bench],
        warm_up=lambda: bench.run(workload) and None,
    )


class Ours(Brokermark):
    def __init__(self, side: str, settings: dict[str, object]):
        scenario = {"writer": "configs/published/nsq-pub.toml", "both": "configs/published/nsq-pubsub.toml"}[side]
        super().__init__(scenario, settings | {"run.duration": "10min"})
        self.side = side
        if side == "both":
            self.rate = "the record's throughput.until_last_arrival.messages_per_second; CPU is of publishing, reading and verifying"

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        rate, printed, process = super().run(workload)
        return (json.loads(printed)["throughput"]["until_last_arrival"]["messages_per_second"] if self.side == "both" else rate), printed, process


class Bench:
    def __init__(self, side: str, address: str, http: str, programs: str):
        self.name = {"writer": "bench_writer", "both": "bench_reader + bench_writer"}[side]
        self.rate = "its own line: messages / duration"
        if side == "both":
            self.rate = "bench_reader's own line; CPU is of both programs"
        self.side, self.address, self.http, self.programs = side, address, http, programs
        self.expected_rate = float(WORKLOADS[side])
        self.made = 0

    def install(self) -> None:
        pass  # comes with the server

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        seconds = workload.messages / self.expected_rate
        with self.topic() as topic:
            common = [f"-nsqd-tcp-address={self.address}", f"-topic={topic}", f"-size={workload.payload_bytes}"]
            common.append(f"-runfor={seconds:.3f}s")
            writer = [f"{self.programs}/bench_writer", *common, f"-batch-size={BATCH}"]
            if self.side == "writer":
                process = measure.run(writer)
            else:
                # Both at once, under a shell that waits for them: wait4 counts the children a process has waited for.
                reader = [f"{self.programs}/bench_reader", *common]
                process = measure.run(["bash", "-c", f"{' '.join(writer)} & {' '.join(reader)}; wait"])
        # The last one's line is the result. A writer that ended without its own leaves a reader with little to read, and the shell says nothing of it.
        for program in ["bench_writer"] if self.side == "writer" else ["bench_writer", "bench_reader"]:
            # Go writes durations as 336.8ms, 9.8s or 1m2.5s.
            line = re.search(
                rf"^\[{program}\] .* duration: (?:(\d+)m)?([\d.]+)(m?)s - [\d.]+mb/s - ([\d.]+)ops/s - .*$",
                process.output,
                re.MULTILINE,
            )
            if line is None:
                raise PeerError(f"{program} printed no result:\n{process.output[-2000:]}")
        minutes, number, milli, rate = line.groups()
        duration = int(minutes or 0) * 60 + float(number) / (1000 if milli else 1)
        self.expected_rate = float(rate)
        scale = workload.messages / (duration * self.expected_rate)
        return self.expected_rate, line.group(0), dataclasses.replace(process, cpu_seconds=process.cpu_seconds * scale)

    @contextmanager
    def topic(self):
        self.made += 1
        topic = f"compare-{os.getpid()}-{self.made}"
        self.call(f"/topic/create?topic={topic}")
        if self.side == "both":
            self.call(f"/channel/create?topic={topic}&channel=ch")
        try:
            yield topic
        finally:
            self.call(f"/topic/delete?topic={topic}")

    def call(self, path: str) -> None:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        request = urllib.request.Request(f"http://{self.http}{path}", method="POST")
        with opener.open(request, timeout=20) as answer:
            answer.read()
