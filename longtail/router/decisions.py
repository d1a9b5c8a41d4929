"""Whether to retrieve for a question: the rules of one router file, read once and asked many times.

All answers of a router are made when its file is read, so that a decision only chooses one of them. It needs the
standard library alone.

A file begins with a JSON object whose first fields are `format`, `version` and `sha256`. The checksum is the SHA-256 of
the whole file with 64 zeros in place of the checksum's own digits, so that any language can compute it.

The file of names has the popularity of entities by their names, and is searched by halving. Its first line is its head.
Each further line is a folded name, a tab, and its candidates as JSON, in the order of the names' bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any

from longtail.errors import RouterError

_ZEROS = b"0" * 64
_AGAIN = "the next run of the study publishes it again"
_BEGINNING = re.compile(
    rb'\{\s*"format": "([a-z-]{1,40})",\s*"version": (\d{1,9}),\s*"sha256": "([0-9a-f]{64})"'
)


def seal(
    format_name: str, version: int, fields: Mapping[str, Any], body: bytes = b"", indent: int | None = None
) -> bytes:
    """A file: one JSON object with `fields`, a line break, and `body`. Errors: `ValueError` for NaN and infinity."""
    head = {"format": format_name, "version": version, "sha256": _ZEROS.decode(), **fields}
    unsealed = json.dumps(head, ensure_ascii=False, allow_nan=False, indent=indent).encode() + b"\n" + body
    return unsealed.replace(_ZEROS, hashlib.sha256(unsealed).hexdigest().encode(), 1)


def read_sealed(path: Path, format_name: str, version: int) -> bytes:
    """The whole file, once its format, its version and its checksum are right.

    It is read and not mapped: whoever cuts a mapped file in place would kill the process that reads it.
    Errors: `RouterError`, with the file's name and what is wrong in one line.
    """
    # A FIFO would keep the reader waiting, and a device may never end.
    if path.exists() and not path.is_file():
        raise RouterError(f"{path}: is not a regular file; {_AGAIN}")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RouterError(f"{path}: cannot be read ({error.strerror or error})") from error
    match = _BEGINNING.match(content)
    if match is None or match[1].decode() != format_name:
        raise RouterError(f"{path}: is not a file of format {format_name}")
    if int(match[2]) != version:
        raise RouterError(
            f"{path}: has version {int(match[2])} of format {format_name}; this program reads version {version}"
        )
    start, end = match.span(3)
    digest = hashlib.sha256(content[:start] + _ZEROS)
    digest.update(memoryview(content)[end:])
    if digest.hexdigest().encode() != match[3]:
        raise RouterError(f"{path}: checksum mismatch: the file was cut or changed; {_AGAIN}")
    return content


NAMES_FORMAT, NAMES_VERSION = "longtail-names", 1


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity that a name may mean. `popularity` is None if it is unknown, which is not zero."""

    entity_id: str
    label: str
    description: str | None
    popularity: float | None


class Names:
    """An opened file of names. `head` has its first line: the publication and the measure of popularity."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._start = content.index(b"\n") + 1
        self.head: Mapping[str, Any] = json.loads(content[: self._start])

    def __len__(self) -> int:
        return int(self.head["n_names"])

    def lookup(self, name: str) -> tuple[Candidate, ...]:
        """The entities with this label or alias, the most popular first; letter case and repeated spaces do not count.

        No candidate: no entity has the name. Several: the name is ambiguous, and the caller chooses.
        """
        wanted = fold(name).encode("utf-8", "surrogatepass")
        low, high = self._start, len(self._content)
        while low < high:  # both are beginnings of lines, or the end
            begin = self._content.rfind(b"\n", low, (low + high) // 2) + 1 or low
            end = self._content.index(b"\n", begin)
            here, _, candidates = self._content[begin:end].partition(b"\t")
            if here == wanted:
                return tuple(Candidate(*values) for values in json.loads(candidates))
            low, high = (end + 1, high) if here < wanted else (low, begin)
        return ()


def load_names(path: str | Path) -> Names:
    """The names of a published file. Errors: `RouterError` if it is missing, cut, changed or of another version."""
    return Names(read_sealed(Path(path), NAMES_FORMAT, NAMES_VERSION))


def names_file(
    entities: Iterable[tuple[Candidate, Iterable[str]]], about: Mapping[str, Any]
) -> tuple[bytes, int]:
    """The contents of a file of names, and the number of names. `entities`: each with its aliases; its label is a name,
    too. `about` joins the head. All names are held in memory. The most popular candidate comes first, an unknown
    popularity last."""
    by_name: dict[str, set[Candidate]] = {}
    for candidate, aliases in entities:
        for text in filter(None, map(fold, (candidate.label, *aliases))):
            by_name.setdefault(text, set()).add(candidate)
    lines = []
    for name in sorted(by_name, key=str.encode):
        ordered = sorted(
            by_name[name],
            key=lambda entity: (entity.popularity is None, -(entity.popularity or 0), entity.entity_id),
        )
        values = [
            [entity.entity_id, entity.label, entity.description, entity.popularity] for entity in ordered
        ]
        lines.append(f"{name}\t{json.dumps(values, ensure_ascii=False)}\n")
    body = "".join(lines).encode()
    return seal(NAMES_FORMAT, NAMES_VERSION, {**about, "n_names": len(by_name)}, body), len(by_name)


def fold(name: str) -> str:
    """A name without letter case, composed (NFC), with single spaces: two spellings of one name become equal."""
    caseless = unicodedata.normalize("NFD", name).casefold()
    return " ".join(unicodedata.normalize("NFC", caseless).split())


POPULARITY, CONFIDENCE = "popularity", "confidence"
CONSISTENCY, CERTAINTY = "consistency", "certainty"
FORMAT, VERSION = "longtail-router", 4
SIGNALS = (POPULARITY, CONFIDENCE, "popularity_relation", "popularity_confidence", "consistency", "all")
"""What a router decides by: popularity or confidence itself, or a predicted probability. Another signal is refused."""
FEATURES = ("popularity", "relation")
ALL = "all"
"""The rule for a question without a relation, or with one that the router was not fitted on."""
ANSWER, RETRIEVE, ABSTAIN = "answer", "retrieve", "abstain"
LEAST_CONFIDENCE = 1e-30
"""A confidence below it has this one's logarithm, as in the fit."""
DECIMALS = 9
"""Probabilities are rounded so far before they are compared, as in the fit."""


@dataclass(frozen=True, slots=True)
class _PredictedRule:
    """The logit is `intercept` plus `slopes` times popularity, consistency, certainty and confidence; None: not needed.

    A probability (or a confidence that is the signal itself) below `threshold` gets `below`.
    """

    intercept: float
    slopes: tuple[float | None, ...]
    threshold: float
    below: Decision
    above: Decision


@dataclass(frozen=True, slots=True)
class _Prediction:
    """A signal beside popularity. `predictors`: popularity, consistency, certainty, confidence, as far as needed.

    Of popularity and confidence the logarithms count. `is_confidence`: the signal is confidence itself.
    """

    predictors: tuple[str, ...]
    is_confidence: bool
    _rules: Mapping[str | None, _PredictedRule]
    _unknown: _PredictedRule

    def decide(
        self,
        popularity: float | None,
        relation: str | None,
        consistency: float | None,
        certainty: float | None,
        confidence: float | None,
    ) -> Decision | None:
        """The decision, or None if a predictor is unknown; popularity 0 has no logarithm."""
        rule = self._rules.get(relation, self._unknown)
        if self.is_confidence:
            if confidence is None:
                return None
            return rule.below if confidence < rule.threshold else rule.above
        values = (
            math.log(popularity) if popularity else None,
            consistency,
            certainty,
            None if confidence is None else math.log(max(confidence, LEAST_CONFIDENCE)),
        )
        logit = rule.intercept
        for value, slope in zip(values, rule.slopes, strict=True):
            if slope is None:
                continue
            if value is None:
                return None
            logit += slope * value
        probability = round(0.5 * (1 + math.tanh(logit / 2)), DECIMALS)
        return rule.below if probability < rule.threshold else rule.above


def _prediction(document: Mapping[str, Any], is_confidence: bool) -> _Prediction:
    """The prediction of a router file's field of that name."""
    what = (
        "confidence is" if is_confidence else "the probability that the answer is right without retrieval is"
    )
    rules: dict[str | None, _PredictedRule] = {
        relation: _prediction_rule(document, rule, what, f"relation {relation}")
        for relation, rule in document["rules"].items()
    }
    of_all = document["rules"]["all"]
    rules["all"] = rules[None] = _prediction_rule(document, of_all, what, "all relations")
    unknown = _prediction_rule(document, of_all, what, "all relations (this one is unknown)")
    return _Prediction(tuple(document["predictors"]), is_confidence, rules, unknown)


def _prediction_rule(
    document: Mapping[str, Any], rule: Mapping[str, Any], what: str, where: str
) -> _PredictedRule:
    """Standardisation goes into the coefficients, so that a decision only multiplies and adds."""
    intercept, *slopes = rule["coefficients"]
    scales = list(zip(slopes, document["means"], document["deviations"], strict=True))
    intercept -= sum(slope * mean / deviation for slope, mean, deviation in scales)
    by_name = {
        name: slope / deviation
        for name, (slope, _, deviation) in zip(document["predictors"], scales, strict=True)
    }
    threshold = rule.get("threshold_probability", math.inf)
    named = f"{threshold:.4g}, the threshold for {where}"
    below = f"{what} below {named}" if threshold < math.inf else f"always retrieve for {where}"
    return _PredictedRule(
        intercept,
        tuple(by_name.get(name) for name in (POPULARITY, CONSISTENCY, CERTAINTY, CONFIDENCE)),
        threshold,
        _decision(True, rule["below"], below),
        _decision(False, rule["above"], f"{what} not below {named}"),
    )


Promises = Mapping[str, Sequence[tuple[float, float, int]]]
"""By signal, from strict to lax: promised risk, threshold (above it is answered), questions of the study above it."""


def outcome(
    promises: Promises, greatest_risk: float, popularity: float | None, confidence: float | None,
    passage_confidence: float | None,
) -> tuple[str, int, str]:  # fmt: skip
    """What to do, how many of the study's questions the threshold answers, and why (SPEC §11).

    With confidence, memory's answer is given if its confidence is above the threshold, else the passage's answer if that
    one's is. With popularity alone, memory's answer is given if popularity is above the threshold.
    """
    signal, value = (POPULARITY, popularity) if confidence is None else (CONFIDENCE, confidence)
    if value is None:
        return ABSTAIN, 0, "confidence and popularity are unknown, so no risk can be promised"
    steps = [step for step in promises[signal] if step[0] <= greatest_risk]
    if not steps:
        return (
            ABSTAIN,
            0,
            f"no threshold on {signal} promises that at most {greatest_risk:.4g} of the answers are wrong",
        )
    _, threshold, n = steps[-1]
    promise = f"which promises that at most {greatest_risk:.4g} of the answers are wrong"
    if threshold == -math.inf:
        return ANSWER, n, f"every question is answered from memory, {promise}"
    named = f"{threshold:,.6g}, {promise}"
    if value > threshold:
        return ANSWER, n, f"{signal} is above {named}"
    if signal == POPULARITY:
        return ABSTAIN, n, f"popularity is not above {named}; what it says of a passage's answer is not known"
    if passage_confidence is None:
        then = "retrieve, and give that answer if passage_confidence is above the threshold"
        return RETRIEVE, n, f"confidence is not above {named}; {then}"
    if passage_confidence > threshold:
        return RETRIEVE, n, f"passage_confidence is above {named}"
    return ABSTAIN, n, f"neither confidence nor passage_confidence is above {named}"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether to put a passage before the question, and what is expected.

    `accuracy_with` and `accuracy_without` (retrieval): the shares of right answers among the `n` questions of the study
    for which the decision is the same; None if there are none. They are in-sample: these questions made the rule.
    `abstain`: give no answer. With a greatest risk both shares are None, and its threshold answers `n` questions.
    """

    retrieve: bool
    accuracy_with: float | None
    accuracy_without: float | None
    n: int
    why: str
    abstain: bool = False


@dataclass(frozen=True, slots=True)
class _Rule:
    """The three answers for one relation; a popularity below `threshold` gets `below`."""

    threshold: float
    below: Decision
    above: Decision
    missing: Decision


@dataclass(frozen=True)
class Router:
    """One router file. `document` is the file's JSON object.

    `signal`: popularity, or the other signal that decides. `policy`: per_relation, all (one threshold for all
    relations), always or never; beside a prediction, what decides by popularity if a feature is unknown. `features`:
    what `decide` makes use of. `relations`: those that have a rule of their own.
    """

    name: str
    signal: str
    policy: str
    why: str
    features: tuple[str, ...]
    relations: tuple[str, ...]
    document: Mapping[str, Any] = field(repr=False)
    _rules: Mapping[str | None, _Rule] = field(repr=False)
    _unknown: _Rule = field(repr=False)
    _prediction: _Prediction | None = field(repr=False)
    _promises: Promises = field(repr=False)

    def decide(
        self,
        popularity: float | None = None,
        relation: str | None = None,
        consistency: float | None = None,
        certainty: float | None = None,
        confidence: float | None = None,
        passage_confidence: float | None = None,
        greatest_risk: float | None = None,
    ) -> Decision:
        """The decision for a question of this popularity (None: unknown) and relation (None: none).

        `popularity` has the unit of the study's questions (`fitted_on.popularity` of the file). `consistency` and
        `certainty`: mean cosines of the answers to its paraphrases and of its samples. `confidence`: the geometric mean
        of the token probabilities of the model's own answer. A router by popularity ignores all three.
        With `greatest_risk`, a share of wrong answers, the thresholds that promise it decide instead: answer, retrieve or
        abstain. `passage_confidence`: of the answer with the passage, once there is one.
        Without a feature of another signal, popularity decides; without popularity, the fixed method that was better in
        the study. Errors: `RouterError` for a negative popularity, NaN, infinity, what is no number, a relation that is
        no text, and what is no cosine or no probability.
        """
        if popularity is not None and not (
            (type(popularity) is float or _is_number(popularity)) and 0 <= popularity < math.inf
        ):
            raise RouterError(
                f"popularity must be a number of at least 0, or None if unknown; it is {popularity!r}"
            )
        if relation is not None and not isinstance(relation, str):
            raise RouterError(f"relation must be a text, or None if there is none; it is {relation!r}")
        if consistency is not None:
            _check_range(CONSISTENCY, consistency, -1, "mean cosine")
        if certainty is not None:
            _check_range(CERTAINTY, certainty, -1, "mean cosine")
        if confidence is not None:
            _check_range(CONFIDENCE, confidence, 0, "probability")
        if passage_confidence is not None:
            _check_range("passage_confidence", passage_confidence, 0, "probability")
        if greatest_risk is not None:
            if not (_is_number(greatest_risk) and 0 < greatest_risk < 1):
                raise RouterError(
                    f"greatest_risk must be a share above 0 and below 1; it is {greatest_risk!r}"
                )
            given = (popularity, confidence, passage_confidence)
            what, n, why = outcome(self._promises, greatest_risk, *given)
            return Decision(what == RETRIEVE, None, None, n, why, what == ABSTAIN)
        if self._prediction is not None:
            predicted = self._prediction.decide(popularity, relation, consistency, certainty, confidence)
            if predicted is not None:
                return predicted
        rule = self._rules.get(relation, self._unknown)
        if popularity is None:
            return rule.missing
        return rule.below if popularity < rule.threshold else rule.above


def load_router(path: str | Path) -> Router:
    """The router of a published file.

    Errors: `RouterError` if the file is missing, cut, changed, of another version, or decides by an unknown signal.
    """
    path = Path(path)
    content = read_sealed(path, FORMAT, VERSION)
    document = json.loads(content)
    if document["signal"] not in SIGNALS:
        raise RouterError(
            f"{path}: decides by {document['signal']!r}; this program decides by {', '.join(SIGNALS)}"
        )
    return _router(path.stem, document)


def _router(name: str, document: Mapping[str, Any]) -> Router:
    fixed, signal = document["fixed"] == "always", document["signal"]
    is_confidence = signal == CONFIDENCE
    prediction = _prediction(document["prediction"], is_confidence) if signal != POPULARITY else None
    needed = prediction.predictors if prediction else ()
    instead = f"not predicted, which needs {', '.join(needed)}: " if needed else ""
    if is_confidence:
        instead = "confidence is unknown: "
    rules: dict[str | None, _Rule] = {
        relation: _rule(rule, fixed, f"relation {relation}", instead)
        for relation, rule in document["rules"].items()
    }
    of_all = document["rules"][ALL]
    rules[ALL] = rules[None] = _rule(of_all, fixed, "all relations", instead)
    return Router(
        name=name,
        signal=signal,
        policy=document["policy"],
        why=document["why"],
        features=tuple(document["features"]),
        relations=tuple(relation for relation in document["rules"] if relation != ALL),
        document=document,
        _rules=rules,
        _unknown=_rule(of_all, fixed, "all relations (this one is unknown)", instead),
        _prediction=prediction,
        _promises={
            name: [
                (
                    step["promised_risk"],
                    -math.inf if step["threshold"] is None else step["threshold"],
                    step["n_answered"],
                )
                for step in document["promises"].get(name, ())
            ]
            for name in (CONFIDENCE, POPULARITY)
        },
    )


def _rule(rule: Mapping[str, Any], fixed: bool, where: str, instead: str) -> _Rule:
    """`fixed`: whether to retrieve without a popularity. `instead`: why no prediction decides, if one could."""
    better = "always" if fixed else "never"
    missing = _decision(
        fixed,
        rule["overall"],
        f"{instead}popularity is unknown: the better fixed method is to {better} retrieve",
    )
    if "threshold_popularity" not in rule:
        # No popularity is below 0, and every popularity is below infinity.
        is_always = rule["decision"] == "always"
        only = _decision(is_always, rule["overall"], f"{instead}{rule['decision']} retrieve for {where}")
        return _Rule(math.inf if is_always else 0.0, only, only, missing)
    threshold = rule["threshold_popularity"]
    named = f"{threshold:,.10g}, the threshold for {where}"
    return _Rule(
        threshold,
        _decision(True, rule["below"], f"{instead}popularity is below {named}"),
        _decision(False, rule["above"], f"{instead}popularity is not below {named}"),
        missing,
    )


def _decision(retrieve: bool, counted: Mapping[str, Any], why: str) -> Decision:
    return Decision(retrieve, counted["accuracy_with"], counted["accuracy_without"], counted["n"], why)


def _check_range(name: str, value: Any, least: int, kind: str) -> None:
    if not (_is_number(value) and least <= value <= 1):
        raise RouterError(
            f"{name} must be a {kind} between {least} and 1, or None if unknown; it is {value!r}"
        )


def _is_number(value: Any) -> bool:
    """Also of numpy; `True` is none."""
    return type(value) in (float, int) or (isinstance(value, Real) and not isinstance(value, bool))
