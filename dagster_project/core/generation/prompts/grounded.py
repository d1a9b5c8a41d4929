"""The prompts of grounded generations, and what their texts consist of: SPEC §9.

What belongs here: the texts around a question (According-to prompting, appendix A), and where answer and explanation
stand in what the model writes. What does not: the grounding prompts (`prompt_formats`), and scores (`scoring`).

The paper leaves open what stands between a question and its grounding prompt: here it is one space. At the place of the
null prompt there is nothing.
"""

from __future__ import annotations

from dagster_project.core.prompt_formats import GROUNDING_PROMPTS

_BOTH = (
    "You are a highly intelligent & complex question-answer generative model. You take a question as an input and answer"
    " it by imitating the way a human gives short answers with a corresponding explanation. You answer should be short -"
    " only a few words.\n\nYour output format should be the answer, then a semicolon, then the explanation.\n"
)
_SEPARATOR = ";"


def one_step_prompt(question: str, grounding_prompt: str) -> str:
    """Asks for a short answer and its explanation at once."""
    return f"{_BOTH}{question}{_behind(grounding_prompt)}"


def first_step_prompt(question: str) -> str:
    """Asks for a short answer; the grounding prompt comes in the second step alone."""
    return f"Output the answer only. {question}\nAnswer string only:"


def second_step_prompt(question: str, answer: str, grounding_prompt: str) -> str:
    """Asks for the explanation of the answer that the first step gave."""
    return (
        f"Question: {question}\nAnswer: {answer}\n\n\n"
        f"Give a detailed explanation for why this is true.{_behind(grounding_prompt)}\nExplanation:"
    )


def long_form_prompt(question: str, grounding_prompt: str, *, is_small: bool) -> str:
    """Asks for a long answer. Small models need the word `Answer:` at the end, else they hardly write anything."""
    return f"{question}{_behind(grounding_prompt)}{' Answer:' if is_small else ''}"


def split_answer(text: str) -> tuple[str, str | None]:
    """The answer before the first semicolon and the explanation behind it, without white space at their ends.

    Without a semicolon all of the text is the answer, and the explanation is None.
    """
    answer, separator, explanation = text.partition(_SEPARATOR)
    return answer.strip(), explanation.strip() if separator else None


def _behind(grounding_prompt: str) -> str:
    text = GROUNDING_PROMPTS[grounding_prompt].text
    return f" {text}" if text else ""
