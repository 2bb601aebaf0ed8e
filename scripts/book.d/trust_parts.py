"""Trust: two equal sides may not be "changed", a slowdown of 5 % has to be found, and `search` has to agree with a sweep of rates."""

import json
import math
import tempfile
from dataclasses import dataclass
from pathlib import Path

from loads import BROKERS, scenario, servers
from part import Part
from program import Program
from soak_parts import LOAD as VERIFIED
from soak_parts import REQUIRED, answer, capacity

PAIRS = 10
# In 5 minutes and with three trials a rate, each of both capacities is uncertain by 5 %.
SEARCH_MINUTES = 15
TRIALS = 5
CLOSED = {"producers.count": 4, "producers.batch": 10, "producers.in_flight": 100, "payload.kind": "zeros", "payload.size": "100B"}
# One message of each of 10 producers in flight: 5 % more time is 5 % fewer messages. A broker's clock of milliseconds would hide it.
PLANTED = {"producers.count": 10, "producers.in_flight": 1, "payload.kind": "zeros", "payload.size": "100B"}
BEFORE, AFTER = {"broker.null.service_time": "20ms"}, {"broker.null.service_time": "21ms"}
FACTORS = [0.85, 0.875, 0.9, 0.925, 0.95, 0.975, 1.0, 1.025, 1.05, 1.075, 1.1, 1.125, 1.15]


@dataclass(frozen=True)
class InTurn:
    """Two sides in turn, and what `compare` says of them."""

    broker: str
    a: dict[str, object]
    b: dict[str, object]

    def run(self, program: Program, environment: dict[str, str], kept: Path) -> dict:
        run = {"run.warm_up": "1s", "run.duration": "1s" if program.quick else "5s", "sweep.trials": 6 if program.quick else PAIRS}
        (kept / "b").mkdir()
        one = scenario(kept, self.broker, environment, self.a | run)
        other = scenario(kept / "b", self.broker, environment, self.b | run)
        with tempfile.TemporaryDirectory(prefix="brokermark-book-") as results:
            options = ["--quiet", "--json", "--output", results]
            done = program.call("run", str(one), "--against", str(other), *options, codes=(0, 3))
        comparison = json.loads(done.stdout.splitlines()[-1])
        return {"verdict": comparison["verdict"], "figures": comparison["points"][0]["figures"], "counts": comparison["points"][0]["counts"]}


@dataclass(frozen=True)
class Searched:
    """`search`, and trials of each rate around its answer: the capacity is the highest rate up to which most trials hold."""

    broker: str

    def run(self, program: Program, environment: dict[str, str], kept: Path) -> dict:
        keys = VERIFIED | BROKERS[self.broker].bounded
        found = answer(program, scenario(kept, self.broker, environment, keys | {"load.rate": "5k/s"}), SEARCH_MINUTES)
        searched = found["answer"]
        rates = [math.floor(capacity(searched) * factor) for factor in (FACTORS[::6] if program.quick else FACTORS)]
        sweep = {"sweep.over": {"load.rate": [f"{rate}/s" for rate in rates]}, "sweep.order": "shuffled"}
        sweep |= {"sweep.trials": 1 if program.quick else TRIALS, "run.warm_up": "1s", "run.duration": "2s" if program.quick else "10s"}
        held = {"thresholds.require": REQUIRED.split(", ")}
        records, _ = program.run(scenario(kept, self.broker, environment, keys | sweep | held), None)
        trials = [[trial(record) for record in records if record["point_index"] == index] for index in range(len(rates))]
        held = [[one["held"] for one in of_rate] for of_rate in trials]
        probes = [{key: probe[key] for key in ("rate_per_second", "window_ns", "outcome", "reason", "p99_ns")} for probe in found["probes"]]
        return {"search": searched, "probes": probes, "rates": rates, "trials": trials, "capacity_by_sweep": highest(rates, held)}


def trial(record: dict) -> dict:
    """Held, as a probe of the search: thresholds, the rate sent in time and acknowledged, and read as well (99 % each)."""
    if record["status"] != "completed":
        return {"held": False, "error": record["error"]}
    throughput, counts = record["throughput"], record["counts"]
    behind = sum(group["consumer_lag_at_load_end"] or 0 for group in record["verification"]["groups"])
    in_time = all(reason["kind"] != "rate-missed" for reason in record["verdict"]["reasons"])
    kept_up = throughput["messages_per_second"] >= 0.99 * throughput["target_per_second"] and behind <= 0.01 * counts["acknowledged"]
    return {
        "held": in_time and kept_up and all(threshold["held"] for threshold in record["thresholds"]),
        "messages_per_second": throughput["messages_per_second"],
        "behind_at_load_end": behind,
        "p99_ns": record["latency"]["response"]["p99_ns"],
    }


def highest(rates: list[int], trials: list[list[bool]]) -> int | None:
    found = None
    for rate, held in zip(rates, trials):
        if 2 * sum(held) <= len(held):
            break
        found = rate
    return found


AA_SECONDS = PAIRS * 2 * 8 + 40
SWEEP_SECONDS = 60 * SEARCH_MINUTES + len(FACTORS) * TRIALS * 13 + 60
PARTS = [
    Part("trust/null-slowdown", AA_SECONDS, (), InTurn("null", PLANTED | BEFORE, PLANTED | AFTER).run, ("null",)),
    *(
        Part(f"trust/{broker}-aa", AA_SECONDS, servers(broker), InTurn(broker, CLOSED, CLOSED).run, (broker,))
        for broker in BROKERS
    ),
    *(Part(f"trust/{broker}-search", SWEEP_SECONDS, servers(broker), Searched(broker).run, (broker,)) for broker in ("kafka", "pulsar")),
]
