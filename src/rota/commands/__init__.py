"""Command deduplication, pure: a change that is submitted any number of times is accepted once per period.

changes.py   which submissions mean the same change          periods.py   what counts as a duplicate, and what is pruned
errors.py    every failure, with its code, id and metadata   outcomes.py  what a transaction's end means for its command
desk.py      start reading here: the machine through which every command goes
events.py    all that the desk may be told                   effects.py   all that it may ask for
"""
