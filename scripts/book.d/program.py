"""The program that a book measures, run to its end."""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import measure as processes
from brokermark import REPOSITORY, thinned
from measure import PeerError

ENDS_WITHIN = 60  # seconds that an interrupted program has to take its servers down


class Program:
    """The release build, with MongoDB. BROKERMARK names another program, which is then not built; BROKERMARK_MPI one of the feature `mpi`."""

    def __init__(self, quick: bool, features: str = ""):
        self.quick = quick
        self.path = os.environ.get(f"BROKERMARK_{features.upper()}" if features else "BROKERMARK")
        if self.path is None:
            target = processes.CACHE / f"brokermark-{features}" if features else REPOSITORY / "target"
            build = ["cargo", "build", "--release", "--locked", "--features", f"mongodb,{features}", "--target-dir", str(target)]
            subprocess.run(build, cwd=REPOSITORY, check=True)
            self.path = str(target / "release/brokermark")

    def of_ranks(self) -> "Program":
        return Program(self.quick, "mpi")

    def call(self, *arguments: str, prefix: tuple[str, ...] = (), codes: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
        """Runs it to its end; raises PeerError, with the end of what it said, for another exit code."""
        return run_to_end([*prefix, self.path, *arguments], codes)

    def run(
        self, scenario: Path, keep: Path | None = None, *, settings: list[str] | None = None, prefix: tuple[str, ...] = ()
    ) -> tuple[list[dict], list[dict]]:
        """Runs a scenario. Returns its records and its seconds; records.jsonl and a page with charts stay in `keep`."""
        with tempfile.TemporaryDirectory(prefix="brokermark-book-") as results:
            options = [word for setting in settings or [] for word in ("--set", setting)]
            done = self.call("run", str(scenario), "--quiet", "--output", results, *options, prefix=prefix, codes=(0, 1, 3))
            directory = next(Path(results).iterdir(), None)
            if directory is None:  # a trial that fails later is in its record
                raise PeerError(f"brokermark left no record: {done.stderr[-1000:].strip()}")
            records = [thinned(record, histograms=True) for record in lines(directory / "records.jsonl")]
            if keep is not None:
                page = keep / "report.html"
                self.call("report", str(directory), "--output", str(page))
                page.write_text(without_folders(page.read_text()))
                (keep / "records.jsonl").write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
            return records, lines(directory / "series.jsonl")


def without_folders(page: str) -> str:
    """A page whose command line names files, and not where this machine has them."""
    names = lambda command: re.sub(r"(?<![\w.])/(?:[^\s/<]+/)+([^\s/<]+)", r"\1", command[0])
    return re.sub(r"<dt>command</dt><dd>[^<]*", names, page)


def lines(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def run_to_end(command: list[str], codes: tuple[int, ...] = (0,), visible: bool = False, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """What it printed; raises PeerError, with the end of what it said, for another exit code. `visible`: its progress is shown."""
    # Files, not pipes, which a server that it starts could hold open.
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, cwd=REPOSITORY, env=environment)
        try:
            shown = 0
            while child.returncode is None:
                try:
                    child.wait(1 if visible else None)
                except subprocess.TimeoutExpired:
                    pass
                if visible:
                    more = os.pread(errors.fileno(), 1 << 20, shown)
                    shown += len(more)
                    sys.stderr.write(more.decode(errors="replace"))
        except BaseException:
            # Ctrl-C reaches it as well: it takes its servers down.
            try:
                child.wait(ENDS_WITHIN)
            except subprocess.TimeoutExpired:
                child.kill()
            raise
        for file in (out, errors):
            file.seek(0)
        printed, said = out.read(), errors.read()
    if child.returncode not in codes:
        raise PeerError(f"{Path(command[0]).name} exited with {child.returncode}: {(said or printed)[-1000:].strip() or 'it said nothing'}")
    return subprocess.CompletedProcess(command, child.returncode, printed, said)
