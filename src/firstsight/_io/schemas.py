"""Base class of all JSON schemas: strict types, error messages, documentation."""

from __future__ import annotations

import math
import types
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError


class Schema(BaseModel):
    """Base of the schemas. Types are not guessed ("3" is no number); keys that are not known here, because a newer
    firstsight wrote them, are kept as they came."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow", validate_by_name=True, validate_by_alias=True)

    def as_json(self) -> dict[str, Any]:
        """The keys that were given, under the names that they have in a file."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class ApiSchema(BaseModel):
    """Base of what programs exchange with firstsight: unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid", validate_by_name=True, validate_by_alias=True)


def _finite(value: float | None) -> float | None:
    return value if value is None or math.isfinite(value) else None


T = TypeVar("T")
Figure = Annotated[float | None, AfterValidator(_finite)]  # JSON of other programs may hold NaN: that is no figure
Dictionary = Annotated[dict[str, T], BeforeValidator(lambda value: {} if value is None else value)]  # null is none
List = Annotated[list[T], BeforeValidator(lambda value: [] if value is None else value)]


def reason(error: ValidationError) -> str:
    """What a schema found wrong, in one phrase: where, and what was expected.

    >>> class Point(Schema):
    ...     x: int
    >>> try:
    ...     Point.model_validate_json('{"x": "3"}')
    ... except ValidationError as error:
    ...     print(reason(error))
    x: input should be a valid integer
    """
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    message = str(first["msg"])
    path = ".".join(str(step) for step in first["loc"])[:80]
    words = " ".join((message[:1].lower() + message[1:]).split())[:160]
    return f"{path}: {words}" if path else words


def markdown(schema: type[Schema]) -> str:
    """A table of a schema's fields: name, type and meaning; fields of inner schemas follow as `outer.inner`."""
    lines = ["| field | type | meaning |", "|---|---|---|"]
    lines += [f"| `{name}` | {kind} | {meaning} |" for name, kind, meaning in _rows(schema)]
    return "\n".join(lines)


def _rows(schema: type[Schema], before: str = "") -> Iterator[tuple[str, str, str]]:
    for name, field in schema.model_fields.items():
        kinds = list(_members(field.annotation))
        shown = f"{before}{field.alias or name}"
        needed = " (required)" if field.is_required() else ""
        yield shown, " or ".join(dict.fromkeys(map(_word, kinds))) + needed, field.description or ""
        for kind in kinds:
            inner = next((a for a in (kind, *get_args(kind)) if isinstance(a, type) and issubclass(a, Schema)), None)
            if inner is not None:
                yield from _rows(inner, f"{shown}[]." if get_origin(kind) is list else f"{shown}.")


def _members(kind: Any) -> Iterator[Any]:
    """The types that a field may have, with annotations taken off."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, types.UnionType):
        for member in get_args(kind):
            yield from _members(member)
    else:
        yield kind


_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false", type(None): "null"}


def _word(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return " or ".join(f"`{str(value).lower() if value is False else value}`" for value in get_args(kind))
    return _WORDS.get(kind) or ("list" if get_origin(kind) in (list, tuple) else "object")
