"""The meaning of private transactions, pure: the kit to write a domain with, and the domains that come with it."""
