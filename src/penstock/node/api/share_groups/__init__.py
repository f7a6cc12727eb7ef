"""What share groups ask of their coordinators (KIP-932): a file for each API, loaded when the first request comes.

Their rows are in `consumer_groups`.
"""
