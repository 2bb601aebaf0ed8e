"""The load of "Apache Pulsar Throughput Test Result": brokermark beside that document's program, on Apache's client for Go.

Every producer sends one message and waits for all others' acknowledgements. Each workload is a point of one of its three sweeps.
Of its 8,192 producers there are 1,024: each has a timer of a millisecond in that client, and two cores that served the timers of some thousands had not
created the rest after 17 minutes.
"""

import json
import subprocess
from dataclasses import dataclass

import measure
from brokermark import REPOSITORY, Brokermark
from comparison import Comparison, Workload
from measure import PeerError, Process
from pulsar_topics import Topics

SCENARIO = "configs/examples/pulsar-throughput.toml"


@dataclass(frozen=True)
class Point:
    topics: int
    producers: int
    payload_bytes: int


POINTS = {
    "rounds-512-topics": Point(512, 512, 2048),
    "rounds-1024-producers": Point(4, 1024, 2048),
    "rounds-32-floats": Point(4, 512, 128),
}


def comparison(messages: int, address: str, topics: Topics, name: str) -> Comparison:
    point = POINTS[name]
    settings = {
        "broker.address": address,
        "broker.pulsar.admin": topics.admin,
        "broker.pulsar.batching": False,
        "broker.connections": 1,
        "topology.topics": point.topics,
        "producers.count": point.producers,
        "producers.placement": "blocks",
        "producers.in_flight": 1,
        "producers.batch": 1,
        "producers.round_barrier": True,
        "payload.kind": "random",
        "payload.size": point.payload_bytes,
        "payload.pool": 1,
    }
    workload = Workload(
        messages=messages // point.producers * point.producers,
        payload_bytes=point.payload_bytes,
        partitions=1,
        acks="all",
        linger_ms=0,
        batch_bytes=0,
        queue_messages=1,
        batching=False,
    )
    program = GoProgram(address, topics, point)
    return Comparison(
        broker="pulsar",
        setting=f"{point.payload_bytes} B, {point.producers:,} producers on {point.topics} topics, rounds of one message each, one connection, no batching",
        workload=workload,
        peers=[Brokermark(SCENARIO, settings), program],
        warm_up=lambda: program.run(workload) and None,
    )


class GoProgram:
    name = "pulsar-client-go, the published program"
    rate = "its own line: messages / (first round begun to last round ended); CPU is of the whole process"

    def __init__(self, address: str, topics: Topics, point: Point):
        self.address, self.topics, self.point = address, topics, point
        self.program = ""

    def install(self) -> None:
        found = subprocess.run([str(REPOSITORY / "scripts/clients"), "pulsar-go"], stdout=subprocess.PIPE, text=True, check=True)
        self.program = f"{found.stdout.strip()}/bin/pulsar-go"

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        with self.topics.new(self.point.topics) as name:
            command = [self.program, f"pulsar://{self.address}", f"{name}-"]
            numbers = (self.point.topics, self.point.producers, self.point.payload_bytes, workload.messages)
            process = measure.run(command + [str(number) for number in numbers])
        printed = process.output.splitlines()[-1]
        sent = json.loads(printed)
        if sent["messages"] != workload.messages:
            raise PeerError(f"the program sent {sent['messages']} instead of {workload.messages} messages")
        return sent["messages"] / sent["seconds"], printed, process
