"""Equations written to deceive the verifier, and certificates forged, against an oracle in plain numpy.

    python -m tests.verifier.adversary --minutes 10 [--seed S] [--count N] [--json]
    python -m tests.verifier.adversary.forge --count 5000 [--seed S]

Both end with exit code 1 when something false was accepted.
"""
