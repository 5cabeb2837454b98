"""Profiles of the AWS configuration files: `~/.aws/config` and `~/.aws/credentials`.

Lance reads these files itself, obstore does not. So this module reads them for both. It takes what
stands in the files: keys, region and endpoint. Other ways to credentials (single sign-on, roles,
programs) need a client of AWS; they are refused with the command that exports their result.
"""

import configparser
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from omnigraph.errors import ConfigInvalid

DEFAULT: Final = "default"
_CONFIG: Final = "AWS_CONFIG_FILE"
_CREDENTIALS: Final = "AWS_SHARED_CREDENTIALS_FILE"
_INDIRECT: Final = (
    "sso_session",
    "sso_start_url",
    "role_arn",
    "credential_process",
    "credential_source",
    "source_profile",
)


@dataclass(frozen=True, slots=True)
class AwsProfile:
    name: str
    values: Mapping[str, str] = field(repr=False)

    @property
    def has_keys(self) -> bool:
        return "aws_access_key_id" in self.values

    def check_direct(self) -> None:
        """Raises ConfigInvalid for a profile whose credentials are not in the files."""
        for each in _INDIRECT:
            if each in self.values:
                export = f"aws configure export-credentials --profile {self.name} --format env"
                raise ConfigInvalid(
                    f"AWS profile '{self.name}'",
                    reason=f"its credentials come from {each}, which only AWS's own programs "
                    f"follow; put them into the environment: eval $({export})",
                )


def read_profile(name: str | None, environment: Mapping[str, str]) -> AwsProfile:
    """The named profile, or the default one, which may be missing. Raises ConfigInvalid."""
    wanted = name or DEFAULT
    config = _read(_place(environment, _CONFIG, "config"))
    credentials = _read(_place(environment, _CREDENTIALS, "credentials"))
    section = wanted if wanted == DEFAULT else f"profile {wanted}"
    if name is not None and not config.has_section(section) and not credentials.has_section(wanted):
        known = sorted({*credentials.sections(), *_profiles(config)})
        raise ConfigInvalid(
            f"AWS profile '{wanted}'",
            reason=f"it is in no configuration file of AWS; known: {', '.join(known) or 'none'}",
        )
    return AwsProfile(wanted, {**_values(config, section), **_values(credentials, wanted)})


def _profiles(config: configparser.RawConfigParser) -> list[str]:
    return [each.removeprefix("profile ") for each in config.sections()]


def _values(parsed: configparser.RawConfigParser, section: str) -> dict[str, str]:
    found = parsed.items(section) if parsed.has_section(section) else []
    return {name: value for name, value in found if value}


def _place(environment: Mapping[str, str], variable: str, name: str) -> Path:
    named = environment.get(variable)
    if named:
        return Path(named).expanduser()
    home = environment.get("HOME")
    return (Path(home) if home else Path.home()) / ".aws" / name


def _read(path: Path) -> configparser.RawConfigParser:
    # A section called `default` is the default profile, not the defaults of the other sections.
    parser = configparser.RawConfigParser(default_section="\0", strict=False)
    try:
        parser.read_string(path.read_text(encoding="utf-8"), source=str(path))
    except (FileNotFoundError, NotADirectoryError):
        return parser
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigInvalid(str(path), reason=str(error)) from error
    except configparser.Error as error:
        # The text of the error may quote the line, which may hold a key.
        raise ConfigInvalid(
            str(path), reason=f"it is no configuration of AWS ({type(error).__name__})"
        ) from None
    return parser
