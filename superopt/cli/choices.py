"""Names that options choose from; the modules that define what they mean are slow to import."""

from typing import Literal, TypeAlias

ProviderName: TypeAlias = Literal["cpu", "cuda"]
StatusName: TypeAlias = Literal["candidate", "verified", "refuted", "unproved", "stale", "suspect"]
FormatName: TypeAlias = Literal["jsonl", "text", "taso", "flexflow"]
