"""Packed batches: their logits are those of each sequence alone, whatever the prefixes, forks and order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_models import ARCHITECTURES

from longtail.generation.backends.hf import choose_steppers
from longtail.generation.backends.local.loading import LoadedModel, load_model
from longtail.generation.backends.local.packed import PackedStepper, PackedSteppers
from longtail.generation.backends.local.passes import Seated
from longtail.models.limits import shared_lengths
from longtail.study.models import Model

TOLERANCE = {"float32": 1e-4, "bfloat16": 0.15}
"""Of logits, root mean square as a share of their spread: batches are summed in another order."""
NAMES = (*ARCHITECTURES, "sandbox:s", "sandbox:m", "sandbox:l")
Opened = tuple[LoadedModel, LoadedModel, PackedSteppers]
"""A plain model, and the same packed."""


@pytest.fixture(scope="module")
def opened(folders: dict[str, Path]) -> dict[str, Opened]:
    return {name: opened_as(name if ":" in name else str(folders[name]), "float32") for name in NAMES}


def opened_as(path: str, dtype: str) -> Opened:
    model = Model(name="tiny", path=path, device="cpu", dtype=dtype)
    loaded = load_model(model)
    steppers = choose_steppers(loaded, 500)
    assert isinstance(steppers, PackedSteppers)
    return load_model(model), loaded, steppers


def distance(plain: LoadedModel, logits: torch.Tensor, sequences: Sequence[Sequence[int]]) -> float:
    """The largest over sequences of the root mean square of differences, as a share of the logits' spread."""
    alone = torch.cat([plain.model(torch.tensor([list(own)])).logits[:, -1].float() for own in sequences])
    assert logits.shape == alone.shape
    return float(((logits - alone).square().mean(1).sqrt() / alone.std(1)).max())


def walk(found: Opened, prompts: list[list[int]], seed: int, steps: int, cost: int) -> float:
    """Random forks and ends for some steps; the largest distance from plain forward passes."""
    plain, _, steppers = found
    draw = random.Random(seed)
    with torch.inference_mode():
        batch = steppers.open(prompts, shared_lengths(prompts, cost))
        states = [list(prompt) for prompt in prompts]
        worst = distance(plain, batch.start(), states)
        for _ in range(steps):
            parents = sorted(draw.choices(range(len(states)), k=draw.randint(1, len(states) + 3)))
            tokens = [draw.randrange(200) for _ in parents]
            logits = batch.step(parents, tokens)
            states = [[*states[parent], token] for parent, token in zip(parents, tokens, strict=True)]
            worst = max(worst, distance(plain, logits, states))
    assert all(0 <= n < len(prompt) for n, prompt in zip(batch.shared_tokens, prompts, strict=True))
    return worst


def some_prompts(seed: int) -> list[list[int]]:
    """Two prefixes, one a beginning of the other, with rows under each, and rows under none, in any order."""
    draw = random.Random(seed)

    def some(n: int) -> list[int]:
        return [draw.randrange(200) for _ in range(n)]

    long = some(40)
    prompts = [*([*long, *some(n)] for n in (1, 4, 9)), *([*long[:22], *some(n)] for n in (2, 6, 6))]
    prompts += [some(n) for n in (1, 8, 30)]
    draw.shuffle(prompts)
    return prompts


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_each_sequence_alone(opened: dict[str, Opened], name: str) -> None:
    for cost in (0, 1000):
        assert walk(opened[name], some_prompts(0), 0, 4, cost) < TOLERANCE["float32"]
        opened[name][2].prefixes.clear()


@pytest.mark.parametrize("name", ["llama", "sandbox:s"])
def test_logits_in_bfloat16(name: str, folders: dict[str, Path]) -> None:
    path = name if ":" in name else str(folders[name])
    assert walk(opened_as(path, "bfloat16"), some_prompts(0), 0, 4, 0) < TOLERANCE["bfloat16"]


@pytest.mark.parametrize(("long", "is_one_call"), [(24, True), (300, False)])
def test_prefixes_are_read_in_one_call_unless_their_lengths_are_too_uneven(
    opened: dict[str, Opened], long: int, is_one_call: bool
) -> None:
    prefixes = [[number] * (long if number == 9 else 12) for number in range(10)]
    prompts = [[*prefix, 100 + own] for prefix in prefixes for own in range(2)]
    prompts.append([150, 151])  # under no prefix
    plain, _, steppers = opened["llama"]
    with torch.inference_mode():
        batch = steppers.open(prompts, shared_lengths(prompts, 0))
        batch.start()
        assert len(batch._spans) == 10
        assert isinstance(batch._prefixes_of_states(), Seated) == is_one_call
        logits = batch.step(range(len(prompts)), [7] * len(prompts))
        assert distance(plain, logits, [[*prompt, 7] for prompt in prompts]) < TOLERANCE["float32"]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    prompts=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=20), min_size=1, max_size=9),
    cost=st.integers(0, 20),
    pass_tokens=st.sampled_from([1, 12, None]),
    seed=st.integers(0, 1000),
)
def test_any_grouping_gives_the_same_logits(
    opened: dict[str, Opened], prompts: list[list[int]], cost: int, pass_tokens: int | None, seed: int
) -> None:
    opened["llama"][2].pass_tokens = pass_tokens
    assert walk(opened["llama"], prompts, seed, 3, cost) < TOLERANCE["float32"]


def begin(steppers: PackedSteppers, prompts: list[list[int]]) -> PackedStepper:
    """A batch of its own that has begun."""
    batch = steppers.open(prompts, shared_lengths(prompts))
    batch.start()
    return batch


def test_a_prefix_is_computed_once_and_then_found(opened: dict[str, Opened]) -> None:
    steppers = opened["llama"][2]
    steppers.prefixes.clear()
    prefix = list(range(100, 140))
    with torch.inference_mode():
        first = begin(steppers, [[*prefix, i] for i in range(20)])
        second = begin(steppers, [[*prefix, 7, i] for i in range(3)])
        longer = [*prefix, *range(150, 190)]
        third = begin(steppers, [[*longer, i] for i in range(20)])
    assert sum(first.shared_tokens) == 19 * 40
    # one token more of a prefix is cheaper left to the three rows than computed by a pass
    assert second.shared_tokens == [40] * 3
    # what a longer prefix begins with is not computed again
    assert sum(third.shared_tokens) == 19 * 80 + 40


def test_prefixes_in_the_store_stay_within_their_limit(opened: dict[str, Opened]) -> None:
    steppers = opened["gpt2"][2]
    with torch.inference_mode():
        for start in range(0, 160, 4):
            prefix = list(range(start, start + 40))
            begin(steppers, [[*prefix, i] for i in range(5)])
    assert 0 < steppers.prefixes.n_tokens <= 500


def test_batches_hold_each_row_once_within_the_budget(opened: dict[str, Opened]) -> None:
    steppers = opened["opt"][2]
    draw = random.Random(3)
    prefixes = [[draw.randrange(200) for _ in range(50)] for _ in range(4)]
    prompts = [
        [*prefixes[i % 4], *(draw.randrange(200) for _ in range(draw.randint(1, 20)))] for i in range(200)
    ]
    batches = steppers.batches(prompts, [15] * 200, 600)
    assert sorted(row for batch in batches for row in batch) == list(range(200))
    for batch in batches:
        held = sum(50 for prefix in prefixes if any(prompts[row][:50] == prefix for row in batch))
        own = len(batch) * max(len(prompts[row]) - 50 for row in batch)
        assert held + own + 15 * len(batch) <= 600
    assert len(batches) <= 15
    assert len(steppers.batches(prompts, [15] * 200, 1)) == 200


def test_a_prompt_that_a_border_cuts_off_its_group_still_shares_its_prefix(opened: dict[str, Opened]) -> None:
    """Else each row of its batch would be filled up to its length."""
    steppers, prefixes = opened["llama"][2], [[number] * 60 for number in range(8)]
    prompts = [[*prefix, 100 + own] for prefix in prefixes for own in range(7)]
    for batch in steppers.batches(prompts, [15] * len(prompts), 250):
        with torch.inference_mode():
            stepper = steppers.open([prompts[row] for row in batch], [*batch.values()])
            stepper.start()
        assert stepper._own.lengths.tolist() == [1] * len(batch)
