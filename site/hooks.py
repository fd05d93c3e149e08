"""What the site needs besides plugins: diagrams drawn at build time, and the list of decisions."""

from pathlib import Path
from typing import Any

import mermaidx
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

DECISIONS = "docs/adr/README.md"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Draw fences of Mermaid now: the theme would have browsers load a script from elsewhere."""
    fence = {"name": "mermaid", "class": "diagram", "format": draw_diagram}
    config.mdx_configs.setdefault("pymdownx.superfences", {})["custom_fences"] = [fence]
    return config


def draw_diagram(source: str, *_: object, **__: Any) -> str:
    """Return an SVG that scrolls where the window is narrow."""
    svg = mermaidx.render(source, theme="neutral").svg()
    return f'<div class="diagram" tabindex="0" role="img" aria-label="Diagram">{svg}</div>'


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """List the decisions by their titles below their page, as a code host lists their files."""
    if page.file.src_uri != DECISIONS:
        return markdown
    folder = Path(config.docs_dir, DECISIONS).parent
    titles = (_link(path) for path in sorted(folder.glob("[0-9]*.md")))
    return "\n".join([markdown, *titles])


def _link(path: Path) -> str:
    heading = path.read_text(encoding="utf-8").partition("\n")[0]
    return f"- [{heading.removeprefix('# ')}]({path.name})"
