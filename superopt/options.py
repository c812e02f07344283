"""The options of an optimization, declared once: what each means, what it may be, and where it is offered.

The command line, the HTTP schema, the form of the page, ``docs/options.md`` and every check are made from
``OPTIONS``; a test compares the signature of ``superopt.optimize`` with it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, cast

from superopt.errors import InvalidOptionError
from superopt.option import Choice, Mismatch, Option, Surface
from superopt.option_table import REPEATED, OptionTable, declared, keep_plain, mismatches, require
from superopt.step_options import PRECISION_OPTIONS, STEP_OPTIONS

TRAINING = "training"
"""The objective of a training step."""
_LARGEST = 2**63 - 1
MOST_THREADS = 4 * (os.cpu_count() or 1)
"""More threads than four for each logical core only wait for each other."""

_HERE = Surface.COMMAND_LINE | Surface.PYTHON
_NOWHERE = Surface(0)

_OBJECTIVES = (
    Choice("latency", "the time of one run, measured here", cluster=True),
    Choice("throughput", "the time per sample, over all devices", cluster=True),
    Choice("flops", "arithmetic operations"),
    Choice("memory", "tensors that are alive at once"),
    Choice("traffic", "bytes read and written"),
    Choice("launches", "kernels that the runtime starts"),
    Choice("training", "the time of one step of its training", cluster=True),
)
_SEARCHES = (
    Choice("auto", "what suits the size of the model", cluster=True),
    Choice("backtracking", "sees what is far apart"),
    Choice("regions", "small parts, for large models"),
    Choice("beam", "through what is costly on the way"),
    Choice("none", "plans of the graph as it is", device=False, cluster=True),
)
_RUNTIMES = (
    Choice("portable", "standard ONNX operators only", cluster=True),
    Choice("onnxruntime", "ONNX Runtime's own operators, too, where that is measured to be faster"),
)
_STRATEGIES = (
    Choice("ddp", "data parallelism: all devices update all parameters", cluster=True),
    Choice("zero1", "each device updates a part, of whole gradients", cluster=True),
    Choice("zero2", "each device updates a part, of parts of gradients", cluster=True),
    Choice("zero3", "as zero2, and parameters are kept in parts, and gathered where used", cluster=True),
    Choice("fsdp", "another name of zero3", cluster=True),
    Choice("ps", "a server updates each parameter", cluster=True),
    Choice("PS", "AutoDist's builder: one server", cluster=True),
    Choice("PSLoadBalancing", "each parameter on the server with the fewest bytes", cluster=True),
    Choice("PartitionedPS", "parameters in equal parts on servers", cluster=True),
    Choice("UnevenPartitionedPS", "parameters in parts that differ in size", cluster=True),
    Choice("AllReduce", "merged all-reduces", cluster=True),
    Choice("PartitionedAR", "merged all-reduces of parts", cluster=True),
    Choice("RandomAxisPartitionAR", "the same along random axes", cluster=True),
    Choice("Parallax", "tables on servers, the rest by all-reduces", cluster=True),
    Choice("auto", "the best that a search of such strategies finds", cluster=True),
    Choice("disco", "ddp, with kernels and collectives fused by DisCo's search", cluster=True),
    Choice("joint-fusion", "ddp, with kernels and collectives fused by ours", cluster=True),
)
_STRATEGY_FILE = r".*\.(json|pb)"
"""The path of a strategy, as `superopt strategy` writes and imports it."""

_DIM = "Price, check and time at this size of an open dimension, as in batch=8; `superopt inspect` lists them"
_FREEZE = "Specialise the model to this size of an open dimension, as in batch=8; all: to those of --inputs"
_MEMORY = "Most memory for weights and tensors, of each device; on the command line as in '2 GiB'"
_CUT_INPUT = "Optimise only the part of the model that begins at this tensor"
_CUT_OUTPUT = "Optimise only the part of the model that ends at this tensor"
_FP16 = "Convert weights and tensors to float16 where that is equal within 1e-2 and measured to be faster"
_EXTERNAL = "Write weights to a file beside the model, OUT.data, whatever their size"
_OPSET = "Convert the model to this version of the standard operators before optimising"
_OLDEST_OPSET = 7
_TRAINING = "How the training step is built that objective training optimises, as superopt train-graph does"
_CLUSTER = "Plan for these devices: a description's file, or a known machine as dgx-h100:4"


_ROUNDING = "Leave out rules whose rounding errors are larger than the original's, such as Winograd's"
_SETTINGS = tuple(
    one for name, one in STEP_OPTIONS.items() if name != "freeze" and one.surfaces == Surface.EVERYWHERE
)
"""The settings of the step that an optimization builds; sizes are those of its option ``freeze``."""


def _no_dims() -> Mapping[str, int]:
    return {}


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one optimization.

    Raises InvalidOptionError for a value that makes no sense.
    """

    objective: Annotated[str, Option("What to minimise", _OBJECTIVES)] = "latency"
    target: Annotated[
        str, Option("The device: cpu, cuda, an imported cost profile, or (not at a service) a profile's file")
    ] = "cpu"
    search: Annotated[str, Option("The search strategy", _SEARCHES)] = "auto"
    budget: Annotated[
        float, Option("Wall time for everything, from start to written file", unit="seconds", above=0)
    ] = 60.0
    max_candidates: Annotated[
        int | None, Option("End the search after so many candidates", unset="no limit", least=0)
    ] = None
    alpha: Annotated[float, Option("Explore graphs up to this many times the best cost", least=1)] = 1.05
    """The default is that of the dissertation, section 2.6: good in practice."""
    seed: Annotated[int, Option("Seed of everything random", least=0, most=_LARGEST)] = 0
    threads: Annotated[
        int | None, Option("Threads of the runtime", unset="all physical cores", least=1, most=MOST_THREADS)
    ] = None
    dims: Annotated[Mapping[str, int], Option(_DIM, unset="guessed", name="dim", least=1, most=_LARGEST)] = (
        field(default_factory=_no_dims)
    )
    freeze: Annotated[
        Mapping[str, int] | Literal["all"],
        Option(_FREEZE, unset="none", least=1, most=_LARGEST, word="all"),
    ] = field(default_factory=_no_dims)
    inputs: Annotated[
        Path | None,
        Option("An .npz file with inputs, which size open dimensions", unset="random", surfaces=_HERE),
    ] = None
    tolerance: Annotated[
        float | None, Option("Allowed beyond the original's own error", unset="by element type", above=0)
    ] = None
    keep: Annotated[tuple[str, ...], Option("Leave the node of this name as it is", unset="none")] = ()
    exclude_rules: Annotated[
        tuple[str, ...], Option("Do not use the rule with this id", unset="none", name="exclude_rule")
    ] = ()
    exact_rounding: Annotated[bool, Option(_ROUNDING, unset="no")] = False
    memory_limit: Annotated[int | None, Option(_MEMORY, unset="no limit", unit="bytes", least=1)] = None
    runtime: Annotated[str, Option("Whose operators may be written", _RUNTIMES)] = "portable"
    fp16: Annotated[bool, Option(_FP16, unset="no")] = False
    opset: Annotated[int | None, Option(_OPSET, unset="the model's", least=_OLDEST_OPSET)] = None
    inline_functions: Annotated[
        bool, Option("Put the bodies of the model's own functions in place of their calls", unset="no")
    ] = False
    cut_inputs: Annotated[
        tuple[str, ...], Option(_CUT_INPUT, unset="the model's inputs", surfaces=_HERE, name="cut_input")
    ] = ()
    cut_outputs: Annotated[
        tuple[str, ...], Option(_CUT_OUTPUT, unset="the model's outputs", surfaces=_HERE, name="cut_output")
    ] = ()
    external_data: Annotated[
        bool, Option(_EXTERNAL, unset="above 2 GB, or as the model has", surfaces=Surface.COMMAND_LINE)
    ] = False
    training: Annotated[
        Mapping[str, object] | None, Option(_TRAINING, unset="those of train-graph", members=_SETTINGS)
    ] = None
    cluster: Annotated[str | None, Option(_CLUSTER, unset="one device", surfaces=_HERE)] = None
    strategy: Annotated[
        str | None,
        Option(
            "With a cluster and a training step: how gradients are summed and states updated, and what is "
            "fused, by name or by a strategy's file (*.json, *.pb)",
            _STRATEGIES,
            unset="searched for",
            pattern=_STRATEGY_FILE,
            surfaces=_HERE,
        ),
    ] = None
    samples: Annotated[int, Option("Inputs to check with", least=1, surfaces=_NOWHERE)] = 4
    patience: Annotated[
        int | None,
        Option("End after so many without a better one", unset="no limit", least=0, surfaces=_NOWHERE),
    ] = 20_000

    def __post_init__(self) -> None:
        values = {name: cast("object", getattr(self, option.field)) for name, option in OPTIONS.items()}
        require(wrong_options(OPTIONS, values, is_cluster=self.cluster is not None))
        keep_plain(OPTIONS, self)

    @property
    def builds_step(self) -> bool:
        """Whether the training step of the model, or the step with another precision, is optimised in its
        place."""
        return self.objective == TRAINING or self.training is not None

    @classmethod
    def from_json(cls, values: Mapping[str, object]) -> Options:
        """The options by their names in JSON; raises InvalidOptionError."""
        require(wrong_options(OPTIONS, values, is_cluster=values.get("cluster") is not None))
        parsed = {OPTIONS[name].field: OPTIONS[name].parsed(value) for name, value in values.items()}
        return cls(**parsed)  # pyright: ignore[reportArgumentType]

    @classmethod
    def from_python(cls, values: Mapping[str, object]) -> Options:
        """The options by their names in Python; raises InvalidOptionError, with these names."""
        require_python(values)
        return cls(**{name: PYTHON_OPTIONS[name].parsed(value) for name, value in values.items()})  # pyright: ignore[reportArgumentType]

    def to_json(self) -> dict[str, object]:
        """The options as a report holds them, by their names in Python."""
        return {one.field: _jsonable(getattr(self, one.field)) for one in OPTIONS.values() if one.surfaces}

    def to_request(self) -> dict[str, object]:
        """The options by their names in JSON, but for the cluster, which goes beside them."""
        values = self.to_json()
        return {
            one.name: values[one.field]
            for one in OPTIONS.values()
            if one.field in values.keys() - {"cluster"}
        }


def _jsonable(value: object) -> object:
    if isinstance(value, tuple):
        return list(cast("tuple[str, ...]", value))
    return str(value) if isinstance(value, Path) else value


OPTIONS: OptionTable = declared(Options)
"""All options by their names in JSON."""


PYTHON_OPTIONS: OptionTable = {one.field: replace(one, name=one.field) for one in OPTIONS.values()}
"""All options by their names in Python."""


def require_threads(threads: int | None) -> None:
    """Raises InvalidOptionError for a number of threads that a runtime should not have."""
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise InvalidOptionError(f"threads: expected at least 1 and at most {MOST_THREADS}, got {threads}")


def require_python(values: Mapping[str, object]) -> None:
    """Raises InvalidOptionError for the first wrong one of values by their names in Python."""
    require(wrong_options(PYTHON_OPTIONS, values, is_cluster=values.get("cluster") is not None))


def wrong_options(
    table: OptionTable, values: Mapping[str, object], *, is_cluster: bool
) -> Iterator[Mismatch]:
    """Everything that is wrong with values by their names in JSON, alone and together."""
    yield from mismatches(table, values, is_cluster=is_cluster)
    if values.get("strategy") is not None and not is_cluster:
        yield Mismatch("strategy", "none without a cluster", values["strategy"])
    if values.get("training") is None:
        return
    objective = values.get("objective", table["objective"].default)
    if objective != TRAINING and not _is_of_precision(values["training"]):
        yield Mismatch("training", f"no settings but those of precision, or objective {TRAINING}", objective)
    if is_cluster and isinstance(values["training"], Mapping):
        given = PRECISION_OPTIONS.keys() & cast("Mapping[str, object]", values["training"]).keys()
        for name in sorted(given):
            yield Mismatch(
                f"training.{name}", "none with a cluster, for which precision is not planned", name
            )


def _is_of_precision(settings: object) -> bool:
    """Whether settings of a step are about its precision only, which a step that is built may change."""
    if not isinstance(settings, Mapping) or not settings:
        return False
    return PRECISION_OPTIONS.keys() >= cast("Mapping[str, object]", settings).keys()


def offered(surface: Surface) -> OptionTable:
    """The options that are offered there."""
    return {name: option for name, option in OPTIONS.items() if surface in option.surfaces}


def options_table() -> str:
    """Every option as a row of a table in Markdown (``docs/options.md`` holds it), without upper bounds, of
    which some are those of a machine.
    """
    rows = ["| flag | JSON | Python | default | may be | what |", "|---|---|---|---|---|---|"]
    for option in (one for one in OPTIONS.values() if one.surfaces):
        offers = {
            Surface.COMMAND_LINE: f"`{option.flag}`",
            Surface.HTTP: f"`{option.name}`",
            Surface.PYTHON: f"`{option.field}`",
        }
        if option.members:
            offers[Surface.COMMAND_LINE] = ", ".join(f"`{member.flag}`" for member in option.members)
        names = " | ".join(name if surface in option.surfaces else "" for surface, name in offers.items())
        several = "several, each " if option.kind in REPEATED else ""
        noun = several + replace(option, most=None).noun + option.or_word
        values = ", ".join(map(str, option.choices)) or noun
        default = option.unset or f"`{option.default}`"
        rows.append(f"| {names} | {default} | {values} | {option.help}. |")
    return "\n".join(rows)


DEFAULTS = Options()


if __name__ == "__main__":
    sys.stdout.write(options_table() + "\n")
