"""Users' transactions on the base ledger itself, and those set aside for an operator."""
