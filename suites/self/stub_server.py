"""A scripted completions server on loopback: it answers sums, and misbehaves exactly as told.

``python stub_server.py PORT SCRIPT.json`` runs one as a process (so that it can die); `Stub` runs one in
threads of the test. The script names behaviours by a piece of the prompt's last question, which no order
of concurrent requests can change; only ``die_at`` counts requests.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

SUM = re.compile(r"What is (\d+) plus (\d+)\?\s*Answer:$")


@dataclass
class Script:
    """What the server does.

    ``questions``: piece of the last question to a behaviour (keys: text, finish_reason, status, choices,
    usage, id, latency, raw, drop, times: only the first so many requests). ``default``: for the rest.
    ``die_at``: number of the completions request that kills the process, after printing ``die_with``.
    ``start``: seconds before it listens. ``sick_after``: health fails after so many requests.
    ``say``: printed at start. ``deaf``: SIGTERM is ignored.
    """

    questions: dict[str, dict[str, Any]] = field(default_factory=dict)
    default: dict[str, Any] = field(default_factory=dict)
    latency: float = 0.0
    die_at: int | None = None
    die_with: list[str] = field(default_factory=list)
    die_signal: int = 9
    exit_at_start: int | None = None
    start: float = 0.0
    sick_after: int | None = None
    say: list[str] = field(default_factory=list)
    deaf: bool = False
    asked: str | None = None


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    server: Listening

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.server.headers.append(dict(self.headers.items()))
        script = self.server.script
        sick = script.sick_after is not None and self.server.count >= script.sick_after
        known = self.path in ("/health", "/v1/models")
        self._send(404 if not known else 503 if sick else 200, b'{"status": "ok"}')

    def do_POST(self) -> None:
        self.server.headers.append(dict(self.headers.items()))
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path != "/v1/completions":
            self._send(404, b'{"error": "no such path"}')
            return
        number = self.server.counted(body)
        behaviour = self.server.behaviour(body["prompt"])
        with self.server.answering():
            time.sleep(behaviour.get("latency", self.server.script.latency))
        if self.server.script.die_at == number:
            self.server.die()
        if behaviour.get("drop"):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        status = behaviour.get("status", 200)
        if "raw" in behaviour or status != 200:
            self._send(status, behaviour.get("raw", "scripted failure").encode())
            return
        self._send(200, json.dumps(reply(number, body, behaviour)).encode())

    def _send(self, status: int, content: bytes) -> None:
        head = f"HTTP/1.1 {status} Scripted\r\nContent-Type: application/json\r\n"
        self.wfile.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)


def reply(number: int, body: dict[str, Any], behaviour: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a completion."""
    text = behaviour["text"] if "text" in behaviour else answer(body["prompt"])
    choice = {"index": 0, "text": text, "finish_reason": behaviour.get("finish_reason", "stop")}
    tokens = len((text or "").split())
    usage = {"prompt_tokens": len(body["prompt"].split()), "completion_tokens": tokens}
    made = {
        "id": behaviour.get("id", f"cmpl-{number}"),
        "choices": [dict(choice, index=index) for index in range(behaviour.get("choices", 1))],
        "usage": behaviour.get("usage", usage),
    }
    return {key: value for key, value in made.items() if value != "absent"}


def answer(prompt: str) -> str:
    """The right answer to a sum, in the form of GSM8K."""
    found = SUM.search(prompt)
    if found is None:
        return " I do not know."
    one, two = int(found[1]), int(found[2])
    return f" {one} + {two} = {one + two}\n#### {one + two}"


class Listening(ThreadingHTTPServer):
    """The server with its script and what it was asked."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, port: int, script: Script) -> None:
        self.script = script
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self._times: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._now = self.most = 0
        super().__init__(("127.0.0.1", port), Handler)

    @property
    def count(self) -> int:
        return len(self.bodies)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is none of a stub's concern."""

    def counted(self, body: dict[str, Any]) -> int:
        with self._lock:
            self.bodies.append(body)
            if self.script.asked:
                with open(self.script.asked, "a", encoding="utf-8") as stream:
                    stream.write(json.dumps(body["prompt"][-40:]) + "\n")
            return len(self.bodies)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Counts the requests that are answered at one time; ``most`` is the highest count."""
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        yield
        with self._lock:
            self._now -= 1

    def behaviour(self, prompt: str) -> dict[str, Any]:
        last = prompt.rsplit("Question:", 1)[-1]
        for piece, found in self.script.questions.items():
            if piece in last:
                with self._lock:
                    self._times[piece] += 1
                    if self._times[piece] <= found.get("times", 1 << 30):
                        return {**self.script.default, **found}
        return self.script.default

    def die(self) -> None:
        print(*self.script.die_with, sep="\n", flush=True)
        os.kill(os.getpid(), self.script.die_signal)
        time.sleep(60)


class Stub:
    """A server in threads: ``with Stub(Script(...)) as stub: ... stub.url ... stub.bodies``."""

    def __init__(self, script: Script | None = None) -> None:
        self._listening = Listening(0, script or Script())
        self.port: int = self._listening.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._listening.serve_forever, args=(0.02,), daemon=True)

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return self._listening.bodies

    @property
    def headers(self) -> list[dict[str, str]]:
        """Of every request, health checks too."""
        return self._listening.headers

    @property
    def most(self) -> int:
        """Most requests that were answered at one time."""
        return self._listening.most

    def __enter__(self) -> Stub:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown()
        self._listening.server_close()
        self._thread.join()


def free_port() -> int:
    """A port that nobody listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main(port: int, file: Path) -> None:
    script = Script(**json.loads(file.read_text(encoding="utf-8")))
    if script.deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print(*script.say, sep="\n", flush=True)
    if script.exit_at_start is not None:
        print(*script.die_with, sep="\n", flush=True)
        sys.exit(script.exit_at_start)
    time.sleep(script.start)
    Listening(port, script).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
