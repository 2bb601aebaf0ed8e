"""Topics of a Pulsar server."""

import os
import time
import urllib.request
from contextlib import contextmanager


class Topics:
    """Made and removed over the admin interface, which also counts the messages that arrive."""

    def __init__(self, admin: str):
        self.admin = admin
        self.base = f"{admin}/admin/v2/persistent/public/default"
        self.made = 0

    @contextmanager
    def new(self, count: int = 1):
        """Yields NAME: the new topics are NAME-0, NAME-1, …"""
        self.made += 1
        name = f"compare-{os.getpid()}-{self.made}"
        names = [f"{name}-{index}" for index in range(count)]
        for one in names:
            self.call("PUT", one)
        try:
            yield name
        finally:
            for one in names:
                self.call("DELETE", f"{one}?force=true")
            time.sleep(3)  # the server removes the files in the background; that is not the next tool's cost

    def call(self, method: str, path: str) -> bytes:
        request = urllib.request.Request(f"{self.base}/{path}", method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()
