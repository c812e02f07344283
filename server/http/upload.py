"""Streaming multipart upload: parts are written to disk on arrival, with every limit enforced on the way.

Files go to the blob store's incoming directory and become blobs once the whole request is accepted.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import AsyncIterator, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import anyio
from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import ClientDisconnect

from superopt.server.http.locations import check_locations, display_name
from superopt.server.http.problems import Problem, sentence
from superopt.server.http.state import state_of
from superopt.server.problem_types import ProblemType, type_called
from superopt.server.process.child import Failed
from superopt.server.process.sandbox import Bounds, run_in_sandbox
from superopt.server.settings import Settings
from superopt.substitution_db.store.blobs import BlobStore, BlobWriter
from superopt.substitution_db.store.records import JobFile, JobRole, JsonObject

_OPTIONS_BYTES = 1 << 20
_CLUSTER_BYTES = 256 << 10
_MODEL_BYTES = (1 << 31) - 1
_BATCH_BYTES = 1 << 20
_IDLE_SECONDS = 60.0
"""How long a client may pause while it sends."""

_INSPECTION = "superopt.server.worker.inspection:inspect"
_INSPECTION_SECONDS = 4.0
_BYTES_PER_SECOND = 200 << 20
_INSPECTION_BYTES = 1 << 30
_MEMORY_PER_BYTE = 3
_LIMITS = {JobRole.MODEL: _MODEL_BYTES, JobRole.CLUSTER: _CLUSTER_BYTES}
_FILES = {"model": JobRole.MODEL, "data": JobRole.DATA, "cluster": JobRole.CLUSTER}
MODEL_NAME = "model.onnx"
CLUSTER_NAME = "cluster.yaml"


@dataclass
class _Part:
    headers: dict[str, bytes] = field(default_factory=dict[str, bytes])
    header: bytes = b""
    value: bytes = b""
    name: str = ""
    writer: BlobWriter | None = None


class Upload:
    """A request being read. Its files are removed at the end of the ``with`` block unless kept."""

    def __init__(self, store: BlobStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._files: list[tuple[JobRole, str, BlobWriter]] = []
        self._open = ExitStack()
        self._part = _Part()
        self._complete = False
        self._received = 0
        self._options_parts = 0
        self.options = bytearray()
        self.model_name = ""

    @property
    def has_cluster(self) -> bool:
        """Whether a cluster description came with the model."""
        return any(role is JobRole.CLUSTER for role, _, _ in self._files)

    async def read(self, request: Request) -> None:
        """Reads the whole request. Raises Problem if it is too large or malformed."""
        parser = MultipartParser(
            _boundary(request),
            {
                "on_part_begin": self._on_begin,
                "on_header_field": self._on_field,
                "on_header_value": self._on_value,
                "on_header_end": self._on_header,
                "on_headers_finished": self._on_headers,
                "on_part_data": self._on_data,
                "on_part_end": self._on_part_end,
                "on_end": self._on_end,
            },
        )
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Problem(ProblemType.CONTENT_TYPE, "expected a body that is not compressed")
        announced = request.headers.get("content-length", "")
        self._refuse_size(int(announced) if re.fullmatch("[0-9]{1,18}", announced) else 0)
        try:
            async for chunk in _batches(request):
                self._received += len(chunk)
                self._refuse_size(self._received)
                await state_of(request).take_in(parser.write, chunk)
            parser.finalize()
        except TimeoutError as error:
            raise Problem(ProblemType.SLOW, f"no data received for {_IDLE_SECONDS:g} s") from error
        except ClientDisconnect as error:
            raise Problem(ProblemType.UPLOAD, "the request ended before its body was complete") from error
        except FormParserError as error:
            raise Problem(ProblemType.UPLOAD, f"invalid multipart body: {error}") from error
        self._check()

    @property
    def files(self) -> tuple[JobFile, ...]:
        """The uploaded files as the job's inputs; valid once kept."""
        return tuple(JobFile(role, name, writer.sha256, writer.bytes) for role, name, writer in self._files)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the whole request, in hexadecimal."""
        parts = [f"{role}\0{name}\0{writer.sha256}" for role, name, writer in self._files]
        parts = [self.model_name, self.options.decode("utf-8", "replace"), *sorted(parts)]
        return hashlib.sha256("\0\0".join(parts).encode()).hexdigest()

    def inspect(self, options: JsonObject) -> None:
        """Reads the model and the cluster as a job would, in a sandboxed process. Raises Problem if they are
        invalid, if options name dimensions that the model does not have, or if reading exceeds the time or
        memory limit for their size.
        """
        with self._placed() as directory:
            model = directory / "model" / MODEL_NAME
            cluster = directory / CLUSTER_NAME
            size = model.stat().st_size
            ending = run_in_sandbox(
                _INSPECTION,
                {
                    "model": str(model),
                    "cluster": str(cluster) if self.has_cluster else None,
                    "name": self.model_name,
                    "max_model_nodes": self._settings.max_model_nodes,
                    "dim": options.get("dim") or {},
                    "freeze": options.get("freeze") or {},
                },
                Bounds(
                    _INSPECTION_SECONDS + size / _BYTES_PER_SECOND,
                    _INSPECTION_BYTES + _MEMORY_PER_BYTE * size,
                    self._settings.job_niceness // 2,
                ),
            )
        if isinstance(ending, Failed):
            raise Problem(type_called(str(ending.problem["type"])), str(ending.problem["detail"]))
        errors = cast("list[dict[str, str]]", ending.result["errors"])
        if errors:
            raise Problem(ProblemType.OPTIONS, f"options: {sentence(errors)}", errors=errors)

    @contextmanager
    def _placed(self) -> Generator[Path]:
        """A directory with the files by their names, the cluster apart."""
        directory = self._store.incoming()
        try:
            for role, name, writer in self._files:
                path = directory / name if role is JobRole.CLUSTER else directory / "model" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                writer.place(path)
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def keep(self) -> tuple[JobFile, ...]:
        """Makes the files durable blobs."""
        for _, _, writer in self._files:
            writer.finish()
        return self.files

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def _refuse_size(self, size: int) -> None:
        limit = self._settings.max_upload_bytes
        if size > limit:
            raise Problem(ProblemType.UPLOAD_TOO_LARGE, f"the request is limited to {limit} bytes")
        if self._store.free_bytes() - (size - self._received) < self._settings.min_free_bytes:
            raise Problem(ProblemType.DISK_FULL, "the disk of the service is nearly full; try again later")

    def _on_begin(self) -> None:
        self._part = _Part()

    def _on_field(self, data: bytes, start: int, end: int) -> None:
        self._part.header += data[start:end]

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._part.value += data[start:end]

    def _on_header(self) -> None:
        self._part.headers[self._part.header.decode("latin-1").lower()] = self._part.value
        self._part.header = self._part.value = b""

    def _on_headers(self) -> None:
        _, parameters = parse_options_header(self._part.headers.get("content-disposition"))
        self._part.name = parameters.get(b"name", b"").decode("utf-8", "replace")
        role = _FILES.get(self._part.name)
        if role is None:
            if self._part.name != "options":
                raise Problem(
                    ProblemType.UPLOAD,
                    f"expected the parts model, data, cluster and options, got {self._part.name[:100]!r}",
                )
            self._options_parts += 1
            return
        if len(self._files) > self._settings.max_upload_files:
            raise Problem(
                ProblemType.UPLOAD_FILES,
                f"the request is limited to {self._settings.max_upload_files} data files",
            )
        self._part.writer = self._open.enter_context(self._store.writer())
        self._files.append((role, self._named(role, parameters.get(b"filename", b"")), self._part.writer))

    def _named(self, role: JobRole, given: bytes) -> str:
        try:
            name = given.decode()
        except UnicodeDecodeError as error:
            raise Problem(ProblemType.UPLOAD, "expected file names in UTF-8") from error
        if role is JobRole.MODEL:
            self.model_name = display_name(name)
            return MODEL_NAME
        return name if role is JobRole.DATA else CLUSTER_NAME

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        writer = self._part.writer
        if writer is not None:
            writer.write(memoryview(data)[start:end])
            limit = _LIMITS.get(_FILES[self._part.name])
            if limit is not None and writer.bytes > limit:
                raise Problem(
                    ProblemType.UPLOAD_TOO_LARGE, f"the part {self._part.name} is limited to {limit} bytes"
                )
            return
        self.options += data[start:end]
        if len(self.options) > _OPTIONS_BYTES:
            raise Problem(ProblemType.UPLOAD_TOO_LARGE, f"the options are limited to {_OPTIONS_BYTES} bytes")

    def _on_part_end(self) -> None:
        if self._part.writer is not None:
            self._part.writer.seal()

    def _on_end(self) -> None:
        self._complete = True

    def _check(self) -> None:
        if not self._complete:
            raise Problem(ProblemType.UPLOAD, "the multipart body is incomplete")
        roles = [role for role, _, _ in self._files]
        if roles.count(JobRole.MODEL) != 1 or roles.count(JobRole.CLUSTER) > 1:
            raise Problem(ProblemType.UPLOAD, "expected one part model and at most one part cluster")
        if self._options_parts > 1:
            raise Problem(ProblemType.UPLOAD, "expected at most one part options")
        check_locations([name for role, name, _ in self._files if role is JobRole.DATA], MODEL_NAME)


def _boundary(request: Request) -> bytes:
    content_type, parameters = parse_options_header(request.headers.get("content-type"))
    boundary = parameters.get(b"boundary", b"")
    if content_type != b"multipart/form-data" or not re.fullmatch(rb"[ -~]{1,70}", boundary):
        raise Problem(
            ProblemType.CONTENT_TYPE, "expected multipart/form-data with a boundary of 1 to 70 characters"
        )
    return boundary


async def _batches(request: Request) -> AsyncIterator[bytes]:
    """The body in chunks of about 1 MiB."""
    batch = bytearray()
    chunks = request.stream()
    while True:
        with anyio.fail_after(_IDLE_SECONDS):
            chunk = await anext(chunks, None)
        if chunk is None:
            break
        batch += chunk
        if len(batch) >= _BATCH_BYTES:
            yield bytes(batch)
            batch.clear()
    if batch:
        yield bytes(batch)
