"""Routes for the static files of the page and of the model viewer (the ``netron`` package)."""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from superopt.server.http.problems import Problem
from superopt.server.http.security import local_or_keys
from superopt.server.problem_types import ProblemType

router = APIRouter(include_in_schema=False, dependencies=[Depends(local_or_keys)])

_FILES = Path(__file__).parent / "files"
_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
_PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_VIEWER_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
    "img-src 'self' data: blob:; connect-src 'self'; worker-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
_VIEWER_HEADERS = {
    "Content-Security-Policy": _VIEWER_POLICY,
    "X-Frame-Options": "SAMEORIGIN",
    "Set-Cookie": "consent=1; Path=/netron; SameSite=Strict",
}
"""Suppresses the viewer's consent dialog for telemetry; with version 0.0.0 it sends none."""


_VIEWER_HEAD = (
    '<meta name="version" content="0.0.0">\n<link rel="stylesheet" href="/page/files/css/viewer.css">\n'
)

_NO_VIEWER = (
    '<!doctype html><html lang="en"><title>No model viewer</title>'
    "<p>The model viewer is not installed on the server: pip install 'superopt[page]'"
)


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    media_type: str
    tag: str

    def response(self, request: Request, headers: Mapping[str, str]) -> Response:
        """A response with the file, or 304 if the client has it."""
        headers = {"ETag": self.tag, "Cache-Control": "no-cache", **headers}
        if request.headers.get("if-none-match") == self.tag:
            return Response(status_code=304, headers=headers)
        return Response(self.content, headers=headers, media_type=self.media_type)


@router.get("/")
@router.get("/optimizations")
@router.get("/optimizations/{identity}")
@router.get("/library")
@router.get("/library/{identity}")
@router.get("/prove")
@router.get("/docs")
def show_page(request: Request) -> Response:
    """The page; its scripts choose the view by the URL."""
    return _page_file("index.html").response(request, {"Content-Security-Policy": _PAGE_POLICY})


@router.get("/favicon.ico")
def show_icon(request: Request) -> Response:
    """The icon at the path that browsers request by default."""
    return _page_file("favicon.svg").response(request, {})


@router.get("/page/files/{name:path}")
def show_file(request: Request, name: str) -> Response:
    """A style sheet, script, font or picture of the page."""
    if name not in _page_names() or name.endswith(".html"):
        raise Problem(ProblemType.NOT_FOUND, f"there is no file {name[:100]}")
    return _page_file(name).response(request, {})


@router.get("/netron/{name}")
def show_viewer(request: Request, name: str) -> Response:
    """A file of the viewer."""
    if name == "index.html" and not _viewer_names():
        return Response(_NO_VIEWER, headers=_VIEWER_HEADERS, media_type=_TYPES[".html"])
    if name not in _viewer_names():
        raise Problem(ProblemType.NOT_FOUND, f"there is no file {name[:100]}")
    return _viewer_file(name).response(request, _VIEWER_HEADERS)


@cache
def _page_names() -> frozenset[str]:
    return frozenset(p.relative_to(_FILES).as_posix() for p in _FILES.rglob("*") if p.suffix in _TYPES)


@cache
def _page_file(name: str) -> _File:
    return _file(name, (_FILES / name).read_bytes())


@cache
def _viewer_names() -> Mapping[str, Path]:
    """The files of the package, found without importing it; empty if it is not installed."""
    return {path.name: path for path in _viewer_paths()}


def _viewer_paths() -> Iterator[Path]:
    found = importlib.util.find_spec("netron")
    for directory in (found and found.submodule_search_locations) or ():
        for path in Path(directory).iterdir():
            if path.is_file() and path.suffix in _TYPES:
                yield path


@cache
def _viewer_file(name: str) -> _File:
    content = _viewer_names()[name].read_bytes()
    if name == "index.html":
        text = re.sub(r'<meta name="(version|date)".*?>\n?', "", content.decode())
        content = text.replace("</head>", f"{_VIEWER_HEAD}</head>").encode()
    return _file(name, content)


def _file(name: str, content: bytes) -> _File:
    return _File(content, _TYPES[Path(name).suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')
