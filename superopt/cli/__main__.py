"""``python -m superopt.cli``: the command line."""

from superopt.cli import main

main()
