"""The study as lake tables: parameters counted from the headers of safetensors files, and prices of the day."""

from __future__ import annotations

import csv
import dataclasses
import importlib.resources
from collections.abc import Callable
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save_file

from longtail.errors import BackendError
from longtail.scoring.model_answer import SPLITTER
from longtail.storage.lake import Lake
from longtail.study.imports import Place
from longtail.study.models import Model, Service
from longtail.study.prices import price_on, prices_of
from longtail.study.study import Study
from longtail.study.tables import STUDY_TABLES, count_parameters, describe_study, paper_cells


def test_the_papers_numbers_agree_with_one_another(tmp_path: Path, hand_study: Study) -> None:
    lake = Lake(tmp_path / "lake")
    describe_study(hand_study, lake, ["paper_cells"])
    rows = lake.read("paper_cells").to_pylist()
    cells = {(row["work"], row["item"], *row["cell"].rsplit(": ", 1)): row["paper"] for row in rows}
    assert len(cells) == len(rows) >= 330
    assert {row["study"] for row in rows} == {hand_study.name}
    relations = {row for work, place, row, _ in cells if (work, place) == ("PopQA-TP", "Table 1")} - {"total"}
    asked = {name: cells["PopQA-TP", "Table 1", name, "questions"] for name in relations}
    added = {name: cells["PopQA-TP", "Table 1", name, "wordings added"] for name in relations}
    assert sum(asked.values()) == cells["PopQA-TP", "Table 1", "total", "questions"]
    # the paper gives author one wording more than its total has
    total = sum(asked[name] * (1 + added[name]) for name in relations) - asked["author"]
    assert total == cells["PopQA-TP", "Table 1", "total", "all wordings"]
    shares = [
        value
        for key, value in cells.items()
        if key[:2] == ("PopQA", "Table 1") and key[3] == "share of questions"
    ]
    assert sum(shares) == pytest.approx(1)


def test_the_papers_gains_are_those_of_their_absolute_rows() -> None:
    """Of Table 2 and appendix A, but for ROUGE-L: there Table 2 has the grounded scores, except for GPT-4."""
    cells = {
        (row["item"], row["cell"]): row["paper"]
        for row in paper_cells("any")
        if row["work"] == "According to"
    }
    names = {"GPT-J Instruct": "GPT-J-Instruct", "Koala 7B": "Koala"}
    gains = [(*cell.split(": "), paper) for (item, cell), paper in cells.items() if item == "Table 2"]
    assert len(gains) == 25
    for model, column, gain in gains:
        dataset, _, measure = column.split(" ", 2)
        row, score = names.get(model, model), f"{dataset} {measure.removeprefix('in ')}"
        null, grounded = (cells["appendix A", f"{row}, {kind}: {score}"] for kind in ("null", "grounded"))
        is_score = score == "ELI5 ROUGE-L" and model != "GPT-4"
        assert gain == pytest.approx(grounded if is_score else grounded / null - 1, abs=0.006), (
            model,
            column,
        )


def test_tables_restate_the_study(tmp_path: Path, hand_study: Study) -> None:
    lake = Lake(tmp_path / "lake")
    outcomes = describe_study(hand_study, lake)
    assert tuple(outcome.table for outcome in outcomes) == tuple(STUDY_TABLES)
    assert all(outcome.was_current for outcome in describe_study(hand_study, lake))
    assert lake.read("models").to_pylist() == [
        {
            "model": "tiny", "family": "tiny", "n_parameters": None, "backend": "fake", "path": "nowhere",
            "revision": None, "dtype": "float32", "quantisation": "none",
            "is_encoder_decoder": False, "is_instruction_tuned": None, "n_passages": 0, "rambles": False,
            "sentence_splitter": None, "thinking_tokens": 0, "declines": [], "device_hour_usd": None,
        }
    ]  # fmt: skip
    assert lake.read("model_prices").to_pylist() == []
    methods = lake.read("methods").to_pylist()
    assert [(row["method"], row["is_parametric"], row["is_bound"], row["background_template"]) for row in methods] == [
        ("closed_book", True, False, None), ("bm25", False, False, None), ("dense", False, False, None),
        ("oracle", False, True, None),
    ]  # fmt: skip
    assert {row["background_tokens"] for row in methods} == {None}
    assert lake.read("prompts").to_pylist() == [
        {
            "prompt": "zero_shot", "position_in_study": 0, "format": "qa", "template": "Q: {question} A:",
            "encoder_decoder_template": "Q: {question} A:",
            "shots": 0, "draw": None, "demonstrations_from": "other_relations", "reference_demos": False,
            "max_new_tokens": 15, "generations": ["questions", "paraphrases"], "n_samples": None, "temperature": None,
            "methods": ["closed_book", "bm25", "dense", "oracle"], "declines": [],
        }
    ]  # fmt: skip
    dataset = lake.read("datasets").to_pylist()[0]
    assert (dataset["dataset"], dataset["source"], dataset["snapshot"]) == ("facts", "sandbox", "2026-10")
    assert (dataset["relation_set"], len(dataset["relations"])) == ("popqa", 16)
    assert (dataset["chosen_by"], dataset["split_by"]) == (None, "question")
    father = next(row for row in lake.read("relations").to_pylist() if row["relation"] == "father")
    assert father == {
        "relation_set": "popqa", "relation": "father", "property_id": "P22",
        "template": "Who is the father of [subj]?", "statement": "The father of [subj] is [obj].",
    }  # fmt: skip
    assert lake.read("relations").num_rows == 16
    assert lake.read("popularity_windows").to_pylist() == [
        {
            "measure": "page_views",
            "n_months": 12,
            "last_month": "2026-10",
            "redirects": "resolve",
            "agent": "user",
        }
    ]


def test_tables_restate_every_kind_of_model_and_prompt(
    tmp_path: Path, make_study: Callable[[str], Study], hand_text: str
) -> None:
    text = hand_text.replace(
        "{name: tiny, path: nowhere, backend: fake}",
        "{name: tiny, path: nowhere, rambles: true, device_hour_usd: 1.5, thinking_tokens: 7, declines: [No.]},"
        " {name: listed, path: davinci-002, backend: openai, service: {base_url: 'https://api.openai.com/v1'}},"
        " {name: unlisted, path: who-knows, backend: openai, service: {base_url: 'http://x/v1'}},"
        " {name: priced, path: davinci-002, backend: openai, service: {base_url: 'http://x/v1',"
        " prompt_usd_per_million: 3, completion_usd_per_million: 4}}",
    ).replace(
        "{name: zero_shot, generations: [questions, paraphrases]}",
        "{name: shots, declines: [None known], shots: 15,"
        " draw: per_question, demonstrations_from: all_questions, reference_demos: true},"
        " {name: bare, format: question, generations: [samples, questions]}",
    )
    text = (
        text.replace("closed_book, bm25", "closed_book, genread, bm25")
        + "sampling: {n: 3, temperature: 0.7}\nmax_new_tokens: 20\nbackground_tokens: 90\n"
    )
    lake = Lake(tmp_path / "lake")
    describe_study(make_study(text), lake)
    models = lake.read("models").to_pylist()
    assert [(row["rambles"], row["sentence_splitter"], row["device_hour_usd"]) for row in models] == [
        (True, SPLITTER, 1.5), (False, None, None), (False, None, None), (False, None, None),
    ]  # fmt: skip
    prices = lake.read("model_prices").to_pylist()
    assert [(row["model"], row["prompt_usd_per_million"], row["completion_usd_per_million"]) for row in prices] == [
        ("listed", 2.0, 2.0), ("priced", 3.0, 4.0),
    ]  # fmt: skip
    assert prices[1]["source"] == "study"
    genread = lake.read("methods").to_pylist()[1]
    assert (genread["method"], genread["is_parametric"]) == ("genread", True)
    assert genread["background_template"].endswith(" to answer the given question. {question}")
    assert genread["background_tokens"] == 90
    shots, bare = lake.read("prompts").to_pylist()
    assert (shots["shots"], shots["draw"], shots["demonstrations_from"], shots["reference_demos"]) == (
        15, "per_question", "all_questions", True,
    )  # fmt: skip
    assert (bare["template"], bare["generations"], bare["n_samples"], bare["temperature"]) == (
        "{question}", ["samples", "questions"], 3, 0.7,
    )  # fmt: skip
    assert shots["max_new_tokens"] == bare["max_new_tokens"] == 20
    assert (models[0]["thinking_tokens"], models[0]["declines"], shots["declines"]) == (
        7,
        ["No."],
        ["None known"],
    )


def test_a_changed_study_rewrites_only_what_changed(
    tmp_path: Path, make_study: Callable[[str], Study], hand_text: str
) -> None:
    lake = Lake(tmp_path / "lake")
    describe_study(make_study(hand_text), lake)
    changed = describe_study(make_study(hand_text.replace("name: tiny", "name: small")), lake)
    assert [outcome.table for outcome in changed if not outcome.was_current] == ["models"]


def test_parameters_are_counted_from_the_header(
    tmp_path: Path, make_study: Callable[[str], Study], hand_text: str
) -> None:
    folder = tmp_path / "weights"
    folder.mkdir()
    save_file({"a.weight": torch.zeros(3, 5), "a.bias": torch.zeros(5)}, folder / "one.safetensors")
    save_file(
        {
            "h.0.attn.bias": torch.zeros(1, 1, 8, 8),
            "h.0.attn.c_attn.bias": torch.zeros(7),
            "scale": torch.tensor(1.0),
        },
        folder / "two.safetensors",
    )
    assert count_parameters(folder) == 15 + 5 + 7 + 1  # the causal mask is no parameter
    lake = Lake(tmp_path / "lake")
    describe_study(make_study(hand_text.replace("path: nowhere", f"path: {folder}")), lake)
    assert lake.read("models")["n_parameters"].to_pylist() == [28]
    said = hand_text.replace("path: nowhere", f"path: {folder}, n_parameters: 9")
    describe_study(make_study(said), lake)
    assert lake.read("models")["n_parameters"].to_pylist() == [9]


@pytest.mark.parametrize("content", [b"", b"\xff" * 16, (9).to_bytes(8, "little") + b"{not json"])
def test_damaged_weights_are_a_clear_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(BackendError, match=r"model\.safetensors: not a safetensors file"):
        count_parameters(tmp_path)


def test_a_dataset_says_which_keys_choose_its_questions(hand_study: Study) -> None:
    part = {
        "first_rows": 100,
        "ids": Place("ids.txt", "FOLDER"),
        "max_questions": 9,
        "split_by": "subject",
        "popularity_name": "site links",
    }
    study = dataclasses.replace(hand_study, datasets=(dataclasses.replace(hand_study.datasets[0], **part),))
    lake = Lake(study.home.lake)
    describe_study(study, lake, ["datasets"])
    (row,) = lake.read("datasets").to_pylist()
    assert row["chosen_by"] == "first_rows: 100, ids: ids.txt, max_questions: 9"
    assert (row["split_by"], row["popularity_name"]) == ("subject", "site links")


URL = "https://api.openai.com/v1"


def _model(path: str, prompt: float | None = None, completion: float | None = None) -> Model:
    service = Service(URL, prompt_usd_per_million=prompt, completion_usd_per_million=completion)
    return Model("m", path, "openai", service=service)


def test_every_row_of_the_table_is_whole_and_has_its_source() -> None:
    file = importlib.resources.files("longtail.study") / "prices.csv"
    with file.open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert len({(row["host"], row["path"], row["valid_from"]) for row in rows}) == len(rows)
    for row in rows:
        assert date(2020, 1, 1) < date.fromisoformat(row["valid_from"]) <= date(2026, 11, 20)
        assert 0 < float(row["prompt_usd_per_million"]) <= float(row["completion_usd_per_million"]) < 1000
        assert "." in row["source"]
        assert "/" in row["source"]


def test_a_price_holds_from_its_day_on() -> None:
    old, new = prices_of(_model("gpt-4o"))
    change = date.fromisoformat(new.valid_from)
    assert price_on(_model("gpt-4o"), change) == new
    assert price_on(_model("gpt-4o"), change - timedelta(days=1)) == old
    assert price_on(_model("gpt-4o"), date(2024, 1, 1)) is None
    assert (old.prompt_usd_per_million, new.prompt_usd_per_million) == (5.0, 2.5)


def test_the_studys_own_price_comes_first_and_unknown_is_none() -> None:
    own = price_on(_model("gpt-4o", 0.1, 0.2), date(1999, 1, 1))
    assert own is not None
    assert own.exact_usd(1_000_000, 500_000) == Fraction("0.2")
    assert price_on(_model("no-such-model"), date(2026, 1, 1)) is None
    assert prices_of(Model("m", "gpt-4o")) == ()
    assert prices_of(Model("m", "gpt-4o", "openai", service=Service("http://127.0.0.1:8000/v1"))) == ()


@given(st.integers(0, 10**7), st.integers(0, 10**6))
def test_a_bill_is_exact(prompt_tokens: int, new_tokens: int) -> None:
    price = price_on(_model("gpt-4o-mini"), date(2026, 1, 1))
    assert price is not None
    assert price.exact_usd(prompt_tokens, new_tokens) == Fraction(15 * prompt_tokens + 60 * new_tokens, 10**8)
    assert float(price.exact_usd(prompt_tokens, new_tokens)) == pytest.approx(
        (prompt_tokens * 0.15 + new_tokens * 0.6) / 1e6
    )
