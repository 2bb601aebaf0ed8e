"""The folder of a book: machine.json, and a folder for each part, which has its part.json and what else it keeps."""

import json
import os
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from measure import PeerError


def newest(results: Path) -> Path | None:
    """The newest book below `results`, by its name, which begins with the date."""
    books = sorted(file.parent for file in results.glob("20*-*/machine.json"))
    return books[-1] if books else None


def write_json(file: Path, document: dict) -> None:
    """Whole or not at all."""
    partial = file.with_name(f".{file.name}-{os.getpid()}")
    partial.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    partial.rename(file)


@dataclass(frozen=True)
class Book:
    folder: Path | None  # None: nothing was measured yet
    machine: dict

    @classmethod
    def at(cls, folder: Path | None) -> "Book":
        file = folder and folder / "machine.json"
        return cls(folder, json.loads(file.read_text()) if file and file.exists() else {})

    @classmethod
    def begun(cls, folder: Path, machine: dict) -> "Book":
        """Opens the folder, or makes it with this machine as its own."""
        folder.mkdir(parents=True, exist_ok=True)
        book = cls.at(folder)
        if not book.machine:
            write_json(folder / "machine.json", machine)
            return cls.at(folder)
        if book.machine["quick"] != machine["quick"]:
            raise PeerError(f"{folder} {'was' if book.machine['quick'] else 'was not'} made by --quick: choose another --folder")
        return book

    def part(self, name: str) -> dict | None:
        file = self.folder and self.folder / name / "part.json"
        return json.loads(file.read_text()) if file and file.exists() else None

    def done(self, name: str) -> dict | None:
        """What a part gave, unless it is missing or has failed."""
        kept = self.part(name)
        return kept["result"] if kept and kept["status"] == "done" else None

    @contextmanager
    def new(self, name: str):
        """A folder to put a part's files into, which takes its place once the part is complete. What it has so far is removed on failure."""
        final = self.folder / name
        partial = final.with_name(f".{final.name}-{os.getpid()}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            yield partial
            shutil.rmtree(final, ignore_errors=True)
            partial.rename(final)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
