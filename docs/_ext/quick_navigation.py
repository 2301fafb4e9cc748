"""The list of all pages beside every page, made without the methods that each page lists for itself.

The theme asks for titles only, and Sphinx first copies the whole contents of every page for every page: half the time
of a build.
"""

from docutils import nodes
from sphinx import addnodes


def _title(contents):  # type: ignore[no-untyped-def]
    """The contents of a page cut down to its title and the lists of further pages."""
    title = contents.deepcopy()
    for entry in title.children:
        if isinstance(entry, nodes.list_item) and len(entry) > 1:
            entry[1][:] = list(entry.findall(addnodes.toctree))
            if not len(entry[1]):
                entry.pop(1)
    return title


def _with_titles(app, pagename, templatename, context, doctree):  # type: ignore[no-untyped-def]
    """Give the theme a list of pages that reads titles alone."""
    env, every = app.env, context.get("toctree")
    if every is None:
        return
    if not hasattr(app, "page_titles"):
        app.page_titles = {page: _title(contents) for page, contents in env.tocs.items()}

    def toctree(**options):  # type: ignore[no-untyped-def]
        whole = env.tocs
        env.tocs = app.page_titles if options.get("titles_only") else whole
        try:
            return every(**options)
        finally:
            env.tocs = whole

    context["toctree"] = toctree


def setup(app):  # type: ignore[no-untyped-def]
    """Before the theme's own hook, which makes the list."""
    app.connect("html-page-context", _with_titles, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
