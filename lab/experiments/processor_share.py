"""Holds programs to a share of a processor, by control groups."""

import os


def share(name, percent):
    """Makes a control group whose processes together get so many percent of one processor."""
    first = "/sys/fs/cgroup/cpu"
    is_first = os.path.isdir(first)
    path = os.path.join(first if is_first else "/sys/fs/cgroup", f"millstream-lab-{os.getpid()}-{name}")
    limits = {"cpu.cfs_period_us": "100000", "cpu.cfs_quota_us": str(percent * 1000)}
    if not is_first:
        write("/sys/fs/cgroup/cgroup.subtree_control", "+cpu")
        limits = {"cpu.max": f"{percent * 1000} 100000"}
    os.mkdir(path)
    for file, value in limits.items():
        write(os.path.join(path, file), value)
    return path


def why_none(percent):
    """Why no such group can be made; None if one can."""
    try:
        os.rmdir(share("probe", percent))
    except OSError as error:
        return f"no control group for a share of a processor: {error}"
    return None


def held(group, command):
    """A command that is in the group before it begins, and with it all that it starts."""
    return ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', group, *command]


def write(path, text):
    with open(path, "w") as file:
        file.write(text)
