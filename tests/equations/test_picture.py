"""Pictures of equations, as they are printed."""

from __future__ import annotations

import pytest

from superopt.equations import parse_equation, picture

LONG = "stride=(2, 1), padding=same_upper, dilation=(1, 2)"

PICTURES = [
    (
        "add(matmul(x, y), matmul(x, z)) => matmul(x, add(y, z))",
        """
add        =>  matmul
├─ matmul      ├─ x
│  ├─ x        └─ add
│  └─ y           ├─ y
└─ matmul         └─ z
   ├─ x
   └─ z
""",
    ),
    (
        "add(relu(x), relu(x)) <=> scale(relu(x), full[value=2]())",
        """
add          <=>  scale
├─ (1) relu       ├─ (1)
│  └─ x           └─ full[value=2]
└─ (1)
""",
    ),
    (
        "(relu(x), tanh(relu(x))) => (relu(x), sigmoid(add(y, relu(x))))",
        """
(1) relu  =>  (1)
└─ x          sigmoid
tanh          └─ add
└─ (1)           ├─ y
                 └─ (1)
""",
    ),
    (
        f"tanh(conv[{LONG}](x, y)) => conv[{LONG}, activation=tanh](x, y)",
        f"""
tanh
└─ conv[{LONG}]
   ├─ x
   └─ y

=>

conv[{LONG}, activation=tanh]
├─ x
└─ y
""",
    ),
    ("identity(x) => x", "\nidentity  =>  x\n└─ x\n"),
]


@pytest.mark.parametrize(("text", "expected"), PICTURES)
def test_pictures(text: str, expected: str) -> None:
    assert picture(parse_equation(text)) == expected.strip("\n")
