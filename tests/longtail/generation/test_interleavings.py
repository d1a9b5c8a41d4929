"""Any sequence of runs, stops and changed plans ends in the partition of one uninterrupted run, and repeats nothing.

Stops lie between two transactions of the row cache, the only moments that differ in what is kept (a killed
transaction leaves nothing: `test_row_cache`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_study import MAKERS, fill_lake, small_study, with_model

from longtail.errors import BackendError
from longtail.storage.lake import Lake
from longtail.study.models import Service
from longtail.study.prompts import Prompt, Sampling
from longtail.study.study import Study

PRICE = 0.25
VOLATILE = (
    "run_id", "latency_ms", "batch_size", "shared_tokens", "device_seconds", "cost_usd", "is_reused",
    "generated_for",
)  # fmt: skip
PLANS = {
    "one prompt": {"prompts": (Prompt("zero_shot"), Prompt("sure", generations=("samples",)))},
    "two prompts": {
        "prompts": (
            Prompt("zero_shot"),
            Prompt("few_shot", shots=3, draw="per_relation"),
            Prompt("sure", generations=("samples",)),
            Prompt("surer", format="question_answer", generations=("samples",)),
        )
    },
    "another seed": {"seed": 7},
    "more samples": {"sampling": Sampling(n=6)},
    "longer answers": {"max_new_tokens": 30, "background_tokens": 20},
}
TABLES = ("answers", "sampled_answers", "generated_passages")


@dataclass(frozen=True)
class Step:
    """One run: of which plan, ended before which call of the backend (0: not), with money for how many requests."""

    plan: str
    fail_on_call: int
    n_affordable: int | None


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(sorted(PLANS)),
        st.sampled_from([0, 1, 2, 3, 5, 8, 13, 21]),
        st.none() | st.integers(0, 30),
    ),
    max_size=6,
)


@contextlib.contextmanager
def home(folder: Path) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_HOME", str(folder / "home"))
        patch.setenv("LONGTAIL_THREADS", "1")
        yield folder


def planned(folder: Path, step: Step, stream: bool) -> Study:
    """The study of a step; a smaller batch makes more transactions."""
    path = f"fake:digest?ledger={folder / 'ledger'}&fail_on_call={step.fail_on_call}&usd_per_prompt={PRICE}"
    study = small_study(folder, path + ("&stream=true" if stream else ""), batch_tokens=24)
    if stream and step.n_affordable is not None:
        budget = step.n_affordable * PRICE
        study = with_model(study, service=Service("http://127.0.0.1", max_cost_usd=budget))
    return dataclasses.replace(study, **PLANS[step.plan])  # type: ignore[arg-type]


def made(study: Study, table: str) -> pa.Table:
    outcome = MAKERS[table](study)
    found = Lake(study.home.lake).read(table, outcome.partition)
    return found.drop_columns(list(VOLATILE)).replace_schema_metadata(None)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], pa.Table]:
    """(plan, table) → its rows, each made in a home of its own."""
    found = {}
    for plan in PLANS:
        for table in TABLES:
            with home(tmp_path_factory.mktemp("whole")) as folder:
                study = planned(folder, Step(plan, 0, None), stream=False)
                fill_lake(Lake(study.home.lake), 3)
                found[plan, table] = made(study, table)
    return found


def n_cached(study: Study) -> int:
    total = 0
    for file in study.home.row_cache.glob("*.sqlite"):
        with contextlib.closing(sqlite3.connect(file)) as connection:
            total += connection.execute("select count(*) from generations").fetchone()[0]
    return total


def ledger_lines(folder: Path) -> list[str]:
    file = folder / "ledger"
    return file.read_text().splitlines() if file.exists() else []


@settings(max_examples=25, deadline=None)
@given(steps=STEPS, last=st.sampled_from(sorted(PLANS)), table=st.sampled_from(TABLES), stream=st.booleans())
def test_any_interleaving_ends_like_one_run(
    steps: list[Step],
    last: str,
    table: str,
    stream: bool,
    uninterrupted: dict[tuple[str, str], pa.Table],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with home(tmp_path_factory.mktemp("some")) as folder:
        fill_lake(Lake(planned(folder, Step(last, 0, None), stream).home.lake), 3)
        kept = 0
        for step in [*steps, Step(last, 0, None)]:
            study = planned(folder, step, stream)
            with contextlib.suppress(BackendError):
                assert made(study, table).equals(uninterrupted[step.plan, table])
            n_now = n_cached(study)
            assert n_now >= kept, "what was kept is lost"
            kept = n_now
        lines = ledger_lines(folder)
        assert len(lines) == len(set(lines)), "a text was made, or a request paid for, twice"
        if stream:
            assert all(line.startswith("paid ") for line in lines)
        else:
            assert len(lines) == kept, "a text was made and not kept"
        again = MAKERS[table](planned(folder, Step(last, 1, 0), stream))
        assert again.was_current
        assert ledger_lines(folder) == lines
