"""Keywords: names that are attribute values; all other attribute values that are names are variables."""

from __future__ import annotations

from typing import get_args

from superopt.ops.activation import Activation
from superopt.ops.attributes import PADDING_WORDS
from superopt.ops.precision import PRECISIONS

KEYWORDS: frozenset[str] = frozenset((*PADDING_WORDS, *get_args(Activation), *PRECISIONS))
