"""The reference models' tokenizer: a byte-level BPE of 2,048 entries, as it is shipped with the smallest model.

It was trained once, by `BpeTrainer` of tokenizers on the articles and questions of four other worlds, and stays as it
is: the shipped weights are useless with any other tokenizer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from longtail.relations.cloze import SENTINEL
from longtail.study.model_files import SIZES, WEIGHTS

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

TOKENIZER_FILE = WEIGHTS / SIZES[0] / "tokenizer.json"
END = "<eos>"
BREAK = "\n\n"
VOCABULARY_SIZE = 2048


def load_raw_tokenizer() -> Tokenizer:
    """The frozen tokenizer in the form of `tokenizers`: fast, for training."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(TOKENIZER_FILE))


def load_tokenizer() -> PreTrainedTokenizerFast:
    """The frozen tokenizer in the form of transformers: left padding, `<eos>` before every text."""
    return _of_transformers(load_raw_tokenizer(), "left")


def load_pair_tokenizer() -> PreTrainedTokenizerFast:
    """The same tokens for an encoder-decoder: right padding, `<eos>` after every text."""
    from tokenizers import processors

    tokenizer = load_raw_tokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"$A {END}", pair=f"$A $B {END}", special_tokens=[(END, tokenizer.token_to_id(END))]
    )
    return _of_transformers(tokenizer, "right")


def load_fusion_tokenizer() -> PreTrainedTokenizerFast:
    """That of the encoder-decoder, with one more token for the object's place in a cloze query.

    It puts a space before every text: a name at the beginning of a query has the tokens that it has in a title.
    """
    from tokenizers.normalizers import Prepend, Replace, Sequence

    tokenizer = load_pair_tokenizer()
    tokenizer.backend_tokenizer.normalizer = Sequence([Prepend(" "), Replace("  ", " ")])
    tokenizer.add_special_tokens({"extra_special_tokens": [SENTINEL]})
    return tokenizer


def _of_transformers(tokenizer: Tokenizer, padding_side: str) -> PreTrainedTokenizerFast:
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END,
        eos_token=END,
        pad_token=END,
        padding_side=padding_side,
        clean_up_tokenization_spaces=False,
        model_max_length=2048,
    )
