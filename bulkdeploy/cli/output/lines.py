"""Typed, pasted or scripted lines, split into commands, pipes and words."""

import shlex

QUOTES = "'\""


def commands_in(text: str) -> list[str]:
    """Return the commands in a text, one line each, without empty lines and comments.

    A command continues in the next line if its line ends in a backslash or within quotes, or if the next line is
    indented. So a call can be pasted over several lines.
    """
    commands: list[str] = []
    goes_on = False
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if goes_on and commands:
            commands[-1] += line
        elif not line.strip() or line.lstrip().startswith("#"):
            continue
        elif line[0] in " \t" and commands:
            commands[-1] += " " + line.strip()
        else:
            commands.append(line.strip())
        goes_on = is_open(commands[-1])
        if goes_on:
            commands[-1] = commands[-1].removesuffix("\\") + ("" if commands[-1].endswith("\\") else "\n")
    return commands


def piped(line: str) -> tuple[str, str]:
    """Return a command and the program that receives its output, which follows the first unquoted ``|``.

    The program is empty if there is none.
    """
    quote = ""
    for position, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in QUOTES:
            quote = character
        elif character == "|" and line[position - 1 : position] != "\\":
            return line[:position], line[position + 1 :].strip()
    return line, ""


def words_before(text: str) -> tuple[list[str], str, int]:
    """Return the complete words of a line, the word that is being typed, and the start of that word.

    Quotes and backslashes are removed as in the shell. An open quote is not an error.
    """
    words: list[str] = []
    word, start, quote, escaped = "", len(text), "", False
    for position, character in enumerate(text):
        blank = character.isspace() and not quote and not escaped
        if blank and start < position:
            words.append(word)
            word, start = "", len(text)
        elif not blank:
            start = min(start, position)
            if escaped or (quote and character != quote and character != "\\"):
                word, escaped = word + character, False
            elif character == "\\" and quote != "'":
                escaped = True
            elif character in QUOTES:
                quote = "" if quote else character
            else:
                word += character
    return words, word, start


def is_open(line: str) -> bool:
    """Return whether a line ends within quotes or with a backslash, so that the command is not complete."""
    if line.lstrip().startswith("#"):
        return False
    if line.endswith("\\"):
        return True
    try:
        shlex.split(line)
    except ValueError:
        return True
    return False
