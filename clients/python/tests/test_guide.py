"""The Python blocks of the guide and of the package's README, run in their order.

A comment before a block says how it is tested:

- `<!-- test: parsed only, WHY -->`: it is not run;
- `<!-- test: python needs MODULE .. -->`: it is left out where one of these modules is missing, and `arrow` stands for a program
  that reads Arrow.

Lines between `<!-- test: python setup` and `-->` are run, too, and make what the reader has.
"""

import contextlib
import importlib.util
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from place import HERE, ms  # noqa: F401
from test_program import DB, knows_arrow

DOCS = HERE.parent.parent.parent / "docs"
PAGES = [HERE.parent / "README.md", DOCS / "python.md", DOCS / "scale-out.md"]


def blocks(page):
    """The blocks of a page: line, note, text."""
    note, begun, lines, found = "", None, [], []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if begun is None:
            if line == "```python":
                begun, lines = "```", []
            elif line == "<!-- test: python setup":
                begun, lines, note = "-->", [], ""
            elif line.strip():
                note = line.removeprefix("<!-- test: ").removesuffix(" -->") if line.startswith("<!-- test: ") else ""
        elif line == begun:
            found.append((number, note, "\n" * (number - len(lines) - 1) + "\n".join(lines) + "\n"))
            begun, note = None, ""
        else:
            lines.append(line)
    assert begun is None, f"{page}: a block is not closed"
    return found


def missing(note):
    """What the machine lacks of what a note names."""
    words = note.removeprefix("python needs ").split() if note.startswith("python needs ") else []
    return [word for word in words if not (knows_arrow() if word == "arrow" else importlib.util.find_spec(word))]


class Guide(unittest.TestCase):
    def test_every_block_is_python(self):
        for page in filter(pathlib.Path.exists, PAGES):
            found = blocks(page)
            self.assertGreater(len(found), 0)
            for _, _, text in found:
                compile(text, str(page), "exec")

    @unittest.skipUnless(DB, "MILLSTREAM_TEST_DB names no database")
    def test_every_block_runs(self):
        for page in filter(pathlib.Path.exists, PAGES):
            before, names = os.getcwd(), {"__name__": "guide"}
            # Spark has workers, which find the package where it would be installed.
            variables = {"MILLSTREAM_DB": DB, "PYTHONPATH": str(HERE.parent), "PYSPARK_PYTHON": sys.executable}
            with (
                mock.patch.dict(os.environ, variables),
                tempfile.TemporaryDirectory() as folder,
                contextlib.redirect_stdout(io.StringIO()),
            ):
                os.chdir(folder)
                try:
                    for number, note, text in blocks(page):
                        if note.startswith("parsed only"):
                            continue
                        with self.subTest(page=page.name, line=number):
                            lacks = missing(note)
                            if lacks:
                                self.skipTest(f"it needs {', '.join(lacks)}")
                            exec(compile(text, str(page), "exec"), names)
                finally:
                    os.chdir(before)


if __name__ == "__main__":
    unittest.main()
