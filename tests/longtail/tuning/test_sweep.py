"""Readers are fine-tuned setting by setting: checkpoints are ordinary models, and a killed run goes on where it was."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from small_sweep import CANDIDATES, LOG, PATTERNS, study_with_sweep
from transformers import AutoModel, AutoModelForSeq2SeqLM, AutoTokenizer
from transformers.modeling_outputs import BaseModelOutput

from longtail.embedding.settings import EncoderSettings
from longtail.errors import BackendError, LakeError
from longtail.generation.backends.hf import FusionInDecoder
from longtail.generation.backends.local.loading import LoadedModel
from longtail.methods import METHODS
from longtail.preflight import misses
from longtail.retrieval.base import Hit, Query, load_retriever
from longtail.retrieval.indexes import Index
from longtail.retrieval.retrieve import open_context
from longtail.storage.lake import Lake
from longtail.study.study import Study
from longtail.tuning.sweep import _settings, tune
from longtail.tuning.trainer import Trainer
from tests.flipped_bits import flip_bit

SPLITS = {"held_out": 2, "judged": 2}
"""Facts of each split in the first setting: three tenths of six, and `judged_facts`."""


def tuned(study: Study, place: int = 0) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The rows of tuned_models and tuned_answers for the setting at `place`."""
    assert study.sweep
    lake, setting = Lake(study.home.lake), study.sweep.drawn[place].name
    tune(study, lake, setting, LOG)
    return lake.read("tuned_models", setting).to_pylist(), lake.read("tuned_answers", setting).to_pylist()


def with_sweep(study: Study, **changes: Any) -> Study:
    assert study.sweep
    return dataclasses.replace(study, sweep=dataclasses.replace(study.sweep, **changes))


def test_two_settings_run_through_and_their_checkpoints_are_ordinary_models(study: Study) -> None:
    before: list[list[dict[str, Any]]] = []
    for place in (0, 1):
        models, answers = tuned(study, place)
        assert [row["step"] for row in models] == [0, 2, 4]
        nothing = {
            "folder": None,
            "folder_revision": None,
            "loss": None,
            "retriever_loss": None,
            "is_kept": False,
        }
        assert models[0] | nothing == models[0]
        shares = [row["held_out_right"] for row in models[1:]]
        assert [row["is_kept"] for row in models[1:]].index(True) == shares.index(max(shares))
        assert sum(row["is_kept"] for row in models) == 1
        assert len({row["folder_revision"] for row in models}) == 3
        for row in models[1:]:
            named = dataclasses.replace(study.models[0], path=row["folder"])
            assert FusionInDecoder.identify(named).revision == row["folder_revision"]
        for row in models:
            own = [one for one in answers if one["step"] == row["step"]]
            held_out = [one["is_correct"] for one in own if one["split"] == "held_out"]
            assert (row["n_held_out_queries"], row["held_out_right"]) == (len(held_out), np.mean(held_out))
            facts = {split: {one["question_id"] for one in own if one["split"] == split} for split in SPLITS}
            assert {
                split: len(found) // (1 if split == "judged" else place + 1) for split, found in facts.items()
            } == SPLITS
            assert len(own) == sum(map(len, facts.values())) * len(PATTERNS)
        asked = [
            {
                (one["split"], one["question_id"], one["paraphrase_id"])
                for one in answers
                if one["step"] == step
            }
            for step in (0, 2, 4)
        ]
        assert asked[0] == asked[1] == asked[2]
        before += [[one for one in answers if (one["step"], one["split"]) == (0, "judged")]]
    assert [one | {"tuned_model": ""} for one in before[0]] == [
        one | {"tuned_model": ""} for one in before[1]
    ]
    judged_before = list(study.home.tuned_models.glob("untrained/*.json"))
    assert (
        len(judged_before) == 3
    )  # the facts of other relations for both settings, and each setting's held-out facts
    again = tune(study, Lake(study.home.lake), models[0]["tuned_model"], LOG)
    assert all(outcome.was_current for outcome in again)


def test_predictions_are_those_of_plain_transformers_with_the_tuned_retriever(study: Study) -> None:
    """Passages by inner product with the untrained encoder's vectors; candidates by their summed log-likelihood."""
    models, answers = tuned(study)
    lake = Lake(study.home.lake)
    reader = AutoModelForSeq2SeqLM.from_pretrained(models[2]["folder"]).eval()
    tokenizer = AutoTokenizer.from_pretrained(models[2]["folder"])
    retriever = Path(models[2]["folder"]).parent / "retriever"
    untrained = study.method("nearest").settings.path  # type: ignore[union-attr]
    searched = as_retriever(study, untrained, retriever)
    passages = lake.read("passages").to_pylist()
    stored = vectors(Path(untrained), [f"{row['title']}\n{row['text']}" for row in passages])
    wordings = {
        (row["question_id"], row["paraphrase_id"]): row["paraphrase"]
        for row in lake.read("paraphrases").to_pylist()
    }
    for row in [one for one in answers if one["step"] == 4][::5]:
        wording = wordings[row["question_id"], row["paraphrase_id"]]
        words = wording.replace(" [Y]", "").replace("[Y] ", "")
        nearest = np.argsort(-(stored @ vectors(retriever, [words])[0]), kind="stable")[:3]
        assert [int(hit.passage_id[1:]) for hit in searched(words)] == list(nearest)
        text = wording.replace(" [Y]", "<extra_id_0>").replace("[Y]", "<extra_id_0>")
        kept = [f"title: {passages[at]['title']} context: {passages[at]['text']}" for at in nearest]
        with torch.inference_mode():
            states = [
                reader.get_encoder()(
                    torch.tensor([tokenizer(f"{text} {one}")["input_ids"]])
                ).last_hidden_state
                for one in kept
            ]
            sums = []
            for target in [f"<extra_id_0> {one}" for one in CANDIDATES]:
                tokens = tokenizer(target)["input_ids"][:-1]
                out = reader(
                    encoder_outputs=BaseModelOutput(torch.cat(states, dim=1)),
                    decoder_input_ids=torch.tensor([[0, *tokens[:-1]]]),
                )
                steps = out.logits[0].log_softmax(-1)
                sums.append(float(steps[range(len(tokens)), tokens].sum()))
        assert row["log_likelihood"] == pytest.approx(max(sums), abs=1e-4)
        assert row["prediction"] == CANDIDATES[int(np.argmax(sums))]


def as_retriever(study: Study, passages: str, questions: Path) -> Callable[[str], Sequence[Hit]]:
    """Three passages for a text, by a retriever as a study declares it: the index is the one that was there."""
    lake = Lake(study.home.lake)
    settings = EncoderSettings(passages, query_path=str(questions))
    other = dataclasses.replace(study.method("nearest"), settings=settings)
    study = dataclasses.replace(study, retrievers=(other,), top_k=3)
    tool = load_retriever(other)
    index = Index.of(other, tool, lake.content("passages"), study.home.indexes)
    context = open_context(study, lake, index, (), LOG)
    return lambda text: tool.search(context, [Query("sandbox", "f", text, None, ())])[0]


def vectors(folder: Path, texts: list[str]) -> np.ndarray:
    """Means over tokens of unit length, one text after the other."""
    model, tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    found = []
    for text in texts:
        with torch.inference_mode():
            states = model(
                **tokenizer(text, truncation=True, max_length=24, return_tensors="pt")
            ).last_hidden_state
        found.append(torch.nn.functional.normalize(states[0].mean(0), dim=0).numpy())
    return np.stack(found)


def test_a_run_that_ends_between_checkpoints_goes_on_and_equals_one_that_does_not(
    study: Study, models: tuple[Path, Path], tmp_path: Path
) -> None:
    other, save, saved = tmp_path / "other", Trainer.save, list[Path]()

    def save_once(trainer: Trainer, folder: Path) -> None:
        saved.append(folder)
        if len(saved) > 1:
            raise KeyboardInterrupt
        save(trainer, folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_HOME", str(other))
        patch.setattr(Trainer, "save", save_once)
        with pytest.raises(KeyboardInterrupt):
            tuned(study_with_sweep(tmp_path, *models))
    kept = [*other.glob("small/tuned_models/*/*/step_2/losses.json")]
    kept += other.glob("small/tuned_models/untrained/*.json")
    assert len(kept) == 1 + len(SPLITS)
    made_at = [path.stat().st_mtime_ns for path in kept]
    uninterrupted = tuned(study)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_HOME", str(other))
        continued = tuned(study)
    assert [path.stat().st_mtime_ns for path in kept] == made_at
    paths = [[row.pop("folder") for row in rows][1:] for rows, _ in (uninterrupted, continued)]
    assert uninterrupted == continued
    for one, same in zip(*paths, strict=True):
        for part in ("reader", "retriever"):
            files = [Path(path).parent / part / "model.safetensors" for path in (one, same)]
            weights = [load_file(file) for file in files]
            assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0] | weights[1])


def test_more_steps_continue_a_finished_setting(study: Study) -> None:
    first, _ = tuned(study)
    made_at = Path(first[2]["folder"]).stat().st_mtime_ns
    (judged,) = Path(first[1]["folder"]).parents[1].glob("step_2.*.json")
    whole = judged.read_bytes()
    flip_bit(judged, 0.99)
    longer, _ = tuned(with_sweep(study, steps=6))
    assert [row["step"] for row in longer] == [0, 2, 4, 6]
    assert [row["folder_revision"] for row in longer[:3]] == [row["folder_revision"] for row in first]
    assert Path(first[2]["folder"]).stat().st_mtime_ns == made_at
    assert judged.read_bytes() == whole, "what was damaged is judged again"
    newest = Path(longer[3]["folder"]).parent
    assert [file.parent for file in newest.parent.glob("step_*/moments.safetensors")] == [newest]
    (newest / "moments.safetensors").unlink()
    with pytest.raises(
        BackendError, match=r"step_6/moments.safetensors is missing; delete .*the setting is trained"
    ):
        tuned(with_sweep(study, steps=8))
    flip_bit(newest.parent / "step_2" / "losses.json")
    with pytest.raises(
        BackendError, match=r"step_2/losses\.json does not match its checksum: restore it, or delete"
    ):
        tuned(with_sweep(study, steps=8))


def test_other_facts_wordings_or_candidates_train_a_setting_again(
    study: Study, caplog: pytest.LogCaptureFixture
) -> None:
    lake, few = Lake(study.home.lake), with_sweep(study, steps=2, judged_facts=1)
    folders = [tuned(few)[0][1]["folder"]]
    for table, change in (
        ("questions", {"gold_answers": ["ab", "cd"]}),
        ("paraphrases", {"paraphrase": "of [Y] is town 0"}),
        ("candidates", {"candidate": "ij"}),
    ):
        first, *others = lake.read(table).to_pylist()
        lake.write(table, [first | change, *others], fingerprint="g")
        folders.append(tuned(few)[0][1]["folder"])
    assert len(set(folders)) == len(folders)
    assert f"{Path(folders[0]).parents[1]} has checkpoints of other inputs, and stays" in caplog.text


def test_training_ends_after_checkpoints_that_are_no_better(study: Study) -> None:
    """With rates of almost nothing no checkpoint is better than the first."""
    rates = dataclasses.replace(study.sweep.learning_rates[0], reader=1e-12, retriever=1e-12)  # type: ignore[union-attr]
    models, answers = tuned(with_sweep(study, steps=8, patience=1, learning_rates=(rates,)))
    assert [(row["step"], row["is_kept"]) for row in models] == [(0, False), (2, True), (4, False)]
    assert [row["loss"] is None for row in models] == [True, False, False]
    scores = [[row["log_likelihood"] for row in answers if row["step"] == step] for step in (0, 2)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)


def test_models_are_given_back_when_training_ends_and_when_it_fails(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    given_back: list[LoadedModel] = []

    def close(model: LoadedModel) -> None:
        given_back.append(model)

    with monkeypatch.context() as patch:
        patch.setattr(LoadedModel, "close", close)
        tuned(with_sweep(study, steps=2))
        n_judged, n_trained = 3, 1  # two splits before training, all after it
        assert len(given_back) == n_judged + n_trained
        wild = dataclasses.replace(study.sweep.learning_rates[0], reader=1e30)  # type: ignore[union-attr]
        with pytest.raises(BackendError, match=r"setting \S+: the loss of step 3 is not finite"):
            tuned(with_sweep(study, every=4, learning_rates=(wild,)))
        assert len(given_back) == n_judged + 2 * n_trained


def test_what_cannot_be_trained_is_refused_by_name(study: Study) -> None:
    with pytest.raises(BackendError, match="there is no sweep"):
        tune(dataclasses.replace(study, sweep=None), Lake(study.home.lake), "setting", LOG)
    with pytest.raises(BackendError, match="method bm25 has no encoder that could be trained"):
        _settings(METHODS["bm25"])
    with pytest.raises(LakeError, match="sweep: dataset sandbox has no cloze queries of relation P999"):
        tuned(with_sweep(study, judged_relations=("P999",)))
    half = dataclasses.replace(study, models=(dataclasses.replace(study.models[0], dtype="bfloat16"),))
    with pytest.raises(BackendError, match="model tiny: the sweep trains weights in dtype float32"):
        tuned(half)
    without = dataclasses.replace(study, models=(dataclasses.replace(study.models[0], path="sandbox:e"),))
    with pytest.raises(
        BackendError, match="model tiny: its tokenizer has no <extra_id_0>, which cloze_t5 needs"
    ):
        tuned(without)
    told = misses(half)
    assert (
        "sweep.model: model tiny: the sweep trains weights in dtype float32, without quantisation and"
        in told[0]
    )
    assert (
        "sweep.dataset: dataset sandbox has no cloze queries; the sweep trains on those of format pararel"
        in told
    )
