"""Texts spoilt at random: what a slip of the hand, a broken transfer or an ill will makes of a file."""

__all__ = ["mutated", "random_goal"]

ODD = [
    "\x00", "\x7f", "\x1b[31m", "\r", "\u202e", "é", "🙂", '"', "'", "'''", '"""', "\\", "\\u0000", "[", "]", "{", "}",
    "[[", "]]", "=", "#", ",", ".", "..", "/", "-", "1e999", "nan", "inf", "-1", "0", "9" * 30, "true", "1979-05-27",
    "0x1F", "../../etc/passwd", "/dev/null", "NAME", "None", "import os", "__class__",
]  # fmt: skip


def mutated(text, rng, words=()):
    """A text with one to four random changes.

    Parameters
    ----------
    text : str
    rng : random.Random
    words : sequence of str
        What is put in beside `ODD`: words that mean something there.
    """
    for _ in range(rng.randint(1, 4)):
        text = rng.choice(CHANGES)(text, rng, [*ODD, *words])
    return text


def _cut(text, rng, words):
    start = rng.randrange(len(text) + 1)
    return text[:start] + text[start + rng.randint(1, 20) :]


def _put(text, rng, words):
    start = rng.randrange(len(text) + 1)
    return text[:start] + rng.choice(words) + text[start:]


def _replace(text, rng, words):
    start = rng.randrange(len(text) + 1)
    return text[:start] + rng.choice(words) + text[start + rng.randint(1, 10) :]


def _flip(text, rng, words):
    if not text:
        return text
    start = rng.randrange(len(text))
    return text[:start] + chr(ord(text[start]) ^ (1 << rng.randrange(7))) + text[start + 1 :]


def _double(text, rng, words):
    lines = text.split("\n")
    line = rng.choice(lines)
    lines.insert(rng.randrange(len(lines) + 1), line)
    return "\n".join(lines)


def _swap(text, rng, words):
    lines = text.split("\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[i], lines[j] = lines[j], lines[i]
    return "\n".join(lines)


def _value(text, rng, words):
    """Another value behind an equals sign."""
    lines = text.split("\n")
    i = rng.randrange(len(lines))
    if "=" in lines[i]:
        lines[i] = f"{lines[i].split('=')[0]}= {rng.choice(words)}"
    return "\n".join(lines)


def _end(text, rng, words):
    return text[: rng.randrange(len(text) + 1)]


CHANGES = [_cut, _put, _replace, _flip, _double, _swap, _value, _end]

NAMES = """
minimize subject to population external error_rate recall precision positive_rate churn women men sex age and or not in
is_null demographic_parity lambda __import__ on= where= ratio= min_rows on_small 0.5 0.8 1 1e9 1e999 nan
"F" 'M' "deployed" "\\u0041"
"""
SIGNS = "( ) ( ) [ ] , : = == != <= >= < > + - * / ** . ; \\ # @ ~ & | % ^ é \x00 '''"
TOKENS = [*NAMES.split(), *SIGNS.split(), "\n", "\n"]


def random_goal(rng):
    """A text of tokens of the language of goals, in any order, or a goal with random changes."""
    if rng.random() < 0.5:
        return "".join(rng.choice(TOKENS) + rng.choice(["", " "]) for _ in range(rng.randint(1, 40)))
    goal = (
        'women = population(sex == "F")\nminimize error_rate() + 0.5 * churn("deployed")\n'
        "subject to fair: positive_rate(women) >= 0.8 * positive_rate()\n"
        'subject to recall() >= 0.6, min_rows=30\nsubject to demographic_parity("sex", ratio=0.8)\n'
    )
    return mutated(goal, rng, TOKENS)
