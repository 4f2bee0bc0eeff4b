"""``ro-crate-metadata.json``: where a folder of results comes from, in the RO-Crate 1.1 vocabulary that archives read.

root dataset  hasPart  files          the folder
command       object   data           hash of the cohort, counts of its people and sites
command       instrument  brainroam   with the versions of everything beneath
command       result   root dataset
"""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from brainroam import __version__
from brainroam.utils.files import write_text

CRATE = "ro-crate-metadata.json"
PROFILE = "https://w3id.org/ro/crate/1.1"
PRIVATE = "Made from personal data: share it only with those who may have the data."
FORMATS = {".json": "application/json", ".csv": "text/csv", ".html": "text/html"}


def command_line() -> str:
    """The command that is running, as it would be typed."""
    program = Path(sys.argv[0])
    ours = program.parts[-2:] == ("brainroam", "__main__.py")  # python -m brainroam
    return shlex.join(["brainroam" if ours else program.name, *sys.argv[1:]])


def write_crate(
    folder: Path,
    name: str,
    description: str,
    data: Mapping[str, Any],
    versions: Mapping[str, str],
    commands: Sequence[str],
    date: str,
    files: Sequence[str],
) -> Path:
    """Describe a folder that is complete.

    Parameters
    ----------
    folder : Path
    name, description : str
    data : dict
        Facts of the cohort: ``manifest_hash``, counts of people and sites.
    versions : dict of str to str
        Packages, by name.
    commands : sequence of str
        Those that made it.
    date : str
        When, in ISO 8601.
    files : sequence of str
        What is in the folder; those that are not there are left out.
    """
    parts = [_file(file, folder / file) for file in files if (folder / file).is_file()]
    packages = [
        {"@id": f"#{package}", "@type": "SoftwareApplication", "name": package, "version": number}
        for package, number in sorted(versions.items())
        if package != "brainroam"
    ]
    facts = [
        {"@id": f"#data-{fact}", "@type": "PropertyValue", "name": fact, "value": value} for fact, value in data.items()
    ]
    actions = [
        {
            "@id": f"#command-{k}",
            "@type": "CreateAction",
            "name": command,
            "object": {"@id": "#data"},
            "instrument": {"@id": "#brainroam"},
            "result": {"@id": "./"},
        }
        for k, command in enumerate(commands, start=1)
    ]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": name,
        "description": description,
        "datePublished": date,
        "license": {"@id": "#licence"},
        "hasPart": _links(parts),
        "mentions": _links(actions),
    }
    about = {"@id": CRATE, "@type": "CreativeWork", "conformsTo": {"@id": PROFILE}, "about": {"@id": "./"}}
    cohort = {
        "@id": "#data",
        "@type": "CreativeWork",
        "name": "The cohort",
        "identifier": str(data["manifest_hash"]),
        "additionalProperty": _links(facts),
    }
    software = {
        "@id": "#brainroam",
        "@type": "SoftwareApplication",
        "name": "brainroam",
        "version": versions.get("brainroam", __version__),
        "softwareRequirements": _links(packages),
    }
    licence = {"@id": "#licence", "@type": "CreativeWork", "name": "Not for publication", "description": PRIVATE}
    graph = [about, root, *parts, *actions, cohort, *facts, software, *packages, licence]
    content = {"@context": f"{PROFILE}/context", "@graph": graph}
    return write_text(folder / CRATE, json.dumps(content, indent=2) + "\n")


def _file(name: str, path: Path) -> dict[str, Any]:
    form = FORMATS.get(path.suffix, "application/octet-stream")
    return {"@id": name, "@type": "File", "name": name, "encodingFormat": form, "contentSize": str(path.stat().st_size)}


def _links(entities: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    return [{"@id": entity["@id"]} for entity in entities]
