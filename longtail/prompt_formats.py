"""The templates of prompts (SPEC §3)."""

from __future__ import annotations

from dataclasses import dataclass

CLOZE_PREFIX = "cloze_prefix"
"""The words of a cloze query before its [Y], for decoder-only models (SPEC §8). Only candidates are scored behind it."""
CLOZE_T5 = "cloze_t5"
"""A cloze query with a sentinel at the place of its [Y], for encoder-decoders trained like T5 (SPEC §8)."""
CLOZE_FORMATS = {CLOZE_PREFIX: False, CLOZE_T5: True}
"""The formats of cloze queries, and whether encoder-decoders are asked in them; other models are asked in the others."""
FORMATS = {
    "qa": "Q: {question} A:",
    "question_answer": "Question: {question}\nAnswer:",
    "question": "{question}",
    "popqa_tp": "Question: {question}\nAnswer:",
    CLOZE_PREFIX: "{question}",
    CLOZE_T5: "{question}",
}
FOR_ENCODER_DECODERS = {**FORMATS, "popqa_tp": FORMATS["question"]}
"""What an encoder-decoder is asked: PopQA-TP submits the bare question to it."""
BACKGROUND_TEMPLATE = "Generate a background document from Wikipedia to answer the given question. {question}"
"""The request of GenRead's first step."""

NULL, GROUNDING, ANTI_GROUNDING = "null", "grounding", "anti_grounding"
PAPER, REFERENCE = ASSEMBLIES = ("paper", "reference")
"""How question and grounding prompt are put together: as the paper shows them, or as the authors' code does it."""


@dataclass(frozen=True)
class GroundingPrompt:
    """A text behind the question that asks the model to quote (`grounding`) or not to quote (`anti_grounding`).

    `reference`: the text with its line breaks, as the authors' code has it; where that is None, as most of theirs are:
    on a line of its own.
    """

    kind: str
    text: str
    reference: str | None = None

    def behind(self, assembly: str) -> str:
        """What stands behind the question, by one of the `ASSEMBLIES`."""
        if assembly == PAPER or not self.text:
            return f" {self.text}" if self.text else ""
        return self.reference or f"\n{self.text}\n"


GROUNDING_PROMPTS: dict[str, GroundingPrompt] = {
    NULL: GroundingPrompt(NULL, ""),
    "based_on_evidence": GroundingPrompt(
        GROUNDING, "Based on evidence from Wikipedia:", "\nBased on evidence from Wikipedia: "
    ),
    "expert_editor": GroundingPrompt(
        GROUNDING, "As an expert editor for Wikipedia, I am confident in the following answer."
    ),
    "direct_quote": GroundingPrompt(
        GROUNDING, "I found some results for that on Wikipedia. Here's a direct quote:"
    ),
    "reference_wikipedia": GroundingPrompt(
        GROUNDING,
        "Reference Wikipedia when answering the following question.",
        "\nReference Wikipedia when answering the following question.",
    ),
    "according_to_wikipedia": GroundingPrompt(GROUNDING, "Answer according to Wikipedia."),
    "find_quotes": GroundingPrompt(
        GROUNDING,
        'Go to https://www.wikipedia.org and find direct quotes to answer the question. Response: "',
        '\nGo to https://www.wikipedia.org and find direct quotes to answer the question. \nResponse: "',
    ),
    "information_from_wikipedia": GroundingPrompt(
        GROUNDING, "Respond by using information from Wikipedia in your response."
    ),
    "attributed_to_wikipedia": GroundingPrompt(
        GROUNDING,
        "Respond to this question using only information that can be attributed to Wikipedia.",
        "\n\nRespond to this question using only information that can be attributed to Wikipedia. Your answer should "
        "include direct quotations and include full sentences from Wikipedia.",
    ),
    "information_from_reddit": GroundingPrompt(
        ANTI_GROUNDING, "Respond by using information from Reddit in your response."
    ),
    "information_from_github": GroundingPrompt(
        ANTI_GROUNDING, "Respond by using information from Github in your response."
    ),
    "without_wikipedia": GroundingPrompt(
        ANTI_GROUNDING, "Respond without using any information from Wikipedia in your response."
    ),
}
"""The prompts of According-to prompting (its Table 1), in its order, by our names for them (SPEC §9)."""
