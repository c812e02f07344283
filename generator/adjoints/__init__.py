"""Discovery of adjoint statements: terms with the value of a vector-Jacobian product.

- ``vocabulary``: the preset: operators, constants, applications to differentiate;
- ``reading``: its file;
- ``problem``: an application with its operands, cotangent and result as leaves of terms;
- ``search``: enumeration of terms, and comparison with the product;
- ``solving``: the operators at the root of a term, found by solving for an operand;
- ``forms``: the terms of a value.
"""

from superopt.generator.adjoints.forms import is_total, operators_in, ordered
from superopt.generator.adjoints.problem import Problem, problem_of
from superopt.generator.adjoints.reading import load_vocabulary, parse_vocabulary
from superopt.generator.adjoints.search import Batch, Product, gradients
from superopt.generator.adjoints.vocabulary import Goal, Search, Vocabulary

__all__ = [
    "Batch",
    "Goal",
    "Problem",
    "Product",
    "Search",
    "Vocabulary",
    "gradients",
    "is_total",
    "load_vocabulary",
    "operators_in",
    "ordered",
    "parse_vocabulary",
    "problem_of",
]
