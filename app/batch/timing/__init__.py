"""How long a batch will take: what was seen of an engine, and what follows from it.

clock (what a batch sees), measure (what is found out before one) -> learnt (what is kept)
         -> rates (how fast it is), lengths (how long answers are) -> expected (when each answer comes)
"""
