"""Factual consistency in SQL, which counts, equals brute force over all pairs of patterns to 1e-9, on random answers.

Labels of subjects repeat, articles fit or not, answers are missing, one relation has one pattern and a tie of its
majority objects.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import permutations
from typing import Any

import duckdb
import numpy as np
import pytest
from scipy.stats import t

from longtail.relations.cloze import article_before_object
from longtail.storage.home import PROJECT_ROOT
from longtail.storage.lake import Lake
from longtail.study.study import Study
from tests.in_process_dbt import invoke_dbt
from tests.lake_rows import fill
from tests.lakes import make_lake, make_study
from tests.warehouses import UNANSWERED, mart

OBJECTS = ("apple", "Élan", "pear", "Union", "yard")
PATTERNS = {
    "P1": [
        ("[X] is a [Y] by trade.", "trade", "present"), ("[X] is an [Y] by trade.", "trade", "present"),
        ("[X] was [Y].", "be", "past"), ("[X] is [Y].", "be", "present"), ("[X], [Y].", None, None),
        ("[X] had been [Y].", "be", "past"),
    ],
    "P2": [("[X] has an [Y].", "have", "present"), ("[X] has a [Y].", "have", None), ("[Y] of [X].", "of", None)],
    "P3": [("[X] likes [Y].", "like", "present")],
}  # fmt: skip
CHANGES = ("syntactic", "lexical", "both", "determiner", "no_change", None)
KEY = ["dataset", "prompt", "model", "method"]
Fact = tuple[str, str, str]
"""Model, relation and question_id."""


def change(relation: str, one: int, other: int) -> str | None:
    """What changes between two patterns; the file says nothing of P2's, and nothing of one pair of P1's."""
    return None if relation == "P2" or one == other else CHANGES[(one + other) % 6]


def write_answers(lake: Lake) -> dict[Fact, tuple[str, dict[int, str]]]:
    """Fill the lake; returns the object of each fact and the predictions for its patterns."""
    rng = np.random.default_rng(15)
    linked = [row["subject_id"] for row in lake.read("questions").to_pylist()]
    prompt = {**lake.read("prompts").to_pylist()[0], "prompt": "cloze", "generations": ["candidates"]}
    prompt["methods"] = ["closed_book"]
    lake.write("prompts", [prompt], fingerprint="cloze")
    questions, paraphrases, answers = [], [], defaultdict(list)
    facts: dict[Fact, tuple[str, dict[int, str]]] = {}
    for relation, patterns in PATTERNS.items():
        for i in range(14):
            key = {"dataset": "popqa", "question_id": f"{relation}-{i}"}
            gold = str(rng.choice(OBJECTS, p=[0.4, 0.2, 0.2, 0.1, 0.1]))
            gold = OBJECTS[i % 2] if relation == "P3" else gold  # two majority objects, a tie
            subject = {"subject": f"Subject {i // 2}", "subject_id": linked[i] if i < len(linked) else None}
            questions.append(
                fill(
                    "questions",
                    {
                        **key,
                        **subject,
                        "question": f"{relation} of fact {i}?",
                        "relation": relation,
                        "objects": [gold],
                        "gold_answers": [gold],
                    },
                )
            )
            for number, (text, _, _) in enumerate(patterns):
                paraphrases.append({**key, "paraphrase_id": number, "template": text, "paraphrase": text})
            for model in ("small", "large"):
                likes = str(rng.choice([gold, *OBJECTS]))
                own = {
                    n: likes if rng.uniform() < 0.5 else str(rng.choice(OBJECTS))
                    for n in range(len(patterns))
                }
                own = {
                    n: text for n, text in own.items() if n == 1 or relation == "P3" or rng.uniform() < 0.85
                }
                if relation == "P1" and own.get(5) == gold:
                    own[5] = OBJECTS[OBJECTS.index(gold) - 1]  # this pattern is right for no fact
                if not own:
                    continue
                facts[model, relation, key["question_id"]] = gold, own
                answers[model] += [
                    fill("candidate_answers", {
                        **key, "model": model, "method": "closed_book", "prompt": "cloze", "paraphrase_id": number,
                        "prediction": text, "is_correct": text == gold, "gold_rank": 1 if text == gold else 2,
                        "is_mismatch": number % 2 == 0 and text != gold,
                    })
                    for number, text in own.items()
                ]  # fmt: skip
    lake.write("questions", questions, fingerprint="cloze")
    lake.write("paraphrases", paraphrases, fingerprint="cloze")
    lake.write(
        "patterns",
        [
            {
                "dataset": "popqa", "relation": relation, "paraphrase_id": number, "pattern": text, "lemma": lemma,
                "extended_lemma": lemma, "tense": tense, "article": article_before_object(text), "ends_in_object": True,
                "changes": [change(relation, number, other) for other in range(len(patterns))],
            }
            for relation, patterns in PATTERNS.items()
            for number, (text, lemma, tense) in enumerate(patterns)
        ],
        fingerprint="cloze",
    )  # fmt: skip
    for model, rows in answers.items():
        lake.write("candidate_answers", rows, fingerprint="cloze", partition=f"{model}|closed_book")
    write_tuned_model(lake, answers["small"])
    return facts


def write_tuned_model(lake: Lake, answers: Iterable[Mapping[str, Any]]) -> None:
    """A checkpoint that predicts what a model does. A checkpoint of a setting that left the sweep does not count."""
    key = {"tuned_model": "b4", "step": 25}
    lake.write("sweep_settings", [fill("sweep_settings", key)], fingerprint="cloze")
    for name in ("b4", "gone"):
        own = {**key, "tuned_model": name}
        lake.write("tuned_models", [fill("tuned_models", own)], fingerprint="cloze", partition=name)
        rows = [
            fill("tuned_answers", {
                **own, "split": "judged", "relation": row["question_id"].partition("-")[0],
                **{name: row[name] for name in ("dataset", "question_id", "paraphrase_id", "prediction", "is_correct")},
            })
            for row in answers
        ]  # fmt: skip
        lake.write("tuned_answers", rows, fingerprint="cloze", partition=name)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterable[tuple[Study, dict[Fact, Any]]]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cloze")
        patch.setenv("LONGTAIL_HOME", str(folder / "home"))
        study = make_study(folder, UNANSWERED)
        facts = write_answers(make_lake(study.home.lake, UNANSWERED))
        tuned = "+fct_tuned_models"
        facts_of = (
            "+int_fact_measures +int_question_bins int_factual_consistency_intervals fct_factual_consistency"
        )
        published = "fct_factual_consistency_by_popularity fct_fact_agreement fct_pattern_effects"
        invoke_dbt(study, "run", "--select", *f"{tuned} {facts_of} {published}".split())
        yield study, facts


def fits(relation: str, number: int, gold: str) -> bool:
    text = PATTERNS[relation][number][0]
    starts_with_vowel = gold[0] in "aeiouAEIOUÉ"
    return not (" a [Y]" in text and starts_with_vowel) and not (" an [Y]" in text and not starts_with_vowel)


def entropy(share: float) -> float:
    return -sum(p * math.log2(p) for p in (share, 1 - share) if p > 0)


def terms(relation: str, gold: str, own: Mapping[int, str], majority: str) -> dict[str, tuple[float, float]]:
    """What a fact adds above and below the line of each measure, by its pairs one by one."""
    found: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    def add(measure: str, value: float, weight: float = 1) -> None:
        found[measure][0] += value
        found[measure][1] += weight

    fitting = {n: text for n, text in own.items() if fits(relation, n, gold)}
    is_known, is_known_at_all = gold in fitting.values(), gold in own.values()
    for one, other in permutations(fitting, 2):
        same = float(fitting[one] == fitting[other])
        add("consistency", same)
        add("consistency_known" if is_known else "consistency_unknown", same)
        add(f"consistency_{'known' if is_known_at_all else 'unknown'}_all_patterns", same)
        if kind := change(relation, one, other):
            add(f"consistency_{kind}", same)
        for place, kind in ((1, "lemma"), (2, "tense")):
            said = PATTERNS[relation][one][place], PATTERNS[relation][other][place]
            if None not in said:
                add(f"consistency_{'same' if said[0] == said[1] else 'other'}_{kind}", same)
    for one, text in fitting.items():
        others = [fitting[other] for other in fitting if other != one]
        if others:
            add("entropy", entropy(sum(other == text for other in others) / len(others)))
    for number, text in own.items():
        add("mismatch", number % 2 == 0 and text != gold)
    add("accuracy", own[min(own)] == gold)
    add("majority_accuracy", majority == gold)
    add("any_right_all_patterns", is_known_at_all)
    if fitting:
        add("any_right", is_known)
    if len(fitting) > 1:
        add("single_prediction", len(set(fitting.values())) == 1)
    if len(own) > 1:
        is_single = len(set(own.values())) == 1
        add("all_right", is_single and is_known_at_all)
        add("single_prediction_all_patterns", is_single)
        add("same_wrong", is_single and not is_known_at_all)
    return {measure: (above, below) for measure, (above, below) in found.items()}


def majorities(facts: Mapping[Fact, Any]) -> dict[str, str]:
    golds: dict[str, dict[str, str]] = defaultdict(dict)
    for (_, relation, question_id), (gold, _) in facts.items():
        golds[relation][question_id] = gold
    return {
        relation: min(sorted(set(own.values())), key=lambda one: -list(own.values()).count(one))
        for relation, own in golds.items()
    }


def summed(parts: Iterable[Mapping[str, tuple[float, float]]]) -> dict[str, tuple[float, int]]:
    """Value and number of facts of each measure."""
    rows = list(parts)
    names = {name for row in rows for name in row}
    return {
        name: (
            sum(row[name][0] for row in rows if name in row)
            / sum(row[name][1] for row in rows if name in row),
            sum(name in row for row in rows),
        )
        for name in names
    }


def right_patterns(
    facts: Mapping[Fact, Any], model: str, relation: str, *, only_fitting: bool
) -> tuple[float, int]:
    """The share of the relation's patterns that are right for some fact, and their number."""
    is_right: dict[int, bool] = defaultdict(bool)
    for (who, which, _), (gold, own) in facts.items():
        if (who, which) == (model, relation):
            for number, text in own.items():
                if not only_fitting or fits(relation, number, gold):
                    is_right[number] |= text == gold
    return sum(is_right.values()) / len(is_right), len(is_right)


def test_every_measure_equals_brute_force_over_pairs(built: tuple[Study, dict[Fact, Any]]) -> None:
    study, facts = built
    found = mart(study, "fct_factual_consistency").set_index(["model", "relation", "measure"])
    majority = majorities(facts)
    for model in ("small", "large"):
        by_relation = {
            relation: summed(
                terms(relation, gold, own, majority[relation])
                for (who, which, _), (gold, own) in facts.items()
                if (who, which) == (model, relation)
            )
            | {"pattern_any_right": right_patterns(facts, model, relation, only_fitting=True)}
            | {"pattern_any_right_all_patterns": right_patterns(facts, model, relation, only_fitting=False)}
            for relation in PATTERNS
        }
        assert by_relation["P1"]["pattern_any_right_all_patterns"] == (5 / 6, 6)
        differ = {
            (relation, name)
            for relation, own in by_relation.items()
            for name in ("single_prediction", "any_right", "consistency_known", "pattern_any_right")
            if own.get(name) != own.get(f"{name}_all_patterns")
        }
        assert len(differ) >= 3, "the rule of articles changes nothing here"
        kinds = {f"consistency_{kind}" for kind in CHANGES[:5]}
        assert kinds <= set(by_relation["P1"])
        assert not kinds & set(by_relation["P2"])
        assert {"consistency_other_tense", "consistency_same_lemma", "same_wrong"} <= set(by_relation["P1"])
        assert "consistency" not in by_relation["P3"]
        for measure in found.index.levels[2]:
            values = []
            for relation, expected in by_relation.items():
                row = found.loc[model, relation, measure]
                if measure in expected:
                    value, n_facts = expected[measure]
                    assert row.value == pytest.approx(value, abs=1e-9), (model, relation, measure)
                    assert row.n_facts == n_facts
                    values.append(value)
                else:
                    assert (math.isnan(row.value), row.n_facts) == (True, 0)
            everything = found.loc[model, "all", measure]
            assert everything.value == pytest.approx(np.mean(values), abs=1e-9)
            assert everything.n_relations == len(values)
    assert len(found) == 2 * 4 * 26


def test_intervals_hold_their_measure_and_bins_pool_the_linked_facts(
    built: tuple[Study, dict[Fact, Any]],
) -> None:
    study, facts = built
    found = mart(study, "fct_factual_consistency")
    known = found[found.ci_low.notna()]
    assert len(known) > 15  # from 20 subjects on
    assert ((known.ci_low <= known.value + 1e-9) & (known.value <= known.ci_high + 1e-9)).mean() > 0.95
    bins = mart(study, "fct_factual_consistency_by_popularity")
    in_bins = mart(study, "int_question_bins", "intermediate").query("relation == 'all'")
    assert 0 < len(in_bins) <= 18
    place = dict(zip(in_bins.question_id, in_bins.bin, strict=True))
    majority = majorities(facts)
    for number, of_bin in bins.groupby("bin"):
        for model, own in of_bin.set_index("measure").groupby("model"):
            expected = summed(
                terms(relation, gold, answers, majority[relation])
                for (who, relation, question_id), (gold, answers) in facts.items()
                if who == model and place.get(question_id) == number
            )
            for measure, (value, n_facts) in expected.items():
                assert own.loc[measure].value == pytest.approx(value, abs=1e-9)
                assert own.loc[measure].n_facts == n_facts


def test_facts_and_patterns_add_up_to_the_same_pairs(built: tuple[Study, dict[Fact, Any]]) -> None:
    study, facts = built
    of_facts, of_patterns = mart(study, "fct_fact_agreement"), mart(study, "fct_pattern_effects")
    for row in of_facts.itertuples():
        gold, own = facts[row.model, row.relation, row.question_id]
        fitting = [text for number, text in own.items() if fits(row.relation, number, gold)]
        pairs = [one == other for one, other in permutations(fitting, 2)]
        assert (row.n_pairs, row.n_equal, row.n_patterns) == (len(pairs), sum(pairs), len(own))
        assert (row.first_prediction, row.n_predictions) == (own[min(own)], len(set(own.values())))
    assert len(of_facts) == len(facts)
    by_relation = of_facts.groupby(["model", "relation"])[["n_pairs", "n_equal"]].sum()
    of_patterns["n_equal"] = (of_patterns.n_pairs * of_patterns.agreement.fillna(0)).round()
    again = of_patterns.groupby(["model", "relation"])[["n_pairs", "n_equal"]].sum()
    assert (by_relation == again).all(axis=None)
    assert len(of_patterns) == 2 * sum(map(len, PATTERNS.values()))
    for row in of_patterns.itertuples():
        errors, n = defaultdict(float), row.n_pairs
        for (model, relation, question_id), (gold, own) in facts.items():
            if (model, relation) == (row.model, row.relation) and row.paraphrase_id in own:
                fitting = [number for number in own if fits(relation, number, gold)]
                others = [number for number in fitting if number != row.paraphrase_id]
                if row.paraphrase_id in fitting and others:
                    equal = sum(own[number] == own[row.paraphrase_id] for number in others)
                    errors[question_id] = equal - row.agreement * len(others)
        m = len(errors)
        if m >= 5:
            error = math.sqrt(m / (m - 1) * sum(one**2 for one in errors.values())) / n
            half = float(t.ppf(0.975, m - 1)) * error
            ends = max(0, row.agreement - half), min(1, row.agreement + half)
            assert (row.agreement_low, row.agreement_high) == pytest.approx(ends, abs=1e-5 + 0.003 * half)
        else:
            assert math.isnan(row.agreement_low)


def test_a_checkpoint_has_the_measures_of_a_model_with_the_same_predictions(
    built: tuple[Study, dict[Fact, Any]],
) -> None:
    study, _ = built
    found = mart(study, "fct_tuned_models")
    assert set(found.tuned_model) == {"b4"}
    of_model = (
        mart(study, "fct_factual_consistency").query("model == 'small'").set_index(["relation", "measure"])
    )
    for row in found.itertuples():
        same = of_model.loc[row.relation, row.measure]
        assert row.value == pytest.approx(same.value, abs=1e-9, nan_ok=True)
        assert (row.n, row.n_facts, row.n_relations) == (same.n, same.n_facts, same.n_relations)
        assert math.isnan(row.ci_low) == math.isnan(same.ci_low)
        if not math.isnan(row.ci_low):
            assert row.ci_low <= row.value <= row.ci_high
    assert len(found) == 4 * 2


@pytest.mark.parametrize("name", ["consistent_and_wrong", "which_patterns_stand_apart"])
def test_the_ready_questions_find_something_and_say_of_what(
    built: tuple[Study, dict[Fact, Any]], name: str
) -> None:
    text = (PROJECT_ROOT / "dbt" / "analyses" / f"{name}.sql").read_text(encoding="utf-8")
    query = re.sub(r"\{\{ ref\('(\w+)'\) \}\}", r"marts.\1", text)
    with duckdb.connect(str(built[0].home.build_warehouse), read_only=True) as connection:
        found = connection.execute(query).df()
    own = {"question_id", "paraphrase_id", "measure", "relation"} & {*found.columns}
    assert len(found) > 0
    assert not found.duplicated([*KEY, *own]).any()
