"""`make site`: the pages as HTML, with one search, for a browser without a network.

No page has a script but the one that searches, nothing comes from elsewhere, and no style or script stands within a
page, so that a server may forbid all of that (decision 0631).
"""
