"""Runs a benchmark by name: ``python -m benchmarks NAME [OPTION ...]``; without a name, lists them."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path


def main() -> int:
    """Hands the rest of the command line to the benchmark; 2 where there is none of that name."""
    paths = sorted(Path(__file__).parent.glob("*/[a-z]*.py"), key=lambda path: path.stem)
    named = {path.stem: path for path in paths if "def main()" in path.read_text()}
    if len(sys.argv) > 1 and sys.argv[1] in named:
        name = sys.argv.pop(1)
        sys.argv[0] = f"benchmarks {name}"
        module = f"benchmarks.{named[name].parent.name}.{name}"
        runpy.run_module(module, run_name="__main__", alter_sys=False)
        return 0
    for name, path in named.items():
        purpose = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()[0]
        sys.stdout.write(f"{name:12} {purpose}\n")
    return 2 if sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
