"""One table of questions and answers, from a study's short form to lake rows, without Dagster."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any

import pytest

from longtail.errors import SourceError
from longtail.generation.engine.partition import generate
from longtail.generation.engine.session import ModelSession
from longtail.generation.tasks.registry import TASKS
from longtail.imports.answers import import_answers
from longtail.imports.datasets import import_entities, import_popularity, import_triples, link_questions
from longtail.imports.formats.questions.table import NO_IDS
from longtail.prompt_formats import GROUNDING_PROMPTS
from longtail.questions.build import build_questions
from longtail.retrieval.indexes import build_index
from longtail.retrieval.passages import build_passages
from longtail.retrieval.retrieve import retrieve_passages
from longtail.storage.fingerprints import code_version
from longtail.storage.lake import Lake, Outcome
from longtail.study import imports
from longtail.study.study import Study
from tests.imported_files import study_of_files, write_entity_questions

LOG = logging.getLogger("test")
TABLE = """question;answer;popularity;prediction;verdict;new_tokens;how
Who sang Angel?;Akon;7;Akon;1;2;plain
Who sang One?;U2|Ed Sheeran;7;Bono;1;1;plain
Who sang Two?;;7;Bono;1;1;plain
Who sang Red?;Swift;;Taylor Swift;0;;short
"""
COLUMNS = {"prompt": "how", "is_correct": "verdict"}
PROMPTS = [{"name": "plain"}, {"name": "short", "format": "question"}]


def made(folder: Path, **more: Any) -> tuple[Study, Lake]:
    """The study of one file, with its questions in the lake."""
    (folder / "songs.csv").write_text(TABLE, encoding="utf-8")
    results = {"format": "table", "path": "songs.csv", "dataset": "songs", "columns": COLUMNS}
    dataset = {"name": "songs", "import": {"format": "table", "path": "songs.csv", "separator": "|"}}
    others = {"name": "others", "backend": "imported", "results": [results]}
    study, lake = study_of_files(
        folder, **{"name": "songs", "datasets": [dataset], "prompts": PROMPTS, "models": [others], **more}
    )
    import_triples(study, lake, LOG)
    import_entities(study, lake, LOG)
    import_popularity(study, lake, LOG)
    return study, lake


def scored(study: Study, lake: Lake) -> Outcome:
    with ModelSession(LOG) as session:
        return generate(
            TASKS["answers"], study, lake, "others", "closed_book", session=session, run_id="r", log=LOG
        )


def test_a_table_of_questions_and_answers_becomes_rows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    study, lake = made(tmp_path)
    with caplog.at_level(logging.INFO):
        outcome = build_questions(study, lake, LOG)
    assert f"songs: {NO_IDS}" in caplog.messages
    assert (
        "songs: 1 of 3 questions have no popularity: analyses of popularity leave them out" in caplog.messages
    )
    assert outcome.notes["songs"]["without_relation"] == 3
    popularity = {row["entity_id"]: row["popularity"] for row in lake.read("imported_popularity").to_pylist()}
    asked = lake.read("questions").to_pylist()
    known = {row["question"]: popularity.get(row["subject_id"]) for row in asked}
    assert known == {"Who sang Angel?": 7.0, "Who sang One?": 7.0, "Who sang Red?": None}
    imported = import_answers(study, lake, "others", LOG)
    assert (imported.stamp.n_rows, imported.stamp.n_quarantined) == (3, 1)
    scored(study, lake)
    rows = lake.read("answers", "others|closed_book").to_pylist()
    names = {row["question_id"]: row["question"].split()[-1] for row in asked}
    found = {names[row["question_id"]]: (row["prompt"], row["is_correct"], row["new_tokens"]) for row in rows}
    assert found == {"Angel?": ("plain", True, 2), "One?": ("plain", False, 1), "Red?": ("short", True, None)}


@pytest.mark.parametrize(
    ("columns", "prompts", "message"),
    [
        (
            {},
            PROMPTS,
            r"songs.csv row 1 does not say by which prompt; the study has: plain \(0 shots\), short \(0 shots\); choose",
        ),
        (
            COLUMNS,
            [{"name": "plain"}],
            r"songs.csv row 4 was asked by prompt short; the study has: plain \(0 shots\); choose",
        ),
    ],
)
def test_answers_whose_prompt_is_not_known_are_refused(
    tmp_path: Path, columns: dict[str, str], prompts: list[dict[str, str]], message: str
) -> None:
    results = {"format": "table", "path": "songs.csv", "dataset": "songs", "columns": columns}
    others = {"name": "others", "backend": "imported", "results": [results]}
    study, lake = made(tmp_path, prompts=prompts, models=[others])
    build_questions(study, lake, LOG)
    with pytest.raises(SourceError, match=message):
        import_answers(study, lake, "others", LOG)


def test_the_only_prompt_that_asks_by_a_method_is_that_of_its_answers(tmp_path: Path) -> None:
    prompts = [{"name": "plain", "methods": ["closed_book"]}, {"name": "with_text", "methods": ["bm25"]}]
    columns = {"is_correct": "verdict"}
    results = {
        "format": "table",
        "path": "songs.csv",
        "dataset": "songs",
        "columns": columns,
        "separator": "|",
    }
    others = {"name": "others", "backend": "imported", "results": [results]}
    study, lake = made(tmp_path, prompts=prompts, models=[others], methods=["closed_book", "bm25"])
    build_questions(study, lake, LOG)
    import_answers(study, lake, "others", LOG)
    assert {row["prompt"] for row in lake.read("imported_answers", "others").to_pylist()} == {"plain"}


def test_answers_by_a_retriever_of_the_study_are_its_rows_and_unknown_methods_are_put_aside(
    tmp_path: Path,
) -> None:
    (tmp_path / "by.csv").write_text(
        "question,answer,prediction,how\n"
        "Who sang Angel?,Akon,a,stemmed\nWho sang One?,U2|Ed Sheeran,b,magic\nWho sang Red?,Swift,c,bm25\n",
        encoding="utf-8",
    )
    results = {
        "format": "table", "path": "by.csv", "dataset": "songs", "columns": {"method": "how"}, "separator": "|",
    }  # fmt: skip
    more = {
        "models": [{"name": "others", "backend": "imported", "results": [results]}],
        "methods": ["closed_book", "bm25", "stemmed"], "prompts": [{"name": "plain"}],
        "retrievers": [{"name": "stemmed", "kind": "bm25", "stemmer": "porter"}],
    }  # fmt: skip
    study, lake = made(tmp_path, **more)
    build_questions(study, lake, LOG)
    import_answers(study, lake, "others", LOG)
    rows = lake.read("imported_answers", "others").to_pylist()
    assert {(row["method"], row["text"]) for row in rows} == {("stemmed", "a"), ("bm25", "c")}
    (rejected,) = lake.read("quarantine", "imported_answers|others").to_pylist()
    assert rejected["row_key"] == "by.csv row 2"
    assert rejected["reason"].startswith("method 'magic' is not one of: closed_book, ")
    assert rejected["reason"].endswith(", stemmed")


def test_the_confidence_of_a_whole_answer_reaches_its_row(tmp_path: Path) -> None:
    """Of an answer whose end was cut off, or that has more tokens than its text, only the first token is known."""
    rows = [
        ("Angel", "Akon", "Akon", "[0.5, 0.25]"), ("One", "U2|Ed Sheeran", "U2\nor not", "[0.5, 0.5]"),
        ("Red", "Swift", "Yes", "[0.5, 0.5, 0.25, 0.25]"),
    ]  # fmt: skip
    lines = [
        {"question": f"Who sang {song}?", "answer": gold, "prediction": text, "token_probs": numbers}
        for song, gold, text, numbers in rows
    ]
    (tmp_path / "sure.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    results = {"format": "table", "path": "sure.jsonl", "dataset": "songs", "separator": "|"}
    others = {"name": "others", "backend": "imported", "results": [results]}
    study, lake = made(tmp_path, models=[others], prompts=[{"name": "plain"}])
    build_questions(study, lake, LOG)
    import_answers(study, lake, "others", LOG)
    scored(study, lake)
    whole, cut, more = sorted(
        lake.read("answers", "others|closed_book").to_pylist(), key=lambda row: row["raw_text"]
    )
    assert (whole["confidence_tokens"], whole["sum_log_probability"]) == (2, pytest.approx(math.log(1 / 8)))
    assert (cut["prediction"], cut["confidence_tokens"], cut["sum_log_probability"]) == ("U2", None, None)
    for one in (cut, more):
        assert (one["first_probability"], one["least_probability"]) == (0.5, None)


def test_a_question_under_two_ids_is_asked_twice_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "twice.csv").write_text(
        "id,question,answer\n7,Who?,A\n8,Who?,A\n9,Where?,B\n", encoding="utf-8"
    )
    dataset = {"name": "twice", "import": {"format": "table", "path": "twice.csv"}}
    study, lake = made(
        tmp_path, datasets=[dataset], models=[{"name": "fake", "path": "fake:echo", "backend": "fake"}]
    )
    caplog.set_level("INFO")
    build_questions(study, lake, LOG)
    assert "twice: 1 questions stand under several ids, as 7, 8: each id is asked and counted" in caplog.text
    assert lake.read("questions")["question_id"].to_pylist() == ["7", "8", "9"]


def test_entities_of_a_table_are_no_namesakes_of_others_and_no_subject_is_linked_to_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "own.csv").write_text("question;answer;subject\nWho?;x;Ann\nWhere?;y;Bob\n", encoding="utf-8")
    folder = write_entity_questions(
        tmp_path / "eq",
        "test",
        {"P19": [{"question": f"Where was {name} born?", "answers": ["Oslo"]} for name in ("Ann", "Bob")]},
    )
    datasets = [
        {"name": "own", "import": {"format": "table", "path": "own.csv"}},
        {"name": "eq", "import": {"format": "entity_questions", "path": str(folder)}},
    ]
    study, lake = made(tmp_path, datasets=datasets, models=["sandbox:s"])
    known = {"entity_id": "Q1", "label": "Ann", "aliases": [], "source": "s"}
    lake.write("entities", [known], fingerprint="one")
    found = link_questions(study, study.datasets[1], lake).questions
    assert [row["subject_id"] for row in found.values()] == ["Q1", None]


@pytest.mark.parametrize("has_collection", [False, True])
def test_another_way_to_read_the_file_makes_the_passages_beside_questions_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_collection: bool
) -> None:
    (tmp_path / "own.csv").write_text("question;answer;passage\nWho?;Ada;Ada it was.\n", encoding="utf-8")
    (tmp_path / "all.jsonl").write_text('{"title": "Bo", "text": "Bo was here."}\n', encoding="utf-8")
    collection = {"format": "articles", "path": "all.jsonl", "source": "s", "date": "unknown", "licence": "l"}
    more = {"collections": [{"name": "all"} | collection]} if has_collection else {}
    datasets = [{"name": "own", "import": {"format": "table", "path": "own.csv"}}]
    study, lake = made(tmp_path, datasets=datasets, methods=["bm25"], models=["sandbox:s"], **more)
    build_passages(study, lake, LOG)
    assert build_passages(study, lake, LOG).was_current
    other = "another"
    monkeypatch.setattr(
        imports, "code_version", lambda name: other if name.endswith(".table") else code_version(name)
    )
    assert not build_passages(study, lake, LOG).was_current


def test_a_passage_beside_a_question_can_be_found_and_is_what_the_oracle_gives(tmp_path: Path) -> None:
    words = " ".join(f"word{i}." for i in range(120))
    lines = [
        "id;question;answer;subject;passage",
        f"a;Who sang Angel?;Akon;Angel;{words} Akon sang it.",
        "b;Who?;Ada;;",
    ]
    lines += ["c;Who sang One?;U2;;One is a song.", "d;Who sang Two?;Abba;;Two is by ABBA"]
    (tmp_path / "own.csv").write_text("\n".join(lines), encoding="utf-8")
    datasets = [{"name": "own", "import": {"format": "table", "path": "own.csv"}}]
    study, lake = made(tmp_path, datasets=datasets, methods=["bm25", "oracle"], models=["sandbox:s"])
    build_questions(study, lake, LOG)
    build_passages(study, lake, LOG)
    passages = {row["passage_id"].partition("-")[2]: row for row in lake.read("passages").to_pylist()}
    assert {key: row["title"] for key, row in passages.items()} == {"a-0": "Angel", "c-0": "c", "d-0": "d"}
    assert {row["source"] for row in passages.values()} == {"questions"}
    build_index(study, lake, "bm25", LOG)
    for retriever, expected in (
        ("oracle", {"a": "a-0", "d": "d-0"}),
        ("bm25", {"a": "a-0", "c": "c-0", "d": "d-0"}),
    ):
        retrieve_passages(study, lake, retriever, LOG)
        rows = lake.read("retrieved_passages", retriever).to_pylist()
        first = {row["question_id"]: row["passage_id"].partition("-")[2] for row in rows if row["rank"] == 1}
        assert first == expected


GROUNDED = """id,grounding_prompt,method,prediction
0,,closed_book,Akon; He sang it; twice
0,According to Wikipedia,closed_book,U2
0,according_to_wikipedia,closed_book,Akon; again
1,null,closed_book,U2;The band sang One.
1,based_on_evidence,closed_book,U2; b
1,according to my aunt,closed_book,U2; b
1,according_to_wikipedia,bm25,U2; b
"""


def test_texts_of_others_under_grounding_prompts(tmp_path: Path) -> None:
    """By the prompt's name or its text, beside answers by a prompt of the study; what cannot be used says why."""
    text = GROUNDED.replace("According to Wikipedia", GROUNDING_PROMPTS["according_to_wikipedia"].text)
    (tmp_path / "texts.csv").write_text(text, encoding="utf-8")
    (tmp_path / "asked.csv").write_text(
        "id,question,answers\n0,Who sang Angel?,Akon\n1,Who sang One?,U2\n", encoding="utf-8"
    )
    (tmp_path / "answers.csv").write_text("id,prediction\n0,Akon\n1,Bono\n", encoding="utf-8")
    files = [{"format": "table", "path": f"{one}.csv", "dataset": "songs"} for one in ("texts", "answers")]
    study, lake = made(
        tmp_path,
        datasets=[{"name": "songs", "import": {"format": "table", "path": "asked.csv"}}],
        prompts=PROMPTS[:1],
        models=[{"name": "others", "backend": "imported", "results": files}],
        grounding={"portrait": {}, "prompts": [None, "according_to_wikipedia"]},
    )
    build_questions(study, lake, LOG)
    import_answers(study, lake, "others", LOG)
    assert {
        row["row_key"]: row["reason"]
        for row in lake.read("quarantine", "imported_answers|others").to_pylist()
    } == {
        "texts.csv row 3": "answered already: texts.csv row 2 has the same question; that row is kept",
        "texts.csv row 5": "grounding prompt 'based_on_evidence' is not one of: null, according_to_wikipedia",
        "texts.csv row 6": "grounding prompt 'according to my aunt' is not one of: null, according_to_wikipedia",
        "texts.csv row 7": "method 'bm25' is not one of grounding.methods: closed_book",
    }
    assert scored(study, lake).stamp.n_rows == 2, "answers by the study's prompt stay apart"
    with ModelSession(LOG) as session:
        task = TASKS["grounded_generations"]
        generate(task, study, lake, "others", session=session, run_id="r", log=LOG)
    rows = lake.read("grounded_generations", "others").to_pylist()
    names = ("question_id", "grounding_prompt", "grounding_kind", "answer", "explanation", "exact_match")
    assert sorted((tuple(row[name] for name in names) for row in rows), key=str) == [
        ("0", "according_to_wikipedia", "grounding", "U2", None, 0.0),
        ("0", "null", "null", "Akon", "He sang it; twice", 1.0),
        ("1", "null", "null", "U2", "The band sang One.", 1.0),
    ]
    assert {row["reference_explanation"] for row in rows} == {"U2", "He sang it", "The band sang One."}
    assert {(row["engine"], row["steps"], row["is_parsed"]) for row in rows if row["explanation"]} == {
        ("imported", 1, True)
    }
