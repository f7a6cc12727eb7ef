"""From a pipeline's declaration to Spark's queries: they are checked, run, and run anew over some time."""
