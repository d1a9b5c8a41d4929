"""fct_prompts gives back, character by character, what the planner asked: awkward texts, 15 shots, every method."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import duckdb
import pytest
import yaml

from longtail.generation.engine.task import Plan, Scope
from longtail.generation.tasks.registry import TASKS
from longtail.storage.lake import Lake
from longtail.study.file import load_study
from longtail.study.prompts import Prompt
from longtail.study.study import Study
from longtail.study.tables import describe_study
from tests.in_process_dbt import invoke_dbt
from tests.lake_rows import fill
from tests.lakes import LakePlan, make_lake, make_study
from tests.warehouses import mart

METHODS = ("closed_book", "genread", "bm25", "dense", "oracle")
QUESTIONS = (
    'Who is "O\'Brien"; drop table x; --?',
    "What is {question} of {0} {{}} {% raw %}?",
    "Which emoji 👩‍👩‍👧 is 日本語 or ‮right to left?",
    "A NUL \x00 and\ttab\r\nand line separator\u2028 in what?",
    "   ",
    "Which backslash \\n \\1 $1 &?",
    "A place  [Y]-born, and [Y] again?",
)
PASSAGES = (
    "One sentence. Another one. And a broken",
    "No separator at all",
    " . only blanks before it",
    ". . . ",
    "Ends with a full stop. ",
    "Abbr. of {question}. 'Quotes'\nand lines.\nNot. a piece\x00. of NUL",
    "   ",
    "",
    "\u00a0. a no-break space is no blank",
)
BACKGROUNDS = ("It was so. Then not. A brok", "", "  ", "\t", "{question}")
PROMPTS = (
    {"name": "zero_shot"},
    {"name": "15_shot", "shots": 15, "draw": "per_question"},
    {
        "name": "15_shot_per_relation",
        "shots": 15,
        "draw": "per_relation",
        "reference_demos": True,
        "generations": ["questions", "paraphrases", "samples"],
    },
    {"name": "popqa_tp", "format": "popqa_tp", "generations": ["paraphrases", "samples"]},
    {"name": "bare", "format": "question", "generations": ["questions", "paraphrases"]},
)
READER = "reads_apart"
CLOZE = Prompt("cloze", format="cloze_t5", generations=("candidates",))
pytestmark = pytest.mark.xdist_group("prompt_texts")
PLAN = LakePlan(n_relations=4, n_questions_per_relation=9, models=("m",), methods=METHODS, with_answers=False)


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Study, dict[str, Plan[Any]]]]:
    folder = tmp_path_factory.mktemp("prompts")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_HOME", str(folder / "home"))
        make_study(folder, PLAN)
        path = folder / "study.yaml"
        declared = yaml.safe_load(path.read_text(encoding="utf-8"))
        (m,) = [{**model, "encoder_decoder": True} for model in declared["models"]]
        models = [m, {**m, "name": READER, "passages": 2}]
        path.write_text(
            yaml.safe_dump({**declared, "prompts": list(PROMPTS), "models": models}), encoding="utf-8"
        )
        study = load_study(path)
        # no dataset of cloze queries: its paraphrases are asked as such
        study = dataclasses.replace(study, prompts=(*study.prompts, CLOZE))
        lake = make_lake(study.home.lake, PLAN)
        describe_study(study, lake)
        _make_awkward(lake)
        plans = _ask(study, lake)
        invoke_dbt(study, "run", "--select", "+fct_prompts")
        yield study, plans


def _make_awkward(lake: Lake) -> None:
    """Other texts in place of those of the synthetic lake; tables keep their rows."""
    awkward = {
        "questions": ("question", cycle(QUESTIONS)),
        "paraphrases": ("paraphrase", cycle(QUESTIONS)),
        "passages": ("text", cycle(PASSAGES)),
    }
    for table, (column, texts) in awkward.items():
        rows = lake.read(table).to_pylist()
        for row in rows:
            row[column] = next(texts)
            if table == "questions":
                row["objects"] = [f"{row['subject_id']} {{question}}"]
        lake.write(table, rows, fingerprint="awkward")
    lake.write("cited_passages", lake.read("passages"), fingerprint="awkward")


def _make_cloze_queries(lake: Lake) -> None:
    """Every wording is a pattern of its relation, which has one candidate."""
    relations = {(row["dataset"], row["relation"]) for row in lake.read("questions").to_pylist()}
    numbers = set(lake.read("paraphrases")["paraphrase_id"].to_pylist())
    candidates = [{"dataset": one[0], "relation": one[1], "candidate": "x"} for one in relations]
    patterns = [
        {"dataset": dataset, "relation": relation, "paraphrase_id": number}
        for dataset, relation in relations
        for number in numbers
    ]
    lake.write("candidates", candidates, fingerprint="awkward")
    lake.write("patterns", [fill("patterns", row) for row in patterns], fingerprint="awkward")


def _ask(study: Study, lake: Lake) -> dict[str, Plan[Any]]:
    """Write what the tasks plan, with its hashes, as if it had been generated."""

    def plan(table: str, method: str | None = None, model: str = "m") -> Plan[Any]:
        return TASKS[table].plan(Scope(study, lake, study.model(model), method))

    plans = {"generated_passages": Plan(plan("generated_passages").items[:-3])}
    texts = cycle(BACKGROUNDS)
    backgrounds = [
        row | {"text": next(texts), "passage_id": f"genread:m:{row['question_id']}"}
        for row in _rows("generated_passages", plans["generated_passages"])
    ]
    lake.write("generated_passages", backgrounds, fingerprint="awkward", partition="m")
    _make_cloze_queries(lake)
    for table in ("paraphrase_answers", "sampled_answers"):
        plans[table] = plan(table)
        lake.write(table, _rows(table, plans[table]), fingerprint="awkward", partition="m")
    for model, method in (("m", "closed_book"), ("m", "dense"), ("m", "oracle"), (READER, "dense")):
        name = f"{model}|{method}"
        plans[name] = plan("candidate_answers", method, model)
        rows = [row | {"model": model, "method": method} for row in _rows("candidate_answers", plans[name])]
        lake.write("candidate_answers", rows, fingerprint="awkward", partition=name)
    for method in METHODS:
        plans[method] = plan("answers", method)
        rows = [row | {"method": method} for row in _rows("answers", plans[method])]
        lake.write("answers", rows, fingerprint="awkward", partition=f"m|{method}")
    plans[READER] = plan("answers", "dense", READER)
    rows = [row | {"model": READER, "method": "dense"} for row in _rows("answers", plans[READER])]
    lake.write("answers", rows, fingerprint="awkward", partition=f"{READER}|dense")
    return plans


def _rows(table: str, plan: Plan[Any]) -> list[dict[str, Any]]:
    """One row per part, with its prompt's hash."""
    rows = []
    for item in plan.items:
        known = {"model": "m", "temperature": 0.5, "prompt_hash": item.prompt().hash()}
        known |= item.ingredients()
        columns = fill(table, {})
        for part in range(len(item.request.seeds)):
            rows.append(columns | {k: v for k, v in (known | item.key(part)).items() if k in columns})
    return rows


def _texts(plan: Plan[Any]) -> list[str]:
    return [item.prompt().text for item in plan.items for _ in item.request.seeds]


def test_every_prompt_is_rebuilt(asked: tuple[Study, dict[str, Plan[Any]]]) -> None:
    study, plans = asked
    built = mart(study, "fct_prompts")
    assert set(built.is_exact) == {True}
    assert len(built) == sum(len(_texts(plan)) for plan in plans.values())
    for name, plan in plans.items():
        answers = built[built.table_name == "answers"]
        rows = {
            **{method: answers[(answers.method == method) & (answers.model == "m")] for method in METHODS},
            READER: answers[answers.model == READER],
        }.get(name)
        if rows is None and "|" in name:
            scored = built[built.table_name == "candidate_answers"]
            rows = scored[(scored.model + "|" + scored.method) == name]
        elif rows is None:
            rows = built[built.table_name == name]
        assert sorted(rows.prompt_text) == sorted(_texts(plan))
        assert len(rows) > 0


def test_passages_apart_are_rebuilt_beside_a_text_without_passages(
    asked: tuple[Study, dict[str, Plan[Any]]],
) -> None:
    study, plans = asked
    built = mart(study, "fct_prompts")
    rows = built[built.model == READER]
    read = [item.prompt() for name in (READER, f"{READER}|dense") for item in plans[name].items]
    assert sorted((row.prompt_text, *row.passages_apart) for row in rows.itertuples()) == sorted(
        (one.text, *one.passages) for one in read
    )
    assert {len(one.passages) for one in read} == {1, 2}
    assert any(one.passages[0].startswith("title: ") and " context: " in one.passages[0] for one in read)
    assert built[built.model == "m"].passages_apart.isna().all()


def test_the_texts_were_awkward(asked: tuple[Study, dict[str, Plan[Any]]]) -> None:
    study, _ = asked
    built = (
        mart(study, "fct_prompts")
        .query("table_name == 'answers' and model == 'm'")
        .set_index(["method", "prompt"])
    )
    answers = mart(study, "fct_answers")
    few = answers[answers.prompt.str.startswith("15_shot")]
    assert set(few.demonstration_ids.map(len)) == {15}
    reference = few[(few.prompt == "15_shot_per_relation") & (few.method == "dense")]
    assert any(id_ is None for ids in reference.demonstration_passage_ids for id_ in ids)
    dense, bm25 = (built.loc[(method, "zero_shot")].prompt_text for method in ("dense", "bm25"))
    assert dense.str.startswith("One sentence. Another one.\n\n").any()
    assert bm25.str.startswith("One sentence. Another one. And a broken\n\n").any()
    for mark in ("\x00", "👩‍👩‍👧", "{question}", "'", '"', "\\n"):
        assert built.prompt_text.str.contains(mark, regex=False).any(), mark


def test_what_a_prompt_was_made_of_may_be_gone(asked: tuple[Study, dict[str, Plan[Any]]]) -> None:
    """Without a passage, its prompts are null and said not to be exact; those of other methods stay."""
    study, _ = asked
    with duckdb.connect(str(study.home.build_warehouse)) as connection:
        connection.execute("begin")
        connection.execute("delete from marts.dim_passages")
        found = connection.execute("select * from marts.fct_prompts").df()
        connection.execute("rollback")
    of_passages = found.table_name.isin(["answers", "candidate_answers"])
    lost = found[found.method.isin(["bm25", "dense", "oracle"]) & of_passages]
    is_apart = lost.model == READER
    assert lost[~is_apart].prompt_text.isna().all()
    assert lost[is_apart].passages_apart.isna().all()
    assert set(lost.is_exact) == {False}
    rest = found.drop(lost.index)
    assert set(rest.is_exact) == {True}
    assert len(rest) > 100
