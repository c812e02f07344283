"""A second proof checker, written from docs/proof.md and docs/equations.md alone.

It shares with the first one the language (parser, terms, dimensions) and what operators say of types,
and nothing of ``verifier`` but the format of certificates. ``judge`` answers accepted, rejected or unknown.
"""

from tests.verifier.second_checker.judge import Answer, Judgement, judge

__all__ = ["Answer", "Judgement", "judge"]
