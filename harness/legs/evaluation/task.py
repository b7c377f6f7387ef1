"""Prompts and scores of an lm-eval task, from lm-eval's own configuration of it.

Contract: `load` builds all prompts once, in the order of the questions. lm-eval draws the few shots of each
question from one generator, so building only the questions still missing would give them other shots; that
is how a resumed sample would silently ask something else. Only where the data come from may differ from
lm-eval's task: a folder with ``train.jsonl`` and ``test.jsonl`` instead of the hub.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.exits import CannotRun, InputError
from harness.legs import sections as asked
from harness.legs.evaluation.library import (
    ConfigurableTask,
    Instance,
    TaskManager,
    UndefinedError,
    hub,
    load_yaml,
    tasks_folder,
)
from harness.legs.evaluation.rows import SPLITS, split_of
from harness.legs.shown import short


class PreparedTask(ConfigurableTask):  # type: ignore[misc, unused-ignore]
    """lm-eval's task whose prompts are built once, and whose data may lie in a folder."""

    def __init__(self, config: dict[str, Any], folder: Path | None) -> None:
        self._folder = folder
        self._built = False
        super().__init__(config=config)

    def download(self, dataset_kwargs: dict[str, Any] | None = None, **options: Any) -> None:
        if self._folder is None:
            with hub():
                super().download(dataset_kwargs, **options)
        else:
            self.dataset = {split: split_of(self._folder / name) for split, name in SPLITS.items()}

    def build_all_requests(self, **options: Any) -> None:
        """Build all prompts the first time, and only forget the replies every other time."""
        if not self._built:
            with contextlib.redirect_stderr(io.StringIO()):  # a bar of lm-eval's own
                super().build_all_requests(**options)
            self._built = True
        for instance in self.instances:
            instance.resps, instance.filtered_resps = [], {}


@dataclass(frozen=True)
class Question:
    """One item: what the server is sent, and what it should answer."""

    id: int
    prompt: str
    target: str

    @property
    def prompt_hash(self) -> str:
        return hashlib.sha256(self.prompt.encode()).hexdigest()


@dataclass(frozen=True)
class Scored:
    """A reply through both filters."""

    strict: str
    flexible: str
    strict_correct: bool
    flexible_correct: bool


@dataclass(frozen=True)
class Prepared:
    """A task with its prompts built. ``by_id``: lm-eval's requests by question."""

    task: PreparedTask
    settings: asked.Task
    questions: tuple[Question, ...]
    by_id: dict[int, Any]

    @property
    def name(self) -> str:
        return str(self.task.config.task)

    @cached_property
    def of(self) -> dict[int, Question]:
        """The questions by their id."""
        return {question.id: question for question in self.questions}

    @property
    def generation(self) -> dict[str, Any]:
        """Settings of every request, stops included."""
        return dict(self.task.config.generation_kwargs)

    def score(self, question: int, reply: str) -> Scored:
        """Both extractions of one reply, by lm-eval's own filters and metric."""
        one = self.by_id[question]
        copy = Instance(one.request_type, one.doc, one.arguments, one.idx, one.metadata, [reply])
        for ensemble in self.task._filters:
            ensemble.apply([copy])
        words, right = {}, {}
        for which, name in (("strict", self.settings.strict), ("flexible", self.settings.flexible)):
            words[which] = str(copy.filtered_resps[name])
            found = self.task.process_results(one.doc, [copy.filtered_resps[name]])
            right[which] = bool(float(found["exact_match"]) == 1.0)
        return Scored(words["strict"], words["flexible"], right["strict"], right["flexible"])

    def prompts_hash(self) -> str:
        """One digest of all prompts in order, as imported runs have it."""
        digest = hashlib.sha256()
        for question in sorted(self.questions, key=lambda one: one.id):
            digest.update(f"{question.id} {question.prompt_hash}\n".encode())
        return digest.hexdigest()


def load(settings: asked.Task, folder: Path | None) -> Prepared:
    """The task with all its prompts. Raises `InputError` for a task or shots that cannot be had."""
    config = configuration(settings.name)
    check_filters(config, settings)
    own = config.get("generation_kwargs") or {}  # a limit of lm-eval's own would go before the campaign's
    kept = {name: own[name] for name in own if name == "until" or name not in asked.TAKEN}
    config["generation_kwargs"] = {**kept, **generation(settings)}
    try:
        task = PreparedTask(config, folder)
    except MISFITS as error:
        if folder is None:
            raise
        raise InputError(_misfit(settings, error)) from None
    except (ConnectionError, OSError) as error:
        raise CannotRun(
            f"task.data names no folder, and the hub does not give the data of task {settings.name} "
            f"({type(error).__name__}); set task.data, or --data, to a folder with train.jsonl and test.jsonl"
        ) from None
    check(task, settings)
    task.set_config("num_fewshot", settings.shots)
    task.set_fewshot_seed(settings.fewshot_seed)
    try:
        task.build_all_requests(limit=settings.limit, rank=0, world_size=1)
        questions = tuple(
            Question(int(one.doc_id), str(one.args[0]), str(task.doc_to_target(one.doc)))
            for one in task.instances
        )
    except MISFITS as error:
        raise InputError(_misfit(settings, error)) from None
    return Prepared(task, settings, questions, {int(one.doc_id): one for one in task.instances})


MISFITS = (UndefinedError, LookupError, TypeError, ValueError)
"""What lm-eval raises for rows that are not its task's."""


def _misfit(settings: asked.Task, error: Exception) -> str:
    return f"task.data has no questions of task {settings.name}: {error}"


def generation(settings: asked.Task) -> dict[str, Any]:
    """What the campaign sets of lm-eval's generation settings."""
    stops = {} if settings.stop is None else {"until": list(settings.stop)}
    fixed = {"temperature": settings.temperature, "max_gen_toks": settings.max_tokens}
    sampled = {"do_sample": settings.temperature > 0}
    return {**fixed, **sampled, **stops, **settings.generation}


def configuration(name: str) -> dict[str, Any]:
    """lm-eval's own configuration of a task. Raises `InputError` where there is no such task."""
    entry = _entry(name)
    config = dict(load_yaml(entry.yaml_path)) if entry.yaml_path else dict(entry.cfg or {})
    if "class" in config or config.get("output_type") != "generate_until":
        raise InputError(
            f"task.name is {short(name)}, allowed is an lm-eval task that generates until a stop"
        )
    for structural in ("tag", "group", "task_list"):
        config.pop(structural, None)
    return config


def _entry(name: str) -> Any:
    """Where lm-eval has the task; its own folder is looked at first, since indexing all takes seconds."""
    own = Path(tasks_folder) / name
    if "/" not in name and own.is_dir():
        found = TaskManager(include_defaults=False, include_path=str(own)).task_index.get(name)
        if found is not None:
            return found
    found = TaskManager().task_index.get(name)
    if found is None:
        raise InputError(f"task.name is {short(name)}, allowed is the name of an lm-eval task")
    return found


def check_filters(config: dict[str, Any], settings: asked.Task) -> None:
    """Raises `InputError` for a filter that the task lacks; told before any data are looked for."""
    names = [str(one["name"]) for one in config.get("filter_list") or ()] or ["none"]  # as lm-eval has it
    for field in ("strict", "flexible"):
        if getattr(settings, field) not in names:
            raise InputError(
                f"task.{field} is {short(getattr(settings, field))}, allowed are {', '.join(names)} "
                f"(the filters of {settings.name})"
            )


def check(task: PreparedTask, settings: asked.Task) -> None:
    """Raises `InputError` unless shots and questions can be had."""
    available = len(list(task.fewshot_docs() or []))
    if settings.shots and settings.shots + 1 > available:
        raise InputError(
            f"task.shots is {settings.shots}, allowed are 0 to {max(0, available - 1)}: "
            f"the data have {available} rows to draw from"
        )
    if settings.limit is not None and settings.limit > len(task.eval_docs):
        raise InputError(f"task.limit is {settings.limit}, allowed are 1 to {len(task.eval_docs)}")
