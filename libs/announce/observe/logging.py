"""JSON log lines on standard error, free of secrets."""

import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from typing import Final

import msgspec

# Where a library puts a URL into its text, these are the parts that nobody may read.
_SECRETS: Final = (
    (re.compile(r"/bot\d+:[\w-]+"), "/bot<token>"),
    (re.compile(r"(://[^/\s:@]*):[^/\s@]*@"), r"\1:<password>@"),
    (re.compile(r"(?i)\bbearer\s+[\w.~+/=-]+"), "Bearer <token>"),
)
_encode: Final = msgspec.json.Encoder(enc_hook=str).encode


def scrub(text: str) -> str:
    """Take tokens and passwords out of a text that a library wrote."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


class JsonFormatter(logging.Formatter):
    """One JSON object a line. Fields are given as `extra={"fields": {...}}`, see `event`."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        """Write the record as one line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC),
            "level": record.levelname.lower(),
            "service": self._service,
            "event": scrub(record.getMessage()),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["error"] = scrub("".join(traceback.format_exception(*record.exc_info)))
        return _encode(line).decode()


def configure(service: str, level: str) -> None:
    """Send every log line of the process through the JSON formatter."""
    # Lines say what happened, not where in the code: looking the caller up would cost as much as the rest of a line.
    logging._srcfile = None  # noqa: SLF001 - the way that the library documents
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(service))
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)


def event(logger: logging.Logger, level: int, name: str, **fields: object) -> None:
    """Log one wide line: what happened, and everything that is known of it."""
    if logger.isEnabledFor(level):
        logger.log(level, name, extra={"fields": fields})
