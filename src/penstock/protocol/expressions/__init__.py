"""Regular expressions of topics, clients and transactions, in the syntax of RE2 and in linear time.

`parse.py` reads one, `matcher.py` runs it. Python's own take time without bounds for some expressions, and clients of
strangers send them.
"""
