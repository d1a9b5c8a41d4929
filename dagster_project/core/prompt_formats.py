"""The templates of prompts (SPEC §3).

What belongs here: the formats that study.yaml may name. What does not: demonstrations, passages, and how a prompt is
assembled (`generation.prompts`).
"""

CLOZE_PREFIX = "cloze_prefix"
"""The words of a cloze query before its [Y], for decoder-only models (SPEC §8). Only candidates are scored behind it."""
FORMATS = {
    "qa": "Q: {question} A:",
    "question_answer": "Question: {question}\nAnswer:",
    "question": "{question}",
    "popqa_tp": "Question: {question}\nAnswer:",
    CLOZE_PREFIX: "{question}",
}
FOR_ENCODER_DECODERS = {**FORMATS, "popqa_tp": FORMATS["question"]}
"""What an encoder-decoder is asked: PopQA-TP submits the bare question to it."""
BACKGROUND_TEMPLATE = "Generate a background document from Wikipedia to answer the given question. {question}"
"""The request of GenRead's first step."""
