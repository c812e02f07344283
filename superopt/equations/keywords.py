"""Keywords: names that are attribute values; all other attribute values that are names are variables."""

from __future__ import annotations

from typing import get_args

from superopt.ops.attributes import PADDING_WORDS
from superopt.ops.elementwise.activation import Activation
from superopt.ops.elementwise.precision import PRECISIONS

KEYWORDS: frozenset[str] = frozenset((*PADDING_WORDS, *get_args(Activation), *PRECISIONS))
