"""The one tree of errors: every failure that a user can cause has a class, a sentence and an exit code.

SuperoptError
├── InvalidInputError            exit 2: what was given is wrong
│   ├── InvalidModelError        an ONNX file that cannot be read, or that nothing accepts
│   ├── InvalidEquationError     equation text that does not parse, or is malformed as a rule
│   ├── InvalidOptionError       an option with a value that makes no sense
│   └── InvalidFileError         a rule file, report or profile that cannot be read
├── IllTypedError                an operator applied to types that it does not accept
│   ├── DimensionMismatchError   two dimensions that must be equal are not
│   └── UnfitTypesError          types that it does not accept whatever their symbols stand for
│       └── RankMismatchError    a tensor has the wrong number of dimensions
├── UnsupportedError             a domain or operator that cannot do what was asked
├── UnprovedRuleError            exit 1: a rule without a current proof was about to be applied
├── NotEquivalentError           exit 1: a model was about to be written that does not compute the same
├── DivergedError                exit 1: training stopped because the loss is not a finite number
├── UnjudgedError                exit 3: time, memory, a crash or unusable inputs left no answer
└── MissingServiceError          exit 4: a device, database or runtime that is needed is absent
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from superopt.ir.dimensions import Dimension

__all__ = [
    "INTERNAL_ERROR",
    "DimensionMismatchError",
    "DivergedError",
    "IllTypedError",
    "InvalidEquationError",
    "InvalidFileError",
    "InvalidInputError",
    "InvalidModelError",
    "InvalidOptionError",
    "MissingServiceError",
    "NotEquivalentError",
    "RankMismatchError",
    "SuperoptError",
    "UnfitTypesError",
    "UnjudgedError",
    "UnprovedRuleError",
    "UnsupportedError",
]


INTERNAL_ERROR = "internal error, please report it"
"""How the reason begins why the original came back, where that is nobody's fault but ours."""


class SuperoptError(Exception):
    """Base of all errors that superopt raises on purpose."""

    exit_code: ClassVar[int] = 1


class InvalidInputError(SuperoptError):
    """Something that the user gave is wrong; the message says what, where, expected and got."""

    exit_code = 2


class InvalidModelError(InvalidInputError):
    """An ONNX model that cannot be read, or that neither the ONNX checker nor the runtime accepts."""


class InvalidEquationError(InvalidInputError):
    """Equation text that does not parse or cannot be a rule."""


class InvalidOptionError(InvalidInputError):
    """An option whose value makes no sense."""


class InvalidFileError(InvalidInputError):
    """A file other than a model (rules, report, profile) that cannot be read."""


class IllTypedError(SuperoptError):
    """An operator was applied to types that it does not accept."""


class DimensionMismatchError(IllTypedError):
    """Two dimensions that must be equal are not; unification catches it and solves ``left = right``."""

    def __init__(self, left: Dimension, right: Dimension, where: str) -> None:
        super().__init__(f"{where}: dimensions {left} and {right} must be equal")
        self.left = left
        self.right = right
        self.where = where


class UnfitTypesError(IllTypedError):
    """An operator was applied to types that it does not accept, whatever numbers their symbols stand for."""


class RankMismatchError(UnfitTypesError):
    """A tensor has the wrong number of dimensions."""

    def __init__(self, where: str, expected: str, got: int) -> None:
        super().__init__(f"{where}: expected rank {expected}, got {got}")


class UnsupportedError(SuperoptError):
    """A domain or an operator cannot do what was asked of it."""


class UnprovedRuleError(SuperoptError):
    """A rule without a current proof was about to be applied."""


class NotEquivalentError(SuperoptError):
    """A model that was about to be written does not compute what the original does."""


class DivergedError(SuperoptError):
    """Training stopped because the loss is not a finite number."""


class UnjudgedError(SuperoptError):
    """Items whose processes took too long, lacked memory or crashed, or models that run on no known input, so
    that nothing is known about them."""

    exit_code = 3


class MissingServiceError(SuperoptError):
    """A device, runtime or database that is needed is not there."""

    exit_code = 4
