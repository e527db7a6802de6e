"""The guide's examples run, and pass `mypy --strict`, as does the package."""

import pathlib
import re
import subprocess
import sys

import pytest

GUIDE = pathlib.Path(__file__).parents[3] / "docs" / "python.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_there_are_examples():
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_runs(number, tmp_path):
    done = subprocess.run([sys.executable, "-c", EXAMPLES[number]], cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_examples_and_package_pass_mypy(tmp_path):
    for number, example in enumerate(EXAMPLES):
        (tmp_path / f"example{number}.py").write_text(example, encoding="utf-8")
    files = sorted(str(path) for path in tmp_path.glob("*.py"))
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "-p", "heddledb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    done = subprocess.run([*command[:-2], *files], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
