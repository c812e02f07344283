"""The shipped library: the package's proved rules, loaded into a database on first use."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from superopt.errors import InvalidFileError
from superopt.substitution_db.rules.currency import current
from superopt.substitution_db.rules.exchange import read_shipped
from superopt.substitution_db.rules.versions import publish
from superopt.substitution_db.store.engine import Transactions, now
from superopt.substitution_db.store.models import LibraryRow, ProofRow
from superopt.substitution_db.store.records import Hashes, Proof
from superopt.substitution_db.store.rows import NewRule, insert_proofs, insert_rules, record_selections

SHIPPED_LIBRARY = Path(__file__).parents[1] / "library.jsonl"
LIBRARY = "SUPEROPT_LIBRARY"


def shipped_library(environment: Mapping[str, str] = os.environ) -> Path:
    """The file loaded into a new database: ``SUPEROPT_LIBRARY`` (an empty file for no rules), else the one in
    the package. Raises InvalidFileError if there is no such file.
    """
    text = environment.get(LIBRARY)
    if not text:
        return SHIPPED_LIBRARY
    path = Path(text).expanduser().absolute()
    if not path.exists():
        raise InvalidFileError(f"{path}: there is no such file, which {LIBRARY} names")
    return path


def load_shipped(transactions: Transactions, path: Path) -> int:
    """Loads and publishes the rules of the file with their proofs, unless this file was the last one loaded.

    Proofs made under other axioms, operators or verifier are not valid. Returns how many rules were new.
    Raises InvalidFileError for a damaged file. Safe for concurrent processes.
    """
    content = path.read_bytes() if path.exists() else b""
    sha256 = hashlib.sha256(content).hexdigest()
    with transactions.read() as session:
        row = session.get(LibraryRow, 1)
        if row is not None and row.shipped_sha256 == sha256:
            return 0
    rules = dict(read_shipped(path)) if path.exists() else {}
    with transactions.exclusive() as connection, Session(connection) as session, session.begin():
        return _store(session, rules, sha256)


def _store(session: Session, rules: Mapping[NewRule, Proof | None], sha256: str) -> int:
    row = session.get(LibraryRow, 1)
    if row is not None and row.shipped_sha256 == sha256:
        return 0
    if row is None:
        row = LibraryRow(id=1)
        session.add(row)
    # no hashes, so that the next comparison covers every proof
    row.shipped_sha256, row.axioms_hash, row.operators_hash, row.verifier_hash = sha256, "", "", ""
    time = now(session)
    new = insert_rules(session, rules, time)
    record_selections(session, {rule.id: rule.selection for rule in rules if rule.selection is not None})
    proved = _proved(session)
    insert_proofs(
        session,
        {
            rule.id: proof
            for rule, proof in rules.items()
            if proof is not None and (rule.id in new or (rule.id, proof.hashes) not in proved)
        },
        time,
    )
    publish(session, current(), "the shipped library")
    return len(new)


def _proved(session: Session) -> frozenset[tuple[str, Hashes]]:
    """Pairs of rule and hashes for which a proof is stored."""
    rows = session.execute(
        select(ProofRow.rule_id, ProofRow.axioms_hash, ProofRow.operators_hash, ProofRow.verifier_hash)
    )
    return frozenset((rule, Hashes(*hashes)) for rule, *hashes in rows)
