"""The sweep of fine-tuned readers in study.yaml: its grid of settings, and those that are drawn from it (SPEC §8)."""

from __future__ import annotations

import dataclasses
import itertools
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from longtail.methods import Method
from longtail.study.backends import BACKENDS, PASSAGES
from longtail.study.reader import Reader


@dataclass(frozen=True)
class Rates:
    """The learning rates of the reader and of the retriever, which go together."""

    reader: float
    retriever: float


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
class Sweep:
    """Readers that are fine-tuned on cloze queries of `dataset`, one for each of `settings` settings (None: those of the
    public scripts).

    `model` names the reader to begin with, `retriever` a dense retriever of the study, whose queries are trained too. The
    settings are drawn from the grid of all combinations, with `seed`. A model is trained for `steps` steps, and there is
    a checkpoint after `every` steps. Each checkpoint is judged on at most `judged_facts` facts of each of the
    `judged_relations`, and on the share `held_out` of the training relations' facts, which no step trains on. The reader
    before training is judged on the same facts. The checkpoint that is best on the held-out facts is kept. With
    `patience`, training ends after that many checkpoints that were no better than an earlier one. The defaults are those
    of the study of Atlas (SPEC §8).
    """

    model: str
    retriever: str
    dataset: str
    seed: int = 0
    schedule: str = "constant"
    settings: int | None = len(_SCRIPTS)
    batch_sizes: tuple[int, ...] = (4, 32, 64)
    learning_rates: tuple[Rates, ...] = (Rates(5e-5, 1e-5), Rates(4e-5, 4e-5))
    temperatures: tuple[float, ...] = (0.1, 0.01)
    passages: tuple[int, ...] = (10, 20, 30)
    training_relations: tuple[tuple[str, ...], ...] = (("P138",), ("P138", "P127"), ("P138", "P127", "P1412"))
    steps: int = 150
    every: int = 25
    judged_relations: tuple[str, ...] = ("P17", "P101", "P264", "P449")
    judged_facts: int = 100
    held_out: float = 0.1
    patience: int | None = None

    @property
    def grid(self) -> tuple[Setting, ...]:
        """All settings, those that differ only in their relations side by side."""
        combined = itertools.product(
            self.batch_sizes, self.learning_rates, self.temperatures, self.passages, self.training_relations
        )
        return tuple(Setting(*one) for one in combined)

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
        return next(one for one in self.drawn if one.name == name)


def read_sweep(
    read: Reader, models: Sequence[Any], methods: Sequence[Method], datasets: tuple[str, ...]
) -> Sweep:
    """The mapping under `sweep`; `models`, `methods` and `datasets` are those of the study. Errors: `StudyError`."""
    read.only(*(f.name for f in dataclasses.fields(Sweep)))
    readers = tuple(one.name for one in models if PASSAGES in BACKENDS[one.backend].capabilities)
    dense = tuple(one.name for one in methods if one.is_dense)
    found = Sweep(
        model=read.choice("model", readers),
        retriever=read.choice("retriever", dense),
        dataset=read.choice("dataset", datasets),
        seed=read.number("seed", Sweep.seed, 0),
        schedule=read.choice("schedule", tuple(SCHEDULES), Sweep.schedule),
        batch_sizes=_numbers(read, "batch_sizes", 4096),
        learning_rates=_rates(read) if "learning_rates" in read.raw else Sweep.learning_rates,
        temperatures=read.listed(
            "temperatures", Sweep.temperatures, lambda one, key: one.real(key, 1.0, 0, 100)
        ),
        passages=_numbers(read, "passages", 100),
        training_relations=read.listed(
            "training_relations", Sweep.training_relations, lambda one, key: one.names(key)
        ),
        steps=read.number("steps", Sweep.steps, 1, 10**6),
        every=read.number("every", Sweep.every, 1, 10**6),
        judged_relations=read.names("judged_relations")
        if "judged_relations" in read.raw
        else Sweep.judged_relations,
        judged_facts=read.number("judged_facts", Sweep.judged_facts, 1),
        held_out=read.real("held_out", Sweep.held_out, 0, 0.9),
        patience=read.optional("patience", lambda key: read.number(key, 1, 1)),
    )
    _check(read, found)
    if found.schedule == REFERENCE and not set(_GRID) & set(read.raw):
        return dataclasses.replace(found, settings=None)
    n_settings = len(found.grid)
    return dataclasses.replace(
        found, settings=read.number("settings", min(len(_SCRIPTS), n_settings), 1, n_settings)
    )


def _numbers(read: Reader, key: str, most: int) -> tuple[int, ...]:
    default: tuple[int, ...] = getattr(Sweep, key)
    return read.listed(key, default, lambda one, place: one.number(place, 1, 1, most))


def _rates(read: Reader) -> tuple[Rates, ...]:
    found = []
    for one in read.children("learning_rates"):
        one.only("reader", "retriever")
        found.append(Rates(*(one.real(key, 0.0, 0, 1) for key in ("reader", "retriever"))))
    if len(set(found)) < len(found):
        raise read.fail("learning_rates", "names something twice")
    return tuple(found)


def _check(read: Reader, sweep: Sweep) -> None:
    if sweep.steps % sweep.every:
        raise read.fail("every", f"{sweep.every} does not divide the {sweep.steps} steps")
    trained = {name for relations in sweep.training_relations for name in relations}
    shared = trained & set(sweep.judged_relations)
    if shared:
        raise read.fail("judged_relations", f"{min(shared)!r} is trained on; judge by other relations")
    names = [setting.name for setting in sweep.grid]
    if len(set(names)) < len(names):
        raise read.fail("training_relations", "two settings would have the same name")
