"""Discovery of candidate substitutions: enumeration of small terms, pairing by value, pruning."""

from superopt.generator.enumerate.enumeration import Level
from superopt.generator.presets.preset import Preset
from superopt.generator.presets.reading import load_preset, parse_preset, preset_names
from superopt.generator.prune.pruning import Candidate
from superopt.generator.run.checkpoint import Checkpoint, fresh_work, resumed_work
from superopt.generator.run.discovery import Generation, Progress, generate
from superopt.generator.run.executors import Workers, dask, in_process, processes

__all__ = [
    "Candidate",
    "Checkpoint",
    "Generation",
    "Level",
    "Preset",
    "Progress",
    "Workers",
    "dask",
    "fresh_work",
    "generate",
    "in_process",
    "load_preset",
    "parse_preset",
    "preset_names",
    "processes",
    "resumed_work",
]
