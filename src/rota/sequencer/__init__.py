"""The protocol, pure: the choice of coordinators, and an intent at its sender, coordinator and endorsers."""
