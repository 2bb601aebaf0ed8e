"""NSQ's benchmark as it was published: clients and nsqd on hosts of their own, which are network namespaces here, and a rank on each client's host."""

import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

from brokermark import REPOSITORY
from measure import PeerError

HOSTS = str(REPOSITORY / "scripts/hosts")
CLIENTS, NODES, PORT = 3, 3, 4150
STARTS_WITHIN = 30  # seconds
RANKS = (HOSTS, "run", str(CLIENTS))


@contextmanager
def running(programs: str):
    """Yields the addresses of the nsqd."""
    numbers = range(CLIENTS + 1, CLIENTS + NODES + 1)
    with tempfile.TemporaryDirectory(prefix="brokermark-book-") as data, ExitStack() as ending:
        ending.callback(subprocess.run, [HOSTS, "down"], check=False)
        subprocess.run([HOSTS, "up", str(CLIENTS + NODES)], check=True)
        for number in numbers:
            queue = Path(data, str(number))
            queue.mkdir()
            options = [f"-data-path={queue}", f"-node-id={number}", "-log-level=fatal", "-mem-queue-size=10000000", "-max-rdy-count=10000"]
            options += [f"-tcp-address=0.0.0.0:{PORT}", f"-http-address=0.0.0.0:{PORT + 1}", f"-broadcast-address={address(number)}"]
            nsqd = subprocess.Popen([HOSTS, "on", str(number), f"{programs}/nsqd", *options])
            ending.callback(stop, nsqd)
        for number in numbers:
            await_start(number)
        yield [f"{address(number)}:{PORT}" for number in numbers]


def address(number: int) -> str:
    return f"198.19.0.{number}"


def stop(nsqd: subprocess.Popen) -> None:
    nsqd.terminate()
    nsqd.wait()


def await_start(number: int) -> None:
    deadline = time.monotonic() + STARTS_WITHIN
    while True:
        try:
            socket.create_connection((address(number), PORT), timeout=1).close()
            return
        except OSError as error:
            if time.monotonic() > deadline:
                raise PeerError(f"nsqd on host {number} does not listen: {error}") from error
            time.sleep(0.1)
