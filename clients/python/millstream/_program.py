"""Where the program is."""

from __future__ import annotations

import os
import sys
import sysconfig

from ._errors import ProgramMissing

NAME = "millstream"
VARIABLE = "MILLSTREAM_PROGRAM"
#: How long a program may take to say its version.
WAIT_S = 10


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


#: Programs whose version was compared.
_compared: set[str] = set()


def program_for_call() -> str:
    """The path of the program. Warns, once for each program, of one that has another version than the package."""
    path = program()
    if path not in _compared:
        _compared.add(path)
        _compare(path)
    return path


def _compare(path: str) -> None:
    import subprocess
    import warnings

    from . import __version__

    try:
        run = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=WAIT_S
        )
    except (OSError, subprocess.SubprocessError):
        # The call itself says what is wrong.
        return
    name, _, version = run.stdout.strip().partition(" ")
    if name == NAME and version != __version__:
        says = f"{path} has version {version}, and the package millstream {__version__}: install both of one version"
        # At the line that called `load` or the like.
        warnings.warn(says, RuntimeWarning, stacklevel=_depth())


def _depth() -> int:
    """How many frames of this package stand above `_compare`, and the caller's."""
    import inspect

    frame, depth = inspect.currentframe(), 0
    package = os.path.dirname(os.path.abspath(__file__))
    while frame is not None and os.path.dirname(os.path.abspath(frame.f_code.co_filename)) == package:
        frame, depth = frame.f_back, depth + 1
    return depth


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
