"""Runs one client process and reads, from the operating system, what it cost.

Every tool is measured by the same yardstick, from outside: `wait4` gives the CPU time (user + system) and the peak
memory of exactly that process, whatever the tool reports about itself.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

# Where other tools are installed, as by `scripts/brokers`.
CACHE = Path(
    os.environ.get("BROKERMARK_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "brokermark"
)

ENDS_WITHIN = 600  # seconds: some clients do not get through their start on few cores
BUSY_CORES = 0.2  # from here on a machine is not quiet: an idle server and a desktop at rest stay below


class PeerError(Exception):
    """A tool could not be installed, did not run, or printed something else than expected."""


@dataclass(frozen=True)
class Process:
    """What a finished process printed and used. Times are from its start to its end, start-up included."""

    output: str
    wall_seconds: float
    cpu_seconds: float
    peak_memory_bytes: int


def run(command: list[str]) -> Process:
    """Runs the command to its end; raises PeerError, with the end of its output, unless it exits with 0 within ENDS_WITHIN."""
    # A file, not a pipe: reading a pipe would cost both processes a core.
    with tempfile.TemporaryFile() as printed:
        started = time.monotonic()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.STDOUT)
        limit = threading.Timer(ENDS_WITHIN, child.kill)
        limit.start()
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:  # Ctrl-C too: a load generator must not be left running
            child.kill()
            raise
        finally:
            limit.cancel()
        wall_seconds = time.monotonic() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        output = printed.read().decode(errors="replace")
    if child.returncode != 0:
        ended = f"had not ended after {ENDS_WITHIN} s" if wall_seconds >= ENDS_WITHIN else f"exited with {child.returncode}"
        raise PeerError(f"{command[0]} {ended}:\n{output[-2000:]}")
    return Process(
        output=output,
        wall_seconds=wall_seconds,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        # Linux counts in KiB, macOS in bytes. The value is never below this Python's own size (some 15 MiB): until
        # it has replaced itself by the tool, the new process is a copy of this one.
        peak_memory_bytes=usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024),
    )


def busy_cores(seconds: float = 1.0) -> float:
    """How many cores all processes use right now. 0 on systems other than Linux."""
    try:
        before = busy_seconds()
        time.sleep(seconds)
        return (busy_seconds() - before) / seconds
    except OSError:
        return 0.0


def await_quiet(within: float = 60.0) -> float:
    """Waits until a server has ended its own work, such as removing a topic, for `within` seconds at most. How many cores are used then."""
    deadline = time.monotonic() + within
    while (busy := busy_cores()) > BUSY_CORES and time.monotonic() < deadline:
        pass
    return busy


def busy_seconds() -> float:
    with open("/proc/stat") as file:
        user, nice, system, _idle, _iowait, irq, softirq, *_ = map(int, file.readline().split()[1:])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def check(command: list[str], **options) -> str:
    """Runs a helper command that is not measured, and returns what it prints."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise PeerError(f"{' '.join(command)} exited with {done.returncode}:\n{done.stdout[-2000:]}")
    return done.stdout
