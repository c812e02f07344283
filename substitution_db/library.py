"""The shipped library: rules with proofs that come with the package, loaded at first use of a database."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from substitution_db.engine import Transactions, now
from substitution_db.exchange import LibraryLine, read_json_lines
from substitution_db.models import LibraryRow, ProofRow
from substitution_db.records import Hashes
from substitution_db.rows import insert_rules, proof_values
from substitution_db.rules import add_proof
from superopt.errors import InvalidFileError

SHIPPED_LIBRARY = Path(__file__).parent / "library.jsonl"
LIBRARY = "SUPEROPT_LIBRARY"


def shipped_library(environment: Mapping[str, str] = os.environ) -> Path:
    """The file that fills a new database: ``SUPEROPT_LIBRARY`` (an empty file for no rules), else the one in
    the package.
    """
    text = environment.get(LIBRARY)
    return Path(text).expanduser().absolute() if text else SHIPPED_LIBRARY


def load_shipped(transactions: Transactions, path: Path) -> int:
    """Loads the rules of the file with their proofs, unless just this file was loaded before.

    A proof says which axioms, operators and verifier it is about: under others it counts for nothing. Returns
    how many rules were new. Raises InvalidFileError for a damaged file. Safe when several processes do it.
    """
    content = path.read_bytes() if path.exists() else b""
    sha256 = hashlib.sha256(content).hexdigest()
    with transactions.read() as session:
        row = session.get(LibraryRow, 1)
        if row is not None and row.shipped_sha256 == sha256:
            return 0
    lines = _read(path)
    with transactions.exclusive() as connection, Session(connection) as session, session.begin():
        return _store(session, lines, sha256)


def _read(path: Path) -> tuple[LibraryLine, ...]:
    lines = read_json_lines(path) if path.exists() else ()
    for line in lines:
        if line.rule.id != line.id:
            raise InvalidFileError(f"{path}: the id of {line.rule.equation} is {line.rule.id}, got {line.id}")
    return lines


def _store(session: Session, lines: Sequence[LibraryLine], sha256: str) -> int:
    row = session.get(LibraryRow, 1)
    if row is not None and row.shipped_sha256 == sha256:
        return 0
    if row is None:
        row = LibraryRow(id=1)
        session.add(row)
    # no hashes: the next comparison looks at every proof
    row.shipped_sha256, row.axioms_hash, row.operators_hash, row.verifier_hash = sha256, "", "", ""
    time = now(session)
    new = insert_rules(session, (line.rule for line in lines), time)
    for line in lines:
        proof = line.proof
        if proof is not None and (line.id in new or not _proved_under(session, line.id, proof.hashes)):
            add_proof(session, line.id, proof_values(line.id, proof, time))
    return len(new)


def _proved_under(session: Session, rule: str, hashes: Hashes) -> bool:
    statement = select(ProofRow.id).where(
        ProofRow.rule_id == rule,
        ProofRow.axioms_hash == hashes.axioms,
        ProofRow.operators_hash == hashes.operators,
        ProofRow.verifier_hash == hashes.verifier,
    )
    return session.scalars(statement.limit(1)).first() is not None
