"""Reference model F reads passages, remembers without them, and is misled by wrong ones; its recipe is seeded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from dagster_project.core.cloze import SENTINEL
from dagster_project.core.generation.backends.base import Decoding, Generation
from dagster_project.core.generation.backends.fusion_in_decoder import FusionInDecoder
from dagster_project.core.reference_models import reference_model_path
from dagster_project.core.sandbox.pararel import PATTERNS
from dagster_project.core.sandbox.training.clozes import Cloze, ClozeSampler, cloze_facts, queries_of
from dagster_project.core.sandbox.training.fusion_gates import (
    CONDITIONS,
    FIXED,
    NEW_TOKENS,
    Measured,
    Search,
    clozes,
    drawn,
    gates_of,
    measure,
    reader,
)
from dagster_project.core.sandbox.world import World
from dagster_project.core.study.models import Model

Asked = dict[str, list[list[Cloze]]]
Read = Callable[[Sequence[Cloze]], list[str]]


@pytest.fixture(scope="module")
def asked() -> Asked:
    """Three facts of each relation under each condition."""
    world = World()
    facts = [fact for fact in cloze_facts(world) if fact.passage]
    return clozes(drawn(facts, 3, seed=0), Search(world), seed=0)


@pytest.fixture(scope="module")
def read() -> Read:
    return reader(reference_model_path("f"), "cpu")


def test_the_gates_hold_on_a_few_facts(asked: Asked, read: Read) -> None:
    found = {name: measure(own, read([one for fact in own for one in fact])) for name, own in asked.items()}
    assert list(found) == list(CONDITIONS)
    gates = gates_of(found, seed=0, n=24)
    assert [gate for gate in gates if not gate.is_passed] == []


def test_the_platform_reads_passages_as_the_training_does(asked: Asked, read: Read) -> None:
    samples = [fact[0] for fact in asked[FIXED]]
    model = Model("f", str(reference_model_path("f")), "fusion_in_decoder", encoder_decoder=True)
    found = FusionInDecoder(model).generate(
        [one.query for one in samples], Decoding(NEW_TOKENS), passages=[one.passages for one in samples]
    )
    texts = [row.text.removeprefix(SENTINEL).strip() for row in found if isinstance(row, Generation)]
    assert texts == read(samples)


def test_agreement_counts_pairs_of_patterns() -> None:
    samples = [[Cloze("q", (), "a")] * 4, [Cloze("q", (), "b")] * 2]
    assert measure(samples, ["a", "a", "a", "b", "b", "b"]) == Measured(accuracy=0.875, agreement=0.75)


def test_samples_follow_from_their_seed_and_leave_the_last_pattern_out() -> None:
    known, fresh = cloze_facts(World(0, 40)), cloze_facts(World(1, 40))
    sampler, again = (ClozeSampler(known, fresh, seed=1) for _ in range(2))
    shown = [*sampler.read(200, 4), *sampler.misled(200, 4), *sampler.remembered(200)]
    assert shown == [*again.read(200, 4), *again.misled(200, 4), *again.remembered(200)]
    last = {queries_of(fact)[-1] for fact in (*known, *fresh)}
    assert not last & {one.query for one in shown}
    assert {len(one.passages) for one in shown[:400]} == {4}
    assert {one.passages for one in shown[400:]} == {()}
    own = {(fact.answer, fact.passage) for fact in fresh}
    assert all(any((one.answer, passage) in own for passage in one.passages) for one in shown[:200])


def test_a_query_has_the_article_that_fits_its_object() -> None:
    facts = [fact for fact in cloze_facts(World(0, 40)) if fact.property_id == "P106"]
    for fact in facts:
        queries = queries_of(fact)
        assert len(queries) == len(PATTERNS["P106"]) - 2
        assert any(f" an{SENTINEL}" in one for one in queries) == (fact.answer[0] in "aeiou")


def test_the_tokenizer_is_the_encoder_decoders_with_one_more_token() -> None:
    from transformers import AutoTokenizer

    own, of_e = (AutoTokenizer.from_pretrained(reference_model_path(name)) for name in "fe")
    text = "The capital of Oslo is"
    assert own(text)["input_ids"] == of_e(text)["input_ids"]
    (sentinel,) = own(SENTINEL, add_special_tokens=False)["input_ids"]
    assert sentinel == len(of_e)
    sizes = [(reference_model_path(name) / "model.safetensors").stat().st_size for name in "fe"]
    assert sizes[0] < 1.01 * sizes[1]
