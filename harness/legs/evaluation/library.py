"""lm-eval and what it brings along, imported once and kept quiet; every name of it that is used is here.

What it prints (progress bars, hints on how to call it) would tear the live display, and its warnings at
import concern its own dependencies. What it raises is left alone.
"""

from __future__ import annotations

import logging
import os
import warnings
from importlib import metadata
from typing import Any

os.environ.setdefault("TQDM_DISABLE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import datasets
    from jinja2 import UndefinedError
    from lm_eval import evaluator, tasks
    from lm_eval.api.instance import Instance
    from lm_eval.api.registry import register_model
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    from lm_eval.tasks._yaml_loader import load_yaml

__all__ = [
    "ConfigurableTask", "Instance", "LocalCompletionsAPI", "TaskManager", "UndefinedError", "dataset",
    "evaluate", "load_yaml", "register_model", "tasks_folder", "version",
]  # fmt: skip

for _name in ("lm_eval", "lm-eval", "datasets", "httpx", "httpcore", "filelock", "fsspec"):
    logging.getLogger(_name).setLevel(logging.ERROR)
datasets.disable_progress_bars()

TaskManager = tasks.TaskManager
evaluate = evaluator.evaluate
tasks_folder = str(tasks.__path__[0])


def version() -> str:
    """lm-eval's version; every score depends on it."""
    return metadata.version("lm_eval")


def dataset(rows: list[dict[str, Any]]) -> Any:
    """Rows in the form in which lm-eval's tasks read a split."""
    return datasets.Dataset.from_list(rows)
