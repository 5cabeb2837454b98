"""How a bucket is reached: one set of options, resolved here and nowhere else.

obstore opens the objects of a graph and Lance opens its tables. Each of them reads options and the
environment by rules of its own: obstore ignores `AWS_ALLOW_HTTP` and profiles, the default regions
differ, and an endpoint in the environment may beat one in the options. So neither is left a choice.
`resolve_bucket` turns options, environment and AWS profile into one complete set under canonical
names, and both libraries are given all of it. Precedence of each option: the options of the caller,
then the environment, then the profile, then a default. Credentials come from one source as a whole.

Without credentials in any of them, both libraries ask the machine for its role: web identity,
container, instance metadata.
"""

import difflib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from typing import Any, Final
from urllib.parse import urlsplit

from omnigraph.errors import ConfigInvalid, StoreUriInvalid
from omnigraph.storage.aws_profile import AwsProfile, read_profile

S3: Final = "s3://"

KEY_ID: Final = "aws_access_key_id"
SECRET: Final = "aws_secret_access_key"  # noqa: S105 - the name of an option
TOKEN: Final = "aws_session_token"  # noqa: S105 - the name of an option
PROFILE: Final = "aws_profile"
REGION: Final = "aws_region"
ENDPOINT: Final = "aws_endpoint"
ENDPOINT_OF_S3: Final = "aws_endpoint_url_s3"
VIRTUAL_HOSTED: Final = "aws_virtual_hosted_style_request"
PATH_STYLE: Final = "aws_s3_force_path_style"
UNSIGNED: Final = "aws_skip_signature"
ALLOW_HTTP: Final = "allow_http"
RETRIES: Final = "client_max_retries"
RETRY_TIMEOUT: Final = "client_retry_timeout"

_CREDENTIALS: Final = (KEY_ID, SECRET, TOKEN)


class _Kind(Enum):
    TEXT = auto()
    FLAG = auto()
    DURATION = auto()
    NUMBER = auto()


@dataclass(frozen=True, slots=True)
class _Option:
    """An option: its other spellings, and the variables that supply it, first match first."""

    kind: _Kind = _Kind.TEXT
    spellings: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    is_of_client: bool = False
    """obstore takes it as an option of its HTTP client."""
    default: str | None = None


def _aws(
    name: str, kind: _Kind = _Kind.TEXT, *spellings: str, default: str | None = None
) -> _Option:
    return _Option(kind, (name.removeprefix("aws_"), *spellings), (name.upper(),), default=default)


_OPTIONS: Final[Mapping[str, _Option]] = {
    KEY_ID: _aws(KEY_ID),
    SECRET: _aws(SECRET),
    TOKEN: _aws(TOKEN, _Kind.TEXT, "aws_token", "token"),
    PROFILE: _Option(spellings=("profile",), variables=("AWS_PROFILE", "AWS_DEFAULT_PROFILE")),
    REGION: _Option(
        spellings=("region", "aws_default_region", "default_region"),
        variables=("AWS_REGION", "AWS_DEFAULT_REGION"),
        default="us-east-1",
    ),
    ENDPOINT: _Option(
        spellings=("endpoint", "endpoint_url", "aws_endpoint_url", ENDPOINT_OF_S3),
        variables=("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    ),
    VIRTUAL_HOSTED: _aws(VIRTUAL_HOSTED, _Kind.FLAG, default="false"),
    PATH_STYLE: _aws(PATH_STYLE, _Kind.FLAG, "force_path_style"),
    UNSIGNED: _aws(UNSIGNED, _Kind.FLAG, default="false"),
    "aws_unsigned_payload": _aws("aws_unsigned_payload", _Kind.FLAG),
    "aws_checksum_algorithm": _aws("aws_checksum_algorithm"),
    "aws_request_payer": _aws("aws_request_payer", _Kind.FLAG),
    "aws_server_side_encryption": _aws("aws_server_side_encryption"),
    "aws_sse_kms_key_id": _aws("aws_sse_kms_key_id"),
    "aws_sse_bucket_key_enabled": _aws("aws_sse_bucket_key_enabled", _Kind.FLAG),
    ALLOW_HTTP: _Option(_Kind.FLAG, ("aws_allow_http",), ("AWS_ALLOW_HTTP",), True, "false"),
    "allow_invalid_certificates": _Option(_Kind.FLAG, is_of_client=True),
    "proxy_url": _Option(is_of_client=True),
    "connect_timeout": _Option(_Kind.DURATION, is_of_client=True, default="5s"),
    "timeout": _Option(_Kind.DURATION, ("request_timeout",), is_of_client=True, default="30s"),
    RETRIES: _Option(_Kind.NUMBER, ("max_retries",), default="5"),
    RETRY_TIMEOUT: _Option(_Kind.NUMBER, ("retry_timeout",), default="60"),
}
"""Every option that both libraries understand."""

_BY_SPELLING: Final = {
    spelling: name for name, each in _OPTIONS.items() for spelling in (name, *each.spellings)
}
_TRUE: Final = frozenset({"true", "1", "yes", "on"})
_FALSE: Final = frozenset({"false", "0", "no", "off"})
_DURATION: Final = re.compile(r"(\d+)(ms|s|m)?")
_BUCKET: Final = re.compile(r"s3://([^/]+)(?:/(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class BucketAccess:
    """A bucket and the complete options that reach it, the same for obstore and for Lance."""

    uri: str
    bucket: str
    prefix: str
    options: Mapping[str, str] = field(repr=False)
    """Under canonical names; it may hold secrets."""

    @property
    def endpoint(self) -> str:
        """The address that is asked, for messages."""
        return self.options.get(ENDPOINT) or f"s3.{self.options[REGION]}.amazonaws.com"

    @property
    def has_credentials(self) -> bool:
        return KEY_ID in self.options

    def for_lance(self) -> dict[str, str]:
        """The storage options of Lance."""
        return dict(self.options)

    def for_obstore(self, *, retries_max: int | None = None) -> dict[str, Any]:
        """The arguments of a store of obstore."""
        rest = {k: v for k, v in self.options.items() if k not in (RETRIES, RETRY_TIMEOUT)}
        of_client = {name for name, each in _OPTIONS.items() if each.is_of_client}
        most = int(self.options[RETRIES]) if retries_max is None else retries_max
        return {
            "config": {name: value for name, value in rest.items() if name not in of_client},
            "client_options": {name: value for name, value in rest.items() if name in of_client},
            "retry_config": {
                "max_retries": most,
                "retry_timeout": timedelta(seconds=int(self.options[RETRY_TIMEOUT])),
            },
        }


def resolve_bucket(
    uri: str, options: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> BucketAccess:
    """Raises ConfigInvalid, StoreUriInvalid."""
    found = _BUCKET.fullmatch(uri)
    if found is None:
        raise StoreUriInvalid(uri, reason="it names no bucket")
    given = canonical_options(options)
    ambient = _from_environment(environment)
    profile = _find_profile(given, ambient, environment)
    resolved = {name: each.default for name, each in _OPTIONS.items() if each.default is not None}
    for source in (_from_profile(profile), ambient, given):
        resolved |= {name: value for name, value in source.items() if name not in _CREDENTIALS}
    resolved |= _find_credentials(given, ambient, profile, resolved)
    resolved.pop(PROFILE, None)
    resolved |= _addressing(resolved, found[1])
    return BucketAccess(uri, found[1], (found[2] or "").strip("/"), resolved)


def canonical_options(options: Mapping[str, object]) -> dict[str, str]:
    """The options under canonical names, with checked values. Raises ConfigInvalid."""
    found: dict[str, str] = {}
    for spelling, value in options.items():
        name = _BY_SPELLING.get(spelling.lower())
        if name is None:
            near = difflib.get_close_matches(spelling.lower(), _BY_SPELLING, 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(_OPTIONS)}"
            raise _invalid(spelling, f"there is no such option; {hint}")
        if not isinstance(value, str | int | float):
            raise _invalid(spelling, f"its value is text, not a {type(value).__name__}")
        checked = _checked(name, spelling, str(value))
        if found.setdefault(name, checked) != checked:
            raise _invalid(spelling, f"it is given twice, also as another spelling of {name}")
    return _with_one_style(found)


def overlay_options(below: Mapping[str, str], above: Mapping[str, str]) -> dict[str, str]:
    """Two sets as one; the upper one wins, and its credentials replace all those below.

    Raises ConfigInvalid.
    """
    lower, upper = canonical_options(below), canonical_options(above)
    of_account = (*_CREDENTIALS, PROFILE)
    if any(name in upper for name in of_account):
        lower = {name: value for name, value in lower.items() if name not in of_account}
    return lower | upper


def options_of_document(found: object, where: str) -> dict[str, str]:
    """The options of a configuration file, by name. Raises ConfigInvalid."""
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(
        isinstance(value, str | bool | int | float) for value in found.values()
    ):
        raise ConfigInvalid(where, reason="storage_options must be a mapping of names to texts")
    return {str(name): str(value) for name, value in found.items()}


def expand_variables(
    options: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The options of a file: `$NAME` and `${NAME}` stand for variables, `$$` for a dollar.

    Raises ConfigInvalid for a variable that is not set.
    """
    return {name: _expanded(name, value, environment) for name, value in options.items()}


_VARIABLE: Final = re.compile(r"\$(?:\$|(\w+)|\{(\w+)\})")


def _expanded(option: str, text: str, environment: Mapping[str, str]) -> str:
    def value_of(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if name is None:
            return "$"
        if name not in environment:
            raise _invalid(option, f"the variable {name} is not set")
        return environment[name]

    return _VARIABLE.sub(value_of, text)


# --- sources --------------------------------------------------------------------------------


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, option in _OPTIONS.items():
        for variable in option.variables:
            if environment.get(variable):
                found[name] = _checked(name, variable, environment[variable])
                break
    return _with_one_style(found)


def _find_profile(
    given: Mapping[str, str], ambient: Mapping[str, str], environment: Mapping[str, str]
) -> AwsProfile:
    return read_profile(given.get(PROFILE) or ambient.get(PROFILE), environment)


def _from_profile(profile: AwsProfile) -> dict[str, str]:
    named = {REGION: "region", ENDPOINT: "endpoint_url"}
    return {name: profile.values[key] for name, key in named.items() if key in profile.values}


def _find_credentials(
    given: Mapping[str, str],
    ambient: Mapping[str, str],
    profile: AwsProfile,
    resolved: Mapping[str, str],
) -> dict[str, str]:
    """Key, secret and token of one source. A token of another source would spoil them."""
    if resolved[UNSIGNED] == "true":
        return {}
    of_profile = {name: profile.values[name] for name in _CREDENTIALS if name in profile.values}
    sources = {"the storage options": given, "the environment": ambient}
    if PROFILE in given:
        sources = {"the storage options": given, f"AWS profile '{profile.name}'": of_profile}
    for where, source in (*sources.items(), (f"AWS profile '{profile.name}'", of_profile)):
        found = {name: source[name] for name in _CREDENTIALS if name in source}
        if not found:
            continue
        for each in (KEY_ID, SECRET):
            if each not in found:
                raise _invalid(each, f"{where} have {' and '.join(found)} without it")
        if source is not ambient and TOKEN in ambient and TOKEN not in found:
            raise _invalid(
                TOKEN,
                f"the keys are of {where}, and AWS_SESSION_TOKEN of the environment belongs to "
                "other keys; unset that variable, or give the token with the keys",
            )
        return found
    profile.check_direct()
    return {}


# --- values ---------------------------------------------------------------------------------


def _checked(name: str, spelling: str, value: str) -> str:
    """The value in the spelling that both libraries read. Errors never show it."""
    match _OPTIONS[name].kind:
        case _Kind.FLAG:
            if value.lower() not in _TRUE | _FALSE:
                raise _invalid(spelling, "it is true or false")
            return "true" if value.lower() in _TRUE else "false"
        case _Kind.DURATION:
            found = _DURATION.fullmatch(value)
            if found is None:
                raise _invalid(spelling, "it is a duration, such as 500ms, 5s or 2m")
            return f"{found[1]}{found[2] or 's'}"
        case _Kind.NUMBER if not value.isdecimal():
            raise _invalid(spelling, "it is a number")
        case _:
            return value


def _with_one_style(found: dict[str, str]) -> dict[str, str]:
    """Both options say where the bucket stands in the address. Raises ConfigInvalid."""
    by_path = found.pop(PATH_STYLE, None)
    if by_path is None:
        return found
    by_host = "false" if by_path == "true" else "true"
    if found.setdefault(VIRTUAL_HOSTED, by_host) != by_host:
        raise _invalid(VIRTUAL_HOSTED, f"it contradicts {PATH_STYLE}")
    return found


def _addressing(resolved: Mapping[str, str], bucket: str) -> dict[str, str]:
    """The endpoint, with the bucket in front of its host if the store wants that."""
    endpoint = resolved.get(ENDPOINT)
    if endpoint is None:
        return {}
    parts = urlsplit(endpoint)
    if (
        parts.scheme not in ("http", "https")
        or not parts.hostname
        or any(c.isspace() for c in endpoint)
    ):
        raise _invalid(ENDPOINT, "it is an address such as https://minio.example.org:9000")
    if parts.username or parts.password:
        raise _invalid(ENDPOINT, f"credentials do not belong into it; use {KEY_ID} and {SECRET}")
    if parts.scheme == "http" and resolved[ALLOW_HTTP] != "true":
        raise _invalid(
            ENDPOINT, f"it is not encrypted; AWS_ALLOW_HTTP=true or {ALLOW_HTTP}=true allows that"
        )
    host = parts.netloc
    if resolved[VIRTUAL_HOSTED] == "true" and not host.startswith(f"{bucket}."):
        host = f"{bucket}.{host}"
    address = f"{parts.scheme}://{host}{parts.path.rstrip('/')}"
    # Lance and obstore prefer the second name, and would find it in the environment.
    return {ENDPOINT: address, ENDPOINT_OF_S3: address}


def _invalid(option: str, reason: str) -> ConfigInvalid:
    return ConfigInvalid(f"storage option {option}", reason=reason)
