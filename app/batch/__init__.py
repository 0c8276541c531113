"""Many questions in one go, each document read once: `run` has the path, the other files its steps.

question -> options -> choice (what is read for each) -> plan (in which order) -> cost (what that takes, by `timing`)
         -> runner (when) -> ask (how) -> state (what is kept) -> summary, report (what is told)
"""
