"""Input of the shell: completion, hints, masked secrets, and a history without secrets."""

import shlex
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit.auto_suggest import AutoSuggest, AutoSuggestFromHistory, Suggestion
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.completion import Completer as PromptCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput

from bulkdeploy.cli.concealment import secret_spans
from bulkdeploy.cli.connection.catalogue import Api, ApiParameter
from bulkdeploy.cli.connection.config_file import write_private
from bulkdeploy.cli.failures import CommandFailed
from bulkdeploy.cli.output.lines import words_before
from bulkdeploy.cli.shell.completion import Completer

MOST_DESCRIPTION = 70


class ShellHistory(FileHistory):
    """The typed lines of earlier sessions, in a file that only its owner can read.

    Lines with secrets are not stored.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            write_private(path, "")
        super().__init__(str(path))

    def append_string(self, string: str) -> None:
        """Add a line to the history, unless the line contains a secret."""
        if not secret_spans(string):
            super().append_string(string)


class ShellCompleter(PromptCompleter):
    """The completion of the word before the cursor. Errors of the server produce no candidates."""

    def __init__(self, completer: Completer) -> None:
        self.completer = completer

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Yield the words that may replace the word before the cursor, each with its meaning."""
        del complete_event
        text = document.current_line_before_cursor
        before, partial, start = words_before(text)
        try:
            candidates = self.completer.candidates(before, partial)
        except (CommandFailed, OSError):
            return
        for one in candidates:
            name, equals, value = one.value.partition("=")
            quoted = f"{name}={shlex.quote(value)}" if equals and value else one.value
            finished = "" if one.value.endswith(("=", ".")) else " "
            shown = value if equals and value else one.value
            yield Completion(
                quoted + finished,
                start_position=start - len(text),
                display=shown,
                display_meta=one.description[:MOST_DESCRIPTION],
            )


class ApiHints(AutoSuggest):
    """Grey text after the cursor: the rest of an earlier line, or the next parameter that is required."""

    def __init__(self, completer: Completer) -> None:
        self.completer = completer
        self.earlier = AutoSuggestFromHistory()

    def get_suggestion(self, buffer: Buffer, document: Document) -> Suggestion | None:
        """Return the text that would complete the line, or None."""
        if not document.text.strip() or "\n" in document.text:
            return None
        earlier = self.earlier.get_suggestion(buffer, document)
        if earlier is not None or not document.text.endswith(" "):
            return earlier
        found = hint(self.completer, document.text)
        return Suggestion(f"{found[1][0].name}=") if found is not None and found[1] else None


class SecretMask(Processor):
    """A display filter that shows an asterisk for each character of a secret."""

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """Return the displayed form of the line, in which secrets are replaced by asterisks."""
        text = "".join(fragment[1] for fragment in transformation_input.fragments)
        spans = secret_spans(text)
        if not spans:
            return Transformation(transformation_input.fragments)
        hidden = {position for start, end in spans for position in range(start, end)}
        shown: StyleAndTextTuples = []
        position = 0
        for fragment in transformation_input.fragments:
            for character in fragment[1]:
                shown.append((fragment[0], "*" if position in hidden else character))
                position += 1
        return Transformation(shown)


def toolbar(completer: Completer, text: str) -> StyleAndTextTuples:
    """Return the line below the prompt: the description of the typed API and its missing parameters."""
    found = hint(completer, text)
    if found is None:
        return [("", " Tab: what can stand here   -h: help")]
    api, missing = found
    described: StyleAndTextTuples = [("", f" {api.description[:MOST_DESCRIPTION]}")]
    needs = ", ".join(parameter.name for parameter in missing)
    return [*described, ("bold", f"   needs {needs}")] if needs else described


def hint(completer: Completer, text: str) -> tuple[Api, list[ApiParameter]] | None:
    """Return the API that a line calls and its missing required parameters, or None if the line calls no API."""
    before, partial, _ = words_before(text)
    try:
        return completer.hint([*before, partial] if partial else before)
    except CommandFailed:
        return None
