"""What the tests share."""

import pathlib
import subprocess
import sys
from typing import Any, Callable, Iterator

import pytest

import heddledb


@pytest.fixture
def con() -> Iterator[heddledb.Connection]:
    """A connection to a database in memory."""
    connection = heddledb.connect(":memory:")
    yield connection
    connection.close()


@pytest.fixture
def path(tmp_path: pathlib.Path) -> str:
    """The directory of a database that is not there yet."""
    return str(tmp_path / "db.heddle")


@pytest.fixture
def python() -> Callable[..., "subprocess.CompletedProcess[str]"]:
    """Runs a program of Python in a process of its own."""

    def run(program: str, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)

    return run
