"""``python -m superopt``: the command line."""

from superopt.cli import main

main()
