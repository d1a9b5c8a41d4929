"""`longtail plan`: what a run has still to compute, also of a study that has never run, without computing it."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest

from longtail.commands.plan import Estimate, assume_inputs, estimate, tokens_per_second
from longtail.errors import LakeError
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import Scope
from longtail.generation.tasks.registry import TASKS
from longtail.storage.lake import Lake
from longtail.study.backends import IMPORTED
from longtail.study.file import load_study
from longtail.study.models import Model, Service
from longtail.study.prompts import Prompt
from longtail.study.study import Study
from tests.longtail.generation.small_study import LOG, answer, fill_lake, sample, small_study, with_model

TEXT = "It stands at the river. "


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LONGTAIL_HOME", str(tmp_path / "home"))


def test_prompts_are_counted_with_the_passages_beside_the_questions(tmp_path: Path) -> None:
    rows = (f"Where is Tower {i}?,Town {i},Tower {i},{i},{TEXT * (10, 10, 400, 0)[i]}\n" for i in range(4))
    (tmp_path / "towers.csv").write_text("question,answers,subject,popularity,passage\n" + "".join(rows))
    (tmp_path / "towers.yaml").write_text(
        "questions: towers.csv\nmodels: [{name: s, path: 'fake:digest', backend: fake}]\nmethods: [closed_book, bm25]\n"
    )
    study = load_study(tmp_path / "towers.yaml")
    lake = assume_inputs(study, Lake(tmp_path / "assumed"))
    with ModelSession(LOG) as session:
        memory, passages = (
            estimate(TASKS["answers"], Scope(study, lake, study.models[0], method), session)
            for method in study.methods
        )
    assert memory is not None
    assert passages is not None
    assert (memory.n_missing, passages.n_missing) == (4, 4)
    beside, usual = len(TEXT) * 10 // 4, 600 // 4
    passage = 20 * len(TEXT) // 4  # the third text is cut to passages of 100 words
    assert passages.prompt_tokens - memory.prompt_tokens == pytest.approx(
        2 * beside + passage + usual, rel=0.1
    )
    assert not study.home.lake.exists()


@pytest.fixture
def study(tmp_path: Path) -> Study:
    made = small_study(tmp_path, "fake:digest?seconds_per_prompt=0.001")
    fill_lake(Lake(made.home.lake), 4)
    return made


def estimated(study: Study, table: str = "answers", method: str | None = "closed_book") -> Estimate | None:
    with ModelSession(LOG) as session:
        scope = Scope(study, Lake(study.home.lake), study.models[0], method)
        found = estimate(TASKS[table], scope, session)
        assert session.n_loads == 0
    return found


def test_all_results_are_missing_before_the_first_run_and_none_after_it(study: Study) -> None:
    found = estimated(study)
    assert found is not None
    assert (found.n_results, found.n_missing, found.seconds, found.usd) == (40, 40, None, None)
    answer(study)
    assert estimated(study) is None


def test_results_in_the_row_cache_are_not_counted_and_seconds_follow_from_earlier_rows(study: Study) -> None:
    answer(study)
    rows = Lake(study.home.lake).read("answers", "tiny|closed_book")
    read, written, read_before, seconds = (
        sum(rows[name].to_pylist())
        for name in ("prompt_tokens", "new_tokens", "shared_tokens", "device_seconds")
    )
    again = estimated(with_model(study, device_hour_usd=7200.0))  # it changes rows, and no result
    assert again is not None
    assert (again.n_results, again.n_missing, again.prompt_tokens, again.usd) == (40, 0, 0, 0.0)
    samples = estimated(with_model(study, device_hour_usd=7200.0), "sampled_answers", None)
    assert samples is not None
    assert (samples.n_results, samples.n_missing) == (80, 80)  # 20 questions, four samples each
    scope = Scope(study, Lake(study.home.lake), study.models[0])
    texts = sorted({item.prompt().text for item in TASKS["sampled_answers"].plan(scope).items})
    shared = sum(
        next(i for i, (a, b) in enumerate(zip(*pair, strict=False)) if a != b) // 4
        for pair in itertools.pairwise(texts)
    )
    assert shared
    assert read_before
    expected = (
        (samples.prompt_tokens - shared + samples.new_tokens) * seconds / (read + written - read_before)
    )
    assert samples.seconds == pytest.approx(expected)
    assert samples.usd == pytest.approx(2 * expected)
    sample(study)
    assert estimated(study, "sampled_answers", None) is None


def test_shared_demonstrations_are_read_once(study: Study) -> None:
    answer(study)
    prompts = [Prompt(draw, shots=15, draw=draw) for draw in ("per_relation", "per_question")]
    shared, separate = (estimated(dataclasses.replace(study, prompts=(prompt,))) for prompt in prompts)
    assert shared is not None
    assert separate is not None
    assert shared.n_missing == separate.n_missing
    assert shared.prompt_tokens == pytest.approx(separate.prompt_tokens, rel=0.1)
    assert (shared.seconds or 0) < (separate.seconds or 0) / 2


def test_seconds_before_the_first_answer_follow_from_the_size_of_a_local_model(study: Study) -> None:
    small, large = (
        with_model(study, backend=Model.backend, path="sandbox:s", device="cpu", n_parameters=n)
        for n in (10**6, 10**8)
    )
    lake = Lake(study.home.lake)
    speeds = [tokens_per_second(lake, one.models[0]) for one in (small, large)]
    assert speeds[0] > 10 * speeds[1] > 0
    found = estimated(large)
    assert found is not None
    assert found.seconds is not None
    assert found.seconds > 1
    without_size = with_model(study, backend=Model.backend, path="nowhere", device="cpu")
    assert tokens_per_second(lake, without_size.models[0]) is None


def test_a_service_costs_what_its_prices_say(study: Study) -> None:
    service = Service("http://127.0.0.1:9", prompt_usd_per_million=10.0, completion_usd_per_million=1000.0)
    found = estimated(with_model(study, service=service))
    assert found is not None
    assert found.usd == pytest.approx((found.prompt_tokens * 10 + found.new_tokens * 1000) / 1e6)


def test_an_input_that_is_not_there_yet_is_named_and_imported_answers_need_nothing(study: Study) -> None:
    with pytest.raises(LakeError, match="generated_passages, partition tiny is missing"):
        estimated(study, method="genread")
    assert estimated(with_model(study, backend=IMPORTED, path=IMPORTED)) is None
