"""A step of training: the losses of reader and retriever against plain formulas, and what moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_sweep import LOG
from transformers import AutoModelForSeq2SeqLM
from transformers.modeling_outputs import BaseModelOutput

from longtail.embedding.declared import DeclaredEncoder
from longtail.errors import LakeError
from longtail.storage.lake import Lake
from longtail.study.study import Study
from longtail.study.sweep import SCHEDULES
from longtail.tuning import trainer
from longtail.tuning.trainer import (
    FixedIndex,
    Trainer,
    batch,
    distillation_loss,
    read_facts,
    token_log_likelihoods,
)


def opened(study: Study) -> tuple[Any, FixedIndex]:
    """The facts and the index of the first setting."""
    assert study.sweep
    lake = Lake(study.home.lake)
    facts = read_facts(study, lake, study.sweep, study.sweep.drawn[0])
    return facts, FixedIndex(study, lake, study.method("nearest"), LOG)


def test_queries_are_taken_once_before_any_is_taken_again(study: Study) -> None:
    facts, _ = opened(study)
    setting = study.sweep.drawn[0]  # type: ignore[union-attr]
    n = len(facts.training)
    assert n == 4 * 3
    taken = [query for step in range(n) for query in batch(facts, setting, 5, step)]
    assert (
        {id(query) for query in taken[:n]}
        == {id(query) for query in taken[n:]}
        == set(map(id, facts.training))
    )
    assert [id(one) for one in taken[:n]] != [id(one) for one in taken[n:]]
    held_out = {query.question.question_id for query in facts.judged["held_out"]}
    assert held_out.isdisjoint(query.question.question_id for query in facts.training)


def test_log_likelihoods_are_those_of_one_pass_over_the_parts_behind_one_another(study: Study) -> None:
    reader = AutoModelForSeq2SeqLM.from_pretrained(study.models[0].path).eval()
    parts, target = [[5, 6, 7], [8, 9], [10, 11, 12, 13]], [3, 20, 21, 1]
    prompt = [5, 6, 7, -1, 8, 9, -1, 10, 11, 12, 13]
    with torch.no_grad():
        found = token_log_likelihoods(reader, [prompt], target)
        states = [reader.get_encoder()(torch.tensor([part])).last_hidden_state for part in parts]
        out = reader(
            encoder_outputs=BaseModelOutput(torch.cat(states, dim=1)),
            decoder_input_ids=torch.tensor([[0, *target[:-1]]]),
        )
        expected = out.logits[0].log_softmax(-1)[range(4), target]
    assert torch.allclose(found[0], expected, atol=1e-5)


def test_the_retriever_learns_the_readers_distribution_over_passages() -> None:
    scores = torch.tensor([[0.3, -0.1, 0.2], [0.0, 0.5, 0.1]], requires_grad=True)
    likelihoods = torch.tensor([[-1.0, -2.0, -0.5], [-3.0, -0.1, -0.2]])
    found = distillation_loss(scores, likelihoods, 0.5, gold_temperature=0.2)
    p, q = np.exp(likelihoods.numpy() / 0.2), np.exp(scores.detach().numpy() / 0.5)
    p, q = (one / one.sum(1, keepdims=True) for one in (p, q))
    assert found.item() == pytest.approx(float((p * np.log(p / q)).sum(1).mean()), abs=1e-6)
    found.backward()
    assert scores.grad is not None
    assert scores.grad.numpy() == pytest.approx((q - p) / 0.5 / 2, abs=1e-6)


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        ("constant", {0: 0.2, 3: 0.8, 4: 1, 149: 1}),
        ("reference", {0: 0, 1: 0.05, 19: 0.95, 20: 1, 85: 0.5, 149: 1 / 130}),
    ],
)
def test_learning_rates_follow_the_schedule(schedule: str, factors: dict[int, float]) -> None:
    own = SCHEDULES[schedule]
    assert {step: own.factor(step, 150) for step in factors} == pytest.approx(factors)
    assert own.factor(10, 20) <= own.factor(19, 20) <= 1


def test_a_step_takes_the_rates_and_the_temperature_of_its_schedule(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts, index = opened(study)
    setting = study.sweep.drawn[0]  # type: ignore[union-attr]
    encoder = DeclaredEncoder("nearest", study.method("nearest").settings)  # type: ignore[arg-type]
    asked: list[tuple[float, float]] = []

    def loss(scores: torch.Tensor, likelihoods: torch.Tensor, *temperatures: float) -> torch.Tensor:
        asked.append(temperatures)  # type: ignore[arg-type]
        return distillation_loss(scores, likelihoods, *temperatures)

    monkeypatch.setattr(trainer, "distillation_loss", loss)
    for schedule, step, gold in (("constant", 1, setting.temperature), ("reference", 5, 0.01)):
        learner = Trainer(study.models[0], encoder, setting, index, None, SCHEDULES[schedule], 50)
        learner.step(batch(facts, setting, 0, step), step, 0)
        factor = SCHEDULES[schedule].factor(step, 50)
        rates = [group["lr"] for group in learner._optimiser.param_groups]
        assert rates == pytest.approx([setting.rates.reader * factor, setting.rates.retriever * factor])
        assert asked.pop() == (setting.temperature, gold)
        learner.close()


def test_training_lowers_the_loss_leaves_the_passages_alone_and_goes_on_from_a_checkpoint(
    study: Study, tmp_path: Path
) -> None:
    facts, index = opened(study)
    setting = study.sweep.drawn[0]  # type: ignore[union-attr]
    settings = study.method("nearest").settings
    encoder = DeclaredEncoder("nearest", settings)  # type: ignore[arg-type]
    learner = Trainer(study.models[0], encoder, setting, index, None, SCHEDULES["constant"], 24)
    rows = np.arange(6).reshape(2, 3)
    before, asked = index.vectors(rows), learner._retriever.pool([[2, 5, 3]]).detach()
    losses = [learner.step(batch(facts, setting, 0, 0), 0, 0).reader]
    norms = [
        torch.nn.utils.get_total_norm([one.grad for one in group["params"] if one.grad is not None])
        for group in learner._optimiser.param_groups
    ]
    assert max(norms) == pytest.approx(1, abs=1e-3), "longer gradients are clipped"
    losses += [learner.step(batch(facts, setting, 0, step), step, 0).reader for step in range(1, 24)]
    assert np.mean(losses[-6:]) < np.mean(losses[:6]) - 1
    assert np.array_equal(index.vectors(rows), before)
    assert not torch.allclose(learner._retriever.pool([[2, 5, 3]]), asked, atol=1e-3)
    (tmp_path / "checkpoint").mkdir()
    learner.save(tmp_path / "checkpoint")
    again = Trainer(
        study.models[0], encoder, setting, index, tmp_path / "checkpoint", SCHEDULES["constant"], 24
    )
    moments, same = (one._optimiser.state_dict()["state"] for one in (learner, again))
    assert moments
    for number, state in moments.items():
        assert all(torch.equal(value, same[number][name]) for name, value in state.items())
    again.close()
    learner.close()


def test_passages_have_their_stored_vectors_and_a_broken_query_is_told(study: Study) -> None:
    _, index = opened(study)
    every = index.vectors(np.arange(18))
    asked = every[[7, 3]] + np.float32(0.01)
    rows = index.search(asked, 4, "cpu")
    assert rows.tolist() == np.argsort(-np.round(asked @ every.T, 6), axis=1, kind="stable")[:, :4].tolist()
    asked[1, 0] = np.nan
    with pytest.raises(LakeError, match="retriever nearest: a query's vector is not finite"):
        index.search(asked, 4, "cpu")
