"""Discovery of candidates for substitutions: all small terms of a preset, by value, paired, pruned."""

from generator.checkpoint import Checkpoint, fresh_work, resumed_work
from generator.discovery import Generation, Progress, generate
from generator.enumeration import Level
from generator.executors import Workers, dask, in_process, processes
from generator.preset import Preset
from generator.preset_file import load_preset, parse_preset, preset_names
from generator.pruning import Candidate

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
