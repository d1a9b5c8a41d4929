"""Puts the project's files into a wheel, below dagster_project/shipped; all else is declared in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

SHIPPED = ("dbt", "studies", "study.yaml", "dagster.yaml", "workspace.yaml")


class BuildWithProject(build_py):
    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        target = Path(self.build_lib, "dagster_project", "shipped")
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for name in SHIPPED:
            if Path(name).is_dir():
                shutil.copytree(
                    name, target / name, ignore=shutil.ignore_patterns("target", "logs", "__pycache__")
                )
            else:
                shutil.copy(name, target)


setup(cmdclass={"build_py": BuildWithProject})
