"""The package and the examples of its guide pass mypy in strict mode."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from place import HERE
from test_guide import PAGES, blocks


@unittest.skipUnless(importlib.util.find_spec("mypy"), "mypy is not installed")
class Types(unittest.TestCase):
    def test_the_package_and_the_examples_are_typed(self):
        with tempfile.TemporaryDirectory() as folder:
            modules = []
            for page in filter(pathlib.Path.exists, PAGES):
                # Each block begins with as many empty lines as stand before it in its page.
                lines = [""] * len(page.read_text().splitlines())
                for _, _, text in blocks(page):
                    for number, line in enumerate(text.splitlines()):
                        lines[number] = lines[number] or line
                modules.append(pathlib.Path(folder) / f"{page.stem.lower()}_md.py")
                modules[-1].write_text("\n".join(lines) + "\n")
            options = ["--strict", "--python-version=3.10", "--ignore-missing-imports", "--no-site-packages"]
            command = [sys.executable, "-m", "mypy", *options, f"--cache-dir={folder}/cache", "millstream", *modules]
            environment = {**os.environ, "MYPYPATH": str(HERE.parent)}
            run = subprocess.run(command, cwd=HERE.parent, env=environment, capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


if __name__ == "__main__":
    unittest.main()
