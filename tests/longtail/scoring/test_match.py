"""The score of one answer: worked examples, properties, and independent second implementations."""

from __future__ import annotations

import dataclasses
import re
import string
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge import Rouge
from rouge_score.rouge_scorer import RougeScorer

from longtail.scoring import match
from longtail.tables import TABLES

ASSIGNED = st.text(st.characters(exclude_categories=["Cn"]), max_size=40)
"""Without unassigned characters, whose category differs between Unicode versions; with lone surrogates."""
WORDS = st.lists(
    st.sampled_from(["the", "a", "red", "Red", "blue,", "green", "é", "東京", "it's"]), max_size=7
)
PHRASES = WORDS.map(" ".join)
GOLDS = st.lists(st.one_of(st.text(max_size=8), PHRASES), max_size=4)


def test_scores_are_columns_of_the_answer_tables() -> None:
    names = {field.name for field in dataclasses.fields(match.Scores)}
    for table in ("answers", "paraphrase_answers"):
        assert names <= set(TABLES[table].schema.names)


@pytest.mark.parametrize(
    ("prediction", "golds", "is_correct", "case_sensitive", "normalized", "exact"),
    [
        ("Paris.", ["Paris"], True, True, True, True),
        ("paris", ["Paris"], True, False, True, True),
        ("Politician", ["politician"], True, False, True, True),
        ("Interpol", ["pol"], True, True, False, False),
        ("the Beatles", ["Beatles"], True, True, True, True),
        ("PARIS", ["Paris"], False, False, True, True),
        ("New york", ["new york"], True, False, True, True),
        ("New York", ["new york"], False, False, True, True),
        ("strasse", ["Straße"], False, False, False, False),
        ("", ["Paris"], False, False, False, False),
        ("anything", ["", "  "], False, False, None, None),
        ("the", ["The"], True, False, None, None),
        ("!!! is a band", ["!!!"], True, True, None, None),
        ("anything", [], False, False, None, None),
        ("born in New York City", ["New York"], True, True, True, False),
    ],
)
def test_worked_examples(
    prediction: str,
    golds: list[str],
    is_correct: bool,
    case_sensitive: bool,
    normalized: bool | None,
    exact: bool | None,
) -> None:
    scores = match.score_answer(prediction, golds)
    assert (
        scores.is_correct,
        scores.is_correct_case_sensitive,
        scores.is_correct_normalized,
        scores.is_exact_match,
    ) == (is_correct, case_sensitive, normalized, exact)


@pytest.mark.parametrize(
    ("prediction", "gold"),
    [
        ("Beyonc\u00e9", "Beyonce\u0301"), ("Beyonce\u0301", "Beyonc\u00e9"), ("Oslo", "\u200bOslo"),
        ("\ufeffRome", "Rome"), ("Ro\u00adme", "Rome"), ("e\u200b\u0301t\u00e9", "\u00e9te\u0301\u200e"),
        ("\u1112\u1161\u11ab", "\ud55c"), ("New\u2060 York", "New York"),
    ],
)  # fmt: skip
def test_forms_of_unicode_and_invisible_marks_make_no_difference(prediction: str, gold: str) -> None:
    scores = match.score_answer(prediction, [gold])
    assert dataclasses.astuple(scores) == (True, True, True, True, 1.0, 1.0)
    assert match.kilt_rouge_l(prediction, [gold]) == pytest.approx(1)
    assert match.rouge_l(prediction, [gold]) == match.token_f1(prediction, [gold]) == 1
    assert match.is_exact_match(prediction, [gold])
    assert match.hotpot_f1(prediction, [gold]) == 1
    assert match.has_answer(f"In {prediction}.", [gold])
    assert match.has_answer_popqa(f"In {prediction}.", [gold])
    assert not match.score_answer("Beyonce", ["Beyonc\u00e9"]).is_correct, (
        "an accent is no mark that nobody sees"
    )


def test_a_gold_answer_of_marks_that_nobody_sees_is_none() -> None:
    assert not match.score_answer("anything", ["\u200b", "\ufeff \u00ad"]).is_correct
    assert not match.has_answer("anything", ["\u200b"])


@given(ASSIGNED, GOLDS, st.sampled_from(["NFC", "NFD"]), st.sampled_from(["", "\u200b", "\ufeff"]))
def test_scores_are_those_of_composed_texts(prediction: str, golds: list[str], form: Any, mark: str) -> None:
    def other(text: str) -> str:
        return mark.join(["", *unicodedata.normalize(form, text), ""])

    assert match.score_answer(prediction, golds) == match.score_answer(other(prediction), golds)
    assert match.score_answer(prediction, golds) == match.score_answer(prediction, [*map(other, golds)])
    assert match.has_answer(prediction, golds) == match.has_answer(other(prediction), [*map(other, golds)])


def test_f_measures_by_hand() -> None:
    scores = [match.score_answer("a band", [gold]) for gold in ("!!!", "A", "The band")]
    assert [(one.token_f1, one.rouge_l) for one in scores] == [(None, None), (None, 2 / 3), (1.0, 0.5)]
    assert match.token_f1("the quick red fox", ["red fox", "nothing"]) == pytest.approx(0.8)
    assert match.rouge_l("fox red", ["red fox"]) == pytest.approx(0.5)
    assert match.token_f1("fox red", ["red fox"]) == 1.0
    assert match.rouge_l("a b c d", ["a c d e"]) == pytest.approx(0.75)
    assert match.rouge_l("é_東京", ["the 東京"]) == pytest.approx(0.5), "letters of any script are words"


@given(PHRASES, GOLDS)
def test_exact_match_is_the_strictest(prediction: str, golds: list[str]) -> None:
    scores = match.score_answer(prediction, golds)
    if scores.is_exact_match:
        assert scores.token_f1 == 1.0
        assert scores.is_correct_normalized
    if scores.is_correct_case_sensitive:
        assert scores.is_correct
    assert 0 <= (scores.token_f1 or 0) <= 1
    assert 0 <= (scores.rouge_l or 0) <= 1


@given(st.text(max_size=30), GOLDS, GOLDS)
def test_more_golds_never_lower_a_score(prediction: str, golds: list[str], more: list[str]) -> None:
    few = dataclasses.astuple(match.score_answer(prediction, golds))
    many = dataclasses.astuple(match.score_answer(prediction, [*golds, *more]))
    assert all(a is None or (b is not None and a <= b) for a, b in zip(few, many, strict=True))


@given(st.text(max_size=30), GOLDS, st.sampled_from(["", " ", "\n\t", "\u2003"]))
def test_an_empty_gold_changes_nothing(prediction: str, golds: list[str], empty: str) -> None:
    assert match.score_answer(prediction, golds) == match.score_answer(prediction, [empty, *golds])
    assert match.has_answer(prediction, golds) == match.has_answer(prediction, [empty, *golds])


SENTENCES = st.lists(
    st.sampled_from(["the", "red", "Red.", "blue,", "green.", "é", ".", "  "]), min_size=1, max_size=12
).map(" ".join)


@given(SENTENCES, st.lists(SENTENCES, max_size=3))
def test_kilts_rouge_l_against_the_package_that_kilt_calls(prediction: str, golds: list[str]) -> None:
    def of_package(gold: str) -> float:
        try:
            found: float = Rouge().get_scores(prediction, gold, avg=True)["rouge-l"]["f"]
        except ValueError:  # a text without a sentence: KILT counts 0
            return 0.0
        return found

    expected = max(map(of_package, golds), default=0.0)
    assert match.kilt_rouge_l(prediction, golds) == pytest.approx(expected, abs=1e-7)


def test_kilts_rouge_l_takes_texts_of_any_length() -> None:
    """The package itself recurses over both texts."""
    assert match.kilt_rouge_l("word " * 900, ["word other " * 300]) == pytest.approx(2 / 3, abs=1e-6)


@given(PHRASES, PHRASES)
def test_rouge_l_of_ascii_text_is_that_of_rouge_score(prediction: str, gold: str) -> None:
    left, right = (text.encode("ascii", "ignore").decode() for text in (prediction, gold))
    expected = RougeScorer(["rougeL"], use_stemmer=False).score(right, left)["rougeL"].fmeasure
    assert match.rouge_l(left, [right]) == pytest.approx(expected)


ANSWERS = st.one_of(PHRASES, st.sampled_from(["yes", "Yes.", "no", "the no", "noanswer", "yes it is", "a!"]))


@given(ANSWERS, ANSWERS)
def test_exact_match_and_f1_against_hotpotqas_own_rules(prediction: str, gold: str) -> None:
    """The published evaluation, written anew (hotpot_evaluate_v1.py); without words left, nothing is right here."""

    def words(text: str) -> list[str]:
        bare = "".join(char for char in text.lower() if char not in string.punctuation)
        return [word for word in re.sub(r"\b(a|an|the)\b", " ", bare).split()]

    own, right = words(prediction), words(gold)
    whole = {"yes", "no", "noanswer"}
    left = list(right)
    common = 0
    for word in own:
        if word in left:
            left.remove(word)
            common += 1
    differ = own != right and (" ".join(own) in whole or " ".join(right) in whole)
    expected = 0.0
    if common and not differ:
        precision, recall = common / len(own), common / len(right)
        expected = 2 * precision * recall / (precision + recall)
    assert match.hotpot_f1(prediction, [gold]) == pytest.approx(expected)
    assert match.is_exact_match(prediction, [gold]) == (own == right and right != [])
    assert match.hotpot_f1(prediction, [gold, "red fox"]) >= match.hotpot_f1(prediction, [gold])


@given(ASSIGNED, st.lists(ASSIGNED, max_size=3))
def test_has_answer_against_a_scanner(passage: str, golds: list[str]) -> None:
    def tokens(text: str) -> list[str]:
        found: list[str] = []
        in_word = False
        for char in unicodedata.normalize("NFD", text):
            category = unicodedata.category(char)
            if category[0] in "LNM":
                if in_word:
                    found[-1] += char
                else:
                    found.append(char)
                in_word = True
            else:
                in_word = False
                if category[0] not in "ZC":
                    found.append(char)
        return [token.lower() for token in found]

    text = tokens(passage)
    expected = any(
        text[i : i + len(gold)] == gold
        for gold in map(tokens, golds)
        if gold
        for i in range(len(text) - len(gold) + 1)
    )
    assert match.has_answer(passage, golds) == expected


@given(st.text(max_size=20), st.text(max_size=20))
def test_popqa_rule_finds_an_inserted_answer(before: str, gold: str) -> None:
    assert match.matches_popqa(f"{before}{gold}!", [gold]) == bool(gold.strip())
