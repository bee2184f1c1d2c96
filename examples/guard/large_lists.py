#!/usr/bin/env python3
"""Applies and undoes policies with large lists, and prints how long that takes.

As root, in a network of its own:

    unshare --net python3 examples/guard/large_lists.py millstream

The journal of changes is in a folder of its own, too; nothing else is touched. Python 3.9 or later is enough.
"""

import os, resource, socket, struct, subprocess, sys, tempfile, time

POLICY = 'resolvers = ["192.0.2.53"]\ndeny = ["@many"]\n\n[lists]\nmany = "many.txt"\n\n[services.ssh]\n'


def address(number):
    return socket.inet_ntoa(struct.pack("!I", (10 << 24) + number))


def seconds(*command):
    begun = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return time.monotonic() - begun


def measure(program, ranges):
    with open("host.toml", "w") as policy, open("many.txt", "w") as many:
        policy.write(POLICY)
        many.writelines(f"{address(8 * n)}-{address(8 * n + 2)}\n" for n in range(ranges))
    applied = seconds(program, "guard", "apply", "host.toml", "--yes")
    undone = seconds(program, "guard", "undo")
    # Of the largest process so far, in units of 1,024 bytes.
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 / 1e9
    print(f"{ranges:,} ranges: apply {applied:.1f} s, undo {undone:.1f} s, at most {memory:.1f} GB a process", flush=True)


def main(program):
    program = os.path.abspath(program) if "/" in program else program
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MILLSTREAM_HOME"] = folder
        os.chdir(folder)
        for ranges in [250_000, 1_000_000]:
            measure(program, ranges)


if __name__ == "__main__":
    main(*sys.argv[1:])
