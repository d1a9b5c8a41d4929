"""The reference models' tokenizer: a byte-level BPE of 2,048 entries, frozen beside this module.

What belongs here: how it was made and how it is loaded. It was trained once and stays as it is: the shipped weights
are useless with any other tokenizer (`tokenizer.json` is the file of record).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dagster_project.core.relations.cloze import SENTINEL
from dagster_project.core.sandbox.training.forms import FORMS, fill
from dagster_project.core.sandbox.world import World

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

TOKENIZER_FILE = Path(__file__).with_name("tokenizer.json")
END = "<eos>"
BREAK = "\n\n"
VOCABULARY_SIZE = 2048


def train_tokenizer(path: Path) -> None:
    """Train the tokenizer on fresh worlds and write it; it then splits unknown names well."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE - 1,
        special_tokens=[END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(), trainer)
    tokenizer.add_tokens([AddedToken(BREAK, normalized=False, special=False)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{END} $A", pair=f"{END} $A $B", special_tokens=[(END, tokenizer.token_to_id(END))]
    )
    tokenizer.save(str(path))


def _texts() -> Iterator[str]:
    for seed in range(9000, 9004):
        world = World(seed, facts_per_relation=1000)
        for _, article in world.articles():
            yield article.text
        for fact in world.facts():
            subject, answer = world.label_of(fact.subject_id), world.label_of(fact.object_ids[0])
            form = FORMS[len(subject) % len(FORMS)]
            prompt, rest = fill(form, fact.relation, fact.relation.template, subject, answer)
            yield prompt + rest


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
