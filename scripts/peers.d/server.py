"""The real server a comparison runs against: the one of `scripts/brokers`."""

import os
import shlex
import subprocess
from contextlib import contextmanager
from pathlib import Path

BROKERS = str(Path(__file__).resolve().parents[1] / "brokers")


@contextmanager
def running(name: str, options: dict[str, str] | None = None):
    """Yields the server's environment (KEY → value). A server that was down before is started with `options`, and taken down again."""
    was_up = subprocess.run([BROKERS, "status", name], stdout=subprocess.DEVNULL).returncode == 0
    try:
        if not was_up:
            subprocess.run([BROKERS, "up", name], check=True, env=os.environ | (options or {}))
        printed = subprocess.run([BROKERS, "env", name], check=True, stdout=subprocess.PIPE, text=True).stdout
        yield dict(line.split("=", 1) for line in shlex.split(printed))
    finally:
        if not was_up:
            subprocess.run([BROKERS, "down", name], check=False)
