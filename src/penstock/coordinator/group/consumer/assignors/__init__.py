"""Who is to have which partitions: pure functions from members, what they read and have, to targets.

Each takes a `Spec`, and gives every member a target. A partition has one owner in the result, whoever had it before.
"""
