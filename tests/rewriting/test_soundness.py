"""Sound rules at random places of random graphs: graphs stay well-formed and return what they returned."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from superopt.equations import format_equation, parse_equations
from superopt.ir import Graph, format_graph
from superopt.rewriting import Match, apply_match, find_matches, substitutions_of
from tests.rewriting.graphs import check_well_formed, values_of
from tests.rewriting.random_graphs import random_images, random_matrices

RULES = """
matmul-associative: matmul(x, matmul(y, z)) <=> matmul(matmul(x, y), z)
matmul-distributes: matmul(x, add(y, z)) <=> add(matmul(x, y), matmul(x, z))
matmul-of-columns: concat[axis=-1](matmul(x, y), matmul(x, z)) <=> matmul(x, concat[axis=-1](y, z))
matmul-of-rows: concat[axis=-2](matmul(x, z), matmul(y, z)) <=> matmul(concat[axis=-2](x, y), z)
matmul-of-blocks: add(matmul(x, y), matmul(z, w)) <=> matmul(concat[axis=-1](x, z), concat[axis=-2](y, w))
matmuls-merge: (matmul(x, y), matmul(x, z))
    => (split0[axis=-1](matmul(x, concat[axis=-1](y, z))), split1[axis=-1](matmul(x, concat[axis=-1](y, z))))
matmul-transposed: transpose(matmul(x, y)) <=> matmul(transpose(y), transpose(x))
transpose-twice: transpose(transpose(x)) => x
transpose-relu: transpose(relu(x)) <=> relu(transpose(x))
transpose-concat: transpose(concat[axis=0](x, y)) <=> concat[axis=1](transpose(x), transpose(y))
    where rank(x) = 2
add-commutative: add(x, y) => add(y, x)
add-associative: add(x, add(y, z)) <=> add(add(x, y), z)
mul-distributes: mul(x, add(y, z)) <=> add(mul(x, y), mul(x, z))
mul-ones: mul(x, y) => mul(mul(x, ones()), y)
scale-add: scale(add(x, y), z) <=> add(scale(x, z), scale(y, z))
scale-matmul: scale(matmul(x, y), z) <=> matmul(scale(x, z), y)
relu-twice: relu(relu(x)) <=> relu(x)
relu-concat: concat[axis=a](relu(x), relu(y)) <=> relu(concat[axis=a](x, y))
sigmoid-concat: concat[axis=a](sigmoid(x), sigmoid(y)) <=> sigmoid(concat[axis=a](x, y))
concat-associative: concat[axis=a](concat[axis=a](x, y), z) <=> concat[axis=a](x, concat[axis=a](y, z))
concat-of-halves: concat[axis=a](split0[axis=a](x), split1[axis=a](x)) => x
first-half-of-concat: split0[axis=a](concat[axis=a](x, y)) => x
second-half-of-concat: split1[axis=a](concat[axis=a](x, y)) => y
halves-of-add: (add(split0[axis=a](x), split0[axis=a](y)), add(split1[axis=a](x), split1[axis=a](y)))
    => (split0[axis=a](add(x, y)), split1[axis=a](add(x, y)))
relu-of-half: relu(split0[axis=a](x)) <=> split0[axis=a](relu(x))
relus-merge: (relu(x), relu(y)) => (split0[axis=0](relu(concat[axis=0](x, y))),
    split1[axis=0](relu(concat[axis=0](x, y))))
sub-of-same: sub(x, y) <=> add(x, sub(sub(y, y), y))
conv-relu: relu(conv[stride=s, padding=p, dilation=d](x, w))
    <=> conv[stride=s, padding=p, dilation=d, activation=relu](x, w)
conv-of-concat: conv[stride=s, padding=p](concat[axis=1](x, y), concat[axis=1](z, w))
    => add(conv[stride=s, padding=p](x, z), conv[stride=s, padding=p](y, w)) where channels(x) = channels(z)
convs-add: add(conv[stride=s, padding=p](x, y), conv[stride=s, padding=p](z, w))
    => conv[stride=s, padding=p](concat[axis=1](x, z), concat[axis=1](y, w))
    where channels(x) = channels(y), channels(z) = channels(w)
convs-merge: (conv[stride=s, padding=p](x, y), conv[stride=s, padding=p](x, z))
    => (split0[axis=1](conv[stride=s, padding=p](x, concat[axis=0](y, z))),
        split1[axis=1](conv[stride=s, padding=p](x, concat[axis=0](y, z)))) where channels(x) = channels(y)
convs-concat: concat[axis=1](conv[stride=s, padding=p](x, y), conv[stride=s, padding=p](x, z))
    <=> conv[stride=s, padding=p](x, concat[axis=0](y, z)) where channels(x) = channels(y)
conv-enlarge: conv[padding=same](x, w) => conv[padding=same](x, enlarge[kernel=3](w))
conv-distributes: conv[stride=s, padding=p](x, add(y, z))
    <=> add(conv[stride=s, padding=p](x, y), conv[stride=s, padding=p](x, z))
conv-scaled: channel_scale[axis=1](conv[stride=s, padding=p](x, w), v)
    <=> conv[stride=s, padding=p](x, channel_scale[axis=0](w, v))
conv-affine: affine[axis=1](conv[stride=s, padding=p](x, w), v, u)
    <=> bias_add[axis=1](conv[stride=s, padding=p](x, channel_scale[axis=0](w, v)), u)
affine-parts: affine[axis=a](x, v, u) <=> bias_add[axis=a](channel_scale[axis=a](x, v), u)
bias-of-concat: concat[axis=1](bias_add[axis=1](x, v), bias_add[axis=1](y, u))
    <=> bias_add[axis=1](concat[axis=1](x, y), concat[axis=0](v, u))
biases-add: bias_add[axis=a](bias_add[axis=a](x, v), u) <=> bias_add[axis=a](x, add(v, u))
pools-concat: concat[axis=1](maxpool[kernel=k, padding=p](x), maxpool[kernel=k, padding=p](y))
    <=> maxpool[kernel=k, padding=p](concat[axis=1](x, y))
pool-relu: relu(maxpool[kernel=k, stride=s, padding=p](x)) <=> maxpool[kernel=k, stride=s, padding=p](relu(x))
pool-add: add(avgpool[kernel=k, padding=p](x), avgpool[kernel=k, padding=p](y))
    <=> avgpool[kernel=k, padding=p](add(x, y))
pool-is-conv: avgpool[kernel=k, stride=s, padding=p, includes_padding=1](x)
    => conv[stride=s, padding=p](x, avgpool_kernel[kernel=k])
"""
SUBSTITUTIONS = tuple(s for e in parse_equations(RULES) for s in substitutions_of(e, e.name))
STEPS = 10
WALKS = 120
LARGEST = 45


class Walk:
    """Applies rules one after another to one graph; rarely used ones come first."""

    def __init__(self, graph: Graph, chance: random.Random, uses: Counter[tuple[str, bool]]) -> None:
        self.graph = graph
        self._chance = chance
        self._uses = uses
        self._values = values_of(graph)

    def step(self) -> bool:
        """Applies one rule somewhere, one that was used rarely; whether there was one that applies."""
        mixed = self._chance.sample(SUBSTITUTIONS, len(SUBSTITUTIONS))
        for substitution in sorted(mixed, key=lambda s: self._uses[s.rule_id, s.backwards]):
            matches = list(find_matches(self.graph, substitution))
            self._chance.shuffle(matches)
            if any(self._apply(match) for match in matches[:3]):
                return True
        return False

    def _apply(self, match: Match) -> bool:
        rewrite = apply_match(self.graph, match)
        if rewrite is None:
            return False
        story = f"{format_equation(match.substitution.equation)}\n{format_graph(self.graph)}\n{match.values}"
        check_well_formed(rewrite.graph)
        assert set(rewrite.removed) == set(self.graph.nodes) - set(rewrite.graph.nodes), story
        assert set(rewrite.added) == set(rewrite.graph.nodes) - set(self.graph.nodes), story
        assert values_of(rewrite.graph) == self._values, story
        self._uses[match.substitution.rule_id, match.substitution.backwards] += 1
        if len(rewrite.graph) <= LARGEST:
            self.graph = rewrite.graph
        return True


@pytest.fixture(scope="module")
def uses() -> Counter[tuple[str, bool]]:
    """How often each rule was applied in all walks."""
    counts: Counter[tuple[str, bool]] = Counter()
    for seed in range(WALKS):
        chance = random.Random(seed)
        make = random_matrices if seed % 2 else random_images
        graph = make(chance, chance.randint(4, 20))
        check_well_formed(graph)
        walk = Walk(graph, chance, counts)
        for _ in range(STEPS):
            if not walk.step():
                break
    return counts


def test_random_rewriting(uses: Counter[tuple[str, bool]]) -> None:
    assert uses.total() >= 800


def test_most_rules_were_applied_somewhere(uses: Counter[tuple[str, bool]]) -> None:
    assert len(uses) >= 0.8 * len(SUBSTITUTIONS)
