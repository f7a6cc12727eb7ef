"""What streams groups ask of their coordinators (KIP-1071): a file for each API, loaded when the first request comes.

Their rows are in `consumer_groups`.
"""
