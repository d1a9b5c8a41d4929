"""What a study asks: the sample of facts, questions, paraphrases and cloze queries, and how frequent their subjects are.

Facts come from `wikimedia`, files of others from `imports`; prompts are made in `generation`.
"""
