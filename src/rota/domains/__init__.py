"""What a private transaction means, pure: the kit to write a domain with, and the domains that come with it."""
