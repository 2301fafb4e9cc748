"""What the owner of a model says of it in the report: keys of a goals file, and their headings on the page."""

__all__ = ["CARD_KEYS"]

CARD_KEYS = {
    "intended_use": "Intended use",
    "not_intended_for": "Not intended for",
    "rows_from": "Where the rows come from",
    "harm": "Harm of wrong decisions",
    "limits": "Further limits",
    "owner": "Owner and contact",
}
"""Keys of [card], and what the report calls them."""
