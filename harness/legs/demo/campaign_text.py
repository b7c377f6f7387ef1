"""The demo's campaign as a commented file, to be edited and run again with ``harness legs run``.

Contract: what is written is a whole campaign that `harness.legs.campaign.load` takes. Each leg has a port of
its own, so that a server that is slow to leave is never measured under the next leg's name.
"""

from __future__ import annotations

import json
import socket
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness.legs.demo.index import KINDS

HEAD = """\
# The campaign of 'harness legs demo'. Edit it, then: harness legs run {file} --dir {folder}
# A miniature: a model of 135M parameters that was trained without an indexer. It measures no product.

name = "demo"
base = "fp8"                # the leg that all others are held against
repeats = {samples}                 # samples of each leg
order = "abba"
margin = 5.0                # points; a demo of this size cannot show less

[task]
name = "gsm8k"              # lm-eval's task: its prompts, its filters
shots = {shots}
data = {data}
limit = {questions}
max_length = {length}
max_tokens = {tokens}

[client]
concurrency = {slots}             # the server batches what it has
timeout = 3600.0            # a long prompt takes minutes on a busy machine

[server]
start_timeout = 300.0
stop_timeout = 10.0

[certify]
index_topk = {topk}             # every prompt must be longer: else nothing is selected
truncated = {cut}             # the share of replies that a small model may leave without an end
empty = {cut}
stopped = {cut}
probe = {probe}                   # prompts asked again and again: does the server repeat itself?
probe_repeats = 2
probe_tokens = 8
"""

LEG = """
[legs.{name}]
command = [
  {python}, "-m", "harness.legs.demo.server", "--model", "model",
  "--index", "{name}", "--index-topk", "{topk}", "--port", "{port}",
  "--slots", "{slots}", "--max-length", "{length}",
]
base_url = "http://127.0.0.1:{port}"
model = "SmolLM2-135M-Instruct"
indexer = "{name}"
environment = {{ OMP_WAIT_POLICY = "PASSIVE", HF_HUB_OFFLINE = "1" }}
required = ["index cache: {name} "]     # the server says which index it uses
"""

CONTROL = "known_bad = true            # wrong on purpose: does the campaign see it?\n"


@dataclass(frozen=True)
class Shape:
    """How large a campaign is.

    ``cut``: share of replies without an answer that is allowed; ``probe``: prompts of the probe.
    """

    legs: tuple[str, ...]
    data: str
    questions: int
    samples: int
    shots: int
    topk: int
    tokens: int
    length: int
    slots: int
    cut: float
    probe: int


SMALL = Shape(tuple(KINDS), "data", 8, 3, shots=3, topk=64, tokens=24, length=512, slots=8, cut=0.25, probe=1)
"""Problems of `harness.legs.demo.problems`."""

GSM8K = Shape(("fp8",), "", 24, 1, shots=20, topk=2048, tokens=192, length=8192, slots=2, cut=0.5, probe=0)
"""GSM8K as models are judged on it: 20 shots, prompts longer than 2048 tokens."""


def text(shape: Shape, file: Path) -> str:
    """The file's content; relative paths start at its folder."""
    fields = {name: getattr(shape, name) for name in ("questions", "samples", "shots", "topk", "tokens")}
    fields |= {name: getattr(shape, name) for name in ("length", "slots", "cut", "probe")}
    head = HEAD.format(**fields, data=json.dumps(shape.data), file=file, folder=file.parent)
    ports = free_ports(len(shape.legs))
    return head + "".join(
        LEG.format(**fields, name=name, port=port, python=json.dumps(sys.executable))
        + CONTROL * (name == "broken")
        for name, port in zip(shape.legs, ports, strict=True)
    )


def free_ports(count: int) -> list[int]:
    """Different ports of this machine that nobody listens on just now."""
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in found:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in found]
