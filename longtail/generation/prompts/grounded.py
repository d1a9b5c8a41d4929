"""The prompts of grounded generations, and what their texts consist of: SPEC §9.

The paper leaves open what stands between a question and its grounding prompt: by assembly `paper` it is one space. By
assembly `reference` it is what the authors' code writes: grounding prompts stand on lines of their own, the question is
capitalised as Python does it (its other letters in lower case) except in the second step, a short answer's question ends
with a question mark, and white space at the ends of a prompt is dropped. At the place of the null prompt stands nothing.
"""

from __future__ import annotations

from longtail.prompt_formats import GROUNDING_PROMPTS, PAPER

_BOTH = (
    "You are a highly intelligent & complex question-answer generative model. You take a question as an input and answer"
    " it by imitating the way a human gives short answers with a corresponding explanation. You answer should be short -"
    " only a few words.\n\nYour output format should be the answer, then a semicolon, then the explanation.\n"
)
_SEPARATOR = ";"


def one_step_prompt(question: str, grounding_prompt: str, assembly: str = PAPER) -> str:
    """Asks for a short answer and its explanation at once."""
    asked = _asked(question, assembly, mark="? ")
    return _ended(f"{_BOTH}{asked}{_behind(grounding_prompt, assembly)}", assembly)


def first_step_prompt(question: str, assembly: str = PAPER) -> str:
    """Asks for a short answer; the grounding prompt comes in the second step alone."""
    return f"Output the answer only. {_asked(question, assembly, mark='?')}\nAnswer string only:"


def second_step_prompt(question: str, answer: str, grounding_prompt: str, assembly: str = PAPER) -> str:
    """Asks for the explanation of the answer that the first step gave."""
    return (
        f"Question: {question}\nAnswer: {answer}\n\n\n"
        f"Give a detailed explanation for why this is true.{_behind(grounding_prompt, assembly)}\nExplanation:"
    )


def long_form_prompt(question: str, grounding_prompt: str, assembly: str = PAPER, *, is_small: bool) -> str:
    """Asks for a long answer. Small models need the word `Answer:` at the end, else they hardly write anything."""
    asked = _asked(question, assembly, mark="")
    return _ended(f"{asked}{_behind(grounding_prompt, assembly)}{' Answer:' if is_small else ''}", assembly)


def split_answer(text: str) -> tuple[str, str | None]:
    """The answer before the first semicolon and the explanation behind it, without white space at their ends.

    Without a semicolon all of the text is the answer, and the explanation is None.
    """
    answer, separator, explanation = text.partition(_SEPARATOR)
    return answer.strip(), explanation.strip() if separator else None


def reference_parts(text: str) -> tuple[str, str]:
    """Answer and explanation as the authors' code tells them apart: the explanation ends before a second semicolon;
    without any, all of the text is both."""
    parts = text.split(_SEPARATOR)
    return parts[0], parts[1].strip() if len(parts) > 1 else text


def _behind(grounding_prompt: str, assembly: str) -> str:
    return GROUNDING_PROMPTS[grounding_prompt].behind(assembly)


def _asked(question: str, assembly: str, mark: str) -> str:
    """The question as a prompt has it; `mark` follows one that does not end with a question mark."""
    if assembly == PAPER:
        return question
    return question.capitalize() + ("" if question.endswith("?") else mark)


def _ended(prompt: str, assembly: str) -> str:
    return prompt if assembly == PAPER else prompt.strip()
