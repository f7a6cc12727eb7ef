"""The data source `penstock` as Spark uses it: it plans reads on the driver, and reads and writes on the executors."""
