"""lm-eval and what it brings along, imported once and kept quiet; every name of it that is used is here.

What it prints (progress bars, hints on how to call it) would tear the live display, and its warnings at
import concern its own dependencies. What it raises is left alone.
"""

from __future__ import annotations

import logging
import os
import socket
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from typing import Any
from urllib.parse import urlsplit

os.environ.setdefault("TQDM_DISABLE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import datasets
    import huggingface_hub
    from jinja2 import UndefinedError
    from lm_eval import evaluator, tasks
    from lm_eval.api.instance import Instance
    from lm_eval.api.registry import register_model
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.models.openai_completions import LocalCompletionsAPI
    from lm_eval.tasks._yaml_loader import load_yaml

__all__ = [
    "ConfigurableTask", "Instance", "LocalCompletionsAPI", "TaskManager", "UndefinedError", "dataset",
    "evaluate", "hub", "load_yaml", "register_model", "tasks_folder", "version",
]  # fmt: skip

for _name in (
    "lm_eval", "lm-eval", "datasets", "huggingface_hub", "httpx", "httpcore", "filelock", "fsspec",
):  # fmt: skip
    logging.getLogger(_name).setLevel(logging.ERROR)
datasets.disable_progress_bars()

TaskManager = tasks.TaskManager
evaluate = evaluator.evaluate
tasks_folder = str(tasks.__path__[0])


def version() -> str:
    """lm-eval's version; every score depends on it."""
    return metadata.version("lm_eval")


@contextmanager
def hub() -> Iterator[None]:
    """While data are had from the hub: what is cached is taken at once where the hub cannot be found.

    Without this the hub's client asks for a name that nobody knows six times, 25 seconds long, before it
    looks into its cache. Where a proxy is set, only that one knows names.
    """
    address = urlsplit(huggingface_hub.constants.ENDPOINT)
    before = huggingface_hub.constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE
    try:
        if not urllib.request.getproxies():
            socket.getaddrinfo(address.hostname, address.port or 443)
    except OSError:
        huggingface_hub.constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    try:
        yield
    finally:
        huggingface_hub.constants.HF_HUB_OFFLINE, datasets.config.HF_HUB_OFFLINE = before


def dataset(rows: list[dict[str, Any]]) -> Any:
    """Rows in the form in which lm-eval's tasks read a split."""
    return datasets.Dataset.from_list(rows)
