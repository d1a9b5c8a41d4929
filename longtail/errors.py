"""The errors that a user can correct.

Each message says in one line what is wrong, where (file, row, key), and what to do. The command line prints this line
without a stack trace. Programming errors are not among them and keep their trace. Text from outside appears in
messages as `printable` text.
"""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # many terminals read \x9b as ESC [


class LongtailError(Exception):
    """Base of every error with a message for the user."""


class StudyError(LongtailError):
    """A study file is malformed: the message names file, key and the allowed values."""


class SourceError(LongtailError):
    """A source of facts, views or texts cannot be used: a missing file, a missing contact, or a service that is down."""


class LakeError(LongtailError):
    """A table or partition of the lake is missing, damaged, or does not fit its schema."""


class IndexMissingError(LongtailError):
    """A retrieval index was needed before it was built."""


class BackendError(LongtailError):
    """A generation backend is unknown, cannot do what the study needs, or cannot load its model."""


class PublishError(LongtailError):
    """The warehouse was not published; the previously published version stays in place."""


class RouterError(LongtailError):
    """A router's file cannot be used, or it was asked with a value that is no popularity."""


def printable(text: str) -> str:
    """`text` with control characters and lone surrogates escaped, so that any viewer can show it."""
    escaped = _CONTROL.sub(lambda match: f"\\x{ord(match.group()):02x}", text)
    return escaped.encode("utf-8", "backslashreplace").decode()


def single_line(text: str) -> str:
    """`text` as one printable line, as errors are shown in a terminal."""
    return printable(" ".join(text.split()))
