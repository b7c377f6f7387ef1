"""Commented campaigns to start from: one for ATOM's server, one for any server on this machine.

Both are whole campaigns, which the tests load: an example that no longer parses would be the first thing a
newcomer sees.
"""

from __future__ import annotations

import json

HEAD = """\
# A campaign of accuracy legs: harness legs run {file}
# Every field that is not needed may be left out; relative paths start at this file's folder.

name = "{name}"          # results go to results/legs/{name} unless --dir says otherwise
base = "{base}"               # the leg that all others are held against
repeats = 3                 # samples of each leg; fewer than 2 tell nothing of run-to-run spread
order = "abba"              # abba: every second round turned round; abab; blocks
margin = 1.0                # points within which legs count as equivalent; fixed before measuring

[task]
name = "gsm8k"              # lm-eval's task
shots = {shots}                  # 3 or 5 shots stay below index_topk = 2048: no sparse selection
fewshot_seed = 1234
{data}
{limit}
max_length = 8192           # tokens of prompt and reply together
max_tokens = {tokens}           # tokens of a reply
temperature = 0.0
# stop = ["Question:"]      # default: those of the task

[client]
concurrency = {concurrency}            # requests at a time, one prompt each
timeout = 600.0             # seconds for a reply
retries = 3                 # further tries of a failed request
backoff = 1.0               # seconds before the second try, doubled for each further one

[server]
health = "/health"
start_timeout = {start}      # seconds until healthy
stop_timeout = 60.0
restarts = 0                # restarts of a crashed server within a sample

[certify]                   # what must hold of a leg before its accuracy means anything
index_topk = {topk:<15}# tokens that every prompt must exceed; 0: the model has no sparse indexer
empty = 0.0                 # shares of a sample's replies that may be empty,
truncated = 0.0             # cut at max_tokens,
stopped = 0.0               # or ended by a stop string before an answer; fixed before measuring
{patterns}
probe = 3                   # prompts asked several times: is a different text a difference? 0: no probe
probe_repeats = 3
probe_tokens = 256
"""

ATOM_PATTERNS = """\
# Lines of the server's log (regular expressions), of all legs; a leg adds its own. The required one shows
# that the log is the server's own, since a forbidden line that was never looked for proves nothing. ATOM
# names the FP4 indexer only where it falls back from it; what your build logs of its kernels is better.
required = ["Server started successfully and ready to accept requests"]
forbidden = ["Falling back to a bf16 KV cache"]"""

LOCAL_PATTERNS = """\
# required = ["listening"]  # lines of the server's log (regular expressions) that must be there,
# forbidden = ["fallback"]  # and that must not; a leg can add its own"""

ATOM_LEG = """
[legs.{name}]
command = [
  "python", "-m", "atom.entrypoints.openai_server",
  "--model", "amd/GLM-5.2-MXFP4", "--server-port", "8000",
  "--kv_cache_dtype", "fp8", "--index_cache_dtype", "{dtype}",
  "-tp", "4",{dcp} "--no-enable_prefix_caching",
]
base_url = "http://127.0.0.1:8000"
model = "amd/GLM-5.2-MXFP4"
indexer = "{dtype}"
version = ["git", "-C", "/app/ATOM", "describe", "--always", "--dirty"]
environment = {{ AITER_QUICK_REDUCE_QUANTIZATION = "INT4", AITER_USE_FLYDSL_MOE_SORTING = "1" }}
{forbidden}"""

ATOM_MORE = """
# Of a leg with MTP, its acceptance length beside its accuracy:
# acceptance = '\\[MTP Stats Interval\\] Average toks/fwd: ([0-9.]+)'
#
# A further leg with known_bad = true, a build with a fault for example, is the positive control: it shows
# what this campaign would have seen. Until one is seen, "no difference" may mean that nothing can be.
"""

FP8_FALLBACK = "Falling back to the FP8 indexer"
FOLDED = "falling back to the folded kernel"

LOCAL_LEG = """
[legs.{name}]
# A server that runs already; with command = ["python", "-m", "my_server", "--port", "{port}"] it is
# started for each sample and stopped after it.
base_url = "http://127.0.0.1:{port}"
model = "my-model"
# log = "{name}.log"            # log of a server that runs already: required and forbidden lines are looked
# log_from = "start"       # for from its start on, or ("now") in what it writes once a sample begins
"""


DATA = '# data = "gsm8k"          # folder with train.jsonl and test.jsonl; default: the hub'


def atom(file: str) -> str:
    """FP8 indexer against FP4, with and without decode context parallelism."""
    head = HEAD.format(
        file=file, name="atom-fp4", base="fp8", shots=20, tokens=512, concurrency=64,
        start="1800.0", data=DATA, topk=2048, patterns=ATOM_PATTERNS,
        limit="# limit = 100             # only the first questions: 100 cannot see 2 points",
    )  # fmt: skip
    dcp = ' "-dcp", "4",'
    legs = (
        ("fp8", "fp8", "", ()),
        ("fp4", "fp4", "", (FP8_FALLBACK,)),
        ("fp8-dcp4", "fp8", dcp, (FOLDED,)),
        ("fp4-dcp4", "fp4", dcp, (FP8_FALLBACK, FOLDED)),
    )
    made = [
        ATOM_LEG.format(name=name, dtype=dtype, dcp=more, forbidden=_forbidden(lines))
        for name, dtype, more, lines in legs
    ]
    return head + "".join(made) + ATOM_MORE


def _forbidden(lines: tuple[str, ...]) -> str:
    return f"forbidden = [{', '.join(map(json.dumps, lines))}]\n" if lines else ""


def local(file: str) -> str:
    """Two servers of any kind on this machine."""
    head = HEAD.format(
        file=file, name="local", base="a", shots=5, tokens=256, concurrency=4, start="120.0",
        data=DATA, topk=0, patterns=LOCAL_PATTERNS,
        limit="limit = 50",
    )  # fmt: skip
    return head + "".join(LOCAL_LEG.format(name=name, port=port) for name, port in (("a", 8001), ("b", 8002)))
