"""Report section about the sizes of a model's open dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from superopt.optimizer.check.guesses import example


def _no_sizes() -> Mapping[str, int]:
    return {}


@dataclass(frozen=True, slots=True)
class SpeedUpAt:
    """The speed-up of the returned model at sizes, with its interval."""

    sizes: Mapping[str, int]
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SizesSummary:
    """Sizes of the model's open dimensions; empty where it has none. ``priced`` are those used for costs,
    ``checked`` each set at which outputs were compared, ``timed`` those of the inputs on which both models
    were timed, None where nothing was; ``smaller`` others. ``guessed`` sizes were not given by the user. Axes
    with one of the names ``apart`` may differ in size. ``given`` is what a model that was frozen at sizes
    gains over the one with open sizes, which ONNX Runtime may run faster."""

    priced: Mapping[str, int] = field(default_factory=_no_sizes)
    checked: tuple[Mapping[str, int], ...] = ()
    timed: Mapping[str, int] | None = None
    guessed: tuple[str, ...] = ()
    apart: tuple[str, ...] = ()
    smaller: SpeedUpAt | None = None
    given: SpeedUpAt | None = None

    @property
    def request(self) -> str:
        """Command-line options for the sizes that were guessed; empty where none was."""
        return example({name: self.priced[name] for name in self.guessed})

    def qualified(self, why: str) -> str:
        """The reason, with a note if sizes were guessed."""
        if not self.guessed:
            return why
        return f"{why}, at guessed sizes: {written({name: self.priced[name] for name in self.guessed})}"

    def to_json(self) -> dict[str, object]:
        """The sizes as JSON values; ``request`` is in command-line syntax."""
        return {
            "priced": dict(self.priced),
            "checked": [dict(sizes) for sizes in self.checked],
            "timed": None if self.timed is None else dict(self.timed),
            "guessed": list(self.guessed),
            "request": self.request,
            "apart": list(self.apart),
            "smaller": None if self.smaller is None else asdict(self.smaller),
            "given": None if self.given is None else asdict(self.given),
        }


def written(sizes: Mapping[str, int]) -> str:
    """Sizes as readable text."""
    return " ".join(f"{name}={size}" for name, size in sizes.items())


__all__ = ["SizesSummary", "SpeedUpAt", "written"]
