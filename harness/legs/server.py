"""A leg's server: started, waited for, watched, stopped; or found running at an address.

Contract: between `start` and `stop` the server that answers at the address is the one that was started.
The failure to fear is a server left over from another leg on the same port, which would pass the health
check and be measured under this leg's name; so an address that answers before the start is refused.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from harness.exits import CannotRun
from harness.legs import credentials, keeper
from harness.legs.campaign import Campaign

POLL = 0.05
"""Seconds between two looks at a server that is starting."""


class Ended(Exception):
    """The server ended, or never answered; the message says how."""


class Server:
    """One leg's server. Without a command it runs already, and is neither started nor stopped."""

    def __init__(self, campaign: Campaign, leg: str, log: Path) -> None:
        self._leg = campaign.legs[leg]
        self._folder = campaign.path(self._leg.folder or ".") if campaign.file else Path()
        self._start_timeout = campaign.start_timeout(leg)
        self._stop_timeout = campaign.server.stop_timeout
        self._health = campaign.health(leg)
        self.name, self.url, self.log = leg, self._leg.base_url, log
        self._process: subprocess.Popen[bytes] | None = None
        self._stream: IO[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it is healthy. Raises `Ended`, or `CannotRun` when the port is taken."""
        if self._leg.command is not None:
            if _listens(self.url):
                raise CannotRun(
                    f"leg {self.name}: something answers at {self.url} already; "
                    "the leg would measure that server instead of its own"
                )
            self._launch()
        self._wait()

    def _launch(self) -> None:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._stream = open(self.log, "ab")  # noqa: SIM115
        line = [sys.executable, "-I", keeper.__file__, str(self._stop_timeout), *(self._leg.command or ())]
        self._process = subprocess.Popen(
            line,
            cwd=self._folder,
            env={**os.environ, **self._leg.environment},
            stdin=subprocess.PIPE,
            stdout=self._stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _wait(self) -> None:
        until = time.monotonic() + self._start_timeout
        while not self.healthy():
            ended = self.ended()
            if ended is not None:
                raise Ended(f"{ended} before it was healthy")
            if time.monotonic() > until:
                raise Ended(f"it was not healthy within {self._start_timeout:g} s")
            time.sleep(POLL)

    def healthy(self) -> bool:
        """Whether the health path answers 200."""
        request = urllib.request.Request(self.url + self._health, headers=credentials.header(self._leg.login))
        try:
            with urllib.request.urlopen(request, timeout=5) as response:
                return bool(response.status == 200)
        except (OSError, HTTPException, ValueError):
            return False

    def ended(self) -> str | None:
        """How the started server ended; None while it runs, or when it was not started here."""
        if self._process is None or self._process.poll() is None:
            return None
        code = self._process.returncode
        if code > 128 and code - 128 in {int(known) for known in signal.Signals}:
            return f"it was ended by {signal.Signals(code - 128).name}"
        return f"it ended with exit code {code}"

    def settle(self, seconds: float = 2.0) -> str | None:
        """`ended`, once the process has had time to die."""
        until = time.monotonic() + seconds
        while self.ended() is None and self._process is not None and time.monotonic() < until:
            time.sleep(POLL)
        return self.ended()

    def stop(self) -> None:
        """End the server and all it started; the harmless thing to do twice."""
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
            try:
                process.wait(self._stop_timeout + 10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if self._stream is not None:
            self._stream.close()
            self._stream = None


def _listens(url: str) -> bool:
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with socket.create_connection((parts.hostname or "", port), timeout=2):
            return True
    except OSError:
        return False
