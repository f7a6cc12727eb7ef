"""Log compaction: of each key the last record stays. Rules, the work on records, and the files that come out of it."""
