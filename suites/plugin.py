"""The pytest plugin: options, cases as parameters, every verdict into the store, the summary.

A test passes if and only if its verdict is ``agree``. A case that was never asked of the path skips,
unless its suite was named with ``--suite``; everything else fails with the verdict's text as the whole
message. How this would fail silently: a verdict that is judged but not recorded, so the record is
written first and a journal that cannot be written is an error of the test.

``harness verify`` makes the run's folder itself and passes ``--run-folder``; without it the
plugin makes one under ``--results`` as soon as it sees that comparisons were collected.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from harness import exits
from harness.case import case_lists, cases
from harness.case.case_limits import CaseError
from harness.case.cases import Case
from harness.command.arguments import named_path
from harness.command.cli_check import faults_of
from harness.judge import ledger
from harness.judge import verdict as verdicts
from harness.judge.verdict import Status, Verdict, faulty
from harness.paths import registry
from harness.record import provenance, store, summary
from suites import guards

FOLDER = pytest.StashKey[Path]()
JOURNAL = pytest.StashKey[store.Journal]()
PATHS = pytest.StashKey[Sequence[registry.Choice]]()
FAULTS = pytest.StashKey[Sequence[Any]]()
SECONDS_A_CASE = 600


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("fp4 indexer harness")
    names = ", ".join(registry.PATHS)
    group.addoption("--path", action="append", default=[], help=f"path under test, repeatable: {names}")
    for option, source in registry.SOURCES.items():
        group.addoption(f"--{option}", type=named_path, metavar="DIR", help=f"directory of {source.what}")
    group.addoption("--fault", action="append", default=[], help="plant this fault of the catalogue")
    group.addoption("--cases", default="smoke", choices=("smoke", "full"), help="which list of cases")
    group.addoption(
        "--suite", action="append", default=[], choices=cases.SUITES, help="only this suite (repeatable)"
    )
    group.addoption(
        "--results",
        type=named_path,
        default=Path(store.DEFAULT_DIRECTORY),
        metavar="DIR",
        help="results store",
    )
    group.addoption("--run-folder", type=named_path, help="record into this run (used by harness verify)")
    group.addoption("--limit", type=int, default=SECONDS_A_CASE, metavar="S", help="seconds a case may take")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "suite(name): the suite whose listed cases this test runs")
    try:
        config.stash[PATHS] = chosen(config.option)
        config.stash[FAULTS] = planted_faults(config)
    except (exits.InputError, exits.CannotRun) as error:
        raise pytest.UsageError(str(error)) from None
    if is_worker(config):
        config.stash[FOLDER] = Path(worker_input(config)["run_folder"])
        return
    config.stash[FOLDER] = config.option.run_folder or config.option.results / "runs" / store.new_id()
    if config.option.run_folder:
        guards.watch_parent()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """xdist: tell a new worker where to record."""
    node.workerinput["run_folder"] = str(node.config.stash[FOLDER].absolute())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node: Any, ids: list[str]) -> None:
    """xdist: the first worker's collection is the plan; the run's folder exists before any case starts."""
    plan(node.config, sum(map(names_case, ids)))


def chosen(option: Any) -> tuple[registry.Choice, ...]:
    """The paths under test. Raises `InputError` or `CannotRun`."""
    trees = registry.Trees(**{name: getattr(option, name) for name in registry.SOURCES})
    return registry.choose(option.path, trees)


def planted_faults(config: pytest.Config) -> Sequence[Any]:
    """The faults to plant, each once. Raises `InputError`."""
    config.option.fault = list(dict.fromkeys(config.option.fault))
    return faults_of(config.option.fault, config.stash[PATHS])


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each listed case on each path; the path is part of the name where there are several."""
    if "case" not in metafunc.fixturenames:
        return
    suite, paths = suite_of(metafunc.definition), metafunc.config.stash[PATHS]
    asked = suite in metafunc.config.option.suite
    pairs = [
        (case, choice)
        for choice in paths
        if asked or suite in (registry.entry(choice.name).suites or cases.SUITES)
        for case in case_lists.listed(suite, metafunc.config.option.cases)
    ]
    names = [case.id if len(paths) == 1 else f"{case.id}~{choice.name}" for case, choice in pairs]
    metafunc.parametrize(("case", "choice"), pairs, ids=names)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the suites that were asked for. Without ``--suite`` that is all of them."""
    asked = config.option.suite
    if not asked:
        return
    dropped = [item for item in items if item.get_closest_marker("suite") and suite_of(item) not in asked]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in dropped]


def pytest_collection_finish(session: pytest.Session) -> None:
    if not is_worker(session.config) and not session.config.option.collectonly:
        plan(session.config, sum(map(is_comparison, session.items)))


@pytest.fixture(scope="session")
def path_under_test() -> Callable[[registry.Choice], Any]:
    """Makes a path at the first call; later calls get the same one, or the same refusal."""
    made: dict[registry.Choice, Any] = {}

    def make(choice: registry.Choice) -> Any:
        if choice not in made:
            guards.share_cores()
            try:
                made[choice] = registry.create(choice)
            except (exits.InputError, exits.CannotRun) as error:
                made[choice] = error
        if isinstance(made[choice], Exception):
            raise made[choice]
        return made[choice]

    return make


@pytest.fixture
def judge(
    request: pytest.FixtureRequest,
    choice: registry.Choice,
    path_under_test: Callable[[registry.Choice], Any],
) -> Callable[[Case], Verdict]:
    """Runs a case, records the verdict, and passes, skips or fails the test by it."""
    option = request.config.option
    journal = journal_of(request.config)
    faults = request.config.stash[FAULTS]

    def with_faults(path: Any) -> Any:
        """A path of its own for each case, since a fault remembers what it was asked."""
        if not faults:
            return path
        from harness.faults.planted import planted

        return planted(path, faults)

    def judged(case: Case) -> Verdict:
        from harness import runner

        journal.start(case.id, faulty(choice.name, option.fault))
        try:
            path, book = path_under_test(choice), ledger.load()
            with guards.time_limit(option.limit):
                verdict = runner.run(case, with_faults(path), book)
        except (exits.InputError, exits.CannotRun) as error:
            verdict = could_not_run(case, choice, str(error), option.fault)
        except Exception as error:  # whatever it is, the case is recorded
            reason = f"{type(error).__name__}: {error}"
            verdict = could_not_run(case, choice, reason, option.fault)
        record = verdict.to_record()
        journal.verdict(record)
        alone = len(request.config.stash[PATHS]) == 1
        if verdict.status is Status.UNSUPPORTED and not exits.refused(record, option.suite if alone else ()):
            pytest.skip(verdict.reason)
        if not verdict.green:
            pytest.fail(verdict.text(), pytrace=False)
        return verdict

    return judged


@pytest.hookimpl(optionalhook=True)
def pytest_handlecrashitem(crashitem: str, report: pytest.TestReport, sched: Any) -> None:
    """xdist: a worker died in a case; the case becomes an error of the run instead of a gap in it."""
    config = sched.config
    if names_case(crashitem):
        reason = "the worker process died while it ran this case"
        text, name = case_id(crashitem)
        choice = next(one for one in config.stash[PATHS] if name in ("", one.name))
        verdict = could_not_run(cases.parse(text), choice, reason, config.option.fault)
        journal_of(config).verdict(verdict.to_record())


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    if not keeps_run(config):
        return
    run = store.Run(config.stash[FOLDER])
    complete = exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    records = store.load(run).records
    stale = stale_entries(config, records) if complete else ()
    if stale and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    code = exits.of_records(records, asked=config.option.suite, stale=len(stale), complete=complete)
    store.finish(run, complete=complete, exit_code=code)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if not keeps_run(config):
        return
    run = store.Run(config.stash[FOLDER])
    records = store.load(run).records
    terminalreporter.section(f"path {', '.join(one.name for one in config.stash[PATHS])}, run {run.id}")
    text = summary.plain(records, ledger.load(), stale=stale_entries(config, records))
    terminalreporter.write_line(f"{text}\nrecorded in {run.folder}")


def pytest_unconfigure(config: pytest.Config) -> None:
    if JOURNAL in config.stash:
        config.stash[JOURNAL].close()


def is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def worker_input(config: pytest.Config) -> dict[str, Any]:
    """What xdist's controller told this worker."""
    return dict(vars(config)["workerinput"])


def suite_of(item: Any) -> str:
    marker = item.get_closest_marker("suite")
    if marker is None:
        raise pytest.UsageError(f"{item.nodeid} takes a case but has no suite marker")
    return str(marker.args[0])


def is_comparison(item: pytest.Item) -> bool:
    """Whether ``item`` is a listed case (a suite that lists nothing leaves pytest a stand-in)."""
    callspec = getattr(item, "callspec", None)
    return callspec is not None and isinstance(callspec.params.get("case"), Case)


def names_case(nodeid: str) -> bool:
    """Whether a node id is that of a comparison (xdist's controller knows nothing but ids)."""
    if "indexer/test_" not in nodeid or not nodeid.endswith("]"):
        return False
    try:
        cases.parse(case_id(nodeid)[0])
    except CaseError:  # pytest's own name for a suite that lists nothing
        return False
    return True


def case_id(nodeid: str) -> tuple[str, str]:
    """The case's id and the path's name (empty where there is one path) in a test's name."""
    text, _, name = nodeid.split("[", 1)[1].removesuffix("]").partition("~")
    return text, name


def keeps_run(config: pytest.Config) -> bool:
    """Whether this process closes the run: the controller, when comparisons ran and nobody else does it."""
    return not is_worker(config) and not config.option.run_folder and config.stash[FOLDER].is_dir()


def stale_entries(config: pytest.Config, records: Sequence[summary.Record]) -> list[str]:
    """Stale ledger entries, unless only some of a suite's cases were chosen."""
    option = config.option
    picked = option.keyword or option.markexpr or any("::" in argument for argument in config.args)
    return [] if picked else summary.stale(records, ledger.load())


def plan(config: pytest.Config, count: int) -> None:
    """Make the run's folder, unless there is one, and note how many cases are to come."""
    if not count:
        return
    option = config.option
    arguments = {
        "cases": option.cases,
        "suite": list(option.suite),
        "limit": option.limit,
        "engine": "pytest",
    }
    if not config.stash[FOLDER].is_dir():
        about = provenance.collect(config.stash[PATHS], arguments, faults=option.fault)
        try:
            store.create(option.results, about, run_id=config.stash[FOLDER].name)
        except exits.InputError as error:
            pytest.exit(str(error), returncode=exits.USAGE)
    journal_of(config).plan(count)


def journal_of(config: pytest.Config) -> store.Journal:
    if JOURNAL not in config.stash:
        worker = str(worker_input(config)["workerid"]) if is_worker(config) else "main"
        config.stash[JOURNAL] = store.Journal(store.Run(config.stash[FOLDER]), worker)
    return config.stash[JOURNAL]


def could_not_run(case: Case, choice: registry.Choice, reason: str, faults: Sequence[str] = ()) -> Verdict:
    """The verdict of a case that never reached its path, or took its process down."""
    words = ["python", "-m", "harness", "check", case.id, "--path", choice.name, *choice.trees.options()]
    rerun = shlex.join([*words, *(word for name in faults for word in ("--fault", name))])
    facts = {verdicts.FAULTS: dict.fromkeys(faults, False)} if faults else {}
    path = faulty(choice.name, faults)
    return Verdict(case.id, case.suite, path, "none", Status.ERROR, reason=reason, rerun=rerun, facts=facts)
