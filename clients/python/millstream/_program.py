"""Where the program is."""

from __future__ import annotations

import os
import sys
import sysconfig

from ._errors import ProgramMissing

NAME = "millstream"
VARIABLE = "MILLSTREAM_PROGRAM"


def program() -> str:
    """The path of the program that this package runs.

    It is the one named by MILLSTREAM_PROGRAM; else the one that was installed with the package, wherever that was
    installed (an environment, `--user`, `--target`, `--prefix`); else the first one in PATH.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if _runs(named):
            return os.path.abspath(named)
        raise ProgramMissing(f"{VARIABLE} names {named}, which is no program", hint=f"correct or unset {VARIABLE}")
    for folder in _folders(os.path.dirname(os.path.abspath(__file__))):
        path = os.path.join(folder, NAME)
        if _runs(path):
            return path
    import shutil

    found = shutil.which(NAME)
    if found:
        return os.path.abspath(found)
    raise ProgramMissing(
        "the program millstream is not installed",
        hint=f"install a wheel of this package, put the program into PATH, or name it in {VARIABLE}",
    )


def _runs(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _folders(package: str) -> list[str]:
    """Where an installer may have put the program of the package in this folder, the likeliest place first."""
    site = os.path.dirname(package)
    folders = [
        # `pip install --target`
        os.path.join(site, "bin"),
        # PREFIX/lib/pythonX.Y/site-packages: an environment, `--prefix`, or an overlay of several environments.
        os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(site))), "bin"),
        sysconfig.get_path("scripts"),
        os.path.join(sys.base_prefix, "bin"),
    ]
    if "posix_user" in sysconfig.get_scheme_names():
        folders.append(sysconfig.get_path("scripts", scheme="posix_user"))
    return folders
