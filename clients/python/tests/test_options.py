"""The signature of `load` has every option of the program's, and the program is found."""

import decimal
import inspect
import os
import pathlib
import re
import subprocess
import sys
import unittest
import warnings

from place import HERE, Place, ms

from millstream import _load, _program

ROOT = HERE.parent.parent.parent
REFERENCE = ROOT / "docs" / "reference" / "commands.md"

#: Options that a call sets by itself.
OWN = {"output", "help", "version"}
#: Options that have another name.
NAMES = {**{option: name for name, option in _load.OPTIONS.items()}, "column": "columns"}
#: Parameters of this package alone.
PYTHON = {"data", "index"}


def options(command):
    """The options of a command that a page describes; those of the database are described once for all."""
    text = REFERENCE.read_text()
    section = text.split(f"\n## millstream {command}\n")[1].split("\n## ")[0]
    database = text.split("\n## Options for the database\n")[1].split("\n## ")[0]
    # Topics are for the command line.
    names = re.findall(r"^- \*\*`(?:-\w, )?--([a-z-]+)[^`]*`\*\*(?!: Kafka: )", section + database, flags=re.M)
    return {name.replace("-", "_") for name in names}


@unittest.skipUnless(REFERENCE.exists(), "the package is not in its repository")
class Options(unittest.TestCase):
    def test_the_signature_has_every_option(self):
        typed = {NAMES.get(name, name) for name in options("load") - OWN}
        signature = set(inspect.signature(ms.load).parameters)
        self.assertEqual(typed - signature, set(), "load() lacks options of the program")
        self.assertEqual(signature - typed - PYTHON, set(), "the program lacks parameters of load()")

    def test_the_package_has_the_version_of_the_program(self):
        cargo = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), flags=re.M)
        project = re.search(r'^version = "(.*)"', (HERE.parent / "pyproject.toml").read_text(), flags=re.M)
        self.assertEqual({cargo[1], project[1]}, {ms.__version__})


class Words(Place):
    def test_every_parameter_becomes_its_word(self):
        self.plan()
        given = {
            "columns": ["a:text=b", "c:date=d"],
            "enrich": ["x", "y"],
            "header": ["a", "b"],
            "null": "",
            "quote": "-",
            "trim": True,
            "memory": 1 << 27,
            "rejects": pathlib.Path("r"),
            "name": "s",
            "strict": False,
            "trust_owner": ["o", "p"],
        }
        ms.load("f", into="t", key=["a", "b:text"], **given)
        words = [word for word in self.called()["args"] if word.startswith("--")]
        expected = ["--column=a:text=b", "--column=c:date=d", "--enrich=x", "--enrich=y", "--header=a,b", "--null="]
        expected += ["--quote=-", "--trim", "--memory=134217728", "--rejects=r", "--source-name=s", "--trust-owner=o"]
        expected += ["--trust-owner=p", "--into=t", "--key=a,b:text", "--mode=replace", "--output=json", "--progress=json", "--"]
        self.assertEqual(sorted(words), sorted(expected))
        ms.load("f", into="t", key="a", columns="all")
        self.assertIn("--columns=all", self.called()["args"])


class Version(Place):
    version = "99.1"

    def test_a_program_of_another_version_is_a_warning_once(self):
        self.plan()
        with self.assertWarnsRegex(RuntimeWarning, f"has version 99.1, and the package millstream {ms.__version__}") as caught:
            self.load("f")
        # The line of the caller, here that of `load` in place.py.
        self.assertEqual(os.path.basename(caught.filename), "place.py")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.load("f")


class Commands(Place):
    def test_the_other_commands_are_thin(self):
        self.plan(answer=[{"key": ["1"], "found": True, "doc": {"id": 1}}, {"key": ["2"], "found": False, "doc": None}], code=1)
        self.assertEqual(ms.get("t", 1, ("a,b", -2)), [{"id": 1}, None])
        self.assertEqual(self.called()["args"], ["get", "--output=json", "--", "t", "1", '["a,b", "-2"]'])
        self.assertEqual(ms.get("t"), [])
        for key in [None, b"a", (1, None), {}]:
            with self.assertRaisesRegex(TypeError, "no type of a key"):
                ms.get("t", key)
        # Numbers have all their digits, or the call says that they cannot have them.
        long, far = "1" * 5_000, "1e400"
        for digits, whole in [("0.12345678901234567890", False), (far, False), (long, True)]:
            self.plan(text='[{"key":["1"],"found":true,"doc":{"a":%s,"b":7}}]' % digits)
            (found,) = ms.get("t", 1, numbers="decimal")
            self.assertEqual((found, type(found["b"])), ({"a": decimal.Decimal(digits), "b": 7}, int))
            if digits in (long, far) and not (whole and not hasattr(sys, "get_int_max_str_digits")):
                with self.assertRaisesRegex(ms.Error, "too large for .*\n.*numbers=.decimal") as caught:
                    ms.get("t", 1)
                self.assertIs(type(caught.exception), ms.Error)
            else:
                ms.get("t", 1)
        with self.assertRaisesRegex(ValueError, "numbers= is"):
            ms.get("t", 1, numbers="text")
        self.plan(answer=[{"key": ["1"], "count": 5}])
        self.assertEqual(ms.get("t", (1,), count=True), [5])
        self.plan(answer={"collection": "t", "keys": 2, "equal": 1, "missing": 1, "later": 0}, code=1)
        found = ms.verify("f", into="t", key="id", exact=True, skip_lines=1)
        self.assertEqual((bool(found), found.missing, found.differences), (False, 1, 1))
        self.assertIn("--skip-lines=1", self.called()["args"])
        self.plan(answer=[{"model": "m", "way": "swap"}])
        self.assertEqual(ms.refresh("m", "n", wait="5s")[0]["way"], "swap")
        self.assertEqual(self.called()["args"], ["refresh", "--wait=5s", "--output=json", "--", "m", "n"])
        self.assertEqual(ms.publish("t", "m", index=["a", "b"], where="a > 0")[0]["model"], "m")
        self.assertEqual(
            self.called()["args"],
            ["publish", "--as=m", "--index=a", "--index=b", "--where=a > 0", "--output=json", "--", "t"],
        )


class Programs(Place):
    def test_the_program_is_found_wherever_the_package_was_installed(self):
        os.environ.pop("MILLSTREAM_PROGRAM")
        layouts = ["target", "prefix/lib/python3.12/site-packages"]
        for place in layouts:
            package = self.folder / place / "millstream"
            package.mkdir(parents=True)
        for place, program in zip(layouts, ["target/bin/millstream", "prefix/bin/millstream"]):
            program = self.folder / program
            program.parent.mkdir(parents=True, exist_ok=True)
            program.write_text("#!/bin/sh\n")
            program.chmod(0o755)
            folders = _program._folders(str(self.folder / place / "millstream"))
            self.assertIn(str(program.parent), folders[:2])

    def test_the_path_is_the_last_place(self):
        os.environ.pop("MILLSTREAM_PROGRAM")
        self.set("PATH", f"{self.folder}:{os.environ['PATH']}")
        found = ms.program()
        self.assertTrue(os.access(found, os.X_OK))
        self.set("PATH", self.path("nowhere"))
        if "millstream" not in found or found == self.path("millstream"):
            with self.assertRaisesRegex(ms.ProgramMissing, "MILLSTREAM_PROGRAM"):
                ms.program()

    def test_the_module_is_the_program(self):
        self.plan(answer={})
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        subprocess.run([sys.executable, "-m", "millstream", "db", "-x"], env=environment, check=True, capture_output=True)
        self.assertEqual(self.called()["args"], ["db", "-x"])

    def test_an_import_brings_nothing_that_is_not_used(self):
        script = "import sys, subprocess, json; before = set(sys.modules); import millstream; print(set(sys.modules) - before)"
        environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
        run = subprocess.run([sys.executable, "-S", "-c", script], env=environment, check=True, capture_output=True, text=True)
        self.assertEqual(run.stdout, "{'millstream'}\n")


if __name__ == "__main__":
    unittest.main()
