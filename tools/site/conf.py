"""How Sphinx builds the documentation site (`make docs-site`). The pages are laid out by `tools.site.staging`."""

project = "Rota"
author = "the authors of Rota"
extensions = ["myst_parser"]
root_doc = "index"

# Anchors are named as forges name them, so that a link to a heading holds in the repository and on the site.
myst_heading_anchors = 4

html_theme = "furo"
html_title = "Rota"
html_static_path = ["static"]
html_css_files = ["machines.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

# A page is judged by what it says; that a language is shown without colours is no fault of it.
highlight_language = "text"
