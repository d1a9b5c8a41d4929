"""Reference model F chooses among four passages, remembers, and is misled by wrong passages; its recipe is seeded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from longtail.generation.backends.base import Decoding, Generation
from longtail.generation.backends.hf import FusionInDecoder
from longtail.relations.cloze import SENTINEL, pararel_patterns
from longtail.sandbox.world import World
from longtail.study.model_files import reference_model_path
from longtail.study.models import Model
from tools.reference_models.clozes import Cloze, ClozeSampler, cloze_facts, queries_of
from tools.reference_models.fusion import matching_loss, new_head, with_titles_alone
from tools.reference_models.fusion_gates import (
    CONDITIONS,
    FIXED,
    NEW_TOKENS,
    Measured,
    clozes,
    drawn,
    gate_of_agreement,
    gates_of_accuracy,
    measure,
    reader,
)
from tools.reference_models.search import Search, name_of, passage_of

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


def test_agreement_counts_pairs_of_patterns() -> None:
    samples = [[Cloze("q", (), "a")] * 4, [Cloze("q", (), "b")] * 2]
    assert measure(samples, ["a", "a", "a", "b", "b", "b"]) == Measured(accuracy=0.875, agreement=0.75)


def test_samples_follow_from_their_seed_and_leave_the_last_pattern_out() -> None:
    known, fresh = cloze_facts(World(0, 40)), [World(1, 40), World(2, 40)]
    sampler, again = (ClozeSampler(known, fresh, seed=1) for _ in range(2))
    shown = [*sampler.read(60, 4), *sampler.remembered(60)]
    assert shown == [*again.read(60, 4), *again.remembered(60)]
    facts = [*known, *(fact for world in fresh for fact in cloze_facts(world))]
    last = {queries_of(fact)[-1] for fact in facts}
    assert not last & {one.query for one in shown}
    assert {one.passages for one in shown[60:]} == {()}


def test_one_passage_of_a_sample_is_right_and_the_others_bear_other_names() -> None:
    world = World(1, 40)
    facts = {(fact.answer, fact.passage): fact for fact in cloze_facts(world)}
    places = set()
    for one in ClozeSampler(cloze_facts(World(0, 40)), [world], seed=1).read(60, 4):
        assert one.right is not None
        places.add(one.right)
        own = one.passages[one.right]
        others = [name_of(text) for text in one.passages if text != own]
        assert facts[one.answer, own].subject in one.query
        assert len(set(one.passages)) == 4
        assert name_of(own) not in others
    assert places == {0, 1, 2, 3}


def test_names_are_read_from_titles() -> None:
    passage = passage_of("Ada Kul (athlete)", "Ada Kul is an athlete.")
    assert name_of(passage) == name_of(passage_of("Ada Kul", "A context: of her own (so).")) == "Ada Kul"
    cut = with_titles_alone(Cloze("q", (passage, passage), "a", right=1))
    assert cut == Cloze("q", ("title: Ada Kul (athlete)",) * 2, "a", right=1)


def test_right_and_wrong_passages_have_the_same_weight_and_padding_none() -> None:
    import torch

    head = new_head(1)
    with torch.no_grad():
        head.weight.fill_(1)
        head.bias.fill_(0)
    states = torch.tensor([[[2.0, 9.0], [-1.0, -1.0], [3.0, 0.0]]]).unsqueeze(-1)
    mask = torch.tensor([[[1, 0], [1, 1], [1, 1]]])
    found = matching_loss(head, states, mask, [0])
    losses = torch.nn.functional.softplus(torch.tensor([-2.0, -1.0, -1.0, 3.0, 0.0]))
    # the right passage has one token, which weighs twice, as there are two wrong passages
    assert found.item() == pytest.approx((2 * losses[0] + losses[1:].sum()).item() / 6)


def test_a_query_has_the_article_that_fits_its_object() -> None:
    facts = [fact for fact in cloze_facts(World(0, 40)) if fact.property_id == "P106"]
    for fact in facts:
        queries = queries_of(fact)
        assert len(queries) == len(pararel_patterns()["P106"]) - 2
        assert any(f" an{SENTINEL}" in one for one in queries) == (fact.answer[0] in "aeiou")


def test_the_tokenizer_is_the_encoder_decoders_with_a_space_in_front_and_one_more_token() -> None:
    from transformers import AutoTokenizer

    own, of_e = (AutoTokenizer.from_pretrained(reference_model_path(name)) for name in "fe")
    text = "The capital of Oslo is"
    assert own(text)["input_ids"] == own(f" {text}")["input_ids"] == of_e(f" {text}")["input_ids"]
    (sentinel,) = own(SENTINEL, add_special_tokens=False)["input_ids"]
    assert sentinel == len(of_e)
    sizes = [(reference_model_path(name) / "model.safetensors").stat().st_size for name in "fe"]
    assert sizes[0] < 1.01 * sizes[1]
