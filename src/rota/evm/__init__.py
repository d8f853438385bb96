"""The private EVM of privacy groups, based on pyrevm, and the worker process that runs it."""
