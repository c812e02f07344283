"""Which branches of a model's If nodes run on samples, so that those that never ran can be named."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from superopt.onnx_io.changes.probing import conditions, with_outputs
from superopt.optimizer.check.sampling import Sample
from superopt.optimizer.cost.runtime.session import LoadedModel, RuntimeRefusedError


class BranchesRun:
    """The branches of the If nodes of a model's main graph that ran on samples. ``content`` is the model;
    None for one that is too large to be changed in memory, of which nothing is known. An If node within a
    body is not looked at."""

    def __init__(self, content: bytes | None, threads: int) -> None:
        self._content = content
        self._threads = threads
        self._conditions: Mapping[str, str] = {} if content is None else conditions(content)
        self._taken: dict[int, Mapping[str, bool]] = {}
        self._model: LoadedModel | None = None

    def missed(self, samples: Sequence[Sample], until: float, other: bytes | None = None) -> tuple[str, ...]:
        """The branches that ran on none of the samples, as text; of those that could be run until then
        (monotonic clock). Empty if none could. With another model, those of its nodes alone: what it does not
        have was proved to be never taken."""
        if not self._conditions:
            return ()
        kept = None if other is None else conditions(other)
        seen: dict[str, set[bool]] = {}
        for sample in samples:
            if id(sample) not in self._taken and time.monotonic() < until:
                self._taken[id(sample)] = self._run(sample)
            for name, taken in self._taken.get(id(sample), {}).items():
                seen.setdefault(name, set()).add(taken)
        return tuple(
            f"the {'else' if True in seen[condition] else 'then'} branch of {node}"
            for node, condition in self._conditions.items()
            if len(seen.get(condition, ())) == 1 and (kept is None or node in kept)
        )

    def _run(self, sample: Sample) -> Mapping[str, bool]:
        """The conditions on a sample, by name; none if the model does not run in this form."""
        assert self._content is not None
        wanted = set(self._conditions.values())
        tensors: dict[str, object] = {name: sample.feeds[name] for name in wanted & sample.feeds.keys()}
        try:
            if self._model is None:
                self._model = LoadedModel(with_outputs(self._content, wanted - tensors.keys()), self._threads)
            names = (port.name for port in self._model.outputs)
            tensors.update(zip(names, self._model.run(sample.feeds), strict=True))
        except RuntimeRefusedError:
            return {}
        return {name: bool(np.asarray(tensors[name]).reshape(-1)[0]) for name in wanted}


__all__ = ["BranchesRun"]
