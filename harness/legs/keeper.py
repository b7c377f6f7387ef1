"""Starts a server in a process group of its own and ends the group when its own parent is gone.

``python keeper.py SECONDS COMMAND...``: standard input is a pipe that only the harness holds open. It closes
when the harness ends in any way, kill -9 included; without this a killed harness would leave a server that
holds the port and the memory, and the next run would measure that one. Needs nothing but Python.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time


def end(group: int, process: subprocess.Popen[bytes], seconds: float) -> None:
    """SIGTERM to the group, SIGKILL to what is left of it after ``seconds``."""
    until = time.monotonic() + seconds
    _send(group, signal.SIGTERM)
    while time.monotonic() < until and (process.poll() is None or _send(group, 0)):
        time.sleep(0.02)
    _send(group, signal.SIGKILL)


def _send(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def main(seconds: float, command: list[str]) -> int:
    """Exit code of the server; 128 + N where signal N ended it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the pipe alone says when to end
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_default_signals,
        )
    except OSError as error:
        print(f"cannot be started: {command[0]}: {error.strerror}", flush=True)
        return 127

    def watch() -> None:
        while os.read(0, 4096):
            pass
        end(process.pid, process, seconds)

    threading.Thread(target=watch, daemon=True).start()
    code = process.wait()
    end(process.pid, process, min(seconds, 5.0))  # workers that outlive their parent
    return code if code >= 0 else 128 - code


def _default_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    left = main(float(sys.argv[1]), sys.argv[2:])
    sys.stdout.flush()
    os._exit(left)  # the watching thread still waits for the pipe
