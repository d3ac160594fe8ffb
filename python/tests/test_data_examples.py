"""The examples of training data, each with the library that it is for."""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
import rolecall
from test_data import ROWS, SHAPES, asked, dict_of, learned, model, text_of  # noqa: F401 (model is a fixture)

from rolecall.data import encode

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    # Workers unpickle what an example defines by the name of its module.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def environment():
    path = os.pathsep.join([str(pathlib.Path(rolecall.__file__).parents[1]), *filter(None, sys.path)])
    return {**os.environ, "PYTHONPATH": path, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0", "HF_HUB_OFFLINE": "1"}


GOOD = [asked(f"Question {number}", f"Answer {number}") for number in range(50)]
BAD = {"messages": []}


def test_datasets_map_gives_what_trl_trains_on(model, tmp_path):
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_list([*GOOD, BAD])
    good, bad = example("datasets_map").encode(dataset, model)
    assert good.column_names == ["input_ids", "labels"]
    assert len(good) == 50 and len(bad) == 1
    assert bad[0]["error"]["code"] == "no_messages"
    expected = encode(GOOD, model, columns="trl").to_dict()
    assert good[7]["input_ids"] == expected["input_ids"][7].tolist()
    assert good[7]["labels"] == expected["labels"][7].tolist()
    assert text_of(token for token in good[7]["labels"] if token >= 0) == "Answer 7<|im_end|>"


def test_datasets_map_passes_dicts_of_lists_too_and_runs_in_processes(model):
    datasets = pytest.importorskip("datasets")
    dataset = datasets.Dataset.from_list([*GOOD, BAD])
    encoder = rolecall.data.encoder(model, columns="trl")
    plain = dataset.map(encoder, batched=True, batch_size=7, remove_columns=dataset.column_names)
    arrow = dataset.with_format("arrow").map(encoder, batched=True, remove_columns=dataset.column_names, num_proc=2)
    assert plain["input_ids"] == arrow.with_format(None)["input_ids"]
    assert plain["labels"] == arrow.with_format(None)["labels"]
    assert plain["input_ids"][50] is None


def test_a_torch_dataset_feeds_padded_batches(model):
    torch = pytest.importorskip("torch")
    module = example("torch_dataset")
    samples = module.Samples([*GOOD, BAD], model)
    assert len(samples) == 50
    loader = torch.utils.data.DataLoader(samples, batch_size=8, collate_fn=module.pad, num_workers=2)
    batch = next(iter(loader))
    assert batch["input_ids"].dtype == batch["labels"].dtype == torch.int64
    assert batch["input_ids"].shape == batch["labels"].shape == batch["attention_mask"].shape
    assert batch["labels"].max() > 0 and batch["labels"].min() == -100


def test_trls_own_collator_takes_the_rows(model):
    pytest.importorskip("torch")
    sft = pytest.importorskip("trl.trainer.sft_trainer")
    columns = encode(GOOD[:4], model, columns="trl", pack=256).to_dict()
    rows = [{name: columns[name][at].tolist() for name in ("input_ids", "labels", "seq_lengths")} for at in range(len(columns["rows"]))]
    batch = sft.DataCollatorForLanguageModeling(pad_token_id=0, padding_free=True)(rows)
    assert batch["input_ids"].shape == batch["labels"].shape
    # The collator drops the first label of each sample, which nothing predicts.
    assert (batch["position_ids"] == 0).sum() == 4


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    runtime = {"env_vars": {"PYTHONPATH": environment()["PYTHONPATH"] + os.pathsep + str(EXAMPLES)}}
    ray.init(num_cpus=2, object_store_memory=100 << 20, include_dashboard=False, log_to_driver=False, runtime_env=runtime)
    yield ray
    ray.shutdown()


@pytest.mark.parametrize("batch_format", ["pyarrow", "numpy"])
def test_ray_data_encodes_batches_of_either_format(ray, model, batch_format):
    import pyarrow

    table = pyarrow.Table.from_pylist([*GOOD, BAD])
    dataset = ray.data.from_arrow(table)
    rows = example("ray_data").encode(dataset, model, batch_format).take_all()
    expected = encode(table, model).to_pylist()
    assert len(rows) == 51
    for row, other in zip(rows, expected, strict=True):
        ids = None if row["ids"] is None else list(row["ids"])
        assert ids == other["ids"]
        assert (row["error"] is None) == (other["error"] is None)


def test_daft_frames_are_encoded(model):
    daft = pytest.importorskip("daft")
    frame = example("daft_batches").encoded(daft.from_pylist([*GOOD, BAD]), model)
    found = frame.to_pydict()
    assert found["ids"] == dict_of(encode([*GOOD, BAD], model))["ids"]
    assert found["error"][50]["code"] == "no_messages"


def test_spark_maps_record_batches(model):
    pytest.importorskip("pyspark")
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", False).getOrCreate()
    rows = [json.dumps(row["messages"]) for row in [*GOOD, BAD]]
    frame = spark.createDataFrame([(text,) for text in rows], "messages string")
    found = example("spark_map_in_arrow").encode(frame, model).collect()
    expected = dict_of(encode([*GOOD, BAD], model))
    assert [row.ids for row in found] == expected["ids"]
    assert found[50].error.code == "no_messages"
    spark.stop()


def job(*arguments, wait=True):
    command = [sys.executable, str(EXAMPLES / "ray_job.py"), *map(str, arguments)]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if not wait:
        return process
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, error
    return out


def workers(root):
    """The processes under a driver that encode files."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if name.startswith("ray::") and "MapBatches" in name:
            found.append(int(folder.name))
    return found


@pytest.mark.skipif(not os.environ.get("ROLECALL_EXTRAS"), reason="a job that is killed twice takes a minute")
def test_a_ray_job_that_is_killed_and_run_again_has_every_row_once(model, tmp_path):
    pytest.importorskip("ray")
    folder = model.name
    # Numbers of a dataset that is read in seconds, in files that take a task each.
    job("make", tmp_path / "chats", 6000, 30, 100)
    output = tmp_path / "encoded"
    first = job("run", folder, tmp_path / "chats", output, wait=False)
    # A worker dies in the middle of a file, and then the driver does.
    deadline = time.monotonic() + 120
    while not workers(first.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    for worker in workers(first.pid)[:1]:
        os.kill(worker, signal.SIGKILL)
    while len(list(output.glob("*.parquet"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    first.kill()
    first.communicate()
    # Workers that the driver leaves behind may still finish a file.
    while workers(first.pid) and time.monotonic() < deadline + 30:
        time.sleep(0.05)
    done = len(list(output.glob("*.parquet")))
    assert 3 <= done < 60
    again = job("run", folder, tmp_path / "chats", output)
    # A worker that was just ending may have finished one more.
    left = int(again.split(" files to encode")[0])
    assert 0 < left <= 60 - done
    found = job("check", tmp_path / "chats", output)
    assert "{'rows': 6000, 'once': 6000, 'several_times': 0, 'missing': 0, 'refused': 30}" in found
