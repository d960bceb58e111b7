# SPDX-License-Identifier: LGPL-2.1-or-later
"""Log records as events. They are not even formatted while the event is off."""

import logging

from .client import default

# Maximum lengths: together they fit in the smallest payload, so that a long message is truncated and not lost.
_NAME_MAX, _MESSAGE_MAX, _TRACEBACK_MAX = 200, 1800, 1400


def _cut(text, size):
    """Truncates to that many bytes, at the end of a character."""
    return text.encode("utf-8", "backslashreplace")[:size].decode("utf-8", "ignore")


class Handler(logging.Handler):
    """A logging.Handler that emits an event for each log record: logging.getLogger().addHandler(userev.Handler())."""

    def __init__(self, name="python_log", *, userev=None, level=logging.NOTSET):
        super().__init__(level)
        self.event = (userev or default()).event(
            f"{name} u32 level; u32 line; __rel_loc char[] logger; __rel_loc char[] function; __rel_loc char[] message; "
            "__rel_loc char[] traceback")

    def handle(self, record):
        """Tests the event before the handler's filters and lock."""
        return self.event.enabled and super().handle(record)

    def emit(self, record):
        try:
            self.event.emit(record.levelno, record.lineno, _cut(record.name, _NAME_MAX), _cut(record.funcName or "", _NAME_MAX),
                            _cut(record.getMessage(), _MESSAGE_MAX), _cut(self._traceback(record), _TRACEBACK_MAX))
        except Exception:
            self.handleError(record)

    @staticmethod
    def _traceback(record):
        if not record.exc_info:
            return record.exc_text or ""
        return logging.Formatter().formatException(record.exc_info)
