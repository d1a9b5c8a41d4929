"""Distinct requests and batches: whole, the same whatever the order, and with neighbours that begin alike."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from itertools import pairwise, takewhile

from hypothesis import given
from hypothesis import strategies as st

from dagster_project.core.generation.backends.base import Decoding
from dagster_project.core.generation.engine.batching import (
    Distinct,
    batches,
    distinct_requests,
    shared_bytes,
    signature,
    work,
)

DECODING = Decoding(15)
PROMPTS = st.lists(
    st.text(max_size=80) | st.text(max_size=3).map(lambda text: "shared " * 40 + text), max_size=60
)


@dataclass(frozen=True)
class Row:
    prompt: str
    sample_seed: int | None = None

    def text(self) -> str:
        return self.prompt


def distinct(rows: list[Row]) -> Distinct:
    def key(digest: str, seed: int | None) -> bytes:
        return hashlib.sha256(f"{digest} {seed}".encode()).digest()

    return distinct_requests(rows, key, lambda: None)


@given(PROMPTS, st.integers(16, 400), st.randoms())
def test_batches_hold_every_prompt_once_whatever_the_order(
    prompts: list[str], batch_tokens: int, draw: random.Random
) -> None:
    rows = [Row(prompt) for prompt in prompts]
    found = distinct(rows)
    planned = [
        [request.digest for request in batch] for batch, _ in batches(found.requests, DECODING, batch_tokens)
    ]
    hashes = [hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).digest() for prompt in prompts]
    assert [request.digest for request in found.of_row] == hashes
    assert sorted(digest for batch in planned for digest in batch) == sorted(set(hashes))
    draw.shuffle(rows)
    again = batches(distinct(rows).requests, DECODING, batch_tokens)
    assert [[request.digest for request in batch] for batch, _ in again] == planned


@given(PROMPTS, st.integers(16, 400))
def test_a_batch_is_about_twice_the_tokens_or_one_row(prompts: list[str], batch_tokens: int) -> None:
    for batch, tokens in batches(
        distinct([Row(prompt) for prompt in prompts]).requests, DECODING, batch_tokens
    ):
        assert len(batch) == 1 or tokens <= 2 * batch_tokens
        assert tokens <= sum(work(request, 1, DECODING) for request in batch)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=30))
def test_samples_of_a_prompt_are_one_request(asked: list[tuple[str, int]]) -> None:
    found = distinct([Row(prompt, seed) for prompt, seed in asked])
    assert {request.digest for request in found.requests} == {
        hashlib.sha256(p.encode()).digest() for p, _ in asked
    }
    assert sum(len(request.seeds) for request in found.requests) == len(set(asked))
    assert len(set(found.keys)) == len(set(asked))
    for request, key in zip(found.of_row, found.keys, strict=True):
        assert key in request.keys


@given(st.binary(max_size=700), st.binary(max_size=700), st.binary(max_size=700))
def test_a_signature_tells_where_prompts_part(common: bytes, left: bytes, right: bytes) -> None:
    one, other = common + left, common + right
    agree = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    exact = sum(1 for _ in agree)
    told = shared_bytes(signature(one), signature(other))
    if exact < min(len(one), len(other)):
        assert exact - 128 < told <= exact


def test_prompts_with_the_same_demonstrations_are_neighbours() -> None:
    draw = random.Random(0)
    heads = [f"{draw.random()} " + "Q: Who? A: Me.\n\n" * 30 for _ in range(7)]
    prompts = [head + f"Q: {draw.random()} A:" for head in heads for _ in range(20)]
    draw.shuffle(prompts)
    ((batch, _),) = batches(distinct([Row(prompt) for prompt in prompts]).requests, DECODING, 100_000)
    order = [prompts[request.row].split(" ")[0] for request in batch]
    assert sum(before != after for before, after in pairwise(order)) == len(heads) - 1


def test_texts_are_built_once_and_not_kept() -> None:
    class Built(Row):
        n_built = 0

        def text(self) -> str:
            Built.n_built += 1
            return super().text()

    found = distinct([Built(f"prompt {n}") for n in range(50)])
    list(batches(found.requests, DECODING, 64))
    assert Built.n_built == 50
