"""The configuration of a node: one TOML file and environment variables.

sections.py   start here: every setting by section, with its meaning, default and unit
keys.py       the declaration of one key
kinds.py      types of values: how they are read, checked and written
borrowed.py   keys for the timers and limits of other packages
lines.py      the line of each key in a TOML text
contradictions.py   rules about several settings
flaws.py      an error of a configuration, and its place
reading.py    reads file and environment; reports all errors at once
writing.py    writes a new file with every key, and the reference page
"""
