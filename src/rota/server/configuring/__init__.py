"""How the one TOML file of a node is described, read, checked and written.

sections.py   start reading here: what can be set, section by section, each key with its meaning, default and unit
keys.py       one key, and how a section has it
kinds.py      what a key may hold, and how that is read and written
borrowed.py   the keys that stand for the timers and limits of other packages
lines.py      on which line of a TOML text each key stands
contradictions.py   what is right by itself and wrong together
flaws.py      what is wrong, and where
reading.py    a file and the environment to a configuration, or to all that is wrong with them
writing.py    a new file with every key, and the reference page
"""
