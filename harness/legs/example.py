"""Commented campaigns to start from: one for ATOM's server, one for any server on this machine.

Both are whole campaigns, which the tests load: an example that no longer parses would be the first thing a
newcomer sees.
"""

from __future__ import annotations

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
"""

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
"""

LOCAL_LEG = """
[legs.{name}]
# A server that runs already; with command = ["python", "-m", "my_server", "--port", "{port}"] it is
# started for each sample and stopped after it.
base_url = "http://127.0.0.1:{port}"
model = "my-model"
"""


DATA = '# data = "gsm8k"          # folder with train.jsonl and test.jsonl; default: the hub'


def atom(file: str) -> str:
    """FP8 indexer against FP4, with and without decode context parallelism."""
    head = HEAD.format(
        file=file, name="atom-fp4", base="fp8", shots=20, tokens=512, concurrency=64,
        start="1800.0", data=DATA,
        limit="# limit = 100             # only the first questions: 100 cannot see 2 points",
    )  # fmt: skip
    dcp = ' "-dcp", "4",'
    legs = (("fp8", "fp8", ""), ("fp4", "fp4", ""), ("fp4-dcp4", "fp4", dcp))
    return head + "".join(ATOM_LEG.format(name=name, dtype=dtype, dcp=more) for name, dtype, more in legs)


def local(file: str) -> str:
    """Two servers of any kind on this machine."""
    head = HEAD.format(
        file=file, name="local", base="a", shots=5, tokens=256, concurrency=4, start="120.0",
        data=DATA,
        limit="limit = 50",
    )  # fmt: skip
    return head + "".join(LOCAL_LEG.format(name=name, port=port) for name, port in (("a", 8001), ("b", 8002)))
