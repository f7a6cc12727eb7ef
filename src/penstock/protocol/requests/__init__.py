"""Requests and their answers: which APIs there are, their frames, and the layouts that are read and written by hand."""
