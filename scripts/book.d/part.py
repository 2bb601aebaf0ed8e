"""A part of a book."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from program import Program


@dataclass(frozen=True)
class Part:
    name: str  # kind/what: also its place in the folder
    seconds: int  # about, with the start of its servers, on two cores
    servers: tuple[str, ...]  # of scripts/brokers, which are started for it
    run: Callable[[Program, dict[str, str], Path], dict]  # given the servers' environment and the folder for its files
    brokers: tuple[str, ...] = ()  # by which --only finds it
    differs: str | None = None  # what is not as published, and why
    options: dict[str, str] = field(default_factory=dict)  # of its servers, as environment of scripts/brokers
