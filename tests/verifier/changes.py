"""How planted rules are wrong: each kind changes the right side, or the conditions, of a proved rule."""

# ruff: noqa: ARG001 (every change has the same signature)

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from superopt.ir.terms import (
    Application,
    AttributeTerm,
    Condition,
    ConditionCall,
    ConditionName,
    Equation,
    Term,
    Variable,
    applications,
    subterms,
    variables,
)
from superopt.ops.terms import application

SQUARE = "a coincidence of square shapes"
"""Both sides must have the same type when all dimensions are equal."""

ACTIVATIONS = ("relu", "sigmoid", "tanh", "hard_sigmoid", "hard_swish", "gelu", "softmax")
NOT_COMMUTING = ("matmul", "concat", "sub", "div", "conv", "kernel_response", "affine")
WEIGHTED = ("matmul", "conv", "enlarge", "kernel_response")
NUMBERS = ("alpha", "beta", "bias", "value", "exponent", "epsilon", "size")
OTHER_OPERATORS: Mapping[str, tuple[str, ...]] = {
    "add": ("mul", "sub"),
    "avgpool": ("maxpool",),
    "avgpool_kernel": ("identity_kernel",),
    "bias_add": ("channel_scale",),
    "channel_scale": ("bias_add",),
    "concat": ("add", "mul"),
    "div": ("mul", "sub"),
    "erf": ("tanh",),
    "gelu": ("hard_swish",),
    "hard_sigmoid": ("hard_swish", "sigmoid"),
    "hard_swish": ("gelu", "relu"),
    "identity_kernel": ("avgpool_kernel",),
    "matmul": ("mul", "add"),
    "maxpool": ("avgpool",),
    "mul": ("add", "div"),
    "relu": ("sigmoid", "tanh", "identity"),
    "sigmoid": ("tanh", "relu"),
    "sqrt": ("relu",),
    "sub": ("add", "div"),
    "tanh": ("sigmoid", "erf"),
}
OTHER_VALUES: Mapping[str, tuple[AttributeTerm, ...]] = {
    "axis": (0, 1, -1, -2, 2),
    "stride": ((1, 1), (2, 2), (1, 2), (2, 1), (3, 3)),
    "padding": ("valid", "same", "same_upper", "same_lower", (1, 1, 1, 1), (1, 0, 0, 1)),
    "activation": ("none", "relu", "sigmoid", "tanh"),
    "kernel": ((1, 1), (3, 3), (2, 2), (3, 1)),
    "dilation": ((1, 1), (2, 2), (1, 2)),
    "includes_padding": (0, 1),
}
_WITH_DEFAULT: Mapping[str, tuple[str, ...]] = {
    "stride": ("conv", "maxpool", "avgpool"),
    "padding": ("conv", "maxpool", "avgpool"),
    "dilation": ("conv",),
    "activation": ("conv",),
    "includes_padding": ("avgpool",),
}

Change = Callable[[Equation, random.Random], "Equation | None"]
TermChange = Callable[[Application, random.Random], "Term | None"]
Where = Callable[[Application], bool]


def _at(where: Where, change: TermChange) -> Change:
    """The change made at one application of the right side, all its occurrences alike."""

    def changed(equation: Equation, generator: random.Random) -> Equation | None:
        places = [term for term in applications(*equation.right) if where(term)]
        if not places:
            return None
        old = generator.choice(places)
        new = change(old, generator)
        return None if new is None else _with_right(equation, old, new)

    return changed


def _with_right(equation: Equation, old: Term, new: Term) -> Equation:
    return replace(equation, right=tuple(_replaced(term, old, new) for term in equation.right))


def _replaced(term: Term, old: Term, new: Term) -> Term:
    if term == old:
        return new
    if isinstance(term, Variable):
        return term
    return replace(term, inputs=tuple(_replaced(child, old, new) for child in term.inputs))


def _of(*operators: str) -> Where:
    return lambda term: term.operator in operators


def _has_inputs(term: Application) -> bool:
    return bool(term.inputs)


def _attribute(name: str) -> Change:
    """Another value where the attribute stands, or where it has its default."""

    def accepts(term: Application) -> bool:
        return term.attribute(name) is not None or term.operator in _WITH_DEFAULT.get(name, ())

    def change(term: Application, generator: random.Random) -> Term:
        return _with_value(term, name, generator.choice(OTHER_VALUES[name]))

    return _at(accepts, change)


def _with_value(term: Application, name: str, value: AttributeTerm) -> Application:
    return application(term.operator, {**dict(term.attributes), name: value}, *term.inputs)


def _swap(term: Application, generator: random.Random) -> Term:
    first, second = generator.sample(range(len(term.inputs)), 2)
    inputs = list(term.inputs)
    inputs[first], inputs[second] = inputs[second], inputs[first]
    return replace(term, inputs=tuple(inputs))


def _is_activated(term: Application) -> bool:
    return term.operator in ACTIVATIONS or term.attribute("activation") is not None


def _without_activation(term: Application, generator: random.Random) -> Term:
    return _with_value(term, "activation", "none") if term.operator == "conv" else term.inputs[0]


def _transposed_operand(term: Application, generator: random.Random) -> Term:
    index = {"conv": 1, "matmul": generator.randrange(2)}.get(term.operator, 0)
    operand = term.inputs[index]
    if term.operator == "matmul":
        new = _transposed(operand)
    else:
        new = application("transpose", {"perm": generator.choice(((1, 0, 2, 3), (0, 1, 3, 2)))}, operand)
    return replace(term, inputs=(*term.inputs[:index], new, *term.inputs[index + 1 :]))


def _transposed(term: Term) -> Term:
    if isinstance(term, Application) and term.operator == "transpose":
        return term.inputs[0]
    return application("transpose", {}, term)


def _other_half(term: Application, generator: random.Random) -> Term:
    other = {"split0": "split1", "split1": "split0"}[term.operator]
    return application(other, dict(term.attributes), *term.inputs)


def _square(equation: Equation, generator: random.Random) -> Equation | None:
    change = generator.choice((_misaligned, _transposed_somewhere, _other_axis_of_two))
    return change(equation, generator)


def _misaligned(equation: Equation, generator: random.Random) -> Equation | None:
    """All concats under one operator in the other order, so that blocks meet that need not fit."""

    def change(term: Application, generator: random.Random) -> Term:
        turned = (replace(c, inputs=c.inputs[::-1]) if _is_concat(c) else c for c in term.inputs)
        return replace(term, inputs=tuple(turned))

    return _at(lambda term: any(map(_is_concat, term.inputs)), change)(equation, generator)


def _is_concat(term: Term) -> bool:
    return isinstance(term, Application) and term.operator == "concat"


def _transposed_somewhere(equation: Equation, generator: random.Random) -> Equation | None:
    victim = generator.choice([*subterms(*equation.right)])
    return _with_right(equation, victim, _transposed(victim))


def _other_axis_of_two(equation: Equation, generator: random.Random) -> Equation | None:
    def change(term: Application, generator: random.Random) -> Term | None:
        other = {-1: -2, -2: -1, 0: 1, 1: 0}
        return next(
            (_with_value(term, name, other[axis]) for name, axis in term.attributes if axis in other), None
        )

    return _at(lambda term: term.attribute("axis") is not None, change)(equation, generator)


def _without_condition(equation: Equation, generator: random.Random) -> Equation | None:
    if not equation.conditions:
        return None
    dropped = generator.choice(equation.conditions)
    return replace(equation, conditions=tuple(c for c in equation.conditions if c != dropped))


def _wrong_groups(equation: Equation, generator: random.Random) -> Equation | None:
    """Channels or kernels joined that were not, or another condition on groups and channels."""
    if equation.conditions and generator.random() < 0.5:
        return _other_condition(equation, generator)
    return _at(_of("conv"), _doubled)(equation, generator)


def _doubled(term: Application, generator: random.Random) -> Term:
    data, weight = term.inputs
    wide = application("concat", {"axis": 1}, data, data)
    weights = application("concat", {"axis": generator.choice((0, 1))}, weight, weight)
    return replace(term, inputs=generator.choice(((wide, weight), (data, weights), (wide, weights))))


def _other_condition(equation: Equation, generator: random.Random) -> Equation | None:
    old = generator.choice(equation.conditions)
    names = variables(*equation.left)
    if len(names) < 2:
        return None
    first, second = map(ConditionName, generator.sample(names, 2))
    channels = [ConditionCall("channels", (name,)) for name in (first, second)]
    outputs = [ConditionCall("dim", (name, 0)) for name in (first, second)]
    new = generator.choice(
        (
            replace(old, relation=generator.choice(("!=", ">=", "<=") if old.relation == "=" else ("=",))),
            Condition(ConditionCall("groups", (first, second)), "=", generator.choice((1, 2))),
            Condition(channels[0], "=", channels[1]),
            Condition(outputs[0], "=", outputs[1]),
        )
    )
    return replace(equation, conditions=tuple(new if c == old else c for c in equation.conditions))


def _wrong_constant(equation: Equation, generator: random.Random) -> Equation | None:
    named = _at(lambda term: any(_numbers_of(term)), _other_number)
    changed = named(equation, generator) if generator.random() < 0.7 else None
    return changed or _at(_has_inputs, _times_a_constant)(equation, generator)


def _numbers_of(term: Application) -> list[str]:
    defaults = ["alpha", "beta"] if term.operator == "hard_sigmoid" else []
    return [*(name for name, _ in term.attributes if name in NUMBERS), *defaults]


def _other_number(term: Application, generator: random.Random) -> Term:
    return _with_value(term, generator.choice(_numbers_of(term)), generator.choice((1, 2, 3, 4)))


def _times_a_constant(term: Application, generator: random.Random) -> Term:
    factor = application("full", {"value": generator.choice((0, 2, -1, 3)), "shape": ()})
    return application("scale", {}, term, factor)


def _other_operator(term: Application, generator: random.Random) -> Term:
    other = generator.choice(OTHER_OPERATORS[term.operator])
    values = dict(term.attributes)
    if other == "maxpool":
        values.pop("includes_padding", None)
    elif other not in ("avgpool", "channel_scale", "bias_add", "identity_kernel", "avgpool_kernel"):
        values = {}
    return application(other, values, *term.inputs)


def _other_input(equation: Equation, generator: random.Random) -> Equation | None:
    def change(term: Application, generator: random.Random) -> Term:
        index = generator.randrange(len(term.inputs))
        other = Variable(generator.choice(variables(*equation.left)))
        return replace(term, inputs=(*term.inputs[:index], other, *term.inputs[index + 1 :]))

    return _at(_has_inputs, change)(equation, generator) if variables(*equation.left) else None


def _added(term: Application, generator: random.Random) -> Term:
    return application(generator.choice(("relu", "sigmoid", "tanh", "sqrt")), {}, term)


def _dropped(term: Application, generator: random.Random) -> Term:
    return generator.choice(term.inputs)


def _swapped_outputs(equation: Equation, generator: random.Random) -> Equation | None:
    return replace(equation, right=equation.right[::-1]) if len(equation.right) > 1 else None


KINDS: Mapping[str, Change] = {
    "swapped operands": _at(_of(*NOT_COMMUTING), _swap),
    "wrong axis": _attribute("axis"),
    "wrong padding": _attribute("padding"),
    "dropped activation": _at(_is_activated, _without_activation),
    "wrong stride": _attribute("stride"),
    "transposed weights": _at(_of(*WEIGHTED), _transposed_operand),
    "split order": _at(_of("split0", "split1"), _other_half),
    SQUARE: _square,
    "dropped condition": _without_condition,
    "wrong groups": _wrong_groups,
    "wrong constant": _wrong_constant,
    "wrong kernel": _attribute("kernel"),
    "wrong dilation": _attribute("dilation"),
    "padding counted": _attribute("includes_padding"),
    "wrong activation": _attribute("activation"),
    "another operator": _at(_of(*OTHER_OPERATORS), _other_operator),
    "another input": _other_input,
    "an operator too many": _at(_has_inputs, _added),
    "an operator too few": _at(_has_inputs, _dropped),
    "swapped outputs": _swapped_outputs,
}
"""Named as they are reported; each returns None where it does not apply."""
