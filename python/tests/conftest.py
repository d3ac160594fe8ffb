"""What all tests share: the references beside the repository, and what may be skipped."""

import functools
import os
import pathlib
import sys

import pytest
import rolecall

#: Libraries that no registry offers for every machine. Their tests may be skipped even with
#: ``--extras``.
OPTIONAL = ("torch", "trl", "daft", "pyspark", "vllm", "sglang")

#: What a test says that is skipped without the references.
MISSING = "../shared is missing, so "

#: What the reason begins with of a test that needs a kernel for code, and has none.
NO_KERNEL = "no kernel runs here"


@functools.cache
def missing():
    """Why no code runs here, or None."""
    check = rolecall.Interpreter.check()
    if not check["missing"]:
        return None
    assert not os.environ.get("ROLECALL_COMPLETE"), f"{NO_KERNEL}: {check}"
    return f"{NO_KERNEL}: {'; '.join(check['missing'])}"


@pytest.fixture
def kernel():
    if why := missing():
        print(why)
        pytest.skip(why)


@pytest.fixture(scope="session")
def root():
    """The root folder of the repository."""
    return pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def shared(request, root):
    """The folder of references beside the repository. A test without it is skipped and says so."""
    folder = root.parent / "shared"
    if (folder / "golden").is_dir():
        return folder
    pytest.skip(f"{MISSING}{request.node.name} compared nothing")


def pytest_runtest_logreport(report):
    if report.skipped and not hasattr(report, "wasxfail"):
        _note(report)


def pytest_collectreport(report):
    # A module that skips itself has no tests to report.
    if report.skipped:
        _note(report)


_skipped = []


def _note(report):
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    _skipped.append((report.nodeid, reason))
    what = reason.partition(MISSING)[2] or ("code that runs" if NO_KERNEL in reason else "")
    # `cargo xtask test` sums up these lines in its last lines.
    if what and (record := os.environ.get("ROLECALL_SKIPPED")):
        with open(record, "a", encoding="utf-8") as lines:
            lines.write(f"{report.nodeid}\t{what}\n")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    """With all extras installed, a test that misses one of them is a failure."""
    if not os.environ.get("ROLECALL_EXTRAS") or exitstatus not in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        return
    allowed = [f"could not import '{name}" for name in OPTIONAL] + [MISSING, NO_KERNEL]
    missing = [(node, why) for node, why in _skipped if not any(part in why for part in allowed)]
    for node, why in missing:
        print(f"\nskipped, although all extras should be there: {node}: {why}", file=sys.stderr)
    if missing:
        session.exitstatus = 1
