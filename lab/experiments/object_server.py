"""Serves the files of a folder as objects: ETag, If-Match, ranges, and a delay before each answer.

usage: object_server.py PORT FOLDER

The delay is in the path: /20/NAME is the file NAME, 20 ms later than /0/NAME.
"""

import http.server
import os
import re
import sys
import time


class Objects(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, with_body):
        delay, _, name = self.path.lstrip("/").partition("/")
        time.sleep(int(delay) / 1000)
        try:
            file = open(os.path.join(sys.argv[2], os.path.basename(name)), "rb")
        except OSError:
            return self.head(404, 0)
        with file:
            facts = os.fstat(file.fileno())
            tag = f'"{facts.st_mtime_ns:x}-{facts.st_size:x}"'
            if self.headers.get("If-Match", tag) != tag:
                return self.head(412, 0)
            wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
            start, end = (int(wanted[1]), min(int(wanted[2]) + 1, facts.st_size)) if wanted else (0, facts.st_size)
            self.head(206 if wanted else 200, end - start, ("ETag", tag), (
                "Content-Range", f"bytes {start}-{end - 1}/{facts.st_size}") if wanted else None)
            while with_body and start < end:
                start += os.sendfile(self.connection.fileno(), file.fileno(), start, end - start)

    def head(self, status, length, *more):
        self.send_response(status)
        self.send_header("Content-Length", str(length))
        for name, value in filter(None, more):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Objects).serve_forever()
