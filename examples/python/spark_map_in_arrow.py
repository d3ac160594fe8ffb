"""Encodes a dataset with Spark: record batches go in and out of `mapInArrow`.

    spark-submit examples/python/spark_map_in_arrow.py path/to/model chats.parquet encoded
"""

import sys

import rolecall
from pyspark.sql import DataFrame, SparkSession
from rolecall.data import encoder

#: The columns that the trainer reads, and why a row has none.
SCHEMA = """
    id string, ids array<bigint>, loss_mask array<int>, length bigint,
    error struct<code: string, message: string>
"""


def encode(frame: DataFrame, model: rolecall.Model, **options) -> DataFrame:
    """Returns the encoded rows. Each Python worker has one copy of the model."""
    import pyarrow

    one = encoder(model, **options)
    # Spark has no unsigned numbers.
    integers, flags = pyarrow.list_(pyarrow.int64()), pyarrow.list_(pyarrow.int32())
    error = pyarrow.struct({"code": pyarrow.string(), "message": pyarrow.string()})

    def encode_batches(batches):
        for batch in batches:
            columns = one(batch)
            errors = columns.column("error")
            parts = [errors.field(name) for name in ("code", "message")]
            yield pyarrow.RecordBatch.from_arrays(
                [
                    columns.column("id"),
                    columns.column("ids").cast(integers),
                    columns.column("loss_mask").cast(flags),
                    columns.column("length").cast(pyarrow.int64()),
                    pyarrow.StructArray.from_arrays(parts, fields=list(error), mask=errors.is_null()),
                ],
                ["id", "ids", "loss_mask", "length", "error"],
            )

    return frame.mapInArrow(encode_batches, SCHEMA)


def main(folder: str, chats: str, output: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    encode(spark.read.parquet(chats), rolecall.load(folder), max_tokens=4096).write.parquet(output)


if __name__ == "__main__":
    main(*sys.argv[1:])
