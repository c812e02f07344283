#!/usr/bin/env bash
# Fails if a rule of a pull request is not proved. Usage: check-rules.sh [DIRECTORY]
set -euo pipefail
rules=${1:-rules}

if ! superopt gate "$rules"/*.txt; then
    echo "For each failing rule, superopt prove \"RULE\" prints a counterexample, and a condition under which it holds." >&2
    exit 1
fi
