"""brokermark's ratio to another tool, with an interval that is honest for few rounds.

The ratio is taken within each round, where both met the same machine. Its logarithms are averaged, and the interval is Student's, as `compare` makes
that of one side's trials (src/statistics/trials.rs). With three rounds it is wide. The exact interval of
signed ranks, which `compare` has for pairs, does not exist below six pairs.
"""

from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import mean, stdev

# Student's 97.5 % quantile by degrees of freedom (NIST/SEMATECH e-Handbook, 1.3.6.7.2).
STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262]
COLUMNS = ("messages_per_second", "cpu_microseconds_per_message")


@dataclass(frozen=True)
class Ratio:
    value: float
    low: float | None  # None with one round
    high: float | None

    @classmethod
    def of(cls, ratios: list[float]) -> "Ratio":
        logarithms = [log(ratio) for ratio in ratios]
        middle = mean(logarithms)
        if len(ratios) < 2:
            return cls(exp(middle), None, None)
        quantile = STUDENT[min(len(ratios) - 1, len(STUDENT)) - 1]
        half = quantile * stdev(logarithms) / sqrt(len(ratios))
        return cls(exp(middle), exp(middle - half), exp(middle + half))

    def __str__(self) -> str:
        digits = 2 if self.value >= 0.1 else 3
        interval = f"{self.low:.{digits}f}–{self.high:.{digits}f}" if self.low is not None else "one round"
        return f"{self.value:.{digits}f} ({interval})"

    @property
    def is_above_one(self) -> bool:
        return self.low is not None and self.low > 1

    @property
    def is_below_one(self) -> bool:
        return self.high is not None and self.high < 1


@dataclass(frozen=True)
class Beside:
    """A way of brokermark beside another tool."""

    ours: str
    peer: str
    rate: Ratio
    cpu: Ratio
    rounds: int
    messages_per_second: float  # brokermark's, the median
    alone: bool  # whether nothing else used the machine before any of the runs


def beside(compared: dict, busy_cores: float) -> list[Beside]:
    """Each way of brokermark beside each other tool."""
    runs = {(run["tool"], run["round"]): run for run in compared["runs"]}
    tools = list(dict.fromkeys(tool for tool, _ in runs))
    found = []
    for ours in compared["ratios"]:
        for peer in (tool for tool in tools if tool not in compared["ratios"]):
            pairs = [(run, runs[peer, number]) for (tool, number), run in runs.items() if tool == ours and (peer, number) in runs]
            rate, cpu = (Ratio.of([one[column] / other[column] for one, other in pairs]) for column in COLUMNS)
            alone = all(run["busy_cores_before"] <= busy_cores for pair in pairs for run in pair)
            median = compared["summary"][ours]["messages/s"]["median"]
            found.append(Beside(ours, peer, rate, cpu, len(pairs), median, alone))
    return found
