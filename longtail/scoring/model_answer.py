"""What came back from a model: an answer, a declined one, or none (SPEC §12), how sure the model was of it (SPEC §11),
and its sentences (SPEC §3).

Failed: no text came back, so there is no row in any rate (`NoAnswerError`, counted by its reason). Declined: the model
or its service refused, or the model said that it does not know. Reasoning is no part of an answer.

A sentence ends with `.`, `!`, `?` or `…` if white space without a following lower-case letter comes next, or the end
of the text. Several such marks count as one; closing quotes and brackets belong to the sentence. A single full stop
does not end a sentence after a title or abbreviation that needs a name (`St.`, `Dr.`) or a number (`No.`). After an
initial or dotted letters (`J.`, `U.S.`), and after abbreviations that may end a sentence (`Jr.`, `Inc.`), it ends one
only before a word that opens sentences (`He`, `The`). A text without letters is not a sentence: `1. Paris` continues.
"""

from __future__ import annotations

import codecs
import itertools
import math
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

THINKING_CUT = "cut while thinking"
NO_TEXT = "no text came back"
LIMIT_BEFORE_TEXT = "the limit of new tokens was reached before the answer began"

_AT_LIMIT = frozenset({"length", "max_tokens", "max_output_tokens", "model_length"})
_DECLINED = frozenset({"content_filter", "refusal", "safety", "blocklist", "prohibited_content", "spii"})
"""Finish reasons by which services say that they, or the model, refused."""
_ENDED = frozenset({"", "stop", "eos", "end_turn", "completed"})
"""Finish reasons that need not be named where no text came back."""
_TAGS = "think|thinking|thought|reasoning|seed:think"
_MARKS = (
    (rf"<(?P<tag>{_TAGS})>", r"</(?P=tag)>", rf"</(?:{_TAGS})>"),
    (r"\[THINK\]", r"\[/THINK\]", r"\[/THINK\]"),
    ("◁think▷", "◁/think▷", "◁/think▷"),
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>", r"<\|END_THINKING\|>"),
    (r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>", r"<\|end_of_thought\|>"),
    (r"<\|channel\|>(?:analysis|commentary)[^<]*<\|message\|>", r"<\|end\|>", None),
)
"""How thoughts begin and end, and which end stands alone where a chat template has written the beginning."""
_THINKING = re.compile(
    "|".join(rf"{begin}.*?(?:{end}|(?P<cut_{i}>\Z))" for i, (begin, end, _) in enumerate(_MARKS)),
    re.DOTALL | re.IGNORECASE,
)
_LONE_END = re.compile(rf"\A.*(?:{'|'.join(end for *_, end in _MARKS if end)})", re.DOTALL | re.IGNORECASE)
_AROUND_ANSWER = re.compile(
    r"(?:<\|start\|>assistant)?<\|channel\|>final(?: <\|constrain\|>\w+)?<\|message\|>|<\|return\|>"
    r"|<\|(?:START|END)_RESPONSE\|>|<\|(?:begin|end)_of_solution\|>"
)
_PARTS = {
    "text": "text", "output_text": "text", "refusal": "refusal", "thinking": "reasoning", "reasoning": "reasoning",
    "reasoning_text": "reasoning", "summary_text": "reasoning",
}  # fmt: skip
"""Kind of a part of a message → what it holds; parts of other kinds (pictures, calls of tools) are no text."""
_IN_ONE = ("message", "generated_text")
"""Keys of an object whose value is the answer: a choice of OpenAI's APIs, what a pipeline of transformers returns."""
_END_MARKS = " \t\r\n.!?…。！？'\"“”‘’"


class NoAnswerError(Exception):
    """A request has no answer. The text is the reason, in words that rows of the same kind share."""


@dataclass(frozen=True)
class ModelAnswer:
    """The text of an answer, the model's reasoning that came with it ("" without one), and whether it declined."""

    text: str
    reasoning: str = ""
    is_declined: bool = False


def read_answer_text(
    text: object,
    *,
    finish_reason: str | None = None,
    refusal: str | None = None,
    reasoning: str | None = None,
) -> ModelAnswer:
    """The answer in what a model or its service gave, with the fields of OpenAI's APIs.

    `text`: what was written, None or NaN where nothing was; a list of one text is that text, of a conversation the
    model's last message counts, and the parts of a message (objects with `type`) are its text, refusal and reasoning.
    `reasoning`: the text of a field apart. Errors: `NoAnswerError` with the reason where there is no answer; `ValueError`
    where `text` is no text.
    """
    given, parts = _join(text)
    refusal = refusal or parts.get("refusal")
    apart = "\n".join(filter(None, (reasoning, parts.get("reasoning"))))
    finish = (
        (finish_reason or "").rpartition(".")[2].casefold()
    )  # Gemini's package prints FinishReason.MAX_TOKENS
    is_declined = finish in _DECLINED or bool(refusal and not (given or "").strip())
    try:
        written, inner = split_reasoning(given or "")
    except NoAnswerError:
        if not is_declined:
            raise
        written, inner = "", given or ""
    thoughts = "\n".join(filter(None, (apart, inner)))
    if is_declined:
        return ModelAnswer(written if written.strip() else refusal or "", thoughts, is_declined=True)
    if finish in _AT_LIMIT and not written.strip():
        raise NoAnswerError(THINKING_CUT if apart else LIMIT_BEFORE_TEXT)
    if given is None or (finish == "error" and not written.strip()):
        named = "" if finish in _ENDED else f" (finish reason {finish_reason})"
        raise NoAnswerError(f"{NO_TEXT}{named}")
    return ModelAnswer(written, thoughts)


def split_reasoning(text: str) -> tuple[str, str]:
    """The text without what stands between marks of thinking, and that. A lone closing mark ends thoughts from the start.

    Text without marks stays as it is, character by character. Errors: `NoAnswerError` where the last thought has no end.
    """
    thoughts: list[str] = []
    for thought in _THINKING.finditer(text):
        if any(thought[f"cut_{i}"] is not None for i in range(len(_MARKS))):
            raise NoAnswerError(THINKING_CUT)
        thoughts.append(thought[0])
    rest = _THINKING.sub("", text) if thoughts else text
    if closed := _LONE_END.match(rest):
        thoughts.append(closed[0])
        rest = rest[closed.end() :]
    rest = _AROUND_ANSWER.sub("", rest)
    return rest if rest == text else rest.lstrip(), "\n".join(thoughts)


def is_declined(prediction: str, phrases: Collection[str]) -> bool:
    """Whether the whole answer is one of the phrases by which a model declines; case and end marks do not count."""
    said = _plain(prediction)
    return bool(said) and said in {_plain(phrase) for phrase in phrases}


def _plain(text: str) -> str:
    composed = unicodedata.normalize("NFC", text).replace("’", "'")
    return " ".join(composed.strip(_END_MARKS).casefold().split())


def _join(text: object) -> tuple[str | None, Mapping[str, str]]:
    """The text, None where there is none, and what a message's parts hold beside it. Errors: `ValueError`."""
    text = _unwrap(text)
    if text is None or (isinstance(text, float) and math.isnan(text)):
        return None, {}
    if isinstance(text, str):
        return text, {}
    if not isinstance(text, list) or not all(isinstance(part, Mapping) for part in text):
        raise ValueError(f"a text was expected, not {str(text)[:40]!r}")
    texts: dict[str, list[str]] = {}
    for part in text:
        kind = str(part.get("type", "text"))
        meaning = "reasoning" if part.get("thought") is True else _PARTS.get(kind)
        if meaning == "text" and not {"text", kind, *(["content"] if "type" in part else [])} & {*part}:
            raise ValueError(f"a text was expected, not {str(part)[:40]!r}")
        if meaning:
            texts.setdefault(meaning, []).append(_text_of_part(part, kind))
    joined = {meaning: "".join(pieces) for meaning, pieces in texts.items()}
    return joined.pop("text", None), joined


def is_message(value: object) -> bool:
    """Whether a value is a message, a conversation, parts of a message, or what a pipeline of transformers returns."""
    if isinstance(value, Mapping):
        return {"role", "content"} <= {*value}
    return isinstance(value, list) and all(
        isinstance(item, Mapping)
        and (is_message(item) or item.get("type") in _PARTS or {*item} <= {*_IN_ONE})
        for item in value
    )


def _unwrap(value: object) -> object:
    """What a list of one, a conversation, or an object around an answer holds. Errors: `ValueError` where a conversation
    does not end with the model's message."""
    while True:
        listed = [value] if isinstance(value, Mapping) else value
        if not isinstance(listed, list) or not listed:
            return value
        last, is_only = listed[-1], len(listed) == 1
        if all(isinstance(item, Mapping) and "role" in item for item in listed):
            if last["role"] not in ("assistant", "model"):
                raise ValueError(
                    f"a message of the model was expected at the end, not one of role {last['role']!r}"[:90]
                )
            value = last.get("content", last.get("parts"))
        elif is_only and isinstance(last, Mapping) and (key := next((k for k in _IN_ONE if k in last), "")):
            value = last[key]
        elif is_only and not isinstance(last, Mapping):
            value = last
        else:
            return listed


def _text_of_part(part: Mapping[str, Any], kind: str) -> str:
    """The text under `text`, the name of the part's kind or `content`, which may hold parts in its turn."""
    value = part.get("text", part.get(kind, part.get("content")))
    if isinstance(value, list):
        return "".join(_text_of_part(inner, "text") for inner in value if isinstance(inner, Mapping))
    return value if isinstance(value, str) else ""


SPLITTER = "longtail-1"
"""The name of these rules, recorded with the rows: it changes whenever a text would be split differently."""

_END = re.compile(r"[.!?…]+[\"'”’»)\]]*(?=\s|$)")
_LAST_WORD = re.compile(r"(?:^|[\s(\[\"'“‘«])([^\s(\[\"'“‘«]*)$")
_DOTTED = re.compile(r"(?:[^\W\d_][-.]+)*[^\W\d_]|ph\.d|m\.sc|b\.sc", re.IGNORECASE)
_NO_MORE = re.compile(r"\s*\Z")
_NEXT_WORD = re.compile(r"[\s\"'“‘«(\[]*(\w*)(\.?)")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_EXPECTS_MORE = _words(
    """
    adm approx brig ca capt cf cmdr cmte col cpl dr e.g fr gen gov hon i.e insp lt maj messrs mlle mme mr
    mrs ms mt pres prof rep rev sen sgt st ste supt viz vs
    """
)
_NUMBERED = _words("art ch fig no nos nr op p pp pt sec vol vols")
_MAY_END = _words(
    """
    al apr assn aug ave bldg blvd bros co corp dec dept dist esq est etc feb ft inc jan jr jul jun ltd mar
    mfg nov oct rd sep sept sq sr univ
    """
)
_OPENERS = _words(
    """
    a after an and as at before both but during for from he her his however i if in it its many my one
    others our she since some that the their then there these they this those to two was we when while who
    you your
    """
)


def first_sentence(text: str) -> str:
    """The text up to the end of its first sentence, with leading white space; without an end, the whole text."""
    return next(sentences(text), text)


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, none of them empty: joined, they are the text."""
    start = 0
    for end in _END.finditer(text):
        if _ends_sentence(text, start, end):
            yield text[start : end.end()]
            start = end.end()
    if start < len(text):
        yield text[start:]


def has_final_sentence(text: str) -> bool:
    """Whether text that is appended can no longer change the first sentence: the word after it is complete."""
    following = _NEXT_WORD.match(text, len(first_sentence(text)))
    return following is not None and bool(following[1]) and following.end() < len(text)


def _ends_sentence(text: str, start: int, end: re.Match[str]) -> bool:
    before = text[start : end.start()]
    if not any(char.isalpha() for char in before):
        return False
    if _NO_MORE.match(text, end.end()):
        return True
    following = _NEXT_WORD.match(text, end.end())
    word, stop = following.groups() if following else ("", "")
    if word[:1].islower():
        return False
    if not end[0].startswith(".") or end[0].startswith(".."):
        return True
    last = _LAST_WORD.search(before)
    abbreviation = last[1].lower() if last else ""
    if abbreviation in _EXPECTS_MORE or (abbreviation in _NUMBERED and word[:1].isdigit()):
        return False
    if abbreviation in _MAY_END or _DOTTED.fullmatch(abbreviation):
        is_initial = len(word) == 1 and stop
        return word.lower() in _OPENERS and not is_initial
    return True


@dataclass(frozen=True)
class Confidence:
    """How sure a model was of an answer, from the probabilities of its tokens at temperature 1, whatever the sampling.

    The end token and what is cut off are left out. dbt computes means and their exponential.

    `confidence_tokens` is at least 1. Logarithms are natural. `first_margin` is the probability of the likeliest first
    token minus that of the second; `mean_entropy` is in nats, over the whole vocabulary. None: not known.
    """

    confidence_tokens: int
    sum_log_probability: float
    least_probability: float | None = None
    first_probability: float | None = None
    first_margin: float | None = None
    mean_entropy: float | None = None


def confidence_of(
    log_probabilities: Sequence[float], first_margin: float | None = None, mean_entropy: float | None = None
) -> Confidence | None:
    """The confidence of an answer of these tokens, to seven digits; None without tokens."""
    if not log_probabilities:
        return None
    logs = [min(0.0, log) for log in log_probabilities]
    return Confidence(
        len(logs),
        _round(math.fsum(logs)),
        _round(math.exp(min(logs))),
        _round(math.exp(logs[0])),
        None if first_margin is None else _round(first_margin),
        None if mean_entropy is None else _round(mean_entropy),
    )


def _round(number: float) -> float:
    return float(f"{number:.7g}")


Token = tuple[str, float, float | None]
"""A token's text, its log-probability, and the probability of the likeliest token minus that of the second."""


def read_tokens(choice: Mapping[str, Any]) -> tuple[Token, ...]:
    """The tokens of a choice, in the form of `completions` or of `chat`; none where it does not give them,
    or they do not fit: no answer fails for it."""
    given = choice.get("logprobs")
    try:
        if not isinstance(given, Mapping):
            return ()
        if given.get("content") is not None:
            return tuple(
                (
                    text,
                    _number(token["logprob"]),
                    _margin([t["logprob"] for t in token.get("top_logprobs") or ()]),
                )
                for text, token in zip(_texts_of(given["content"]), given["content"], strict=True)
            )
        tops = given.get("top_logprobs") or [None] * len(given["tokens"])
        rows = zip(given["tokens"], given["token_logprobs"], tops, strict=True)
        return tuple((str(text), _number(log), _margin([*(top or {}).values()])) for text, log, top in rows)
    except (KeyError, TypeError, ValueError, AttributeError):
        return ()


def _texts_of(tokens: Sequence[Mapping[str, Any]]) -> list[str]:
    """The text of each token: of its bytes, where all have some, since a token may end within a character."""
    if not all(isinstance(token.get("bytes"), list) for token in tokens):
        return [str(token["token"]) for token in tokens]
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return [decoder.decode(bytes(token["bytes"])) for token in tokens]


def confidence_of_part(text: str, tokens: tuple[Token, ...], start: int, stop: int) -> Confidence | None:
    """The confidence of text[start:stop]; None where the tokens are not those of the text. Thoughts and blanks may stand
    before the text, which services may leave out of it."""
    joined = "".join(token for token, *_ in tokens)
    begin = 0 if joined.startswith(text) else joined.rfind(text) if text.strip() else -1
    if begin < 0:
        return None
    places = list(itertools.accumulate((len(token) for token, *_ in tokens), initial=-begin))
    spans = zip(tokens, places, places[1:], strict=False)
    tokens_of_part = [token for token, first, after in spans if first < stop and after > max(first, start)]
    return (
        confidence_of([log for _, log, _ in tokens_of_part], tokens_of_part[0][2]) if tokens_of_part else None
    )


def _number(value: Any) -> float:
    """Errors: `ValueError` where it is no log-probability; services round, so that some are a little above 0."""
    number = float(value)
    if not -math.inf < number < 1e-3:
        raise ValueError(f"{number} is no log-probability")
    return number


def _margin(logs: list[Any]) -> float | None:
    best = sorted((math.exp(_number(log)) for log in logs), reverse=True)[:2]
    return best[0] - best[1] if len(best) > 1 else None
