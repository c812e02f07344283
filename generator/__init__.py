"""Discovery of candidates for substitutions: all small terms of a preset, by value, paired, pruned."""

from superopt.generator.checkpoint import Checkpoint, fresh_work, resumed_work
from superopt.generator.discovery import Generation, Progress, generate
from superopt.generator.enumeration import Level
from superopt.generator.executors import Workers, dask, in_process, processes
from superopt.generator.preset import Preset
from superopt.generator.preset_file import load_preset, parse_preset, preset_names
from superopt.generator.pruning import Candidate

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
