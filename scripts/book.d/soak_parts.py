"""Soak: each broker for minutes at half of the capacity that `search` finds, every message verified, with the memory and the p99 of each minute."""

import json
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression, median

from loads import BROKERS, scenario, servers
from measure import PeerError
from part import Part
from program import Program

REQUIRED = "p99 < 100ms, failed = 0, lost = 0"
SEARCH_MINUTES = 5
# Within these the memory of a new process and of its pools still grows.
FIRST_MINUTES = 2
LOAD = {
    "producers.count": 4,
    "producers.batch": 20,
    "producers.in_flight": 10_000,
    "payload.kind": "random",
    "payload.size": "100B",
    "consumers.verify": True,
}


@dataclass(frozen=True)
class Soak:
    broker: str
    minutes: int

    def run(self, program: Program, environment: dict[str, str], kept: Path) -> dict:
        keys = LOAD | BROKERS[self.broker].bounded
        searched = answer(program, scenario(kept, self.broker, environment, keys | {"load.rate": "5k/s"}), SEARCH_MINUTES)
        rate = capacity(searched["answer"]) / 2
        duration = "12s" if program.quick else f"{self.minutes}min"
        keys |= {"load.rate": f"{math.floor(rate)}/s", "run.warm_up": "5s", "run.duration": duration}
        [record], rows = program.run(scenario(kept, self.broker, environment, keys), kept)
        minutes = per_minute(rows, 4 if program.quick else 60)
        if len(minutes) < 2:
            raise PeerError(f"the load ended in its minute {len(minutes) + 1}: {record['status']}, {record['error'] or record['verdict']['reasons']}")
        return {"capacity": searched["answer"], "rate": rate, "minutes": minutes, "growth_bytes_per_second": growth(minutes)} | kept_of(record)


def answer(program: Program, file: Path, minutes: int) -> dict:
    """A search's answer with its probes."""
    within, probe = ("40s", "2s") if program.quick else (f"{minutes}min", "5s")
    required = "failed = 0, lost = 0" if program.quick else REQUIRED
    with tempfile.TemporaryDirectory(prefix="brokermark-book-") as results:
        options = ["--within", within, "--probe", probe, "--quiet", "--output", results, "--format", "json"]
        return json.loads(program.call("search", str(file), "--require", required, *options, codes=(0, 3)).stdout)


def capacity(searched: dict) -> float:
    """In messages a second."""
    found = searched["capacity_per_second"] or searched["rate_per_second"]
    if not found:
        raise PeerError(f"the search found no capacity: it ended {searched['end']}")
    return found


def per_minute(rows: list[dict], seconds: int) -> list[dict]:
    """Percentiles of seconds cannot be merged: the median of a minute's seconds and the highest of them stand for it. A second in which nothing was acknowledged
    has none. The memory is the median as well: once a minute, the record so far is written, which takes memory for a moment."""
    measured = [row for row in rows if row["phase"] == "measure" and row["full"]]
    minutes = [measured[first : first + seconds] for first in range(0, len(measured) - seconds + 1, seconds)]
    p99 = [[row["p99_ns"] for row in minute if row["p99_ns"] is not None] for minute in minutes]
    return [
        {
            "acknowledged": sum(row["acknowledged"] for row in minute),
            "memory_bytes": median(row["memory_bytes"] for row in minute),
            "p99_median_ns": median(known) if known else None,
            "p99_highest_ns": max(known, default=None),
            "seconds": seconds,
        }
        for minute, known in zip(minutes, p99)
    ]


def growth(minutes: list[dict]) -> float | None:
    """Bytes a second: the slope of the line of least squares through the minutes' memory."""
    later = minutes[FIRST_MINUTES:] if len(minutes) > FIRST_MINUTES + 2 else minutes
    if len(later) < 2:
        return None
    seconds = [number * minute["seconds"] for number, minute in enumerate(later)]
    return linear_regression(seconds, [minute["memory_bytes"] for minute in later]).slope


def kept_of(record: dict) -> dict:
    found, counts = record["verification"], record["counts"]
    return {
        "valid": record["verdict"]["valid"],
        "reasons": [reason["kind"] for reason in record["verdict"]["reasons"]],
        "acknowledged": counts["acknowledged"],
        "failed": counts["failed"] + counts["unresolved"] + counts["unsent"],
        "p99_ns": record["latency"]["response"]["p99_ns"],
        "verification": {name: found[name] for name in ("received", "lost", "unread", "duplicated", "corrupt")},
        "broker": record["environment"]["broker"],
    }


MINUTES = {"kafka": 30, "pulsar": 10, "nats": 10, "nsq": 10, "redis": 10, "mqtt": 10, "rabbitmq": 10, "rabbitmq-stream": 10}
PARTS = [
    Part(f"soak/{broker}", 60 * (minutes + SEARCH_MINUTES) + 60, servers(broker), Soak(broker, minutes).run, (broker,))
    for broker, minutes in MINUTES.items()
]
