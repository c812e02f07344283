"""Definitions: normalised syntax trees of this project's code and their references, for hashing.

A *definition* is a function, a class without its members, a member of a class, or an assignment. Its text
omits everything that does not affect what it computes: docstrings, comments, annotations, the text of errors,
the name and location of its module. ``Closure`` follows names, and attributes by name only: ``x.infer``
reaches every ``infer`` of the reached classes, which is an overapproximation.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

Place: TypeAlias = "tuple[str, str]"
"""A module and a top-level name in it."""

_IGNORED = frozenset(("annotation", "returns", "type_comment", "type_params", "kind", "ctx"))
_WORDS = "words"
"""Placeholder for the text of an error."""


@dataclass(frozen=True, slots=True)
class Definition:
    """The canonical text of a definition, the names and attributes that it reads, and the names in its
    annotations."""

    text: str
    names: frozenset[str]
    attributes: frozenset[str]
    annotations: frozenset[str]


@dataclass(frozen=True, slots=True)
class Module:
    """The top-level definitions of a module; ``imported`` maps names to where they come from."""

    definitions: Mapping[str, Definition]
    members: Mapping[str, Mapping[str, Definition]]
    imported: Mapping[str, Place]


@dataclass
class Closure:
    """All definitions reachable from given places, within the given packages.

    A class in ``apart`` is followed only from definitions of the same one of the packages, or if it is a root
    itself.
    """

    packages: tuple[str, ...]
    apart: frozenset[Place] = frozenset()
    texts: set[str] = field(default_factory=set["str"])
    _places: set[Place] = field(default_factory=set["Place"])
    _attributes: set[str] = field(default_factory=set["str"])
    _members: set[tuple[Place, str]] = field(default_factory=set["tuple[Place, str]"])
    _classes: list[Place] = field(default_factory=list["Place"])
    _met: set[tuple[str, Definition]] = field(default_factory=set["tuple[str, Definition]"])

    def copy(self) -> Closure:
        """Return a copy that can be extended independently."""
        return Closure(
            self.packages,
            self.apart,
            set(self.texts),
            set(self._places),
            set(self._attributes),
            set(self._members),
            list(self._classes),
            set(self._met),
        )

    def extend(self, roots: Iterable[Place], attributes: Iterable[str] = ()) -> None:
        """Add everything that the roots refer to; raises LookupError if a root does not exist."""
        waiting: list[tuple[str, Definition]] = []
        for place in roots:
            found = self._found(place)
            if found is None:
                raise LookupError(f"{place[0]} has no definition of {place[1]}")
            waiting.extend(self._entered(found))
        waiting.extend(self._read(attributes))
        while waiting:
            module, definition = waiting.pop()
            self.texts.add(definition.text)
            self._met.add((module, definition))
            for name in definition.names:
                place = self._found((module, name))
                if place is not None and self._is_followed(place, module):
                    waiting.extend(self._entered(place))
            for place in self._in_modules(module, definition):
                waiting.extend(self._entered(place))
            waiting.extend(self._read(definition.attributes))

    def only_annotated(self) -> frozenset[Place]:
        """Return the classes with members that only annotations of reached definitions name."""
        found: set[Place] = set()
        for name, definition in self._met:
            for place in (self._found((name, each)) for each in definition.annotations):
                module = None if place is None else self._module(place[0])
                if place is not None and module is not None and module.members.get(place[1]):
                    found.add(place)
        return frozenset(found - self._places)

    def _is_followed(self, place: Place, module: str) -> bool:
        return place not in self.apart or self._package(module) == self._package(place[0])

    def _entered(self, place: Place) -> Iterator[tuple[str, Definition]]:
        """Yield a definition that is reached for the first time, and for a class the members that are
        read."""
        if place in self._places:
            return
        self._places.add(place)
        module = self._module(place[0])
        assert module is not None, "a place that was found"
        yield place[0], module.definitions[place[1]]
        if place[1] in module.members:
            self._classes.append(place)
            for name, member in module.members[place[1]].items():
                if name in self._attributes or (name.startswith("__") and name.endswith("__")):
                    yield from self._member(place, name, member)

    def _read(self, attributes: Iterable[str]) -> Iterator[tuple[str, Definition]]:
        """Yield the members with those names of all reached classes."""
        for attribute in set(attributes) - self._attributes:
            self._attributes.add(attribute)
            for place in self._classes:
                module = self._module(place[0])
                member = module.members[place[1]].get(attribute) if module else None
                if member is not None:
                    yield from self._member(place, attribute, member)

    def _member(self, place: Place, name: str, member: Definition) -> Iterator[tuple[str, Definition]]:
        if (place, name) not in self._members:
            self._members.add((place, name))
            yield place[0], member

    def _in_modules(self, module: str, definition: Definition) -> Iterator[Place]:
        """Yield the places that a definition reads through modules that it names."""
        known = self._module(module)
        for name in definition.names:
            place = known.imported.get(name) if known else None
            imported = None if place is None else self._module(".".join(filter(None, place)))
            if place is not None and imported is not None:
                for attribute in definition.attributes:
                    found = self._found((".".join(filter(None, place)), attribute))
                    if found is not None and self._is_followed(found, module):
                        yield found

    def _found(self, place: Place) -> Place | None:
        """Return where a name is defined, following imports; None outside the packages."""
        seen: set[Place] = set()
        while place not in seen:
            seen.add(place)
            module = self._module(place[0])
            if module is None:
                return None
            if place[1] in module.definitions:
                return place
            if place[1] not in module.imported:
                return None
            place = module.imported[place[1]]
        return None

    def _module(self, name: str) -> Module | None:
        return None if self._package(name) is None else read_module(name)

    def _package(self, module: str) -> str | None:
        """The one of the packages that contains a module."""
        return next((name for name in self.packages if module == name or module.startswith(f"{name}.")), None)


@functools.cache
def read_module(name: str) -> Module | None:
    """Return the definitions of an installed module, or None if there is no such module."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return module_of(Path(spec.origin).read_text("utf-8"))


def module_of(source: str) -> Module:
    """Return the definitions of a module's source; a name that is assigned several times keeps all its
    values."""
    definitions: dict[str, Definition] = {}
    members: dict[str, Mapping[str, Definition]] = {}
    imported: dict[str, Place] = {}
    for statement in ast.parse(source).body:
        match statement:
            case ast.ImportFrom(module=str() as origin, names=names, level=0):
                imported |= {alias.asname or alias.name: (origin, alias.name) for alias in names}
            case ast.Import(names=names):
                imported |= {a.asname: (a.name, "") for a in names if a.asname is not None}
            case ast.ClassDef(name=name):
                definitions[name] = _header(statement)
                members[name] = dict(_merged(_class_members(statement)))
            case _:
                for name, definition in _merged(_named(statement)):
                    known = definitions.get(name)
                    definitions[name] = definition if known is None else _joined(known, definition)
    return Module(definitions, members, imported)


def _named(statement: ast.stmt) -> Iterator[tuple[str, Definition]]:
    """Yield the definitions of a statement; a statement that defines nothing belongs to the names that it
    changes."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name, _definition(statement)
        case _:
            changed = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            stored = {
                node.id
                for node in ast.walk(statement)
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
            }
            for name in sorted(stored or changed):
                yield name, _definition(statement)


def _class_members(statement: ast.ClassDef) -> Iterator[tuple[str, Definition]]:
    for member in statement.body:
        if not _is_field(member) and not _is_docstring(member):
            yield from _named(member)


def _header(statement: ast.ClassDef) -> Definition:
    """Return a class without its members: bases, decorators, and fields with their defaults in order."""
    fields = [member for member in statement.body if _is_field(member)]
    bare = ast.ClassDef(
        name=statement.name,
        bases=statement.bases,
        keywords=statement.keywords,
        decorator_list=statement.decorator_list,
        body=fields,
    )
    return _definition(bare)


def _is_field(member: ast.stmt) -> bool:
    """Whether a statement in a class defines a dataclass field: annotated, and not a class variable."""
    if not isinstance(member, ast.AnnAssign):
        return False
    annotation = member.annotation
    outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    return not (isinstance(outer, ast.Name) and outer.id == "ClassVar")


def _is_docstring(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _merged(pairs: Iterable[tuple[str, Definition]]) -> Iterator[tuple[str, Definition]]:
    """Merge definitions of the same name: overloads and setters belong together."""
    merged: dict[str, Definition] = {}
    for name, definition in pairs:
        known = merged.get(name)
        merged[name] = definition if known is None else _joined(known, definition)
    return iter(merged.items())


def _joined(one: Definition, other: Definition) -> Definition:
    return Definition(
        f"{one.text}\n{other.text}",
        one.names | other.names,
        one.attributes | other.attributes,
        one.annotations | other.annotations,
    )


def _definition(node: ast.AST) -> Definition:
    names: set[str] = set()
    attributes: set[str] = set()
    text = _text(node, names, attributes)
    return Definition(text, frozenset(names), frozenset(attributes), frozenset(_annotated(node)))


def _annotated(node: ast.AST) -> Iterator[str]:
    """Yield the names in annotations, including quoted ones."""
    for part in ast.walk(node):
        for annotation in (getattr(part, "annotation", None), getattr(part, "returns", None)):
            for each in ast.walk(annotation) if isinstance(annotation, ast.AST) else ():
                if isinstance(each, ast.Name):
                    yield each.id


def _text(node: object, names: set[str], attributes: set[str]) -> str:
    """Return a tree as text that is the same under every version of Python; records its names and
    attributes."""
    match node:
        case list():
            kept = [item for item in node if not (isinstance(item, ast.stmt) and _is_docstring(item))]  # pyright: ignore[reportUnknownVariableType]
            return f"[{','.join(_text(item, names, attributes) for item in kept)}]"  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        case ast.Raise():
            return f"Raise({_text(_without_words(node.exc), names, attributes)})"
        case ast.Assert():
            return f"Assert({_text(node.test, names, attributes)})"
        case ast.Call(func=ast.Name(id="cast"), args=[_, value]):
            return _text(value, names, attributes)
        case ast.AnnAssign(target=target, value=value):
            return f"Field({_text(target, names, attributes)},{_text(value, names, attributes)})"
        case ast.AST():
            if isinstance(node, ast.Name):
                names.add(node.id)
            if isinstance(node, ast.Attribute):
                attributes.add(node.attr)
            if isinstance(node, ast.MatchClass):
                attributes.update(node.kwd_attrs)
            if isinstance(node, ast.keyword) and node.arg:
                attributes.add(node.arg)
            parts = [
                f"{name}={_text(value, names, attributes)}"
                for name, value in ast.iter_fields(node)
                if name not in _IGNORED and value is not None and value != []
            ]
            return f"{type(node).__name__}({','.join(parts)})"
        case _:
            return repr(node)


def _without_words(error: ast.expr | None) -> ast.expr | None:
    """Return a raised error with a placeholder for each text in it, since its wording does not affect
    proofs."""
    if not isinstance(error, ast.Call):
        return error
    arguments = [
        ast.Constant(_WORDS)
        if isinstance(each, ast.JoinedStr) or (isinstance(each, ast.Constant) and isinstance(each.value, str))
        else each
        for each in error.args
    ]
    return ast.Call(func=error.func, args=arguments, keywords=error.keywords)


__all__ = ["Closure", "Definition", "Module", "Place", "module_of", "read_module"]
