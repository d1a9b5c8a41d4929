"""What a service delivers is kept as it comes, paid for once, and never over the budget."""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from small_study import MAKERS, answer, fill_lake, sample, small_study, with_model

from longtail.errors import BackendError, LakeError
from longtail.generation.backends.fake import FakeBackend
from longtail.generation.engine.row_cache import CachedRow, RowCache
from longtail.storage.lake import Lake
from longtail.study.models import Service
from longtail.study.study import Study

PRICE = 0.125


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "ledger"


@pytest.fixture
def study(tmp_path: Path, ledger: Path) -> Study:
    made = small_study(tmp_path, service_path(ledger))
    fill_lake(Lake(made.home.lake), 4)
    return made


def service_path(ledger: Path, **options: object) -> str:
    more = "".join(f"&{name}={value}" for name, value in options.items())
    return f"fake:digest?stream=true&usd_per_prompt={PRICE}&ledger={ledger}{more}"


def limited(study: Study, max_cost_usd: float | None) -> Study:
    return with_model(study, service=Service("http://127.0.0.1", max_cost_usd=max_cost_usd))


def bought(ledger: Path) -> Counter[str]:
    """How often each line's first word stands in the ledger."""
    return (
        Counter(line.split()[0] for line in ledger.read_text().splitlines()) if ledger.exists() else Counter()
    )


def test_rows_carry_their_bills(study: Study, ledger: Path) -> None:
    notes = answer(study).notes
    table = Lake(study.home.lake).read("answers", "tiny|closed_book")
    assert bought(ledger) == {"paid": 40}
    assert set(table["cost_usd"].to_pylist()) == {PRICE}
    assert table["device_seconds"].null_count == table.num_rows
    assert notes["cost_usd"] == pytest.approx(40 * PRICE)


def test_the_bill_of_a_request_is_shared_by_its_samples(study: Study, ledger: Path) -> None:
    notes = sample(study).notes
    assert (notes["rows"], notes["distinct_prompts"]) == (80, 20)
    assert bought(ledger) == {"paid": 20}
    assert notes["cost_usd"] == pytest.approx(20 * PRICE)


@pytest.mark.parametrize("n_affordable", [0, 1, 7, 39])
def test_a_budget_stops_before_it_is_overrun_and_a_higher_one_goes_on(
    study: Study, ledger: Path, n_affordable: int
) -> None:
    budget = n_affordable * PRICE + 0.01
    for _ in range(2):  # the second time nothing is left to spend
        with pytest.raises(BackendError) as caught:
            answer(limited(study, budget))
        message = str(caught.value)
        assert f"${n_affordable * PRICE:.4f} of max_cost_usd ${budget:g} spent" in message
        assert f"{40 - n_affordable} texts left" in message
        assert "raise max_cost_usd of model tiny" in message
        assert "\n" not in message
        assert bought(ledger)["paid"] == n_affordable
    with pytest.raises(LakeError, match="missing"):
        Lake(study.home.lake).read("answers", "tiny|closed_book")
    outcome = answer(limited(study, 40 * PRICE))
    assert (outcome.notes["resumed"], outcome.notes["computed"]) == (n_affordable, 40 - n_affordable)
    assert bought(ledger) == {"paid": 40}
    assert answer(limited(study, 0.0)).was_current


def test_rows_that_another_partition_paid_for_are_free(study: Study, ledger: Path) -> None:
    answer(study)
    other = dataclasses.replace(study, name="other")
    fill_lake(Lake(other.home.lake), 5)
    n_new = answer(limited(other, 50 * PRICE)).notes["computed"]
    assert 0 < n_new < 50
    assert bought(ledger) == {"paid": 40 + n_new}


@pytest.mark.parametrize(("table", "n_requests"), [("answers", 40), ("sampled_answers", 20)])
def test_what_was_paid_for_and_not_kept_is_asked_again_under_its_name(
    study: Study, ledger: Path, monkeypatch: pytest.MonkeyPatch, table: str, n_requests: int
) -> None:
    """As after a kill between a result and its commit."""
    store, n_calls = RowCache.store, itertools.count(1)

    def store_until_full(cache: RowCache, rows: Mapping[bytes, CachedRow]) -> dict[bytes, CachedRow]:
        if next(n_calls) == 5:
            raise LakeError("the disk is full")
        return store(cache, rows)

    monkeypatch.setattr(RowCache, "store", store_until_full)
    with pytest.raises(LakeError, match="disk is full"):
        MAKERS[table](study)
    assert MAKERS[table](study).notes["resumed"] > 0
    assert bought(ledger) == {"paid": n_requests, "again": 1}


def test_a_refused_row_is_put_aside_and_not_billed(study: Study, ledger: Path) -> None:
    notes = answer(with_model(study, path=service_path(ledger, refuse="Subject+7"))).notes
    assert notes["failed"] > 0
    assert notes["rows"] + notes["failed"] == 40
    assert bought(ledger)["paid"] == notes["rows"]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda results: results[:-1], "gave no result for 1 of 40 requests"),
        (lambda results: [*results[:-1], results[0]], "gave a result that was not asked for"),
        (lambda results: [*results, (99, results[0][1])], r"gave a result that was not asked for \(99\)"),
        (lambda results: [(i, texts * 2) for i, texts in results], "gave 2 texts for 1 seeds"),
    ],
)
def test_a_backend_that_does_not_answer_each_request_once_is_named(
    study: Study, monkeypatch: pytest.MonkeyPatch, spoil: Callable[[list[Any]], list[Any]], message: str
) -> None:
    stream = FakeBackend.stream
    monkeypatch.setattr(FakeBackend, "stream", lambda *asked, **more: iter(spoil([*stream(*asked, **more)])))
    with pytest.raises(BackendError, match=f"tiny.*fake.*{message}"):
        answer(study)
    with pytest.raises(LakeError, match="missing"):
        Lake(study.home.lake).read("answers", "tiny|closed_book")


def test_a_backend_with_too_few_results_for_a_batch_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = small_study(tmp_path, "fake:digest")
    fill_lake(Lake(made.home.lake), 2)
    whole = FakeBackend.generate
    monkeypatch.setattr(FakeBackend, "generate", lambda *asked, **more: whole(*asked, **more)[1:])
    with pytest.raises(BackendError, match=r"tiny.*fake.* gave \d+ results for \d+ prompts"):
        answer(made)
