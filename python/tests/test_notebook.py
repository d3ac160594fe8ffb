"""The tour runs, and gives the output that is committed. Run with ``UPDATE=1`` to write it anew."""

import os
import pathlib
import re

import pytest
import rolecall

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
for library in ("pyarrow", "tokenizers", "transformers"):
    pytest.importorskip(library)


@pytest.fixture(scope="module")
def path(root):
    return root / "examples" / "tour.ipynb"


@pytest.fixture(scope="module")
def committed(path):
    return nbformat.read(path, as_version=4)


@pytest.fixture(scope="module")
def run(path):
    """The notebook after a run in a new kernel, without the network."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    package = str(pathlib.Path(rolecall.__file__).parents[1])
    given = {
        "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HF_HUB_OFFLINE": "1",
    }
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(path.parent)}})
    client.execute(env={**os.environ, **given})
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            # Warnings name the folders of the machine.
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    if os.environ.get("UPDATE"):
        nbformat.write(notebook, path)
    return notebook


def text_of(cell):
    """What a cell prints and returns, as text."""
    printed = [output.text for output in cell.outputs if output.output_type == "stream"]
    shown = [output.data["text/plain"] for output in cell.outputs if "text/plain" in output.get("data", {})]
    return "".join(printed), shown


def test_the_tour_gives_the_output_that_is_committed(committed, run):
    for old, new in zip(committed.cells, run.cells, strict=True):
        if old.cell_type == "code":
            assert text_of(new) == text_of(old), old.source


def test_the_tour_has_output_of_every_kind(committed):
    cells = [cell for cell in committed.cells if cell.cell_type == "code"]
    assert len(cells) >= 14
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell.outputs for cell in cells)
    pages = [output.data["text/html"] for cell in cells for output in cell.outputs if "text/html" in output.get("data", {})]
    assert len(pages) == 1 and "<iframe" in pages[0]


def test_the_tour_says_nothing_about_the_machine(committed):
    assert not re.search(r"/tmp/|/home/|/root/|[A-Z]:\\\\Users|Warning", nbformat.writes(committed))
