"""The families of methods on a running node, one class each; `runtime.facade.NodeFacade` puts them together."""
