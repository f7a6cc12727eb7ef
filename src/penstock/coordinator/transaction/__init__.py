"""Transactions: what their coordinator decides, keeps in `__transaction_state` and has written elsewhere.

`transaction.py` has the states and what leads from one to the next, `decisions.py` what each request makes of them.
"""
