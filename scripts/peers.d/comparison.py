"""What a comparison consists of: the workload all tools get, the tool's interface, one run's result.

A broker's file (`kafka.py`, …) offers `comparison(arguments)`, which returns a Comparison.
"""

from dataclasses import dataclass
from typing import Callable, Protocol

from measure import Process


@dataclass(frozen=True)
class Workload:
    """The same for every tool."""

    messages: int
    payload_bytes: int
    partitions: int
    acks: str
    linger_ms: int
    batch_bytes: int
    queue_messages: int  # how many messages a client holds at most, where it counts messages
    batching: bool = True
    idempotent: bool = False
    compression: str = "none"


@dataclass(frozen=True)
class Run:
    """One tool's result in one round."""

    tool: str
    round: int
    messages: int
    messages_per_second: float
    cpu_microseconds_per_message: float
    peak_memory_bytes: int
    wall_seconds: float
    busy_cores_before: float  # by others, just before the run, when client and server had nothing to do
    printed: str  # the tool's own words, from which the rate was taken


class Peer(Protocol):
    """One tool."""

    name: str
    rate: str  # what messages/s is for this tool, and where it comes from

    def install(self) -> None:
        """Builds or fetches the tool, unless that was done before."""

    def run(self, workload: Workload) -> tuple[float, str, Process]:
        """Runs it once on a new topic: messages/s, the line that it was taken from, and the measured process."""


@dataclass(frozen=True)
class Comparison:
    """The tools for one broker, brokermark first, in one way or several."""

    broker: str
    setting: str  # of the broker and the tools, one line for people
    workload: Workload
    peers: list[Peer]
    warm_up: Callable[[], None]  # so that the first tool does not meet a cold server
