"""Where Spark 4 finds the data source `millstream`: it looks for one in each module whose name begins with `pyspark_`."""

from millstream.spark import MillstreamDataSource as DefaultSource

__all__ = ["DefaultSource"]
