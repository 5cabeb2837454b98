"""What a load is measured against: the least that others do with the same files."""

import shutil
from pathlib import Path
from typing import Any

import duckdb
import lance
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from lance.fragment import write_fragments
from load_input import Many

ROWS_PER_FILE = 100_000
_DATA = pa.struct(
    [
        ("name", pa.string()),
        ("age", pa.int32()),
        ("city", pa.string()),
        ("score", pa.float64()),
        ("active", pa.bool_()),
        ("born", pa.string()),
        ("note", pa.string()),
        ("mail", pa.string()),
        ("since", pa.string()),
        ("weight", pa.float32()),
    ]
)
_ENVELOPE = pa.schema(
    [
        ("type", pa.string()),
        ("edge", pa.string()),
        ("from", pa.string()),
        ("to", pa.string()),
        ("data", _DATA),
    ]
)
_PERSON = ("name", "age", "city", "score", "active", "born", "note", "mail")
_KNOWS = ("since", "weight")


def arrow_and_lance(source: Path, folder: Path) -> None:
    """One process: parse blocks with pyarrow.json, write each type as fragments. No checks."""
    shutil.rmtree(folder, ignore_errors=True)
    waiting: dict[str, list[pa.Table]] = {"Person": [], "Knows": []}
    options = pj.ParseOptions(explicit_schema=_ENVELOPE, unexpected_field_behavior="error")
    blocks = pj.open_json(source, pj.ReadOptions(block_size=8 * 2**20), options)
    for batch in blocks:
        table = pa.Table.from_batches([batch])
        nodes = table.filter(pc.is_valid(table["type"]))
        edges = table.filter(pc.is_valid(table["edge"]))
        waiting["Person"].append(_shape(nodes, _PERSON, id=_field(nodes, "name")))
        ends: dict[str, Any] = {"src": edges["from"], "dst": edges["to"]}
        waiting["Knows"].append(_shape(edges, _KNOWS, id=edges["from"], **ends))
        for name, tables in waiting.items():
            if sum(each.num_rows for each in tables) >= ROWS_PER_FILE:
                _write(folder, name, tables)
    for name, tables in waiting.items():
        _write(folder, name, tables)


def _field(table: pa.Table, name: str) -> Any:
    return pc.struct_field(table["data"], name)


def _shape(table: pa.Table, names: tuple[str, ...], **more: Any) -> pa.Table:
    columns = {name: _field(table, name) for name in names}
    for name in ("born", "since"):
        if name in columns:
            columns[name] = pc.cast(columns[name], pa.date32())
    return pa.table({**more, **columns})


def _write(folder: Path, name: str, tables: list[pa.Table]) -> None:
    if sum(each.num_rows for each in tables):
        write_fragments(
            pa.concat_tables(tables), str(folder / name), max_rows_per_file=ROWS_PER_FILE
        )
    tables.clear()


_CHECKS = (
    "select id from person group by id having count(*) > 1",
    "select mail from person where mail is not null group by mail having count(*) > 1",
    "select 1 from knows anti join person on knows.src = person.id",
    "select 1 from knows anti join person on knows.dst = person.id",
    "select src from knows group by src having count(*) > 1000",
)


def duck(source: Path, folder: Path) -> None:
    """read_json to Parquet, and the checks of the load in SQL."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with duckdb.connect() as db:
        data = (
            "struct(name varchar, age int, city varchar, score double, active boolean, born date, "
            "note varchar, mail varchar, since date, weight float)"
        )
        columns = (
            "{\"type\": 'varchar', \"edge\": 'varchar', \"from\": 'varchar', \"to\": 'varchar', "
            f"\"data\": '{data}'}}"
        )
        lines = f"read_json('{source}', format='newline_delimited', columns={columns})"
        person = ", ".join(f"data.{name}" for name in _PERSON)
        db.execute(
            f"copy (select data.name as id, {person} from {lines} where type = 'Person') "
            f"to '{folder}/person.parquet'"
        )
        db.execute(
            'copy (select "from" as src, "to" as dst, data.since, data.weight '
            f"from {lines} where edge = 'Knows') to '{folder}/knows.parquet'"
        )
        for name in ("person", "knows"):
            db.execute(f"create view {name} as select * from '{folder}/{name}.parquet'")
        for check in _CHECKS:
            assert db.execute(f"{check} limit 1").fetchone() is None


def ladybug_copy(people: Path, knows: Path, folder: Path) -> None:
    import ladybug  # noqa: PLC0415 - only where it is measured

    shutil.rmtree(folder, ignore_errors=True)
    connection = ladybug.Connection(ladybug.Database(str(folder)))
    connection.execute("create node table Person(name string primary key, age int64)")
    connection.execute("create rel table Knows(from Person to Person, weight double)")
    connection.execute(f"copy Person from '{people}'")
    connection.execute(f"copy Knows from '{knows}'")
    connection.close()


def ladybug_copies(many: Many, folder: Path) -> None:
    import ladybug  # noqa: PLC0415 - only where it is measured

    connection = ladybug.Connection(ladybug.Database(str(folder)))
    for path in many.nodes:
        columns = "name string primary key, age int64, note string"
        connection.execute(f"create node table {path.stem}({columns})")
        connection.execute(f"copy {path.stem} from '{path}' (header=true)")
    for path, source, target in many.edges:
        connection.execute(
            f"create rel table {path.stem}(from {source} to {target}, weight double)"
        )
        connection.execute(f"copy {path.stem} from '{path}' (header=true)")
    connection.close()


def bare_merge(table: Path, rows: pa.Table) -> None:
    """Lance's own upsert, staged and committed, with nothing around it."""
    dataset = lance.dataset(str(table))
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.use_index(False).execute(rows)


def people_of(source: Path) -> pa.Table:
    """The rows of a file of people."""
    options = pj.ParseOptions(explicit_schema=_ENVELOPE, unexpected_field_behavior="error")
    table = pj.read_json(source, pj.ReadOptions(block_size=8 * 2**20), options)
    return _shape(table, _PERSON, id=_field(table, "name"))


def write_table(folder: Path, rows: pa.Table) -> None:
    lance.write_dataset(
        rows,
        str(folder),
        max_rows_per_file=ROWS_PER_FILE,
        data_storage_version="2.2",
        enable_stable_row_ids=True,
    )
