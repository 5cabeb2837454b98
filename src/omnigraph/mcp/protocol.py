"""The protocol: JSON-RPC messages, one a line, and what a server of tools and resources answers.

1. Whatever a caller sends is answered, and the session goes on: a line that is no message, a method
   nobody knows, a tool that fails.
2. What goes wrong inside a tool is an answer of that tool, so that a model can read it and do
   better. What is wrong with the message is an error of the protocol.
3. Nothing but answers is ever written to the output.
"""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from omnigraph.errors import OmnigraphError
from omnigraph.jsontext import read_json
from omnigraph.mcp.tools import Resource, Tool, Toolbox

logger = logging.getLogger(__name__)

VERSIONS: Final = ("2025-06-18", "2025-03-26", "2024-11-05")
"""Of the protocol, newest first. To us they differ in nothing."""

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002

Document = dict[str, Any]


class Refusal(Exception):
    """A message that cannot be carried out."""

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
        """Answer line by line, until there are no more."""
        for line in lines:
            reply = self.reply_to(line) if line.strip() else None
            if reply is not None:
                # (1) Escaped, because half a character that a caller sent can be sent back so.
                send(json.dumps(reply))

    def reply_to(self, line: str) -> Document | list[Document] | None:
        """The answer to a line; None if it asked for none. A batch is answered by a batch."""
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
            return None  # a notification, or an answer to what we never asked
        if not isinstance(identity, str | int | float) or not isinstance(method, str):
            return _failure(None, INVALID_REQUEST, "a request has an id and a method")
        params = message.get("params")
        try:
            result = self._carry_out(method, {} if params is None else params)
        except Refusal as refusal:
            return _failure(identity, refusal.code, str(refusal))
        except OmnigraphError as error:
            return _failure(identity, INTERNAL_ERROR, f"{error.code}: {error}")
        except Exception as error:
            # (1) A fault of ours must not end the session of somebody else.
            logger.exception("%s failed", method)
            return _failure(identity, INTERNAL_ERROR, f"{type(error).__name__}; see the log")
        return {"jsonrpc": "2.0", "id": identity, "result": result}

    def _carry_out(self, method: str, params: object) -> Document:
        act = self.methods.get(method)
        if act is None:
            raise Refusal(METHOD_NOT_FOUND, f"there is no method '{method}'")
        if not isinstance(params, dict):
            raise Refusal(INVALID_PARAMS, "params is an object")
        return act(params)

    def _initialize(self, params: Document) -> Document:
        wanted = params.get("protocolVersion")
        return {
            "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": "omnigraph", "version": self.program_version},
            "instructions": self.toolbox.instructions,
        }

    def _list_tools(self, _: Document) -> Document:
        return {"tools": [each.document() for each in self.toolbox.tools()]}

    def _call_tool(self, params: Document) -> Document:
        tool = _named(self.toolbox.tools(), params.get("name"))
        arguments = params.get("arguments")
        try:
            result = tool.call({} if arguments is None else arguments)
        except OmnigraphError as error:
            return _content(f"{error.code}: {error}") | {"isError": True}
        text = json.dumps(result, ensure_ascii=False)
        return _content(text) | {"structuredContent": result, "isError": False}

    def _list_resources(self, _: Document) -> Document:
        return {"resources": [each.document() for each in self.toolbox.resources()]}

    def _read_resource(self, params: Document) -> Document:
        wanted = params.get("uri")
        found: Resource | None = next(
            (each for each in self.toolbox.resources() if each.uri == wanted), None
        )
        if found is None:
            raise Refusal(RESOURCE_NOT_FOUND, f"there is no resource {wanted!r}")
        return {"contents": [{"uri": found.uri, "mimeType": found.media, "text": found.read()}]}


def _named(tools: Iterable[Tool], name: object) -> Tool:
    """Raises Refusal."""
    for each in tools:
        if each.name == name:
            return each
    raise Refusal(INVALID_PARAMS, f"there is no tool {name!r}")


def _content(text: str) -> Document:
    return {"content": [{"type": "text", "text": text}]}


def _failure(identity: object, code: int, message: str) -> Document:
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": message}}
