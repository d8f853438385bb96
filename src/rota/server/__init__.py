"""The process: configuration, wiring, HTTP, WebSocket, gRPC, dashboard, metrics. `process.py` puts a node together."""
