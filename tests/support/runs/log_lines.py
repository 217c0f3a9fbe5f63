"""Log lines of code that a test calls in its own process."""

import structlog


def render_tracebacks_plainly() -> None:
    """Write tracebacks without the values of local variables.

    Rich's rendering of them, structlog's default, takes 10 s of CPU if a local variable is a large object: a test
    that provokes an error then passes its limits on a loaded machine.
    """
    processors = [
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
    structlog.configure(processors=processors)
