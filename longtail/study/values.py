"""The kinds of values that a key of a study file may have, each with its message and its JSON schema."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

LONGEST_NAME = 60
_SLUG = rf"[a-z0-9][a-z0-9_]{{0,{LONGEST_NAME - 1}}}"
SHOWN = 80
_LONGEST_TEXT = 4_000
_ENVIRONMENT_NAME = r"[A-Z_][A-Z0-9_]*"
_SHA256 = r"[0-9a-f]{64}"
_MONTH = r"20\d\d-(0[1-9]|1[0-2])"
NO_MAPPING = "no_mapping"
MISSING = object()
"""What is read in place of a key that must be given and is not."""
Schema = dict[str, Any]


@dataclass(frozen=True)
class Reading:
    """The file that is read, and its whole content: some values must be names of other parts of the study."""

    path: Path = Path()
    study: Mapping[str, Any] = field(default_factory=dict)

    def entries(self, key: str) -> list[Mapping[str, Any]]:
        """The mappings in the list at `key` of the study."""
        entries = self.study.get(key)
        return [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []

    def names(self, key: str) -> tuple[str, ...]:
        """The names of the entries in the list at `key` of the study."""
        return tuple(entry["name"] for entry in self.entries(key) if isinstance(entry.get("name"), str))


Allowed = Sequence[str] | Callable[[Reading], Sequence[str]]
"""Texts that are allowed, or a function that finds them when a study is read."""


@dataclass(frozen=True)
class Value:
    """An annotation of a field: what its key may hold. `check` gives the value, or raises `fail`."""

    wanted: Callable[[Reading], str]
    check: Callable[[Any, Reading], Any]
    schema: Callable[[], Schema]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(self._read)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        return copy.deepcopy(self.schema())  # pydantic adds the default and the meaning to it

    def _read(self, value: Any, info: ValidationInfo[Reading]) -> Any:
        if value is MISSING:
            raise fail("", f"is missing; it must be {self.wanted(info.context)}")
        return self.check(value, info.context)


@dataclass(frozen=True)
class Default:
    """An annotation of a field: its default in words, where the value does not say it, or `Part.expand` decides it."""

    text: str


def fail(key: str, message: str) -> PydanticCustomError:
    """An error at a key of the part that is read, or at the value itself (""); the caller raises it."""
    return PydanticCustomError("study", "{message}", {"key": key, "message": message})


def need_mapping(value: Any) -> Mapping[str, Any]:
    """Errors: `fail` where it is no mapping."""
    if value is MISSING:
        raise fail("", "is missing; it must be a mapping of keys")
    if not isinstance(value, Mapping):
        message = f"must be a mapping of keys, not {describe(value)}"
        raise PydanticCustomError(NO_MAPPING, "{message}", {"message": message})
    return value


def refuse_unknown(raw: Iterable[Any], allowed: Sequence[str]) -> None:
    """Errors: `fail` for the first key that is not allowed, with the nearest one that is."""
    for key in raw:
        if key not in allowed:
            near = difflib.get_close_matches(str(key), allowed, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise fail(str(key), f"unknown key; {hint}allowed: {', '.join(sorted(allowed))}")


def value_of(wanted: str, read: Callable[[Any], Any], **schema: Any) -> Value:
    """A value that `read` takes for what is `wanted`; it raises `fail` for another."""
    return Value(lambda _reading: wanted, lambda value, _reading: read(value), lambda: schema)


def _plain(wanted: str, is_right: Callable[[Any], bool], **schema: Any) -> Value:
    """A value that stays as it is; of another, the message shows what it is."""

    def read(value: Any) -> Any:
        if not is_right(value):
            raise fail("", f"must be {wanted}, not {show(value)}")
        return value

    return value_of(wanted, read, **schema)


def whole(low: int, high: int = 10**12) -> Value:
    """A whole number from `low` to `high`."""
    wanted = f"a whole number of {low} to {high}"
    return _plain(
        wanted,
        lambda value: type(value) is int and low <= value <= high,
        type="integer",
        minimum=low,
        maximum=high,
    )


def _number(wanted: str, is_allowed: Callable[[float], bool], **bounds: float) -> Value:
    plain = _plain(
        wanted, lambda value: type(value) in (int, float) and is_allowed(value), type="number", **bounds
    )
    return dataclasses.replace(plain, check=lambda value, reading: float(plain.check(value, reading)))


def number(above: float, most: float) -> Value:
    """A number above `above`, at most `most`."""
    wanted = f"a number above {above:g} and at most {most:g}"
    return _number(wanted, lambda value: above < value <= most, exclusiveMinimum=above, maximum=most)


def _texts_in(allowed: Allowed, reading: Reading) -> Sequence[str]:
    return allowed(reading) if callable(allowed) else allowed


def _enum(allowed: Allowed, is_open: bool) -> Schema:
    texts = [*_texts_in(allowed, Reading())]
    if not texts:
        return {"type": "string"}
    return {"anyOf": [{"enum": texts}, {"type": "string"}]} if is_open else {"enum": texts}


def one_of(allowed: Allowed, *, is_open: bool = False) -> Value:
    """One of the texts `allowed`. `is_open`: a study may add others, which the schema then takes."""
    return Value(
        lambda reading: f"one of {', '.join(_texts_in(allowed, reading))}",
        lambda value, reading: choose("", value, _texts_in(allowed, reading)),
        lambda: _enum(allowed, is_open),
    )


def some_of(allowed: Allowed, *, is_open: bool = False) -> Value:
    """A list of distinct texts of `allowed`, at least one; `is_open` as of `one_of`."""
    return Value(
        lambda reading: f"a list of at least one of: {', '.join(_texts_in(allowed, reading))}",
        lambda value, reading: choose_some("", value, _texts_in(allowed, reading)),
        lambda: list_schema(_enum(allowed, is_open)),
    )


def choose(key: str, value: object, allowed: Sequence[str]) -> str:
    """A text of `allowed` at `key`. Errors: `fail`, with the nearest text that is allowed."""
    if value is MISSING:
        raise fail(key, f"is missing; it must be one of {', '.join(allowed)}")
    if value not in allowed:
        raise fail(key, refuse(value, allowed))
    return str(value)


def refuse(value: object, allowed: Sequence[str]) -> str:
    """What is wrong with a value that is not allowed."""
    near = difflib.get_close_matches(str(value), allowed, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"{show(value)} is not one of: {', '.join(allowed)}{hint}"


def choose_some(key: str, value: object, allowed: Sequence[str]) -> tuple[str, ...]:
    """Distinct texts of `allowed` at `key`, at least one. Errors: `fail`."""
    if not isinstance(value, list | tuple) or not value:
        raise fail(key, f"must be a list of at least one of: {', '.join(allowed)}")
    return _distinct(key, [choose(key, item, allowed) for item in value])


def _distinct(key: str, values: Sequence[Any]) -> tuple[Any, ...]:
    if len(set(values)) < len(values):
        raise fail(key, "names something twice")
    return tuple(values)


def list_schema(items: Schema) -> Schema:
    """The schema of a list of distinct items, at least one."""
    return {"type": "array", "items": items, "minItems": 1, "uniqueItems": True}


def list_of(item: Value) -> Value:
    """A list of distinct values, at least one."""

    def read(values: Any, reading: Reading) -> tuple[Any, ...]:
        if not isinstance(values, list) or not values:
            raise fail("", "must be a list with at least one value")
        read_values = []
        for place, value in enumerate(values):
            try:
                read_values.append(item.check(value, reading))
            except PydanticCustomError as error:
                raise fail(str(place), (error.context or {})["message"]) from None
        return _distinct("", read_values)

    return Value(lambda _reading: "a list with at least one value", read, lambda: list_schema(item.schema()))


def read_text(value: Any, key: str = "") -> str:
    """A text that is not empty, at `key`. Errors: `fail`."""
    if not isinstance(value, str) or not value.strip():
        raise fail(key, f"must be a text, not {describe(value)}")
    if len(value) > _LONGEST_TEXT:
        raise fail(key, f"is a text of {len(value):,} characters; at most {_LONGEST_TEXT:,} are allowed")
    return value


def _read_slug(value: Any) -> str:
    if not re.fullmatch(_SLUG, read_text(value)) or "__" in value:
        wanted = f"lower-case letters, digits and single underscores, at most {LONGEST_NAME}"
        raise fail("", f"{value!r} must be {wanted}")
    return str(value)


def _read_variable(value: Any) -> str:
    """The message does not show a wrong value, as it may be a secret."""
    if not isinstance(value, str) or not re.fullmatch(_ENVIRONMENT_NAME, value):
        wanted = "the name of an environment variable (capitals, digits, underscores), not what it holds"
        raise fail("", f"must be {wanted}")
    return value


def _read_checksum(value: Any) -> str:
    text = read_text(value).lower()
    if not re.fullmatch(_SHA256, text):
        raise fail("", f"must be a checksum of 64 hexadecimal digits, not {show(text)}")
    return text


def read_names(value: Any) -> tuple[str, ...]:
    """A list of distinct texts, at least one. Errors: `fail`."""
    if not isinstance(value, list) or not value:
        raise fail("", "must be a list of at least one text")
    for item in value:
        if not isinstance(item, str) or not item.strip():
            raise fail("", f"must hold texts, not {describe(item)}")
    return _distinct("", value)


def _read_phrases(value: Any) -> tuple[str, ...]:
    for text in read_names(value):
        if not any(character.isalnum() for character in text):
            raise fail("", f"must hold texts with letters or digits, not {show(text)}")
    return tuple(value)


def address(
    example: str, advice: str = ", since messages and reports show it", *, may_be_http: bool = False
) -> Value:
    """An address without secrets; http is for this machine, unless it `may_be_http`. The message does not show a wrong
    one, as it may hold a token."""
    wanted = f"must be an https address, as in {example}; http is for this machine only"
    if may_be_http:
        wanted = f"must be an address, as in {example}"

    def read(value: Any) -> str:
        from longtail.transfer.http import is_loopback  # loads requests

        url = read_text(value)
        if "@" in url or "?" in url or "#" in url:
            raise fail("", f"may hold no user name, password or query{advice}")
        try:
            parts = urlsplit(url)
            is_address = bool(parts.hostname) and parts.port != 0 and not any(char.isspace() for char in url)
        except ValueError:
            is_address = False
        is_http = is_address and parts.scheme == "http" and (may_be_http or is_loopback(url))
        if not is_address or not (parts.scheme == "https" or is_http):
            raise fail("", wanted)
        return url

    return value_of("a text", read, type="string", pattern="^https?://[^@?#]+$")


TEXT = value_of("a text", read_text, type="string", minLength=1, maxLength=_LONGEST_TEXT)
NAMES = value_of("a list of at least one text", read_names, **list_schema({"type": "string", "minLength": 1}))
Text = Annotated[str, TEXT]
Slug = Annotated[str, value_of("a text", _read_slug, type="string", pattern=f"^{_SLUG}$")]
"""A name that is safe in file names and partition keys."""
Count = Annotated[int, whole(1)]
Flag = Annotated[bool, _plain("true or false", lambda value: isinstance(value, bool), type="boolean")]
Month = Annotated[
    str,
    _plain(
        "a month in quotes, as in '2026-10'",
        lambda value: isinstance(value, str) and bool(re.fullmatch(_MONTH, value)),
        type="string",
        pattern=f"^{_MONTH}$",
    ),
]
Variable = Annotated[
    str,
    value_of(
        "the name of an environment variable", _read_variable, type="string", pattern=f"^{_ENVIRONMENT_NAME}$"
    ),
]
Checksum = Annotated[str, value_of("a text", _read_checksum, type="string", pattern="^[0-9a-fA-F]{64}$")]
Dollars = Annotated[
    float, _number("a number of at least 0 (dollars)", lambda value: 0 <= value < 1e6, minimum=0)
]
Share = Annotated[float, _number("a number of 0 to 1", lambda value: 0 <= value <= 1, minimum=0, maximum=1)]
Phrases = Annotated[
    tuple[str, ...], value_of("a list of texts", _read_phrases, **list_schema({"type": "string"}))
]
"""Distinct texts with letters or digits."""


def column_names(meanings: Sequence[str], *, may_be_none: bool = False) -> Value:
    """A mapping of meanings to a file's names of columns, as pairs. With `may_be_none`, null: that one is not read."""

    def read(value: Any) -> tuple[tuple[str, str | None], ...]:
        raw = {} if value is None and may_be_none else need_mapping(value)
        refuse_unknown(raw, meanings)
        pairs: list[tuple[str, str | None]] = []
        for meaning in filter(raw.__contains__, meanings):
            is_none = may_be_none and raw[meaning] is None
            pairs.append((meaning, None if is_none else read_text(raw[meaning], meaning)))
        return tuple(pairs)

    name = {"type": ["string", "null"] if may_be_none else "string"}
    schema = {"properties": {meaning: name for meaning in meanings}, "additionalProperties": False}
    return value_of("a mapping of keys", read, type="object", **schema)


def describe(value: object) -> str:
    """What a value is, for a message."""
    return "nothing" if value is None else f"{type(value).__name__} {show(value)}"


def show(value: object) -> str:
    """`value` as Python writes it, cut; a number with more digits than Python prints is only described."""
    try:
        text = repr(value)
    except ValueError:
        return "a huge number"
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
