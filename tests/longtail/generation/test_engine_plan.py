"""Plans: which rows, in which order, with which keys; prompts built when asked for, from records that rows share."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hand_lake import METHODS, QUESTIONS, fill, hand_study

from longtail.errors import LakeError
from longtail.generation.backends.base import Decoding
from longtail.generation.engine.task import Item, Plan, Request, Scope
from longtail.generation.prompts.build import Demonstrations, read_questions
from longtail.generation.tasks.answers import AskedQuestion
from longtail.generation.tasks.registry import TASKS
from longtail.storage.lake import Lake
from longtail.study.datasets import Dataset
from longtail.study.prompts import Prompt
from longtail.study.study import Study

ZERO = Prompt("zero", generations=("questions", "paraphrases", "samples"))
SHOTS = Prompt("shots", shots=6, draw="per_question")
REFERENCE = dataclasses.replace(SHOTS, name="reference", reference_demos=True)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(tmp_path / "lake")
    texts = [("one", "Q1-P36", " Utopia. A far"), ("one", "Q4-P50", ""), ("two", "Q1-P36", "Laputa. Far")]
    fill(lake, texts)
    return lake


def plan(study: Study, lake: Lake, table: str, method: str | None = None) -> Plan[Any]:
    return TASKS[table].plan(Scope(study, lake, study.models[0], method))


def answers(study: Study, lake: Lake, method: str) -> Plan[AskedQuestion]:
    return plan(study, lake, "answers", method)


def columns(item: Any, part: int = 0) -> dict[str, Any]:
    """Key columns, and the ids of what stands in the prompt."""
    more = item.ingredients() if isinstance(item, AskedQuestion) else {}
    return item.key(part) | more


def find(items: Iterable[Any], **keys: object) -> Any:
    found = [item for item in items if keys.items() <= columns(item).items()]
    assert len(found) == 1
    return found[0]


def seeds(items: Iterable[Item]) -> dict[tuple[object, ...], int | None]:
    """The seed of every sample, by dataset, question, prompt and number."""
    return {
        tuple(item.key(part).values()): seed for item in items for part, seed in enumerate(item.request.seeds)
    }


def test_a_prompt_asks_by_its_methods_alone(lake: Lake, tmp_path: Path) -> None:
    only = Prompt("from_memory", methods=("closed_book",))
    study = hand_study(tmp_path, ZERO, only)
    for method, prompts in (("closed_book", {"zero", "from_memory"}), ("bm25", {"zero"})):
        assert {columns(row)["prompt"] for row in answers(study, lake, method).items} == prompts
    scopes = [Scope(s, lake, study.models[0], "bm25") for s in (study, hand_study(tmp_path, ZERO))]
    with_it, without = (TASKS["answers"].decisive(scope) for scope in scopes)
    assert with_it == without, "a prompt of other methods changes nothing"


def test_wordings_and_samples_stand_behind_the_demonstrations_of_their_question(
    lake: Lake, tmp_path: Path
) -> None:
    prompt = dataclasses.replace(SHOTS, generations=("questions", "paraphrases", "samples"))
    study = hand_study(tmp_path, prompt)
    asked = {
        row.question.question_id: row
        for row in answers(study, lake, "closed_book").items
        if row.group.dataset == "one"
    }
    worded = [row for row in plan(study, lake, "paraphrase_answers").items if row.group.dataset == "one"]
    assert len(worded) > len(asked)
    for row in worded:
        own = asked[row.question.question_id]
        assert row.ingredients()["demonstration_ids"] == own.ingredients()["demonstration_ids"]
        before, _, last = row.prompt().text.rpartition("\n\n")
        assert before == own.prompt().text.rpartition("\n\n")[0]
        assert last == f"Q: {row.wording} A:"
    for row in plan(study, lake, "sampled_answers").items:
        if row.group.dataset == "one":
            assert row.prompt() == asked[row.question.question_id].prompt()
    for table in ("paraphrase_answers", "sampled_answers"):
        scopes = [
            Scope(hand_study(tmp_path, dataclasses.replace(prompt, shots=n)), lake, study.models[0])
            for n in (6, 5)
        ]
        six, five = (TASKS[table].decisive(scope) for scope in scopes)
        assert six != five, "another number of demonstrations makes other rows"


def test_answers_are_ordered_and_keyed(lake: Lake, tmp_path: Path) -> None:
    study = hand_study(tmp_path, ZERO, SHOTS, Prompt("not_asked", generations=("samples",)))
    found = answers(study, lake, "closed_book")
    places = [
        (columns(row)["dataset"], columns(row)["prompt"], columns(row)["question_id"]) for row in found.items
    ]
    assert places == sorted(places)
    assert len(places) == 2 * sum(map(len, QUESTIONS.values()))
    assert found.n_without_passage == 0
    row = find(found.items, dataset="one", prompt="zero", question_id="Q1-P36")
    assert columns(row) == {
        "dataset": "one", "question_id": "Q1-P36", "prompt": "zero", "passage_id": None, "passage_ids": None,
        "demonstration_ids": [], "demonstration_passage_ids": [],
    }  # fmt: skip
    assert row.prompt().text == "Q: What is the capital of Utopia? A:"
    assert row.request == Request(Decoding(15))
    assert row.question.gold_answers == ("Amaurot", "Amaurote")


@pytest.mark.parametrize("method", ["bm25", "dense", "oracle"])
def test_questions_without_a_passage_are_counted(lake: Lake, tmp_path: Path, method: str) -> None:
    found = answers(hand_study(tmp_path, ZERO, SHOTS), lake, method)
    asked = {(columns(row)["dataset"], columns(row)["question_id"]) for row in found.items}
    assert not asked & {("one", "Q3-P22"), ("two", "Q9-P22")}
    assert (len(found.items), found.n_without_passage) == (2 * 8, 2 * 2)


def test_passages_stand_before_question_and_demonstrations(lake: Lake, tmp_path: Path) -> None:
    rows = answers(hand_study(tmp_path, SHOTS), lake, "dense").items
    row = find(rows, dataset="one", question_id="Q1-P36")
    keys = columns(row)
    assert keys["passage_id"] == "Q1-0"
    assert set(keys["demonstration_ids"]) == set(QUESTIONS["one"]) - {"Q1-P36"}
    expected = [None if i == "Q3-P22" else f"{i[:2]}-0" for i in keys["demonstration_ids"]]
    assert keys["demonstration_passage_ids"] == expected
    text = row.prompt().text
    assert text.endswith("\n\nUtopia is far. Its capital is Amaurot.\n\nQ: What is the capital of Utopia? A:")
    assert "Emma is a book. By Jane Austen.\n\nQ: Who is the author of Emma? A: Jane Austen" in text
    assert f"\n\n{text}".count("\n\nQ: Who is the father of Ann? A: Bo\n\n") == 1
    assert f"\n\n{text}".count("\n\nQ: Who is the father of Cy? A: \n\n") == 1  # its passage is empty


def test_demonstrations_find_their_passages_as_in_the_reference_implementation(
    lake: Lake, tmp_path: Path
) -> None:
    """Retrieval results by the question's text; demonstrations looked up in lower case without question marks."""
    rows = answers(hand_study(tmp_path, REFERENCE), lake, "bm25").items
    keys = columns(find(rows, dataset="one", question_id="Q1-P36"))
    carried = dict(zip(keys["demonstration_ids"], keys["demonstration_passage_ids"], strict=True))
    assert carried.pop("Q4-P50") == "Q5-0"  # "Who is the author of Emma?" finds "who is the author of emma"
    assert carried.pop("Q5-P50") == "Q5-0"  # which finds itself
    assert set(carried.values()) == {None}
    assert keys["passage_id"] == "Q1-0"
    two = columns(find(rows, dataset="two", question_id="Q1-P36"))
    assert set(two["demonstration_passage_ids"]) == {None}
    plain = answers(hand_study(tmp_path, SHOTS), lake, "bm25").items
    assert (
        columns(find(plain, dataset="one", question_id="Q1-P36"))["demonstration_ids"]
        == keys["demonstration_ids"]
    )


def test_genread_takes_the_models_own_text(lake: Lake, tmp_path: Path) -> None:
    study = hand_study(tmp_path, SHOTS, ZERO)
    found = answers(study, lake, "genread")
    assert {(columns(row)["dataset"], columns(row)["question_id"]) for row in found.items} == {
        ("one", "Q1-P36"), ("one", "Q4-P50"), ("two", "Q1-P36"),
    }  # fmt: skip
    assert found.n_without_passage == 2 * 7
    row = find(found.items, dataset="one", prompt="zero", question_id="Q1-P36")
    assert (
        row.prompt().text == " Utopia. A far\n\nQ: What is the capital of Utopia? A:"
    )  # not cut as dense passages are
    assert columns(row)["passage_id"] == "genread:tiny:Q1-P36"
    shown = find(found.items, dataset="one", prompt="shots", question_id="Q4-P50")
    assert " Utopia. A far\n\nQ: What is the capital of Utopia? A: Amaurot\n\n" in shown.prompt().text
    carried = dict(
        zip(columns(shown)["demonstration_ids"], columns(shown)["demonstration_passage_ids"], strict=True)
    )
    assert {key for key, passage in carried.items() if passage} == {"Q1-P36"}


def test_a_question_with_an_empty_background_text_appears_alone_and_keeps_its_id(
    lake: Lake, tmp_path: Path
) -> None:
    row = find(answers(hand_study(tmp_path, ZERO), lake, "genread").items, question_id="Q4-P50")
    assert (row.prompt().text, columns(row)["passage_id"]) == (
        "Q: Who is the author of Emma? A:",
        "genread:tiny:Q4-P50",
    )


def test_a_missing_retrieved_passage_is_an_error(lake: Lake, tmp_path: Path) -> None:
    passages = lake.read("cited_passages").to_pylist()[1:]
    lake.write("cited_passages", passages, fingerprint="g")
    with pytest.raises(
        LakeError, match=r"partition bm25: passage Q1-0 is not in lake table cited_passages; materialise"
    ):
        answers(hand_study(tmp_path, ZERO), lake, "bm25")


def test_paraphrases(lake: Lake, tmp_path: Path) -> None:
    found = plan(hand_study(tmp_path, ZERO, SHOTS), lake, "paraphrase_answers")
    places = [
        (columns(row)["dataset"], columns(row)["question_id"], columns(row)["paraphrase_id"])
        for row in found.items
    ]
    assert places == sorted(places)
    assert len(places) == 3 * 10
    row = find(found.items, dataset="two", question_id="Q9-P22", paraphrase_id=1)
    assert columns(row) == {"dataset": "two", "question_id": "Q9-P22", "paraphrase_id": 1, "prompt": "zero"}
    assert row.prompt().text == "Q: Say: Who is the father of Di? A:"
    assert row.question.gold_answers == ("Ed",)


def test_samples_are_seeded_by_seed_dataset_question_and_number(lake: Lake, tmp_path: Path) -> None:
    study = hand_study(tmp_path, ZERO, Prompt("bare", format="question", generations=("samples",)))
    items = plan(study, lake, "sampled_answers").items
    names = ("dataset", "prompt", "question_id", "sample")
    places = [tuple(item.key(part)[name] for name in names) for item in items for part in range(3)]
    assert places == sorted(places)
    assert len(places) == 2 * 3 * 10
    by_prompt = {prompt: {} for prompt in ("zero", "bare")}  # type: dict[str, dict[object, int | None]]
    for (dataset, question_id, prompt, number), seed in seeds(items).items():
        by_prompt[str(prompt)][dataset, question_id, number] = seed
    assert by_prompt["zero"] == by_prompt["bare"]
    assert len(set(by_prompt["zero"].values())) == len(by_prompt["zero"]) == 30
    assert all(seed is not None and 0 <= seed < 2**63 for seed in by_prompt["zero"].values())
    item = find(items, dataset="one", question_id="Q1-P36", prompt="bare")
    assert item.prompt().text == "What is the capital of Utopia?"
    others = plan(dataclasses.replace(study, seed=1), lake, "sampled_answers").items
    assert not set(seeds(others).values()) & set(by_prompt["zero"].values())


def test_a_dataset_that_is_drawn_as_another_has_its_demonstrations_and_seeds(
    lake: Lake, tmp_path: Path
) -> None:
    prompt = dataclasses.replace(
        SHOTS, shots=2, demonstrations_from="all_questions", generations=ZERO.generations
    )
    own = hand_study(tmp_path, prompt, seed=4)
    study = dataclasses.replace(own, datasets=(Dataset("two"), Dataset("one", drawn_as="two")))
    pool = Demonstrations("two", read_questions(own, lake)["one"], 4)
    for table, method in (
        ("answers", "closed_book"),
        ("paraphrase_answers", None),
        ("sampled_answers", None),
    ):
        items = [one for one in plan(study, lake, table, method).items if one.key(0)["dataset"] == "one"]
        assert all(item.shown == pool.draw(item.question, prompt) for item in items)
        assert any(
            mine.shown != item.shown
            for mine, item in zip(plan(own, lake, table, method).items, items, strict=False)
        )
        task = TASKS[table]
        stamps = [task.decisive(Scope(one, lake, one.models[0], method)) for one in (own, study)]
        assert stamps[0] != stamps[1]
    drawn = int.from_bytes(hashlib.sha256(b"4\ntwo\nQ1-P36\n2").digest()[:8], "big") >> 1
    assert seeds(items)["one", "Q1-P36", "shots", 2] == drawn


def test_background_texts_are_asked_once_a_question(lake: Lake, tmp_path: Path) -> None:
    found = plan(hand_study(tmp_path, ZERO, SHOTS), lake, "generated_passages")
    assert len(found.items) == 10
    row = find(found.items, dataset="one", question_id="Q3-P22")
    assert columns(row) == {"dataset": "one", "question_id": "Q3-P22"}
    assert row.prompt().text == (
        "Generate a background document from Wikipedia to answer the given question. Who is the father of Ann?"
    )


def test_rows_share_all_they_refer_to(lake: Lake, tmp_path: Path) -> None:
    shared = dataclasses.replace(SHOTS, draw="per_relation", name="shared")
    rows = answers(hand_study(tmp_path, SHOTS, shared), lake, "bm25").items
    assert all(sys.getsizeof(row) <= 88 and not hasattr(row, "__dict__") for row in rows)
    assert len({id(row.group) for row in rows}) == 4
    assert len({id(row.question) for row in rows} | {id(q) for row in rows for q in row.shown}) == 10


def test_only_the_studys_datasets_are_asked(lake: Lake, tmp_path: Path) -> None:
    study = dataclasses.replace(hand_study(tmp_path, ZERO), datasets=(Dataset("two"),))
    plans = (
        answers(study, lake, "bm25"),
        plan(study, lake, "paraphrase_answers"),
        plan(study, lake, "sampled_answers"),
        plan(study, lake, "generated_passages"),
    )
    assert {columns(row)["dataset"] for plan in plans for row in plan.items} == {"two"}


def decisive(study: Study, table: str, method: str | None = None) -> object:
    return TASKS[table].decisive(Scope(study, Lake(Path("none")), study.models[0], method))


def with_prompt(**changes: Any) -> Callable[[Study], Study]:
    return lambda study: dataclasses.replace(
        study, prompts=(study.prompts[0], dataclasses.replace(study.prompts[1], **changes))
    )


@pytest.mark.parametrize(
    ("change", "stale"),
    [
        (with_prompt(reference_demos=True), set(METHODS) - {"closed_book"}),
        (lambda study: dataclasses.replace(study, prompts=study.prompts[::-1]), set()),
        (lambda study: dataclasses.replace(study, datasets=study.datasets[::-1]), set()),
        (
            lambda study: dataclasses.replace(
                study, prompts=(*study.prompts, Prompt("more", generations=("samples", "paraphrases")))
            ),
            {"P", "S"},
        ),
    ],
)
def test_what_makes_partitions_stale(
    tmp_path: Path, change: Callable[[Study], Study], stale: set[str]
) -> None:
    """Which keys do at all: `tests/longtail/test_stamps.py`."""

    def slices(study: Study) -> dict[str, object]:
        return {method: decisive(study, "answers", method) for method in METHODS} | {
            "P": decisive(study, "paraphrase_answers"),
            "S": decisive(study, "sampled_answers"),
            "G": decisive(study, "generated_passages"),
        }

    study = hand_study(tmp_path, ZERO, SHOTS)
    before, after = slices(study), slices(change(study))
    assert {name for name in before if before[name] != after[name]} == stale
