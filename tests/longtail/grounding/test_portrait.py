"""Portraits: their size and rate, their files, and what is refused."""

from __future__ import annotations

import dataclasses
import logging
import os
import random
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from longtail.errors import LakeError
from longtail.grounding.portrait import (
    Hasher,
    Plan,
    Portrait,
    Texts,
    build,
    count_grams,
    open_portrait,
    path_of,
    plan_portrait,
)
from tests.longtail.grounding.plain_reference import corpus_of, texts_of

LOG = logging.getLogger("test")
SEED = 7
PLAN = plan_portrait(180_000, 0.001, SEED, parts_per_file=2)
"""Five parts in three files."""


def some_texts(n: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices("abcdefgh ", k=900)) for _ in range(n)]


def built(folder: Path, texts: list[str], plan: Plan = PLAN) -> Path:
    build(folder, plan, corpus_of(texts, at_once=7), LOG, memory=0, room=10_000)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def members(portrait: Portrait, texts: list[str]) -> np.ndarray:
    find = portrait.finder(5_000)
    pieces = Hasher(SEED, 5_000).pieces(texts_of(texts))
    return np.concatenate([find(piece.hashes).copy() for piece in pieces])


@pytest.mark.parametrize(("rate", "tolerance"), [(0.01, 0.05), (0.001, 0.07)])
def test_the_planned_rate_is_met_with_few_bits(tmp_path: Path, rate: float, tolerance: float) -> None:
    data = np.random.default_rng(0).integers(97, 123, 1_500_000, dtype=np.uint8)
    texts = Texts(data, np.array([0, len(data)]))
    plan = plan_portrait(len(data), rate, SEED)
    build(tmp_path / "p" / "s", plan, lambda: [texts], LOG)
    portrait = open_portrait(tmp_path / "p" / "s")
    optimal = -len(data) * np.log2(rate) / np.log(2)
    assert plan.n_bytes * 8 <= 1.1 * optimal
    probes = np.random.default_rng(1).integers(0, 1 << 64, 1 << 21, np.uint64)  # which no text has
    assert portrait.finder(1 << 21)(probes).mean() == pytest.approx(rate, rel=tolerance)
    find = portrait.finder(1 << 16)
    assert all(find(piece.hashes).all() for piece in Hasher(SEED, 1 << 16).pieces(texts))


@pytest.mark.parametrize("n", [0, 1, 30_000, 3_000_000])
def test_distinct_grams_are_counted_within_a_percent(n: int) -> None:
    distinct = np.random.default_rng(n).integers(97, 123, n + 24, dtype=np.uint8)
    texts = Texts(np.concatenate([distinct, distinct]), np.array([0, n + 24, 2 * (n + 24)]))
    n_all, n_distinct = count_grams([texts], SEED, room=1 << 20)
    assert n_all == 2 * n
    assert n_distinct == pytest.approx(n, rel=0.01)


def test_an_empty_corpus_has_a_portrait_that_knows_nothing(tmp_path: Path) -> None:
    assert count_grams([], SEED) == (0, 0)
    plan = plan_portrait(0, 0.001, SEED)
    portrait = open_portrait(built(tmp_path / "p" / "s", [], plan))
    assert not members(portrait, some_texts(3)).any()


def test_equal_texts_make_equal_files(tmp_path: Path) -> None:
    """In another order, and in other pieces."""
    texts = some_texts(200)
    whole = built(tmp_path / "p" / "whole", texts)
    other = tmp_path / "p" / "other"
    build(other, PLAN, corpus_of(texts[::-1]), LOG)
    assert len(contents(whole)) == PLAN.n_files == 3
    assert contents(whole) == contents(other)
    assert members(open_portrait(whole), texts).all()


def test_a_file_of_another_plan_is_refused_by_name(tmp_path: Path) -> None:
    folder = built(tmp_path / "p" / "s", some_texts(3))
    other = built(tmp_path / "p" / "other", some_texts(3), dataclasses.replace(PLAN, seed=8))
    path_of(other, 1).replace(path_of(folder, 1))
    with pytest.raises(LakeError, match=r"00001\.portrait is of another portrait than 00000\.portrait"):
        open_portrait(folder)


@pytest.mark.parametrize("kept", [0, 100, 4_096, 60_000])
def test_a_cut_file_is_refused_by_name_and_built_again(tmp_path: Path, kept: int) -> None:
    texts = some_texts(60)
    folder = built(tmp_path / "p" / "s", texts)
    before, cut = contents(folder), path_of(folder, 1)
    os.truncate(cut, kept)
    with pytest.raises(LakeError, match=rf"{cut.name} is (cut|no file of a portrait)"):
        open_portrait(folder)
    build(folder, PLAN, corpus_of(texts), LOG)  # all files in one pass
    assert contents(folder) == before
    cut.unlink()
    with pytest.raises(LakeError, match=rf"{cut.name} is missing"):
        open_portrait(folder)


@pytest.mark.parametrize("place", [3, 60, 1_000, 4_095, 4_096, 50_000, -5, -1])
def test_one_flipped_byte_is_refused_by_name_and_built_again(tmp_path: Path, place: int) -> None:
    """In the header's first line, its values, its padding, the first word, the middle, the last word, the checksum."""
    texts = some_texts(60)
    folder = built(tmp_path / "p" / "s", texts)
    before, hurt = contents(folder), path_of(folder, 1)
    data = bytearray(hurt.read_bytes())
    data[place] ^= 1
    hurt.write_bytes(data)
    with pytest.raises(LakeError, match=rf"{hurt.name}( has changed| is of another portrait| is no file)"):
        open_portrait(folder)
    assert contents(built(folder, texts)) == before


def test_a_build_that_was_stopped_goes_on_after_its_last_whole_file(tmp_path: Path) -> None:
    folder, texts = tmp_path / "p" / "stopped", some_texts(60)

    def corpus() -> Iterable[Texts]:
        if path_of(folder, 0).exists():
            raise KeyboardInterrupt
        return corpus_of(texts)()

    with pytest.raises(KeyboardInterrupt):
        build(folder, PLAN, corpus, LOG, memory=0)
    first = path_of(folder, 0)
    assert [path.name for path in folder.iterdir()] == [first.name]
    written = first.stat().st_mtime_ns
    built(folder, texts)
    assert first.stat().st_mtime_ns == written
    assert contents(folder) == contents(built(tmp_path / "p" / "whole", texts))
