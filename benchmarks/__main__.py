"""Runs a benchmark by name: ``python -m benchmarks NAME [OPTION ...]``; without a name, lists them."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path


def main() -> int:
    """Hands the rest of the command line to the benchmark; 2 where there is none of that name."""
    folder = Path(__file__).parent
    names = [path.stem for path in sorted(folder.glob("[a-z]*.py")) if "def main()" in path.read_text()]
    if len(sys.argv) > 1 and sys.argv[1] in names:
        name = sys.argv.pop(1)
        sys.argv[0] = f"benchmarks {name}"
        runpy.run_module(f"benchmarks.{name}", run_name="__main__", alter_sys=False)
        return 0
    for name in names:
        purpose = (ast.get_docstring(ast.parse((folder / f"{name}.py").read_text())) or "").splitlines()[0]
        sys.stdout.write(f"{name:12} {purpose}\n")
    return 2 if sys.argv[1:] else 0


if __name__ == "__main__":
    sys.exit(main())
