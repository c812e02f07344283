"""Discovery of candidates for substitutions: all small terms of a preset, by value, paired, pruned."""

from generator.discovery import Generation, Progress, generate
from generator.enumeration import Level
from generator.preset import Preset, load_preset, parse_preset, preset_names
from generator.pruning import Candidate

__all__ = [
    "Candidate",
    "Generation",
    "Level",
    "Preset",
    "Progress",
    "generate",
    "load_preset",
    "parse_preset",
    "preset_names",
]
