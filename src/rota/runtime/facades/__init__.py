"""The node as its users see it, one module per family; `runtime.facade` composes them."""
