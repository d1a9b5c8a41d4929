"""What came back from a model: an answer, a declined one, or none (SPEC §12), and where its sentences end."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longtail.scoring.model_answer import (
    LIMIT_BEFORE_TEXT,
    NO_TEXT,
    THINKING_CUT,
    ModelAnswer,
    NoAnswerError,
    first_sentence,
    has_final_sentence,
    is_declined,
    read_answer_text,
    sentences,
    split_reasoning,
)

BRACKETS = [
    ("<think>", "</think>"), ("<Thinking>", "</Thinking>"), ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"), ("<seed:think>", "</seed:think>"), ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"), ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"), ("<|channel|>analysis<|message|>", "<|end|>"),
    ("<|channel|>commentary to=functions.x<|message|>", "<|end|>"),
]  # fmt: skip
PLAIN = st.text(st.characters(exclude_characters="<[◁"), max_size=40)


@pytest.mark.parametrize("text", ["Paris", "", "\n\nParis\nQ: next", "None", "nan", "a < b", "[THE] end"])
@pytest.mark.parametrize("finish", [None, "stop"])
def test_a_text_is_an_answer_as_it_is(text: str, finish: str | None) -> None:
    assert read_answer_text(text, finish_reason=finish) == ModelAnswer(text)


@pytest.mark.parametrize("text", [
    ["Paris"], [["Paris"]], [{"text": "Paris"}], [{"type": "text", "text": "Paris"}],
    [{"type": "text", "content": "Paris"}], {"role": "assistant", "content": "Paris"},
    {"role": "model", "parts": [{"text": "Paris"}]},
    [{"generated_text": [{"role": "user", "content": "Rome?"}, {"role": "assistant", "content": "Paris"}]}],
    [{"index": 0, "message": {"role": "assistant", "content": [{"type": "text", "text": "Paris"}]}}],
])  # fmt: skip
def test_what_holds_one_text_is_that_text(text: object) -> None:
    assert read_answer_text(text) == ModelAnswer("Paris")


@pytest.mark.parametrize(
    "text", [None, math.nan, [], [None], [math.nan], [{"type": "image_url", "image_url": {}}]]
)
@pytest.mark.parametrize(
    ("finish", "reason"),
    [(None, NO_TEXT), ("stop", NO_TEXT), ("tool_calls", f"{NO_TEXT} (finish reason tool_calls)")],
)
def test_nothing_there_is_no_answer(text: object, finish: str | None, reason: str) -> None:
    with pytest.raises(NoAnswerError) as raised:
        read_answer_text(text, finish_reason=finish)
    assert str(raised.value) == reason


@pytest.mark.parametrize("text", [
    7, True, {"content": "Paris"}, ["Paris", "Rome"], ["Paris", None], [[["a"], "b"]], [{"x": 1}],
    [{"role": "assistant", "content": "Paris"}, {"role": "user", "content": "Rome?"}],
])  # fmt: skip
def test_what_is_no_text_is_neither_an_answer_nor_none(text: object) -> None:
    with pytest.raises(ValueError, match=r"a (text|message of the model) was expected"):
        read_answer_text(text)


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ({"text": None, "refusal": "I can't"}, "I can't"),
        ({"text": "", "refusal": "I can't", "finish_reason": "stop"}, "I can't"),
        ({"text": None, "finish_reason": "content_filter"}, ""),
        ({"text": "", "finish_reason": "refusal"}, ""),
        ({"text": "", "finish_reason": "FinishReason.SAFETY"}, ""),
        ({"text": "The ans", "finish_reason": "content_filter"}, "The ans"),
        ({"text": "<think>no, I", "finish_reason": "content_filter"}, ""),
        ({"text": [{"type": "refusal", "refusal": "No."}]}, "No."),
    ],
)
def test_refusals_and_content_filters_decline(given_: dict[str, Any], expected: str) -> None:
    answer = read_answer_text(**given_)
    assert (answer.text, answer.is_declined) == (expected, True)


def test_a_text_beside_a_refusal_is_the_answer() -> None:
    assert read_answer_text("Paris", refusal="not that") == ModelAnswer("Paris")


@pytest.mark.parametrize("finish", ["length", "MAX_TOKENS", "FinishReason.MAX_TOKENS", "model_length"])
@pytest.mark.parametrize("text", [None, "", " \n"])
def test_a_limit_before_the_text_is_no_answer(text: str | None, finish: str) -> None:
    for reasoning, reason in ((None, LIMIT_BEFORE_TEXT), ("The user asks", THINKING_CUT)):
        with pytest.raises(NoAnswerError) as raised:
            read_answer_text(text, finish_reason=finish, reasoning=reasoning)
        assert str(raised.value) == reason
    assert read_answer_text("Par", finish_reason=finish).text == "Par", "a text that is cut is a text"
    with pytest.raises(NoAnswerError, match=LIMIT_BEFORE_TEXT):
        read_answer_text("<think></think>\n", finish_reason=finish)


def test_reasoning_comes_from_fields_parts_and_marks_and_is_no_part_of_the_text() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "b"}]},
        {"type": "text", "text": "Paris"},
    ]
    assert read_answer_text(parts, reasoning="a") == ModelAnswer("Paris", "a\nb")
    assert read_answer_text("<think>c</think>Paris", reasoning="a") == ModelAnswer(
        "Paris", "a\n<think>c</think>"
    )
    assert read_answer_text("", reasoning="a", finish_reason="stop") == ModelAnswer("", "a")
    thoughts_of_gemini = [{"text": "Rome? No.", "thought": True}, {"text": "Paris"}]
    assert read_answer_text(thoughts_of_gemini) == ModelAnswer("Paris", "Rome? No.")


def test_an_empty_text_after_an_error_is_no_answer() -> None:
    with pytest.raises(NoAnswerError, match=r"finish reason error"):
        read_answer_text("", finish_reason="error")


@given(inner=PLAIN, answer=PLAIN, before=st.sampled_from(["", " \n"]), bracket=st.sampled_from(BRACKETS))
def test_thoughts_in_brackets_are_taken_out(
    inner: str, answer: str, before: str, bracket: tuple[str, str]
) -> None:
    begin, end = bracket
    text, thoughts = split_reasoning(f"{before}{begin}{inner}{end}\n\n{answer}")
    assert text == answer.lstrip()
    assert thoughts == f"{begin}{inner}{end}"
    with pytest.raises(NoAnswerError, match=THINKING_CUT):
        split_reasoning(f"{before}{begin}{inner}")


@given(inner=PLAIN, answer=PLAIN, end=st.sampled_from([end for _, end in BRACKETS if end != "<|end|>"]))
def test_a_lone_closing_mark_ends_thoughts_from_the_start(inner: str, answer: str, end: str) -> None:
    assert split_reasoning(f"{inner}{end}{answer}") == (answer.lstrip(), f"{inner}{end}")


@given(PLAIN)
def test_a_text_without_marks_stays_character_by_character(text: str) -> None:
    assert split_reasoning(text) == (text, "")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>a <think>b</think> c</think>Rome", "Rome"),
        ("a</think>Rome <think>b</think>", "Rome "),
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Rome<|return|>",
            "Rome",
        ),
        ("<|channel|>final<|message|>Rome", "Rome"),
        ("<|START_THINKING|>x<|END_THINKING|><|START_RESPONSE|>Rome<|END_RESPONSE|>", "Rome"),
        ("<|begin_of_thought|>x<|end_of_thought|>\n<|begin_of_solution|>Rome<|end_of_solution|>", "Rome"),
    ],
)
def test_marks_of_families(text: str, answer: str) -> None:
    assert split_reasoning(text)[0] == answer


def test_a_long_text_of_marks_takes_no_long_time() -> None:
    """Linear: a rule that looks back over the text for each mark would take minutes."""
    with pytest.raises(NoAnswerError):
        split_reasoning("<think>" * 100_000)
    assert split_reasoning("x</think>" * 100_000)[0] == ""


@pytest.mark.parametrize("prediction", ["No idea.", "no idea", " NO IDEA!? ", "“No idea…”", "No  idea"])
def test_a_whole_answer_that_is_a_phrase_declines(prediction: str) -> None:
    assert is_declined(prediction, ["No idea."])


@pytest.mark.parametrize("prediction", ["No idea, Paris", "", ".", "idea", "Paris"])
def test_other_answers_do_not(prediction: str) -> None:
    assert not is_declined(prediction, ["No idea.", "", "…"])
    assert not is_declined(prediction, [])


def test_phrases_are_compared_in_one_unicode_form_with_one_apostrophe() -> None:
    assert is_declined("Je ne sais pas, désolé.", ["je ne sais pas, désolé"])
    assert is_declined("I don’t know", ["I don't know"])


PIECES = [
    "R. R.", "J.", "St.", "U.S.", "Paris", "He", "was", ".", "!", "?", "…", '"', ")", " ", "é", "1.", "12", "Inc.",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join)
NAMES = st.sampled_from(
    ["J. R. R. Tolkien", "St. Louis", "the U.S. Senate", "Dr. No", "Mt. Etna", "C.S. Lewis", "J.-P. Sartre", "Paris",
     "George W. Bush", "Ph.D. Smith", "Ann O. Other", "J. A. Smith", "J. I. Packer", "Martin Luther King Jr. Day",
     "Warner Bros. Pictures", "No. 5", "Lt. Col. Ada Quill", "3.14", "example.org", "Łódź", "Émile Zola"]
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("", ""),
        (" Paris", " Paris"),
        (" Paris. It is the capital of France.", " Paris."),
        ("Is it Paris? Yes.", "Is it Paris?"),
        ("He said “Paris.” Then he left.", "He said “Paris.”"),
        ("(It is Paris.) So it is.", "(It is Paris.)"),
        ("Who knows... Nobody does.", "Who knows..."),
        ("Well… Paris", "Well…"),
        ("It is by J... Nobody does.", "It is by J..."),
        ("J. R. R. Tolkien wrote it. He was English.", "J. R. R. Tolkien wrote it."),
        ("It was J.R.R. Tolkien. He was English.", "It was J.R.R. Tolkien."),
        ("St. Louis is a city. It is large.", "St. Louis is a city."),
        ("He lives in St. Louis. He likes it.", "He lives in St. Louis."),
        ("He was born in the U.S. He died in Rome.", "He was born in the U.S."),
        ("Washington, D.C. is the capital. Yes.", "Washington, D.C. is the capital."),
        ("It was Malcolm X. He was born in Omaha.", "It was Malcolm X."),
        ("Sammy Davis Jr. was a singer. He", "Sammy Davis Jr. was a singer."),
        ("It was Sammy Davis Jr. He sang.", "It was Sammy Davis Jr."),
        ("Apple Inc. Makes it. So", "Apple Inc. Makes it."),
        ("Mambo No. 5 is by Lou Bega. It", "Mambo No. 5 is by Lou Bega."),
        ("He lives in the U.S. \n", "He lives in the U.S."),
        ("Who's Afraid of Virginia Woolf? is a play. It", "Who's Afraid of Virginia Woolf? is a play."),
        ("Version 2.0 of it. Next", "Version 2.0 of it."),
        ("1. Paris 2. Rome", "1. Paris 2."),
        ("1. Paris is one. 2. Rome", "1. Paris is one."),
        ("It was 1990. Then 1991.", "It was 1990."),
        ("...", "..."),
        ("Paris.Rome", "Paris.Rome"),
        ("Paris.\tRome", "Paris."),
    ],
)
def test_first_sentences(text: str, first: str) -> None:
    assert first_sentence(text) == first


@pytest.mark.parametrize(
    ("text", "is_final"),
    [("Paris", False), ("Paris.", False), ("Paris. ", False), ("Paris. It", False), ("Paris. It is", True)],
)
def test_a_sentence_is_final_once_the_word_after_it_is_whole(text: str, is_final: bool) -> None:
    assert has_final_sentence(text) is is_final


@given(TEXTS | st.text(max_size=40))
def test_a_prefix_that_is_its_own_first_sentence(text: str) -> None:
    first = first_sentence(text)
    assert text.startswith(first)
    assert first_sentence(first) == first
    rest = text[len(first) :]
    assert not rest or (rest[0].isspace() and first.rstrip("\"'”’»)]")[-1] in ".!?…")


@given(TEXTS)
def test_the_sentences_of_a_text_are_its_first_one_and_those_of_the_rest(text: str) -> None:
    found, rest = [], text
    while rest:
        found.append(first_sentence(rest))
        rest = rest[len(found[-1]) :]
    assert [*sentences(text)] == found


@given(NAMES, NAMES)
def test_names_are_never_torn(name: str, other: str) -> None:
    sentence = f"It is about {name} and about {other} alike."
    assert first_sentence(f"{sentence} The {other} is another.") == sentence
    assert first_sentence(f"{name} is meant. It is {other}.") == f"{name} is meant."


@given(TEXTS, TEXTS)
def test_once_the_next_word_is_there_more_text_changes_nothing(text: str, more: str) -> None:
    first = first_sentence(text)
    if any(char.isalnum() for char in text[len(first) :]):
        assert first_sentence(f"{text} {more}") == first
