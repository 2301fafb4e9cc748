"""JSON Schema of goals files, for editors; made of the same table that the reader goes by."""

from typing import Any

from widemargin.cli.goals_file.keys import GOALS_FILE, REQUIRED, Key, Named, Part, Section

__all__ = ["goals_schema"]


def goals_schema() -> dict[str, Any]:
    """The schema, draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "widemargin goals file",
        **_schema(GOALS_FILE),
    }


def _schema(part: Part) -> dict[str, Any]:
    if isinstance(part, Key):
        default = {} if part.default is REQUIRED or part.default is None else {"default": _plain(part.default)}
        return {"description": part.about, **part.kind.schema, **default}
    if isinstance(part, Named):
        return {"description": part.about, "type": "object", "additionalProperties": _schema(part.each)}
    made: dict[str, Any] = {
        "description": part.about,
        "type": "object",
        "properties": {name: _schema(inner) for name, inner in part.parts.items()},
        "additionalProperties": False,
    }
    if part.exactly_one:
        made |= {"minProperties": 1, "maxProperties": 1}
    elif required := [name for name, inner in part.parts.items() if _is_required(inner)]:
        made["required"] = required
    return made


def _is_required(part: Part) -> bool:
    return part.default is REQUIRED if isinstance(part, Key) else isinstance(part, Section) and part.absent == "refused"


def _plain(default: Any) -> Any:
    return list(default) if isinstance(default, tuple) else default
