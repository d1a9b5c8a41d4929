"""Puts dbt's project, the studies and Dagster's settings into a wheel; all else is declared in pyproject.toml."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithProject(build_py):
    def run(self) -> None:
        super().run()
        patterns = ("dbt/**/*", "studies/**/*", "*.yaml", "pyproject.toml")
        files = [file for pattern in patterns for file in Path().glob(pattern)]
        for file in files if not self.editable_mode else ():
            if file.is_file() and not {"target", "logs", "__pycache__"} & set(file.parts):
                copy = Path(self.build_lib, "longtail/shipped", file)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copy)


setup(cmdclass={"build_py": BuildWithProject})
