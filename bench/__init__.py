"""Measures the budgets of one node: one file per question, one table, one JSON file."""
