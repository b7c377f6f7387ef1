"""The two commands that ``harness bench legs`` compares, and the data, task and campaign that they read.

lm-eval's command line reads its own gsm8k task with another data set, since it cannot be given a folder;
both get the same rows, shots, token limit and concurrency.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

QUESTIONS, LATENCY, CONCURRENCY, REPEATS, SHOTS, TOKENS = 60, 0.2, 4, 3, 5, 64
PLAIN, OURS, PROBE_REPEATS = "lm_eval", "harness legs run", 3

TASK = """\
include: {gsm8k}
task: sums
dataset_path: json
dataset_name: null
dataset_kwargs: {{data_files: {{train: {folder}/train.jsonl, test: {folder}/test.jsonl}}}}
"""

CAMPAIGN = """\
name = "sums"
base = "stub"
repeats = 1
[task]
data = "."
shots = {shots}
max_tokens = {tokens}
[client]
concurrency = {concurrency}
[certify]
index_topk = 0
probe = {probe}
probe_repeats = {repeats}
[legs.stub]
model = "stub"
base_url = "{url}"
"""


@dataclass(frozen=True)
class Setting:
    """What is measured. ``latency`` in seconds a reply; ``probe``: prompts of the determinism probe."""

    questions: int = QUESTIONS
    latency: float = LATENCY
    concurrency: int = CONCURRENCY
    repeats: int = REPEATS
    probe: int = 0

    def requests(self, command: str) -> int:
        """Requests that one run of ``command`` sends."""
        probes = min(self.probe, self.questions) * PROBE_REPEATS
        return self.questions + (0 if command == PLAIN else probes)


def prepare(setting: Setting, folder: Path, url: str) -> dict[str, list[str]]:
    """Data, task and campaign in ``folder``; the two commands, ``{number}`` for the run's number."""
    from harness.legs.evaluation.library import tasks_folder

    (folder / "train.jsonl").write_text(sums(SHOTS + 1, 0), encoding="utf-8")
    (folder / "test.jsonl").write_text(sums(setting.questions, 100), encoding="utf-8")
    (folder / "task").mkdir()
    task = TASK.format(gsm8k=Path(tasks_folder) / "gsm8k" / "gsm8k.yaml", folder=folder)
    (folder / "task" / "sums.yaml").write_text(task, encoding="utf-8")
    campaign = CAMPAIGN.format(
        shots=SHOTS, tokens=TOKENS, concurrency=setting.concurrency, url=url,
        probe=setting.probe, repeats=PROBE_REPEATS,
    )  # fmt: skip
    (folder / "campaign.toml").write_text(campaign, encoding="utf-8")
    model = (
        f"model=stub,base_url={url}/v1/completions,num_concurrent={setting.concurrency},"
        "tokenizer_backend=none,tokenized_requests=False,max_length=8192"
    )
    plain = [
        "lm_eval", "run", "--model", "local-completions", "--model_args", model, "--tasks", "sums",
        "--include_path", str(folder / "task"), "--num_fewshot", str(SHOTS), "--batch_size", "1",
        "--gen_kwargs", f"max_gen_toks={TOKENS}", "--output_path", "plain-{number}", "--log_samples",
    ]  # fmt: skip
    ours = ["harness", "legs", "run", "campaign.toml", "--dir", "ours-{number}"]
    return {
        PLAIN: [sys.executable, "-m", *plain],
        OURS: [sys.executable, "-m", *ours],
    }


def sums(count: int, start: int) -> str:
    """Rows in GSM8K's format, from sum number ``start`` on."""
    rows = (
        {"question": f"What is {i} plus {i + 1}?", "answer": f"{i} + {i + 1} = {2 * i + 1}\n#### {2 * i + 1}"}
        for i in range(start, start + count)
    )
    return "".join(json.dumps(row) + "\n" for row in rows)
