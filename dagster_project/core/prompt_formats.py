"""The templates of prompts (SPEC §3).

What belongs here: the formats that study.yaml may name. What does not: demonstrations, passages, and how a prompt is
assembled (`generation.prompts`).
"""

FORMATS = {
    "qa": "Q: {question} A:",
    "question_answer": "Question: {question}\nAnswer:",
    "question": "{question}",
    "popqa_tp": "Question: {question}\nAnswer:",
}
FOR_ENCODER_DECODERS = {**FORMATS, "popqa_tp": FORMATS["question"]}
"""What an encoder-decoder is asked: PopQA-TP submits the bare question to it."""
BACKGROUND_TEMPLATE = "Generate a background document from Wikipedia to answer the given question. {question}"
"""The request of GenRead's first step."""
