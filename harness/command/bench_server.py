"""A completions server of fixed latency that adds the two numbers it is asked for; it counts requests.

Every request waits as long, however many there are, so that time beyond the waiting is the client's.
"""

from __future__ import annotations

import json
import math
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SUM = re.compile(r"What is (\d+) plus (\d+)\?\s*Answer:$")


class Adding(ThreadingHTTPServer):
    """The server; ``latency`` in seconds, ``count``: completions since `begin`.

    ``first`` and ``last``: when the first of them came and the last was answered (`time.perf_counter`).
    """

    daemon_threads = True
    request_queue_size = 512

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self._lock = threading.Lock()
        self.begin()
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def begin(self) -> None:
        """Forget what was asked so far."""
        self.count, self.first, self.last = 0, math.inf, -math.inf

    def came(self) -> int:
        """A request came; its number from 1."""
        with self._lock:
            self.count += 1
            self.first = min(self.first, time.perf_counter())
            return self.count

    def went(self) -> None:
        """A reply is about to go."""
        with self._lock:
            self.last = max(self.last, time.perf_counter())


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Adding

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are counted, not told."""

    def do_GET(self) -> None:
        self._send({"status": "ok"})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        number, text = self.server.came(), answer(prompt_of(body))
        time.sleep(self.server.latency)
        self.server.went()
        usage = {"prompt_tokens": 1, "completion_tokens": 1}
        choice = {"index": 0, "text": text, "finish_reason": "stop"}
        self._send({"id": f"cmpl-{number}", "choices": [choice], "usage": usage})

    def _send(self, content: dict[str, object]) -> None:
        body = json.dumps(content).encode()
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        self.wfile.write(head.encode() + body)


def prompt_of(body: dict[str, object]) -> str:
    """The one prompt of a request, which lm-eval sends as a text or as a list of one."""
    prompt = body["prompt"]
    return str(prompt[0] if isinstance(prompt, list) else prompt)


def answer(prompt: str) -> str:
    """The sum that the last question asks for, in GSM8K's form."""
    found = SUM.search(prompt)
    total = int(found[1]) + int(found[2]) if found else 0
    return f" It is {total}.\n#### {total}"


@contextmanager
def serving(latency: float) -> Iterator[Adding]:
    """A server that answers while the block runs."""
    server = Adding(latency)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
