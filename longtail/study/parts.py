"""How a part of a study file is read: its keys, what goes together, and one line for what is wrong.

A part is a frozen dataclass that derives from `Part`. pydantic reads it out of a mapping, and makes its JSON schema. Its
fields are its keys: `seed: Annotated[int, whole(0)] = 0`, and below it, as a docstring, what the key means. A part that
code makes is not checked: a checkpoint's path need not be a name.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import itertools
import textwrap
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import (
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    WrapValidator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema, core_schema

from longtail.errors import StudyError
from longtail.study.values import (
    MISSING,
    NO_MAPPING,
    SHOWN,
    Default,
    Reading,
    Schema,
    choose,
    fail,
    need_mapping,
    refuse_unknown,
    show,
)

Record = TypeVar("Record")
Entry = TypeVar("Entry")


class Part:
    """A part of a study file.

    `inlined`: fields that hold a part whose keys stand beside this one's own. With `chosen_by`, the value of that key
    decides which part of further keys there is (`further_keys`); field `holder` has it. `left_out`: fields that are no
    keys; of these, `path` is the file, and `study_folder` its folder.
    """

    inlined: ClassVar[Mapping[str, type[Part]]] = {}
    chosen_by: ClassVar[str] = ""
    holder: ClassVar[str] = ""
    left_out: ClassVar[Sequence[str]] = ()

    @classmethod
    def choices(cls) -> Sequence[str]:
        """What key `chosen_by` may be, the default first."""
        return ()

    @classmethod
    def further_keys(cls, choice: str) -> type[Part] | None:
        """The part of the keys that a value of `chosen_by` brings."""
        return None

    @classmethod
    def hold(cls, further: Any) -> Any:
        """What field `holder` has of the further keys."""
        return further

    @classmethod
    def expand(cls, raw: Mapping[str, Any], reading: Reading) -> Mapping[str, Any]:
        """The mapping with values that follow from other keys. Errors: `fail`."""
        return raw

    def check(self, raw: Mapping[str, Any], reading: Reading) -> Any:
        """The part, once its keys go together. Errors: `fail`."""
        return self

    @classmethod
    def parts_beside(cls, raw: Mapping[str, Any]) -> dict[str, type[Part]]:
        """The fields whose parts have keys beside this one's own, and these parts. Errors: `fail`."""
        if not cls.chosen_by:
            return dict(cls.inlined)
        choices = cls.choices()
        default = MISSING if keys_of(cls)[cls.chosen_by].is_required else choices[0]
        further = cls.further_keys(choose(cls.chosen_by, raw.get(cls.chosen_by, default), choices))
        return {**cls.inlined, **({cls.holder: further} if further else {})}

    @classmethod
    def all_keys(cls, raw: Mapping[str, Any]) -> list[str]:
        """The keys that a mapping may have. Errors: `fail`."""
        beside = (key for part in cls.parts_beside(raw).values() for key in part.all_keys(raw))
        return [*keys_of(cls), *beside]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        # The reference moves to the reader: whoever names the part a second time must not find the fields alone.
        fields = {**handler.resolve_ref_schema(handler(source))}
        return core_schema.with_info_wrap_validator_function(cls._read, fields, ref=fields.pop("ref", None))

    @classmethod
    def _read(cls, value: Any, handler: Callable[[Any], Any], info: ValidationInfo[Reading]) -> Any:
        if isinstance(value, cls):
            return value
        raw = cls.expand(need_mapping(value), info.context)
        refuse_unknown(raw, cls.all_keys(raw))
        keys = keys_of(cls)
        values = {name: MISSING for name, key in keys.items() if key.is_required}
        values |= {key: raw[key] for key in keys if key in raw}
        values.pop(cls.holder, None)
        for name, part in cls.parts_beside(raw).items():
            further = _read_beside(
                part, {key: raw[key] for key in part.all_keys(raw) if key in raw}, info.context
            )
            values[name] = cls.hold(further) if name == cls.holder else further
        places = {"path": info.context.path, "study_folder": info.context.path.parent}
        values |= {name: places[name] for name in cls.left_out if name in places}
        return handler(values).check(raw, info.context)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        made = handler.resolve_ref_schema(handler(schema))
        properties = {key: made["properties"][key] for key in keys_of(cls)}
        made |= {"properties": properties, "additionalProperties": False}
        made["required"] = [name for name, key in keys_of(cls).items() if key.is_required]
        for name, meaning in meanings_of(cls).items():
            properties[name] = {"description": meaning, **properties[name]} if meaning else properties[name]
        for part in cls.inlined.values():
            properties |= json_schema(part)["properties"]
        if cls.chosen_by:
            _add_choices(made, cls.chosen_by, {choice: cls.further_keys(choice) for choice in cls.choices()})
        return made


def read_part(
    part: type[Record], raw: object, path: Path, where: str = "", study: Mapping[str, Any] | None = None
) -> Record:
    """Read a part that stands at `where` in file `path`. Errors: `StudyError` with file, key and what is allowed."""
    try:
        return _adapter(part).validate_python(raw, context=Reading(path, study or {}))
    except ValidationError as error:
        place, message = _first_of(error, where)
        between = " " if error.errors(include_url=False)[0]["type"] == NO_MAPPING else ": "
        raise StudyError(f"{path}: {place or 'the file'}{between}{message}") from None


def _read_beside(part: type[Part], raw: Mapping[str, Any], reading: Reading) -> Part:
    """Read a part whose keys stand beside those of another. Errors: `fail`."""
    try:
        return _adapter(part).validate_python(raw, context=reading)
    except ValidationError as error:
        raise fail(*_first_of(error, "")) from None


_adapter = typing.cast(Callable[[type[Any]], TypeAdapter[Any]], functools.cache(TypeAdapter))


def _first_of(error: ValidationError, where: str) -> tuple[str, str]:
    """The place of the first thing that is wrong, and what is wrong with it."""
    first = error.errors(include_url=False, include_input=False)[0]
    context: Mapping[str, Any] = first.get("ctx", {})
    place, key = where, context.get("key")
    for step in (*first["loc"], *([key] if key else [])):
        if isinstance(step, int):
            place += f"[{step}]"
        else:
            shown = step if step.isprintable() and len(step) <= SHOWN else show(step)
            place += f".{shown}" if place else shown
    return place, context.get("message", first["msg"])


def _need_entries(value: Any, handler: Callable[[Any], Any]) -> Any:
    wanted = "must be a list with at least one entry"
    if value is MISSING:
        raise fail("", f"is missing; it {wanted}")
    if not isinstance(value, list) or not value:
        raise fail("", wanted)
    entries = handler(value)
    names = [entry.name for entry in entries if hasattr(entry, "name")]
    for name in names:
        if names.count(name) > 1:
            raise fail("", f"{name!r} appears twice")
    return entries


Entries = Annotated[tuple[Entry, ...], WrapValidator(_need_entries)]
"""A list with at least one entry, and with a different name each."""


@dataclass(frozen=True)
class Key:
    """A key of a part: the field, and its default as docs/study_file.md writes it."""

    field: str
    default: str
    is_required: bool
    notes: Sequence[Any]


def _find_keys(part: type[Part]) -> dict[str, Key]:
    hints = typing.get_type_hints(part, include_extras=True)
    no_keys = {*part.left_out, *part.inlined, part.holder} - {part.chosen_by}
    keys = {}
    for field in dataclasses.fields(typing.cast(Any, part)):
        notes = [*_annotations(hints[field.name])]
        if field.name not in no_keys:
            words = [note.text for note in notes if isinstance(note, Default)]
            names = [note.alias for note in notes if isinstance(note, FieldInfo) and note.alias]
            default = words[0] if words else _show_default(field.default)
            is_required = not words and field.default is dataclasses.MISSING
            keys[names[0] if names else field.name] = Key(field.name, default, is_required, notes)
    return keys


keys_of = typing.cast(Callable[[type[Part]], dict[str, Key]], functools.cache(_find_keys))
"""The keys of a part, by their names in the file."""


def meanings_of(part: type[Part]) -> dict[str, str]:
    """What each key means: the text below its field, or the description that its type has."""
    texts: dict[str, str] = {}
    for parent in reversed(part.__mro__[:-1]):
        (declared,) = ast.parse(textwrap.dedent(inspect.getsource(parent))).body
        body = declared.body if isinstance(declared, ast.ClassDef) else []
        for statement, below in itertools.pairwise(body):
            if (
                isinstance(statement, ast.AnnAssign)
                and isinstance(below, ast.Expr)
                and isinstance(below.value, ast.Constant)
            ):
                texts[ast.unparse(statement.target)] = " ".join(str(below.value.value).split())
    return {
        name: texts.get(key.field)
        or next((note.description for note in key.notes if isinstance(note, FieldInfo)), "")
        or ""
        for name, key in keys_of(part).items()
    }


def _annotations(hint: Any) -> Iterator[Any]:
    """The annotations of a type, and of the types in a union."""
    if typing.get_origin(hint) is Annotated:
        yield from hint.__metadata__
        hint = hint.__origin__
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        for member in typing.get_args(hint):
            yield from _annotations(member)


def _show_default(value: Any) -> str:
    if value is dataclasses.MISSING:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value in (None, "") else f"{value:,}" if isinstance(value, int) else str(value)


class _Plain(GenerateJsonSchema):
    """Without titles: a key says it."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def json_schema(part: type[Part]) -> Schema:
    """The JSON schema of a part."""
    return TypeAdapter(part).json_schema(schema_generator=_Plain)


def _add_choices(made: Schema, key: str, choices: Mapping[str, type[Part] | None]) -> None:
    """Add to the schema of a mapping the further keys that each value of `key` brings, and refuse those of the others."""
    schemas = {choice: json_schema(part) if part else {"properties": {}} for choice, part in choices.items()}
    further = {name: what for schema in schemas.values() for name, what in schema["properties"].items()}
    for name, what in further.items():
        made["properties"].setdefault(name, {"description": what.get("description", "")})
    made["properties"][key] = {
        "description": made["properties"][key].get("description", ""),
        "enum": [*choices],
    }
    made["allOf"] = []
    for place, (choice, schema) in enumerate(schemas.items()):
        is_default = place == 0 and key not in made["required"]
        chosen: Schema = {"properties": {key: {"const": choice}}, "required": [] if is_default else [key]}
        refused = {name: False for name in further if name not in schema["properties"]}
        then = {word: schema[word] for word in ("required", "allOf") if schema.get(word)}
        made["allOf"].append({"if": chosen, "then": {"properties": refused | schema["properties"], **then}})
