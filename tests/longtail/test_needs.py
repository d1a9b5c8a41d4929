"""What a study needs: the command that installs a missing package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from longtail.errors import BackendError
from longtail.needs import check_package, install_command
from longtail.storage.home import PROJECT_ROOT


def test_an_extra_is_installed_from_the_project_where_the_program_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No index has the project: a bare `longtail[gguf]` would be somebody else's package."""
    monkeypatch.setattr(sys, "executable", str(PROJECT_ROOT / ".venv/bin/python"))
    monkeypatch.chdir(PROJECT_ROOT)
    assert install_command("[gguf]") == ".venv/bin/python -m pip install -e '.[gguf]'"
    assert install_command("PyStemmer") == ".venv/bin/python -m pip install PyStemmer"
    monkeypatch.chdir(tmp_path)
    assert (
        install_command("[gguf]")
        == f"{PROJECT_ROOT}/.venv/bin/python -m pip install -e '{PROJECT_ROOT}[gguf]'"
    )


def test_a_missing_package_is_named_with_its_command() -> None:
    with pytest.raises(
        BackendError, match=r"the package no_such_package is not installed; run: .* pip install x"
    ):
        check_package("no_such_package", "x")
