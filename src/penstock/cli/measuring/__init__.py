"""Commands that measure a cluster, or write and read so that a program can check what became of each record."""
