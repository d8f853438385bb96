"""Moves modules and names between packages, and rewrites everything that refers to them.

plan.py      start reading here: the plan file, and where a dotted name goes
imports.py   imports and uses of moved modules and names, in one module
names.py     definitions that go from one module to another, or get another name
text.py      dotted names and paths in documents and strings, `rows.txt`, and `pyproject.toml`
tree.py      carries a plan out on a tree of files
"""
