"""Text that comes from anybody's data, made safe to print."""

__all__ = ["printable"]


def printable(text: str) -> str:
    """A text of one line with every control character replaced."""
    return "".join(character if character.isprintable() else "?" for character in text)
