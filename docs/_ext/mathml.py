"""Formulas as MathML, by docutils' own converter: pages show them without a network and without scripts."""

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

LOG = logging.getLogger(__name__)


def _converted(node: nodes.Element, *, as_block: bool) -> str:
    """The formula of a node; one that the converter does not know is a warning with its place, so `make docs` fails."""
    try:
        made = str(tex2mathml(node.astext(), as_block=as_block))
    except MathError as error:
        LOG.warning("the formula %r is not understood: %s", node.astext(), error, location=node)
        return ""
    # Bars are brackets here; as operators they would have room on both sides.
    return made.replace('<mo stretchy="false">|', '<mo stretchy="false" lspace="0em" rspace="0em">|')


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(_converted(node, as_block=False))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math-block">{_converted(node, as_block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Make it the writer of formulas."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
