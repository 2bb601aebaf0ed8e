"""NSQ: brokermark beside bench_writer and bench_reader, on one nsqd with one topic and as many connections of each kind as there are cores: these
programs have one for each.

The workload `writer` (the default) publishes only; `both` publishes and reads at the same time, which is how brokermark
reads, and verifies what it reads. BROKERMARK_NSQ_SIZE is the message size in bytes, 100 by default.

bench_writer and bench_reader run for a time, not for a number of messages: each run's time is chosen by the rate of the one
before, so that the queue, and with it nsqd's own work, grows as much as in brokermark's runs. Their CPU time is scaled to the
number of messages: that of bench_writer by the messages that it wrote, that of bench_reader by those that it read.
"""

import os
import re
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import measure
from brokermark import Brokermark, BrokermarkBoth
from comparison import Comparison, Workload
from measure import PeerError, Process

CONNECTIONS = os.cpu_count() or 1
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
        "run.duration": "10min",
    }
    if side == "both":
        settings |= {"consumers.members": CONNECTIONS, "broker.nsq.rdy": 2500}
        ours = BrokermarkBoth("configs/published/nsq-pubsub.toml", settings)
    else:
        ours = Brokermark("configs/published/nsq-pub.toml", settings)
    return Comparison(
        broker="nsq",
        setting=f"{side}: {size} B, one nsqd, {CONNECTIONS} connections, batches of {BATCH}, one outstanding",
        workload=workload,
        peers=[ours, bench],
        warm_up=lambda: bench.run(workload) and None,
    )


class Bench:
    def __init__(self, side: str, address: str, http: str, programs: str):
        self.name = {"writer": "bench_writer", "both": "bench_reader + bench_writer"}[side]
        self.rate = "its own line: messages / duration"
        if side == "both":
            self.rate = "bench_reader's own line; CPU is of both programs, of each for a message that it wrote or read"
        self.side, self.address, self.http, self.programs = side, address, http, programs
        self.expected_rate = float(WORKLOADS[side])
        self.made = 0

    def install(self) -> None:
        pass  # comes with the server

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        seconds = workload.messages / self.expected_rate
        with self.topic() as topic:
            options = [f"-nsqd-tcp-address={self.address}", f"-topic={topic}", f"-size={workload.payload_bytes}", f"-runfor={seconds:.3f}s"]
            # Go's default follows a container's share of the cores as well.
            programs = {"bench_writer": [*options, f"-batch-size={BATCH}"]} | ({"bench_reader": options} if self.side == "both" else {})
            commands = [["env", f"GOMAXPROCS={CONNECTIONS}", f"{self.programs}/{name}", *given] for name, given in programs.items()]
            # Both at once.
            with ThreadPoolExecutor() as pool:
                processes = list(pool.map(measure.run, commands))
        found = [result(name, process) for name, process in zip(programs, processes)]
        # The last one's rate is the result.
        self.expected_rate = found[-1][1]
        cpu_seconds = sum(process.cpu_seconds * workload.messages / messages for process, (messages, _, _) in zip(processes, found))
        process = Process(
            output="".join(process.output for process in processes),
            wall_seconds=max(process.wall_seconds for process in processes),
            cpu_seconds=cpu_seconds,
            peak_memory_bytes=max(process.peak_memory_bytes for process in processes),
        )
        return self.expected_rate, "\n".join(line for _, _, line in found), process

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


def result(program: str, process: Process) -> tuple[float, float, str]:
    """How many messages a program wrote or read, how many a second, and the line that says so."""
    # Go writes durations as 336.8ms, 9.8s or 1m2.5s.
    line = re.search(
        rf"^\[{program}\] .* duration: (?:(\d+)m)?([\d.]+)(m?)s - [\d.]+mb/s - ([\d.]+)ops/s - .*$",
        process.output,
        re.MULTILINE,
    )
    if line is None or not float(line[4]):
        raise PeerError(f"{program} printed no result:\n{process.output[-2000:]}")
    duration = int(line[1] or 0) * 60 + float(line[2]) / (1000 if line[3] else 1)
    return duration * float(line[4]), float(line[4]), line[0]
