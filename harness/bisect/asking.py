"""Whom a question is put to: a commit of a repository, or a version of a package; answers are kept.

How this would fail silently: an answer that is taken for that of another commit; so what is asked is made
ready in the same place that asks it, and the surroundings that it is kept under are those it was asked in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from harness.bisect.cache import Cache, digest, surroundings
from harness.bisect.evaluating import Evaluator
from harness.bisect.judging import Answer
from harness.bisect.packages import Package
from harness.bisect.repository import Commit, Repository, check_out, restore


class Source(ABC):
    """What is searched, by names: hashes of commits, or versions."""

    @abstractmethod
    def answer(self, name: str, asked: str) -> Answer:
        """The answer of ``name`` to ``asked`` (see `Evaluator.ask`)."""

    @abstractmethod
    def describe(self, name: str, *, files: bool = False) -> Commit:
        """What ``name`` is."""

    @abstractmethod
    def ready(self, name: str) -> Evaluator:
        """Make ``name`` the one that is asked."""


def kept(cache: Cache, evaluator: Evaluator, name: str, asked: str) -> Answer:
    """The answer on disk, or a new one, which is kept."""
    found = cache.get(name, asked, evaluator.limit)
    if found is None:
        found = evaluator.ask(name, asked)
        cache.put(found, evaluator.limit)
    return found


@dataclass(frozen=True)
class Commits(Source):
    """Commits of ``repository``, checked out in the evaluator's tree."""

    repository: Repository
    evaluator: Evaluator
    cache: Cache

    def answer(self, name: str, asked: str) -> Answer:
        found = self.cache.get(name, asked, self.evaluator.limit)
        return found or kept(self.cache, self.ready(name), name, asked)

    def describe(self, name: str, *, files: bool = False) -> Commit:
        return self.repository.describe(name, files=files)

    def ready(self, name: str) -> Evaluator:
        restore(self.evaluator.tree)
        check_out(self.evaluator.tree, name)
        return self.evaluator


@dataclass(frozen=True)
class Versions(Source):
    """Versions of ``package``; the evaluator's tree is asked as it is."""

    package: Package
    evaluator: Evaluator
    cache: Cache

    def answer(self, name: str, asked: str) -> Answer:
        lacking = self.package.lacks(name)
        if lacking:
            return Answer(name, asked, failure=lacking)
        evaluator = self.ready(name)
        around = surroundings(evaluator.subject, {self.package.name: name})
        return kept(Cache(self.cache.file, digest(around)), evaluator, name, asked)

    def describe(self, name: str, *, files: bool = False) -> Commit:
        return Commit(f"{self.package.name}=={name}", "", f"version {name} of {self.package.name}")

    def ready(self, name: str) -> Evaluator:
        return replace(self.evaluator, ahead=self.package.folder(name))
