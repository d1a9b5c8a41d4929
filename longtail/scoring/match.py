"""Whether one answer is right, and whether one passage contains an answer: SPEC §5 and §4.

Every rule compares texts in Unicode's NFC without invisible marks (`comparable`); DPR's then decomposes them. Empty gold
answers (also those of white space only) are dropped before any rule. If a rule's own normalisation makes a gold answer
empty ("The", "!!!"), only that rule drops it. ROUGE-L
compares these tokens, which are our choice: runs of letters, marks and digits, lower-cased, unstemmed (for ASCII text
the same as in Google's `rouge_score`).
"""

from __future__ import annotations

import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import regex

_INVISIBLE = regex.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
"""Soft hyphens, spaces and joiners without width, marks of direction; the same signs as in dbt's macro `comparable`."""
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLE = regex.compile(r"\b(?:a|an|the)\b")
_WHOLE_ANSWERS = frozenset({"yes", "no", "noanswer"})
_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+")
_DPR_TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]")


@dataclass(frozen=True)
class Scores:
    """One answer's scores; the names are the columns of lake tables `answers` and `paraphrase_answers`.

    None where a variant has no gold answer left. The first two rules have one: a question without any is put aside.
    """

    is_correct: bool
    is_correct_case_sensitive: bool
    is_correct_normalized: bool | None
    is_exact_match: bool | None
    token_f1: float | None
    rouge_l: float | None


def score_answer(prediction: str, golds: Sequence[str]) -> Scores:
    """Score a prediction in every variant of SPEC §5; F-measures, in [0, 1], are maxima over the gold answers."""
    golds_left, prediction = _drop_empty(golds), comparable(prediction)
    predicted, texts = normalize(prediction), [*_normalize_each(golds_left)]
    return Scores(
        is_correct=matches_popqa(prediction, golds_left),
        is_correct_case_sensitive=any(gold in prediction for gold in golds_left),
        is_correct_normalized=any(f" {text} " in f" {predicted} " for text in texts) if texts else None,
        is_exact_match=predicted in texts if texts else None,
        token_f1=_token_f1(predicted, texts) if texts else None,
        rouge_l=rouge_l(prediction, golds_left) if any(map(_WORD.search, golds_left)) else None,
    )


def matches_popqa(prediction: str, golds: Sequence[str]) -> bool:
    """PopQA's rule: a gold answer (as written, lower-cased or capitalised) is a substring of the prediction."""
    prediction = comparable(prediction)
    return any(
        gold in prediction or gold.lower() in prediction or gold.capitalize() in prediction
        for gold in _drop_empty(golds)
    )


def is_exact_match(prediction: str, golds: Sequence[str]) -> bool:
    """The prediction equals a gold answer; both are SQuAD-normalised."""
    return normalize(prediction) in _normalize_each(golds)


def token_f1(prediction: str, golds: Sequence[str]) -> float:
    """F1 of the bags of SQuAD-normalised words, maximum over the gold answers."""
    return _token_f1(normalize(prediction), _normalize_each(golds))


def hotpot_f1(prediction: str, golds: Sequence[str]) -> float:
    """`token_f1` by HotpotQA's rule: where either text is `yes`, `no` or `noanswer`, only equal texts count."""
    predicted = normalize(prediction)
    comparable = [
        gold
        for gold in golds
        if (text := normalize(gold)) == predicted or not {predicted, text} & _WHOLE_ANSWERS
    ]
    return token_f1(prediction, comparable)


def rouge_l(prediction: str, golds: Sequence[str]) -> float:
    """F-measure (beta 1) of the longest common subsequence of words (Lin, 2004), maximum over the gold answers."""
    words = _WORD.findall(comparable(prediction).lower())
    of_golds = (_WORD.findall(comparable(gold).lower()) for gold in golds)
    return _best(words, of_golds, lambda *texts: _common_lengths(*texts)[-1][-1])


def kilt_rouge_l(prediction: str, golds: Sequence[str]) -> float:
    """KILT's ROUGE-L, maximum over the gold answers: that of package `rouge` 1.0.1, which splits texts at full stops and
    words at spaces. It compares sets: the words on a longest common subsequence of any two sentences with those of each
    text; case and punctuation count."""
    sentences = _sentences(comparable(prediction))
    return max((_rouge_of_sentences(sentences, _sentences(comparable(gold))) for gold in golds), default=0.0)


def comparable(text: str) -> str:
    """The text in which every rule compares: Unicode's NFC, without invisible marks. What is stored stays as it is."""
    return text if text.isascii() else unicodedata.normalize("NFC", _INVISIBLE.sub("", text))


def normalize(text: str) -> str:
    """SQuAD's normalisation: lower case, no ASCII punctuation, no English article, single spaces."""
    return " ".join(_ARTICLE.sub(" ", comparable(text).lower().translate(_PUNCTUATION)).split())


def has_answer(passage_text: str, golds: Sequence[str]) -> bool:
    """DPR's rule: a gold answer occurs in the passage as a sequence of tokens, in NFD and lower-cased.

    The passage is the complete text without its title (SPEC §4).
    """
    padded = f" {dpr_tokens(passage_text)} "
    return any(f" {tokens} " in padded for gold in golds if (tokens := dpr_tokens(gold)))


def has_answer_popqa(passage_text: str, golds: Sequence[str]) -> bool:
    """PopQA's substring rule, applied to the passage in place of a prediction."""
    return matches_popqa(passage_text, golds)


def dpr_tokens(text: str) -> str:
    """The words and signs of a text by DPR's rule, lower-cased and joined by spaces; none contains a space."""
    if not text.isascii():
        text = unicodedata.normalize("NFD", _INVISIBLE.sub("", text))
    return " ".join(_DPR_TOKEN.findall(text)).lower()


def _drop_empty(golds: Sequence[str]) -> list[str]:
    """The gold answers as they are compared, without those of which nothing is left."""
    return [text for gold in golds if (text := comparable(gold)).strip()]


def _normalize_each(golds: Sequence[str]) -> Iterator[str]:
    return (text for gold in golds if (text := normalize(gold)))


def _token_f1(predicted: str, golds: Iterable[str]) -> float:
    return _best(
        predicted.split(),
        (gold.split() for gold in golds),
        lambda *bags: (Counter(bags[0]) & Counter(bags[1])).total(),
    )


def _best(
    predicted: list[str], golds: Iterator[list[str]], overlap: Callable[[list[str], list[str]], int]
) -> float:
    """The largest F1 of an overlap; gold answers without a token are dropped."""
    best = 0.0
    for gold in golds:
        if gold and predicted:
            best = max(best, 2 * overlap(predicted, gold) / (len(predicted) + len(gold)))
    return best


def _sentences(text: str) -> list[list[str]]:
    return [" ".join(part.split()).split(" ") for part in text.split(".") if part]


def _rouge_of_sentences(predicted: list[list[str]], gold: list[list[str]]) -> float:
    common: set[str] = set().union(*(_common_words(right, left) for right in gold for left in predicted))
    if not common:
        return 0.0
    recall, precision = (len(common) / len(set().union(*text)) for text in (gold, predicted))
    return 2 * precision * recall / (precision + recall + 1e-8)


def _common_words(left: list[str], right: list[str]) -> set[str]:
    """The words of the longest common subsequence that the package finds: from the end, ties go left in `right`."""
    lengths = _common_lengths(left, right)
    words, at, i = set(), len(left), len(right)
    while at and i:
        if left[at - 1] == right[i - 1]:
            words.add(left[at - 1])
            at, i = at - 1, i - 1
        elif lengths[at - 1][i] > lengths[at][i - 1]:
            at -= 1
        else:
            i -= 1
    return words


def _common_lengths(left: list[str], right: list[str]) -> list[list[int]]:
    """The length of the longest common subsequence of each pair of beginnings: (words of `left` + 1, of `right` + 1)."""
    lengths = [[0] * (len(right) + 1)]
    for word in left:
        row = [0]
        for i, other in enumerate(right):
            row.append(lengths[-1][i] + 1 if word == other else max(lengths[-1][i + 1], row[i]))
        lengths.append(row)
    return lengths
