"""The private EVM of privacy groups, by way of pyrevm, and the worker process that runs it."""
