"""Distinct requests and batches: whole, the same whatever the order, and with neighbours that begin alike."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from itertools import pairwise, takewhile

from hypothesis import given
from hypothesis import strategies as st

from longtail.generation.backends.base import Decoding, Identity
from longtail.generation.engine.job import Distinct, batches, common_bytes, distinct_works, signature
from longtail.generation.engine.task import ModelInput, Request

PROMPTS = st.lists(
    st.text(max_size=80) | st.text(max_size=3).map(lambda text: "shared " * 40 + text), max_size=60
)


GREEDY = Request(Decoding(15))


@dataclass(frozen=True)
class Row:
    text: str
    request: Request = GREEDY
    passages: tuple[str, ...] = ()

    def prompt(self) -> ModelInput:
        return ModelInput(self.text, self.passages)

    def key(self, part: int) -> dict[str, object]:
        return {}


def distinct(rows: list[Row]) -> Distinct:
    return distinct_works(rows, Identity("revision", "float32", "none", "fake", "1"))


@given(PROMPTS, st.integers(16, 400), st.randoms())
def test_batches_hold_every_prompt_once_whatever_the_order(
    prompts: list[str], batch_tokens: int, draw: random.Random
) -> None:
    rows = [Row(prompt) for prompt in prompts]
    found = distinct(rows)
    planned = [[work.prompt_hash for work in batch] for batch, _ in batches(found.works, batch_tokens)]
    hashes = [hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest() for prompt in prompts]
    assert [work.prompt_hash for work in found.of_item] == hashes
    assert sorted(digest for batch in planned for digest in batch) == sorted(set(hashes))
    draw.shuffle(rows)
    again = batches(distinct(rows).works, batch_tokens)
    assert [[work.prompt_hash for work in batch] for batch, _ in again] == planned


@given(PROMPTS, st.integers(16, 400))
def test_a_batch_is_about_twice_the_tokens_or_one_row(prompts: list[str], batch_tokens: int) -> None:
    for batch, tokens in batches(distinct([Row(prompt) for prompt in prompts]).works, batch_tokens):
        assert len(batch) == 1 or tokens <= 2 * batch_tokens
        assert tokens <= sum(work.effort(1) for work in batch)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3), st.booleans()), max_size=30))
def test_samples_of_a_prompt_are_one_work(asked: list[tuple[str, int, bool]]) -> None:
    """Items seeded alike share their samples, and more samples begin with the same ones."""
    rows = [
        Row(prompt, Request(Decoding(15, 0.5), n, ("one" if first else "other",)))
        for prompt, n, first in asked
    ]
    found = distinct(rows)
    assert {work.prompt_hash for work in found.works} == {
        hashlib.sha256(prompt.encode()).hexdigest() for prompt, _, _ in asked
    }
    assert [len(keys) for keys in found.keys] == [n for _, n, _ in asked]
    parts = {(prompt, first, part) for prompt, n, first in asked for part in range(n)}
    assert sum(len(work.seeds) for work in found.works) == len(parts)
    for work, keys in zip(found.of_item, found.keys, strict=True):
        assert set(keys) <= set(work.keys)


def test_a_prompt_with_other_candidates_passages_or_endings_is_another_work() -> None:
    rows = [
        Row("a"),
        Row("a", Request(Decoding(15, end="end"))),
        Row("a", Request(candidates=(" b",))),
        Row("a", Request(candidates=(" b", " c"))),
        Row("a", passages=("b",)),
        Row("a", passages=("b", "c")),
    ]
    found = distinct([*rows, *rows])
    assert len(found.works) == len({work.keys[0] for work in found.works}) == len(rows)
    assert [work.has_passages for work in found.works] == [False] * 4 + [True] * 2


@given(st.binary(max_size=700), st.binary(max_size=700), st.binary(max_size=700))
def test_a_signature_tells_where_prompts_part(common: bytes, left: bytes, right: bytes) -> None:
    one, other = common + left, common + right
    agree = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    exact = sum(1 for _ in agree)
    told = common_bytes(signature(one), signature(other))
    if exact < min(len(one), len(other)):
        assert exact - 128 < told <= exact


def test_prompts_with_the_same_demonstrations_are_neighbours() -> None:
    draw = random.Random(0)
    heads = [f"{draw.random()} " + "Q: Who? A: Me.\n\n" * 30 for _ in range(7)]
    prompts = [head + f"Q: {draw.random()} A:" for head in heads for _ in range(20)]
    draw.shuffle(prompts)
    ((batch, _),) = batches(distinct([Row(prompt) for prompt in prompts]).works, 100_000)
    order = [work.item.prompt().text.split(" ")[0] for work in batch]
    assert sum(before != after for before, after in pairwise(order)) == len(heads) - 1


def test_texts_are_built_once_and_not_kept() -> None:
    class Built(Row):
        n_built = 0

        def prompt(self) -> ModelInput:
            Built.n_built += 1
            return super().prompt()

    found = distinct([Built(f"prompt {n}") for n in range(50)])
    list(batches(found.works, 64))
    assert Built.n_built == 50
