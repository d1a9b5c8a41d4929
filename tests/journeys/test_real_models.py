"""`studies/real_models.yaml` from files to marts and export, on invented rows in the shapes of its real files."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy.stats import norm, spearmanr
from sklearn.metrics import roc_auc_score

from longtail.study.file import load_study
from longtail.warehouse.export import export_marts
from longtail.warehouse.publish import publish_warehouse
from tests.imported_files import popqa_rows, write_popqa
from tests.in_process_dbt import put_parsed
from tests.journeys.commands import PROJECT, run_up_to_the_warehouse
from tests.pages import blocks
from tests.warehouses import LOG, build_warehouse
from tools.pages.real_models import PLACE, QUESTIONS, page

pytestmark = [pytest.mark.journey, pytest.mark.xdist_group("imports")]

STUDY = PROJECT / "studies/real_models.yaml"
N_SONGS, N_ASKED, N_PAIRS = 60, 20, 12
ADARAGUE = {
    "rag_one_retrieve": ("hotpotqa_test", "hotpotqa_train", "2wikimultihopqa_train"),
    "bm25": ("nq_test", "nq_dev", "trivia_test", "trivia_dev", "squad_dev"),
}


def write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows).encode()))


def song(i: int, is_right: bool, *, ends: bool) -> dict[str, Any]:
    """A right answer has token probabilities of .9, a wrong one of .5; an end token's is .1."""
    sure = 0.9 if is_right else 0.5
    return {
        "question": f"Who sings Song {i}", "question_entity": f"Song {i}", "reference": [f"Band {i}"],
        "popularity": i + 1, "prediction": f"Band {i}" if is_right else "Nobody", "has_answer": int(is_right),
        "token_probs": [sure, sure] + [0.1] * ends,
    }  # fmt: skip


def pair(i: int, column: str) -> dict[str, Any]:
    """Memory is right for 0 to 2, the passage for 2 to 5: never 3, always 4, either 6 of `N_PAIRS`."""
    said = [f"Gold {i}" if i in right else "No idea" for right in (range(3), range(2, 6))]
    row = {"id": f"q{i}", "question": f"Who is {i}?", "answers": [f"Gold {i}"], "no_retrieve": said[0]}
    row |= {"adaptive_rag_steps": 2 * (i % 2), "seakr_retrievals": 1, "seakr_last_step_score": -float(i)}
    return {**row, column: said[1], "passages": [{"title": "T", "text": "x", "supporting": True}]}


def documents(i: int) -> tuple[int, int]:
    """Documents of Wikipedia with song i, many songs in equally many, and with song and performer."""
    return i * 7 % 11, N_SONGS - i


def write_counts(data: Path, subjects: Sequence[str]) -> None:
    alone = {f"song {i}": documents(i)[0] for i in range(N_SONGS)}
    together = {f"song {i}": {f"band {i}": documents(i)[1], "nobody": 99} for i in range(N_SONGS)}
    for name, counts in (("cooccurrence", together), ("occurrence", alone)):
        (data / "songs_confidence" / f"{name}.json.gz").write_bytes(
            gzip.compress(json.dumps(counts).encode())
        )
    write(data / "wikipedia/leads.jsonl.gz", [{"title": one, "text": f"{one} is known."} for one in subjects])


JSPACE = {
    "gemma_4_e4b": "gemma-4-e4b-it", "gemma_4_12b": "gemma-4-12b-it",
    "gemma_4_12b_abliterated": "huihui-gemma-4-12b-it-abliterated", "gemma_4_26b": "gemma-4-26b-a4b-it",
    "gemma_4_31b": "gemma-4-31b-it", "mistral_small_24b": "mistral-small-24b-instruct-2501", "qwen3_6_27b": "qwen3.6-27b",
}  # fmt: skip
SELFRAG = {"selfrag_7b": "official", "selfrag_own_7b": "our", "selfrag_own_qwen2_5_7b": "qwen"}
JUDGED = {
    "gpt_3_5": "gpt35", "chatgpt": "chatgpt", "gpt_4": "gpt4", "fusion_in_decoder": "fid", "new_bing": "newbing"
}  # fmt: skip
N_FACTS, N_JUDGED = 60, 11


def write_sampled(data: Path, facts: Sequence[dict[str, str]]) -> None:
    """Seven models on all facts, from memory: every other answer is right, and its first token is surer."""
    rows = [
        {"id": int(fact["id"]), "id_ambiguous": False, "model": model, "source_right": i % 2 == 0,
         "prediction": fact["obj"] if i % 2 == 0 else "Nobody", "mean_logprob": -0.5, "min_logprob": -1.0 - i / 100,
         "first_token_logprob": -0.1 - (i % 2), "answer_tokens": 2}
        for model in JSPACE.values() for i, fact in enumerate(facts)
    ]  # fmt: skip
    write(data / "jspace/memory_logprobs.jsonl.gz", rows)


def write_selfrag(data: Path, facts: Sequence[dict[str, str]]) -> None:
    """From memory every third answer is right, with passages every other one."""
    pairs = [
        {"id": int(fact["id"]), "model": model, "method": method, "source_right": int(i % every == 0),
         "prediction": f"It is {fact['obj'] if i % every == 0 else 'nobody'}."}
        for model in SELFRAG.values() for method, every in (("memory", 3), ("retrieval", 2))
        for i, fact in enumerate(facts)
    ]  # fmt: skip
    write(data / "selfrag_popqa/longtail_pairs.jsonl.gz", pairs)
    memory = [
        {"id": int(fact["id"]), "model": model, "method": "memory", "prediction": fact["obj"] if i % 3 == 0 else "nobody"}
        for model in ("official", "our", "llama2_base") for i, fact in enumerate(facts)
    ]  # fmt: skip
    write(data / "selfrag_popqa/all_memory.jsonl.gz", memory)


def write_judged(data: Path) -> None:
    """Humans call one answer right that says the same in other words; the first question is improper."""
    rows = [
        {"question": f"who was {i}", "answers": [f"Gold {i}"], "improper": i == 0,
         "answer": {name: f"It was Gold {i}" if i % 2 else "the one meant" for name in JUDGED.values()},
         "human_right": {name: i % 2 == 1 or i == 2 for name in JUDGED.values()}}
        for i in range(N_JUDGED + 1)
    ]  # fmt: skip
    write(data / "evouna/nq.jsonl.gz", rows)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home where the study has run."""
    folder = tmp_path_factory.mktemp("real_models")
    data = folder / "data"
    data.mkdir()
    for name, right in (
        ("gpt_3.5_turbo", range(30, 60)),
        ("llama_3_8b", range(20)),
        ("qwen2.5_7b", range(9)),
    ):
        rows = [song(i, i in right, ends=name.startswith("qwen")) for i in range(N_SONGS)]
        write(data / "songs_confidence" / f"{name}.jsonl.gz", rows)
    for column, names in ADARAGUE.items():
        for name in names:
            write(data / "adarague" / f"{name}.jsonl.gz", [pair(i, column) for i in range(N_PAIRS)])
    facts = popqa_rows(n=N_FACTS // 3)
    (data / "popqa").mkdir()
    write_popqa(data / "popqa/popQA.tsv.gz", facts)
    by_popularity = sorted(facts, key=lambda row: int(row["s_pop"]))[:N_ASKED]
    asked = [
        {"id": int(row["id"]), "question": row["question"], "closed_book": row["obj"] if i >= 15 else "No idea.",
         "with_gold_row": row["obj"], "closed_right": int(i >= 15), "gold_row_right": 1}
        for i, row in enumerate(by_popularity)
    ]  # fmt: skip
    write(data / "popqa_answers/llama3_70b.jsonl.gz", asked)
    write_counts(data, [row["subj"] for row in by_popularity])
    write_sampled(data, facts)
    write_selfrag(data, facts)
    write_judged(data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LONGTAIL_REAL_DATA", str(data))
        put_parsed(folder / "home", STUDY)
        run_up_to_the_warehouse(folder / "home", STUDY)
        patch.setenv("LONGTAIL_HOME", str(folder / "home"))
        study = load_study(STUDY)
        build_warehouse(study)
        published = publish_warehouse(study, LOG)
        assert export_marts(study, LOG).n_rows.keys() == published.n_rows.keys()
        return study.home.published


@pytest.fixture(scope="module")
def marts(home: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(home / "warehouse.duckdb"), read_only=True) as connection:
        connection.execute("set search_path = 'marts'")
        yield connection


def test_all_answers_are_imported(marts: duckdb.DuckDBPyConnection) -> None:
    counts = dict(marts.sql("select model, count(*) from fct_answers group by 1").fetchall())
    assert counts == {
        "gpt_3_5_turbo": N_SONGS, "llama_3_8b": N_SONGS, "qwen2_5_7b": N_SONGS, "llama_8b_it": 6 * N_PAIRS,
        "llama_3_1_8b": 10 * N_PAIRS, "llama_3_70b": 2 * N_ASKED, **dict.fromkeys(JSPACE, N_FACTS),
        "selfrag_7b": 3 * N_FACTS, "selfrag_own_7b": 3 * N_FACTS, "selfrag_own_qwen2_5_7b": 2 * N_FACTS,
        "llama_2_7b": N_FACTS, **dict.fromkeys(JUDGED, N_JUDGED),
    }  # fmt: skip
    assert marts.sql("select count(*) from dim_questions where dataset = 'popqa_500'").fetchone() == (
        N_ASKED,
    )
    assert marts.sql("select sum(n) from fct_quarantine").fetchone() in [(None,), (0,)]


def test_signals_of_songs(marts: duckdb.DuckDBPyConnection) -> None:
    """Confidence separates by construction; popularity does so for two models, once the right way and once reversed."""
    found = marts.sql(
        "select model, max(auroc) filter (signal = 'confidence'), max(auroc) filter (signal = 'popularity')"
        " from fct_signal_quality where dataset = 'songs' group by 1 order by 1"
    ).fetchall()
    assert found == [("gpt_3_5_turbo", 1.0, 1.0), ("llama_3_8b", 1.0, 0.0), ("qwen2_5_7b", 1.0, 0.0)]
    tokens = marts.sql(
        "select distinct confidence_tokens from fct_answers where dataset = 'songs'"
    ).fetchall()
    assert tokens == [(2,)]


def test_counts_are_signals_and_their_rank_correlations_are_those_of_scipy(
    marts: duckdb.DuckDBPyConnection,
) -> None:
    """No lead names a song, and every one names a subject of PopQA: such a count has no correlation."""
    alone, together = zip(*map(documents, range(N_SONGS)), strict=True)
    found = marts.sql(
        "select signal, other_signal, n, n_subjects, spearman, spearman_ci_low, spearman_ci_high"
        " from fct_popularity_measures where dataset = 'songs' and spearman is not null order by all"
    ).fetchall()
    pairs = [(together, alone), (together, range(N_SONGS)), (alone, range(N_SONGS))]
    rho = np.array([spearmanr(*one).statistic for one in pairs])
    with np.errstate(divide="ignore"):
        middle, half = np.arctanh(rho.round(12)), norm.ppf(0.975) * np.sqrt((1 + rho**2 / 2) / (N_SONGS - 3))
    middle[np.isinf(middle)] = np.nan  # one is the other reversed: no interval
    assert [row[:4] for row in found] == [
        (*names, N_SONGS, N_SONGS)
        for names in (("cooccurrence_count", "occurrence_count"), ("cooccurrence_count", "popularity"),
                      ("occurrence_count", "popularity"))
    ]  # fmt: skip
    wanted = np.column_stack([rho, np.tanh(middle - half), np.tanh(middle + half)])
    assert np.array([row[4:] for row in found], dtype=float) == pytest.approx(wanted, abs=1e-6, nan_ok=True)
    areas = marts.sql(
        "select auroc from fct_signal_quality where model = 'gpt_3_5_turbo' and signal like '%_count' order by signal"
    ).fetchall()
    is_right = [i >= 30 for i in range(N_SONGS)]
    assert [area for (area,) in areas] == pytest.approx([0, roc_auc_score(is_right, alone)])
    undefined = marts.sql(
        "select distinct n from fct_popularity_measures where dataset = 'popqa_500' and spearman is null"
    ).fetchall()
    assert undefined == [(N_ASKED,)]


def test_pairs_of_memory_and_passages(marts: duckdb.DuckDBPyConnection) -> None:
    found = marts.sql(
        "select dataset, sum(n) filter (parametric_correct), sum(n) filter (retrieval_correct),"
        " sum(n) filter (parametric_correct or retrieval_correct) from fct_retrieval_quadrants"
        " where retrieval_method = 'bm25' group by 1 order by 1"
    ).fetchall()
    assert found == [(name, 3, 4, 6) for name in sorted(sum(ADARAGUE.values(), ()))]


def test_what_no_file_says_is_null_and_never_no(marts: duckdb.DuckDBPyConnection) -> None:
    """No file says whether a passage has the answer, what an answer cost, or how popular AdaRAGUE's subjects are."""
    (known,) = marts.sql(
        "select sum(n_known), count(recall_at_1), count(recall_at_1_ci_low), count(recall_read),"
        " count(recall_read_ci_high) from fct_retrieval_quadrants"
    ).fetchall()
    assert known == (0, 0, 0, 0, 0)
    popqa = "'popqa', 'popqa_sample', 'popqa_least_popular'"
    (answered,) = marts.sql(
        f"select count(*) filter (dataset not in ('songs', {popqa})), count(has_answer), count(cost_usd),"
        " count(latency_ms),"
        " count(prompt_tokens), count(confidence) filter (dataset not in ('songs', 'popqa_sample')),"
        " count(subject_popularity)"
        f" filter (dataset not in ('songs', 'popqa_500', {popqa}))"
        " from fct_answers"
    ).fetchall()
    assert answered == (16 * N_PAIRS + 2 * N_ASKED + 5 * N_JUDGED, 0, 0, 0, 0, 0, 0)
    costs = "count(cost_usd_per_1000), count(device_seconds_per_1000), count(prompt_tokens_per_1000)"
    assert marts.sql(f"select {costs} from fct_costs").fetchone() == (0, 0, 0)
    binned = marts.sql("select distinct dataset from fct_accuracy_by_popularity").fetchall()
    assert {name for (name,) in binned} <= {
        "songs",
        "popqa_500",
        "popqa",
        "popqa_sample",
        "popqa_least_popular",
    }
    linked = marts.sql("select distinct passage_of from fct_passage_effects").fetchall()
    assert linked in ([], [(None,)])


def test_decisions_of_others_stand_beside_fixed_methods_and_the_oracle(
    marts: duckdb.DuckDBPyConnection,
) -> None:
    """Adaptive-RAG retrieves for odd questions: memory is right for 0 and 2, the passage for 3 and 5."""
    found = marts.sql(
        f"select policy, n, round(accuracy * {N_PAIRS}, 6), round(share_retrieved, 6), round(gap_share, 6)"
        " from fct_policies where dataset = 'hotpotqa_test' and policy <> 'seakr_score' order by policy"
    ).fetchall()
    assert found == [
        ("adaptive_rag", N_PAIRS, 4, 0.5, 0), ("always", N_PAIRS, 4, 1, 0), ("never", N_PAIRS, 3, 0, -0.5),
        ("oracle", N_PAIRS, 6, 0.25, 1), ("seakr", N_PAIRS, 4, 1, 0),
    ]  # fmt: skip
    policies = marts.sql(
        "select dataset, list(distinct policy order by policy) from fct_policies group by 1"
    ).fetchall()
    assert dict(policies)["nq_test"] == ["always", "never", "oracle"]
    assert "popularity" in dict(policies)["popqa_500"]


def test_the_page_is_what_the_command_writes_but_for_its_numbers(marts: duckdb.DuckDBPyConnection) -> None:
    written = (PROJECT / PLACE).read_text(encoding="utf-8")
    assert sorted(without_numbers(page(marts))) == sorted(without_numbers(written))


def test_verdicts_effects_and_rules_are_those_of_the_files(marts: duckdb.DuckDBPyConnection) -> None:
    verdicts = marts.sql(
        "select model, retrieval_method, n, round(memory_accuracy, 3), round(passages_accuracy, 3),"
        " round(either_accuracy, 3) from fct_verdicts where dataset = 'popqa_least_popular' order by model"
    ).fetchall()
    assert verdicts == [(name, "elsewhere", N_FACTS, 0.333, 0.5, 0.667) for name in sorted(SELFRAG)]
    (effect,) = marts.sql(
        "select sum(n), sum(n_helped), sum(n_hurt) from fct_retrieval_effect_by_popularity where dataset ="
        " 'popqa_least_popular' and model = 'selfrag_7b' and relation = 'all' and binning = 'deciles'"
    ).fetchall()
    assert effect == (N_FACTS, 20, 10)
    agreement = marts.sql(
        "select distinct n, n_rule_only, n_verdict_only, round(difference * n) from fct_rule_agreement"
        " where dataset = 'nq_judged' and rule = 'is_correct'"
    ).fetchall()
    assert agreement == [(N_JUDGED, 0, 1, -1)]
    signals = marts.sql(
        "select distinct auroc, chosen_signals from fct_signal_quality where dataset = 'popqa_sample'"
        " and signal = 'best_signal'"
    ).fetchall()
    assert signals == [(1.0, "first_probability")]


def test_one_query_each_answers_three_questions(marts: duckdb.DuckDBPyConnection) -> None:
    """Every other fact is answered right; nobody asked GPT-4 with passages; the mean probability is always the same."""
    trusted, hurt, mean = (marts.sql(sql).fetchall() for sql in QUESTIONS.values())
    facts = popqa_rows(n=N_FACTS // 3)
    views = np.array([int(fact["s_pop"]) for fact in facts])
    places = [4 * (views < view).sum() // len(views) for view in views]
    popular = [i % 2 == 0 for i, place in enumerate(places) if place == 3]
    (known,) = [row for row in trusted if row[:2] == ("qwen3_6_27b", "popqa_sample")]
    assert (known[4], known[5]) == (len(popular), np.mean(popular))
    assert known[6] < known[5] < known[7]
    assert hurt[0] == ("gpt_4", "nq_judged", "none", "not known: no passages", 0, 0, 0)
    assert {row[0] for row in hurt[1:]} == {"llama_3_70b", *SELFRAG}
    of_gemmas = {(*row[1:5], row[7]) for row in mean}
    assert of_gemmas == {
        ("confidence", N_FACTS, 0, 0.5, "not known: all resamples are equal"),
        ("first_probability", N_FACTS, 0, 1.0, "not known: all resamples are equal"),
    }


def test_the_queries_of_the_page_on_decisions_give_the_columns_that_it_shows(
    marts: duckdb.DuckDBPyConnection,
) -> None:
    path = PROJECT / "docs/how_to_read.md"
    queries = [block for block in blocks(path) if block.startswith("select ")]
    heads = re.findall(r"^\| (.*) \|\n\|-", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert [" | ".join(marts.sql(query.rstrip(";\n")).columns) for query in queries] == heads


def without_numbers(text: str) -> list[str]:
    """The words of a page's paragraphs and rows, apart from the parts whose words depend on numbers."""
    text = text[: text.index("## A verdict")] + text[text.index("## Which signal") :]
    blank = re.sub(r"[+−]?[\d.,]*\d%?|–", "~", text).replace("(~ to ~)", "(~)")  # few rows have no intervals
    return [" ".join(part.split()) for part in re.split(r"\n(?=\n|\||-)", blank)]


def test_rows_without_a_licence_are_not_exported(home: Path, marts: duckdb.DuckDBPyConnection) -> None:
    """Neither the songs, their popularity and answers, nor what Llama 3 70B answered; rates over them are exported."""
    data = home / "export/data"
    answers = marts.sql(
        f"select distinct dataset, model from '{data}/fct_answers.parquet' order by all"
    ).fetchall()
    assert {model for _, model in answers} == {"llama_8b_it", "llama_3_1_8b", *JSPACE, *JUDGED}
    assert {dataset for dataset, _ in answers} == {*sum(ADARAGUE.values(), ()), "popqa_sample", "nq_judged"}
    for path in sorted(data.glob("*.parquet")):
        assert b"Song 7" not in path.read_bytes(), path.name
        said = marts.sql(f"select count(*) from '{path}' as t where t::text like '%Song 7%'").fetchone()
        assert said == (0,), path.name
    rates = marts.sql(f"select distinct model from '{data}/fct_accuracy.parquet' where dataset = 'songs'")
    assert len(rates.fetchall()) == 3
    card = (home / "export/README.md").read_text(encoding="utf-8")
    assert "state no licence: rows with questions of songs, answers of gpt_3_5_turbo to songs" in card
    assert "- `mit`: MIT: questions of popqa_500" in card
    assert "license:\n- mit\n- other\n" in card
