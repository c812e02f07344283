"""``/v1/substitutions``: list and read rules, prove an equation."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import APIRouter, Depends, Path, Query, Request

from superopt.equations import format_equation, parse_equation, rule_id
from superopt.errors import InvalidEquationError, InvalidOptionError
from superopt.processes.child import ResourceLimits, Returned, Stopped
from superopt.server.http.cursors import cursor_of, place_of
from superopt.server.http.documents import (
    ProofAnswer,
    ProofRequest,
    SubstitutionDocument,
    SubstitutionPage,
)
from superopt.server.http.openapi import failures
from superopt.server.http.problems import Problem
from superopt.server.http.security import Caller, require
from superopt.server.http.state import State, state_of
from superopt.server.problem_types import ProblemType
from superopt.server.process.child import Died, Failed, run_in_child
from superopt.substitution_db import Outcome, RuleFilter, RuleStatus
from superopt.substitution_db.store.records import JsonObject

router = APIRouter(prefix="/v1/substitutions", tags=["substitutions"])
Reader = Annotated[Caller, Depends(require("read"))]
_LIST = "substitutions"
PROVE = "superopt.server.worker.proving:prove_in_child"


@router.get("", responses=failures(ProblemType.PARAMETERS, ProblemType.CURSOR))
def list_substitutions(
    request: Request,
    _: Reader,
    status: RuleStatus | None = None,
    operator: Annotated[str | None, Query(max_length=64)] = None,
    family: Annotated[
        str | None, Query(max_length=64, description="Family of an operator that the rule replaces.")
    ] = None,
    q: Annotated[str | None, Query(max_length=200, description="Text contained in the equation.")] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 50,
    cursor: Annotated[
        str | None,
        Query(
            max_length=200,
            description="`next` of the previous page.",
            json_schema_extra={"format": "substitutions-cursor"},
        ),
    ] = None,
) -> SubstitutionPage:
    """List rules, smallest first."""
    chosen = RuleFilter(status=status, operator=operator, text=q, family=family)
    after = None if cursor is None else place_of(_LIST, cursor)
    try:
        rules = state_of(request).database.rules.list(chosen, after=after, limit=limit + 1)
    except InvalidOptionError as error:
        raise Problem(ProblemType.CURSOR, str(error)) from error
    shown = rules[:limit]
    return SubstitutionPage(
        items=[SubstitutionDocument.of(rule) for rule in shown],
        next=cursor_of(_LIST, shown[-1].id) if len(rules) > limit else None,
    )


@router.get("/{identity}", responses=failures(ProblemType.NOT_FOUND, ProblemType.PARAMETERS))
def read(
    request: Request,
    _: Reader,
    identity: Annotated[
        str, Path(description="The id of a rule.", json_schema_extra={"format": "substitution"})
    ],
) -> SubstitutionDocument:
    """Read a rule with its proof."""
    rule = state_of(request).database.rules.get(identity)
    if rule is None:
        raise Problem(ProblemType.NOT_FOUND, f"there is no rule {identity[:64]}")
    return SubstitutionDocument.of(rule)


@router.post(
    "/prove",
    responses=failures(
        ProblemType.EQUATION,
        ProblemType.PARAMETERS,
        ProblemType.CONTENT_TYPE,
        ProblemType.BUSY,
        ProblemType.UPLOAD_TOO_LARGE,
        ProblemType.SLOW,
    ),
)
def prove(request: Request, _: Reader, asked: ProofRequest) -> ProofAnswer:
    """Judge an equation as written: verified, refuted with a counterexample, or unproved.

    A refuted equation comes with a condition under which it holds, if one is found.
    """
    state = state_of(request)
    try:
        equation = parse_equation(asked.equation)
    except InvalidEquationError as error:
        raise Problem(ProblemType.EQUATION, str(error)) from error
    identity = rule_id(equation)
    verdict = _verdict(state, asked.equation)
    known = state.database.rules.get(identity)
    return ProofAnswer.model_validate(
        {
            **verdict,
            "id": identity,
            "equation": format_equation(equation),
            "known": None if known is None else known.status,
        }
    )


def _verdict(state: State, equation: str) -> JsonObject:
    """The verdict of a child process, or the part of it that was complete at the time limit; unproved without
    any.
    """
    settings = state.settings
    limits = ResourceLimits(settings.max_prove_seconds, settings.max_job_bytes, 0.0, settings.job_niceness)
    told: list[JsonObject] = []
    if not state.proofs.acquire(blocking=False):
        raise Problem(ProblemType.BUSY, "too many proofs in progress", headers={"Retry-After": "5"})
    try:
        ending = run_in_child(
            PROVE,
            {"equation": equation},
            limits,
            on_progress=told.append,
            wanted=lambda: not state.stopping.is_set(),
        )
    finally:
        state.proofs.release()
    match ending:
        case Returned(result):
            return result
        case Failed(problem) if problem.get("type") == _slug(ProblemType.EQUATION):
            raise Problem(ProblemType.EQUATION, str(problem["detail"]))
        case Failed() | Died() if told:
            return told[-1]
        case Failed(problem) | Died(problem):
            return _unproved(cast("str", problem["detail"]))
        case Stopped():
            raise Problem(ProblemType.BUSY, "the service is stopping")


def _slug(type_: ProblemType) -> str:
    return f"/problems/{type_.slug}"


def _unproved(reason: str) -> JsonObject:
    return {
        "verdict": str(Outcome.UNPROVED),
        "prover": "",
        "version": "",
        "axioms_used": [],
        "milliseconds": 0.0,
        "validated_shapes": [],
        "counterexample": None,
        "condition": None,
        "reason": reason,
        "grade": "",
        "confirmed_by": "",
        "certificate": None,
    }
