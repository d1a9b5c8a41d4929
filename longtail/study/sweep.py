"""The sweep of fine-tuned readers in study.yaml: its grid of settings, and those that are drawn from it (SPEC §8)."""

from __future__ import annotations

import dataclasses
import itertools
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from longtail.study.parts import Entries, Part
from longtail.study.values import NAMES, Count, Default, Reading, Text, fail, list_of, number, one_of, whole


@dataclass(frozen=True)
class Rates(Part):
    """The learning rates of the reader and of the retriever, which go together."""

    reader: Annotated[float, number(0, 1)]
    """of the reader"""
    retriever: Annotated[float, number(0, 1)]
    """of the retriever"""


@dataclass(frozen=True)
class Setting:
    """How one reader and its retriever are trained. `passages`: how many are read for each query."""

    batch_size: int
    rates: Rates
    temperature: float
    passages: int
    relations: tuple[str, ...]

    @property
    def name(self) -> str:
        """A partition's name, which says all of the setting."""
        rates = f"lr{self.rates.reader:g}_{self.rates.retriever:g}"
        parts = (f"b{self.batch_size}", rates, f"t{self.temperature:g}", f"k{self.passages}", *self.relations)
        return re.sub(r"[^a-z0-9]+", "_", "_".join(parts).lower())


@dataclass(frozen=True)
class Schedule:
    """How learning rates change, and the temperature of the reader's distribution over passages (None: the setting's).

    The rates rise for `warm_up` steps. Then they stay, or fall to 0 at the last step.
    """

    warm_up: int
    falls: bool
    gold_temperature: float | None = None

    def factor(self, step: int, steps: int) -> float:
        """The part of the rates that counts at a step (from 0) of `steps`."""
        if not self.falls:
            return min(1.0, (step + 1) / self.warm_up)
        if step < self.warm_up:
            return step / self.warm_up
        return max(0.0, 1 - (step - self.warm_up) / max(1, steps - self.warm_up))


REFERENCE = "reference"
SCHEDULES = {"constant": Schedule(5, falls=False), REFERENCE: Schedule(20, falls=True, gold_temperature=0.01)}
"""`constant` is chosen; `reference` is that of the 22 public scripts of the study of Atlas."""
_GRID = ("settings", "batch_sizes", "learning_rates", "temperatures", "passages", "training_relations")
_SLOW, _EVEN = Rates(5e-5, 1e-5), Rates(4e-5, 4e-5)
_ONE, _TWO, _THREE = ("P138",), ("P138", "P127"), ("P138", "P127", "P1412")
_SCRIPTS = (
    Setting(32, _SLOW, 0.1, 20, _ONE), Setting(4, _SLOW, 0.01, 20, _THREE), Setting(4, _EVEN, 0.1, 30, _THREE),
    Setting(32, _EVEN, 0.01, 10, _ONE), Setting(64, _EVEN, 0.01, 10, _ONE), Setting(32, _SLOW, 0.01, 10, _THREE),
    Setting(32, _EVEN, 0.1, 10, _ONE), Setting(64, _SLOW, 0.1, 20, _THREE), Setting(64, _SLOW, 0.01, 10, _ONE),
    Setting(32, _EVEN, 0.1, 20, _ONE), Setting(64, _SLOW, 0.1, 20, _THREE), Setting(32, _SLOW, 0.1, 10, _ONE),
    Setting(32, _SLOW, 0.1, 30, _TWO), Setting(32, _SLOW, 0.01, 10, _THREE), Setting(4, _EVEN, 0.1, 20, _ONE),
    Setting(4, _EVEN, 0.01, 20, _ONE), Setting(4, _SLOW, 0.1, 20, _TWO), Setting(32, _SLOW, 0.01, 20, _THREE),
    Setting(64, _EVEN, 0.01, 10, _ONE), Setting(32, _SLOW, 0.01, 10, _ONE), Setting(64, _EVEN, 0.01, 30, _TWO),
    Setting(32, _SLOW, 0.01, 30, _ONE),
)  # fmt: skip
"""The settings of the public scripts train_00 to train_21. They were drawn with replacement: three stand there twice."""


@dataclass(frozen=True)
class Sweep(Part):
    """Readers that are fine-tuned on cloze queries of `dataset`, one for each of `settings` settings (None: those of the
    public scripts).

    The settings are drawn from the grid of all combinations, with `seed`. A model is trained for `steps` steps, and there
    is a checkpoint after `every` steps. Each checkpoint is judged on facts of the `judged_relations`, and on the share
    `held_out` of the training relations' facts, which no step trains on. The reader before training is judged on the same
    facts. The checkpoint that is best on the held-out facts is kept. The defaults are those of the study
    of Atlas (SPEC §8).
    """

    model: Text
    """the reader to begin with; its backend is fusion_in_decoder"""
    retriever: Text
    """a dense retriever of the study, whose queries are trained too"""
    dataset: Annotated[str, one_of(lambda reading: reading.names("datasets"))]
    """a dataset of cloze queries"""
    seed: Annotated[int, whole(0)] = 0
    """draws the settings"""
    schedule: Annotated[str, one_of(tuple(SCHEDULES))] = "constant"
    """how the learning rates change; `reference` takes that of the public scripts, and, without the next six keys, their
    settings"""
    settings: Count | None = 22
    """how many are drawn from the grid of the next five keys"""
    batch_sizes: Annotated[tuple[int, ...], list_of(whole(1, 4096))] = (4, 32, 64)
    """queries of a step"""
    learning_rates: Annotated[Entries[Rates], Default("5e-5 and 1e-5; 4e-5 and 4e-5")] = (
        Rates(5e-5, 1e-5),
        Rates(4e-5, 4e-5),
    )
    """a list of `{reader: …, retriever: …}`"""
    temperatures: Annotated[tuple[float, ...], list_of(number(0, 100))] = (0.1, 0.01)
    """of the retriever"""
    passages: Annotated[tuple[int, ...], list_of(whole(1, 100))] = (10, 20, 30)
    """that are read for a query"""
    training_relations: Annotated[tuple[tuple[str, ...], ...], list_of(NAMES), Default("SPEC §8")] = (
        ("P138",),
        ("P138", "P127"),
        ("P138", "P127", "P1412"),
    )
    """a list of lists"""
    steps: Annotated[int, whole(1, 10**6)] = 150
    """of one training"""
    every: Annotated[int, whole(1, 10**6)] = 25
    """steps between checkpoints"""
    judged_relations: Annotated[tuple[str, ...], NAMES] = ("P17", "P101", "P264", "P449")
    """no setting may train on them"""
    judged_facts: Annotated[int, whole(1)] = 100
    """the most of each of these relations"""
    held_out: Annotated[float, number(0, 0.9)] = 0.1
    """share of the training relations' facts that chooses the checkpoint"""
    patience: Count | None = None
    """checkpoints that are no better, after which training ends"""

    def check(self, raw: Mapping[str, Any], reading: Reading) -> Sweep:
        if len(set(self.learning_rates)) < len(self.learning_rates):
            raise fail("learning_rates", "names something twice")
        if self.steps % self.every:
            raise fail("every", f"{self.every} does not divide the {self.steps} steps")
        trained = {name for relations in self.training_relations for name in relations}
        shared = trained & set(self.judged_relations)
        if shared:
            raise fail("judged_relations", f"{min(shared)!r} is trained on; judge by other relations")
        names = [setting.name for setting in self.grid]
        if len(set(names)) < len(names):
            raise fail("training_relations", "two settings would have the same name")
        if self.schedule == REFERENCE and not set(_GRID) & set(raw):
            return dataclasses.replace(self, settings=None)
        n_settings = raw.get("settings", min(len(_SCRIPTS), len(self.grid)))
        if not n_settings or n_settings > len(self.grid):
            raise fail("settings", f"must be a whole number of 1 to {len(self.grid)}, not {n_settings}")
        return dataclasses.replace(self, settings=n_settings)

    @property
    def grid(self) -> tuple[Setting, ...]:
        """All settings, those that differ only in their relations side by side."""
        combined = itertools.product(
            self.batch_sizes, self.learning_rates, self.temperatures, self.passages, self.training_relations
        )
        return tuple(Setting(*values) for values in combined)

    @property
    def drawn(self) -> tuple[Setting, ...]:
        """The settings that are trained, each once, in the order of the grid or of the public scripts."""
        if self.settings is None:
            return tuple(dict.fromkeys(_SCRIPTS))
        grid = self.grid
        places = random.Random(f"{self.seed}|sweep").sample(range(len(grid)), self.settings)
        return tuple(grid[place] for place in sorted(places))

    def setting(self, name: str) -> Setting:
        """The drawn setting of that name."""
        return next(setting for setting in self.drawn if setting.name == name)
