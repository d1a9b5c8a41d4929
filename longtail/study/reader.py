"""Reads a YAML mapping key by key, so that every error names the file, the key and what is allowed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from longtail.errors import StudyError
from longtail.transfer.http import is_loopback

LONGEST_NAME = 60
_SLUG = re.compile(rf"[a-z0-9][a-z0-9_]{{0,{LONGEST_NAME - 1}}}")
_SHOWN = 80
_LONGEST_TEXT = 4_000
_ENVIRONMENT_NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_MONTH = re.compile(r"20\d\d-(0[1-9]|1[0-2])")


class Reader:
    """One mapping of the file, with its key path for messages."""

    def __init__(self, path: Path, where: str, raw: object) -> None:
        self.path, self.where = path, where
        if not isinstance(raw, Mapping):
            raise StudyError(f"{path}: {where or 'the file'} must be a mapping of keys, not {_kind(raw)}")
        self.raw: Mapping[str, Any] = raw

    def fail(self, key: str, message: str) -> StudyError:
        """An error at `key`; the caller raises it."""
        shown = key if key.isprintable() and len(key) <= _SHOWN else _shown(key)
        place = f"{self.where}.{shown}" if self.where else shown
        return StudyError(f"{self.path}: {place}: {message}")

    def only(self, *allowed: str) -> None:
        """Refuse all keys except `allowed`."""
        for key in self.raw:
            if key not in allowed:
                near = difflib.get_close_matches(str(key), allowed, n=1)
                hint = f"did you mean {near[0]}? " if near else ""
                raise self.fail(str(key), f"unknown key; {hint}allowed: {', '.join(sorted(allowed))}")

    def _given(self, key: str, default: object, wanted: str) -> Any:
        """The value at `key`; a key without a default is required."""
        if key not in self.raw and default is None:
            raise self.fail(key, f"is missing; it must be {wanted}")
        return self.raw.get(key, default)

    def text(self, key: str, default: str | None = None) -> str:
        """A text that is not empty."""
        value = self._given(key, default, "a text")
        if not isinstance(value, str) or not value.strip():
            raise self.fail(key, f"must be a text, not {_kind(value)}")
        if len(value) > _LONGEST_TEXT:
            raise self.fail(
                key, f"is a text of {len(value):,} characters; at most {_LONGEST_TEXT:,} are allowed"
            )
        return value

    def slug(self, key: str) -> str:
        """A name that is safe in file names and partition keys."""
        value = self.text(key)
        if not _SLUG.fullmatch(value) or "__" in value:
            raise self.fail(
                key,
                f"{value!r} must be lower-case letters, digits and single underscores, at most {LONGEST_NAME}",
            )
        return value

    def choice(self, key: str, allowed: tuple[str, ...], default: str | None = None) -> str:
        """One of `allowed`."""
        value = self._given(key, default, f"one of {', '.join(allowed)}")
        if value not in allowed:
            raise self.fail(key, _not_one_of(value, allowed))
        return str(value)

    def number(self, key: str, default: int, low: int, high: int = 10**12) -> int:
        """A whole number from `low` to `high`."""
        value = self.raw.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.fail(key, f"must be a whole number of {low} to {high}, not {_shown(value)}")
        return value

    def count(self, key: str) -> int:
        """A whole number of at least 1."""
        return self.number(key, 1, 1)

    def flag(self, key: str) -> bool:
        """true or false; missing is false."""
        value = self.raw.get(key, False)
        if not isinstance(value, bool):
            raise self.fail(key, f"must be true or false, not {_shown(value)}")
        return value

    def optional(self, key: str, read: Callable[[str], Any]) -> Any:
        """The result of `read`, or None if the key is missing or empty."""
        return read(key) if self.raw.get(key) is not None else None

    def month(self, key: str) -> str:
        """A month, YYYY-MM."""
        value = self._given(key, None, "a month in quotes, as in '2026-10'")
        if not isinstance(value, str) or not _MONTH.fullmatch(value):
            raise self.fail(key, f"must be a month in quotes, as in '2026-10', not {_shown(value)}")
        return value

    def price(self, key: str) -> float:
        """Dollars, at least 0."""
        value = self.raw.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e6:
            raise self.fail(key, f"must be a number of at least 0 (dollars), not {_shown(value)}")
        return float(value)

    def real(self, key: str, default: float, above: float, most: float) -> float:
        """A number above `above`, at most `most`."""
        value = self.raw.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not above < value <= most:
            raise self.fail(
                key, f"must be a number above {above:g} and at most {most:g}, not {_shown(value)}"
            )
        return float(value)

    def share(self, key: str, default: float) -> float:
        """A number of 0 to 1."""
        value = self.raw.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
            raise self.fail(key, f"must be a number of 0 to 1, not {_shown(value)}")
        return float(value)

    def environment_name(self, key: str) -> str:
        """The name of an environment variable. The message does not show a wrong value, as it may be a secret."""
        value = self.raw.get(key)
        if not isinstance(value, str) or not _ENVIRONMENT_NAME.fullmatch(value):
            raise self.fail(
                key,
                "must be the name of an environment variable (capitals, digits, underscores), not what it holds",
            )
        return value

    def address(self, key: str, example: str) -> str:
        """An https address without secrets. The message does not show a wrong one, as it may hold a token."""
        url = self.text(key)
        if "@" in url or "?" in url or "#" in url:
            raise self.fail(
                key, "may hold no user name, password or query, since messages and reports show it"
            )
        try:
            parts = urlsplit(url)
            is_address = bool(parts.hostname) and parts.port != 0 and not any(char.isspace() for char in url)
        except ValueError:
            is_address = False
        if not is_address or not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(url))):
            raise self.fail(key, f"must be an https address, as in {example}; http is for this machine only")
        return url

    def sha256(self, key: str) -> str:
        """A SHA-256 checksum, in lower case."""
        value = self.text(key).lower()
        if not _SHA256.fullmatch(value):
            raise self.fail(key, f"must be a checksum of 64 hexadecimal digits, not {_shown(value)}")
        return value

    def choices(self, key: str, allowed: tuple[str, ...], default: tuple[str, ...]) -> tuple[str, ...]:
        """A list of distinct values from `allowed`, at least one."""
        value = self.raw.get(key, list(default))
        if not isinstance(value, list) or not value:
            raise self.fail(key, f"must be a list of at least one of: {', '.join(allowed)}")
        for item in value:
            if item not in allowed:
                raise self.fail(key, _not_one_of(item, allowed))
        if len(set(value)) < len(value):
            raise self.fail(key, "names something twice")
        return tuple(value)

    def names(self, key: str) -> tuple[str, ...]:
        """A list of distinct texts, at least one."""
        value = self.raw.get(key)
        if not isinstance(value, list) or not value:
            raise self.fail(key, "must be a list of at least one text")
        for item in value:
            if not isinstance(item, str) or not item.strip():
                raise self.fail(key, f"must hold texts, not {_kind(item)}")
        return self.choices(key, tuple(value), ())

    def phrases(self, key: str) -> tuple[str, ...]:
        """A list of distinct texts with letters or digits; none without the key."""
        found = self.names(key) if self.raw.get(key) is not None else ()
        for text in found:
            if not any(character.isalnum() for character in text):
                raise self.fail(key, f"must hold texts with letters or digits, not {_shown(text)}")
        return found

    def listed(
        self, key: str, default: tuple[Any, ...], read_one: Callable[[Reader, str], Any]
    ) -> tuple[Any, ...]:
        """A list of distinct values, at least one; `read_one` reads the value at a place of the list."""
        if key not in self.raw:
            return default
        value = self.raw[key]
        if not isinstance(value, list) or not value:
            raise self.fail(key, "must be a list with at least one value")
        where = f"{self.where}.{key}" if self.where else key
        own = Reader(self.path, where, {str(i): item for i, item in enumerate(value)})
        found = tuple(read_one(own, place) for place in own.raw)
        if len(set(found)) < len(found):
            raise self.fail(key, "names something twice")
        return found

    def child(self, key: str) -> Reader:
        """The mapping under `key`."""
        where = f"{self.where}.{key}" if self.where else key
        return Reader(self.path, where, self._given(key, None, "a mapping of keys"))

    def children(self, key: str) -> list[Reader]:
        """The list of mappings under `key`, at least one."""
        value = self._given(key, None, "a list with at least one entry")
        if not isinstance(value, list) or not value:
            raise self.fail(key, "must be a list with at least one entry")
        where = f"{self.where}.{key}" if self.where else key
        return [Reader(self.path, f"{where}[{i}]", item) for i, item in enumerate(value)]


def _kind(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {_shown(value)}"


def _not_one_of(value: object, allowed: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(str(value), allowed, n=1)
    return (
        f"{_shown(value)} is not one of: {', '.join(allowed)}{f'; did you mean {near[0]}?' if near else ''}"
    )


def _shown(value: object) -> str:
    """`value` as Python writes it, cut; a number with more digits than Python prints is only described."""
    try:
        text = repr(value)
    except ValueError:
        return "a huge number"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
