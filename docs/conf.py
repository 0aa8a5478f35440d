"""Settings of the site; the README has the command that builds it."""

import sys
from pathlib import Path

import posenc_compare

sys.path.insert(0, str(Path(__file__).parent))

project = "posenc-compare"
author = copyright = "The posenc-compare developers"
release = version = posenc_compare.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "extension",
]

myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block"]

default_role = "code"
smartquotes_action = "D"  # dashes alone
highlight_language = "none"  # of blocks that name none
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented_params"
autodoc_member_order = "bysource"
autodoc_mock_imports = ["huggingface_hub", "transformers"]  # the site needs neither
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Returns"]  # whose first colon ends no type
viewcode_line_numbers = True

nitpicky = True
# Types of other packages, whose documentation is not fetched; names of types alone.
nitpick_ignore_regex = [
    ("py:class", r"Array|Json|Tensor|posenc_compare\..*\.(S|T|Test|Scaling)"),
    ("py:.*", r"(torch|numpy|np|pandas|pd|matplotlib|collections|pathlib|typing)\b.*"),
    ("py:class", r"transformers\..*"),
]

html_theme = "furo"
html_title = f"posenc-compare {release}"
html_math_renderer = "mathml"
html_static_path = ["extension/static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
