"""Who gets the cores of a session: nobody waits for ever, however many queries there are."""

from pyspark.sql import SparkSession

from penstock.pipeline.jvm import POOL, pool_of


def test_there_are_as_many_pools_as_cores(spark: SparkSession) -> None:
    context, pools = spark.sparkContext, []
    for name in ("a", "b", "c", "d", "a"):
        with pool_of(spark, name):
            pools.append(context.getLocalProperty(POOL))
    assert len(set(pools)) == context.defaultParallelism == 2
    assert pools[0] == pools[-1], "a query that begins again"
    assert context.getLocalProperty(POOL) is None


def test_where_no_pool_is_named_the_first_job_goes_first(spark: SparkSession) -> None:
    pools = spark._jsc.sc().taskScheduler().rootPool()
    assert pools.getSchedulableByName("default").schedulingMode().toString() == "FIFO"
