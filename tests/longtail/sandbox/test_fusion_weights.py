"""Reference model F chooses among four passages, remembers, and is misled by wrong passages; its recipe is seeded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from longtail.generation.backends.base import Decoding, Generation
from longtail.generation.backends.hf import FusionInDecoder
from longtail.relations.cloze import SENTINEL
from longtail.sandbox.world import World
from longtail.study.model_files import reference_model_path
from longtail.study.models import Model
from tools.reference_models.clozes import Cloze, cloze_facts
from tools.reference_models.fusion_gates import (
    CONDITIONS,
    FIXED,
    NEW_TOKENS,
    clozes,
    drawn,
    gate_of_agreement,
    gates_of_accuracy,
    measure,
    reader,
)
from tools.reference_models.search import Search

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
    gates = [*gates_of_accuracy(found, seed=0, n=24), gate_of_agreement(found, seed=0, n=24)]
    assert [gate for gate in gates if not gate.is_passed] == []


def test_the_platform_reads_passages_as_the_training_does(asked: Asked, read: Read) -> None:
    samples = [fact[0] for fact in asked[FIXED]]
    model = Model("f", str(reference_model_path("f")), "fusion_in_decoder", encoder_decoder=True)
    found = FusionInDecoder(model).generate(
        [one.query for one in samples], Decoding(NEW_TOKENS), passages=[one.passages for one in samples]
    )
    texts = [row.text.removeprefix(SENTINEL).strip() for row in found if isinstance(row, Generation)]
    assert texts == read(samples)
