"""One Spark session for as long as the tests run: inside one process, or on a small local cluster in `make slow`."""

import atexit
import os
import shutil
import warnings
from functools import cache
from importlib.util import find_spec
from typing import Any


def installed() -> bool:
    """Whether there is Java and pyspark."""
    return find_spec("pyspark") is not None and shutil.which("java") is not None


@cache
def session() -> Any:
    """Started once; stopped when the process ends. LEASTNOISE_SPARK names another master, such as that of a cluster."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.codegen.wholeStage": "false",  # compiling takes longer than counting a few rows
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.shuffle.partitions": "2",
        "spark.locality.wait": "0s",  # a free executor takes a task at once, instead of 3 s later
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "OFF",
    }
    master = os.environ.get("LEASTNOISE_SPARK", "local[2]")
    builder = SparkSession.builder.master(master).appName("leastnoise tests")
    for key, value in settings.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spark_session = builder.getOrCreate()
    atexit.register(spark_session.stop)
    return spark_session
