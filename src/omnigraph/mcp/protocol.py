"""The protocol: one JSON-RPC message a line, and the answers of a server of tools and resources.

The numbers (1) to (3) are the invariants of the package. Calls run one after another; when the
input ends, the call that runs still ends and is answered (ADR 26).
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from omnigraph.errors import OmnigraphError
from omnigraph.jsontext import read_json
from omnigraph.mcp.tools import Resource, Tool, Toolbox, failure_document, failure_text

logger = logging.getLogger(__name__)

VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Protocol versions, newest first. The methods that this module answers are the same in all."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002

Document = dict[str, Any]


class ProtocolError(Exception):
    """The message is wrong: it is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Session:
    """One client, from its first message to the end of its input."""

    toolbox: Toolbox
    program_version: str
    methods: Mapping[str, Callable[[Document], Document]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        methods = {
            "initialize": self._initialize,
            "ping": lambda _: {},
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": lambda _: {"resourceTemplates": []},
            "resources/read": self._read_resource,
        }
        object.__setattr__(self, "methods", methods)

    def serve(self, lines: Iterable[str], send: Callable[[str], None]) -> None:
        """Answer each line, until the input ends."""
        for line in lines:
            reply = self.reply_to(line) if line.strip() else None
            if reply is not None:
                # (1) ASCII only: a caller may send a lone surrogate, which UTF-8 cannot encode.
                send(json.dumps(reply))

    def reply_to(self, line: str) -> Document | list[Document] | None:
        """The answer to a line; None for notifications. A batch is answered by a batch."""
        try:
            message = read_json(line)
        except ValueError as error:
            return _failure(None, PARSE_ERROR, f"the line is not JSON: {error}")
        if not isinstance(message, list) or not message:
            return self._reply(message)
        replies = [reply for each in message if (reply := self._reply(each)) is not None]
        return replies or None

    def _reply(self, message: object) -> Document | None:
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return _failure(None, INVALID_REQUEST, "a message is an object of JSON-RPC 2.0")
        identity, method = message.get("id"), message.get("method")
        if identity is None or "result" in message or "error" in message:
            return None  # a notification, or an answer; this server sends no requests
        if not isinstance(identity, str | int | float) or not isinstance(method, str):
            return _failure(None, INVALID_REQUEST, "a request has an id and a method")
        params = message.get("params")
        try:
            result = self._dispatch(method, {} if params is None else params)
        except ProtocolError as error:
            return _failure(identity, error.code, str(error))
        except OmnigraphError as error:
            return _failure(identity, INTERNAL_ERROR, f"{error.code}: {error}")
        except Exception as error:
            # (1) A bug in a tool must not end the session.
            logger.exception("%s failed", method)
            return _failure(identity, INTERNAL_ERROR, f"{type(error).__name__}; see the log")
        return {"jsonrpc": "2.0", "id": identity, "result": result}

    def _dispatch(self, method: str, params: object) -> Document:
        handle = self.methods.get(method)
        if handle is None:
            raise ProtocolError(METHOD_NOT_FOUND, f"there is no method '{method}'")
        if not isinstance(params, dict):
            raise ProtocolError(INVALID_PARAMS, "params is an object")
        return handle(params)

    def _initialize(self, params: Document) -> Document:
        requested = params.get("protocolVersion")
        return {
            "protocolVersion": requested if requested in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": "omnigraph", "version": self.program_version},
            "instructions": self.toolbox.instructions,
        }

    def _list_tools(self, _: Document) -> Document:
        return {"tools": [each.document() for each in self.toolbox.tools()]}

    def _call_tool(self, params: Document) -> Document:
        tool = _find_tool(self.toolbox.tools(), params.get("name"))
        arguments = params.get("arguments")
        try:
            result = tool.call({} if arguments is None else arguments)
        except OmnigraphError as error:
            failure = {"structuredContent": failure_document(error), "isError": True}
            return _content(failure_text(error)) | failure
        text = json.dumps(result, ensure_ascii=False)
        return _content(text) | {"structuredContent": result, "isError": False}

    def _list_resources(self, _: Document) -> Document:
        return {"resources": [each.document() for each in self.toolbox.resources()]}

    def _read_resource(self, params: Document) -> Document:
        uri = params.get("uri")
        found: Resource | None = next(
            (each for each in self.toolbox.resources() if each.uri == uri), None
        )
        if found is None:
            raise ProtocolError(RESOURCE_NOT_FOUND, f"there is no resource {uri!r}")
        return {"contents": [{"uri": found.uri, "mimeType": found.media, "text": found.read()}]}


def _find_tool(tools: Iterable[Tool], name: object) -> Tool:
    """Raises ProtocolError."""
    for each in tools:
        if each.name == name:
            return each
    raise ProtocolError(INVALID_PARAMS, f"there is no tool {name!r}")


def _content(text: str) -> Document:
    return {"content": [{"type": "text", "text": text}]}


def _failure(identity: object, code: int, message: str) -> Document:
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}}
