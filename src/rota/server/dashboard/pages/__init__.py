"""The files of the dashboard, as a browser gets them."""
