"""Scale: what a message costs and how much memory the client takes, with more producers, topics, bytes and ranks."""

from dataclasses import dataclass
from pathlib import Path

from loads import BROKERS, scenario, servers
from measure import PeerError
from part import Part
from program import Program
from published_parts import summary

VALUES = {
    "producers": [1, 8, 64, 512, 2048, 8192],
    "topics": [1, 4, 16, 64, 256, 512],
    "sizes": [64, 256, 1024, 4096, 16_384, 65_536, 262_144, 1_048_576],
    "ranks": [1, 2, 4, 8, 16],
}
LOAD = {"producers.count": 8, "producers.batch": 10, "producers.in_flight": 40, "payload.kind": "zeros", "payload.size": 100}
TRIALS = 3
# Shorter trials are not valid, and have their cost from the beginning of the load.
DURATION = "5s"
MOST_KEPT = 1 << 30  # bytes that Redis keeps of a trial: it has its data in memory
BYTES_IN_FLIGHT = 64 << 20


@dataclass(frozen=True)
class Scale:
    broker: str
    axis: str

    def run(self, program: Program, environment: dict[str, str], kept: Path) -> dict:
        values = VALUES[self.axis][:2] if program.quick else VALUES[self.axis]
        points, failed = [], {}
        for value in values:
            # A run for each point: a broker that refuses one still has the others.
            file = scenario(kept, self.broker, environment, LOAD | self.keys(value, program.quick))
            try:
                records, _ = self.program(program).run(file, prefix=self.ranks(value))
                for record in records:
                    if why := failure(record):
                        failed[value] = why
                    else:
                        points.append({"value": value} | summary(record))
            except PeerError as error:
                said = [line for line in str(error).splitlines() if any(letter.isalpha() for letter in line)]
                failed[value] = next((line for line in said if "error" in line.lower()), said[-1])[:200]
        if not points:
            raise PeerError(f"no point could be measured: {failed}")
        return {"points": points, "failed": failed}

    def keys(self, value: int, quick: bool) -> dict[str, object]:
        keys: dict[str, object] = {"sweep.trials": 1 if quick else TRIALS, "run.duration": "1s" if quick else DURATION}
        keys |= BROKERS[self.broker].bounded
        if self.axis == "producers":
            keys["producers.count"] = value
        elif self.axis == "topics":
            keys |= {"topology.topics": value, "producers.count": max(512, value), "topology.partitions": 1}
        elif self.axis == "sizes":
            keys |= {"payload.size": value, "producers.in_flight": max(1, min(40, BYTES_IN_FLIGHT // value // 8))}
            if self.broker == "redis":
                keys["broker.redis.max_length"] = MOST_KEPT // value
        else:
            keys |= {"producers.count": 16, "broker.connections": 16}
        if "producers.in_flight" in keys:
            keys["producers.batch"] = min(10, keys["producers.in_flight"])
        return keys

    def program(self, program: Program) -> Program:
        return program.of_ranks() if self.axis == "ranks" else program

    def ranks(self, value: int) -> tuple[str, ...]:
        if self.axis != "ranks":
            return ()
        return ("mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(value))


def failure(record: dict) -> str | None:
    """Why a trial did not send its messages: what the client said first."""
    if record["status"] != "completed":
        return record["error"]
    return record["errors"][0]["first_message"] if record["errors"] else None


# Seconds a part, about.
SECONDS = {"null": 120, "kafka": 150, "pulsar": 180, "nats": 130, "redis": 130, "mqtt": 130, "nsq": 130, "rabbitmq-stream": 130}
# nsqd reserves memory for as many messages of each topic: 10 million would take 40 GB for 512 topics.
OPTIONS = {("nsq", "topics"): {"BROKERMARK_NSQ_OPTIONS": "-mem-queue-size=2000000"}}
PARTS = [
    Part(f"scale/{broker}-{axis}", seconds, servers(broker), Scale(broker, axis).run, (broker,), options=OPTIONS.get((broker, axis), {}))
    for axis in VALUES
    for broker, seconds in SECONDS.items()
]
