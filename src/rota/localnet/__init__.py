"""Networks from outside: contracts brought to them, and a whole one started on this machine."""
