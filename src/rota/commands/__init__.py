"""Command deduplication, pure: a change that is submitted any number of times is accepted once per period.

changes.py   which submissions are the same change          periods.py   what is a duplicate, and what may be pruned
errors.py    every failure, with its code, id and metadata   outcomes.py  the failure that a transaction's receipt means
desk.py      start here: the machine through which every command goes
events.py    the inputs of the desk                              effects.py   its orders
"""
