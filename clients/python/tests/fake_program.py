"""Plays the program for the tests: reads its input, records it, and answers like `millstream load`.

FAKE holds what it is to do, as JSON. Whatever it does, it notes its arguments beside what it records.
"""

import json
import os
import signal
import subprocess
import sys
import time
import zlib

PLAN = json.loads(os.environ.get("FAKE", "{}"))


def event(name, **members):
    print(json.dumps({"event": name, **members}), file=sys.stderr, flush=True)


def touch(name):
    if name:
        open(name, "w").close()


def await_file(name):
    while name and not os.path.exists(name):
        time.sleep(0.01)


def note_call(**members):
    if PLAN.get("record"):
        with open(PLAN["record"] + ".args", "w") as file:
            json.dump({"args": sys.argv[1:], "db": os.environ.get("MILLSTREAM_DB"), "pid": os.getpid(), **members}, file)


class Stopped(Exception):
    pass


def stop(number, frame):
    raise Stopped(number)


def receipt(read, rejected, finished, lines):
    answer = {"collection": "public.t", "load_id": 7, "read": read, "inserted": read - rejected, "rejected": rejected}
    answer |= {"seconds": 1.0, "rows_per_second": 10.0, "durability": "durable", "finished": finished, "new": [1]}
    print(json.dumps(answer, indent=2), flush=True)


def main():
    record = PLAN.get("record")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN if PLAN.get("deaf") else stop)
    note_call()
    if PLAN.get("leaves"):
        # A process that keeps the pipes open after the end.
        left = subprocess.Popen(["sleep", "1000"])
        with open(record + ".left", "w") as file:
            file.write(str(left.pid))
    event("note", text="target: postgres://somewhere")
    sys.stderr.write("x" * PLAN.get("noise", 0) + "\n")
    sys.stderr.flush()
    if PLAN.get("error"):
        print(json.dumps(PLAN["error"]), file=sys.stderr, flush=True)
        return PLAN["error"]["code"]
    if PLAN.get("answer") is not None:
        print(json.dumps(PLAN["answer"]))
        return PLAN.get("code", 0)
    if PLAN.get("text") is not None:
        print(PLAN["text"])
        return 0
    count = lines = 0
    unframed = None
    out = open(record, "wb", buffering=0) if record else None
    code = None
    try:
        await_file(PLAN.get("connected"))
        if not PLAN.get("silent"):
            event("reading")
            event("started", load_id=7, lanes=2)
        touch(PLAN.get("started"))
        await_file(PLAN.get("go"))
        while True:
            data = os.read(0, 1 << 16)
            if not data:
                break
            count += len(data)
            if out:
                out.write(data)
            if unframed is None:
                unframed = zlib.decompressobj(31) if data[:2] == b"\x1f\x8b" else False
            text = unframed.decompress(data) if unframed else data
            lines += text.count(b"\n")
            event("progress", documents=lines, rejected=0, bytes=count, input_bytes=count, text=f"{lines} documents")
            if lines >= PLAN.get("kill_after", 1 << 60):
                os.kill(os.getpid(), signal.SIGKILL)
            if lines >= PLAN.get("fail_after", 1 << 60):
                print(json.dumps({"error": "disk full", "causes": [], "code": 2, "load_id": 7}), file=sys.stderr)
                code = 2
                break
        touch(PLAN.get("read"))
        await_file(PLAN.get("end"))
    except Stopped as stopped:
        code = 128 + stopped.args[0]
        note_call(signal=stopped.args[0])
    broken = code is None and bool(unframed) and not unframed.eof
    rejected = PLAN.get("rejected", 0) + broken
    receipt(lines + broken, rejected, code is None and not broken, lines)
    if broken:
        problem = "the source is damaged: the compressed data ends too early"
        print(json.dumps({"error": problem, "causes": [], "code": 2, "load_id": 7}), file=sys.stderr)
        code = 2
    return code or (1 if rejected else 0)


if __name__ == "__main__":
    sys.exit(main())
