"""What a partition has still to compute, counted without computing it."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_study import LOG, answer, fill_lake, sample, small_study, with_model

from longtail.errors import LakeError
from longtail.generation.engine.estimate import Estimate, estimate
from longtail.generation.engine.session import ModelSession
from longtail.generation.engine.task import Scope
from longtail.generation.tasks.registry import TASKS
from longtail.storage.lake import Lake
from longtail.study.backends import IMPORTED
from longtail.study.models import Service
from longtail.study.study import Study


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
    read, written, seconds = (
        sum(rows[name].to_pylist()) for name in ("prompt_tokens", "new_tokens", "device_seconds")
    )
    again = estimated(with_model(study, device_hour_usd=7200.0))  # it changes rows, and no result
    assert again is not None
    assert (again.n_results, again.n_missing, again.prompt_tokens, again.usd) == (40, 0, 0, 0.0)
    samples = estimated(with_model(study, device_hour_usd=7200.0), "sampled_answers", None)
    assert samples is not None
    assert (samples.n_results, samples.n_missing) == (80, 80)  # 20 questions, four samples each
    expected = (samples.prompt_tokens + samples.new_tokens) * seconds / (read + written)
    assert samples.seconds == pytest.approx(expected)
    assert samples.usd == pytest.approx(2 * expected)
    sample(study)
    assert estimated(study, "sampled_answers", None) is None


def test_a_service_costs_what_its_prices_say(study: Study) -> None:
    service = Service("http://127.0.0.1:9", prompt_usd_per_million=10.0, completion_usd_per_million=1000.0)
    found = estimated(with_model(study, service=service))
    assert found is not None
    assert found.usd == pytest.approx((found.prompt_tokens * 10 + found.new_tokens * 1000) / 1e6)


def test_an_input_that_is_not_there_yet_is_named_and_imported_answers_need_nothing(study: Study) -> None:
    with pytest.raises(LakeError, match="generated_passages, partition tiny is missing"):
        estimated(study, method="genread")
    assert estimated(with_model(study, backend=IMPORTED, path=IMPORTED)) is None
