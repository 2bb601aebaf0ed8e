"""Runs the parts that are not done, one after another, and keeps what each gave."""

import re
import subprocess
import sys
import tempfile
import time
import timeit
import traceback
from contextlib import ExitStack
from datetime import datetime, timezone
from pathlib import Path

import measure as processes
import server
from brokermark import REPOSITORY
from folder import Book, write_json
from loads import toml
from measure import BUSY_CORES, PeerError
from part import Part
from program import Program


def machine(program: Program) -> dict:
    """What brokermark's record says of the machine and the build, and the versions of the servers."""
    with tempfile.TemporaryDirectory(prefix="brokermark-book-") as folder:
        scenario = Path(folder) / "machine.toml"
        scenario.write_text(toml({"broker.kind": "null", "run.messages": 1}))
        record = program.run(scenario)[0][0]
    known = {key: value for key, value in record["environment"].items() if key not in ("broker", "client_library", "embedded", "hostname", "command_line")}
    status = subprocess.run([server.BROKERS, "status"], stdout=subprocess.PIPE, text=True).stdout
    servers = dict(re.findall(r"^(\S+) .* version (\S+)", status, re.MULTILINE))
    return known | {"servers": {name: version for name, version in servers.items() if "-cluster" not in name}}


def slug(processor: str) -> str:
    """A processor's name for a folder: without marks and without what all of them are called."""
    words = re.sub(r"\([^)]*\)", "", processor.lower())
    return "-".join(word for word in re.findall(r"[a-z0-9]+", words) if word not in ("processor", "cpu"))


def require_quiet() -> None:
    if (busy := processes.await_quiet()) > BUSY_CORES:
        raise PeerError(f"other programs use {busy:.1f} of this machine's cores: end them, then run this again")


def measure(book: Book, machine: dict, program: Program, parts: list[Part], hours: float | None, again: bool) -> int:
    """Exit code 1 if a part has failed."""
    begun, failed = time.monotonic(), []
    todo = [part for part in parts if again or book.done(part.name) is None]
    for number, part in enumerate(todo, 1):
        left = sum(later.seconds for later in todo[number - 1 :])
        passed = time.monotonic() - begun
        if hours is not None and passed + part.seconds > hours * 3600:
            say(f"stopped before {part.name}, which takes about {duration(part.seconds)}; left: {duration(left)}")
            break
        if not program.quick:
            require_quiet()
        say(f"[{number}/{len(todo)}] {part.name}: about {duration(part.seconds)}; with all that follows {duration(left)}")
        if error := run_part(book, machine, program, part):
            failed.append(part.name)
            say(f"{part.name} failed: {error}")
    if failed:
        say(f"failed: {', '.join(failed)}")
    return 1 if failed else 0


def run_part(book: Book, machine: dict, program: Program, part: Part) -> str | None:
    """Returns why it failed. A failure is kept as well, unless the part was done before."""
    head = {"part": part.name, "time": datetime.now(timezone.utc).isoformat(timespec="seconds"), "loops_per_second": loops_per_second()}
    differing = {key: value for key, value in machine.items() if book.machine.get(key) != value}
    if differing:
        head["differs_from_the_folder"] = differing
    begun = time.monotonic()
    error = None
    try:
        with book.new(part.name) as kept, ExitStack() as servers:
            environment: dict[str, str] = {}
            for name in part.servers:
                environment |= servers.enter_context(server.running(name, part.options))
            result = part.run(program, environment, kept)
            seconds = round(time.monotonic() - begun)
            write_json(kept / "part.json", head | {"status": "done", "seconds": seconds, "differs": part.differs, "result": result})
    except (PeerError, subprocess.CalledProcessError, OSError, ArithmeticError, LookupError, TypeError, ValueError) as failure:
        error = str(failure).strip()
        if not isinstance(failure, PeerError):
            error = f"{type(failure).__name__}: {error}"
            traceback.print_exc()
        for place in (REPOSITORY, processes.CACHE):  # of this machine only
            error = error.replace(f"{place}/", "")
        if book.done(part.name) is None:
            with book.new(part.name) as kept:
                write_json(kept / "part.json", head | {"status": "failed", "seconds": round(time.monotonic() - begun), "error": error})
    return error


def loops_per_second() -> float:
    """How fast this machine is now, which the name of its processor does not tell: rounds of an empty loop of Python."""
    rounds = 1_000_000
    return round(rounds / min(timeit.repeat(number=rounds, repeat=10)))


def duration(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min" if minutes else f"{seconds:.0f} s"


def say(line: str) -> None:
    print(f"book: {line}", file=sys.stderr, flush=True)
