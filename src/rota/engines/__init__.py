"""Machines that domains need and that are not pure Python: the private EVM."""
