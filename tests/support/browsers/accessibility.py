"""What keeps people from using a page: axe in a real browser."""

from typing import Any

RULES = {
    "runOnly": {
        "type": "tag",
        "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    }
}


def barriers(page: Any) -> list[str]:
    """What axe finds against WCAG 2.2 AA and good practice, with the elements."""
    from axe_playwright_python.sync_playwright import Axe

    return [
        f"{one['id']}: {node['html'][:160]} {node.get('failureSummary', '')[:200]}"
        for one in Axe().run(page, options=RULES).response["violations"]
        for node in one["nodes"][:3]
    ]
