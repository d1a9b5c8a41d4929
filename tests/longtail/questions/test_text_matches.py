"""Counting names in text, compared with a search that knows no automaton, no windows and no passes."""

from __future__ import annotations

import bz2
import gzip
import json
import logging
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from longtail.errors import SourceError
from longtail.questions.text_matches import NameCounts, count_names, is_word, text_files

LOG = logging.getLogger("tests.text_matches")
LETTERS = st.text(st.sampled_from("ab é\u0301_0.-\n\x00👩🚀ß"), min_size=1, max_size=4)


def count(text: bytes, names: list[str], folder: Path) -> NameCounts:
    file = folder / "text.txt"
    file.write_bytes(text)
    return count_names([file], [name.encode() for name in names], LOG)


def brute_force(text: bytes, name: str) -> tuple[int, int]:
    """(whole words, anywhere): every place of the name's bytes, and the characters beside it."""
    raw = name.encode()
    places = [i for i in range(len(text)) if text.startswith(raw, i)]

    def goes_on(i: int) -> bool:
        before = text[:i].decode("utf-8", "replace")[-1:]
        after = text[i + len(raw) :].decode("utf-8", "replace")[:1]
        return any(
            edge and is_word(edge) and is_word(own) for edge, own in ((before, name[0]), (after, name[-1]))
        )

    return sum(not goes_on(i) for i in places), len(places)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    pieces=st.lists(LETTERS | st.binary(min_size=1, max_size=3), max_size=60),
    names=st.lists(LETTERS, min_size=1, max_size=6, unique=True),
    block=st.integers(1, 40),
)
def test_counts_are_those_of_brute_force_whatever_the_blocks(
    tmp_path: Path, pieces: list[str | bytes], names: list[str], block: int
) -> None:
    text = b"x" + b"".join(piece.encode() if isinstance(piece, str) else piece for piece in pieces)
    if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return
    file = tmp_path / "text.txt"
    file.write_bytes(text)
    found = count_names([file], [name.encode() for name in names], LOG, block)
    expected = np.array([brute_force(text, name) for name in names])
    assert found.whole_words.tolist() == expected[:, 0].tolist()
    assert found.anywhere.tolist() == expected[:, 1].tolist()
    assert found.n_bytes == len(text)


def test_files_of_a_folder_are_read_in_every_form(tmp_path: Path) -> None:
    text = "Ada Quill and Ada Quill. "
    (tmp_path / "a.txt").write_text(text)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/b.txt.gz").write_bytes(gzip.compress(text.encode()) * 2)
    (tmp_path / "c.bz2").write_bytes(bz2.compress(text.encode()))
    (tmp_path / ".hidden").write_text(text)
    lines = [
        json.dumps({"text": f"two\nlines\u00e9 {text}"}),
        "",
        "broken {",
        json.dumps(["no"]),
        json.dumps({"text": 3}),
    ]
    (tmp_path / "d.json.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    files = text_files(tmp_path)
    assert [file.name for file in files] == ["a.txt", "c.bz2", "d.json.gz", "b.txt.gz"]
    found = count_names(files, [b"Ada Quill", "lines\u00e9".encode()], LOG)
    assert found.whole_words.tolist() == [10, 1]
    assert [row.row_key for row in found.rejected.rows] == [f"d.json.gz line {n}" for n in (3, 4, 5)]


def test_what_cannot_be_counted_in_is_said(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no such file or folder of text"):
        text_files(tmp_path / "nothing")
    with pytest.raises(SourceError, match="holds no file of text"):
        text_files(tmp_path)
    with pytest.raises(SourceError, match="the text sample is empty"):
        count(b"", ["a"], tmp_path)
    with pytest.raises(SourceError, match="is UTF-16, not UTF-8"):
        count("Ada".encode("utf-16"), ["a"], tmp_path)
    whole = gzip.compress(np.random.default_rng(0).bytes(100_000))
    with pytest.raises(SourceError, match=re.escape("text.txt: damaged gzip file ")):
        count(whole[:50_000], ["a"], tmp_path)
    assert count(b"text", [], tmp_path).whole_words.tolist() == []
