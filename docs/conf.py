"""Settings of the documentation site: `make docs` builds it, with every warning an error."""

import sys
from importlib.metadata import version as version_of
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "widemargin"
author = "The widemargin developers"
version = release = version_of("widemargin")

extensions = [
    "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.viewcode", "numpydoc", "myst_nb",
    "sphinx_gallery.gen_gallery", "sphinx_copybutton", "mathml", "quick_navigation",
]  # fmt: skip
copybutton_prompt_text = r">>> |\.\.\. |\$ "  # what is copied runs: no prompts, no output
copybutton_prompt_is_regexp = True
nb_execution_mode = "off"  # notebooks are shown as they are stored: `make notebooks` runs them
html_math_renderer = "mathml"
myst_update_mathjax = False
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",  # all are run
    "within_subsection_order": "FileNameSortKey",
    "download_all_examples": False,
    "write_computation_times": False,
    "show_signature": False,
    "abort_on_example_error": True,
}
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
autosummary_generate = True
autodoc_typehints = "none"  # the docstrings give types, with shapes and units
numpydoc_show_class_members = False  # pages of classes are made by the template
numpydoc_class_members_toctree = False
default_role = "code"  # `x` in docstrings is code
templates_path = ["_templates"]
exclude_patterns = ["_build", "reproductions", "gallery/*.ipynb", "gallery/*.py", "gallery/*.json", "gallery/*.zip"]
suppress_warnings = ["myst.xref_missing"]  # links to files of the repository, which are no pages of the site

html_theme = "furo"
html_title = "widemargin"
html_static_path = ["_static"]
html_css_files = ["formulas.css", "versions.css"]
html_js_files = ["versions.js", "accessible.js"]
html_logo = html_favicon = "_static/logo.svg"
html_sidebars = {
    "**": [
        "sidebar/brand.html", "sidebar/search.html", "sidebar/versions.html", "sidebar/scroll-start.html",
        "sidebar/navigation.html", "sidebar/scroll-end.html",
    ]
}  # fmt: skip
html_show_copyright = False


def _without_foreign_markup(app, what, name, obj, options, lines):  # type: ignore[no-untyped-def]
    """Methods that scikit-learn makes refer to its own pages; a line says what they are."""
    method = name.rsplit(".", 1)[-1]
    if method == "set_output" and what == "method":
        lines[:] = ["Which container `transform` returns, as in scikit-learn."]
    elif what == "method" and (method == "get_metadata_routing" or method.endswith("_request")):
        lines[:] = ["Which arguments scikit-learn's metadata routing hands on."]


def setup(app):  # type: ignore[no-untyped-def]
    """Connect the hook above."""
    app.connect("autodoc-process-docstring", _without_foreign_markup, priority=100)
