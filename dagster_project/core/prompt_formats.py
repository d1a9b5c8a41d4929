"""The templates of prompts (SPEC §3).

What belongs here: the formats that study.yaml may name. What does not: demonstrations, passages, and how a prompt is
assembled (`generation.prompts`).
"""

FORMATS = {
    "qa": "Q: {question} A:",
    "question_answer": "Question: {question}\nAnswer:",
    "question": "{question}",
}
BACKGROUND_TEMPLATE = "Generate a background document from Wikipedia to answer the given question. {question}"
"""The request of GenRead's first step."""
