"""How messages show text from outside."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from longtail.errors import printable


@given(st.text(st.characters(exclude_categories=())))
def test_printable_is_one_harmless_line(text: str) -> None:
    shown = printable(text)
    shown.encode("utf-8")
    assert not any(ord(char) < 32 or ord(char) == 127 for char in shown)
