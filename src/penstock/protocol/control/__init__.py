"""What a log says about itself: control records, and snapshots, which begin and end with one."""
