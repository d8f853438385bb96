"""The methods, one module per family; `rota.api.table` puts them together."""
